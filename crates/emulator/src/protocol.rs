//! Protocols above IP, by number and name.

use std::fmt;
use std::str::FromStr;

/// What an IP packet carries: the number that IANA gave it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Protocol(pub u8);

/// A text that is no protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a protocol: a number up to 255, or one of udp, tcp, sctp, icmp, icmpv6")]
pub struct NoProtocol(String);

impl Protocol {
    /// ICMP.
    pub const ICMP: Protocol = Protocol(1);
    /// TCP.
    pub const TCP: Protocol = Protocol(6);
    /// UDP.
    pub const UDP: Protocol = Protocol(17);
    /// ICMP for IPv6.
    pub const ICMPV6: Protocol = Protocol(58);
    /// SCTP.
    pub const SCTP: Protocol = Protocol(132);

    const NAMES: [(&str, Protocol); 5] = [
        ("icmp", Protocol::ICMP),
        ("tcp", Protocol::TCP),
        ("udp", Protocol::UDP),
        ("icmpv6", Protocol::ICMPV6),
        ("sctp", Protocol::SCTP),
    ];

    /// Whether its packets begin with a source and a destination port.
    pub fn has_ports(self) -> bool {
        [Protocol::TCP, Protocol::UDP, Protocol::SCTP].contains(&self)
    }
}

impl FromStr for Protocol {
    type Err = NoProtocol;

    fn from_str(text: &str) -> Result<Protocol, NoProtocol> {
        let named = Protocol::NAMES
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(text));
        match named {
            Some((_, protocol)) => Ok(*protocol),
            None => text
                .parse()
                .map(Protocol)
                .map_err(|_| NoProtocol(text.to_owned())),
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Protocol::NAMES.iter().find(|(_, known)| known == self) {
            Some((name, _)) => formatter.write_str(name),
            None => write!(formatter, "{}", self.0),
        }
    }
}

impl fmt::Debug for Protocol {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}
