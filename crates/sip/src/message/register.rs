//! REGISTERs as most are, read in one pass without an index.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use bytes::{Bytes, BytesMut};

use crate::line::line_end;
use crate::name::NameCode;
use crate::name_addr::{PlainAddress, is_plain_uri};
use crate::runs::Runs;
use crate::syntax::{self, trim_end, trim_start};
use crate::transaction::{MAGIC_COOKIE, note_source};
use crate::via::KnownParameters;
use crate::{Flow, Host, Message, Name, Via};

use super::plain_via::PlainVia;
use super::split_cseq;
use super::usual::UsualName;

/// A REGISTER with one plain contact, as most are, and what a registrar has to know of it.
///
/// What is said here is what [`Message::read`] finds, and the request keeps the rules of [`Message::validate`]. It asks for
/// nothing but this one change: no extensions, no Path, no Route.
#[derive(Clone, Debug)]
pub struct PlainRegister {
    octets: Bytes,
    uri: Place,
    via: PlacedVia,
    from: Line,
    to: Line,
    call_id: Line,
    cseq: Line,
    cseq_number: u32,
    contact: Place,
    expires: Expires,
    user_agent: Place,
    max_forwards: Option<u8>,
    has_credentials: bool,
}

/// A part of a message that is no longer than a datagram.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    start: u16,
    end: u16,
}

/// A header field.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    /// With its line end.
    whole: Place,
    value: Place,
}

/// The only Via value.
#[derive(Clone, Copy, Debug)]
struct PlacedVia {
    line: Line,
    transport: Place,
    host: Place,
    address: Option<IpAddr>,
    port: Option<u16>,
    parameters: Place,
    branch: Place,
    has_rport: bool,
}

/// What is said of how long the contact is to be bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expires {
    /// Nothing.
    Unsaid,
    /// So many seconds.
    Seconds(u32),
    /// Something that is no number of seconds.
    Malformed,
}

/// How many lines such a REGISTER has at most.
const MAXIMUM_LINES: usize = 64;

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

const fn bit_of(name: Name<'static>) -> u64 {
    NameCode::of_known(name).bit()
}

impl PlainRegister {
    /// Reads octets that are one message.
    ///
    /// # Errors
    /// They come back where they are anything else, or take more than a glance.
    pub fn read(octets: Bytes) -> Result<PlainRegister, Bytes> {
        match Reading::read(&octets) {
            Some(reading) => reading.register(octets),
            None => Err(octets),
        }
    }

    /// The Request-URI.
    pub fn request_uri(&self) -> &[u8] {
        self.text(self.uri)
    }

    /// The only Via value.
    pub fn via(&self) -> Via<'_> {
        let via = &self.via;
        let host = match via.address {
            Some(address) => Host::Address(address),
            None => Host::Name(self.string(via.host)),
        };
        let known = KnownParameters {
            branch: Some(self.text(via.branch)),
            has_rport: via.has_rport,
            has_received: false,
            has_maddr: false,
        };
        let (transport, parameters) = (self.text(via.transport), self.text(via.parameters));
        Via::of_parts(transport, host, via.port, parameters, known)
    }

    /// To, which has no tag.
    pub fn to(&self) -> &[u8] {
        self.text(self.to.value)
    }

    /// Call-ID (RFC 3261 section 20.8).
    pub fn call_id(&self) -> &str {
        self.string(self.call_id.value)
    }

    /// Call-ID as octets.
    pub(crate) fn call_id_octets(&self) -> &[u8] {
        self.text(self.call_id.value)
    }

    /// The sequence number in CSeq (RFC 3261 section 20.16).
    pub fn cseq_number(&self) -> u32 {
        self.cseq_number
    }

    /// The URI of the only contact: a SIP URI without escapes, whose parameters are all its own.
    pub fn contact(&self) -> &str {
        self.string(self.contact)
    }

    /// How long the contact is to be bound.
    pub fn expires(&self) -> Expires {
        self.expires
    }

    /// What the user agent calls itself; empty where it does not say, or not in UTF-8.
    pub fn user_agent(&self) -> &str {
        self.string(self.user_agent)
    }

    /// Max-Forwards (RFC 3261 section 20.22).
    pub fn max_forwards(&self) -> Option<u8> {
        self.max_forwards
    }

    /// Whether there are credentials, for us or for others.
    pub fn has_credentials(&self) -> bool {
        self.has_credentials
    }

    /// The whole message.
    pub fn octets(&self) -> &Bytes {
        &self.octets
    }

    /// The whole message, for who needs nothing else.
    pub fn into_octets(self) -> Bytes {
        self.octets
    }

    /// The message with an index, for who has to do more with it: as the transaction layer hands it up. `None` never is.
    pub fn message(&self, flow: &Flow) -> Option<Message> {
        let mut message = Message::read(self.octets.clone()).ok()?;
        note_source(&mut message, flow);
        Some(message)
    }

    /// Appends the beginning of its 200, as [`Message::write_response_head`] does for the message that came from `source`.
    pub fn write_ok_head(&self, octets: &mut BytesMut, source: SocketAddr, to_tag: &str) {
        octets.extend_from_slice(b"SIP/2.0 200 OK\r\n");
        self.write_via(octets, source);
        octets.extend_from_slice(self.text(self.from.whole));
        let to = Place {
            start: self.to.whole.start,
            end: self.to.value.end,
        };
        for part in [self.text(to), b";tag=", to_tag.as_bytes(), b"\r\n"] {
            octets.extend_from_slice(part);
        }
        // Mostly they stand side by side.
        let (call_id, cseq) = (self.call_id.whole, self.cseq.whole);
        if call_id.end == cseq.start {
            let both = Place {
                start: call_id.start,
                end: cseq.end,
            };
            octets.extend_from_slice(self.text(both));
        } else {
            octets.extend_from_slice(self.text(call_id));
            octets.extend_from_slice(self.text(cseq));
        }
    }

    /// Via with where the request came from (RFC 3261 section 18.2.1, RFC 3581 section 4).
    fn write_via(&self, octets: &mut BytesMut, source: SocketAddr) {
        let via = &self.via;
        let ip = source.ip().to_canonical();
        let is_told = via.address == Some(ip);
        if is_told && !via.has_rport {
            octets.extend_from_slice(self.text(via.line.whole));
            return;
        }
        let before = Place {
            start: via.line.whole.start,
            end: via.parameters.start,
        };
        octets.extend_from_slice(self.text(before));
        let mut has_port = false;
        let parameters = self.text(via.parameters).split(|octet| *octet == b';');
        for parameter in parameters.skip(1) {
            octets.extend_from_slice(b";");
            if !has_port && parameter.eq_ignore_ascii_case(b"rport") {
                has_port = true;
                octets.extend_from_slice(format!("rport={}", source.port()).as_bytes());
            } else {
                octets.extend_from_slice(parameter);
            }
        }
        octets.extend_from_slice(format!(";received={ip}\r\n").as_bytes());
    }

    fn text(&self, place: Place) -> &[u8] {
        let range = usize::from(place.start)..usize::from(place.end);
        self.octets.get(range).unwrap_or_default()
    }

    fn string(&self, place: Place) -> &str {
        std::str::from_utf8(self.text(place)).unwrap_or_default()
    }
}

/// What has been read.
#[derive(Default)]
struct Reading {
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

impl Reading {
    fn read(octets: &[u8]) -> Option<Reading> {
        const BEFORE_URI: &[u8] = b"REGISTER ";
        const BEHIND_URI: &[u8] = b" SIP/2.0";
        if octets.len() > usize::from(u16::MAX) {
            return None;
        }
        let start_line = line_end(octets, 0).filter(|end| end.proper)?;
        let uri = octets[..start_line.end]
            .strip_prefix(BEFORE_URI)?
            .strip_suffix(BEHIND_URI)?;
        if !is_plain_uri(uri) {
            return None;
        }
        let mut reading = Reading {
            uri: place(BEFORE_URI.len()..BEFORE_URI.len() + uri.len()),
            ..Reading::default()
        };
        let mut at = start_line.next;
        for _ in 0..MAXIMUM_LINES {
            let end = line_end(octets, at).filter(|end| end.proper)?;
            if end.end == at {
                reading.end(octets, end.next)?;
                return Some(reading);
            }
            reading.read_field(octets, at..end.end, end.next)?;
            at = end.next;
        }
        None
    }

    /// Reads a field. `None` where it is one that is not usual, or breaks a rule.
    #[inline]
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
            Name::Via if is_tidy() => self.via = Some(PlacedVia::read(line, value)?),
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

    fn register(self, mut octets: Bytes) -> Result<PlainRegister, Bytes> {
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
    fn read(line: Line, value: &[u8]) -> Option<PlacedVia> {
        let plain = PlainVia::read(value)?;
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

/// The Call-ID of a message, as [`Message::call_id`] gives it, where it is written as most write it, and no field stands
/// before it that may be one.
pub fn plain_call_id(octets: &[u8]) -> Option<&str> {
    const NAME: &[u8] = b"Call-ID:";
    let mut at = line_end(octets, 0)?.next;
    for _ in 0..MAXIMUM_LINES {
        let line = octets.get(at..)?;
        // White space continues the line before.
        let is_it = match line {
            [b'C' | b'c', b'a' | b'A', ..] => Some(line.starts_with(NAME)),
            [b'i' | b'I' | b' ' | b'\t' | b'\r' | b'\n', ..] => Some(false),
            _ => None,
        };
        let end = line_end(octets, at).filter(|end| end.proper)?;
        match is_it {
            Some(true) => {
                let is_folded = matches!(octets.get(end.next), Some(b' ' | b'\t'));
                let value = octets.get(at + NAME.len()..end.end)?;
                let value = std::str::from_utf8(trim_end(trim_start(value))).ok()?;
                return (!is_folded).then_some(value);
            }
            Some(false) => return None,
            None => at = end.next,
        }
    }
    None
}

/// The URI of a Contact field with one value that has no parameters but `expires`, and that in seconds: a SIP URI without
/// escapes. The value is one that [`Message::validate`] lets pass.
pub fn plain_contact(value: &[u8]) -> Option<(&str, Option<u32>)> {
    let (bracketed, behind) = value.split_at(syntax::find(b'>', value)?);
    let uri = bracketed.strip_prefix(b"<")?;
    let is_plain = |octet: &u8| {
        octet.is_ascii_graphic() && !matches!(octet, b'<' | b'"' | b',' | b'%' | b'\\')
    };
    if !uri.starts_with(b"sip:") || !uri.iter().all(is_plain) {
        return None;
    }
    Some((std::str::from_utf8(uri).ok()?, interval(behind)?))
}

/// What the parameters of a contact say of its interval, from the bracket before them on. `None` where there are others.
fn interval(behind: &[u8]) -> Option<Option<u32>> {
    match behind {
        b">" => Some(None),
        _ => {
            let digits = behind.strip_prefix(b">;expires=")?;
            syntax::number(digits).map(Some)
        }
    }
}

#[cfg(test)]
mod tests;
