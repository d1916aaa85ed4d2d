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

/// A header field of a message that is scanned.
#[derive(Clone, Copy, Debug)]
pub struct HeaderField<'a> {
    /// The line with its line end, and those that continue it.
    line: &'a [u8],
    name: NameCode,
    name_length: u16,
    value_start: u32,
    value_end: u32,
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
        let line = &self.octets[start..end.next];
        let field = HeaderField::read(line, end.end - start);
        if field.name == NameCode::of_known(Name::ContentLength) {
            self.content_length.add(field.value());
        }
        Ok(Some(field))
    }

    /// The body, once all fields were gone over; empty before.
    pub fn body(&self) -> &'a [u8] {
        if !self.has_ended {
            return b"";
        }
        let rest = &self.octets[self.at..];
        &rest[..self.content_length.body_length(rest.len())]
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
    /// Takes a line apart, of so many octets without its line end: `header-name HCOLON header-value` (section 25.1).
    #[inline(always)]
    fn read(line: &'a [u8], length: usize) -> HeaderField<'a> {
        let text = &line[..length];
        let colon = find_near(b':', text);
        let name_text = trim_end(&text[..colon.unwrap_or(0)]);
        let (name, name_length) = match u16::try_from(name_text.len()) {
            Ok(length) if length > 0 => (name_code(name_text), length),
            _ => (NameCode::MALFORMED, 0),
        };
        let value = trim_start(&text[colon.map_or(0, |colon| colon + 1)..]);
        let value_start = length - value.len();
        HeaderField {
            line,
            name,
            name_length,
            value_start: value_start as u32,
            value_end: (value_start + trim_end(value).len()) as u32,
        }
    }

    /// Its name; `None` for one that has no variant of its own, or a line that is no field.
    #[inline]
    pub fn name(&self) -> Option<Name<'static>> {
        self.name.name()
    }

    /// Its name as written; empty where the line is no field.
    pub fn name_text(&self) -> &'a [u8] {
        &self.line[..usize::from(self.name_length)]
    }

    /// Its value, without the white space around it. It may be folded.
    #[inline]
    pub fn value(&self) -> &'a [u8] {
        &self.line[self.value_start as usize..self.value_end as usize]
    }

    /// The line with its line end, and those that continue it.
    pub(crate) fn line(&self) -> &'a [u8] {
        self.line
    }

    /// The code of its name; [`NameCode::MALFORMED`] where the line has no name that is a token.
    #[inline]
    pub(crate) fn code(&self) -> NameCode {
        self.name
    }

    /// Where its value begins and ends in its line.
    #[inline]
    pub(crate) fn value_places(&self) -> (u32, u32) {
        (self.value_start, self.value_end)
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
