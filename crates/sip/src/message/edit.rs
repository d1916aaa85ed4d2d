//! Edits, and gathering what they leave.

use bytes::Bytes;

use crate::name::NameCode;
use crate::syntax::trim;
use crate::{Message, Name, via};

use super::values::first_value;
use super::{Field, Source, Span, Start};

impl Message {
    /// Adds a field before the first of the same name, or else before all others.
    ///
    /// Here and in the other edits, a line end in a value that does not fold it is written as a
    /// space, so that no value can bring in a field of its own.
    pub fn push_front(&mut self, name: Name<'_>, value: impl AsRef<[u8]>) {
        let at = self.position(name).unwrap_or(0);
        let field = self.write_field(name.as_str().as_bytes(), name.code(), value.as_ref());
        self.fields.insert(at, field);
    }

    /// Adds a field behind the last of the same name, or else behind all others but Content-Length.
    pub fn push_back(&mut self, name: Name<'_>, value: impl AsRef<[u8]>) {
        let field = self.write_field(name.as_str().as_bytes(), name.code(), value.as_ref());
        self.insert_behind(name, field);
    }

    /// [`push_back`](Message::push_back), to be chained.
    #[must_use]
    pub fn with(mut self, name: Name<'_>, value: impl AsRef<[u8]>) -> Message {
        self.push_back(name, value);
        self
    }

    /// Takes away the first value of this name: one value of a comma-separated list, or a field.
    /// Returns whether there was one.
    pub fn remove_first_value(&mut self, name: Name<'_>) -> bool {
        while let Some(at) = self.position(name) {
            let field = self.fields[at];
            let value = self.value_of(&field);
            let first = first_value(value);
            let rest = match &first {
                Some(first) if name.is_list() => trim(&value[first.rest_start..]),
                _ => b"",
            };
            if first_value(rest).is_some() {
                let rest = rest.to_vec();
                let spelling = self.name_of(&field).to_vec();
                self.fields[at] = self.write_field(&spelling, field.name, &rest);
            } else {
                self.fields.remove(at);
                self.edited = true;
            }
            // A field without a value goes too, but does not count.
            if first.is_some() {
                return true;
            }
        }
        false
    }

    /// Takes away all fields of this name. Returns how many there were.
    pub fn remove_all(&mut self, name: Name<'_>) -> usize {
        let code = name.code();
        let mut fields = std::mem::take(&mut self.fields);
        let before = fields.len();
        fields.retain(|field| !self.is_named(field, code, name));
        let removed = before - fields.len();
        self.fields = fields;
        self.edited |= removed > 0;
        removed
    }

    /// Puts a value in the place of the first field of this name, whose spelling stays, and takes the
    /// others away; adds a field where there is none.
    pub fn replace(&mut self, name: Name<'_>, value: impl AsRef<[u8]>) {
        let Some(at) = self.position(name) else {
            return self.push_back(name, value);
        };
        let spelling = self.name_of(&self.fields[at]).to_vec();
        let field = self.write_field(&spelling, name.code(), value.as_ref());
        self.remove_all(name);
        self.fields.insert(at, field);
    }

    /// Adds the fields of this name of another message, as written there, behind those that are
    /// here.
    pub fn copy_fields(&mut self, other: &Message, name: Name<'_>) {
        for field in other.fields_named(name) {
            self.copy_field(other, name, field);
        }
    }

    /// Changes the Request-URI. Nothing happens to a response.
    pub fn set_request_uri(&mut self, uri: &str) {
        let Start::Request { method, .. } = &self.start else {
            return;
        };
        let method = method.clone();
        let (start, start_line) = self.write_request_line(method, uri);
        self.start = start;
        self.start_line = start_line;
        self.edited = true;
    }

    /// Sets a parameter of the topmost Via value, or adds it: received and rport of a request that
    /// came (RFC 3261 section 18.2.1, RFC 3581 section 4). Nothing happens where there is no Via.
    pub fn set_top_via_parameter(&mut self, name: &str, value: Option<&str>) {
        let Some((at, list)) = self.fields.iter().enumerate().find_map(|(at, field)| {
            let is_via = field.name == Name::Via.code();
            is_via
                .then(|| Some((at, first_value(self.value_of(field))?)))
                .flatten()
        }) else {
            return;
        };
        let field = self.fields[at];
        let values = self.value_of(&field);
        let mut edited = values[..list.value.start].to_vec();
        edited.extend_from_slice(&via::with_parameter(
            &values[list.value.clone()],
            name,
            value,
        ));
        edited.extend_from_slice(&values[list.value.end..]);
        let spelling = self.name_of(&field).to_vec();
        self.fields[at] = self.write_field(&spelling, field.name, &edited);
    }

    /// Gives To a tag, unless it has one (RFC 3261 section 8.2.6.2). Nothing happens where there is
    /// no To.
    pub fn set_to_tag(&mut self, tag: &str) {
        let Some(at) = self.position(Name::To) else {
            return;
        };
        if self.to().is_some_and(|to| to.tag().is_some()) {
            return;
        }
        let field = self.fields[at];
        let value = [self.value_of(&field), b";tag=", tag.as_bytes()].concat();
        let spelling = self.name_of(&field).to_vec();
        self.fields[at] = self.write_field(&spelling, field.name, &value);
    }

    /// Changes the body with its Content-Length and its Content-Type. A body without a type has no
    /// Content-Type.
    pub fn set_body(&mut self, content_type: Option<&str>, body: Bytes) {
        match content_type {
            Some(content_type) => self.replace(Name::ContentType, content_type),
            None => {
                self.remove_all(Name::ContentType);
            }
        }
        self.replace(Name::ContentLength, body.len().to_string());
        self.body = body;
    }

    /// [`set_body`](Message::set_body), to be chained.
    #[must_use]
    pub fn with_body(mut self, content_type: &str, body: impl Into<Bytes>) -> Message {
        self.set_body(Some(content_type), body.into());
        self
    }

    /// Adds Content-Length where it is missing, as a stream demands it (RFC 3261 section 18.3).
    pub fn ensure_content_length(&mut self) {
        if !self.contains(Name::ContentLength) {
            self.push_back(Name::ContentLength, self.body.len().to_string());
        }
    }

    /// The message as it goes on the wire. Nothing is copied where nothing was edited.
    pub fn to_bytes(&self) -> Bytes {
        if !self.edited {
            return self.received.clone();
        }
        let mut octets = Vec::with_capacity(self.wire_length());
        for run in self.runs() {
            octets.extend_from_slice(run);
            if !run.ends_with(b"\n") {
                octets.extend_from_slice(b"\r\n");
            }
        }
        octets.extend_from_slice(b"\r\n");
        octets.extend_from_slice(&self.body);
        octets.into()
    }

    /// How many octets [`to_bytes`](Message::to_bytes) has.
    pub fn wire_length(&self) -> usize {
        if !self.edited {
            return self.received.len();
        }
        let line_end = |run: &[u8]| if run.ends_with(b"\n") { 0 } else { 2 };
        self.runs()
            .map(|run| run.len() + line_end(run))
            .sum::<usize>()
            + 2
            + self.body.len()
    }

    /// The start line and all fields, neighbours that lie side by side in one piece.
    fn runs(&self) -> impl Iterator<Item = &[u8]> {
        let mut fields = self.fields.iter().map(|field| field.line);
        let mut next = Some(self.start_line);
        std::iter::from_fn(move || {
            let mut run = next.take()?;
            for line in fields.by_ref() {
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

    /// Puts a field behind the last of its name, or else behind all others but Content-Length.
    fn insert_behind(&mut self, name: Name<'_>, field: Field) {
        let code = name.code();
        let last = self
            .fields
            .iter()
            .rposition(|field| self.is_named(field, code, name));
        let at = match (last, self.fields.last()) {
            (Some(last), _) => last + 1,
            (None, Some(end)) if end.name == Name::ContentLength.code() => self.fields.len() - 1,
            (None, _) => self.fields.len(),
        };
        self.fields.insert(at, field);
    }

    /// Adds a field of another message.
    pub(super) fn copy_field(&mut self, other: &Message, name: Name<'_>, field: &Field) {
        let copy = self.write_field(other.name_of(field), field.name, other.value_of(field));
        self.insert_behind(name, copy);
    }

    /// Writes a line of a field.
    pub(super) fn write_field(&mut self, spelling: &[u8], name: NameCode, value: &[u8]) -> Field {
        let start = self.written.len();
        self.written.extend_from_slice(spelling);
        self.written.extend_from_slice(b": ");
        let value_start = self.written.len();
        self.write_value(trim(value));
        let value_end = self.written.len();
        self.written.extend_from_slice(b"\r\n");
        self.edited = true;
        Field {
            line: self.written_span(start),
            value_start: value_start as u32,
            value_end: value_end as u32,
            name_length: u16::try_from(spelling.len()).unwrap_or_default(),
            name,
        }
    }

    /// Writes a request line.
    pub(super) fn write_request_line(&mut self, method: crate::Method, uri: &str) -> (Start, Span) {
        let start = self.written.len();
        self.written.extend_from_slice(method.as_str().as_bytes());
        self.written.push(b' ');
        let uri_start = self.written.len();
        self.write_value(uri.as_bytes());
        let uri = self.written_span(uri_start);
        self.written.extend_from_slice(b" SIP/2.0\r\n");
        (Start::Request { method, uri }, self.written_span(start))
    }

    /// Writes a value: line ends that do not fold it become spaces.
    pub(super) fn write_value(&mut self, value: &[u8]) {
        let mut rest = value;
        while let Some(at) = memchr::memchr2(b'\r', b'\n', rest) {
            self.written.extend_from_slice(&rest[..at]);
            rest = &rest[at..];
            if let [b'\r', b'\n', space @ (b' ' | b'\t'), ..] = rest {
                self.written.extend_from_slice(&[b'\r', b'\n', *space]);
                rest = &rest[3..];
            } else {
                self.written.push(b' ');
                rest = &rest[1..];
            }
        }
        self.written.extend_from_slice(rest);
    }

    /// What has been written since.
    pub(super) fn written_span(&self, start: usize) -> Span {
        Span {
            start: start as u32,
            end: self.written.len() as u32,
            source: Source::Written,
        }
    }
}
