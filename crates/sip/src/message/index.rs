//! Reading: one pass of the [`Scanner`] makes the index.

use std::ops::Range;
use std::sync::OnceLock;

use bytes::{Buf, Bytes};

use crate::scanner::{FieldPlaces, ReadError, Scanner};
use crate::start_line::StartLinePlaces;

use super::fields::Fields;
use super::{Contents, Field, Message, Source, Span, Start};

impl Message {
    /// Reads a message that came as a datagram, or was cut out of a stream.
    ///
    /// The reader is lenient: whatever has a recognisable start line is read, so that it can be
    /// shown, and answered; [`validate`](Message::validate) tells what is wrong with it. Line ends
    /// before the start line are left out (RFC 3261 section 7.5), and so is what follows the body
    /// that Content-Length delimits (section 18.3). Where Content-Length is missing, malformed or
    /// too large, the body is what there is.
    pub fn read(octets: Bytes) -> Result<Message, ReadError> {
        Message::read_or_return(octets).map_err(|(error, _)| error)
    }

    /// As [`read`](Message::read), for who has a use for octets that are no message.
    pub fn read_or_return(octets: Bytes) -> Result<Message, (ReadError, Bytes)> {
        match Contents::index(&octets) {
            Ok((mut contents, length)) => {
                contents.received = octets;
                let skipped = contents.received.len() - length.available;
                contents.received.advance(skipped);
                contents.received.truncate(length.message);
                Ok(Message(contents))
            }
            Err(error) => Err((error, octets)),
        }
    }
}

/// How many octets there are from the start line on, and how many of them are the message.
struct Length {
    available: usize,
    message: usize,
}

impl Contents {
    /// Reads all but `received`, which is empty.
    fn index(octets: &[u8]) -> Result<(Box<Contents>, Length), ReadError> {
        let (start, mut scanner) = Scanner::with_places(octets)?;
        let start = match start {
            StartLinePlaces::Request { method, uri } => Start::Request {
                method,
                uri: received_span(uri),
            },
            StartLinePlaces::Response { status, reason } => Start::Response {
                status,
                reason: received_span(reason),
            },
        };
        let start_line = received_span(0..scanner.position());
        let mut fields = Fields::with_capacity(USUAL_FIELDS);
        while let Some(places) = scanner.next_places()? {
            fields.push(Field::received(&places));
        }
        let body_start = scanner.position();
        let contents = Contents {
            start,
            start_line,
            fields,
            received: Bytes::new(),
            body_start: body_start as u32,
            new_body: None,
            written: Vec::new(),
            is_edited: false,
            line_flaws: scanner.line_flaws(),
            top_via: OnceLock::new(),
        };
        let length = Length {
            available: scanner.octets().len(),
            message: body_start + scanner.body().len(),
        };
        Ok((Box::new(contents), length))
    }
}

/// How many fields there is room for at first.
pub(super) const USUAL_FIELDS: usize = 16;

impl Field {
    fn received(places: &FieldPlaces) -> Field {
        Field {
            start: places.start,
            end: places.end,
            value_start: places.value_start,
            value_end: places.value_end,
            name_length: places.name_length,
            name: places.name,
            source: Source::Received,
        }
    }
}

/// A span of what was received; its length was found to fit before anything is read.
fn received_span(range: Range<usize>) -> Span {
    Span {
        start: range.start as u32,
        end: range.end as u32,
        source: Source::Received,
    }
}
