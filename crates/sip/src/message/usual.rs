//! Lines as nearly all are written, read and held against the rules in one pass.

use crate::name::NameCode;
use crate::name_addr::PlainAddress;
use crate::runs::Runs;
use crate::syntax::{self, CALL_ID, TOKEN, find_control};
use crate::uri::{PlacedUri, PlainUri};
use crate::{Method, Name};

use super::index::received_span;
use super::plain_via::PlainVia;
use super::top_via::TopVia;
use super::validate::{ACTED_UPON, IS_ONCE, IS_THERE, MAGIC_COOKIE};
use super::{Field, PlacedCSeq, Source, Start};

/// What has been seen of a message's lines, beside where they are.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Whether there was a line of which was not seen that it keeps the rules.
    is_doubtful: bool,
    /// A [bit](NameCode::bit) for each name.
    names: u64,
    /// Those of more than one field.
    repeated: u64,
    /// The first Via field, where it has one value, unless something is doubtful.
    top_via: Option<TopVia>,
    /// The first CSeq, unless something is doubtful.
    cseq: Option<PlacedCSeq>,
    /// The URI of the first Route, where there is no display name, unless something is doubtful.
    route: Option<PlacedUri>,
    content_length: Option<usize>,
}

impl Findings {
    /// Reads the start line of a message. `None` where that takes more than a glance. What follows it begins behind the
    /// second part.
    #[inline]
    pub(super) fn read_start_line(runs: &mut Runs<'_>) -> Option<(Start, usize)> {
        let received = runs.text();
        let (start, end) = match received {
            [b'S', b'I', b'P', b'/', ..] => read_status_line(received)?,
            _ => read_request_line(runs)?,
        };
        (received.get(end..)?.first_chunk() == Some(b"\r\n")).then_some((start, end + 2))
    }

    /// Reads the field that begins at a place. `None` where that takes more than a glance.
    #[inline]
    pub(super) fn read_field(&mut self, runs: &mut Runs<'_>, start: usize) -> Option<Field> {
        let received = runs.text();
        let line = received.get(start..)?;
        let (name, name_length) = usual_name(line)?;
        let value_start = start + name_length + 2;
        let [b':', b' ', first, ..] = line.get(name_length..)? else {
            return None;
        };
        if *first <= b' ' {
            return None;
        }
        let mut head = 0;
        let mut has_lone_tag = false;
        let end = match name {
            Name::Via => {
                let via = PlainVia::read_at(runs, value_start)?;
                head = via.parameters().start;
                let end = value_start + via.end();
                if self.top_via.is_none() {
                    self.top_via = Some(TopVia::Plain {
                        start: value_start as u32,
                        source: Source::Received,
                        via,
                    });
                }
                end
            }
            Name::Route if self.names & NameCode::of_known(Name::Route).bit() == 0 => {
                let (address, places) = PlainAddress::read_with_places(runs, value_start)?;
                head = address.head_end - value_start;
                self.route = places;
                address.end
            }
            Name::From | Name::To | Name::Contact | Name::Route | Name::RecordRoute => {
                let address = PlainAddress::read(runs, value_start)?;
                head = address.head_end - value_start;
                has_lone_tag = address.has_lone_tag;
                address.end
            }
            Name::CallId => runs.end(value_start, CALL_ID),
            Name::CSeq => {
                let (number, end) = number_at(received, value_start)?;
                if number >= 1 << 31 || received.get(end) != Some(&b' ') {
                    return None;
                }
                let method_start = end + 1;
                let method_end = runs.end(method_start, TOKEN);
                if method_end == method_start {
                    return None;
                }
                if self.cseq.is_none() {
                    self.cseq = Some(PlacedCSeq {
                        number: number as u32,
                        method_start: method_start as u32,
                        method_end: method_end as u32,
                    });
                }
                method_end
            }
            Name::MaxForwards => {
                let (number, end) = number_at(received, value_start)?;
                if number > u8::MAX.into() {
                    return None;
                }
                end
            }
            Name::ContentLength => {
                let (number, end) = number_at(received, value_start)?;
                self.content_length = Some(usize::try_from(number).ok()?);
                end
            }
            _ => {
                let end = value_start + find_control(received.get(value_start..)?)?;
                if *received.get(end - 1)? <= b' ' {
                    return None;
                }
                end
            }
        };
        let [b'\r', b'\n', next, ..] = received.get(end..)? else {
            return None;
        };
        // White space would continue the line (RFC 3261 section 7.3.1).
        if end == value_start || matches!(next, b' ' | b'\t') {
            return None;
        }
        Some(Field {
            start: start as u32,
            end: (end + 2) as u32,
            value_start: value_start as u32,
            value_end: end as u32,
            name_length: name_length as u16,
            head: u16::try_from(head).unwrap_or_default(),
            name: name.code(),
            source: Source::Received,
            has_lone_tag,
        })
    }

    /// Notes a field. `is_usual`: [`read_field`](Findings::read_field) has read it.
    #[inline]
    pub(super) fn note(&mut self, name: NameCode, is_usual: bool) {
        let bit = name.bit();
        self.repeated |= self.names & bit;
        self.names |= bit;
        self.is_doubtful |= !is_usual && (bit & ACTED_UPON != 0 || name == NameCode::MALFORMED);
    }

    /// The value of Content-Length, where it is known that there is no other such field than that which was read, or none
    /// at all.
    #[inline]
    pub(super) fn content_length(&self) -> Option<Option<usize>> {
        let is_repeated = self.repeated & NameCode::of_known(Name::ContentLength).bit() != 0;
        (!self.is_doubtful && !is_repeated).then_some(self.content_length)
    }

    /// The first Via, where it is known.
    pub(super) fn top_via(&self) -> Option<TopVia> {
        match self.is_doubtful {
            true => None,
            false => self.top_via.clone(),
        }
    }

    /// The first CSeq, where it is known.
    pub(super) fn cseq(&self) -> Option<PlacedCSeq> {
        self.cseq.filter(|_| !self.is_doubtful)
    }

    /// The URI of the first Route, where it is known.
    pub(super) fn route(&self) -> Option<PlacedUri> {
        self.route.filter(|_| !self.is_doubtful)
    }

    /// Whether a message keeps the rules whose start line and lines have been read so. `false` where that has not been
    /// seen.
    pub(super) fn are_proof(&self, received: &[u8], start: &Start, body_start: usize) -> bool {
        let cseq_method = self.cseq.and_then(|cseq| received.get(cseq.method()));
        let is_for_method = match start {
            Start::Request { method, .. } => Some(method.as_str().as_bytes()) == cseq_method,
            Start::Response { .. } => true,
        };
        // A branch of nothing but the cookie names no transaction.
        let has_branch = match &self.top_via {
            Some(TopVia::Plain { start, via, .. }) => via.branch().is_none_or(|branch| {
                let start = *start as usize;
                branch.len() != MAGIC_COOKIE.len()
                    || received.get(start + branch.start..start + branch.end) != Some(MAGIC_COOKIE)
            }),
            _ => false,
        };
        !self.is_doubtful
            && self.names & IS_THERE == IS_THERE
            && self.repeated & IS_ONCE == 0
            && is_for_method
            && has_branch
            && self
                .content_length
                .is_none_or(|length| length <= received.len() - body_start)
    }
}

/// `SIP/2.0 200 OK`, and where it ends.
#[inline]
fn read_status_line(received: &[u8]) -> Option<(Start, usize)> {
    const VERSION: &[u8] = b"SIP/2.0 ";
    let [
        one @ b'1'..=b'6',
        two @ b'0'..=b'9',
        three @ b'0'..=b'9',
        b' ',
        ..,
    ] = received.strip_prefix(VERSION)?
    else {
        return None;
    };
    let digit = |digit: &u8| u16::from(digit - b'0');
    let status = digit(one) * 100 + digit(two) * 10 + digit(three);
    let reason_start = VERSION.len() + "200 ".len();
    let end = reason_start + find_control(received.get(reason_start..)?)?;
    let reason = received_span(reason_start, end);
    Some((Start::Response { status, reason }, end))
}

/// `METHOD sip:user@host;parameters SIP/2.0`, and where it ends.
#[inline]
fn read_request_line(runs: &mut Runs<'_>) -> Option<(Start, usize)> {
    let received = runs.text();
    const SCHEME: &[u8] = b" sip:";
    const VERSION: &[u8] = b" SIP/2.0";
    let method_length = syntax::find_near(b' ', received.get(..LONGEST_METHOD + 1)?)?;
    let method = Method::known(&received[..method_length])?;
    let uri_start = method_length + 1;
    if !received.get(method_length..)?.starts_with(SCHEME) {
        return None;
    }
    let uri = PlainUri::read(runs, method_length + SCHEME.len())?;
    if !received.get(uri.end..)?.starts_with(VERSION) {
        return None;
    }
    let start = Start::Request {
        method,
        uri: received_span(uri_start, uri.end),
        places: uri.placed(uri_start),
    };
    Some((start, uri.end + VERSION.len()))
}

/// How long the longest method is that is known.
const LONGEST_METHOD: usize = "SUBSCRIBE".len();

/// The number that stands at a place, of ten digits at the most, and where it ends.
#[inline]
fn number_at(text: &[u8], start: usize) -> Option<(u64, usize)> {
    const MAXIMUM_DIGITS: usize = 10;
    let (mut number, mut at) = (0, start);
    while let Some(digit) = text.get(at).map(|octet| octet.wrapping_sub(b'0'))
        && digit < 10
    {
        number = number * 10 + u64::from(digit);
        at += 1;
        if at - start > MAXIMUM_DIGITS {
            return None;
        }
    }
    (at > start).then_some((number, at))
}

/// The name with which a line may begin, and its length, where it is one of those that most messages have, spelled as in
/// the RFC. It may go on differently.
#[inline(always)]
pub(super) fn usual_name(line: &[u8]) -> Option<(Name<'static>, usize)> {
    const fn word(text: &[u8; 4]) -> u32 {
        u32::from_le_bytes(*text)
    }
    const VIA: u32 = word(b"Via:");
    const FROM: u32 = word(b"From");
    const TO: u32 = word(b"To: ");
    const CALL: u32 = word(b"Call");
    const CSEQ: u32 = word(b"CSeq");
    const CONT: u32 = word(b"Cont");
    const MAX: u32 = word(b"Max-");
    const RECORD: u32 = word(b"Reco");
    const ROUTE: u32 = word(b"Rout");
    const ALLOW: u32 = word(b"Allo");
    const USER: u32 = word(b"User");
    const SUPPORTED: u32 = word(b"Supp");
    Some(match u32::from_le_bytes(*line.first_chunk()?) {
        VIA => (Name::Via, 3),
        TO => (Name::To, 2),
        FROM => (Name::From, 4),
        CSEQ => (Name::CSeq, 4),
        CALL if line.starts_with(b"Call-ID") => (Name::CallId, 7),
        CONT if line.starts_with(b"Contact") => (Name::Contact, 7),
        CONT if line.starts_with(b"Content-Length") => (Name::ContentLength, 14),
        CONT if line.starts_with(b"Content-Type") => (Name::ContentType, 12),
        MAX if line.starts_with(b"Max-Forwards") => (Name::MaxForwards, 12),
        RECORD if line.starts_with(b"Record-Route") => (Name::RecordRoute, 12),
        ROUTE if line.starts_with(b"Route") => (Name::Route, 5),
        ALLOW if line.starts_with(b"Allow") => (Name::Allow, 5),
        USER if line.starts_with(b"User-Agent") => (Name::UserAgent, 10),
        SUPPORTED if line.starts_with(b"Supported") => (Name::Supported, 9),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
