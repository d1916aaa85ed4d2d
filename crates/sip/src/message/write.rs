//! Writing: gathering what the edits have left and what they have written.

use bytes::{Bytes, BytesMut};

use crate::Message;

use super::Span;

impl Message {
    /// The message as it goes on the wire. Nothing is copied where nothing was edited.
    pub fn to_bytes(&self) -> Bytes {
        if !self.0.is_edited {
            return self.0.received.clone();
        }
        // Exactly, or there would be a second allocation to remember the capacity.
        let mut octets = Vec::with_capacity(self.wire_length());
        self.gather(|part| octets.extend_from_slice(part));
        octets.into()
    }

    /// Appends the message as it goes on the wire.
    pub fn write_to(&self, octets: &mut BytesMut) {
        self.gather(|part| octets.extend_from_slice(part));
    }

    /// Hands on the parts of a message in their order.
    #[inline]
    fn gather(&self, mut part: impl FnMut(&[u8])) {
        if !self.0.is_edited {
            return part(&self.0.received);
        }
        for lines in self.neighbouring_lines() {
            part(self.text(lines));
            part(self.missing_line_end(lines));
        }
        part(b"\r\n");
        part(self.body());
    }

    /// How many octets [`to_bytes`](Message::to_bytes) has.
    pub fn wire_length(&self) -> usize {
        if !self.0.is_edited {
            return self.0.received.len();
        }
        let length = |line: Span| (line.end - line.start) as usize;
        let fields = self.0.fields.iter().map(|field| length(field.line()));
        let header = length(self.0.start_line) + fields.sum::<usize>();
        let missing = match self.0.line_flaws.unterminated {
            true => self
                .neighbouring_lines()
                .map(|lines| self.missing_line_end(lines).len())
                .sum(),
            false => 0,
        };
        header + missing + b"\r\n".len() + self.body().len()
    }

    /// The start line and all fields, neighbours that lie side by side in one span.
    fn neighbouring_lines(&self) -> impl Iterator<Item = Span> {
        let mut lines = self.0.fields.iter().map(|field| field.line());
        let mut next = Some(self.0.start_line);
        std::iter::from_fn(move || {
            let mut span = next.take()?;
            for line in lines.by_ref() {
                if line.source == span.source && line.start == span.end {
                    span.end = line.end;
                } else {
                    next = Some(line);
                    break;
                }
            }
            Some(span)
        })
    }

    /// What the last line lacks of a message that was cut short.
    fn missing_line_end(&self, lines: Span) -> &'static [u8] {
        if self.0.line_flaws.unterminated && !self.text(lines).ends_with(b"\n") {
            b"\r\n"
        } else {
            b""
        }
    }
}
