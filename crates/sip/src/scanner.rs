//! The scanner of messages: one pass over the start line and the header fields, which keeps nothing.
//!
//! [`Message`](crate::Message) is an index of what it finds. Code that looks at many messages, and at few fields of each,
//! takes the fields from here.

use crate::Name;
use crate::content_length::ContentLength;
use crate::line_ends::{LineEnd, LineEnds};
use crate::name::NameCode;
use crate::start_line::{StartLine, StartLinePlaces};
use crate::syntax::{self, find_near, trim_end, trim_start};

/// How many header fields a message may have.
pub const MAXIMUM_FIELDS: usize = 512;

/// Why octets are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Nothing but line ends: a keep-alive (RFC 5626 section 3.5.1).
    #[error("empty")]
    Empty,
    /// The start line is neither a request line nor a status line of SIP.
    #[error("no SIP start line")]
    StartLine,
    /// More header fields than [`MAXIMUM_FIELDS`].
    #[error("too many header fields")]
    TooManyFields,
    /// 4 GiB or more.
    #[error("too large")]
    TooLarge,
}

/// Goes over the header fields of a message, one after the other.
///
/// It is lenient, so that a message can be shown and answered: a line may end with LF alone, the last one may have no end,
/// and a line may have no name.
#[derive(Clone, Debug)]
pub struct Scanner<'a> {
    /// From the start line on.
    octets: &'a [u8],
    line_ends: LineEnds<'a>,
    /// Where the next line begins; behind the empty line once that was found.
    at: usize,
    fields: usize,
    content_length: ContentLength,
    line_flaws: LineFlaws,
    has_ended: bool,
}

/// How lines break the rules of section 7.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LineFlaws {
    /// A line does not end with CRLF, or has a CR within.
    pub(crate) line_ends: bool,
    /// The message ends before the empty line.
    pub(crate) unterminated: bool,
}

/// A header field, borrowed from its message.
#[derive(Clone, Copy, Debug)]
pub struct HeaderField<'a> {
    name: NameCode,
    name_text: &'a [u8],
    value: &'a [u8],
}

/// Where a header field is, counted from the start line on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldPlaces {
    /// The line with its line end, and those that continue it.
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// The value, without the white space around it.
    pub(crate) value_start: u32,
    pub(crate) value_end: u32,
    pub(crate) name_length: u16,
    /// [`NameCode::MALFORMED`] where the line has no name that is a token.
    pub(crate) name: NameCode,
}

impl<'a> Scanner<'a> {
    /// Reads the start line. Line ends before it are left out (RFC 3261 section 7.5).
    ///
    /// # Errors
    ///
    /// When the octets do not begin with a start line of SIP.
    pub fn new(octets: &'a [u8]) -> Result<(StartLine<'a>, Scanner<'a>), ReadError> {
        let (places, scanner) = Scanner::with_places(octets)?;
        Ok((places.texts(scanner.octets), scanner))
    }

    /// [`new`](Scanner::new), with the places of the start line's texts, counted from its beginning.
    pub(crate) fn with_places(
        octets: &'a [u8],
    ) -> Result<(StartLinePlaces, Scanner<'a>), ReadError> {
        if u32::try_from(octets.len()).is_err() {
            return Err(ReadError::TooLarge);
        }
        let start = octets
            .iter()
            .position(|octet| !matches!(octet, b'\r' | b'\n'))
            .ok_or(ReadError::Empty)?;
        let octets = &octets[start..];
        let mut scanner = Scanner {
            octets,
            line_ends: LineEnds::new(octets),
            at: 0,
            fields: 0,
            content_length: ContentLength::Missing,
            line_flaws: LineFlaws::default(),
            has_ended: false,
        };
        let end = scanner.line_end(0);
        let places = StartLinePlaces::read(&octets[..end.end]).ok_or(ReadError::StartLine)?;
        scanner.at = end.next;
        Ok((places, scanner))
    }

    /// The next header field; `None` behind the last one.
    ///
    /// # Errors
    ///
    /// When there are more fields than [`MAXIMUM_FIELDS`].
    #[inline]
    pub fn next_field(&mut self) -> Result<Option<HeaderField<'a>>, ReadError> {
        let places = self.next_places()?;
        Ok(places.map(|places| self.field(&places)))
    }

    /// [`next_field`](Scanner::next_field) in places.
    #[inline]
    pub(crate) fn next_places(&mut self) -> Result<Option<FieldPlaces>, ReadError> {
        if self.has_ended {
            return Ok(None);
        }
        let start = self.at;
        if start >= self.octets.len() {
            self.line_flaws.unterminated = true;
            self.has_ended = true;
            return Ok(None);
        }
        let mut end = self.line_end(start);
        if end.end == start {
            self.at = end.next;
            self.has_ended = true;
            return Ok(None);
        }
        // A line that begins with white space continues the one before it (section 7.3.1).
        while matches!(self.octets.get(end.next), Some(b' ' | b'\t')) {
            end = self.line_end(end.next);
        }
        if self.fields == MAXIMUM_FIELDS {
            return Err(ReadError::TooManyFields);
        }
        self.fields += 1;
        self.at = end.next;
        let places = self.places(start, end);
        if places.name == NameCode::of_known(Name::ContentLength) {
            self.content_length.add(self.field(&places).value);
        }
        Ok(Some(places))
    }

    /// The body, once all fields were gone over; empty before.
    pub fn body(&self) -> &'a [u8] {
        if !self.has_ended {
            return b"";
        }
        let rest = &self.octets[self.at..];
        &rest[..self.content_length.body_length(rest.len())]
    }

    /// All octets from the start line on.
    pub(crate) fn octets(&self) -> &'a [u8] {
        self.octets
    }

    /// Where the next line begins, or the body once all fields were gone over, counted from the start line on.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// How the lines up to here break the rules.
    pub(crate) fn line_flaws(&self) -> LineFlaws {
        self.line_flaws
    }

    /// The end of the line that begins at a place; that of the octets where it has none.
    #[inline(always)]
    fn line_end(&mut self, start: usize) -> LineEnd {
        match self.line_ends.next_from(start) {
            Some(end) => {
                self.line_flaws.line_ends |= !end.is_proper;
                end
            }
            None => self.unterminated(),
        }
    }

    /// Takes a line apart: `header-name HCOLON header-value` (section 25.1).
    #[inline(always)]
    fn places(&self, start: usize, end: LineEnd) -> FieldPlaces {
        let text = &self.octets[start..end.end];
        let colon = find_near(b':', text);
        let name_text = trim_end(&text[..colon.unwrap_or(0)]);
        let (name, name_length) = match u16::try_from(name_text.len()) {
            Ok(length) if length > 0 => (name_code(name_text), length),
            _ => (NameCode::MALFORMED, 0),
        };
        let value = trim_start(&text[colon.map_or(0, |colon| colon + 1)..]);
        let value_start = end.end - value.len();
        FieldPlaces {
            start: start as u32,
            end: end.next as u32,
            value_start: value_start as u32,
            value_end: (value_start + trim_end(value).len()) as u32,
            name_length,
            name,
        }
    }

    #[inline]
    fn field(&self, places: &FieldPlaces) -> HeaderField<'a> {
        let start = places.start as usize;
        HeaderField {
            name: places.name,
            name_text: &self.octets[start..start + usize::from(places.name_length)],
            value: &self.octets[places.value_start as usize..places.value_end as usize],
        }
    }

    #[cold]
    fn unterminated(&mut self) -> LineEnd {
        self.line_flaws.unterminated = true;
        LineEnd {
            end: self.octets.len(),
            next: self.octets.len(),
            is_proper: true,
        }
    }
}

impl<'a> HeaderField<'a> {
    pub(crate) fn new(name: NameCode, name_text: &'a [u8], value: &'a [u8]) -> HeaderField<'a> {
        HeaderField {
            name,
            name_text,
            value,
        }
    }

    /// Its name; `None` for one that has no variant of its own, or a line that is no field.
    #[inline]
    pub fn name(&self) -> Option<Name<'static>> {
        self.name.name()
    }

    /// Its name as written; empty where the line is no field.
    pub fn name_text(&self) -> &'a [u8] {
        self.name_text
    }

    /// Its value, without the white space around it. It may be folded.
    #[inline]
    pub fn value(&self) -> &'a [u8] {
        self.value
    }

    /// The code of its name; [`NameCode::MALFORMED`] where the line has no name that is a token.
    #[inline]
    pub(crate) fn code(&self) -> NameCode {
        self.name
    }
}

#[inline]
fn name_code(name: &[u8]) -> NameCode {
    let code = NameCode::of(name);
    if code == NameCode::OTHER && !syntax::is_token(name) {
        return NameCode::MALFORMED;
    }
    code
}

/// Whether octets begin with a start line of SIP.
pub fn begins_with_start_line(octets: &[u8]) -> bool {
    Scanner::with_places(octets).is_ok()
}

/// The Call-ID of a message, as [`Message::call_id`](crate::Message::call_id) gives it.
pub fn peek_call_id(octets: &[u8]) -> Option<&str> {
    let (_, mut scanner) = Scanner::with_places(octets).ok()?;
    while let Some(field) = scanner.next_field().ok()? {
        if field.name == NameCode::of_known(Name::CallId) {
            return std::str::from_utf8(field.value()).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests;
