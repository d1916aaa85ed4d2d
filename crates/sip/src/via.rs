//! Via: the way that a request took (RFC 3261 sections 18.2.1 and 20.42, RFC 3581).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::ops::Range;

use crate::lexer::Lexer;
use crate::list::is_well_formed_list;
use crate::syntax::{self, ASCII_VALUE, TOKEN, find, is_lws, trim, trim_text};
use crate::uri::{PlainHost, parse_host_and_port};
use crate::{Host, Parameters, Transport};

/// What the branch of a request begins with that keeps to RFC 3261 (section 8.1.1.7).
pub const MAGIC_COOKIE: &str = "z9hG4bK";

/// The protocol's name and version as nearly everybody writes them.
const USUAL_PROTOCOL: &str = "SIP/2.0/";

/// Why a value is not a Via's: no protocol, or no host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed Via")]
pub struct ViaError;

/// One Via value, borrowed from its message.
#[derive(Clone, Copy, Debug)]
pub struct Via<'a> {
    value: &'a [u8],
    parts: ViaParts,
}

/// The parts of a Via value, as places in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ViaParts {
    transport: Place,
    host: ViaHost,
    port: Option<u16>,
    /// Where the parameters begin, with the first semicolon.
    parameters: u32,
    branch: Option<Place>,
    has_rport: bool,
    has_received: bool,
    has_maddr: bool,
    /// Whether the parameters keep to the grammar.
    is_well_formed: bool,
}

#[derive(Clone, Copy, Debug)]
enum ViaHost {
    Name(Place),
    Address(IpAddr),
}

/// A place in a value.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: u32,
    end: u32,
}

impl Place {
    fn of(range: Range<usize>) -> Place {
        // No message is longer than 4 GiB.
        Place {
            start: range.start as u32,
            end: range.end as u32,
        }
    }

    fn text(self, value: &[u8]) -> &[u8] {
        value
            .get(self.start as usize..self.end as usize)
            .unwrap_or_default()
    }
}

impl ViaParts {
    /// Parses a value that has no white space around it.
    fn parse(value: &[u8]) -> Option<ViaParts> {
        ViaParts::parse_usual(value).or_else(|| ViaParts::parse_any(value))
    }

    /// Parses a value in one pass that has the usual form: `SIP/2.0/transport host:port;parameters` with one space, and
    /// with nothing in quotation marks, brackets or octets beyond ASCII. Such a one is well-formed.
    fn parse_usual(value: &[u8]) -> Option<ViaParts> {
        if !value.starts_with(USUAL_PROTOCOL.as_bytes()) {
            return None;
        }
        let mut lexer = Lexer::new(value);
        let transport_start = USUAL_PROTOCOL.len();
        let transport_end = match lexer.end_and_octet(transport_start, TOKEN) {
            (end, b' ') if end > transport_start => end,
            _ => return None,
        };
        let (host, mut octet) = PlainHost::read(&mut lexer, transport_end + 1)?;
        let mut parts = ViaParts {
            transport: Place::of(transport_start..transport_end),
            host: match host.address {
                Some(address) => ViaHost::Address(address.into()),
                None => ViaHost::Name(Place::of(host.start..host.end)),
            },
            port: host.port,
            parameters: host.port_end as u32,
            branch: None,
            has_rport: false,
            has_received: false,
            has_maddr: false,
            is_well_formed: true,
        };
        let mut at = host.port_end;
        while octet == b';' {
            let start = at + 1;
            (at, octet) = lexer.end_and_octet(start, TOKEN);
            let name = value.get(start..at)?;
            let mut parameter = at..at;
            if octet == b'=' {
                parameter.start = at + 1;
                (at, octet) = lexer.end_and_octet(parameter.start, ASCII_VALUE);
                parameter.end = at;
            }
            if name.is_empty() || octet == b'=' || parameter.is_empty() && at > start + name.len() {
                return None;
            }
            parts.note_parameter(name, parameter);
        }
        (at == value.len()).then_some(parts)
    }

    /// Parses a value of any form.
    fn parse_any(value: &[u8]) -> Option<ViaParts> {
        let parameters = find(b';', value).unwrap_or(value.len());
        let text = std::str::from_utf8(&value[..parameters]).ok()?;
        let (transport, behind) = split_protocol(text)?;
        let sent_by = &text[behind..];
        let host_start = behind + sent_by.len() - syntax::trim_start(sent_by.as_bytes()).len();
        let (host, port) = parse_host_and_port(trim_text(sent_by), trim_text).ok()?;
        let host = match host {
            Host::Name(name) => ViaHost::Name(Place::of(host_start..host_start + name.len())),
            Host::Address(address) => ViaHost::Address(address),
        };
        let mut rest = Parameters::new(&value[parameters..]);
        let mut parts = ViaParts {
            transport: Place::of(transport),
            host,
            port,
            parameters: parameters as u32,
            branch: None,
            has_rport: false,
            has_received: false,
            has_maddr: false,
            is_well_formed: rest.are_well_formed(),
        };
        while let Some(parameter) = rest.next_raw() {
            // Its value, if any, ends where the parameter does.
            let end = value.len() - parameter.remaining + parameter.text.len();
            let text = parameter.value.unwrap_or_default();
            if std::str::from_utf8(text).is_ok() || parameter.name.eq_ignore_ascii_case(b"branch") {
                parts.note_parameter(parameter.name, end - text.len()..end);
            }
        }
        Some(parts)
    }

    /// Notes a parameter that every message is asked for.
    fn note_parameter(&mut self, name: &[u8], value: Range<usize>) {
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        match name.len() {
            5 if is(b"rport") => self.has_rport = true,
            5 if is(b"maddr") => self.has_maddr = true,
            6 if self.branch.is_none() && is(b"branch") => self.branch = Some(Place::of(value)),
            8 if is(b"received") => self.has_received = true,
            _ => {}
        }
    }
}

impl<'a> Via<'a> {
    /// Parses one value. Nothing is demanded of the parameters, nor of the protocol's name and
    /// version: a request of another version is still to be answered.
    pub fn parse(value: &'a [u8]) -> Result<Via<'a>, ViaError> {
        let value = trim(value);
        let parts = ViaParts::parse(value).ok_or(ViaError)?;
        Ok(Via { value, parts })
    }

    /// A value that was parsed before.
    pub(crate) fn with_parts(value: &'a [u8], parts: ViaParts) -> Via<'a> {
        Via { value, parts }
    }

    /// The parts of the value, to be kept.
    pub(crate) fn parts(&self) -> ViaParts {
        self.parts
    }

    /// The whole value.
    pub(crate) fn value(&self) -> &'a [u8] {
        self.value
    }

    /// Whether it keeps to the grammar.
    pub(crate) fn is_well_formed(&self) -> bool {
        self.parts.is_well_formed
    }

    /// The transport's name as written.
    pub fn transport_name(&self) -> &'a str {
        std::str::from_utf8(self.parts.transport.text(self.value)).unwrap_or_default()
    }

    /// The transport, where it is one of those that we know.
    pub fn transport(&self) -> Option<Transport> {
        Transport::from_via_name(self.transport_name())
    }

    /// The host of sent-by.
    pub fn host(&self) -> Host<'a> {
        match self.parts.host {
            ViaHost::Name(name) => {
                Host::Name(std::str::from_utf8(name.text(self.value)).unwrap_or_default())
            }
            ViaHost::Address(address) => Host::Address(address),
        }
    }

    /// The port of sent-by, where one is written.
    pub fn port(&self) -> Option<u16> {
        self.parts.port
    }

    /// The branch parameter (RFC 3261 section 8.1.1.7).
    pub fn branch(&self) -> Option<&'a str> {
        std::str::from_utf8(self.parts.branch?.text(self.value)).ok()
    }

    /// Whether the branch names a transaction as RFC 3261 section 8.1.1.7 has it: it begins with the magic cookie, and is
    /// more than that (RFC 4475 section 3.2.1).
    pub(crate) fn names_transaction(&self) -> bool {
        let unique = self
            .branch()
            .and_then(|branch| branch.strip_prefix(MAGIC_COOKIE));
        unique.is_some_and(|unique| !unique.is_empty())
    }

    /// The received parameter: the address that the request came from (RFC 3261 section 18.2.1).
    /// IPv6 addresses are written without brackets, but are read with them too (RFC 5118 section
    /// 4.5).
    pub fn received(&self) -> Option<IpAddr> {
        if !self.parts.has_received {
            return None;
        }
        let text = self.parameter("received")?;
        match text
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'))
        {
            Some(text) => text.parse::<Ipv6Addr>().ok().map(IpAddr::from),
            None => text.parse().ok(),
        }
    }

    /// Whether there is an rport parameter, with or without a value (RFC 3581).
    pub fn has_rport(&self) -> bool {
        self.parts.has_rport
    }

    /// Whether there is a received parameter, with whatever value.
    pub(crate) fn has_received(&self) -> bool {
        self.parts.has_received
    }

    /// The value of the rport parameter: the port that the request came from (RFC 3581).
    pub fn rport(&self) -> Option<u16> {
        syntax::number(self.parameter("rport")?.as_bytes())
    }

    /// The maddr parameter.
    pub fn maddr(&self) -> Option<Host<'a>> {
        if !self.parts.has_maddr {
            return None;
        }
        Host::parse(self.parameter("maddr")?)
    }

    /// The ttl parameter.
    pub fn ttl(&self) -> Option<u8> {
        syntax::number(self.parameter("ttl")?.as_bytes())
    }

    /// All parameters.
    pub fn parameters(&self) -> Parameters<'a> {
        Parameters::new(
            self.value
                .get(self.parts.parameters as usize..)
                .unwrap_or_default(),
        )
    }

    /// The value of a parameter, "" where it has none; `None` where it is not there.
    pub fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters().get(name)
    }

    /// The value with the source of its request noted: `received` where sent-by does not say it, or `rport` asks for it,
    /// and the value of `rport` (RFC 3261 section 18.2.1, RFC 3581 section 4). `None` where nothing is to be noted.
    pub fn with_source(&self, source: SocketAddr) -> Option<Vec<u8>> {
        let address = source.ip().to_canonical();
        if !self.has_rport() && !self.has_received() && self.host() == Host::Address(address) {
            return None;
        }
        let mut value = Vec::with_capacity(self.value.len() + SOURCE_LENGTH);
        value.extend_from_slice(self.value);
        if self.has_rport() {
            set_parameter(&mut value, "rport", Some(&source.port().to_string()));
        }
        set_parameter(&mut value, "received", Some(&address.to_string()));
        Some(value)
    }
}

/// Octets that noting the source usually adds.
const SOURCE_LENGTH: usize = 40;

/// Sets a parameter of a Via value, or adds it.
pub(crate) fn set_parameter(via: &mut Vec<u8>, name: &str, value: Option<&str>) {
    let (range, separator) = match parameter_range(via, name) {
        Some(range) => (range, ""),
        None => (via.len()..via.len(), ";"),
    };
    let behind = via[range.end..].to_vec();
    via.truncate(range.start);
    let equals = if value.is_some() { "=" } else { "" };
    for part in [separator, name, equals, value.unwrap_or_default()] {
        via.extend_from_slice(part.as_bytes());
    }
    via.extend_from_slice(&behind);
}

/// Whether all values of a list are Via values that keep to the grammar.
pub(crate) fn is_well_formed(list: &[u8]) -> bool {
    is_well_formed_list(list, |value| {
        ViaParts::parse(value).is_some_and(|via| via.is_well_formed)
    })
}

/// Where the transport is in a text that begins with the protocol's name and version, and where sent-by begins behind
/// it.
fn split_protocol(text: &str) -> Option<(Range<usize>, usize)> {
    let (protocol, rest) = text.split_once('/')?;
    let (version, rest) = rest.split_once('/')?;
    let rest = trim_text(rest);
    let length = rest.bytes().position(is_lws)?;
    let tokens = [trim_text(protocol), trim_text(version), &rest[..length]];
    let are_tokens = tokens
        .iter()
        .all(|token| syntax::is_token(token.as_bytes()));
    let start = trim_text_end(text).len() - rest.len();
    are_tokens.then_some((start..start + length, start + length))
}

fn trim_text_end(text: &str) -> &str {
    &text[..syntax::trim_end(text.as_bytes()).len()]
}

/// Where a parameter stands in a value, from its name to the end of its own value. `None` where it
/// is not there.
fn parameter_range(value: &[u8], name: &str) -> Option<Range<usize>> {
    let parameters_start = find(b';', value)?;
    let mut parameters = Parameters::new(&value[parameters_start..]);
    while let Some(parameter) = parameters.next_raw() {
        if parameter.name.eq_ignore_ascii_case(name.as_bytes()) {
            let start = value.len() - parameter.remaining;
            return Some(start..start + parameter.text.len());
        }
    }
    None
}

#[cfg(test)]
mod tests;
