//! Our message.

use std::hint::black_box;

use anyhow::Context;
use bytes::Bytes;
use sip::{Message, Name, Uri};

use super::{RECORD_ROUTE, REQUEST_URI, VIA};

pub(super) fn forward(invite: &Bytes) -> anyhow::Result<Vec<u8>> {
    edited(Message::read(invite.clone())?)
}

pub(super) fn check_and_forward(invite: &Bytes) -> anyhow::Result<Vec<u8>> {
    let message = Message::read(invite.clone())?;
    message.validate()?;
    edited(message)
}

/// The request as it is forwarded.
fn edited(mut message: Message) -> anyhow::Result<Vec<u8>> {
    // The others parse it with the rest, and the new one, too.
    message.parse_request_uri().context("Request-URI")?;
    let max_forwards = message.max_forwards().context("Max-Forwards")?;
    black_box(Uri::parse(REQUEST_URI)?);
    message.set_request_uri(REQUEST_URI);
    message.set_max_forwards(max_forwards - 1);
    message.remove_first_value(Name::Route);
    message.push_front(Name::RecordRoute, RECORD_ROUTE);
    message.push_front(Name::Via, VIA);
    Ok(message.to_bytes().into())
}
