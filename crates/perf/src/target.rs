//! Where a server listens, as servers write it and clients of a process read it, and where a client goes.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The port of every transport where none is given. IANA has assigned it to nobody, and no tool that
/// measures throughput uses it.
pub const DEFAULT_PORT: u16 = 5211;

/// Most addresses of one SCTP endpoint that may be named.
const MAX_HOSTS: usize = 16;

/// A transport that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Datagrams: a message each.
    Udp,
    /// A byte stream: a write a message.
    Tcp,
    /// User messages.
    Sctp,
}

impl Protocol {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Protocol; 3] = [Protocol::Udp, Protocol::Tcp, Protocol::Sctp];
}

impl fmt::Display for Protocol {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Protocol::Udp => "udp",
            Protocol::Tcp => "tcp",
            Protocol::Sctp => "sctp",
        })
    }
}

/// A server to measure against. Hosts are names or addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Over what.
    pub protocol: Protocol,
    /// The host, or several addresses of one SCTP endpoint, the first one to be the primary.
    pub hosts: Vec<String>,
    /// The port; of SCTP the SCTP port, whatever carries it.
    pub port: u16,
}

/// Where a server listens: `udp:IP[:PORT]`, `tcp:IP[:PORT]`, `sctp:IP[,IP…][:PORT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// For what.
    pub protocol: Protocol,
    /// The local address; for SCTP there may be several.
    pub addresses: Vec<IpAddr>,
    /// The port; 0 lets the system choose.
    pub port: u16,
}

impl Listen {
    /// Where a server listens unless told otherwise: all transports on loopback.
    pub fn defaults() -> Vec<Listen> {
        Protocol::ALL
            .map(|protocol| Listen {
                protocol,
                addresses: vec![Ipv4Addr::LOCALHOST.into()],
                port: DEFAULT_PORT,
            })
            .to_vec()
    }
}

/// What is wrong with a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetError(String);

impl fmt::Display for TargetError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for TargetError {}

impl FromStr for Listen {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        Listen::parse(text, DEFAULT_PORT)
    }
}

impl Listen {
    /// Reads a place whose port is another one where none is given.
    ///
    /// # Errors
    ///
    /// When it is none.
    pub fn parse(text: &str, default_port: u16) -> Result<Listen, TargetError> {
        let (protocol, hosts, port) = parse(text)?;
        let addresses = hosts
            .iter()
            .map(|host| {
                host.parse()
                    .map_err(|_| TargetError(format!("\"{host}\" is no IP address")))
            })
            .collect::<Result<_, _>>()?;
        Ok(Listen {
            protocol,
            addresses,
            port: port.unwrap_or(default_port),
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(formatter, self.protocol, &self.hosts, self.port)
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<String> = self.addresses.iter().map(IpAddr::to_string).collect();
        write(formatter, self.protocol, &addresses, self.port)
    }
}

fn write(
    formatter: &mut fmt::Formatter<'_>,
    protocol: Protocol,
    hosts: &[String],
    port: u16,
) -> fmt::Result {
    let hosts: Vec<String> = hosts
        .iter()
        .map(|host| match host.contains(':') {
            true => format!("[{host}]"),
            false => host.clone(),
        })
        .collect();
    write!(formatter, "{protocol}:{}:{port}", hosts.join(","))
}

fn parse(text: &str) -> Result<(Protocol, Vec<String>, Option<u16>), TargetError> {
    let expected = || {
        TargetError(format!(
            "\"{text}\" is not valid: udp:HOST:PORT, tcp:HOST:PORT or sctp:HOST[,HOST…]:PORT is expected"
        ))
    };
    let (protocol, rest) = text.split_once(':').ok_or_else(expected)?;
    let protocol = match protocol {
        "udp" => Protocol::Udp,
        "tcp" => Protocol::Tcp,
        "sctp" => Protocol::Sctp,
        _ => return Err(expected()),
    };
    // The port follows the last colon, if that stands behind the last bracket.
    let brackets_end = rest.rfind(']').map_or(0, |at| at + 1);
    let (hosts, port) = match rest[brackets_end..].rfind(':') {
        Some(at) => {
            let (hosts, port) = rest.split_at(brackets_end + at);
            let port = port[1..].parse().map_err(|_| {
                TargetError(format!("\"{}\" is not a port from 0 to 65535", &port[1..]))
            })?;
            (hosts, Some(port))
        }
        None => (rest, None),
    };
    let hosts = hosts
        .split(',')
        .map(|host| host_of(host).ok_or_else(expected))
        .collect::<Result<Vec<String>, _>>()?;
    if hosts.len() > 1 && protocol != Protocol::Sctp {
        return Err(TargetError(format!(
            "several hosts are for sctp alone: a {protocol} peer has one address"
        )));
    }
    if hosts.len() > MAX_HOSTS {
        return Err(TargetError(format!("more than {MAX_HOSTS} addresses")));
    }
    Ok((protocol, hosts, port))
}

/// A host without its brackets; `None` when it is none.
fn host_of(text: &str) -> Option<String> {
    let host = match text.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?,
        None if text.contains(':') => return None,
        None => text,
    };
    let is_plain = !host.is_empty()
        && host
            .chars()
            .all(|character| character.is_ascii_alphanumeric() || ".-_:%".contains(character));
    is_plain.then(|| host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_written() {
        let target = Target {
            protocol: Protocol::Sctp,
            hosts: vec!["::1".to_owned(), "host.example".to_owned()],
            port: 9000,
        };
        assert_eq!(target.to_string(), "sctp:[::1],host.example:9000");
    }

    #[test]
    fn listeners_have_addresses_and_may_leave_the_port_open() {
        let listen: Listen = "sctp:127.0.0.1,127.0.0.2:0".parse().unwrap();
        assert_eq!(listen.addresses.len(), 2);
        assert_eq!(listen.to_string(), "sctp:127.0.0.1,127.0.0.2:0");
        assert!("tcp:localhost:1".parse::<Listen>().is_err());
        let defaults: Vec<String> = Listen::defaults().iter().map(Listen::to_string).collect();
        assert_eq!(
            defaults,
            [
                "udp:127.0.0.1:5211",
                "tcp:127.0.0.1:5211",
                "sctp:127.0.0.1:5211"
            ]
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for wrong in [
            "",
            "udp",
            "udp:",
            "pigeon:127.0.0.1:1",
            "tcp:::1:5",
            "tcp:a:99999",
            "tcp:a:x",
            "udp:a,b:1",
            "sctp:a,,b:1",
            "sctp:[::1:1",
            "tcp:a b:1",
        ] {
            assert!(wrong.parse::<Listen>().is_err(), "{wrong}");
        }
    }
}
