//! Reading: one pass over the octets makes the index.

use bytes::{Buf, Bytes};

use crate::line::{LineEnd, line_end};
use crate::name::NameCode;
use crate::runs::{LineEnds, Runs};
use crate::syntax::{self, find, find_near, trim_end, trim_start};
use crate::{Method, Name};

use super::fields::Fields;
use super::usual::{Findings, Seen, read_usual_start_line};
use super::{Contents, Edits, Field, Flaws, Message, Source, Span, Start};
use crate::scanner::{MAXIMUM_FIELDS, ReadError};
use crate::start_line::is_version;

/// Whether values are held against the rules while a message is read.
const CHECKED: bool = true;
const UNCHECKED: bool = false;

impl Message {
    /// Reads a message that came as a datagram, or was cut out of a stream.
    ///
    /// The reader is lenient: whatever has a recognisable start line is read, so that it can be
    /// shown, and answered; [`validate`](Message::validate) tells what is wrong with it. Line ends
    /// before the start line are left out (RFC 3261 section 7.5), and so is what follows the body
    /// that Content-Length delimits (section 18.3). Where Content-Length is missing, malformed or
    /// too large, the body is what there is.
    pub fn read(octets: Bytes) -> Result<Message, ReadError> {
        Message::read_or_return(octets).map_err(|(error, _)| error)
    }

    /// As [`read`](Message::read), for who has a use for octets that are no message.
    pub fn read_or_return(octets: Bytes) -> Result<Message, (ReadError, Bytes)> {
        Message::read_as::<CHECKED>(octets)
    }

    /// As [`read`](Message::read), without a look at the values in passing: they stay text until they are asked for. It
    /// takes half the time where few are, as of a message that was checked before, or that is edited and written.
    /// [`validate`](Message::validate) finds the same, and takes longer.
    pub fn index(octets: Bytes) -> Result<Message, ReadError> {
        Message::read_as::<UNCHECKED>(octets).map_err(|(error, _)| error)
    }

    fn read_as<const IS_CHECKED: bool>(octets: Bytes) -> Result<Message, (ReadError, Bytes)> {
        let line = match FirstLine::read(&octets) {
            Ok(line) => line,
            Err(error) => return Err((error, octets)),
        };
        // What is found is written to its place.
        let contents = Box::new_uninit();
        let fields = Fields::with_capacity(16);
        let mut contents = Box::write(
            contents,
            Contents {
                start: line.start,
                start_line: received_span(0, line.end),
                fields,
                received: octets,
                body_start: 0,
                new_body: None,
                written: Vec::new(),
                edits: Edits::None,
                flaws: line.flaws,
                is_proved: false,
                seen: Seen::nothing(),
            },
        );
        match contents.read_fields::<IS_CHECKED>(line.skipped, line.end, line.is_usual) {
            Ok(length) => {
                contents.received.advance(line.skipped);
                contents.received.truncate(length);
                Ok(Message(contents))
            }
            Err(error) => Err((error, contents.received)),
        }
    }
}

/// The start line of a message. Its places are counted from itself on.
struct FirstLine {
    /// How many line ends there are before it.
    skipped: usize,
    start: Start,
    /// Where the fields begin.
    end: usize,
    is_usual: bool,
    flaws: Flaws,
}

impl FirstLine {
    #[inline]
    fn read(octets: &[u8]) -> Result<FirstLine, ReadError> {
        if u32::try_from(octets.len()).is_err() {
            return Err(ReadError::TooLarge);
        }
        let skipped = octets
            .iter()
            .position(|octet| !matches!(octet, b'\r' | b'\n'))
            .ok_or(ReadError::Empty)?;
        let received = &octets[skipped..];
        let mut flaws = Flaws::default();
        let usual = read_usual_start_line(received);
        let is_usual = usual.is_some();
        let (start, end) = match usual {
            Some(usual) => usual,
            None => read_any_start_line(received, &mut flaws)?,
        };
        Ok(FirstLine {
            skipped,
            start,
            end,
            is_usual,
            flaws,
        })
    }
}

impl Contents {
    /// Reads the fields of what was received behind the line ends that it begins with. Places are counted from there on.
    /// Returns the length of the message.
    #[inline]
    fn read_fields<const IS_CHECKED: bool>(
        &mut self,
        skipped: usize,
        fields_start: usize,
        has_usual_start_line: bool,
    ) -> Result<usize, ReadError> {
        let received = &self.received[skipped..];
        let mut findings = Findings::new(&mut self.seen);
        let body_start = read_fields::<IS_CHECKED>(
            received,
            fields_start,
            &mut self.fields,
            &mut self.flaws,
            &mut findings,
        )?;
        self.fields.note_names(findings.names());
        self.flaws.repeated = findings.has_repeated();
        let content_length = match findings.content_length() {
            Some(known) => known,
            None => single_content_length(received, &self.fields),
        };
        let body_length = content_length
            .unwrap_or(usize::MAX)
            .min(received.len() - body_start);
        let are_proof = IS_CHECKED && findings.are_proof(received, &self.start, body_start);
        self.is_proved =
            are_proof && has_usual_start_line && !self.flaws.line_ends && !self.flaws.unterminated;
        self.body_start = body_start as u32;
        Ok(body_start + body_length)
    }
}

/// Reads a start line that may be written in any way. Returns it and where the fields begin.
#[cold]
fn read_any_start_line(received: &[u8], flaws: &mut Flaws) -> Result<(Start, usize), ReadError> {
    let end = next_line(received, 0, flaws);
    let start = read_start_line(&received[..end.end]).ok_or(ReadError::StartLine)?;
    Ok((start, end.next))
}

/// Reads the fields up to the empty line. Returns where the body begins.
#[inline(never)]
fn read_fields<const IS_CHECKED: bool>(
    received: &[u8],
    mut at: usize,
    fields: &mut Fields,
    flaws: &mut Flaws,
    findings: &mut Findings<'_>,
) -> Result<usize, ReadError> {
    let mut runs = Runs::new(received);
    let mut line_ends = LineEnds::new(received);
    while at < received.len() {
        let end = line_ends.first(at);
        let field = findings.read_field::<IS_CHECKED>(received, &mut runs, at..end);
        if let Some(field) = field {
            at = field.end as usize;
            push(fields, field)?;
            continue;
        }
        // As the header ends in most messages.
        if received.get(at..at + 2) == Some(b"\r\n") {
            return Ok(at + 2);
        }
        match read_other_line(received, at, fields, flaws, findings)? {
            Line::Field { next } => at = next,
            Line::Empty { next } => return Ok(next),
        }
    }
    flaws.unterminated = true;
    Ok(received.len())
}

/// Adds a field whose name is noted later.
#[inline(always)]
fn push(fields: &mut Fields, field: Field) -> Result<(), ReadError> {
    if fields.is_full() && !fields.grow(MAXIMUM_FIELDS) {
        return Err(ReadError::TooManyFields);
    }
    fields.push_silently(field);
    Ok(())
}

/// A line that was read, and where the next one begins.
enum Line {
    Field { next: usize },
    Empty { next: usize },
}

/// Reads a line that may be written in any way.
#[inline(never)]
fn read_other_line(
    received: &[u8],
    at: usize,
    fields: &mut Fields,
    flaws: &mut Flaws,
    findings: &mut Findings<'_>,
) -> Result<Line, ReadError> {
    let mut end = match line_end(received, at) {
        Some(end) => end,
        None => rest(received, flaws),
    };
    flaws.line_ends |= !end.proper;
    if end.end == at {
        return Ok(Line::Empty { next: end.next });
    }
    if is_folded(received, end) {
        end = unfolded(received, end, flaws);
    }
    let field = read_any_field(&received[at..end.end], at, end);
    findings.note_other(field.name);
    push(fields, field)?;
    Ok(Line::Field { next: end.next })
}

/// Whether the next line continues this one, since it begins with white space (section 7.3.1).
#[inline]
fn is_folded(received: &[u8], end: LineEnd) -> bool {
    matches!(received.get(end.next), Some(b' ' | b'\t'))
}

/// The end of the last line that continues one.
#[cold]
fn unfolded(received: &[u8], mut end: LineEnd, flaws: &mut Flaws) -> LineEnd {
    while is_folded(received, end) {
        end = next_line(received, end.next, flaws);
    }
    end
}

/// The line that begins at `at`; the rest of the message where it has no end.
#[inline(never)]
fn next_line(received: &[u8], at: usize, flaws: &mut Flaws) -> LineEnd {
    let end = line_end(received, at).unwrap_or_else(|| rest(received, flaws));
    flaws.line_ends |= !end.proper;
    end
}

/// A line without an end.
#[cold]
fn rest(received: &[u8], flaws: &mut Flaws) -> LineEnd {
    flaws.unterminated = true;
    LineEnd {
        end: received.len(),
        next: received.len(),
        proper: true,
    }
}

/// Takes a line apart that may be written in any way: `header-name HCOLON header-value` (section 25.1).
fn read_any_field(line: &[u8], start: usize, end: LineEnd) -> Field {
    let colon = find_near(b':', line);
    let name = trim_end(&line[..colon.unwrap_or(0)]);
    let (name_length, code) = match u16::try_from(name.len()) {
        Ok(length) if length > 0 => (length, code_of(name)),
        _ => (0, NameCode::MALFORMED),
    };
    let value = trim_start(&line[colon.map_or(0, |colon| colon + 1)..]);
    let value_start = end.end - value.len();
    Field {
        start: start as u32,
        end: end.next as u32,
        value_start: value_start as u32,
        value_end: (value_start + trim_end(value).len()) as u32,
        name_length,
        head: 0,
        name: code,
        source: Source::Received,
        has_lone_tag: false,
    }
}

/// What the index keeps of a name.
#[inline]
fn code_of(name: &[u8]) -> NameCode {
    let code = NameCode::of(name);
    if code == NameCode::OTHER && !syntax::is_token(name) {
        return NameCode::MALFORMED;
    }
    code
}

/// Recognises a start line: the version is what tells SIP from other protocols. Too much white space
/// is let through here, so that the request can be answered (RFC 4475 section 3.1.2.9).
pub(super) fn read_start_line(line: &[u8]) -> Option<Start> {
    if is_version(line.split(|&octet| octet == b' ').next()?) {
        let mut at = find(b' ', line)?;
        at += line[at..].iter().position(|&octet| octet != b' ')?;
        let code_length = find(b' ', &line[at..]).unwrap_or(line.len() - at);
        let code = &line[at..at + code_length];
        if !code.iter().all(u8::is_ascii_digit) {
            return None;
        }
        // A code too large for the type is no better than the largest one.
        let status = syntax::number(code).unwrap_or(u16::MAX);
        let reason = received_span((at + code_length + 1).min(line.len()), line.len());
        return Some(Start::Response { status, reason });
    }
    let method_length = find(b' ', line)?;
    let method = &line[..method_length];
    let trimmed = trim_end(line);
    let version_start = memchr::memrchr(b' ', trimmed)? + 1;
    if method.is_empty() || version_start <= method_length || !is_version(&trimmed[version_start..])
    {
        return None;
    }
    let between = &line[method_length..version_start];
    let uri_start = method_length + between.iter().position(|&octet| !syntax::is_lws(octet))?;
    let uri_end = method_length + trim_end(between).len();
    Some(Start::Request {
        method: Method::from_octets(method)?,
        uri: received_span(uri_start, uri_end),
        places: None,
    })
}

/// The value of Content-Length, where there is one such field.
fn single_content_length(received: &[u8], fields: &[Field]) -> Option<usize> {
    let code = Name::ContentLength.code();
    let mut lengths = fields.iter().filter(|field| field.name == code);
    let field = lengths.next()?;
    match lengths.next() {
        Some(_) => None,
        None => syntax::number(&received[field.value_start as usize..field.value_end as usize]),
    }
}

/// A span of what was received; its length was found to fit before anything is read.
pub(super) fn received_span(start: usize, end: usize) -> Span {
    Span {
        start: start as u32,
        end: end as u32,
        source: Source::Received,
    }
}

/// The fields of a message as they are read where none is usual, shown, and the length of the message.
#[cfg(test)]
pub(super) fn read_line_by_line(octets: &[u8]) -> (Vec<String>, usize) {
    let is_line_end = |octet: &&u8| matches!(octet, b'\r' | b'\n');
    let received = &octets[octets.iter().take_while(is_line_end).count()..];
    let mut flaws = Flaws::default();
    let mut at = next_line(received, 0, &mut flaws).next;
    let mut fields = Vec::new();
    let mut body_start = received.len();
    while at < received.len() {
        let mut end = next_line(received, at, &mut flaws);
        if end.end == at {
            body_start = end.next;
            break;
        }
        if is_folded(received, end) {
            end = unfolded(received, end, &mut flaws);
        }
        fields.push(read_any_field(&received[at..end.end], at, end));
        at = end.next;
    }
    let body_length = single_content_length(received, &fields).unwrap_or(usize::MAX);
    let length = body_start + body_length.min(received.len() - body_start);
    (
        fields.iter().map(|field| format!("{field:?}")).collect(),
        length,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field that is read at a glance is what any field would be.
    #[test]
    fn usual_fields_are_read_as_all_are() {
        let mut usual = 0;
        for name in Name::KNOWN {
            let name = name.as_str();
            for spelled in [
                name.to_owned(),
                name.to_lowercase(),
                format!("{name}-X"),
                name[1..].to_owned(),
            ] {
                for rest in [
                    ": x",
                    ": x y, z",
                    ":x",
                    ":  x",
                    ": x ",
                    " : x",
                    ": ",
                    ":",
                    "",
                    ": \tx",
                    ": x\r\n y",
                    ": x\r y",
                    ": x\n",
                    ": :",
                    ": 7",
                    ": 7 INVITE",
                    ": 7 ",
                    ": 77777777777",
                    ": <sip:a@b>",
                    ": A B <sip:a@b;x=y>;tag=c",
                    ": \"A, B\" <sip:1.2.3.4:5>",
                    ": <sip:a>, <sip:b>",
                    ": SIP/2.0/UDP a;branch=b",
                    ": SIP/2.0/UDP a, SIP/2.0/UDP b",
                ] {
                    let text = format!("{spelled}{rest}\r\n\r\n");
                    let mut seen = Seen::nothing();
                    let mut findings = Findings::new(&mut seen);
                    let octets = text.as_bytes();
                    let runs = &mut Runs::new(octets);
                    let line = 0..LineEnds::new(octets).first(0);
                    let Some(field) = findings.read_field::<CHECKED>(octets, runs, line) else {
                        continue;
                    };
                    usual += 1;
                    let end = LineEnd {
                        end: text.len() - 4,
                        next: text.len() - 2,
                        proper: true,
                    };
                    let any = read_any_field(&text.as_bytes()[..end.end], 0, end);
                    let without_head = field.without_head();
                    assert_eq!(format!("{without_head:?}"), format!("{any:?}"), "{text}");
                }
            }
        }
        assert!(usual > 30, "{usual}");
    }
}
