//! Edits: what they are, and where the index points then.

use bytes::Bytes;

use crate::name::NameCode;
use crate::syntax::trim;
use crate::{Message, Name, via};

use super::lines::{Decimal, Piece};
use super::top_via::{KnownVia, TopVia};
use super::validate::IS_ONCE;
use super::{Edits, Field, Source, Span};
use crate::list::first_value;

impl Message {
    /// Adds a field before the first of the same name, or else before all others.
    ///
    /// Here and in the other edits, a line end in a value that does not fold it is written as a
    /// space, so that no value can bring in a field of its own.
    #[inline(always)]
    pub fn push_front(&mut self, name: Name<'_>, value: impl AsRef<[u8]>) {
        // Where it is called the compiler mostly knows the name.
        match name {
            Name::Other(_) => self.push_any_front(name, value.as_ref()),
            _ => self.push_known_front(name.code(), value.as_ref()),
        }
    }

    #[inline(never)]
    fn push_known_front(&mut self, name: NameCode, value: &[u8]) {
        let at = self.0.fields.position(name).unwrap_or(0);
        let field = self.write_known_field(name, value);
        self.forget(name);
        self.insert(at, field);
    }

    #[cold]
    fn push_any_front(&mut self, name: Name<'_>, value: &[u8]) {
        let at = self.position(name).unwrap_or(0);
        let field = self.write_new_field(name, value);
        self.forget(field.name);
        self.insert(at, field);
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
    #[inline(always)]
    pub fn remove_first_value(&mut self, name: Name<'_>) -> bool {
        // Where it is called the compiler mostly knows the name.
        self.remove_first_alone(name.code()) || self.remove_any_first_value(name)
    }

    /// Takes away the first value of a name where the reader has seen that it has a field for itself.
    #[inline(never)]
    fn remove_first_alone(&mut self, name: NameCode) -> bool {
        let Some(at) = self.0.fields.position(name) else {
            return false;
        };
        let is_alone = self.0.fields[at].head > 0;
        if is_alone {
            self.forget(name);
            self.take_out(at);
        }
        is_alone
    }

    #[inline(never)]
    fn remove_any_first_value(&mut self, name: Name<'_>) -> bool {
        let code = name.code();
        if code == Name::Via.code() && self.remove_plain_via() {
            return true;
        }
        self.forget(code);
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

    /// Takes away the topmost Via where it is known how long it is, and it has a field for itself or stands right before the
    /// next.
    fn remove_plain_via(&mut self) -> bool {
        let known = self.0.seen.top_via.known();
        let length = known.and_then(TopVia::well_formed_length);
        let (Some(length), Some(at)) = (length, self.position(Name::Via)) else {
            return false;
        };
        let field = self.0.fields[at];
        let rest = match self.value_of(&field).split_at_checked(length) {
            Some((_, [])) => {
                self.forget(Name::Via.code());
                self.take_out(at);
                return true;
            }
            Some((_, [b',', b' ', rest @ ..] | [b',', rest @ ..])) => rest,
            _ => return false,
        };
        // Anything else might be no value.
        let is_next = rest.starts_with(b"SIP");
        if is_next {
            let start = field.value_end - rest.len() as u32;
            self.forget(Name::Via.code());
            self.cut_value(at, start);
        }
        is_next
    }

    /// Takes away a field.
    fn take_out(&mut self, at: usize) {
        let line = self.0.fields[at].line();
        self.0.fields.remove(at);
        let is_proper = !self.0.flaws.line_ends && !self.0.flaws.unterminated;
        self.0.edits = match self.0.edits {
            Edits::None if is_proper => Edits::Cut {
                start: line.start,
                end: line.end,
            },
            Edits::Cut { start, end } if line.start == end => Edits::Cut {
                start,
                end: line.end,
            },
            _ => Edits::Any,
        };
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
            self.0.edits = Edits::Any;
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
            self.0.edits = Edits::Any;
        }
        self.0.fields = fields;
    }

    /// Puts a value in the place of the first field of this name, whose spelling stays, and takes the
    /// others away; adds a field where there is none.
    pub fn replace(&mut self, name: Name<'_>, value: impl AsRef<[u8]>) {
        let Some(at) = self.position(name) else {
            return self.push_back(name, value);
        };
        self.rewrite_field(at, &[Piece::New(trim(value.as_ref()))]);
        self.remove_others(at, name);
    }

    /// Takes away the fields of a name of which this is the first one.
    fn remove_others(&mut self, at: usize, name: Name<'_>) {
        let code = name.code();
        if !self.may_be_repeated(code) {
            return;
        }
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
            self.rewrite_field(at, &[Piece::Old(field.value())]);
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
        let number = Decimal::of(hops.into());
        match self.position(Name::MaxForwards) {
            Some(at) => {
                let field = self.0.fields[at];
                self.forget(field.name);
                let field = self.write_number(&field, &number);
                self.0.fields.set(at, field);
                self.remove_others(at, Name::MaxForwards);
            }
            None => self.push_back(Name::MaxForwards, number.digits()),
        }
    }

    /// Adds the fields of this name of another message, as written there, behind those that are
    /// here.
    pub fn copy_fields(&mut self, other: &Message, name: Name<'_>) {
        for field in other.fields_named(name) {
            let copy = self.write_copy(other, field);
            self.insert_behind(name, copy);
        }
    }

    /// Changes the Request-URI. Nothing happens to a response.
    pub fn set_request_uri(&mut self, uri: &str) {
        if self.is_request() {
            self.write_request_line(uri);
        }
    }

    /// Sets a parameter of the topmost Via value, or adds it: received and rport of a request that
    /// came (RFC 3261 section 18.2.1, RFC 3581 section 4). Nothing happens where there is no Via.
    pub fn set_top_via_parameter(&mut self, name: &str, value: Option<&str>) {
        let vias = self.0.fields.iter().enumerate();
        let mut vias = vias.filter(|(_, field)| field.name == Name::Via.code());
        let Some((at, list)) =
            vias.find_map(|(at, field)| Some((at, first_value(self.value_of(field))?)))
        else {
            return;
        };
        let field = self.0.fields[at];
        let first = &self.value_of(&field)[list.value.clone()];
        let (separator, place) = match via::parameter_range(first, name) {
            Some(range) => (
                &b""[..],
                list.value.start + range.start..list.value.start + range.end,
            ),
            None => (&b";"[..], list.value.end..list.value.end),
        };
        let before = Span {
            end: field.value_start + place.start as u32,
            ..field.value()
        };
        let behind = Span {
            start: field.value_start + place.end as u32,
            ..field.value()
        };
        let equals = if value.is_some() { &b"="[..] } else { b"" };
        self.rewrite_field(
            at,
            &[
                Piece::Old(before),
                Piece::Clean(separator),
                Piece::New(name.as_bytes()),
                Piece::Clean(equals),
                Piece::New(value.unwrap_or_default().as_bytes()),
                Piece::Old(behind),
            ],
        );
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
        let value = Piece::Old(self.0.fields[at].value());
        self.rewrite_field(
            at,
            &[value, Piece::Clean(b";tag="), Piece::New(tag.as_bytes())],
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

    /// Forgets what is known of the fields of a name: they are about to change.
    fn forget(&mut self, name: NameCode) {
        if name == Name::Via.code() {
            self.0.seen.top_via = KnownVia::nothing();
        }
        if name == Name::CSeq.code() {
            self.0.seen.cseq = None;
        }
        if name == Name::MaxForwards.code() {
            self.0.seen.max_forwards = None;
        }
        if name == Name::Route.code() {
            self.0.seen.route = None;
        }
    }

    /// Puts a field behind the last of its name, or else behind all others but a Content-Length at
    /// the end.
    fn insert_behind(&mut self, name: Name<'_>, field: Field) {
        let code = name.code();
        self.forget(code);
        let last = self
            .0
            .fields
            .iter()
            .rposition(|field| self.is_named(field, code, name));
        let at = match (last, self.0.fields.last()) {
            (Some(last), _) => last + 1,
            (None, Some(end)) if end.name == Name::ContentLength.code() => self.0.fields.len() - 1,
            (None, _) => self.0.fields.len(),
        };
        self.insert(at, field);
    }

    /// Puts a field that was not there in its place.
    #[inline]
    fn insert(&mut self, at: usize, field: Field) {
        let is_once = field.name.bit() & IS_ONCE != 0;
        self.0.flaws.repeated |= is_once && self.0.fields.may_have(field.name);
        self.0.fields.insert(at, field);
    }

    /// `false` where no name of this code has more than one field.
    #[inline]
    pub(super) fn may_be_repeated(&self, name: NameCode) -> bool {
        self.0.flaws.repeated || name.bit() & IS_ONCE == 0
    }

    /// Writes the value of a field anew. The name stays as it is written.
    fn rewrite_field(&mut self, at: usize, value: &[Piece<'_>]) {
        let field = self.0.fields[at];
        self.forget(field.name);
        let end = field.start + u32::from(field.name_length);
        let spelling = Piece::Old(Span {
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
                self.rewrite_field(at, &[Piece::Old(rest)]);
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
                    head: 0,
                    ..field
                };
                self.0.fields.set(at, cut);
                self.0.edits = Edits::Any;
            }
        }
    }
}

#[cfg(test)]
mod tests;
