//! IP packets, as far as a router looks into them.

pub(crate) mod echo;
pub(crate) mod error;
pub(crate) mod fragment;
pub(crate) mod v4;
pub(crate) mod v6;

use std::net::IpAddr;

use etherparse::{Ipv4Header, Ipv6Header};

use crate::protocol::Protocol;

/// The time to live, or hop limit, of packets that routers send themselves.
const TIME_TO_LIVE: u8 = 64;

/// Whose packet it is, as far as the packet shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flow {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) protocol: Protocol,
    /// Source and destination; `None` where the protocol has none, or the packet does not show them.
    pub(crate) ports: Option<[u16; 2]>,
}

impl Flow {
    /// That of an IP packet; `None` when it is none.
    pub(crate) fn of(packet: &[u8]) -> Option<Flow> {
        match packet.first()? >> 4 {
            4 => {
                let packet = v4::Packet::read(packet)?;
                let shows_ports = packet.fragment_offset() == 0;
                Some(Flow {
                    source: packet.header.source_addr().into(),
                    destination: packet.header.destination_addr().into(),
                    protocol: packet.protocol(),
                    ports: shows_ports
                        .then(|| ports(packet.protocol(), packet.payload))
                        .flatten(),
                })
            }
            6 => {
                let packet = v6::Packet::read(packet)?;
                let (protocol, payload) = packet.upper_layer();
                Some(Flow {
                    source: packet.header.source_addr().into(),
                    destination: packet.header.destination_addr().into(),
                    protocol,
                    ports: payload.and_then(|payload| ports(protocol, payload)),
                })
            }
            _ => None,
        }
    }
}

/// Whether the sender of a packet heeds marks of congestion: ECT(0) or ECT(1), and CE that an earlier link
/// has set (RFC 3168 section 5).
pub(crate) fn is_ecn_capable(packet: &[u8]) -> bool {
    ecn_field(packet).is_some_and(|field| field != 0)
}

/// Sets CE, the mark of congestion (RFC 3168 section 5), in a packet whose sender heeds it.
pub(crate) fn mark_congestion(packet: &mut [u8]) {
    const CONGESTION_EXPERIENCED: u8 = 0b11;
    if !is_ecn_capable(packet) {
        return;
    }
    match packet[0] >> 4 {
        4 => v4::set_second_octet(packet, packet[1] | CONGESTION_EXPERIENCED),
        // The traffic class begins in the middle of the first octet (RFC 8200 section 3).
        _ => packet[1] |= CONGESTION_EXPERIENCED << 4,
    }
}

/// The two bits of the ECN field.
fn ecn_field(packet: &[u8]) -> Option<u8> {
    match packet.first()? >> 4 {
        4 if packet.len() >= Ipv4Header::MIN_LEN => Some(packet[1] & 0b11),
        6 if packet.len() >= Ipv6Header::LEN => Some(packet[1] >> 4 & 0b11),
        _ => None,
    }
}

fn ports(protocol: Protocol, payload: &[u8]) -> Option<[u16; 2]> {
    let &[a, b, c, d, ..] = payload else {
        return None;
    };
    protocol
        .has_ports()
        .then(|| [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])])
}
