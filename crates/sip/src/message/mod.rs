//! Messages: one buffer with an index of its header fields (RFC 3261 section 7).

mod build;
mod edit;
mod fields;
mod glance;
mod index;
mod lines;
mod onward;
mod plain_via;
mod top_via;
mod usual;
mod validate;
mod values;
mod write;

use std::fmt;
use std::ops::Range;

use bytes::Bytes;

use crate::name::NameCode;
use crate::name_addr::Contacts;
use crate::syntax::{self, is_lws, trim_start};
use crate::uri::PlacedUri;
use crate::{Method, Name, NameAddr, NameAddrError, SipUri, Uri, Via, ViaError};

use fields::Fields;
pub use glance::Glance;
pub use onward::Onward;
use top_via::TopVia;
use usual::Seen;
pub use validate::Violation;
pub use values::Values;

/// A SIP message: what was received, an index of its header fields, and the edits made since.
///
/// Values are parsed when they are asked for. Edits are written to a buffer of their own and replace
/// entries of the index, so [`to_bytes`](Message::to_bytes) gathers what it finds: each line that no
/// edit is about goes out as it came, with its spelling, folding and place.
///
/// It is in a place of its own: messages are handed on often.
pub struct Message(Box<Contents>);

/// What a message has.
struct Contents {
    start: Start,
    start_line: Span,
    fields: Fields,
    /// The whole message as it came, from the start line on; empty for one that was built here.
    received: Bytes,
    /// Where the body begins in `received`.
    body_start: u32,
    /// The body that took the place of the one that came. Few messages have one.
    new_body: Option<Box<Bytes>>,
    /// Lines that edits have written, one behind the other.
    written: Vec<u8>,
    /// How it differs from `received`.
    edits: Edits,
    /// What the reader let pass.
    flaws: Flaws,
    /// Whether the reader has seen that what came keeps the rules of [`validate`](Message::validate).
    is_proved: bool,
    /// What the reader has seen of some values.
    seen: Seen,
}

/// A copy is made to be edited: it has room for what forwarding adds.
impl Clone for Message {
    fn clone(&self) -> Message {
        let mut written = Vec::with_capacity(self.0.written.len() + WRITTEN_BYTES);
        written.extend_from_slice(&self.0.written);
        Message(Box::new(Contents {
            start: self.0.start.clone(),
            start_line: self.0.start_line,
            fields: self.0.fields.clone_with_room(ADDED_FIELDS),
            received: self.0.received.clone(),
            body_start: self.0.body_start,
            new_body: self.0.new_body.clone(),
            written,
            edits: self.0.edits,
            flaws: self.0.flaws,
            is_proved: self.0.is_proved,
            seen: self.0.seen.clone(),
        }))
    }
}

/// Fields that edits usually add: Via, two of Record-Route, Max-Breadth.
const ADDED_FIELDS: usize = 4;

/// Octets that edits usually write.
const WRITTEN_BYTES: usize = 384;

/// What the start line says.
#[derive(Clone, Debug)]
enum Start {
    Request {
        method: Method,
        uri: Span,
        /// What the reader has seen of the URI.
        places: Option<PlacedUri>,
    },
    Response {
        status: u16,
        reason: Span,
    },
}

/// How a message differs from what was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edits {
    /// Not at all.
    None,
    /// Neighbouring lines are gone, which stood between these two places of a message whose lines all end as they
    /// should.
    Cut { start: u32, end: u32 },
    /// In any way.
    Any,
}

/// The first CSeq, where it keeps the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PlacedCSeq {
    number: u32,
    /// Where the method begins in what was received.
    method_start: u32,
    method_end: u32,
}

impl PlacedCSeq {
    fn method(&self) -> Range<usize> {
        self.method_start as usize..self.method_end as usize
    }
}

/// Which of a message's buffers a text is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Received,
    Written,
}

/// A text in one of a message's buffers.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    end: u32,
    source: Source,
}

/// A header field: where its line is, folds and line end included, and its parts in it.
#[derive(Clone, Copy, Debug)]
struct Field {
    start: u32,
    end: u32,
    value_start: u32,
    value_end: u32,
    name_length: u16,
    /// How long its value is without parameters, where the reader has seen that it is one value, which keeps the rules:
    /// Via, or an address with its URI in angle brackets. 0 where nobody has looked.
    head: u16,
    name: NameCode,
    source: Source,
    /// Whether all that follows the head, where there is one, is `;tag=` and its value.
    has_lone_tag: bool,
}

impl Field {
    fn line(&self) -> Span {
        Span {
            start: self.start,
            end: self.end,
            source: self.source,
        }
    }

    fn value(&self) -> Span {
        Span {
            start: self.value_start,
            end: self.value_end,
            source: self.source,
        }
    }

    /// The field as it is where nobody has looked at its value.
    #[cfg(test)]
    fn without_head(&self) -> Field {
        Field {
            head: 0,
            has_lone_tag: false,
            ..*self
        }
    }
}

/// Breaches of the rules that the index would otherwise not remember.
#[derive(Clone, Copy, Debug, Default)]
struct Flaws {
    /// A line that does not end with CRLF, or a CR within a line.
    line_ends: bool,
    /// The message ends before the empty line.
    unterminated: bool,
    /// A field that is to be there [once](validate::IS_ONCE) has been there twice.
    repeated: bool,
}

impl Message {
    /// Gives back the memory that was asked for in advance: for a message that is kept, and that few
    /// edits are to come to.
    pub fn shrink_to_fit(&mut self) {
        self.0.fields.shrink_to_fit();
        self.0.written.shrink_to_fit();
    }

    /// Whether it is a request.
    pub fn is_request(&self) -> bool {
        matches!(self.0.start, Start::Request { .. })
    }

    /// The method of a request; `None` for a response.
    pub fn method(&self) -> Option<&Method> {
        match &self.0.start {
            Start::Request { method, .. } => Some(method),
            Start::Response { .. } => None,
        }
    }

    /// The Request-URI as written; `None` for a response, or where it is not UTF-8.
    pub fn request_uri(&self) -> Option<&str> {
        match &self.0.start {
            Start::Request { uri, .. } => std::str::from_utf8(self.text(*uri)).ok(),
            Start::Response { .. } => None,
        }
    }

    /// The Request-URI in octets; `None` for a response.
    pub fn request_uri_bytes(&self) -> Option<&[u8]> {
        match &self.0.start {
            Start::Request { uri, .. } => Some(self.text(*uri)),
            Start::Response { .. } => None,
        }
    }

    /// The Request-URI, parsed; `None` for a response, or where it is malformed.
    pub fn parse_request_uri(&self) -> Option<Uri<'_>> {
        let Start::Request { places, .. } = &self.0.start else {
            return None;
        };
        let text = self.request_uri()?;
        let known = places.as_ref();
        match known.and_then(|places| SipUri::of_places(text, places)) {
            Some(uri) => Some(Uri::Sip(uri)),
            None => Uri::parse(text).ok(),
        }
    }

    /// The status code of a response; `None` for a request.
    pub fn status(&self) -> Option<u16> {
        match &self.0.start {
            Start::Request { .. } => None,
            Start::Response { status, .. } => Some(*status),
        }
    }

    /// The reason phrase of a response; `None` for a request, or where it is not UTF-8.
    pub fn reason(&self) -> Option<&str> {
        match &self.0.start {
            Start::Request { .. } => None,
            Start::Response { reason, .. } => std::str::from_utf8(self.text(*reason)).ok(),
        }
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        match &self.0.new_body {
            Some(body) => body,
            None => &self.0.received[self.0.body_start as usize..],
        }
    }

    /// The body as shared octets.
    pub fn body_bytes(&self) -> Bytes {
        match &self.0.new_body {
            Some(body) => Bytes::clone(body),
            None => self.0.received.slice(self.0.body_start as usize..),
        }
    }

    /// Call-ID (RFC 3261 section 20.8).
    pub fn call_id(&self) -> Option<&str> {
        self.header(Name::CallId)
    }

    /// CSeq: the sequence number and the method (RFC 3261 section 20.16).
    pub fn cseq(&self) -> Option<(u32, Method)> {
        let (number, method) = self.cseq_parts()?;
        Some((number, Method::from_octets(method)?))
    }

    /// CSeq as in [`cseq`](Message::cseq), the method as written.
    pub(crate) fn cseq_parts(&self) -> Option<(u32, &[u8])> {
        if let Some(cseq) = &self.0.seen.cseq {
            return Some((cseq.number, self.0.received.get(cseq.method())?));
        }
        let (number, method) = read_cseq(self.header_bytes(Name::CSeq)?)?;
        std::str::from_utf8(method)
            .is_ok()
            .then_some((number, method))
    }

    /// The sequence number in CSeq (RFC 3261 section 20.16).
    pub fn cseq_number(&self) -> Option<u32> {
        if let Some(cseq) = &self.0.seen.cseq {
            return Some(cseq.number);
        }
        let (number, _) = read_cseq(self.header_bytes(Name::CSeq)?)?;
        Some(number)
    }

    /// The tag in From; `None` where there is none, or From is missing or malformed.
    pub fn from_tag(&self) -> Option<&str> {
        std::str::from_utf8(self.tag(Name::From)?).ok()
    }

    /// [`from_tag`](Message::from_tag) in octets.
    pub fn from_tag_bytes(&self) -> Option<&[u8]> {
        self.tag(Name::From)
    }

    /// The tag in To; `None` where there is none, or To is missing or malformed.
    pub fn to_tag(&self) -> Option<&str> {
        std::str::from_utf8(self.tag(Name::To)?).ok()
    }

    /// [`to_tag`](Message::to_tag) in octets.
    pub fn to_tag_bytes(&self) -> Option<&[u8]> {
        self.tag(Name::To)
    }

    /// From; `None` where it is missing or malformed.
    pub fn from(&self) -> Option<NameAddr<'_>> {
        NameAddr::parse(self.header_bytes(Name::From)?).ok()
    }

    /// To; `None` where it is missing or malformed.
    pub fn to(&self) -> Option<NameAddr<'_>> {
        NameAddr::parse(self.header_bytes(Name::To)?).ok()
    }

    /// The topmost Via value; `None` where it is missing or malformed.
    pub fn top_via(&self) -> Option<Via<'_>> {
        self.0.seen.top_via.of(self)?.via(self)
    }

    /// The branch of the topmost Via.
    pub(crate) fn top_branch(&self) -> Option<&[u8]> {
        self.0.seen.top_via.of(self)?.branch(self)
    }

    /// Whether there is one Via value, or none at all: who has sent a request has put it there.
    pub fn has_one_via(&self) -> bool {
        let found = self.0.seen.top_via.of(self);
        let mut fields = self.headers(Name::Via);
        let is_whole = |value: &[u8]| {
            let length = found.and_then(TopVia::well_formed_length);
            length == Some(value.len())
        };
        match (fields.next(), fields.next()) {
            (Some(only), None) if is_whole(only) => true,
            _ => self.values(Name::Via).nth(1).is_none(),
        }
    }

    /// All Via values, topmost first.
    pub fn vias(&self) -> impl Iterator<Item = Result<Via<'_>, ViaError>> {
        self.values(Name::Via).map(Via::parse)
    }

    /// All Contact values.
    pub fn contacts(&self) -> Contacts<'_> {
        Contacts {
            values: self.values(Name::Contact),
        }
    }

    /// All Route values, topmost first.
    pub fn routes(&self) -> impl Iterator<Item = Result<NameAddr<'_>, NameAddrError>> {
        let mut first = self.known_route();
        let values = self.values(Name::Route);
        values.map(move |value| first.take().map_or_else(|| NameAddr::parse(value), Ok))
    }

    /// The first Route, where the reader has seen it.
    fn known_route(&self) -> Option<NameAddr<'_>> {
        let places = self.0.seen.route?;
        let field = &self.0.fields[self.0.fields.position(NameCode::of_known(Name::Route))?];
        NameAddr::of_places(self.value_of(field), field.head.into(), places)
    }

    /// All Record-Route values, topmost first.
    pub fn record_routes(&self) -> impl Iterator<Item = Result<NameAddr<'_>, NameAddrError>> {
        self.values(Name::RecordRoute).map(NameAddr::parse)
    }

    /// Max-Forwards (RFC 3261 section 20.22); `None` where it is missing or not a number up to 255.
    pub fn max_forwards(&self) -> Option<u8> {
        match self.0.seen.max_forwards {
            None => syntax::number(self.header_bytes(Name::MaxForwards)?),
            known => known,
        }
    }

    /// Expires in seconds (RFC 3261 section 20.19); `None` where it is missing or not a number below
    /// 2^32, which mean the same (section 10.2.1.1).
    pub fn expires(&self) -> Option<u32> {
        syntax::number(self.header_bytes(Name::Expires)?)
    }

    /// Content-Length as written; `None` where it is missing or not a number.
    pub fn content_length(&self) -> Option<usize> {
        syntax::number(self.header_bytes(Name::ContentLength)?)
    }

    /// Whether there is a field of this name.
    #[inline]
    pub fn contains(&self, name: Name<'_>) -> bool {
        self.position(name).is_some()
    }

    /// The value of the first field of this name, where it is UTF-8. It may be folded.
    pub fn header(&self, name: Name<'_>) -> Option<&str> {
        std::str::from_utf8(self.header_bytes(name)?).ok()
    }

    /// The value of the first field of this name. It may be folded.
    #[inline(always)]
    pub fn header_bytes(&self, name: Name<'_>) -> Option<&[u8]> {
        // Where it is asked for the compiler mostly knows the name.
        match name.code() {
            NameCode::OTHER => self.other_header(name),
            code => self.known_header(code),
        }
    }

    /// The values of all fields of this name, a field each.
    pub fn headers<'a>(&'a self, name: Name<'a>) -> impl Iterator<Item = &'a [u8]> {
        self.fields_named(name).map(|field| self.value_of(field))
    }

    /// The values of all fields of this name, comma-separated lists taken apart where the name is
    /// that of a list ([`Name::is_list`]). Empty values are passed over.
    pub fn values<'a>(&'a self, name: Name<'a>) -> Values<'a> {
        Values::new(self, name)
    }

    /// As [`values`](Message::values), those that are UTF-8: option tags, methods and the like.
    pub fn text_values<'a>(&'a self, name: Name<'a>) -> impl Iterator<Item = &'a str> {
        self.values(name)
            .filter_map(|value| std::str::from_utf8(value).ok())
    }

    /// All fields in order: name and value. Lines without a name have an empty one.
    pub fn fields(&self) -> impl Iterator<Item = (Name<'_>, &[u8])> {
        self.0.fields.iter().map(|field| {
            let name = field.name.name().unwrap_or_else(|| {
                Name::Other(std::str::from_utf8(self.name_of(field)).unwrap_or_default())
            });
            (name, self.value_of(field))
        })
    }

    fn known_header(&self, code: NameCode) -> Option<&[u8]> {
        let at = self.0.fields.position(code)?;
        Some(self.value_of(&self.0.fields[at]))
    }

    #[cold]
    fn other_header(&self, name: Name<'_>) -> Option<&[u8]> {
        let at = self.position_of_other(name)?;
        Some(self.value_of(&self.0.fields[at]))
    }

    /// The tag of an address, which is text.
    fn tag(&self, name: Name<'_>) -> Option<&[u8]> {
        const BEFORE: &str = ";tag=";
        let field = &self.0.fields[self.0.fields.position(name.code())?];
        let value = self.value_of(field);
        let parameters = value.get(usize::from(field.head)..).unwrap_or_default();
        if field.head == 0 {
            return tag_in(value).map(str::as_bytes);
        }
        match parameters.get(BEFORE.len()..) {
            Some(tag) if field.has_lone_tag => Some(tag),
            None if parameters.is_empty() => None,
            _ => tag_in(value).map(str::as_bytes),
        }
    }

    /// The index of the first field of a name.
    #[inline(always)]
    fn position(&self, name: Name<'_>) -> Option<usize> {
        let code = name.code();
        if code == NameCode::OTHER {
            return self.position_of_other(name);
        }
        self.0.fields.position(code)
    }

    #[cold]
    fn position_of_other(&self, name: Name<'_>) -> Option<usize> {
        let fields = self.0.fields.where_may_be(NameCode::OTHER);
        fields
            .iter()
            .position(|field| self.is_named(field, NameCode::OTHER, name))
    }

    fn fields_named<'a>(&'a self, name: Name<'a>) -> impl Iterator<Item = &'a Field> + Clone {
        let code = name.code();
        let fields = self.0.fields.where_may_be(code);
        fields
            .iter()
            .filter(move |field| self.is_named(field, code, name))
    }

    #[inline]
    fn is_named(&self, field: &Field, code: NameCode, name: Name<'_>) -> bool {
        field.name == code
            && (code != NameCode::OTHER
                || self
                    .name_of(field)
                    .eq_ignore_ascii_case(name.as_str().as_bytes()))
    }

    /// A field's name as written.
    fn name_of(&self, field: &Field) -> &[u8] {
        &self.text(field.line())[..usize::from(field.name_length)]
    }

    /// A field's value without the white space around it.
    fn value_of(&self, field: &Field) -> &[u8] {
        self.text(field.value())
    }

    fn text(&self, span: Span) -> &[u8] {
        &self.buffer(span.source)[span.start as usize..span.end as usize]
    }

    #[inline]
    fn buffer(&self, source: Source) -> &[u8] {
        match source {
            Source::Received => &self.0.received,
            Source::Written => &self.0.written,
        }
    }
}

/// The tag of an address.
fn tag_in(value: &[u8]) -> Option<&str> {
    match plain_tag(value) {
        Some(tag) => std::str::from_utf8(tag?).ok(),
        None => NameAddr::parse(value).ok()?.tag(),
    }
}

/// The tag of an address that is as most are: a URI in angle brackets and nothing else, or with a tag behind
/// it that is a token. `None` where that takes more than a glance.
fn plain_tag(value: &[u8]) -> Option<Option<&[u8]>> {
    let bracketed = value.strip_prefix(b"<")?;
    let (uri, behind) = bracketed.split_at(syntax::find(b'>', bracketed)?);
    if !uri.is_ascii() {
        return None;
    }
    match behind.strip_prefix(b">;tag=") {
        Some(tag) if syntax::is_token(tag) => Some(Some(tag)),
        None if behind == b">" => Some(None),
        _ => None,
    }
}

/// CSeq in its parts, the method as written.
fn read_cseq(value: &[u8]) -> Option<(u32, &[u8])> {
    let (number, method) = split_cseq(value)?;
    Some((syntax::number(number)?, method))
}

/// The number and the method of CSeq.
fn split_cseq(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let number_length = value.iter().position(|&octet| is_lws(octet))?;
    let (number, method) = value.split_at(number_length);
    Some((number, trim_start(method)))
}

/// The message as text, octets that are not UTF-8 replaced: for logs.
impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.to_bytes()))
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Message")
            .field(&String::from_utf8_lossy(&self.to_bytes()))
            .finish()
    }
}

#[cfg(test)]
mod tests;
