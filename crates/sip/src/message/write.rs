//! Writing: gathering what the edits have left and what they have written.

use bytes::Bytes;

use crate::Message;

use super::Span;

impl Message {
    /// The message as it goes on the wire. Nothing is copied where nothing was edited.
    pub fn to_bytes(&self) -> Bytes {
        if !self.edited {
            return self.received.clone();
        }
        // Exactly, or there would be a second allocation to remember the capacity.
        let mut octets = Vec::with_capacity(self.wire_length());
        for run in self.runs() {
            octets.extend_from_slice(self.text(run));
            octets.extend_from_slice(self.missing_line_end(run));
        }
        octets.extend_from_slice(b"\r\n");
        octets.extend_from_slice(self.body());
        octets.into()
    }

    /// How many octets [`to_bytes`](Message::to_bytes) has.
    pub fn wire_length(&self) -> usize {
        if !self.edited {
            return self.received.len();
        }
        let length = |line: Span| (line.end - line.start) as usize;
        let fields = self.fields.iter().map(|field| length(field.line));
        let header = length(self.start_line) + fields.sum::<usize>();
        let missing = match self.flaws.unterminated {
            true => self
                .runs()
                .map(|run| self.missing_line_end(run).len())
                .sum(),
            false => 0,
        };
        header + missing + b"\r\n".len() + self.body().len()
    }

    /// The start line and all fields, neighbours that lie side by side in one piece.
    fn runs(&self) -> impl Iterator<Item = Span> {
        let mut lines = self.fields.iter().map(|field| field.line);
        let mut next = Some(self.start_line);
        std::iter::from_fn(move || {
            let mut run = next.take()?;
            for line in lines.by_ref() {
                if line.source == run.source && line.start == run.end {
                    run.end = line.end;
                } else {
                    next = Some(line);
                    break;
                }
            }
            Some(run)
        })
    }

    /// What the last line lacks of a message that was cut short.
    fn missing_line_end(&self, run: Span) -> &'static [u8] {
        if self.flaws.unterminated && !self.text(run).ends_with(b"\n") {
            b"\r\n"
        } else {
            b""
        }
    }
}
