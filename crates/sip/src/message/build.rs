//! Making messages.

use bytes::Bytes;

use crate::{Message, Method, Name};

use super::{Flaws, Source, Span, Start, Violation};

impl Message {
    /// A request without header fields but `Content-Length: 0`.
    pub fn request(method: Method, uri: &str) -> Message {
        let mut message = Message::empty();
        (message.start, message.start_line) = message.write_request_line(method, uri);
        message.push_back(Name::ContentLength, "0");
        message
    }

    /// The response to a request (RFC 3261 section 8.2.6): the request's Via, From, To, Call-ID and
    /// CSeq, the Timestamp too for a 100, and no body. The tag of To is the caller's to set
    /// ([`set_to_tag`](Message::set_to_tag)).
    pub fn response_to(request: &Message, status: u16, reason: &str) -> Message {
        let mut message = Message::empty();
        message.write_status_line(status, reason);
        let vias = request
            .fields_named(Name::Via)
            .map(|field| (Name::Via, field));
        // Of the others there is one each, unless the request is malformed.
        let others = [
            Name::From,
            Name::To,
            Name::CallId,
            Name::CSeq,
            Name::Timestamp,
        ]
        .into_iter()
        .filter(|name| status == 100 || *name != Name::Timestamp)
        .filter_map(|name| Some((name, &request.fields[request.position(name)?])));
        for (_, field) in vias.chain(others) {
            let copy =
                message.write_field(request.name_of(field), field.name, request.value_of(field));
            message.fields.push(copy);
        }
        message.push_back(Name::ContentLength, "0");
        message
    }

    /// The answer to a request that breaks a rule, where one can be given: a response, an ACK, and a
    /// request whose topmost Via cannot be read are not answered.
    pub fn rejection(request: &Message, violation: &Violation) -> Option<Message> {
        let can_be_answered = request
            .method()
            .is_some_and(|method| *method != Method::Ack)
            && request.top_via().is_some();
        can_be_answered.then(|| Message::response_to(request, violation.status, violation.reason))
    }

    /// A message of which everything is yet to be written.
    fn empty() -> Message {
        let nothing = Span {
            start: 0,
            end: 0,
            source: Source::Written,
        };
        Message {
            start: Start::Response {
                status: 0,
                reason: nothing,
            },
            start_line: nothing,
            fields: Vec::with_capacity(16),
            received: Bytes::new(),
            written: Vec::with_capacity(512),
            body: Bytes::new(),
            edited: true,
            flaws: Flaws::default(),
        }
    }

    fn write_status_line(&mut self, status: u16, reason: &str) {
        let start = self.written.len();
        self.written
            .extend_from_slice(format!("SIP/2.0 {status:03} ").as_bytes());
        let reason_start = self.written.len();
        self.write_value(reason.as_bytes());
        let reason = self.written_span(reason_start);
        self.written.extend_from_slice(b"\r\n");
        self.start = Start::Response { status, reason };
        self.start_line = self.written_span(start);
    }
}
