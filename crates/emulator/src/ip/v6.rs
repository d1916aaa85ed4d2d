//! The header of IPv6 (RFC 8200 section 3) and its extensions.

use std::net::Ipv6Addr;

use etherparse::checksum::Sum16BitWords;

use crate::protocol::Protocol;

/// The length of the header.
pub(crate) const HEADER: usize = 40;

/// The least MTU of a link of IPv6 (RFC 8200 section 5).
pub(crate) const LEAST_MTU: usize = 1280;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;

/// A packet whose header and length hold together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header<'a> {
    /// Header and payload, without what came behind it.
    packet: &'a [u8],
}

impl<'a> Header<'a> {
    /// Reads it; `None` when it is shorter than it says.
    pub(crate) fn read(octets: &'a [u8]) -> Option<Header<'a>> {
        let first = octets.first_chunk::<HEADER>()?;
        let length = HEADER + usize::from(u16::from_be_bytes([first[4], first[5]]));
        let is_whole = first[0] >> 4 == 6 && length <= octets.len();
        is_whole.then(|| Header {
            packet: &octets[..length],
        })
    }

    /// Header and payload.
    pub(crate) fn total_length(&self) -> usize {
        self.packet.len()
    }

    pub(crate) fn hop_limit(&self) -> u8 {
        self.packet[7]
    }

    pub(crate) fn source(&self) -> Ipv6Addr {
        self.address(8)
    }

    pub(crate) fn destination(&self) -> Ipv6Addr {
        self.address(24)
    }

    /// What it carries behind its extension headers, and the octets of that; no octets where they are
    /// those of a later fragment, or hidden.
    pub(crate) fn upper_layer(&self) -> (Protocol, Option<&'a [u8]>) {
        let mut next = self.packet[6];
        let mut rest = &self.packet[HEADER..];
        loop {
            let length = match next {
                HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => {
                    rest.get(1).map(|units| (usize::from(*units) + 1) * 8)
                }
                // Its length is in units of four octets, and less by two (RFC 4302 section 2.2).
                AUTHENTICATION => rest.get(1).map(|units| (usize::from(*units) + 2) * 4),
                FRAGMENT => Some(8),
                _ => return (Protocol(next), Some(rest)),
            };
            let is_later_fragment = next == FRAGMENT
                && rest
                    .get(2..4)
                    .is_some_and(|field| u16::from_be_bytes([field[0], field[1]]) >> 3 != 0);
            let (Some(&after), Some(behind)) =
                (rest.first(), length.and_then(|length| rest.get(length..)))
            else {
                return (Protocol(next), None);
            };
            if is_later_fragment {
                return (Protocol(after), None);
            }
            next = after;
            rest = behind;
        }
    }

    fn address(&self, at: usize) -> Ipv6Addr {
        let mut octets = [0; 16];
        octets.copy_from_slice(&self.packet[at..at + 16]);
        Ipv6Addr::from_octets(octets)
    }
}

/// Takes one off the hop limit, which is above zero, of a packet that has been read.
pub(crate) fn decrement_hop_limit(packet: &mut [u8]) {
    packet[7] -= 1;
}

/// A header without extensions.
pub(crate) fn new_header(
    [source, destination]: [Ipv6Addr; 2],
    protocol: Protocol,
    payload_length: usize,
) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[0] = 0x60;
    header[4..6].copy_from_slice(&(payload_length as u16).to_be_bytes());
    header[6] = protocol.0;
    header[7] = super::error::TIME_TO_LIVE;
    header[8..24].copy_from_slice(&source.octets());
    header[24..40].copy_from_slice(&destination.octets());
    header
}

/// The sum over what the checksums of upper layers cover beside their own octets (RFC 8200 section 8.1).
pub(crate) fn pseudo_header(
    [source, destination]: [Ipv6Addr; 2],
    protocol: Protocol,
    length: usize,
) -> Sum16BitWords {
    Sum16BitWords::new()
        .add_16bytes(source.octets())
        .add_16bytes(destination.octets())
        .add_4bytes((length as u32).to_be_bytes())
        .add_2bytes([0, protocol.0])
}

/// Whether a router may pass packets on to there: not to nowhere, the host itself, a group, or a neighbour
/// on the link (RFC 4291 sections 2.5.2, 2.5.3, 2.5.6 and 2.7).
pub(crate) fn may_be_forwarded_to(address: Ipv6Addr) -> bool {
    is_one_host(address) && !address.is_unicast_link_local()
}

/// Whether an address is that of one host that can be answered.
pub(crate) fn is_one_host(address: Ipv6Addr) -> bool {
    !address.is_unspecified() && !address.is_loopback() && !address.is_multicast()
}
