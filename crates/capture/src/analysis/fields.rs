//! The header fields of a message that group it with others, found in one quick look.
//!
//! [`sip::Scan`] reads what a server has to understand; here a hundred thousand messages are looked at for seven of
//! their fields. What is not written as nearly everybody writes it is left to the reader of `sip`, so that both agree.

use std::ops::ControlFlow;

use sip::{MAXIMUM_FIELDS, Scan, ScannedField, StartLine};

use super::line_ends::{LineEnds, each_line_end};
use super::values::{branch, has_comma, quick_branch};

/// What the first line says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Start<'m> {
    Request,
    Response { status: u16, reason: &'m [u8] },
}

/// The first field of each name that matters.
#[derive(Default, Debug, PartialEq, Eq)]
pub(super) struct Fields<'m> {
    pub(super) call_id: Option<&'m [u8]>,
    pub(super) cseq: Option<&'m [u8]>,
    pub(super) from: Option<&'m [u8]>,
    pub(super) to: Option<&'m [u8]>,
    pub(super) r_seq: Option<&'m [u8]>,
    pub(super) content_type: Option<&'m [u8]>,
    /// The topmost Via value.
    pub(super) via: Option<&'m [u8]>,
    /// Its branch.
    pub(super) branch: Option<&'m [u8]>,
    pub(super) vias: usize,
    pub(super) has_body: bool,
}

/// Content-Length, as far as it says whether there is a body (RFC 3261 section 18.3).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    Missing,
    Zero,
    /// There is a body if anything follows: also where it is no number, or stands there twice.
    Other,
}

/// Why fields were not read.
enum NotRead {
    Unreadable,
    /// A line begins with white space.
    Folded,
}

/// A name that matters.
#[derive(Clone, Copy)]
enum Wanted {
    Via,
    From,
    To,
    CallId,
    CSeq,
    RSeq,
    ContentType,
    ContentLength,
}

impl<'m> Fields<'m> {
    /// Goes once over the first line and all fields of a message, of which nothing has been read.
    #[inline]
    pub(super) fn read(&mut self, octets: &'m [u8]) -> Result<Start<'m>, PeekError> {
        let begin = octets
            .iter()
            .position(|octet| !matches!(octet, b'\r' | b'\n'))
            .ok_or(PeekError::Unreadable)?;
        let octets = &octets[begin..];
        if let Some(start) = self.read_usual(octets) {
            return Ok(start);
        }
        *self = Fields::default();
        self.read_any(octets).map_err(|_| PeekError::Unreadable)
    }

    /// The same where the first line is as RFC 3261 wants it, every line ends with CRLF and none is folded, and where
    /// an empty one is behind them.
    #[inline(never)]
    fn read_usual(&mut self, octets: &'m [u8]) -> Option<Start<'m>> {
        let mut ends = LineEnds::of(octets);
        let first = ends.next()?;
        let start = quick_start(octets.get(..first)?.strip_suffix(b"\r")?)?;
        let mut length = Length::Missing;
        let mut begin = first + 1;
        for (count, end) in ends.enumerate() {
            let line = octets.get(begin..end)?.strip_suffix(b"\r")?;
            let line_begin = std::mem::replace(&mut begin, end + 1);
            if line.is_empty() {
                self.has_body = begin < octets.len() && length != Length::Zero;
                return (count <= MAXIMUM_FIELDS).then_some(start);
            }
            self.take(line, octets, line_begin, &mut length).ok()?;
        }
        None
    }

    /// The same where lines end in any way, and may be folded (RFC 3261 section 7.3.1).
    #[inline(never)]
    fn read_any(&mut self, octets: &'m [u8]) -> Result<Start<'m>, NotRead> {
        let mut start = None;
        let mut length = Length::Missing;
        let mut count = 0;
        let mut begin = 0;
        let broken_off = each_line_end(octets, |end| {
            let line = without_return(&octets[begin..end]);
            if start.is_none() {
                begin = end + 1;
                // Where the line has no end, a CR is no half of one.
                let usual = octets.get(end).and_then(|_| quick_start(line));
                start = usual.or_else(|| thorough_start(octets));
                return match start {
                    Some(_) => ControlFlow::Continue(()),
                    None => ControlFlow::Break(Err(NotRead::Unreadable)),
                };
            }
            if line.is_empty() {
                begin = end + 1;
                return ControlFlow::Break(Ok(()));
            }
            // What begins with white space continues the line before it.
            if matches!(octets.get(end + 1), Some(b' ' | b'\t')) {
                return ControlFlow::Continue(());
            }
            begin = end + 1;
            count += 1;
            if count > MAXIMUM_FIELDS {
                return ControlFlow::Break(Err(NotRead::Unreadable));
            }
            match self.take_any(line, &mut length) {
                Ok(()) | Err(NotRead::Folded) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(Err(error)),
            }
        });
        if let ControlFlow::Break(Err(error)) = broken_off {
            return Err(error);
        }
        self.has_body = begin < octets.len() && length != Length::Zero;
        start.ok_or(NotRead::Unreadable)
    }

    /// Takes a field of one line, which begins there in the message, if it matters.
    #[inline(always)]
    fn take(
        &mut self,
        line: &'m [u8],
        octets: &'m [u8],
        begin: usize,
        length: &mut Length,
    ) -> Result<(), NotRead> {
        let Some((&head, behind)) = line.split_first_chunk::<8>() else {
            return self.take_any(line, length);
        };
        let head = u64::from_le_bytes(head);
        match head as u32 {
            VIA if let [b' ', b'!'..=b'~', .., b'!'..=b'~'] = &line[4..] => {
                self.add_via(&octets[begin + 5..], line.len() - 5);
            }
            TO => note(&mut self.to, &line[3..]),
            FROM if line[4] == b':' => note(&mut self.from, &line[5..]),
            CSEQ if line[4] == b':' => note(&mut self.cseq, &line[5..]),
            CALL if head == CALL_ID => note(&mut self.call_id, behind),
            CONT if head == CONTACT => {}
            CONT if head == CONTENT => {
                match behind.first_chunk().map(|next| u64::from_le_bytes(*next)) {
                    Some(LENGTH) => length.add(trimmed(&line[15..])),
                    Some(next) if next & TYPE_BITS == TYPE => {
                        note(&mut self.content_type, &line[13..]);
                    }
                    _ => return self.take_any(line, length),
                }
            }
            // No name that matters begins so.
            ROUTE | RECORD_ROUTE | MAX_FORWARDS | USER_AGENT | ALLOW | SUPPORTED => {}
            _ => return self.take_any(line, length),
        }
        Ok(())
    }

    /// Takes a field that may be written in any way, if it matters.
    #[inline(never)]
    fn take_any(&mut self, line: &'m [u8], length: &mut Length) -> Result<(), NotRead> {
        if let [b' ' | b'\t', ..] = line {
            return Err(NotRead::Folded);
        }
        let Some((wanted, value)) = wanted(line) else {
            return Ok(());
        };
        match wanted {
            Wanted::Via => self.add_vias(trimmed(value)),
            Wanted::ContentLength => length.add(trimmed(value)),
            Wanted::CallId => note(&mut self.call_id, value),
            Wanted::CSeq => note(&mut self.cseq, value),
            Wanted::From => note(&mut self.from, value),
            Wanted::To => note(&mut self.to, value),
            Wanted::RSeq => note(&mut self.r_seq, value),
            Wanted::ContentType => note(&mut self.content_type, value),
        }
        Ok(())
    }

    /// Adds the Via value, or the several ones, of a field; of so many octets, behind which the message goes on.
    #[inline]
    fn add_via(&mut self, value_and_more: &'m [u8], length: usize) {
        if self.via.is_none()
            && let Some(branch) = quick_branch(value_and_more, length)
        {
            self.via = Some(&value_and_more[..length]);
            self.branch = Some(branch);
            self.vias = 1;
        } else if self.via.is_some() && !has_comma(value_and_more, length) {
            self.vias += 1;
        } else {
            self.add_vias(&value_and_more[..length]);
        }
    }

    #[inline(never)]
    fn add_vias(&mut self, value: &'m [u8]) {
        let field = ScannedField {
            name_text: b"",
            value,
        };
        for value in field.values() {
            if self.via.is_none() {
                self.via = Some(value);
                self.branch = branch(value);
            }
            self.vias += 1;
        }
    }
}

impl Length {
    /// A Content-Length field says so.
    #[inline]
    fn add(&mut self, value: &[u8]) {
        *self = match (*self, value) {
            (Length::Missing, [b'0']) => Length::Zero,
            (Length::Missing, [b'1'..=b'9', ..]) => Length::Other,
            (Length::Missing, _) => thorough_length(value),
            _ => Length::Other,
        };
    }
}

/// Keeps the first value of a name, without the white space around it.
#[inline]
fn note<'m>(place: &mut Option<&'m [u8]>, value: &'m [u8]) {
    if place.is_none() {
        *place = Some(trimmed(value));
    }
}

/// The beginning of a name, as a number: one comparison tells them apart.
const fn word(name: [u8; 4]) -> u32 {
    u32::from_le_bytes(name)
}

const VIA: u32 = word(*b"Via:");
const FROM: u32 = word(*b"From");
const TO: u32 = word(*b"To: ");
const CALL: u32 = word(*b"Call");
const CSEQ: u32 = word(*b"CSeq");
const CONT: u32 = word(*b"Cont");
const MAX_FORWARDS: u32 = word(*b"Max-");
const ROUTE: u32 = word(*b"Rout");
const RECORD_ROUTE: u32 = word(*b"Reco");
const USER_AGENT: u32 = word(*b"User");
const ALLOW: u32 = word(*b"Allo");
const SUPPORTED: u32 = word(*b"Supp");

const CALL_ID: u64 = u64::from_le_bytes(*b"Call-ID:");
const CONTACT: u64 = u64::from_le_bytes(*b"Contact:");
const CONTENT: u64 = u64::from_le_bytes(*b"Content-");
/// What follows it in a name, up to the value.
const LENGTH: u64 = u64::from_le_bytes(*b"Length: ");
const TYPE: u64 = u64::from_le_bytes(*b"Type: \0\0");
const TYPE_BITS: u64 = u64::from_le_bytes([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0]);

/// A line without the carriage return that stands before its line feed.
#[inline]
fn without_return(line: &[u8]) -> &[u8] {
    match line {
        [line @ .., b'\r'] => line,
        line => line,
    }
}

/// The name of a field, where it matters, and its value.
fn wanted(line: &[u8]) -> Option<(Wanted, &[u8])> {
    // Most names begin otherwise.
    if !matches!(
        line.first(),
        Some(
            b'V' | b'v'
                | b'T'
                | b't'
                | b'F'
                | b'f'
                | b'I'
                | b'i'
                | b'C'
                | b'c'
                | b'L'
                | b'l'
                | b'R'
                | b'r'
        )
    ) {
        return None;
    }
    let colon = line.iter().position(|octet| *octet == b':')?;
    let mut name = &line[..colon];
    if let [.., b' ' | b'\t' | b'\r' | b'\n'] = name {
        name = name.trim_ascii_end();
    }
    let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
    let wanted = match name.len() {
        1 => match name[0] | 0x20 {
            b'v' => Wanted::Via,
            b'f' => Wanted::From,
            b't' => Wanted::To,
            b'i' => Wanted::CallId,
            b'c' => Wanted::ContentType,
            b'l' => Wanted::ContentLength,
            _ => return None,
        },
        2 if is(b"To") => Wanted::To,
        3 if is(b"Via") => Wanted::Via,
        4 if is(b"From") => Wanted::From,
        4 if is(b"CSeq") => Wanted::CSeq,
        4 if is(b"RSeq") => Wanted::RSeq,
        7 if is(b"Call-ID") => Wanted::CallId,
        12 if is(b"Content-Type") => Wanted::ContentType,
        14 if is(b"Content-Length") => Wanted::ContentLength,
        _ => return None,
    };
    Some((wanted, &line[colon + 1..]))
}

/// A value without the white space around it.
#[inline(always)]
fn trimmed(value: &[u8]) -> &[u8] {
    // One space before it and none behind, as nearly everybody writes it.
    match value {
        [b' ', inner @ ..] if matches!(inner, [b'!'..=b'~', .., b'!'..=b'~'] | [b'!'..=b'~']) => {
            inner
        }
        _ => trimmed_of_any(value),
    }
}

fn trimmed_of_any(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'\r' | b'\n', rest @ ..] = value {
        value = rest;
    }
    while let [rest @ .., b' ' | b'\t' | b'\r' | b'\n'] = value {
        value = rest;
    }
    value
}

/// The first line, where it is as RFC 3261 wants it.
fn quick_start(line: &[u8]) -> Option<Start<'_>> {
    if let Some(rest) = line.strip_prefix(b"SIP/2.0 ") {
        let &[
            a @ b'1'..=b'9',
            b @ b'0'..=b'9',
            c @ b'0'..=b'9',
            ref rest @ ..,
        ] = rest
        else {
            return None;
        };
        let digit = |octet: u8| u16::from(octet - b'0');
        return Some(Start::Response {
            status: 100 * digit(a) + 10 * digit(b) + digit(c),
            reason: rest.strip_prefix(b" ")?,
        });
    }
    let before = line.strip_suffix(b" SIP/2.0")?;
    let method = before
        .iter()
        .position(|octet| !octet.is_ascii_uppercase())?;
    let is_usual = method > 0
        && before[method] == b' '
        && before.get(method + 1).is_some_and(u8::is_ascii_graphic)
        // No version, which begins a response.
        && method < 32;
    is_usual.then_some(Start::Request)
}

/// Any other first line.
fn thorough_start(octets: &[u8]) -> Option<Start<'_>> {
    let (start, _) = Scan::begin(octets).ok()?;
    Some(match start {
        StartLine::Request { .. } => Start::Request,
        StartLine::Response { status, reason } => Start::Response { status, reason },
    })
}

/// A Content-Length that is not written as usual.
fn thorough_length(value: &[u8]) -> Length {
    match value.iter().all(|octet| *octet == b'0') && !value.is_empty() {
        true => Length::Zero,
        false => Length::Other,
    }
}

/// Why a message cannot be peeked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PeekError {
    /// The octets are no message.
    Unreadable,
    /// What groups messages is missing: Call-ID, CSeq, To or Via.
    Ungrouped,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sip::Name;

    use super::*;

    fn quickly(octets: &[u8]) -> Result<(Start<'_>, Fields<'_>), PeekError> {
        let mut fields = Fields::default();
        let start = fields.read(octets)?;
        Ok((start, fields))
    }

    /// The same by the reader of `sip`.
    fn thoroughly(octets: &[u8]) -> Result<(Start<'_>, Fields<'_>), PeekError> {
        let (start, mut scan) = Scan::begin(octets).map_err(|_| PeekError::Unreadable)?;
        let mut fields = Fields::default();
        while let Some(field) = scan.next_field().map_err(|_| PeekError::Unreadable)? {
            let place = match field.name() {
                Some(Name::Via) => {
                    fields.add_vias(field.value);
                    continue;
                }
                Some(Name::CSeq) => &mut fields.cseq,
                Some(Name::CallId) => &mut fields.call_id,
                Some(Name::From) => &mut fields.from,
                Some(Name::To) => &mut fields.to,
                Some(Name::RSeq) => &mut fields.r_seq,
                Some(Name::ContentType) => &mut fields.content_type,
                _ => continue,
            };
            place.get_or_insert(field.value);
        }
        fields.has_body = !scan.body().is_empty();
        let start = match start {
            StartLine::Request { .. } => Start::Request,
            StartLine::Response { status, reason } => Start::Response { status, reason },
        };
        Ok((start, fields))
    }

    #[test]
    fn usual_and_unusual_messages_are_read_as_by_a_server() {
        for text in [
            "INVITE sip:b@x SIP/2.0\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nTo: <sip:b@x>\r\n\
             f: <sip:a@x>;tag=1\r\nCall-ID: c\r\nCSeq: 7 INVITE\r\nContent-Length: 3\r\n\r\nv=0",
            "\r\n\r\nSIP/2.0 180 Ringing\r\nv: a, b\r\n\tc\r\ni : x \r\nContent-Length: 0\r\n\r\nbody",
            "SIP/2.0 99 x\r\nContent-Length: 00\r\n\r\nbody",
            "SIP/2.0 200 OK\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\nbody",
            "SIP/2.0 200\r\nl: \r\n\r\nbody",
            "SIP/2.0 180 Ringing\r",
            "SIP/2.0 180 Ringing",
            "SIP/2.0 180 Ringing\r\nTo: x\r",
            "SIP/2.0 180 Ringing\r\nRSeq: 1\r",
            "SIP/2.0 180 Ringing\r\nVia: a\r",
            "SIP/2.0 200 OK\n folded\r\nTo: x\n\n\n",
            "SIP/2.0  200 OK\r\nTo: x\ry\r\n\r",
            "INVITE  SIP/2.0\r\nTo: x\r\n\r\n",
            "INVITE sip:b  SIP/2.0\r\nTo: x\r\n\r\n",
            "invite sip:b SIP/2.0 \r\nTo: x\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
            "",
        ] {
            assert_eq!(
                quickly(text.as_bytes()),
                thoroughly(text.as_bytes()),
                "{text:?}"
            );
        }
        let many = format!("BYE sip:a SIP/2.0\r\n{}", "a: b\r\n".repeat(MAXIMUM_FIELDS));
        let folded = format!("{many} folded\r\n\r\n");
        for text in [format!("{many}\r\n"), format!("{many}a: b\r\n\r\n"), folded] {
            assert_eq!(quickly(text.as_bytes()), thoroughly(text.as_bytes()));
        }
    }

    proptest! {
        #[test]
        fn any_octets_are_read_as_by_a_server(parts in prop::collection::vec(
            prop::sample::select(vec![
                &b"SIP/2.0 180 Ringing"[..], b"ACK sip:a SIP/2.0", b"\r\n", b"\r\n", b"\n", b"\r", b" ", b":", b": ",
                b"Via", b"i", b"Content-Length", b"l", b"0", b"7", b"\xff", b"abc", b"To", b"Call-ID", b"CSeq", b",",
                b"Via: a", b";branch=", b"From: ", b"Content-Type: ",
                b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            ]),
            0..40,
        )) {
            let octets = parts.concat();
            prop_assert_eq!(quickly(&octets), thoroughly(&octets));
        }
    }
}
