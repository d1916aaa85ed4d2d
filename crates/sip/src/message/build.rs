//! Making messages.

use bytes::Bytes;

use crate::{Method, Name};

use super::fields::Fields;
use super::usual::Seen;
use super::{Contents, Edits, Flaws, Message, Source, Span, Start, Violation};

/// What is yet to be written.
const NOTHING: Span = Span {
    start: 0,
    end: 0,
    source: Source::Written,
};

impl Message {
    /// A request without header fields but `Content-Length: 0`.
    pub fn request(method: Method, uri: &str) -> Message {
        let mut message = Message::empty(Start::Request {
            method,
            uri: NOTHING,
            places: None,
        });
        message.write_request_line(uri);
        message.push_back(Name::ContentLength, "0");
        message
    }

    /// The response to a request (RFC 3261 section 8.2.6): the request's Via, From, To, Call-ID and
    /// CSeq, the Timestamp too for a 100, and no body. The tag of To is the caller's to set
    /// ([`set_to_tag`](Message::set_to_tag)).
    pub fn response_to(request: &Message, status: u16, reason: &str) -> Message {
        let mut message = Message::empty(Start::Response {
            status,
            reason: NOTHING,
        });
        message.write_status_line(status, reason);
        for field in request.fields_named(Name::Via) {
            let copy = message.write_copy(request, field);
            message.0.fields.push(copy);
        }
        // Of these there is one each, unless the request is malformed.
        for name in [
            Name::From,
            Name::To,
            Name::CallId,
            Name::CSeq,
            Name::Timestamp,
        ] {
            let Some(at) = request.position(name) else {
                continue;
            };
            if status == 100 || name != Name::Timestamp {
                let copy = message.write_copy(request, &request.0.fields[at]);
                message.0.fields.push(copy);
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

    /// A message of which everything is yet to be written.
    fn empty(start: Start) -> Message {
        Message(Box::new(Contents {
            start,
            start_line: NOTHING,
            fields: Fields::with_capacity(16),
            received: Bytes::new(),
            body_start: 0,
            new_body: None,
            written: Vec::with_capacity(512),
            edits: Edits::Any,
            flaws: Flaws::default(),
            is_proved: false,
            seen: Seen::nothing(),
        }))
    }
}
