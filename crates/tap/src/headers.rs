//! The headers below SCTP.

use crate::{Record, UdpPorts};
use etherparse::{IpNumber, Ipv4Header, Ipv6Header, UdpHeader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Appends the IP packet that the record is about. False, and nothing is appended, when it is
/// longer than the length fields of IP and UDP can tell.
pub(crate) fn append_ip_packet(record: &Record<'_>, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    let appended = match same_family(record.source, record.destination) {
        Addresses::V4(source, destination) => append_ipv4(record, source, destination, out),
        Addresses::V6(source, destination) => append_ipv6(record, source, destination, out),
    };
    if appended.is_none() {
        out.truncate(start);
        return false;
    }
    out.extend_from_slice(record.packet);
    true
}

fn append_ipv4(
    record: &Record<'_>,
    source: Ipv4Addr,
    destination: Ipv4Addr,
    out: &mut Vec<u8>,
) -> Option<()> {
    let length = u16::try_from(payload_length(record)).ok()?;
    let (source, destination) = (source.octets(), destination.octets());
    let mut ip = Ipv4Header::new(length, HOP_LIMIT, protocol(record), source, destination).ok()?;
    ip.header_checksum = ip.calc_header_checksum();
    out.extend_from_slice(&ip.to_bytes());
    if let Some(UdpPorts {
        source,
        destination,
    }) = record.udp
    {
        let udp = UdpHeader::with_ipv4_checksum(source, destination, &ip, record.packet).ok()?;
        out.extend_from_slice(&udp.to_bytes());
    }
    Some(())
}

fn append_ipv6(
    record: &Record<'_>,
    source: Ipv6Addr,
    destination: Ipv6Addr,
    out: &mut Vec<u8>,
) -> Option<()> {
    let ip = Ipv6Header {
        payload_length: u16::try_from(payload_length(record)).ok()?,
        next_header: protocol(record),
        hop_limit: HOP_LIMIT,
        source: source.octets(),
        destination: destination.octets(),
        ..Ipv6Header::default()
    };
    out.extend_from_slice(&ip.to_bytes());
    if let Some(UdpPorts {
        source,
        destination,
    }) = record.udp
    {
        let udp = UdpHeader::with_ipv6_checksum(source, destination, &ip, record.packet).ok()?;
        out.extend_from_slice(&udp.to_bytes());
    }
    Some(())
}

fn payload_length(record: &Record<'_>) -> usize {
    let udp = record.udp.map_or(0, |_| UdpHeader::LEN);
    udp + record.packet.len()
}

fn protocol(record: &Record<'_>) -> IpNumber {
    record.udp.map_or(IpNumber::SCTP, |_| IpNumber::UDP)
}

enum Addresses {
    V4(Ipv4Addr, Ipv4Addr),
    V6(Ipv6Addr, Ipv6Addr),
}

/// Brings two addresses to one family: IPv4 also when one is IPv4 and the other the unspecified
/// IPv6 address, which is how a socket for both families names itself.
fn same_family(source: IpAddr, destination: IpAddr) -> Addresses {
    match (source.to_canonical(), destination.to_canonical()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Addresses::V4(source, destination),
        (IpAddr::V4(source), IpAddr::V6(Ipv6Addr::UNSPECIFIED)) => {
            Addresses::V4(source, Ipv4Addr::UNSPECIFIED)
        }
        (IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(destination)) => {
            Addresses::V4(Ipv4Addr::UNSPECIFIED, destination)
        }
        (source, destination) => Addresses::V6(to_ipv6(source), to_ipv6(destination)),
    }
}

fn to_ipv6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv6Addr::UNSPECIFIED,
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// What hosts usually begin with.
const HOP_LIMIT: u8 = 64;
