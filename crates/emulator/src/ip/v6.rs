//! The header of IPv6 (RFC 8200 section 3) and its extensions.

use std::net::Ipv6Addr;

use etherparse::checksum::Sum16BitWords;
use etherparse::ip_number::{AUTH, IPV6_DEST_OPTIONS, IPV6_FRAG, IPV6_HOP_BY_HOP, IPV6_ROUTE};
use etherparse::{IpNumber, Ipv6FragmentHeaderSlice, Ipv6Header, Ipv6HeaderSlice};

use super::TIME_TO_LIVE;
use crate::protocol::Protocol;

/// The least MTU of a link of IPv6 (RFC 8200 section 5).
pub(crate) const LEAST_MTU: usize = 1280;

/// A packet whose header and length hold together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet<'a> {
    pub(crate) header: Ipv6HeaderSlice<'a>,
    /// Extension headers and what follows them, without what came behind the packet.
    pub(crate) payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads it; `None` when it is shorter than it says.
    pub(crate) fn read(octets: &'a [u8]) -> Option<Packet<'a>> {
        let header = Ipv6HeaderSlice::from_slice(octets).ok()?;
        let behind = &octets[Ipv6Header::LEN..];
        let payload = behind.get(..usize::from(header.payload_length()))?;
        Some(Packet { header, payload })
    }

    /// Header and payload.
    pub(crate) fn total_length(&self) -> usize {
        Ipv6Header::LEN + self.payload.len()
    }

    /// What it carries behind its extension headers, and the octets of that; no octets where they are
    /// those of a later fragment, or hidden.
    pub(crate) fn upper_layer(&self) -> (Protocol, Option<&'a [u8]>) {
        let mut next = self.header.next_header();
        let mut rest = self.payload;
        // The headers of Mobility, HIP and Shim6 are not passed: rules match them by their own number.
        while let IPV6_HOP_BY_HOP | IPV6_ROUTE | IPV6_FRAG | AUTH | IPV6_DEST_OPTIONS = next {
            let is_later_fragment = next == IPV6_FRAG
                && Ipv6FragmentHeaderSlice::from_slice(rest)
                    .is_ok_and(|fragment| fragment.fragment_offset().value() != 0);
            let Ok((after, behind)) = Ipv6Header::skip_header_extension_in_slice(rest, next) else {
                return (Protocol(next.0), None);
            };
            if is_later_fragment {
                return (Protocol(after.0), None);
            }
            (next, rest) = (after, behind);
        }
        (Protocol(next.0), Some(rest))
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
) -> [u8; Ipv6Header::LEN] {
    let header = Ipv6Header {
        payload_length: payload_length as u16,
        next_header: IpNumber(protocol.0),
        hop_limit: TIME_TO_LIVE,
        source: source.octets(),
        destination: destination.octets(),
        ..Ipv6Header::default()
    };
    header.to_bytes()
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
