//! What to connect to: hosts and a port.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use crate::address::{Address, AddressParseError};

/// A peer by its names or addresses and its SCTP port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    hosts: Vec<String>,
    port: u16,
}

/// A name that has no address.
#[derive(Debug, thiserror::Error)]
#[error("{host}: {source}")]
pub struct ResolveError {
    host: String,
    source: io::Error,
}

impl Target {
    /// A peer by its hosts, whose IPv6 addresses have no brackets.
    ///
    /// # Errors
    ///
    /// A link-local address without the interface that leads to it, or another one with an interface.
    pub fn new(hosts: Vec<String>, port: u16) -> Result<Target, AddressParseError> {
        for host in &hosts {
            match host.parse::<Address>() {
                // A name, of which the system is asked.
                Ok(_) | Err(AddressParseError::Invalid) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Target { hosts, port })
    }

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

    fn target(hosts: &[&str]) -> Target {
        let hosts = hosts.iter().map(|host| (*host).to_owned());
        Target::new(hosts.collect(), 9000).unwrap()
    }

    #[tokio::test]
    async fn addresses_need_no_resolver() {
        let target = target(&["192.0.2.1", "2001:db8::1", "192.0.2.1"]);
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
        let target = target(&["fe80::1%lo"]);
        assert_eq!(target.to_string(), "[fe80::1%lo]:9000");
        let addresses = target.resolve().await.unwrap();
        assert_eq!(addresses, ["fe80::1%lo".parse::<Address>().unwrap()]);
    }

    #[tokio::test]
    async fn names_are_resolved_by_the_system() {
        let target = target(&["localhost"]);
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
    fn link_local_addresses_need_their_interface() {
        let target = |host: &str| Target::new(vec![host.to_owned()], 9000);
        assert!(target("host").is_ok());
        for (host, error) in [
            (
                "fe80::1",
                AddressParseError::NoZone("fe80::1".parse().unwrap()),
            ),
            (
                "fe80::1%no-such",
                AddressParseError::NoInterface("no-such".into()),
            ),
            ("2001:db8::1%lo", AddressParseError::NeedlessZone),
        ] {
            assert_eq!(target(host), Err(error), "{host}");
        }
    }
}
