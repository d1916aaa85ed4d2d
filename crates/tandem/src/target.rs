//! Whom a command talks to, or where it listens, as it is written: the same for every option.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use ::perf::Protocol;
use sip::Transport;

/// A host, or several addresses of one, as `[TRANSPORT:]HOST[,HOST…][:PORT]` or as a SIP URI:
/// `tcp:192.0.2.1:5060`, `[2001:db8::1]:5060`, `sip:example.org;transport=sctp`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// `None` where nothing is said of it.
    pub(crate) transport: Option<Transport>,
    /// Names and addresses, the latter without brackets. There is at least one.
    pub(crate) hosts: Vec<String>,
    pub(crate) port: Option<u16>,
}

/// Most addresses of one SCTP endpoint that may be named.
const MAX_HOSTS: usize = 255;

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        let place = Place(text).read()?;
        match place.port {
            Some(0) => Err(format!(
                "\"{text}\": nobody listens on port 0; a port from 1 to 65535 is expected"
            )),
            _ => Ok(place),
        }
    }
}

/// A text that names a place, with whatever port.
struct Place<'t>(&'t str);

impl Place<'_> {
    fn read(&self) -> Result<Target, String> {
        let lower = self.0.to_ascii_lowercase();
        for (scheme, is_secure) in [("sip:", false), ("sips:", true)] {
            if lower.starts_with(scheme) {
                let rest = self.0.get(scheme.len()..).unwrap_or_default();
                return self.uri(rest, is_secure);
            }
        }
        match self.0.split_once(':') {
            Some((transport, rest)) if transport.parse::<Transport>().is_ok() => {
                self.place(transport.parse().ok(), rest)
            }
            Some((word, rest)) if is_no_transport(word, rest) => Err(format!(
                "\"{}\": \"{word}\" is no transport; these are: {}",
                self.0,
                Transport::ALL
                    .map(|transport| transport.to_string())
                    .join(", ")
            )),
            _ => self.place(None, self.0),
        }
    }

    /// What follows the scheme of a SIP URI (RFC 3261 section 19.1.1).
    fn uri(&self, rest: &str, is_secure: bool) -> Result<Target, String> {
        if rest.contains(['@', '?']) {
            return Err(format!(
                "\"{}\" names a user at a host: only the host is expected, such as sip:127.0.0.1:5060",
                self.0
            ));
        }
        let mut parts = rest.split(';');
        let place = parts.next().unwrap_or_default();
        let mut transport = is_secure.then_some(Transport::Tls);
        for parameter in parts {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            if name.eq_ignore_ascii_case("transport") {
                let named = Transport::from_uri_parameter(value, is_secure);
                transport = Some(named.ok_or_else(|| {
                    format!("\"{}\": there is no such transport as {value}", self.0)
                })?);
            }
        }
        self.place(transport, place)
    }

    fn place(&self, transport: Option<Transport>, text: &str) -> Result<Target, String> {
        // The port follows the last colon, if that stands behind the last bracket.
        let brackets_end = text.rfind(']').map_or(0, |at| at + 1);
        let after_brackets = text.get(brackets_end..).unwrap_or_default();
        let (hosts, port) = match after_brackets.rsplit_once(':') {
            Some((hosts, port)) => {
                let hosts = text.get(..brackets_end + hosts.len()).unwrap_or_default();
                (hosts, Some(self.port(port)?))
            }
            None => (text, None),
        };
        let hosts = hosts
            .split(',')
            .map(|host| self.host(host))
            .collect::<Result<Vec<String>, String>>()?;
        if hosts.len() > MAX_HOSTS {
            return Err(format!("more than {MAX_HOSTS} hosts"));
        }
        let has_several = matches!(transport, None | Some(Transport::Sctp | Transport::TlsSctp));
        match transport {
            Some(transport) if hosts.len() > 1 && !has_several => Err(format!(
                "several hosts are for sctp alone: a {transport} peer has one address"
            )),
            transport => Ok(Target {
                transport,
                hosts,
                port,
            }),
        }
    }

    fn port(&self, text: &str) -> Result<u16, String> {
        let is_number = text.bytes().all(|octet| octet.is_ascii_digit());
        match text.parse() {
            Ok(port) if is_number => Ok(port),
            _ => Err(format!(
                "\"{}\": \"{text}\" is not a port from 0 to 65535; an IPv6 address stands in brackets",
                self.0
            )),
        }
    }

    /// A host without its brackets.
    fn host(&self, text: &str) -> Result<String, String> {
        let inside = text
            .strip_prefix('[')
            .map(|rest| rest.strip_suffix(']').unwrap_or_default());
        let is_host = match inside {
            Some(inside) => {
                // The zone of a link-local address (RFC 4007 section 11) is a name.
                let (address, zone) = inside.split_once('%').unwrap_or((inside, "-"));
                address.parse::<Ipv6Addr>().is_ok() && !zone.is_empty()
            }
            None if text.contains([':', '[', ']']) => {
                return Err(format!(
                    "\"{}\": an IPv6 address stands in brackets, such as [2001:db8::1]:5060",
                    self.0
                ));
            }
            None => {
                let is_name = |octet: u8| octet.is_ascii_alphanumeric() || b".-_".contains(&octet);
                // A number alone is rather a port without a host.
                text.bytes().all(is_name) && text.bytes().any(|octet| !octet.is_ascii_digit())
            }
        };
        match is_host {
            true => Ok(inside.unwrap_or(text).to_owned()),
            false => Err(format!(
                "\"{}\" is not valid: [TRANSPORT:]HOST[:PORT] or a SIP URI is expected, such as tcp:192.0.2.1:5060 \
                 or sip:192.0.2.1;transport=tcp",
                self.0
            )),
        }
    }
}

/// Whether a word before a colon stands where a transport does: it is no part of an IPv6 address, and what follows is no port.
fn is_no_transport(word: &str, rest: &str) -> bool {
    let is_word = word.bytes().all(|octet| octet.is_ascii_alphabetic());
    let is_hexadecimal = word.bytes().all(|octet| octet.is_ascii_hexdigit());
    is_word && !is_hexadecimal && rest.contains(['.', ':', '['])
}

impl Target {
    /// The host, where there can be one alone.
    pub(crate) fn host(&self) -> Result<&str, String> {
        match self.hosts.as_slice() {
            [host] => Ok(host),
            _ => Err(format!("\"{self}\" names several hosts: one is expected")),
        }
    }

    fn protocol(&self) -> Result<Protocol, String> {
        match self.transport {
            Some(Transport::Udp) => Ok(Protocol::Udp),
            Some(Transport::Tcp) => Ok(Protocol::Tcp),
            Some(Transport::Sctp) => Ok(Protocol::Sctp),
            Some(other) => Err(format!("{other} is not measured: use udp, tcp or sctp")),
            None => Err(format!(
                "\"{self}\" names no transport: udp:HOST, tcp:HOST or sctp:HOST is expected"
            )),
        }
    }
}

/// Reads a target of a measurement of UDP, TCP or SCTP.
pub(crate) fn measured(text: &str, default_port: u16) -> Result<::perf::Target, String> {
    let target: Target = text.parse()?;
    Ok(::perf::Target {
        protocol: target.protocol()?,
        port: target.port.unwrap_or(default_port),
        hosts: target.hosts,
    })
}

/// Reads where UDP, TCP or SCTP is served that is measured; port 0 lets the system choose.
pub(crate) fn measured_at(text: &str, default_port: u16) -> Result<::perf::Listen, String> {
    let place = Place(text).read()?;
    let addresses = place.hosts.iter().map(|host| address(host));
    Ok(::perf::Listen {
        protocol: place.protocol()?,
        addresses: addresses.collect::<Result<_, _>>()?,
        port: place.port.unwrap_or(default_port),
    })
}

/// Reads where SIP is served; port 0 lets the system choose.
pub(crate) fn served_at(text: &str) -> Result<sip_net::Listen, String> {
    let place = Place(text).read()?;
    let Some(transport) = place.transport else {
        return Err(format!(
            "\"{text}\" names no transport: TRANSPORT:IP[:PORT] is expected, such as udp:127.0.0.1:5060"
        ));
    };
    let port = place.port.unwrap_or_else(|| transport.default_port());
    Ok(sip_net::Listen {
        transport,
        address: SocketAddr::new(address(place.host()?)?, port),
    })
}

/// Reads a target of SCTP alone, whose port is said.
pub(crate) fn associated(text: &str) -> Result<sctp_console::Target, String> {
    let target: Target = text.parse()?;
    if !matches!(target.transport, None | Some(Transport::Sctp)) {
        return Err(format!("\"{text}\": only sctp is spoken here"));
    }
    let Some(port) = target.port else {
        return Err(format!(
            "\"{text}\" has no port: HOST[,HOST…]:PORT is expected, such as 192.0.2.1:9000 or [2001:db8::1]:9000"
        ));
    };
    sctp_console::Target::new(target.hosts, port).map_err(|error| error.to_string())
}

/// Reads a target of SCTP that is one address and a port, which the system is asked for if it has a name.
pub(crate) fn flooded(text: &str) -> Result<SocketAddr, String> {
    let target = associated(text)?;
    let mut hosts = text.parse::<Target>()?.hosts.into_iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err(format!("\"{text}\" names several hosts: one is expected"));
    };
    (host.as_str(), target.port())
        .to_socket_addrs()
        .map_err(|error| format!("cannot find {host}: {error}"))?
        .next()
        .ok_or_else(|| format!("{host} has no address"))
}

/// Reads the host of requests that have another one in their URI, as a SIP URI.
pub(crate) fn outbound_proxy(text: &str) -> Result<String, String> {
    let target: Target = text.parse()?;
    target.host()?;
    // With whatever parameters it has.
    if sip::Uri::parse(text).is_ok_and(|uri| uri.as_sip().is_some()) {
        return Ok(text.to_owned());
    }
    let transport = target
        .transport
        .map_or_else(String::new, |transport| format!(";transport={transport}"));
    let place = Target {
        transport: None,
        ..target
    };
    Ok(format!("sip:{place}{transport}"))
}

fn address(host: &str) -> Result<IpAddr, String> {
    host.parse()
        .map_err(|_| format!("\"{host}\" is no IP address"))
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(transport) = self.transport {
            write!(formatter, "{transport}:")?;
        }
        for (index, host) in self.hosts.iter().enumerate() {
            formatter.write_str(if index == 0 { "" } else { "," })?;
            match host.contains(':') {
                true => write!(formatter, "[{host}]")?,
                false => formatter.write_str(host)?,
            }
        }
        match self.port {
            Some(port) => write!(formatter, ":{port}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a target says: its transport, hosts and port, as it is shown.
    fn shown(text: &str) -> Result<String, String> {
        text.parse::<Target>().map(|target| target.to_string())
    }

    #[test]
    fn a_transport_that_there_is_not_is_named() {
        for (text, word) in [
            (
                "tpc:127.0.0.1",
                "\"tpc\" is no transport; these are: udp, tcp",
            ),
            ("quic:127.0.0.1:5060", "\"quic\" is no transport"),
            ("sctpp:[::1]:9", "\"sctpp\" is no transport"),
            ("localhost:http", "\"http\" is not a port"),
            ("abc:def::1", "stands in brackets"),
        ] {
            let error = text.parse::<Target>().unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn targets_are_places_or_uris() {
        for (text, expected) in [
            ("127.0.0.1", "127.0.0.1"),
            ("proxy.example:5070", "proxy.example:5070"),
            ("[::1]:5070", "[::1]:5070"),
            ("tcp:127.0.0.1:5070", "tcp:127.0.0.1:5070"),
            ("sctp:[::1],10.0.0.1:9000", "sctp:[::1],10.0.0.1:9000"),
            ("10.0.0.1,10.1.0.1:9000", "10.0.0.1,10.1.0.1:9000"),
            ("tls-sctp:[fe80::1%eth0]:1", "tls-sctp:[fe80::1%eth0]:1"),
            ("wss:host", "wss:host"),
            ("sip:127.0.0.1", "127.0.0.1"),
            ("SIP:h:5070;lr;transport=TCP", "tcp:h:5070"),
            ("sips:h", "tls:h"),
            ("sips:[::1]:7;transport=sctp", "tls-sctp:[::1]:7"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_target_is_said() {
        for wrong in [
            "",
            "sip:",
            "udp",
            "udp:",
            "pigeon:127.0.0.1:1",
            "tel:+431",
            "sip:alice@127.0.0.1",
            "127.0.0.1:99999",
            "127.0.0.1:0",
            "tcp:::1:5",
            "::1",
            "tcp:5060",
            "sip:127.0.0.1;transport=pigeon",
            "sips:127.0.0.1;transport=udp",
            "udp:a,b:1",
            "sctp:a,,b:1",
            "sctp:[::1:1",
            "[127.0.0.1]:1",
            "tcp:a b:1",
            "tcp:a:+1",
            "tcp:a:x",
        ] {
            // A word alone may be the name of a host.
            let wanted = wrong == "udp";
            assert_eq!(shown(wrong).is_ok(), wanted, "{wrong}");
        }
        let many = format!("{}h:1", "h,".repeat(300));
        assert!(shown(&many).is_err());
    }

    #[test]
    fn each_kind_of_option_takes_every_form() {
        for text in ["tcp:127.0.0.1:7", "sip:127.0.0.1:7;transport=tcp"] {
            let target = measured(text, 1).expect(text);
            assert_eq!(target.to_string(), "tcp:127.0.0.1:7");
            let listen = measured_at(text, 1).expect(text);
            assert_eq!(listen.to_string(), "tcp:127.0.0.1:7");
            let listen = served_at(text).expect(text);
            assert_eq!(listen.to_string(), "tcp:127.0.0.1:7");
            let proxy = outbound_proxy(text).expect(text);
            assert_eq!(proxy, "sip:127.0.0.1:7;transport=tcp");
            assert!(associated(text).is_err(), "{text}");
        }
        for text in ["127.0.0.1:7", "sctp:127.0.0.1:7", "sip:127.0.0.1:7"] {
            let target = associated(text).expect(text);
            assert_eq!(target.to_string(), "127.0.0.1:7");
            assert_eq!(flooded(text).unwrap().to_string(), "127.0.0.1:7");
        }
        assert!(flooded("localhost:7").unwrap().ip().is_loopback());
        assert!(flooded("127.0.0.1,127.0.0.2:7").is_err());
        assert_eq!(measured("udp:h", 9).map(|target| target.port), Ok(9));
        assert!(measured("127.0.0.1", 9).is_err());
        assert!(measured("ws:127.0.0.1", 9).is_err());
        assert_eq!(served_at("udp:[::]:0").unwrap().address.port(), 0);
        assert_eq!(served_at("tls:127.0.0.1").unwrap().address.port(), 5061);
        assert!(served_at("127.0.0.1").is_err());
        assert!(served_at("udp:localhost").is_err());
    }
}
