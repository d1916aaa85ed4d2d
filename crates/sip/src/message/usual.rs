//! Lines as nearly all are written, read and held against the rules in one pass.

use std::ops::Range;

use crate::name::{NameCode, are_equal};
use crate::name_addr::PlainAddress;
use crate::runs::Runs;
use crate::syntax::{self, find_control};
use crate::uri::{PlacedUri, PlainUri};
use crate::{Method, Name};

use super::index::received_span;
use super::plain_via::PlainVia;
use super::top_via::{KnownVia, TopVia};
use super::validate::{ACTED_UPON, IS_ONCE, IS_THERE, MAGIC_COOKIE};
use super::{Field, PlacedCSeq, Source, Start};

/// What is seen of a message's lines, beside where they are.
#[derive(Debug)]
pub(super) struct Findings<'a> {
    /// Whether there was a line of which was not seen that it keeps the rules.
    is_doubtful: bool,
    /// A [bit](NameCode::bit) for each name.
    names: u64,
    /// Those of more than one field.
    repeated: u64,
    content_length: Option<usize>,
    /// What is to be remembered. Where something is doubtful that is nothing.
    seen: &'a mut Seen,
}

/// What is remembered of the values of a message.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// The topmost Via. It holds until a Via is edited.
    pub(super) top_via: KnownVia,
    /// CSeq as the reader has seen it. It holds until that is edited.
    pub(super) cseq: Option<PlacedCSeq>,
    /// Max-Forwards as the reader has seen it. It holds until that is edited.
    pub(super) max_forwards: Option<u8>,
    /// What the reader has seen of the URI of the first Route, which has no display name. It holds until a Route is
    /// edited.
    pub(super) route: Option<PlacedUri>,
}

impl Seen {
    pub(super) fn nothing() -> Seen {
        Seen {
            top_via: KnownVia::nothing(),
            cseq: None,
            max_forwards: None,
            route: None,
        }
    }
}

/// Reads the start line of a message. `None` where that takes more than a glance. What follows it begins behind the second
/// part.
#[inline]
pub(super) fn read_usual_start_line(received: &[u8]) -> Option<(Start, usize)> {
    let (start, end) = match received {
        [b'S', b'I', b'P', b'/', ..] => read_status_line(received)?,
        _ => read_request_line(received)?,
    };
    (received.get(end..)?.first_chunk() == Some(b"\r\n")).then_some((start, end + 2))
}

impl<'a> Findings<'a> {
    /// `seen`: nothing yet.
    pub(super) fn new(seen: &'a mut Seen) -> Findings<'a> {
        Findings {
            is_doubtful: false,
            names: 0,
            repeated: 0,
            content_length: None,
            seen,
        }
    }

    /// Reads the field whose line is between these places, and notes it; held against the rules where that is wanted. There
    /// is nothing in it that may end a line. `None` where that takes more than a glance.
    #[inline(always)]
    pub(super) fn read_field<const IS_CHECKED: bool>(
        &mut self,
        received: &[u8],
        runs: &mut Runs<'_>,
        line: Range<usize>,
    ) -> Option<Field> {
        let Range { start, end } = line;
        // Most that is read here does not depend on what the lines before it have been found to be: a processor begins with it
        // while it is still busy with them.
        let usual = UsualName::of(received.get(start..)?)?;
        let behind = u32::from_le_bytes(*received.get(end..)?.first_chunk()?);
        const LINE_END: u16 = u16::from_le_bytes(*b"\r\n");
        if behind as u16 != LINE_END {
            return None;
        }
        // White space would continue the line (RFC 3261 section 7.3.1).
        let next = (behind >> 16) as u8;
        if next <= b' ' && matches!(next, b' ' | b'\t') {
            return None;
        }
        let mut value_start = start + usize::from(usual.length) + 2;
        let mut head = 0;
        let mut has_lone_tag = false;
        let kind = match usual.kind {
            Kind::ContentLength => Kind::ContentLength,
            kind if IS_CHECKED => kind,
            _ => Kind::Text,
        };
        let value_end = match kind {
            Kind::Via => {
                let via = PlainVia::read_at(runs, value_start)?;
                let via_end = value_start + via.end();
                let value_end = match via_end == end {
                    true => {
                        head = via.parameters().start as u16;
                        end
                    }
                    false => end_of_other_vias(runs, received, via_end)?,
                };
                if self.is_new(Name::Via) {
                    self.seen.top_via = KnownVia::Seen(TopVia::Plain {
                        start: value_start as u32,
                        source: Source::Received,
                        via,
                    });
                }
                value_end
            }
            Kind::Route | Kind::RecordRoute => {
                let is_sought = kind == Kind::Route && self.is_new(Name::Route);
                let address = match is_sought {
                    true => {
                        let places = &mut self.seen.route;
                        PlainAddress::read_with_places(runs, value_start, places)?
                    }
                    false => PlainAddress::read(runs, value_start)?,
                };
                match address.end() == end {
                    true => {
                        head = address.head();
                        end
                    }
                    false => end_of_other_routes(runs, received, address.end())?,
                }
            }
            Kind::Address => {
                let address = PlainAddress::read(runs, value_start)?;
                head = address.head();
                has_lone_tag = address.has_lone_tag();
                address.end()
            }
            Kind::CallId => match received.get(value_start..end)? {
                [] => return None,
                value if !syntax::all_graphic(value) => return None,
                _ => end,
            },
            Kind::CSeq => {
                let (number, number_end) = number_at(received, value_start)?;
                let [b' ', method @ ..] = received.get(number_end..end)? else {
                    return None;
                };
                if number >= 1 << 31 || !syntax::is_token(method) {
                    return None;
                }
                if self.is_new(Name::CSeq) {
                    self.seen.cseq = Some(PlacedCSeq {
                        number: number as u32,
                        method_start: (number_end + 1) as u32,
                        method_end: end as u32,
                    });
                }
                end
            }
            Kind::MaxForwards => match number_at(received, value_start)? {
                (number @ 0..=255, end) => {
                    if self.is_new(Name::MaxForwards) {
                        self.seen.max_forwards = Some(number as u8);
                    }
                    end
                }
                _ => return None,
            },
            Kind::ContentLength => {
                // Whoever writes it only once the body is there has kept room for it, and fills that with spaces.
                while received.get(value_start) == Some(&b' ') {
                    value_start += 1;
                }
                let (number, end) = number_at(received, value_start)?;
                self.content_length = Some(usize::try_from(number).ok()?);
                end
            }
            Kind::Text => {
                let value = received.get(value_start..end)?;
                if value.first()? <= &b' ' || value.last()? <= &b' ' {
                    return None;
                }
                end
            }
        };
        if value_end != end {
            return None;
        }
        self.repeated |= self.names & usual.bit;
        self.names |= usual.bit;
        Some(Field {
            start: start as u32,
            end: (end + 2) as u32,
            value_start: value_start as u32,
            value_end: end as u32,
            name_length: usual.length.into(),
            head,
            name: usual.name,
            source: Source::Received,
            has_lone_tag,
        })
    }

    /// Whether no field of this name has been seen.
    #[inline(always)]
    fn is_new(&self, name: Name<'static>) -> bool {
        self.names & NameCode::of_known(name).bit() == 0
    }

    /// Notes a field that is not usual.
    pub(super) fn note_other(&mut self, name: NameCode) {
        let bit = name.bit();
        self.repeated |= self.names & bit;
        self.names |= bit;
        self.is_doubtful |= bit & ACTED_UPON != 0 || name == NameCode::MALFORMED;
    }

    /// The names of all fields, a [bit](NameCode::bit) each.
    pub(super) fn names(&self) -> u64 {
        self.names
    }

    /// Whether a field that is to be there once is there again.
    pub(super) fn has_repeated(&self) -> bool {
        self.repeated & IS_ONCE != 0
    }

    /// The value of Content-Length, where it is known that there is no other such field than that which was read, or none
    /// at all.
    #[inline]
    pub(super) fn content_length(&self) -> Option<Option<usize>> {
        let is_repeated = self.repeated & NameCode::of_known(Name::ContentLength).bit() != 0;
        (!self.is_doubtful && !is_repeated).then_some(self.content_length)
    }

    /// Whether a message keeps the rules whose start line and lines have been read so. `false` where that has not been
    /// seen. Nothing is remembered where something was doubtful.
    pub(super) fn are_proof(self, received: &[u8], start: &Start, body_start: usize) -> bool {
        if self.is_doubtful {
            *self.seen = Seen::nothing();
            return false;
        }
        let is_for_method = match (start, self.seen.cseq) {
            // The method begins the message, and ends before a space.
            (Start::Request { uri, .. }, Some(cseq)) => {
                let method = received.get(..uri.start as usize - 1);
                let cseq_method = received.get(cseq.method());
                method
                    .zip(cseq_method)
                    .is_some_and(|(one, other)| are_equal(one, other))
            }
            (Start::Request { .. }, None) => false,
            (Start::Response { .. }, _) => true,
        };
        // A branch of nothing but the cookie names no transaction.
        let has_branch = match &self.seen.top_via {
            KnownVia::Seen(TopVia::Plain { start, via, .. }) => via.branch().is_none_or(|branch| {
                let start = *start as usize;
                branch.len() != MAGIC_COOKIE.len()
                    || received.get(start + branch.start..start + branch.end) != Some(MAGIC_COOKIE)
            }),
            _ => false,
        };
        self.names & IS_THERE == IS_THERE
            && !self.has_repeated()
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
fn read_request_line(received: &[u8]) -> Option<(Start, usize)> {
    const SCHEME: &[u8] = b" sip:";
    const VERSION: &[u8] = b" SIP/2.0";
    let method_length = syntax::find_near(b' ', received.get(..LONGEST_METHOD + 1)?)?;
    let method = Method::known(&received[..method_length])?;
    let uri_start = method_length + 1;
    if !received.get(method_length..)?.starts_with(SCHEME) {
        return None;
    }
    let uri = PlainUri::read_here(&mut Runs::new(received), method_length + SCHEME.len())?;
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

/// Where the Via values end that follow the first of a field. Some write what they have to send back of several fields into
/// one.
#[inline(never)]
fn end_of_other_vias(runs: &mut Runs<'_>, received: &[u8], mut end: usize) -> Option<usize> {
    while let Some(start) = next_value(received, end) {
        end = start + PlainVia::read_at(runs, start)?.end();
    }
    Some(end)
}

/// As [`end_of_other_vias`], of a Route or Record-Route field.
#[inline(never)]
fn end_of_other_routes(runs: &mut Runs<'_>, received: &[u8], mut end: usize) -> Option<usize> {
    while let Some(start) = next_value(received, end) {
        end = PlainAddress::read(runs, start)?.end();
    }
    Some(end)
}

/// Where a value begins, if one ends here that a comma follows, with or without a space.
fn next_value(received: &[u8], end: usize) -> Option<usize> {
    match received.get(end..)? {
        [b',', b' ', ..] => Some(end + 2),
        [b',', ..] => Some(end + 1),
        _ => None,
    }
}

/// The number that stands at a place, of ten digits at the most, and where it ends.
#[inline(always)]
pub(super) fn number_at(text: &[u8], start: usize) -> Option<(u64, usize)> {
    const MAXIMUM_DIGITS: usize = 10;
    let (number, length) = syntax::leading_number(text.get(start..)?);
    match length {
        1..=MAXIMUM_DIGITS => Some((number, start + length)),
        _ => None,
    }
}

/// A name that most messages have, spelled as in the RFC, with a colon and a space behind it.
pub(super) struct UsualName {
    /// Its first eight octets, and the next ones; and which bits of them are the name's.
    words: [u64; 2],
    masks: [u64; 2],
    pub(super) name: NameCode,
    /// The name's [bit](NameCode::bit).
    pub(super) bit: u64,
    /// Without the colon.
    pub(super) length: u8,
    pub(super) kind: Kind,
    /// Where another name is that begins alike; nowhere at 0.
    next: u8,
}

/// How a value is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Via,
    Route,
    RecordRoute,
    Address,
    CallId,
    CSeq,
    MaxForwards,
    ContentLength,
    /// Up to the end of the line.
    Text,
}

impl UsualName {
    /// The name with which a text begins.
    #[inline(always)]
    pub(super) fn of(text: &[u8]) -> Option<&'static UsualName> {
        let octets: &[u8; 16] = text.first_chunk()?;
        let (words, _) = octets.as_chunks();
        let [first, second] = [words[0], words[1]].map(u64::from_le_bytes);
        let mut usual = &USUAL[usual_slot(first)];
        loop {
            let [first_mask, second_mask] = usual.masks;
            if [first & first_mask, second & second_mask] == usual.words {
                return Some(usual);
            }
            match usual.next {
                0 => return None,
                next => usual = USUAL.get(usize::from(next))?,
            }
        }
    }
}

/// The slot of a name whose first octets these are: the first four tell them apart, with a factor that was found by trying.
const fn usual_slot(first: u64) -> usize {
    ((first as u32).wrapping_mul(USUAL_FACTOR) >> (u32::BITS - USUAL_BITS)) as usize
}

const USUAL_FACTOR: u32 = 0x5f1f_6e07;
const USUAL_BITS: u32 = 4;

/// How many names begin as another one does, at most.
const ALIKE: usize = 2;

/// The usual names, each in its slot, and those behind them that begin as another one does. It is made by the compiler.
static USUAL: [UsualName; (1 << USUAL_BITS) + ALIKE] = {
    const NAMES: [(Name<'static>, Kind); 14] = [
        (Name::Via, Kind::Via),
        (Name::From, Kind::Address),
        (Name::To, Kind::Address),
        (Name::CallId, Kind::CallId),
        (Name::CSeq, Kind::CSeq),
        (Name::Contact, Kind::Address),
        (Name::ContentLength, Kind::ContentLength),
        (Name::ContentType, Kind::Text),
        (Name::MaxForwards, Kind::MaxForwards),
        (Name::RecordRoute, Kind::RecordRoute),
        (Name::Route, Kind::Route),
        (Name::Allow, Kind::Text),
        (Name::UserAgent, Kind::Text),
        (Name::Supported, Kind::Text),
    ];
    // No text is the same as nothing.
    const NONE: UsualName = UsualName {
        words: [1; 2],
        masks: [0; 2],
        name: NameCode::OTHER,
        bit: 0,
        length: 0,
        kind: Kind::Text,
        next: 0,
    };
    let mut table = [NONE; (1 << USUAL_BITS) + ALIKE];
    let mut further = 1 << USUAL_BITS;
    let mut at = 0;
    while at < NAMES.len() {
        let (name, kind) = NAMES[at];
        let mut usual = usual_name(name, kind);
        let mut slot = usual_slot(usual.words[0]);
        if table[slot].length > 0 {
            let same_octets = (table[slot].words[0] ^ usual.words[0]) as u32 == 0;
            assert!(
                same_octets,
                "two names have one slot: choose another factor"
            );
            usual.next = table[slot].next;
            table[slot].next = further as u8;
            slot = further;
            further += 1;
        }
        table[slot] = usual;
        at += 1;
    }
    table
};

const fn usual_name(name: Name<'static>, kind: Kind) -> UsualName {
    let spelling = name.as_str().as_bytes();
    let mut octets = [0; 16];
    let mut at = 0;
    while at < spelling.len() {
        octets[at] = spelling[at];
        at += 1;
    }
    octets[at] = b':';
    octets[at + 1] = b' ';
    let word = u128::from_le_bytes(octets);
    let mask = u128::MAX >> (8 * (octets.len() - spelling.len() - 2));
    UsualName {
        words: [word as u64, (word >> 64) as u64],
        masks: [mask as u64, (mask >> 64) as u64],
        name: NameCode::of_known(name),
        bit: NameCode::of_known(name).bit(),
        length: spelling.len() as u8,
        kind,
        next: 0,
    }
}

#[cfg(test)]
mod tests;
