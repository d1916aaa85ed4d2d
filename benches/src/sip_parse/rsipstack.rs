//! rsipstack.

use anyhow::Context;
use bytes::Bytes;
use rsipstack::sip::headers::{MaxForwards, RecordRoute, Via};
use rsipstack::sip::{Error, Header, Request, typed};

use super::{RECORD_ROUTE, REQUEST_URI, VIA, seen};

pub(super) fn forward(invite: &Bytes) -> anyhow::Result<Vec<u8>> {
    edited(Request::try_from(&invite[..])?)
}

pub(super) fn check_and_forward(invite: &Bytes) -> anyhow::Result<Vec<u8>> {
    let request = Request::try_from(&invite[..])?;
    for header in request.headers.iter() {
        check(header)?;
    }
    edited(request)
}

/// Parses a value that a proxy has to check. Lists have a typed form for all but Via.
fn check(header: &Header) -> Result<(), Error> {
    match header {
        Header::Via(value) => seen(typed::Via::parse(value.value())),
        Header::From(value) => seen(typed::From::parse(value.value())),
        Header::To(value) => seen(typed::To::parse(value.value())),
        Header::Contact(value) => seen(typed::Contact::parse_header_list(value.value())),
        Header::Route(value) => seen(typed::Route::parse_header_list(value.value())),
        Header::RecordRoute(value) => seen(typed::RecordRoute::parse_header_list(value.value())),
        Header::CSeq(value) => seen(typed::CSeq::parse(value.value())),
        _ => Ok(()),
    }
}

/// The request as it is forwarded.
fn edited(mut request: Request) -> anyhow::Result<Vec<u8>> {
    request.uri = REQUEST_URI.try_into()?;
    let mut headers = Vec::with_capacity(20);
    headers.push(Header::Via(Via::new(VIA)));
    headers.push(Header::RecordRoute(RecordRoute::new(RECORD_ROUTE)));
    let mut is_routed = false;
    for header in request.headers.into_iter() {
        headers.push(match header {
            Header::Route(_) if !is_routed => {
                is_routed = true;
                continue;
            }
            Header::MaxForwards(value) => {
                let value: u32 = value.value().parse().context("Max-Forwards")?;
                Header::MaxForwards(MaxForwards::new((value - 1).to_string()))
            }
            other => other,
        });
    }
    request.headers = headers.into();
    Ok(request.to_bytes())
}
