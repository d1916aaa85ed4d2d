//! The one pass over a REGISTER as most are.

use std::ops::Range;

use bytes::Bytes;

use crate::Name;
use crate::line::line_end;
use crate::name::NameCode;
use crate::name_addr::PlainAddress;
use crate::runs::{LineEnds, Runs};
use crate::syntax::{self, trim_end, trim_start};
use crate::transaction::MAGIC_COOKIE;
use crate::uri::PlainUri;

use super::super::plain_via::PlainVia;
use super::super::split_cseq;
use super::super::usual::{Kind, UsualName, number_at};
use super::{Expires, Line, MAXIMUM_LINES, Place, PlacedVia, PlainRegister, interval};

/// What has been read.
#[derive(Default)]
pub(super) struct Reading {
    uri: Place,
    via: Option<PlacedVia>,
    from: Line,
    to: Line,
    call_id: Line,
    cseq: Line,
    cseq_number: u32,
    contact: Place,
    /// What the contact says of its interval.
    contact_expires: Option<u32>,
    /// What the request says of it.
    expires: Option<Expires>,
    user_agent: Place,
    max_forwards: Option<u8>,
    content_length: Option<usize>,
    /// A [bit](NameCode::bit) for each known name.
    names: u64,
    length: usize,
}

/// The names of fields that ask for more than is seen here, or that others than these rules are for.
const UNUSUAL: u64 = {
    let names = [
        Name::ContentType,
        Name::MaxBreadth,
        Name::Path,
        Name::ProxyRequire,
        Name::RecordRoute,
        Name::Require,
        Name::Route,
    ];
    let mut bits = 0;
    let mut at = 0;
    while at < names.len() {
        bits |= bit_of(names[at]);
        at += 1;
    }
    bits
};

/// The names of fields that are looked at, each of which stands once at the most.
const LOOKED_AT: u64 = bit_of(Name::Via)
    | bit_of(Name::From)
    | bit_of(Name::To)
    | bit_of(Name::CallId)
    | bit_of(Name::CSeq)
    | bit_of(Name::Contact)
    | bit_of(Name::Expires)
    | bit_of(Name::MaxForwards)
    | bit_of(Name::ContentLength)
    | bit_of(Name::Supported)
    | bit_of(Name::UserAgent);

/// Those without which it is no registration.
const MANDATORY: u64 = bit_of(Name::Via)
    | bit_of(Name::From)
    | bit_of(Name::To)
    | bit_of(Name::CallId)
    | bit_of(Name::CSeq)
    | bit_of(Name::Contact);

/// Names of fields that are told apart by nothing else.
const FROM: NameCode = NameCode::of_known(Name::From);
const TO: NameCode = NameCode::of_known(Name::To);
const CONTACT: NameCode = NameCode::of_known(Name::Contact);
const USER_AGENT: NameCode = NameCode::of_known(Name::UserAgent);
const SUPPORTED: NameCode = NameCode::of_known(Name::Supported);

const fn bit_of(name: Name<'static>) -> u64 {
    NameCode::of_known(name).bit()
}

impl Reading {
    /// Reads octets that are one message. `None` where they are anything else, or take more than a glance.
    pub(super) fn read(octets: &[u8]) -> Option<Reading> {
        const BEFORE_URI: &[u8] = b"REGISTER ";
        const BEFORE_HOST: &[u8] = b"REGISTER sip:";
        const BEHIND_URI: &[u8] = b" SIP/2.0\r\n";
        if octets.len() > usize::from(u16::MAX) || !octets.starts_with(BEFORE_HOST) {
            return None;
        }
        let mut runs = Runs::new(octets);
        let uri_end = PlainUri::read(&mut runs, BEFORE_HOST.len())?.end;
        if !octets.get(uri_end..)?.starts_with(BEHIND_URI) {
            return None;
        }
        let mut reading = Reading {
            uri: place(BEFORE_URI.len()..uri_end),
            ..Reading::default()
        };
        let mut line_ends = LineEnds::new(octets);
        let mut at = uri_end + BEHIND_URI.len();
        for _ in 0..MAXIMUM_LINES {
            let end = line_ends.first(at);
            let is_proper = octets.get(end..end + LINE_END) == Some(b"\r\n");
            if is_proper && end == at {
                reading.end(octets, at + LINE_END)?;
                return Some(reading);
            }
            if is_proper
                && reading
                    .read_usual_field(octets, &mut runs, at..end)
                    .is_some()
            {
                at = end + LINE_END;
                continue;
            }
            let end = line_end(octets, at).filter(|end| end.proper)?;
            reading.read_field(octets, at..end.end, end.next)?;
            at = end.next;
        }
        None
    }

    /// Reads a field that is written as most write it, on a line between these places behind which there is a line end.
    /// `None`, and nothing is noted, where it is not: then [`read_field`](Reading::read_field) says what it is.
    #[inline(always)]
    fn read_usual_field(
        &mut self,
        octets: &[u8],
        runs: &mut Runs<'_>,
        line: Range<usize>,
    ) -> Option<()> {
        let Range { start, end } = line;
        let line_octets = octets.get(start..end)?;
        const EXPIRES: &[u8] = b"Expires: ";
        let Some(usual) = UsualName::of(octets.get(start..)?) else {
            let is_expires = line_octets.starts_with(EXPIRES);
            let is_new = bit_of(Name::Expires) & self.names == 0;
            return (is_expires && is_new)
                .then(|| self.read_usual_expires(octets, start + EXPIRES.len()..end))?;
        };
        if usual.bit & (UNUSUAL | LOOKED_AT & self.names) != 0 {
            return None;
        }
        let value_start = start + usize::from(usual.length) + 2;
        let value = octets.get(value_start..end)?;
        let placed = Line {
            whole: place(start..end + LINE_END),
            value: place(value_start..end),
        };
        match usual.kind {
            Kind::Via => {
                let via = PlainVia::read_at(runs, value_start)?;
                self.via = Some(PlacedVia::of(placed, value, &via)?);
            }
            Kind::Address => {
                let address = PlainAddress::read(runs, value_start)?;
                if address.end() != end {
                    return None;
                }
                match usual.name {
                    FROM => self.from = placed,
                    // Without a tag, and parameters at all.
                    TO if value.last() == Some(&b'>') => self.to = placed,
                    CONTACT => {
                        let uri = value.get(1..usize::from(address.head()).checked_sub(1)?)?;
                        if value.first() != Some(&b'<') || syntax::find(b',', uri).is_some() {
                            return None;
                        }
                        self.contact_expires = interval(&value[1 + uri.len()..])?;
                        self.contact = place(value_start + 1..value_start + 1 + uri.len());
                    }
                    _ => return None,
                }
            }
            Kind::CallId if !value.is_empty() && syntax::all_graphic(value) => {
                self.call_id = placed;
            }
            Kind::CSeq => {
                let (number, number_end) = number_at(octets, value_start)?;
                if number >= 1 << 31 || octets.get(number_end..end)? != b" REGISTER" {
                    return None;
                }
                self.cseq_number = number as u32;
                self.cseq = placed;
            }
            Kind::MaxForwards => {
                self.max_forwards = Some(u8::try_from(number_of(octets, value_start..end)?).ok()?);
            }
            Kind::ContentLength => {
                let number = number_of(octets, value_start..end)?;
                self.content_length = Some(usize::try_from(number).ok()?);
            }
            Kind::Text => {
                if value.first()? <= &b' ' || value.last()? <= &b' ' {
                    return None;
                }
                match usual.name {
                    USER_AGENT => self.user_agent = placed.value,
                    // Those are given what depends on more than the contact.
                    SUPPORTED if may_name_gruu(value) => return None,
                    _ => {}
                }
            }
            Kind::Route | Kind::RecordRoute | Kind::CallId => return None,
        }
        self.names |= usual.bit;
        Some(())
    }

    /// Notes what Expires says where that is a number of seconds.
    #[inline(always)]
    fn read_usual_expires(&mut self, octets: &[u8], value: Range<usize>) -> Option<()> {
        let seconds = u32::try_from(number_of(octets, value)?).ok()?;
        self.expires = Some(Expires::Seconds(seconds));
        self.names |= bit_of(Name::Expires);
        Some(())
    }

    /// Reads a field. `None` where it is one that is not usual, or breaks a rule.
    #[inline(never)]
    fn read_field(&mut self, octets: &[u8], line: Range<usize>, next: usize) -> Option<()> {
        let start = line.start;
        let line_octets = octets.get(line)?;
        // None of these goes on behind its line.
        let usual = octets.get(start..).and_then(UsualName::of);
        let usual = usual.and_then(|usual| {
            let rest = line_octets.get(usual.length.into()..)?;
            Some((usual.name.name()?, rest))
        });
        let (known, rest) = match usual {
            Some(usual) => usual,
            None => {
                let colon = syntax::find_near(b':', line_octets)?;
                let (name, rest) = line_octets.split_at(colon);
                match NameCode::of(name).name() {
                    Some(known) => (known, rest),
                    // White space before the colon is looked at by others, too.
                    None => return syntax::is_token(name).then_some(()),
                }
            }
        };
        let bit = known.code().bit();
        if bit & UNUSUAL != 0 || bit & LOOKED_AT & self.names != 0 {
            return None;
        }
        self.names |= bit;
        if bit & LOOKED_AT == 0 {
            return Some(());
        }
        let untrimmed = trim_start(&rest[1..]);
        let value = trim_end(untrimmed);
        let value_start = next - LINE_END - untrimmed.len();
        let line = Line {
            whole: place(start..next),
            value: place(value_start..value_start + value.len()),
        };
        // Whoever writes another value writes one space before it and none behind.
        let is_tidy = || rest.starts_with(b": ") && value.len() + 2 == rest.len();
        // In its place: what follows it is looked at in the same step.
        let is_plain_address = || {
            let address = PlainAddress::read(&mut Runs::new(octets), value_start);
            address.is_some_and(|address| address.end() == value_start + value.len())
        };
        match known {
            Name::Via if is_tidy() => {
                self.via = Some(PlacedVia::of(line, value, &PlainVia::read(value)?)?);
            }
            Name::From if is_plain_address() => self.from = line,
            // Without a tag, and parameters at all.
            Name::To if is_tidy() && value.ends_with(b">") && is_plain_address() => {
                self.to = line;
            }
            Name::CallId if !value.is_empty() && syntax::all(value, syntax::CALL_ID) => {
                self.call_id = line;
            }
            Name::CSeq => {
                let (number, method) = split_cseq(value)?;
                self.cseq_number = syntax::number(number).filter(|number| *number < 1 << 31)?;
                if method != b"REGISTER" {
                    return None;
                }
                self.cseq = line;
            }
            Name::Contact if is_plain_address() => {
                let bracketed = value.strip_prefix(b"<")?;
                let (uri, behind) = bracketed.split_at(syntax::find(b'>', bracketed)?);
                // All that is not plain is none of a plain address, but this.
                if syntax::find(b',', uri).is_some() {
                    return None;
                }
                let uri_start = value_start + 1;
                self.contact = place(uri_start..uri_start + uri.len());
                self.contact_expires = interval(behind)?;
            }
            Name::Expires => {
                let seconds = syntax::number(value);
                self.expires = Some(seconds.map_or(Expires::Malformed, Expires::Seconds));
            }
            Name::UserAgent => self.user_agent = line.value,
            // Those are given what depends on more than the contact.
            Name::Supported if !may_name_gruu(value) => {}
            Name::MaxForwards => self.max_forwards = Some(syntax::number(value)?),
            Name::ContentLength => self.content_length = Some(syntax::number(value)?),
            _ => return None,
        }
        Some(())
    }

    /// What is to be seen to behind the last field, where the body begins.
    fn end(&mut self, octets: &[u8], body_start: usize) -> Option<()> {
        let body = octets.len() - body_start;
        let body_length = self.content_length.unwrap_or(body);
        self.length = body_start + body_length;
        (self.names & MANDATORY == MANDATORY && body_length <= body).then_some(())
    }

    /// The register that has been read from these octets, which come back where it has no Via.
    pub(super) fn register(self, mut octets: Bytes) -> Result<PlainRegister, Bytes> {
        let Some(via) = self.via else {
            return Err(octets);
        };
        octets.truncate(self.length);
        const CREDENTIALS: u64 = bit_of(Name::Authorization) | bit_of(Name::ProxyAuthorization);
        Ok(PlainRegister {
            octets,
            uri: self.uri,
            via,
            from: self.from,
            to: self.to,
            call_id: self.call_id,
            cseq: self.cseq,
            cseq_number: self.cseq_number,
            contact: self.contact,
            expires: match (self.contact_expires, self.expires) {
                (Some(seconds), _) => Expires::Seconds(seconds),
                (None, said) => said.unwrap_or(Expires::Unsaid),
            },
            user_agent: self.user_agent,
            max_forwards: self.max_forwards,
            has_credentials: self.names & CREDENTIALS != 0,
        })
    }
}

impl PlacedVia {
    /// Reads the value of a field that has one value, which says nothing of where it came from, and names a transaction.
    fn of(line: Line, value: &[u8], plain: &PlainVia) -> Option<PlacedVia> {
        let within = |range: Range<usize>| {
            let start = usize::from(line.value.start);
            place(start + range.start..start + range.end)
        };
        let branch = plain.branch()?;
        let names_transaction = value
            .get(branch.clone())
            .and_then(|branch| branch.strip_prefix(MAGIC_COOKIE.as_bytes()))
            .is_some_and(|rest| !rest.is_empty());
        let parameters = value.get(plain.parameters())?;
        let has_port = || {
            let mut parameters = parameters.split(|octet| *octet == b';');
            parameters.any(|parameter| {
                let name = parameter.get(.."rport=".len());
                name.is_some_and(|name| name.eq_ignore_ascii_case(b"rport="))
            })
        };
        let is_usual = names_transaction
            && plain.end() == value.len()
            && !plain.has_received
            && !plain.has_maddr
            && !(plain.has_rport && has_port());
        is_usual.then(|| PlacedVia {
            line,
            transport: within(plain.transport()),
            host: within(plain.host()),
            address: plain.ip(),
            port: plain.port,
            parameters: within(plain.parameters()),
            branch: within(branch),
            has_rport: plain.has_rport,
        })
    }
}

/// CR and LF.
const LINE_END: usize = 2;

/// The number that is all that stands between two places.
#[inline(always)]
fn number_of(octets: &[u8], value: Range<usize>) -> Option<u64> {
    let (number, end) = number_at(octets, value.start)?;
    (end == value.end).then_some(number)
}

/// A part of octets of which there are no more than this can tell.
fn place(range: Range<usize>) -> Place {
    Place {
        start: range.start as u16,
        end: range.end as u16,
    }
}

fn may_name_gruu(value: &[u8]) -> bool {
    const TAG: &[u8] = b"gruu";
    let mut windows = value.windows(TAG.len());
    windows.any(|window| window.eq_ignore_ascii_case(TAG))
}
