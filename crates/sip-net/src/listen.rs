//! Which addresses to listen on, as an operator writes them.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use sip::Transport;

/// One address to listen on: `TRANSPORT:IP[:PORT]`, such as `udp:127.0.0.1:5060` or `sctp:[::1]`.
///
/// Without a port it is the transport's default (RFC 3261 section 18.1.1); port 0 lets the system
/// choose. For SCTP this is the SCTP port; the UDP port under it is
/// [`SipNetConfig::encapsulation_port`](crate::SipNetConfig::encapsulation_port).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Listen {
    /// The transport protocol.
    pub transport: Transport,
    /// The local address and port; an unspecified address (`0.0.0.0`, `[::]`) is a wildcard.
    pub address: SocketAddr,
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.transport, self.address)
    }
}

/// A text that names no address to listen on: which one, and what is expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{text}\" names no listener: {problem}; TRANSPORT:IP[:PORT] is expected, such as udp:127.0.0.1:5060 or sctp:[::1]:5060"
)]
pub struct ListenParseError {
    text: String,
    problem: String,
}

impl FromStr for Listen {
    type Err = ListenParseError;

    fn from_str(text: &str) -> Result<Listen, ListenParseError> {
        let error = |problem: String| ListenParseError {
            text: text.to_owned(),
            problem,
        };
        let (transport, address) = text
            .split_once(':')
            .ok_or_else(|| error("it has no address".to_owned()))?;
        let transport: Transport = transport
            .parse()
            .map_err(|unknown: sip::UnknownTransport| error(unknown.to_string()))?;
        let address = parse_address(address, transport.default_port())
            .ok_or_else(|| error(format!("\"{address}\" is not an IP address with a port")))?;
        Ok(Listen { transport, address })
    }
}

/// Reads `IP:PORT`, `[IPv6]:PORT`, `IP`, `[IPv6]` or a bare IPv6 address.
fn parse_address(text: &str, default_port: u16) -> Option<SocketAddr> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(address);
    }
    let ip = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .filter(|inner| inner.contains(':'))
        .unwrap_or(text);
    ip.parse::<IpAddr>()
        .ok()
        .map(|ip| SocketAddr::new(ip, default_port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Listen {
        text.parse().expect("a listener")
    }

    #[test]
    fn reads_what_it_writes() {
        for text in [
            "udp:127.0.0.1:5060",
            "tcp:0.0.0.0:0",
            "sctp:[::1]:5070",
            "tls:192.0.2.1:5061",
            "tls-sctp:[2001:db8::1]:5061",
            "wss:[::]:443",
        ] {
            assert_eq!(parse(text).to_string(), text);
        }
    }

    #[test]
    fn the_port_defaults_by_transport() {
        assert_eq!(parse("udp:127.0.0.1"), parse("udp:127.0.0.1:5060"));
        assert_eq!(parse("sctp:[::1]"), parse("sctp:[::1]:5060"));
        assert_eq!(parse("sctp:::1"), parse("sctp:[::1]:5060"));
        assert_eq!(parse("tls:127.0.0.1"), parse("tls:127.0.0.1:5061"));
    }

    #[test]
    fn errors_name_the_text_and_what_is_expected() {
        for (text, part) in [
            ("udp", "it has no address"),
            (
                "carrier-pigeon:127.0.0.1:5060",
                "unknown transport \"carrier-pigeon\"",
            ),
            (
                "udp:localhost:5060",
                "\"localhost:5060\" is not an IP address",
            ),
            (
                "udp:127.0.0.1:70000",
                "\"127.0.0.1:70000\" is not an IP address",
            ),
            ("udp:[127.0.0.1]:5060", "is not an IP address"),
            ("udp:[127.0.0.1]", "is not an IP address"),
            ("", "it has no address"),
        ] {
            let message = text.parse::<Listen>().expect_err(text).to_string();
            assert!(message.contains(part), "{message}");
            assert!(
                message.contains("TRANSPORT:IP[:PORT] is expected"),
                "{message}"
            );
            assert!(!message.contains('\n'), "{message}");
        }
    }
}
