//! The header of IPv4 (RFC 791 section 3.1).

use std::net::Ipv4Addr;

use etherparse::checksum::Sum16BitWords;

use crate::protocol::Protocol;

/// The shortest header.
pub(crate) const LEAST_HEADER: usize = 20;

/// A packet whose header and length hold together; the checksum may be wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header<'a> {
    /// Header and payload, without what came behind it.
    packet: &'a [u8],
    header_length: usize,
}

impl<'a> Header<'a> {
    /// Reads it; `None` when it is too short, or its lengths contradict each other (RFC 1812 section 5.2.2).
    pub(crate) fn read(octets: &'a [u8]) -> Option<Header<'a>> {
        let first = octets.first_chunk::<LEAST_HEADER>()?;
        let header_length = usize::from(first[0] & 0x0f) * 4;
        let total_length = usize::from(u16::from_be_bytes([first[2], first[3]]));
        let is_whole = first[0] >> 4 == 4
            && header_length >= LEAST_HEADER
            && header_length <= total_length
            && total_length <= octets.len();
        is_whole.then(|| Header {
            packet: &octets[..total_length],
            header_length,
        })
    }

    pub(crate) fn has_right_checksum(&self) -> bool {
        Sum16BitWords::new()
            .add_slice(self.octets())
            .ones_complement()
            == 0
    }

    /// The header alone, with its options.
    pub(crate) fn octets(&self) -> &'a [u8] {
        &self.packet[..self.header_length]
    }

    pub(crate) fn payload(&self) -> &'a [u8] {
        &self.packet[self.header_length..]
    }

    /// Header and payload.
    pub(crate) fn total_length(&self) -> usize {
        self.packet.len()
    }

    pub(crate) fn time_to_live(&self) -> u8 {
        self.packet[8]
    }

    pub(crate) fn protocol(&self) -> Protocol {
        Protocol(self.packet[9])
    }

    pub(crate) fn source(&self) -> Ipv4Addr {
        self.address(12)
    }

    pub(crate) fn destination(&self) -> Ipv4Addr {
        self.address(16)
    }

    pub(crate) fn must_not_be_fragmented(&self) -> bool {
        self.packet[6] & 0x40 != 0
    }

    pub(crate) fn more_fragments_follow(&self) -> bool {
        self.packet[6] & 0x20 != 0
    }

    /// Where the payload belongs in that of the whole packet, in bytes.
    pub(crate) fn fragment_offset(&self) -> usize {
        usize::from(u16::from_be_bytes([self.packet[6] & 0x1f, self.packet[7]])) * 8
    }

    /// Whether the packet that this is a fragment of would be no longer than one can be (RFC 791 section 3.1:
    /// total length).
    pub(crate) fn ends_within_a_packet(&self) -> bool {
        self.fragment_offset() + self.total_length() <= usize::from(u16::MAX)
    }

    fn address(&self, at: usize) -> Ipv4Addr {
        let mut octets = [0; 4];
        octets.copy_from_slice(&self.packet[at..at + 4]);
        Ipv4Addr::from_octets(octets)
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
) -> [u8; LEAST_HEADER] {
    let mut header = [0; LEAST_HEADER];
    header[0] = 0x45;
    header[1] = type_of_service;
    let total_length = (LEAST_HEADER + payload_length) as u16;
    header[2..4].copy_from_slice(&total_length.to_be_bytes());
    header[4..6].copy_from_slice(&identification.to_be_bytes());
    header[8] = super::error::TIME_TO_LIVE;
    header[9] = protocol.0;
    header[12..16].copy_from_slice(&source.octets());
    header[16..20].copy_from_slice(&destination.octets());
    write_checksum(&mut header);
    header
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
