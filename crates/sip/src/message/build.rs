//! Making messages.

use std::sync::OnceLock;

use bytes::Bytes;

use crate::scanner::{HeaderField, LineFlaws};
use crate::{Method, Name, Violation};

use super::fields::Fields;
use super::index::USUAL_FIELDS;
use super::line_writer::LinePart;
use super::{Contents, Message, Source, Span, Start, WRITTEN_BYTES};

/// What is yet to be written.
const NOTHING: Span = Span {
    start: 0,
    end: 0,
    source: Source::Written,
};

/// The fields of a request that each response copies, in their order (RFC 3261 section 8.2.6.2), and for a 100 its
/// Timestamp (section 8.2.6.1).
const COPIED: [Name<'static>; 6] = [
    Name::Via,
    Name::From,
    Name::To,
    Name::CallId,
    Name::CSeq,
    Name::Timestamp,
];

impl Message {
    /// A request without header fields but `Content-Length: 0`.
    pub fn request(method: Method, uri: &str) -> Message {
        let mut message = Message::empty(Start::Request {
            method,
            uri: NOTHING,
        });
        message.write_request_line(uri);
        message.push_back(Name::ContentLength, "0");
        message
    }

    /// The response to a request (RFC 3261 section 8.2.6): the request's Via, From, To, Call-ID and
    /// CSeq, the Timestamp too for a 100, and no body. The tag of To is the caller's to set
    /// ([`set_to_tag`](Message::set_to_tag)).
    pub fn response_to(request: &Message, status: u16, reason: &str) -> Message {
        Message::response_to_fields(status, reason, |name| request.header_fields(name))
    }

    /// [`response_to`](Message::response_to) a request whose fields of a name `fields` has.
    pub(super) fn response_to_fields<'a, F: Iterator<Item = HeaderField<'a>>>(
        status: u16,
        reason: &str,
        fields: impl Fn(Name<'static>) -> F,
    ) -> Message {
        let mut message = Message::empty(Start::Response {
            status,
            reason: NOTHING,
        });
        message.write_status_line(status, reason);
        for name in COPIED {
            let most = match name {
                Name::Via => usize::MAX,
                Name::Timestamp if status != 100 => 0,
                // There is one each, unless the request is malformed.
                _ => 1,
            };
            for field in fields(name).take(most) {
                message.copy_field(&field);
            }
        }
        message.push_back(Name::ContentLength, "0");
        message
    }

    /// The answer to a request that breaks a rule, where one can be given: a response, an ACK, and a
    /// request whose topmost Via cannot be read are not answered.
    pub fn rejection(request: &Message, violation: &Violation) -> Option<Message> {
        let is_answered = request
            .method()
            .is_some_and(|method| *method != Method::Ack);
        (is_answered && request.top_via().is_some())
            .then(|| Message::response_to(request, violation.status, violation.reason))
    }

    /// Adds a field of another message behind all others.
    fn copy_field(&mut self, field: &HeaderField<'_>) {
        let name = LinePart::New(field.name_text());
        let field = self.write_field(field.code(), name, &[LinePart::New(field.value())]);
        self.0.fields.push(field);
    }

    /// A message of which everything is yet to be written.
    fn empty(start: Start) -> Message {
        Message(Box::new(Contents {
            start,
            start_line: NOTHING,
            fields: Fields::with_capacity(USUAL_FIELDS),
            received: Bytes::new(),
            body_start: 0,
            new_body: None,
            written: Vec::with_capacity(WRITTEN_BYTES),
            is_edited: true,
            line_flaws: LineFlaws::default(),
            top_via: OnceLock::new(),
        }))
    }
}
