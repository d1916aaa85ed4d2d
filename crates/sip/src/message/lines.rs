//! Lines that edits write.

use crate::name::NameCode;
use crate::syntax::{has_control, trim};
use crate::{Message, Name};

use super::{Edits, Field, Source, Span, Start, WRITTEN_BYTES};

/// A part of a line that is to be written.
#[derive(Clone, Copy)]
pub(super) enum Piece<'a> {
    /// New text. A line end in it that does not fold it is written as a space.
    New(&'a [u8]),
    /// New text that is known to have no line end.
    Clean(&'a [u8]),
    /// What is in one of the message's buffers, as it is.
    Old(Span),
}

impl Message {
    /// Writes a field that was not there.
    pub(super) fn write_new_field(&mut self, name: Name<'_>, value: &[u8]) -> Field {
        match name {
            Name::Other(spelling) => self.write_field(
                name.code(),
                Piece::New(spelling.as_bytes()),
                &[Piece::New(trim(value))],
            ),
            _ => self.write_known_field(name.code(), value),
        }
    }

    /// [`write_new_field`](Message::write_new_field) of a name that has a variant of its own.
    #[inline]
    pub(super) fn write_known_field(&mut self, name: NameCode, value: &[u8]) -> Field {
        let spelling = name.spelling().as_bytes();
        let value = trim(value);
        if has_control(value) {
            return self.write_field(name, Piece::Clean(spelling), &[Piece::New(value)]);
        }
        self.make_room();
        let start = self.0.written.len();
        self.0.written.extend_from_slice(spelling);
        self.write_clean_value(start, name, spelling.len() as u16, value)
    }

    /// Writes a number as the value of a field whose name stays as it is written.
    pub(super) fn write_number(&mut self, field: &Field, number: &Decimal) -> Field {
        self.make_room();
        let start = self.0.written.len();
        self.write(Piece::Old(Span {
            end: field.start + u32::from(field.name_length),
            ..field.line()
        }));
        self.write_clean_value(start, field.name, field.name_length, number.digits())
    }

    /// Writes what stands behind the name of a line of which only that has been written, of a value without line ends.
    #[inline]
    fn write_clean_value(
        &mut self,
        start: usize,
        name: NameCode,
        name_length: u16,
        value: &[u8],
    ) -> Field {
        let written = &mut self.0.written;
        written.extend_from_slice(b": ");
        let value_start = written.len();
        written.extend_from_slice(value);
        let value_end = written.len();
        written.extend_from_slice(b"\r\n");
        let end = written.len();
        self.0.edits = Edits::Any;
        Field {
            start: start as u32,
            end: end as u32,
            value_start: value_start as u32,
            value_end: value_end as u32,
            name_length,
            head: 0,
            name,
            source: Source::Written,
            has_lone_tag: false,
        }
    }

    /// Writes a field of another message.
    pub(super) fn write_copy(&mut self, other: &Message, field: &Field) -> Field {
        let line = other.text(field.line());
        let is_ours = field.source == Source::Written;
        // Without line ends but those that end or fold it.
        if (is_ours || !other.0.flaws.line_ends) && line.ends_with(b"\r\n") {
            let start = self.0.written.len();
            self.0.written.extend_from_slice(line);
            self.0.edits = Edits::Any;
            let moved = |place: u32| place - field.start + start as u32;
            return Field {
                start: start as u32,
                end: moved(field.end),
                source: Source::Written,
                value_start: moved(field.value_start),
                value_end: moved(field.value_end),
                ..*field
            };
        }
        let spelling = Piece::New(other.name_of(field));
        self.write_field(field.name, spelling, &[Piece::New(other.value_of(field))])
    }

    /// Writes a line of a field.
    pub(super) fn write_field(
        &mut self,
        name: NameCode,
        spelling: Piece<'_>,
        value: &[Piece<'_>],
    ) -> Field {
        self.make_room();
        let start = self.0.written.len();
        self.write(spelling);
        let name_length = u16::try_from(self.0.written.len() - start).unwrap_or_default();
        self.0.written.extend_from_slice(b": ");
        let value_start = self.0.written.len();
        for piece in value {
            self.write(*piece);
        }
        let value_end = self.0.written.len();
        self.0.written.extend_from_slice(b"\r\n");
        self.0.edits = Edits::Any;
        Field {
            start: start as u32,
            end: self.0.written.len() as u32,
            value_start: value_start as u32,
            value_end: value_end as u32,
            name_length,
            head: 0,
            name,
            source: Source::Written,
            has_lone_tag: false,
        }
    }

    /// Writes the request line of a request with another Request-URI, and makes it the start line.
    pub(super) fn write_request_line(&mut self, new_uri: &str) {
        self.make_room();
        let contents = &mut *self.0;
        let Start::Request {
            method,
            uri,
            places,
        } = &mut contents.start
        else {
            return;
        };
        let written = &mut contents.written;
        let start = written.len();
        write_new(written, method.as_str().as_bytes());
        written.push(b' ');
        let uri_start = written.len();
        write_new(written, new_uri.as_bytes());
        let uri_end = written.len();
        written.extend_from_slice(b" SIP/2.0\r\n");
        *uri = written_span(uri_start, uri_end);
        *places = None;
        contents.start_line = written_span(start, written.len());
        contents.edits = Edits::Any;
    }

    /// Writes a status line, and makes it the start line.
    pub(super) fn write_status_line(&mut self, status: u16, reason: &str) {
        self.make_room();
        let start = self.0.written.len();
        self.0.written.extend_from_slice(b"SIP/2.0 ");
        let code = Decimal::of(status.into());
        let zeros = 3_usize.saturating_sub(code.digits().len());
        self.0.written.extend_from_slice(&b"000"[..zeros]);
        self.0.written.extend_from_slice(code.digits());
        self.0.written.push(b' ');
        let reason_start = self.0.written.len();
        self.write(Piece::New(reason.as_bytes()));
        let reason = written_span(reason_start, self.0.written.len());
        self.0.written.extend_from_slice(b"\r\n");
        self.0.start = Start::Response { status, reason };
        self.0.start_line = written_span(start, self.0.written.len());
        self.0.edits = Edits::Any;
    }

    /// Asks once for all the memory that edits usually take.
    fn make_room(&mut self) {
        if self.0.written.capacity() == 0 {
            self.0.written = Vec::with_capacity(WRITTEN_BYTES);
        }
    }

    #[inline(always)]
    fn write(&mut self, piece: Piece<'_>) {
        match piece {
            Piece::New(text) => write_new(&mut self.0.written, text),
            Piece::Clean(text) => self.0.written.extend_from_slice(text),
            Piece::Old(span) => {
                let range = span.start as usize..span.end as usize;
                match span.source {
                    Source::Received => self.0.written.extend_from_slice(&self.0.received[range]),
                    Source::Written => self.0.written.extend_from_within(range),
                }
            }
        }
    }
}

/// Appends new text.
#[inline]
fn write_new(written: &mut Vec<u8>, text: &[u8]) {
    match has_control(text) {
        false => written.extend_from_slice(text),
        true => write_folded(written, text),
    }
}

#[cold]
fn write_folded(written: &mut Vec<u8>, text: &[u8]) {
    let mut rest = text;
    while let Some(at) = memchr::memchr2(b'\r', b'\n', rest) {
        written.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        if let [b'\r', b'\n', space @ (b' ' | b'\t'), ..] = rest {
            written.extend_from_slice(&[b'\r', b'\n', *space]);
            rest = &rest[3..];
        } else {
            written.push(b' ');
            rest = &rest[1..];
        }
    }
    written.extend_from_slice(rest);
}

/// A span of what edits have written.
fn written_span(start: usize, end: usize) -> Span {
    Span {
        start: start as u32,
        end: end as u32,
        source: Source::Written,
    }
}

/// A number in digits.
pub(super) struct Decimal {
    octets: [u8; 20],
    start: usize,
}

impl Decimal {
    pub(super) fn of(mut number: usize) -> Decimal {
        let mut octets = [b'0'; 20];
        let mut start = octets.len() - 1;
        loop {
            octets[start] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                return Decimal { octets, start };
            }
            start -= 1;
        }
    }

    pub(super) fn digits(&self) -> &[u8] {
        &self.octets[self.start..]
    }
}
