//! Lines that edits write.

use crate::name::NameCode;
use crate::syntax::{has_control, trim};
use crate::{Message, Name};

use super::{Field, Source, Span, Start, WRITTEN_BYTES};

/// A part of a line that is to be written.
#[derive(Clone, Copy)]
pub(super) enum LinePart<'a> {
    /// New text. A line end in it that does not fold it is written as a space.
    New(&'a [u8]),
    /// What is in one of the message's buffers, as it is.
    Kept(Span),
}

impl Message {
    /// Writes a field that was not there.
    pub(super) fn write_new_field(&mut self, name: Name<'_>, value: &[u8]) -> Field {
        let spelling = LinePart::New(name.as_str().as_bytes());
        self.write_field(name.code(), spelling, &[LinePart::New(trim(value))])
    }

    /// Writes a line of a field.
    pub(super) fn write_field(
        &mut self,
        name: NameCode,
        spelling: LinePart<'_>,
        value: &[LinePart<'_>],
    ) -> Field {
        self.make_room();
        let start = self.0.written.len();
        self.write(spelling);
        let name_length = u16::try_from(self.0.written.len() - start).unwrap_or_default();
        self.0.written.extend_from_slice(b": ");
        let value_start = self.0.written.len();
        for part in value {
            self.write(*part);
        }
        let value_end = self.0.written.len();
        self.0.written.extend_from_slice(b"\r\n");
        self.0.is_edited = true;
        Field {
            start: start as u32,
            end: self.0.written.len() as u32,
            value_start: value_start as u32,
            value_end: value_end as u32,
            name_length,
            name,
            source: Source::Written,
        }
    }

    /// Writes the request line of a request with another Request-URI, and makes it the start line.
    pub(super) fn write_request_line(&mut self, new_uri: &str) {
        self.make_room();
        let contents = &mut *self.0;
        let Start::Request { method, uri } = &mut contents.start else {
            return;
        };
        let written = &mut contents.written;
        let start = written.len();
        write_unfolded(written, method.as_str().as_bytes());
        written.push(b' ');
        let uri_start = written.len();
        write_unfolded(written, new_uri.as_bytes());
        let uri_end = written.len();
        written.extend_from_slice(b" SIP/2.0\r\n");
        *uri = written_span(uri_start, uri_end);
        contents.start_line = written_span(start, written.len());
        contents.is_edited = true;
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
        write_unfolded(&mut self.0.written, reason.as_bytes());
        let reason = written_span(reason_start, self.0.written.len());
        self.0.written.extend_from_slice(b"\r\n");
        self.0.start = Start::Response { status, reason };
        self.0.start_line = written_span(start, self.0.written.len());
        self.0.is_edited = true;
    }

    /// Asks once for all the memory that edits usually take.
    fn make_room(&mut self) {
        if self.0.written.capacity() == 0 {
            self.0.written = Vec::with_capacity(WRITTEN_BYTES);
        }
    }

    #[inline(always)]
    fn write(&mut self, part: LinePart<'_>) {
        match part {
            LinePart::New(text) => write_new(&mut self.0.written, text),
            LinePart::Kept(span) => {
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

/// Appends new text to a start line, which no line continues: line ends are written as spaces.
fn write_unfolded(written: &mut Vec<u8>, text: &[u8]) {
    let start = written.len();
    written.extend_from_slice(text);
    for octet in &mut written[start..] {
        if matches!(octet, b'\r' | b'\n') {
            *octet = b' ';
        }
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
