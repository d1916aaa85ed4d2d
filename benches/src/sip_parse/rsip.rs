//! rsip.

use anyhow::Context;
use bytes::Bytes;
use rsip::headers::UntypedHeader;
use rsip::{Header, Request, SipMessage};

use super::{RECORD_ROUTE, REQUEST_URI, VIA};

pub(super) fn forward(invite: &Bytes) -> anyhow::Result<Vec<u8>> {
    let mut request = Request::try_from(&invite[..])?;
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
