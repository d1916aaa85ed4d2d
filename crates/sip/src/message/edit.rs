//! Edits: what they are, and where the index points then.

use std::net::SocketAddr;
use std::sync::OnceLock;

use bytes::Bytes;

use crate::name::NameCode;
use crate::syntax::trim;
use crate::{Message, Name, via};

use super::line_writer::{Decimal, LinePart};
use super::{Field, Source, Span};
use crate::list::first_value;

impl Message {
    /// Adds a field before the first of the same name, or else before all others.
    ///
    /// Here and in the other edits, a line end in a value that does not fold it is written as a
    /// space, so that no value can bring in a field of its own.
    pub fn push_front(&mut self, name: Name<'_>, value: impl AsRef<[u8]>) {
        let at = self.position(name).unwrap_or(0);
        let field = self.write_new_field(name, value.as_ref());
        self.forget(field.name);
        self.0.fields.insert(at, field);
    }

    /// Adds a field behind the last of the same name, or else behind all others but a Content-Length
    /// at the end.
    pub fn push_back(&mut self, name: Name<'_>, value: impl AsRef<[u8]>) {
        let field = self.write_new_field(name, value.as_ref());
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
        self.forget(name.code());
        while let Some(at) = self.position(name) {
            let field = self.0.fields[at];
            let value = self.value_of(&field);
            let first = first_value(value);
            let rest = match &first {
                Some(first) if name.is_list() => trim(&value[first.rest_start..]),
                _ => b"",
            };
            if first_value(rest).is_some() {
                self.cut_value(at, field.value_end - rest.len() as u32);
            } else {
                self.take_out(at);
            }
            // A field without a value goes too, but does not count.
            if first.is_some() {
                return true;
            }
        }
        false
    }

    /// Takes away a field.
    fn take_out(&mut self, at: usize) {
        self.0.fields.remove(at);
        self.0.is_edited = true;
    }

    /// Takes away all fields of this name. Returns how many there were.
    pub fn remove_all(&mut self, name: Name<'_>) -> usize {
        let code = name.code();
        self.forget(code);
        let mut fields = std::mem::take(&mut self.0.fields);
        let before = fields.len();
        fields.retain(|field| !self.is_named(field, code, name));
        let removed = before - fields.len();
        self.0.fields = fields;
        if removed > 0 {
            self.0.is_edited = true;
        }
        removed
    }

    /// Takes away the fields of this name whose values do not stand a test. A value is that of a whole
    /// field: lists are not taken apart.
    pub fn retain(&mut self, name: Name<'_>, keep: impl Fn(&[u8]) -> bool) {
        let code = name.code();
        self.forget(code);
        let mut fields = std::mem::take(&mut self.0.fields);
        let before = fields.len();
        fields.retain(|field| !self.is_named(field, code, name) || keep(self.value_of(field)));
        if fields.len() < before {
            self.0.is_edited = true;
        }
        self.0.fields = fields;
    }

    /// Puts a value in the place of the first field of this name, whose spelling stays, and takes the
    /// others away; adds a field where there is none.
    pub fn replace(&mut self, name: Name<'_>, value: impl AsRef<[u8]>) {
        let Some(at) = self.position(name) else {
            return self.push_back(name, value);
        };
        self.rewrite_field(at, &[LinePart::New(trim(value.as_ref()))]);
        self.remove_others(at, name);
    }

    /// Takes away the fields of a name of which this is the first one.
    fn remove_others(&mut self, at: usize, name: Name<'_>) {
        let code = name.code();
        let mut others = self.0.fields[at + 1..].iter();
        if others.any(|field| field.name == code && self.is_named(field, code, name)) {
            let field = self.0.fields[at];
            self.remove_all(name);
            self.0.fields.insert(at, field);
        }
    }

    /// Shows each value of a name, with its number, to somebody who may write other octets in its place: no line ends, and
    /// no other values.
    pub fn overwrite_values(
        &mut self,
        name: Name<'_>,
        mut overwrite: impl FnMut(usize, &mut [u8]),
    ) {
        let code = name.code();
        let mut number = 0;
        for at in 0..self.0.fields.len() {
            let field = self.0.fields[at];
            if !self.is_named(&field, code, name) {
                continue;
            }
            self.rewrite_field(at, &[LinePart::Kept(field.value())]);
            let value = self.0.fields[at].value();
            let mut rest = &mut self.0.written[value.start as usize..value.end as usize];
            if !name.is_list() {
                overwrite(number, rest);
                number += 1;
                continue;
            }
            while let Some(first) = first_value(rest) {
                overwrite(number, &mut rest[first.value]);
                number += 1;
                rest = &mut rest[first.rest_start..];
            }
        }
    }

    /// Changes Max-Forwards, or adds it.
    pub fn set_max_forwards(&mut self, hops: u8) {
        self.replace(Name::MaxForwards, Decimal::of(hops.into()).digits());
    }

    /// Adds the fields of this name of another message, behind those that are here.
    pub fn copy_fields(&mut self, other: &Message, name: Name<'_>) {
        for field in other.header_fields(name) {
            let spelling = LinePart::New(field.name_text());
            let copy = self.write_field(field.code(), spelling, &[LinePart::New(field.value())]);
            self.insert_behind(name, copy);
        }
    }

    /// Changes the Request-URI. Nothing happens to a response.
    pub fn set_request_uri(&mut self, uri: &str) {
        if self.is_request() {
            self.write_request_line(uri);
        }
    }

    /// Sets a parameter of the topmost Via value, or adds it. Nothing happens where there is no Via.
    pub fn set_top_via_parameter(&mut self, name: &str, value: Option<&str>) {
        self.rewrite_top_via(|via| {
            let mut new = via.to_vec();
            via::set_parameter(&mut new, name, value);
            new
        });
    }

    /// Notes the source of a request in its topmost Via (RFC 3261 section 18.2.1, RFC 3581 section 4).
    pub(crate) fn note_source(&mut self, source: SocketAddr) {
        if let Some(value) = self.top_via().and_then(|via| via.with_source(source)) {
            self.rewrite_top_via(|_| value);
        }
    }

    /// Writes the topmost Via value anew, which `rewrite` makes of the old one.
    fn rewrite_top_via(&mut self, rewrite: impl FnOnce(&[u8]) -> Vec<u8>) {
        let vias = self.0.fields.iter().enumerate();
        let mut vias = vias.filter(|(_, field)| field.name == Name::Via.code());
        let Some((at, list)) =
            vias.find_map(|(at, field)| Some((at, first_value(self.value_of(field))?)))
        else {
            return;
        };
        let field = self.0.fields[at];
        let new = rewrite(&self.value_of(&field)[list.value.clone()]);
        let before = Span {
            end: field.value_start + list.value.start as u32,
            ..field.value()
        };
        let behind = Span {
            start: field.value_start + list.value.end as u32,
            ..field.value()
        };
        let value = [
            LinePart::Kept(before),
            LinePart::New(&new),
            LinePart::Kept(behind),
        ];
        self.rewrite_field(at, &value);
    }

    /// Gives To a tag, unless it has one (RFC 3261 section 8.2.6.2). Nothing happens where there is
    /// no To.
    pub fn set_to_tag(&mut self, tag: &str) {
        let Some(at) = self.position(Name::To) else {
            return;
        };
        if self.to_tag().is_some() {
            return;
        }
        let value = LinePart::Kept(self.0.fields[at].value());
        self.rewrite_field(
            at,
            &[
                value,
                LinePart::New(b";tag="),
                LinePart::New(tag.as_bytes()),
            ],
        );
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
        self.replace(Name::ContentLength, Decimal::of(body.len()).digits());
        self.0.new_body = Some(Box::new(body));
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
            let length = Decimal::of(self.body().len());
            self.push_back(Name::ContentLength, length.digits());
        }
    }

    /// Forgets what was parsed of the fields of a name: they are about to change.
    fn forget(&mut self, name: NameCode) {
        if name == Name::Via.code() {
            self.0.top_via = OnceLock::new();
        }
    }

    /// Puts a field behind the last of its name, or else behind all others but a Content-Length at
    /// the end.
    fn insert_behind(&mut self, name: Name<'_>, field: Field) {
        let code = name.code();
        self.forget(code);
        let fields = self.0.fields.where_may_be(code);
        let last = fields
            .iter()
            .rposition(|field| self.is_named(field, code, name));
        let at = match (last, self.0.fields.last()) {
            (Some(last), _) => last + 1,
            (None, Some(end)) if end.name == Name::ContentLength.code() => self.0.fields.len() - 1,
            (None, _) => self.0.fields.len(),
        };
        self.0.fields.insert(at, field);
    }

    /// Writes the value of a field anew. The name stays as it is written.
    fn rewrite_field(&mut self, at: usize, value: &[LinePart<'_>]) {
        let field = self.0.fields[at];
        self.forget(field.name);
        let end = field.start + u32::from(field.name_length);
        let spelling = LinePart::Kept(Span {
            end,
            ..field.line()
        });
        let written = self.write_field(field.name, spelling, value);
        self.0.fields.set(at, written);
    }

    /// Takes off a field's value what stands before `start`.
    ///
    /// A line of ours is cut where it stands, its name moved up to what is left: a peer decides how
    /// many values there are, and writing the rest anew for each would take memory and time that
    /// grow with the square of their number.
    fn cut_value(&mut self, at: usize, start: u32) {
        let field = self.0.fields[at];
        match field.source {
            Source::Received => {
                let rest = Span {
                    start,
                    ..field.value()
                };
                self.rewrite_field(at, &[LinePart::Kept(rest)]);
            }
            Source::Written => {
                let cut = start - field.value_start;
                let line_start = field.start + cut;
                self.0.written.copy_within(
                    field.start as usize..field.value_start as usize,
                    line_start as usize,
                );
                let cut = Field {
                    start: line_start,
                    value_start: start,
                    ..field
                };
                self.0.fields.set(at, cut);
                self.0.is_edited = true;
            }
        }
    }
}

#[cfg(test)]
mod tests;
