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
    let equals = if value.is_some() { "=" } else { "" };
    let parts = [separator, name, equals, value.unwrap_or_default()];
    via.splice(range, parts.iter().flat_map(|part| part.bytes()));
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Via<'_> {
        Via::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// RFC 3261 section 20.42.
    #[test]
    fn examples_of_via_values() {
        let via = parse("SIP/2.0/UDP erlang.bell-telephone.com:5060;branch=z9hG4bK87asdks7");
        assert_eq!(via.transport(), Some(Transport::Udp));
        assert_eq!(via.host(), Host::Name("erlang.bell-telephone.com"));
        assert_eq!(
            (via.port(), via.branch()),
            (Some(5060), Some("z9hG4bK87asdks7"))
        );

        let via =
            parse("SIP/2.0/UDP 192.0.2.1:5060 ;received=192.0.2.207\r\n ;branch=z9hG4bK77asjd");
        assert_eq!(via.received(), Some(IpAddr::from([192, 0, 2, 207])));
        assert_eq!(via.branch(), Some("z9hG4bK77asjd"));

        let via = parse(
            "SIP / 2.0 / UDP first.example.com: 4000;ttl=16\r\n  ;maddr=224.2.0.1 ;branch=z9hG4bKa7c6a8dlze.1",
        );
        assert_eq!(
            (via.host(), via.port()),
            (Host::Name("first.example.com"), Some(4000))
        );
        assert_eq!(via.ttl(), Some(16));
        assert_eq!(
            via.maddr().and_then(|host| host.address()),
            Some(IpAddr::from([224, 2, 0, 1]))
        );
    }

    #[test]
    fn rport_and_received() {
        let via = parse("SIP/2.0/UDP 10.1.1.1:4540;rport;branch=z9hG4bKkjshdyff");
        assert!(via.has_rport());
        assert_eq!((via.rport(), via.received()), (None, None));
        let via = parse("SIP/2.0/UDP 10.1.1.1:4540;received=192.0.2.1;rport=9988");
        assert_eq!(
            (via.rport(), via.received()),
            (Some(9988), Some(IpAddr::from([192, 0, 2, 1])))
        );
        for received in ["2001:db8::9:255", "[2001:db8::9:255]"] {
            let text = format!("SIP/2.0/UDP [2001:db8::9:1]:6050 ; received={received}");
            let via = parse(&text);
            assert_eq!(via.received(), "2001:db8::9:255".parse().ok());
            assert_eq!(
                (via.host().to_string(), via.port()),
                ("[2001:db8::9:1]".to_owned(), Some(6050))
            );
        }
    }

    /// RFC 4168 section 4.
    #[test]
    fn transports_of_rfc_4168_and_unknown_ones() {
        assert_eq!(
            parse("SIP/2.0/SCTP ws1234.example.com:5060").transport(),
            Some(Transport::Sctp)
        );
        assert_eq!(
            parse("SIP/2.0/tls-sctp ws1234.example.com:5060").transport(),
            Some(Transport::TlsSctp)
        );
        let via = parse("SIP/2.0/UNKNOWN t4.example.com;branch=z9hG4bKasd0f3en");
        assert_eq!((via.transport(), via.transport_name()), (None, "UNKNOWN"));
    }

    #[test]
    fn values_that_are_no_vias() {
        for text in [
            "",
            ";",
            "SIP/2.0/UDP",
            "SIP/2.0/UDP ",
            "SIP/2.0 host",
            "SIP/2.0/ host",
            "/2.0/UDP host",
            "SIP/2.0/UDP host:",
            "SIP/2.0/UDP host:x",
            "SIP/2.0/UDP ho st",
            "SIP/2.0/UDP [::1",
            "SIP/2.0/UDP :5060",
        ] {
            assert!(Via::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    /// What a Via value says, found by splitting it: no quotation marks, and nothing but ASCII.
    fn reference(
        value: &str,
    ) -> Option<(String, String, Option<u16>, Vec<(String, Option<String>)>)> {
        let trim = |text: &str| text.trim_matches([' ', '\t', '\r', '\n']).to_owned();
        let (before, parameters) = match value.split_once(';') {
            Some((before, parameters)) => (before, Some(parameters)),
            None => (value, None),
        };
        let (name, rest) = before.split_once('/')?;
        let (version, rest) = rest.split_once('/')?;
        let rest = trim(rest);
        let (transport, sent_by) = rest.split_once([' ', '\t', '\r', '\n'])?;
        let is_token = |text: &str| {
            let others = "-.!%*_+`'~";
            !text.is_empty()
                && text
                    .chars()
                    .all(|one| one.is_ascii_alphanumeric() || others.contains(one))
        };
        if ![&trim(name), &trim(version), transport]
            .iter()
            .all(|text| is_token(text))
        {
            return None;
        }
        let sent_by = trim(sent_by);
        let bracket = sent_by.rfind(']').map_or(0, |end| end + 1);
        let (host, port) = match sent_by[bracket..].find(':') {
            Some(colon) => {
                let (host, port) = sent_by.split_at(bracket + colon);
                let port = trim(&port[1..]);
                let is_number =
                    !port.is_empty() && port.bytes().all(|octet| octet.is_ascii_digit());
                (trim(host), Some(port.parse().ok().filter(|_| is_number)?))
            }
            None => (sent_by, None),
        };
        let host = Host::parse(&host)?.to_string();
        let parameters = parameters.map_or(Vec::new(), |text| {
            let split = |parameter: &str| match parameter.split_once('=') {
                Some((name, value)) => (trim(name), Some(trim(value))),
                None => (trim(parameter), None),
            };
            text.split(';').map(split).collect()
        });
        Some((transport.to_owned(), host, port, parameters))
    }

    fn compare(text: &str) {
        let found = Via::parse(text.as_bytes()).ok();
        let expected = reference(text.trim_matches([' ', '\t', '\r', '\n']));
        let (via, (transport, host, port, parameters)) = match (found, expected) {
            (Some(via), Some(expected)) => (via, expected),
            (found, expected) => {
                return assert_eq!(found.is_some(), expected.is_some(), "{text:?}");
            }
        };
        assert_eq!(via.transport_name(), transport, "{text:?}");
        assert_eq!(
            (via.host().to_string(), via.port()),
            (host, port),
            "{text:?}"
        );
        let value = |name: &str| {
            let mut parameters = parameters.iter();
            let found = parameters.find(|(other, _)| other.eq_ignore_ascii_case(name))?;
            Some(found.1.clone().unwrap_or_default())
        };
        assert_eq!(via.branch(), value("branch").as_deref(), "{text:?}");
        assert_eq!(via.has_rport(), value("rport").is_some(), "{text:?}");
        assert_eq!(via.has_received(), value("received").is_some(), "{text:?}");
        let maddr = value("maddr");
        let maddr = maddr
            .as_deref()
            .and_then(Host::parse)
            .map(|host| host.to_string());
        assert_eq!(via.maddr().map(|host| host.to_string()), maddr, "{text:?}");
        let is_well_formed = parameters.iter().all(|(name, value)| {
            let value = value.as_ref().map_or(&b"x"[..], |value| value.as_bytes());
            syntax::is_token(name.as_bytes())
                && !value.is_empty()
                && syntax::all(value, syntax::VALUE)
        });
        assert_eq!(is_well_formed_via(text), is_well_formed, "{text:?}");
    }

    fn is_well_formed_via(value: &str) -> bool {
        ViaParts::parse(trim(value.as_bytes())).is_some_and(|via| via.is_well_formed)
    }

    proptest! {
        #[test]
        fn any_value_is_parsed_as_by_the_reference(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "SIP/2.0/UDP ", "SIP/2.0/", "SIP / 2.0 / ", "TCP", " ", "a.b", "1.2.3.4", ":", "5060", "99999", ";",
                    "branch", "=", "rport", "RECEIVED", "received=1.2.3.4", "maddr", ",", "<", "z9hG4bK1", ".", "[::1]",
                    "\t", "\r\n ", ";branch=z9hG4bK2", " ; ",
                ]),
                0..16,
            ),
        ) {
            compare(&parts.concat());
            compare(&format!("SIP/2.0/UDP a{}", parts.concat()));
        }
    }

    #[test]
    fn parameters_are_found_where_they_stand() {
        let found = |value: &'static str, name| {
            parameter_range(value.as_bytes(), name).map(|range| &value[range])
        };
        assert_eq!(found("SIP/2.0/UDP a", "rport"), None);
        assert_eq!(found("SIP/2.0/UDP a ; RPORT ;x", "rport"), Some("RPORT"));
        assert_eq!(
            found("SIP/2.0/UDP a;received = 1 ;branch=b", "received"),
            Some("received = 1")
        );
        assert_eq!(
            found("SIP/2.0/UDP a;received=1;branch=b", "branch"),
            Some("branch=b")
        );
    }
}
