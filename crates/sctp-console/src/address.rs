//! IP addresses as text, with the zone that a link-local one needs (RFC 4007 section 11):
//! `fe80::1%eth0`.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// An IP address, and the interface that leads to it if it is link-local.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// The number of the interface that leads to a link-local address; 0 for all others.
    pub zone: u32,
}

/// Why a text is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressParseError {
    /// It is not an IP address.
    #[error("an IP address is expected")]
    Invalid,
    /// A link-local address without its interface.
    #[error("{0} is a link-local address and needs its interface, such as {0}%eth0")]
    NoZone(Ipv6Addr),
    /// An interface where none is needed.
    #[error("only IPv6 link-local addresses (fe80::/10) have an interface after %")]
    NeedlessZone,
    /// An interface that does not exist.
    #[error("there is no interface {0}")]
    NoInterface(String),
}

impl FromStr for Address {
    type Err = AddressParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (ip, zone) = match text.split_once('%') {
            Some((ip, zone)) => (ip, Some(zone)),
            None => (text, None),
        };
        let ip: IpAddr = ip.parse().map_err(|_| AddressParseError::Invalid)?;
        match (ip, zone) {
            (IpAddr::V6(address), None) if address.is_unicast_link_local() => {
                Err(AddressParseError::NoZone(address))
            }
            (IpAddr::V6(address), Some(zone)) if address.is_unicast_link_local() => {
                let zone = number_of_zone(text)
                    .ok_or_else(|| AddressParseError::NoInterface(zone.to_owned()))?;
                Ok(Address { ip, zone })
            }
            (_, Some(_)) => Err(AddressParseError::NeedlessZone),
            (_, None) => Ok(Address { ip, zone: 0 }),
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Address {
        let zone = match address {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(address) => address.scope_id(),
        };
        let ip = address.ip();
        Address { ip, zone }
    }
}

/// The number of the interface in an address with a zone. The system parses it, without a DNS query.
fn number_of_zone(text: &str) -> Option<u32> {
    let address = (text, 0).to_socket_addrs().ok()?.next()?;
    Some(Address::from(address).zone).filter(|zone| *zone != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_local_addresses_have_a_zone_and_no_others() {
        let read = |text: &str| text.parse::<Address>();
        let plain = read("2001:db8::1").unwrap();
        assert_eq!(plain.zone, 0);
        let local = read("fe80::1%lo").unwrap();
        assert_eq!(local.ip, "fe80::1".parse::<IpAddr>().unwrap());
        assert_ne!(local.zone, 0);
        assert_eq!(read(&format!("fe80::1%{}", local.zone)), Ok(local));
        for (text, error) in [
            ("", AddressParseError::Invalid),
            ("host", AddressParseError::Invalid),
            ("%lo", AddressParseError::Invalid),
            (
                "fe80::1",
                AddressParseError::NoZone("fe80::1".parse().unwrap()),
            ),
            ("2001:db8::1%lo", AddressParseError::NeedlessZone),
            ("127.0.0.1%lo", AddressParseError::NeedlessZone),
            (
                "fe80::1%no-such",
                AddressParseError::NoInterface("no-such".into()),
            ),
        ] {
            assert_eq!(read(text), Err(error), "{text}");
        }
    }
}
