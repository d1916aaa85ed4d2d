//! What to connect to, as it is written: `HOST[,HOST…]:PORT`.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::str::FromStr;

use crate::address::{Address, AddressParseError};

/// A peer by its names or addresses and its SCTP port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    hosts: Vec<String>,
    port: u16,
}

/// Why a text names no peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetParseError {
    /// There is no `:PORT` at its end.
    #[error("HOST[,HOST…]:PORT is expected, such as 192.0.2.1:9000 or [2001:db8::1]:9000")]
    NoPort,
    /// The port is none.
    #[error("invalid port: a number from 1 to 65535 is expected")]
    InvalidPort,
    /// An IPv6 address without brackets, or brackets without one.
    #[error("an IPv6 address stands in brackets, and nothing else does: [2001:db8::1]:9000")]
    Brackets,
    /// What stands in brackets is no address that can be used.
    #[error(transparent)]
    Address(AddressParseError),
    /// Nothing stands where a host should.
    #[error("a host is missing")]
    NoHost,
    /// More hosts than an association may have addresses.
    #[error("more than {MAX_HOSTS} hosts")]
    TooManyHosts,
}

/// The most addresses that an association may have.
const MAX_HOSTS: usize = 255;

/// A name that has no address.
#[derive(Debug, thiserror::Error)]
#[error("{host}: {source}")]
pub struct ResolveError {
    host: String,
    source: io::Error,
}

impl Target {
    /// The SCTP port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Asks the system for the addresses of all hosts, in their order, each once.
    ///
    /// # Errors
    ///
    /// The first host that has none.
    pub async fn resolve(&self) -> Result<Vec<Address>, ResolveError> {
        let mut addresses: Vec<Address> = Vec::new();
        for host in &self.hosts {
            let found = match host.parse() {
                Ok(address) => vec![address],
                Err(_) => look_up(host, self.port).await?,
            };
            for address in found {
                if !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
        }
        Ok(addresses)
    }
}

/// Why the system knows no way to an address, if it knows none. Nothing is sent.
pub(crate) fn no_route(address: IpAddr) -> Option<io::Error> {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // A UDP socket looks for the way when it is connected. The port does not matter.
    let socket = UdpSocket::bind((any, 0)).ok()?;
    let error = socket.connect((address, 9)).err()?;
    let no_way = [
        io::ErrorKind::NetworkUnreachable,
        io::ErrorKind::HostUnreachable,
    ];
    no_way.contains(&error.kind()).then_some(error)
}

async fn look_up(host: &str, port: u16) -> Result<Vec<Address>, ResolveError> {
    let failed = |source| ResolveError {
        host: host.to_owned(),
        source,
    };
    let found = tokio::net::lookup_host((host, port))
        .await
        .map_err(failed)?;
    let addresses: Vec<Address> = found.map(Address::from).collect();
    if addresses.is_empty() {
        let none = io::Error::new(io::ErrorKind::NotFound, "it has no address");
        return Err(failed(none));
    }
    Ok(addresses)
}

impl FromStr for Target {
    type Err = TargetParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (hosts, port) = text.rsplit_once(':').ok_or(TargetParseError::NoPort)?;
        if port.ends_with(']') {
            return Err(TargetParseError::NoPort);
        }
        let port = match port.parse() {
            Ok(0) | Err(_) => return Err(TargetParseError::InvalidPort),
            Ok(port) => port,
        };
        let hosts: Vec<String> = hosts.split(',').map(host).collect::<Result<_, _>>()?;
        if hosts.len() > MAX_HOSTS {
            return Err(TargetParseError::TooManyHosts);
        }
        Ok(Target { hosts, port })
    }
}

/// Takes the brackets from an IPv6 address; names and IPv4 addresses have none.
fn host(text: &str) -> Result<String, TargetParseError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(TargetParseError::NoHost);
    }
    let inside = text
        .strip_prefix('[')
        .map(|rest| rest.strip_suffix(']').ok_or(TargetParseError::Brackets))
        .transpose()?;
    match inside {
        Some(inside) => match inside.parse::<Address>() {
            Ok(address) if address.ip.is_ipv6() => Ok(inside.to_owned()),
            Ok(_) | Err(AddressParseError::Invalid) => Err(TargetParseError::Brackets),
            Err(error) => Err(TargetParseError::Address(error)),
        },
        None if text.contains([':', '[', ']']) => Err(TargetParseError::Brackets),
        None => Ok(text.to_owned()),
    }
}

/// The target as it was written, brackets included.
impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, host) in self.hosts.iter().enumerate() {
            formatter.write_str(if index == 0 { "" } else { "," })?;
            if host.contains(':') {
                write!(formatter, "[{host}]")?;
            } else {
                formatter.write_str(host)?;
            }
        }
        write!(formatter, ":{}", self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn addresses_need_no_resolver() {
        let target: Target = "192.0.2.1,[2001:db8::1],192.0.2.1:9000".parse().unwrap();
        assert_eq!(target.port(), 9000);
        assert_eq!(target.to_string(), "192.0.2.1,[2001:db8::1],192.0.2.1:9000");
        let addresses = target.resolve().await.unwrap();
        assert_eq!(
            addresses,
            ["192.0.2.1", "2001:db8::1"].map(|text| text.parse::<Address>().unwrap())
        );
    }

    #[tokio::test]
    async fn link_local_addresses_keep_their_zone() {
        let target: Target = "[fe80::1%lo]:9000".parse().unwrap();
        assert_eq!(target.to_string(), "[fe80::1%lo]:9000");
        let addresses = target.resolve().await.unwrap();
        assert_eq!(addresses, ["fe80::1%lo".parse::<Address>().unwrap()]);
    }

    #[tokio::test]
    async fn names_are_resolved_by_the_system() {
        let target: Target = "localhost:9000".parse().unwrap();
        let addresses = target.resolve().await.unwrap();
        assert!(!addresses.is_empty());
        let are_ours = addresses.iter().all(|address| address.ip.is_loopback());
        assert!(are_ours, "{addresses:?}");
    }

    #[test]
    fn there_is_a_way_to_oneself() {
        assert!(no_route(Ipv4Addr::LOCALHOST.into()).is_none());
    }

    #[test]
    fn what_names_no_peer_is_refused() {
        for (text, error) in [
            ("", TargetParseError::NoPort),
            ("host", TargetParseError::NoPort),
            ("[::1]", TargetParseError::NoPort),
            ("::1", TargetParseError::Brackets),
            ("::1:9000", TargetParseError::Brackets),
            ("[host]:9000", TargetParseError::Brackets),
            ("[127.0.0.1]:9000", TargetParseError::Brackets),
            ("[::1:9000", TargetParseError::Brackets),
            (
                "[fe80::1]:9000",
                TargetParseError::Address(AddressParseError::NoZone("fe80::1".parse().unwrap())),
            ),
            (
                "[fe80::1%no-such]:9000",
                TargetParseError::Address(AddressParseError::NoInterface("no-such".into())),
            ),
            ("host:", TargetParseError::InvalidPort),
            ("host:0", TargetParseError::InvalidPort),
            ("host:65536", TargetParseError::InvalidPort),
            ("host:-1", TargetParseError::InvalidPort),
            (":9000", TargetParseError::NoHost),
            ("a,,b:9000", TargetParseError::NoHost),
        ] {
            assert_eq!(text.parse::<Target>(), Err(error), "{text}");
        }
        let many = format!("{}h:1", "h,".repeat(300));
        assert_eq!(many.parse::<Target>(), Err(TargetParseError::TooManyHosts));
    }
}
