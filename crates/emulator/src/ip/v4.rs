//! The header of IPv4 (RFC 791 section 3.1).

use std::net::Ipv4Addr;
use std::ops::Deref;

use etherparse::checksum::Sum16BitWords;
use etherparse::{IpNumber, Ipv4Header, Ipv4HeaderSlice};

use super::TIME_TO_LIVE;
use crate::protocol::Protocol;

/// A packet whose header and length hold together; the checksum may be wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet<'a> {
    pub(crate) header: Ipv4HeaderSlice<'a>,
    /// Without what came behind the packet.
    pub(crate) payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads it; `None` when it is too short, or its lengths contradict each other (RFC 1812 section 5.2.2).
    pub(crate) fn read(octets: &'a [u8]) -> Option<Packet<'a>> {
        let header = Ipv4HeaderSlice::from_slice(octets).ok()?;
        let payload = octets.get(header.slice().len()..usize::from(header.total_len()))?;
        Some(Packet { header, payload })
    }

    pub(crate) fn has_right_checksum(&self) -> bool {
        let sum = Sum16BitWords::new().add_slice(self.header.slice());
        sum.ones_complement() == 0
    }

    /// Header and payload.
    pub(crate) fn total_length(&self) -> usize {
        usize::from(self.header.total_len())
    }

    pub(crate) fn protocol(&self) -> Protocol {
        Protocol(self.header.protocol().0)
    }

    /// Where the payload belongs in that of the whole packet, in bytes.
    pub(crate) fn fragment_offset(&self) -> usize {
        usize::from(self.header.fragments_offset().byte_offset())
    }

    /// Whether the packet that this is a fragment of would be no longer than one can be (RFC 791 section 3.1:
    /// total length).
    pub(crate) fn ends_within_a_packet(&self) -> bool {
        self.fragment_offset() + self.total_length() <= usize::from(u16::MAX)
    }
}

/// Takes one off the time to live, which is above zero, of a packet that has been read.
pub(crate) fn decrement_time_to_live(packet: &mut [u8]) {
    set_word(packet, 8, [packet[8] - 1, packet[9]]);
}

/// Changes the octet of the type of service.
pub(crate) fn set_second_octet(packet: &mut [u8], value: u8) {
    set_word(packet, 0, [packet[0], value]);
}

/// A header without options and with its checksum.
pub(crate) fn new_header(
    [source, destination]: [Ipv4Addr; 2],
    protocol: Protocol,
    type_of_service: u8,
    identification: u16,
    payload_length: usize,
) -> impl Deref<Target = [u8]> {
    let header = Ipv4Header {
        total_len: (Ipv4Header::MIN_LEN + payload_length) as u16,
        identification,
        dont_fragment: false,
        time_to_live: TIME_TO_LIVE,
        protocol: IpNumber(protocol.0),
        source: source.octets(),
        destination: destination.octets(),
        ..Ipv4Header::default()
    };
    let mut octets = header.to_bytes();
    octets[1] = type_of_service;
    write_checksum(&mut octets);
    octets
}

/// Writes the checksum of a header. Its words are summed in the order of the machine and the sum is written in it,
/// which is the same as in the order of the network (RFC 1071 section 2 (B)).
pub(crate) fn write_checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let checksum = Sum16BitWords::new().add_slice(header).ones_complement();
    header[10..12].copy_from_slice(&checksum.to_ne_bytes());
}

/// Whether a router may pass packets on to there (RFC 1812 sections 4.2.2.11 and 5.3.7): not to nowhere,
/// the host itself, a group, or everybody.
pub(crate) fn may_be_forwarded_to(address: Ipv4Addr) -> bool {
    is_one_host(address)
}

/// Whether an address is that of one host that can be answered.
pub(crate) fn is_one_host(address: Ipv4Addr) -> bool {
    let first = address.octets()[0];
    // 240.0.0.0/4, with the broadcast address, is the class of the future.
    first != 0 && first != 127 && first < 224
}

/// Changes a word of the header, and the checksum with it (RFC 1624 section 3, equation 3).
fn set_word(packet: &mut [u8], at: usize, new: [u8; 2]) {
    let complement = |at: usize| [!packet[at], !packet[at + 1]];
    let checksum = Sum16BitWords::new()
        .add_2bytes(complement(10))
        .add_2bytes(complement(at))
        .add_2bytes(new)
        .ones_complement();
    packet[at..at + 2].copy_from_slice(&new);
    packet[10..12].copy_from_slice(&checksum.to_ne_bytes());
}
