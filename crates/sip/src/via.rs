//! Via values: the way that a request took (RFC 3261 section 20.42).

use std::net::{IpAddr, Ipv6Addr};
use std::ops::Range;

use crate::syntax::{self, find, is_lws, split_once, trim, trim_text};
use crate::uri::parse_host_and_port;
use crate::{Host, Parameters, Transport};

/// Why a value is not a Via's: no protocol, or no host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed Via")]
pub struct ViaError;

/// One Via value, borrowed from its message.
#[derive(Clone, Copy, Debug)]
pub struct Via<'a> {
    /// It is text.
    transport: &'a [u8],
    host: Host<'a>,
    port: Option<u16>,
    parameters: Parameters<'a>,
    /// What was looked up among the parameters before.
    known: Option<KnownParameters<'a>>,
}

/// The parameters that every message is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KnownParameters<'a> {
    pub(crate) branch: Option<&'a [u8]>,
    pub(crate) has_rport: bool,
    pub(crate) has_received: bool,
    pub(crate) has_maddr: bool,
}

impl<'a> Via<'a> {
    /// Parses one value. Nothing is demanded of the parameters, nor of the protocol's name and
    /// version: a request of another version is still to be answered.
    pub fn parse(value: &'a [u8]) -> Result<Via<'a>, ViaError> {
        let value = trim(value);
        let parameters_start = find(b';', value).unwrap_or(value.len());
        let (protocol_and_host, parameters) = value.split_at(parameters_start);
        let text = std::str::from_utf8(protocol_and_host).map_err(|_| ViaError)?;
        let (transport, sent_by) = split_protocol(text).ok_or(ViaError)?;
        let (host, port) =
            parse_host_and_port(trim_text(sent_by), trim_text).map_err(|_| ViaError)?;
        Ok(Via {
            transport: transport.as_bytes(),
            host,
            port,
            parameters: Parameters::new(parameters),
            known: None,
        })
    }

    /// A value that was parsed before.
    pub(crate) fn of_parts(
        transport: &'a [u8],
        host: Host<'a>,
        port: Option<u16>,
        parameters: &'a [u8],
        known: KnownParameters<'a>,
    ) -> Via<'a> {
        Via {
            transport,
            host,
            port,
            parameters: Parameters::new(parameters),
            known: Some(known),
        }
    }

    /// Looks the parameters up that every message is asked for, all at once.
    pub(crate) fn look_up(&self) -> KnownParameters<'a> {
        let mut known = KnownParameters::default();
        let mut rest = self.parameters;
        while let Some(parameter) = rest.next_raw() {
            let is = |name: &[u8]| parameter.name.eq_ignore_ascii_case(name);
            let is_text = || std::str::from_utf8(parameter.value.unwrap_or_default()).is_ok();
            match parameter.name.len() {
                5 if is(b"rport") => known.has_rport |= is_text(),
                5 if is(b"maddr") => known.has_maddr |= is_text(),
                6 if is(b"branch") => {
                    known
                        .branch
                        .get_or_insert(parameter.value.unwrap_or_default());
                }
                8 if is(b"received") => known.has_received |= is_text(),
                _ => {}
            }
        }
        known
    }

    /// The transport's name as written.
    pub fn transport_name(&self) -> &'a str {
        std::str::from_utf8(self.transport).unwrap_or_default()
    }

    /// The transport, where it is one of those that we know.
    pub fn transport(&self) -> Option<Transport> {
        Transport::from_via_name(self.transport_name())
    }

    /// The host of sent-by.
    pub fn host(&self) -> Host<'a> {
        self.host
    }

    /// The port of sent-by, where one is written.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The branch parameter (RFC 3261 section 8.1.1.7).
    pub fn branch(&self) -> Option<&'a str> {
        match &self.known {
            Some(known) => std::str::from_utf8(known.branch?).ok(),
            None => self.parameters.get("branch"),
        }
    }

    /// [`branch`](Via::branch) in octets.
    pub(crate) fn branch_bytes(&self) -> Option<&'a [u8]> {
        let is_text = |text: &&[u8]| text.is_ascii() || std::str::from_utf8(text).is_ok();
        match &self.known {
            Some(known) => known.branch.filter(is_text),
            None => self.parameters.get("branch").map(str::as_bytes),
        }
    }

    /// The received parameter: the address that the request came from (RFC 3261 section 18.2.1).
    /// IPv6 addresses are written without brackets, but are read with them too (RFC 5118 section
    /// 4.5).
    pub fn received(&self) -> Option<IpAddr> {
        if self.known.is_some_and(|known| !known.has_received) {
            return None;
        }
        let text = self.parameters.get("received")?;
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
        match &self.known {
            Some(known) => known.has_rport,
            None => self.parameters.contains("rport"),
        }
    }

    /// Whether there is a received parameter, with whatever value.
    pub(crate) fn has_received(&self) -> bool {
        match &self.known {
            Some(known) => known.has_received,
            None => self.parameters.contains("received"),
        }
    }

    /// The value of the rport parameter: the port that the request came from (RFC 3581).
    pub fn rport(&self) -> Option<u16> {
        syntax::number(self.parameters.get("rport")?.as_bytes())
    }

    /// The maddr parameter.
    pub fn maddr(&self) -> Option<Host<'a>> {
        if self.known.is_some_and(|known| !known.has_maddr) {
            return None;
        }
        Host::parse(self.parameters.get("maddr")?)
    }

    /// The ttl parameter.
    pub fn ttl(&self) -> Option<u8> {
        syntax::number(self.parameters.get("ttl")?.as_bytes())
    }

    /// All parameters.
    pub fn parameters(&self) -> Parameters<'a> {
        self.parameters
    }

    /// The value of a parameter, "" where it has none; `None` where it is not there.
    pub fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.get(name)
    }
}

/// Splits off the transport, behind the protocol's name and version, from sent-by.
fn split_protocol(text: &str) -> Option<(&str, &str)> {
    // As nearly everybody writes it.
    if let Some(rest) = text.strip_prefix("SIP/2.0/")
        && let Some((transport, sent_by)) = split_once(rest, b' ')
        && syntax::is_token(transport.as_bytes())
    {
        return Some((transport, sent_by));
    }
    let (protocol, rest) = split_once(text, b'/')?;
    let (version, rest) = split_once(rest, b'/')?;
    let rest = trim_text(rest);
    let (transport, sent_by) = rest.split_at(rest.bytes().position(is_lws)?);
    let tokens = [trim_text(protocol), trim_text(version), transport];
    let are_tokens = tokens
        .iter()
        .all(|token| syntax::is_token(token.as_bytes()));
    are_tokens.then_some((transport, sent_by))
}

/// Where a parameter stands in a value, from its name to the end of its own value. `None` where it
/// is not there.
pub(crate) fn parameter_range(value: &[u8], name: &str) -> Option<Range<usize>> {
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
