//! Our message.

use anyhow::Context;
use bytes::Bytes;
use sip::{Message, Name};

use super::{RECORD_ROUTE, REQUEST_URI, VIA};

/// As the trait of the others: octets out, in a buffer of their own.
pub(super) fn forward(invite: &Bytes) -> anyhow::Result<Vec<u8>> {
    let mut message = Message::read(invite.clone())?;
    message.validate()?;
    let max_forwards = message.max_forwards().context("Max-Forwards")?;
    message.set_request_uri(REQUEST_URI);
    message.replace(Name::MaxForwards, (max_forwards - 1).to_string());
    message.remove_first_value(Name::Route);
    message.push_front(Name::RecordRoute, RECORD_ROUTE);
    message.push_front(Name::Via, VIA);
    Ok(message.to_bytes().into())
}
