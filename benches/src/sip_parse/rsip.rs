//! rsip.

use anyhow::Context;
use bytes::Bytes;
use rsip::headers::{ToTypedHeader, UntypedHeader};
use rsip::{Header, Request, SipMessage};

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

/// Parses a value that a proxy has to check. Lists have a typed form for Route and Record-Route alone.
fn check(header: &Header) -> Result<(), rsip::Error> {
    match header {
        Header::Via(value) => seen(value.typed()),
        Header::From(value) => seen(value.typed()),
        Header::To(value) => seen(value.typed()),
        Header::Contact(value) => seen(value.typed()),
        Header::Route(value) => seen(value.typed()),
        Header::RecordRoute(value) => seen(value.typed()),
        Header::CSeq(value) => seen(value.typed()),
        _ => Ok(()),
    }
}

/// The request as it is forwarded.
fn edited(mut request: Request) -> anyhow::Result<Vec<u8>> {
    request.uri = REQUEST_URI.try_into()?;
    let mut headers = Vec::with_capacity(20);
    headers.push(Header::Via(rsip::headers::Via::new(VIA)));
    headers.push(Header::RecordRoute(rsip::headers::RecordRoute::new(
        RECORD_ROUTE,
    )));
    let mut is_routed = false;
    for header in request.headers.into_iter() {
        headers.push(match header {
            Header::Route(_) if !is_routed => {
                is_routed = true;
                continue;
            }
            Header::MaxForwards(value) => {
                let value: u32 = value.value().parse().context("Max-Forwards")?;
                Header::MaxForwards(rsip::headers::MaxForwards::new((value - 1).to_string()))
            }
            other => other,
        });
    }
    request.headers = headers.into();
    Ok(SipMessage::from(request).into())
}
