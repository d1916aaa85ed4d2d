//! Writing: gathering what the edits have left and what they have written.

use bytes::Bytes;

use crate::Message;

impl Message {
    /// The message as it goes on the wire. Nothing is copied where nothing was edited.
    pub fn to_bytes(&self) -> Bytes {
        if !self.edited {
            return self.received.clone();
        }
        let mut octets = Vec::with_capacity(self.wire_length());
        for run in self.runs() {
            octets.extend_from_slice(run);
            octets.extend_from_slice(missing_line_end(run));
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
        let header: usize = self
            .runs()
            .map(|run| run.len() + missing_line_end(run).len())
            .sum();
        header + b"\r\n".len() + self.body().len()
    }

    /// The start line and all fields, neighbours that lie side by side in one piece.
    fn runs(&self) -> impl Iterator<Item = &[u8]> {
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
            Some(self.text(run))
        })
    }
}

/// What the last line of a message lacks that was cut short.
fn missing_line_end(run: &[u8]) -> &'static [u8] {
    if run.ends_with(b"\n") { b"" } else { b"\r\n" }
}
