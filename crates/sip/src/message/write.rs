//! Writing: gathering what the edits have left and what they have written.

use bytes::{Bytes, BytesMut};

use crate::{Message, Name};

use super::{Edits, Source, Span};

impl Message {
    /// The message as it goes on the wire. Nothing is copied where nothing was edited.
    pub fn to_bytes(&self) -> Bytes {
        if self.0.edits == Edits::None {
            return self.0.received.clone();
        }
        if let Some(octets) = self.gather_few() {
            return octets.into();
        }
        // Exactly, or there would be a second allocation to remember the capacity.
        let mut octets = Vec::with_capacity(self.wire_length());
        self.gather(|part| octets.extend_from_slice(part));
        octets.into()
    }

    /// The message as it goes on the wire, where its lines are few pieces that all end as they should: one look at each
    /// field tells the pieces and the length.
    fn gather_few(&self) -> Option<Vec<u8>> {
        const FEW: usize = 8;
        if self.0.edits != Edits::Any || self.0.flaws.unterminated {
            return None;
        }
        let mut pieces = [&b""[..]; FEW];
        let mut count = 0;
        let mut last = self.0.start_line;
        let mut length = 0;
        for field in self.0.fields.iter() {
            if field.start == last.end && field.source == last.source {
                last.end = field.end;
                continue;
            }
            let piece = self.text(last);
            length += piece.len();
            *pieces.get_mut(count)? = piece;
            count += 1;
            last = field.line();
        }
        // What follows the last field mostly stands behind it, too.
        let end = b"\r\n";
        let is_whole = self.0.new_body.is_none()
            && last.source == Source::Received
            && last.end + end.len() as u32 == self.0.body_start;
        let (last, end, body) = match is_whole {
            true => (
                self.0.received.get(last.start as usize..)?,
                &b""[..],
                &b""[..],
            ),
            false => (self.text(last), &end[..], self.body()),
        };
        length += last.len() + end.len() + body.len();
        // Exactly, or there would be a second allocation to remember the capacity.
        let mut octets = Vec::with_capacity(length);
        for piece in pieces.get(..count)? {
            octets.extend_from_slice(piece);
        }
        octets.extend_from_slice(last);
        if !is_whole {
            octets.extend_from_slice(end);
            octets.extend_from_slice(body);
        }
        debug_assert_eq!(octets.len(), self.wire_length());
        Some(octets)
    }

    /// Appends the message as it goes on the wire.
    pub fn write_to(&self, octets: &mut BytesMut) {
        self.gather(|part| octets.extend_from_slice(part));
    }

    /// The 100 to this request as it goes on the wire: what [`response_to`](Message::response_to) makes (RFC 3261 section
    /// 8.2.6.1).
    pub fn trying(&self) -> Bytes {
        const LINE: &[u8] = b"SIP/2.0 100 Trying\r\n";
        const END: &[u8] = b"Content-Length: 0\r\n\r\n";
        if self.0.flaws.line_ends || self.0.flaws.unterminated {
            return Message::response_to(self, 100, "Trying").to_bytes();
        }
        let via = Name::Via.code();
        let others = [
            Name::From,
            Name::To,
            Name::CallId,
            Name::CSeq,
            Name::Timestamp,
        ];
        let others = others.map(|name| {
            let at = self.0.fields.position(name.code());
            at.map_or(&b""[..], |at| self.text(self.0.fields[at].line()))
        });
        let mut length = LINE.len() + END.len();
        for field in self.0.fields.iter().filter(|field| field.name == via) {
            length += (field.end - field.start) as usize;
        }
        for line in others {
            length += line.len();
        }
        let mut octets = Vec::with_capacity(length);
        octets.extend_from_slice(LINE);
        for field in self.0.fields.iter().filter(|field| field.name == via) {
            octets.extend_from_slice(self.text(field.line()));
        }
        for line in others {
            octets.extend_from_slice(line);
        }
        octets.extend_from_slice(END);
        octets.into()
    }

    /// Appends the beginning of the response to this request: what [`response_to`](Message::response_to) gives it,
    /// with this tag in To unless there is one, but Content-Length and the empty line. They and other fields are
    /// the caller's to write, of a response that is sent and not looked at again.
    pub fn write_response_head(
        &self,
        octets: &mut BytesMut,
        status: u16,
        reason: &str,
        to_tag: &str,
    ) {
        if self.0.flaws.line_ends || self.0.flaws.unterminated {
            let mut response = Message::response_to(self, status, reason);
            response.set_to_tag(to_tag);
            response.remove_all(Name::ContentLength);
            let runs = response.runs();
            runs.for_each(|run| octets.extend_from_slice(response.text(run)));
            return;
        }
        let digit = |weight: u16| b'0' + (status / weight % 10) as u8;
        octets.extend_from_slice(b"SIP/2.0 ");
        octets.extend_from_slice(&[digit(100), digit(10), digit(1), b' ']);
        octets.extend_from_slice(reason.as_bytes());
        octets.extend_from_slice(b"\r\n");
        for field in self.fields_named(Name::Via) {
            octets.extend_from_slice(self.text(field.line()));
        }
        for name in [Name::From, Name::To, Name::CallId, Name::CSeq] {
            let Some(at) = self.position(name) else {
                continue;
            };
            let field = &self.0.fields[at];
            if name != Name::To || self.to_tag().is_some() {
                octets.extend_from_slice(self.text(field.line()));
                continue;
            }
            let value = self.value_of(field);
            for part in [
                self.name_of(field),
                b": ",
                value,
                b";tag=",
                to_tag.as_bytes(),
                b"\r\n",
            ] {
                octets.extend_from_slice(part);
            }
        }
    }

    /// Hands on the parts of a message in their order.
    #[inline]
    fn gather(&self, mut part: impl FnMut(&[u8])) {
        let received = &self.0.received[..];
        match self.0.edits {
            Edits::None => return part(received),
            Edits::Cut { start, end } => {
                part(&received[..start as usize]);
                return part(&received[end as usize..]);
            }
            Edits::Any => {}
        }
        for run in self.runs() {
            part(self.text(run));
            part(self.missing_line_end(run));
        }
        part(b"\r\n");
        part(self.body());
    }

    /// How many octets [`to_bytes`](Message::to_bytes) has.
    pub fn wire_length(&self) -> usize {
        match self.0.edits {
            Edits::None => return self.0.received.len(),
            Edits::Cut { start, end } => return self.0.received.len() - (end - start) as usize,
            Edits::Any => {}
        }
        let length = |line: Span| (line.end - line.start) as usize;
        let fields = self.0.fields.iter().map(|field| length(field.line()));
        let header = length(self.0.start_line) + fields.sum::<usize>();
        let missing = match self.0.flaws.unterminated {
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
        let mut lines = self.0.fields.iter().map(|field| field.line());
        let mut next = Some(self.0.start_line);
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
        if self.0.flaws.unterminated && !self.text(run).ends_with(b"\n") {
            b"\r\n"
        } else {
            b""
        }
    }
}
