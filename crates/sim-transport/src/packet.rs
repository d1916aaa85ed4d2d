//! What travels between the hosts.

use bytes::Bytes;
use sim::Datagram;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The contents of a datagram of the simulation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Packet {
    /// An SCTP packet, right over IP, from the common header on.
    Sctp(Bytes),
    /// A TCP segment in its IP packet.
    Tcp(Bytes),
}

/// Bytes of the IP header before what is not carried as a whole IP packet.
pub(crate) fn ip_header(address: IpAddr) -> usize {
    match address {
        IpAddr::V4(_) => 20,
        IpAddr::V6(_) => 40,
    }
}

/// The datagram of a TCP segment in its IP packet; `None` when that is none.
pub(crate) fn tcp_datagram(packet: Bytes) -> Option<Datagram<Packet>> {
    let (source, destination) = addresses(&packet)?;
    Some(Datagram {
        source,
        destination,
        bytes: packet.len(),
        // Hosts of our days set Don't Fragment; segments fit the MTU anyway.
        may_fragment: false,
        payload: Packet::Tcp(packet),
    })
}

/// Source and destination of an IP packet.
fn addresses(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    fn v4(bytes: &[u8]) -> Option<IpAddr> {
        Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into())
    }
    fn v6(bytes: &[u8]) -> Option<IpAddr> {
        Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into())
    }
    match packet.first()? >> 4 {
        4 => Some((v4(packet.get(12..16)?)?, v4(packet.get(16..20)?)?)),
        6 => Some((v6(packet.get(8..24)?)?, v6(packet.get(24..40)?)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_have_addresses_or_none(bytes: Vec<u8>) {
            let _ = addresses(&bytes);
        }
    }

    #[test]
    fn what_is_no_ip_packet_has_no_addresses() {
        assert_eq!(addresses(&[]), None);
        assert_eq!(addresses(&[0x45; 19]), None);
        assert_eq!(addresses(&[0x55; 60]), None);
        assert_eq!(
            addresses(&[0x45; 20]),
            Some(([0x45; 4].into(), [0x45; 4].into()))
        );
        assert_eq!(
            addresses(&[0x60; 40]),
            Some(([0x60; 16].into(), [0x60; 16].into()))
        );
    }
}
