//! Messages: one buffer with an index of its header fields (RFC 3261 section 7).

use bytes::Bytes;

use crate::name_addr::Contacts;
use crate::{Method, Name, NameAddr, NameAddrError, Via, ViaError};

/// How many header fields a message may have.
pub const MAXIMUM_FIELDS: usize = 512;

/// Why octets are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Nothing but line ends: a keep-alive.
    #[error("empty")]
    Empty,
    /// The start line is neither a request line nor a status line.
    #[error("no SIP start line")]
    StartLine,
    /// More header fields than [`MAXIMUM_FIELDS`].
    #[error("too many header fields")]
    TooManyFields,
    /// 4 GiB or more.
    #[error("too large")]
    TooLarge,
}

/// What is wrong with a message that could be read, and how a request is to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{status} {reason}")]
pub struct Violation {
    /// The status code: 400, 505, ...
    pub status: u16,
    /// The reason phrase.
    pub reason: &'static str,
}

/// A SIP message.
#[derive(Clone, Debug)]
pub struct Message {
    buffer: Bytes,
}

/// The values of all fields of one name, comma-separated lists taken apart.
#[derive(Clone, Debug)]
pub struct Values<'a> {
    message: &'a Message,
}

impl<'a> Iterator for Values<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let _ = self.message;
        todo!()
    }
}

impl Message {
    /// Reads a message that came as a datagram, or was cut out of a stream. Lenient: whatever has a
    /// recognisable start line is read; [`validate`](Message::validate) tells what is wrong with it.
    pub fn read(buffer: Bytes) -> Result<Message, ReadError> {
        Ok(Message { buffer })
    }

    /// Checks the rules that a message has to keep before it is processed.
    pub fn validate(&self) -> Result<(), Violation> {
        todo!()
    }

    /// A request without header fields.
    pub fn request(_method: Method, _uri: &str) -> Message {
        todo!()
    }

    /// The response to a request (RFC 3261 section 8.2.6): with the request's Via, From, To, Call-ID
    /// and CSeq, an empty body, and for a 100 also the Timestamp.
    pub fn response_to(_request: &Message, _status: u16, _reason: &str) -> Message {
        todo!()
    }

    /// The answer to a request that broke a rule, where enough of it can be read and it is not an
    /// ACK.
    pub fn rejection(_request: &Message, _violation: &Violation) -> Option<Message> {
        todo!()
    }

    /// Whether it is a request.
    pub fn is_request(&self) -> bool {
        todo!()
    }

    /// The method of a request; `None` for a response.
    pub fn method(&self) -> Option<&Method> {
        todo!()
    }

    /// The Request-URI as written; `None` for a response or where it is not UTF-8.
    pub fn request_uri(&self) -> Option<&str> {
        todo!()
    }

    /// The status code of a response; `None` for a request.
    pub fn status(&self) -> Option<u16> {
        todo!()
    }

    /// The reason phrase of a response; `None` for a request or where it is not UTF-8.
    pub fn reason(&self) -> Option<&str> {
        todo!()
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        todo!()
    }

    /// The body as shared octets.
    pub fn body_bytes(&self) -> Bytes {
        todo!()
    }

    /// Call-ID.
    pub fn call_id(&self) -> Option<&str> {
        todo!()
    }

    /// CSeq: number and method.
    pub fn cseq(&self) -> Option<(u32, Method)> {
        todo!()
    }

    /// From.
    pub fn from(&self) -> Option<NameAddr<'_>> {
        todo!()
    }

    /// To.
    pub fn to(&self) -> Option<NameAddr<'_>> {
        todo!()
    }

    /// The topmost Via value.
    pub fn top_via(&self) -> Option<Via<'_>> {
        todo!()
    }

    /// All Via values, topmost first.
    pub fn vias(&self) -> impl Iterator<Item = Result<Via<'_>, ViaError>> {
        self.values(Name::Via).map(Via::parse)
    }

    /// All Contact values.
    pub fn contacts(&self) -> Contacts<'_> {
        todo!()
    }

    /// All Route values, topmost first.
    pub fn routes(&self) -> impl Iterator<Item = Result<NameAddr<'_>, NameAddrError>> {
        self.values(Name::Route).map(NameAddr::parse)
    }

    /// All Record-Route values, topmost first.
    pub fn record_routes(&self) -> impl Iterator<Item = Result<NameAddr<'_>, NameAddrError>> {
        self.values(Name::RecordRoute).map(NameAddr::parse)
    }

    /// Max-Forwards.
    pub fn max_forwards(&self) -> Option<u8> {
        todo!()
    }

    /// Expires, in seconds.
    pub fn expires(&self) -> Option<u32> {
        todo!()
    }

    /// Content-Length as written.
    pub fn content_length(&self) -> Option<usize> {
        todo!()
    }

    /// Whether there is a field of this name.
    pub fn contains(&self, name: Name<'_>) -> bool {
        self.header_bytes(name).is_some()
    }

    /// The value of the first field of this name, where it is UTF-8.
    pub fn header(&self, name: Name<'_>) -> Option<&str> {
        std::str::from_utf8(self.header_bytes(name)?).ok()
    }

    /// The value of the first field of this name.
    pub fn header_bytes(&self, _name: Name<'_>) -> Option<&[u8]> {
        todo!()
    }

    /// The values of all fields of this name, a field each.
    pub fn headers(&self, _name: Name<'_>) -> impl Iterator<Item = &[u8]> {
        std::iter::empty()
    }

    /// The values of all fields of this name, comma-separated lists taken apart.
    pub fn values(&self, _name: Name<'_>) -> Values<'_> {
        Values { message: self }
    }

    /// As [`values`](Message::values), those that are UTF-8: option tags, methods and the like.
    pub fn text_values(&self, name: Name<'_>) -> impl Iterator<Item = &str> {
        self.values(name)
            .filter_map(|value| std::str::from_utf8(value).ok())
    }

    /// All fields in order: name and value.
    pub fn fields(&self) -> impl Iterator<Item = (Name<'_>, &[u8])> {
        std::iter::empty()
    }

    /// Adds a field before the first of the same name, or else before all others.
    pub fn push_front(&mut self, _name: Name<'_>, _value: impl AsRef<[u8]>) {
        todo!()
    }

    /// Adds a field behind the last of the same name, or else behind all others.
    pub fn push_back(&mut self, _name: Name<'_>, _value: impl AsRef<[u8]>) {
        todo!()
    }

    /// [`push_back`](Message::push_back), to be chained.
    #[must_use]
    pub fn with(mut self, name: Name<'_>, value: impl AsRef<[u8]>) -> Message {
        self.push_back(name, value);
        self
    }

    /// Takes away the first value of this name: one value of a comma-separated list, or a field.
    /// Returns whether there was one.
    pub fn remove_first_value(&mut self, _name: Name<'_>) -> bool {
        todo!()
    }

    /// Takes away all fields of this name. Returns how many there were.
    pub fn remove_all(&mut self, _name: Name<'_>) -> usize {
        todo!()
    }

    /// Puts a value in the place of the first field of this name and takes the others away; adds it
    /// where there is none.
    pub fn replace(&mut self, _name: Name<'_>, _value: impl AsRef<[u8]>) {
        todo!()
    }

    /// Adds the fields of this name of another message behind those that are here, as written.
    pub fn copy_fields(&mut self, _other: &Message, _name: Name<'_>) {
        todo!()
    }

    /// Changes the Request-URI. Nothing happens to a response.
    pub fn set_request_uri(&mut self, _uri: &str) {
        todo!()
    }

    /// Sets a parameter of the topmost Via value, or adds it.
    pub fn set_top_via_parameter(&mut self, _name: &str, _value: Option<&str>) {
        todo!()
    }

    /// Gives To a tag, unless it has one (RFC 3261 section 8.2.6.2).
    pub fn set_to_tag(&mut self, _tag: &str) {
        todo!()
    }

    /// Changes the body and its Content-Length; Content-Type too, which goes where it is `None`.
    pub fn set_body(&mut self, _content_type: Option<&str>, _body: Bytes) {
        todo!()
    }

    /// [`set_body`](Message::set_body), to be chained.
    #[must_use]
    pub fn with_body(mut self, content_type: &str, body: impl Into<Bytes>) -> Message {
        self.set_body(Some(content_type), body.into());
        self
    }

    /// Adds Content-Length where it is missing, as a stream demands it (RFC 3261 section 18.3).
    pub fn ensure_content_length(&mut self) {
        todo!()
    }

    /// The message as it goes on the wire.
    pub fn to_bytes(&self) -> Bytes {
        self.buffer.clone()
    }

    /// How many octets [`to_bytes`](Message::to_bytes) has.
    pub fn wire_length(&self) -> usize {
        todo!()
    }
}
