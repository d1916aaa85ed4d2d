//! What callers still use that is about to go.

use bytes::{Bytes, BytesMut};

use crate::{Message, Name, ReadError};

use super::Peek;

/// [`Peek`].
pub type Glance<'a> = Peek<'a>;

impl<'a> Peek<'a> {
    /// [`read`](Peek::read).
    pub fn of(octets: &'a [u8]) -> Option<Peek<'a>> {
        Peek::read(octets)
    }
}

/// What the copy of a request says that the request does not.
#[derive(Clone, Copy, Debug)]
pub struct Onward<'a> {
    /// Its Request-URI.
    pub request_uri: &'a str,
    /// Its Max-Forwards.
    pub max_forwards: u8,
    /// Its Max-Breadth.
    pub max_breadth: Option<u32>,
    /// Lines.
    pub record_routes: &'a str,
    /// A line.
    pub via: &'a str,
}

impl Message {
    /// Nothing.
    pub fn write_onward(&self, _onward: &Onward<'_>) -> Option<Bytes> {
        None
    }

    /// [`read`](Message::read).
    pub fn index(octets: Bytes) -> Result<Message, ReadError> {
        Message::read(octets)
    }

    /// The 100.
    pub fn trying(&self) -> Bytes {
        Message::response_to(self, 100, "Trying").to_bytes()
    }

    /// The head.
    pub fn write_response_head(
        &self,
        octets: &mut BytesMut,
        status: u16,
        reason: &str,
        to_tag: &str,
    ) {
        let mut response = Message::response_to(self, status, reason);
        response.set_to_tag(to_tag);
        response.remove_all(Name::ContentLength);
        let head = response.to_bytes();
        octets.extend_from_slice(&head[..head.len() - 2]);
    }
}
