//! Messages: one buffer with an index of its header fields (RFC 3261 section 7).

mod build;
mod edit;
mod fields;
mod index;
mod line_writer;
mod peek;
mod validate;
mod values;
mod write;

use std::fmt;
use std::sync::OnceLock;

use bytes::Bytes;

use crate::list::first_value;
use crate::name::NameCode;
use crate::name_addr::tag_of;
use crate::scanner::{HeaderField, LineFlaws};
use crate::syntax;
use crate::via::ViaParts;
use crate::{CSeq, Contact, Method, Name, NameAddr, NameAddrError, Uri, Via, ViaError};

use fields::Fields;
pub use peek::Peek;
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
    /// Whether it differs from `received`.
    is_edited: bool,
    /// What the reader let pass.
    line_flaws: LineFlaws,
    /// The topmost Via, parsed once: each layer that a message passes asks for it. It holds until a Via is edited.
    top_via: OnceLock<Option<TopVia>>,
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
            is_edited: self.0.is_edited,
            line_flaws: self.0.line_flaws,
            top_via: self.0.top_via.clone(),
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
    Request { method: Method, uri: Span },
    Response { status: u16, reason: Span },
}

/// The topmost Via value, and its parts.
#[derive(Clone, Copy, Debug)]
struct TopVia {
    value: Span,
    parts: ViaParts,
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
    name: NameCode,
    source: Source,
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
        Uri::parse(self.request_uri()?).ok()
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
        let cseq = self.parse_cseq()?;
        Some((cseq.number(), cseq.method()))
    }

    /// CSeq, its method as written.
    pub(crate) fn parse_cseq(&self) -> Option<CSeq<'_>> {
        CSeq::parse(self.header_bytes(Name::CSeq)?)
    }

    /// The sequence number in CSeq (RFC 3261 section 20.16).
    pub fn cseq_number(&self) -> Option<u32> {
        Some(self.parse_cseq()?.number())
    }

    /// The tag in From; `None` where there is none, or From is missing or malformed.
    pub fn from_tag(&self) -> Option<&str> {
        tag_of(self.header_bytes(Name::From)?)
    }

    /// The tag in To; `None` where there is none, or To is missing or malformed.
    pub fn to_tag(&self) -> Option<&str> {
        tag_of(self.header_bytes(Name::To)?)
    }

    /// [`from_tag`](Message::from_tag) in octets.
    pub fn from_tag_bytes(&self) -> Option<&[u8]> {
        self.from_tag().map(str::as_bytes)
    }

    /// [`to_tag`](Message::to_tag) in octets.
    pub fn to_tag_bytes(&self) -> Option<&[u8]> {
        self.to_tag().map(str::as_bytes)
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
        let found = self.0.top_via.get_or_init(|| self.find_top_via());
        let TopVia { value, parts } = found.as_ref()?;
        Some(Via::with_parts(self.text(*value), *parts))
    }

    fn find_top_via(&self) -> Option<TopVia> {
        let fields = self.fields_named(Name::Via);
        let (field, first) = fields
            .filter_map(|field| Some((field, first_value(self.value_of(field))?)))
            .next()?;
        let value = Span {
            start: field.value_start + first.value.start as u32,
            end: field.value_start + first.value.end as u32,
            source: field.source,
        };
        let parts = Via::parse(self.text(value)).ok()?.parts();
        Some(TopVia { value, parts })
    }

    /// Whether there is one Via value, or none at all: who has sent a request has put it there.
    pub fn has_one_via(&self) -> bool {
        self.values(Name::Via).nth(1).is_none()
    }

    /// All Via values, topmost first.
    pub fn vias(&self) -> impl Iterator<Item = Result<Via<'_>, ViaError>> {
        self.values(Name::Via).map(Via::parse)
    }

    /// All Contact values.
    pub fn contacts(&self) -> impl Iterator<Item = Result<Contact<'_>, NameAddrError>> + Clone {
        self.values(Name::Contact).map(Contact::parse)
    }

    /// All Route values, topmost first.
    pub fn routes(&self) -> impl Iterator<Item = Result<NameAddr<'_>, NameAddrError>> {
        self.values(Name::Route).map(NameAddr::parse)
    }

    /// All Record-Route values, topmost first.
    pub fn record_routes(&self) -> impl Iterator<Item = Result<NameAddr<'_>, NameAddrError>> {
        self.values(Name::RecordRoute).map(NameAddr::parse)
    }

    /// Max-Forwards (RFC 3261 section 20.22); `None` where it is missing or not a number up to 255.
    pub fn max_forwards(&self) -> Option<u8> {
        syntax::number(self.header_bytes(Name::MaxForwards)?)
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

    /// The fields of a name as they are in a message.
    fn header_fields<'a>(&'a self, name: Name<'a>) -> impl Iterator<Item = HeaderField<'a>> {
        self.fields_named(name)
            .map(|field| HeaderField::new(field.name, self.name_of(field), self.value_of(field)))
    }

    #[inline(always)]
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
