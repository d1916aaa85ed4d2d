//! RTP data packets (RFC 3550 section 5).

use bytes::Buf;

/// The version (RFC 3550 section 5.1), in the two bits where it stands.
pub const VERSION_BITS: u8 = 2 << 6;

/// A data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtpPacket<'a> {
    /// The marker; audio without silence suppression never sets it (RFC 3551 section 4.1).
    pub marker: bool,
    /// What the payload is.
    pub payload_type: u8,
    /// One more with each packet, modulo 2¹⁶.
    pub sequence: u16,
    /// When the first octet was sampled, in ticks of the codec's clock from a random beginning.
    pub timestamp: u32,
    /// Whose packets these are.
    pub ssrc: u32,
    /// Contributing sources, extension and padding left out.
    pub payload: &'a [u8],
}

/// Whether a packet that came to a port for both is one of RTCP: its packet type is where RTP has marker
/// and payload type, of which those that would look like it are not used (RFC 5761 section 4).
pub fn is_rtcp(octets: &[u8]) -> bool {
    octets
        .get(1)
        .is_some_and(|second| (192..=223).contains(second))
}

/// Octets of a packet's header with contributing sources and extension, all of which are there. `None` when it is no data
/// packet (RFC 3550 section 5.1).
pub fn header_octets(octets: &[u8]) -> Option<usize> {
    let first = *octets.first()?;
    if first & 0xc0 != VERSION_BITS || is_rtcp(octets) {
        return None;
    }
    let mut end = 12 + usize::from(first & 0x0f) * 4;
    if first & 0x10 != 0 {
        // Two octets that the profile defines, then the length in words (RFC 3550 section 5.3.1).
        let mut words = octets.get(end + 2..end + 4)?;
        end += 4 + 4 * usize::from(words.try_get_u16().ok()?);
    }
    (octets.len() >= end).then_some(end)
}

/// The source of a data packet, and its number (RFC 3550 section 5.1).
pub fn source_and_sequence(octets: &[u8]) -> Option<(u32, u16)> {
    let mut sequence = octets.get(2..4)?;
    let mut ssrc = octets.get(8..12)?;
    Some((ssrc.try_get_u32().ok()?, sequence.try_get_u16().ok()?))
}

impl<'a> RtpPacket<'a> {
    /// Reads a packet; `None` when it fails one of the checks of RFC 3550 appendix A.1 that need no memory.
    pub fn read(octets: &'a [u8]) -> Option<RtpPacket<'a>> {
        let mut rest = octets;
        let first = rest.try_get_u8().ok()?;
        let second = rest.try_get_u8().ok()?;
        let sequence = rest.try_get_u16().ok()?;
        let timestamp = rest.try_get_u32().ok()?;
        let ssrc = rest.try_get_u32().ok()?;
        rest = octets.get(header_octets(octets)?..)?;
        if first & 0x20 != 0 {
            let padding = usize::from(*rest.last()?);
            let payload = rest.len().checked_sub(padding)?;
            rest = if padding == 0 {
                return None;
            } else {
                rest.get(..payload)?
            };
        }
        Some(RtpPacket {
            marker: second & 0x80 != 0,
            payload_type: second & 0x7f,
            sequence,
            timestamp,
            ssrc,
            payload: rest,
        })
    }

    /// Appends the packet as it goes over the wire.
    pub fn write(&self, into: &mut Vec<u8>) {
        self.write_header(into);
        into.extend_from_slice(self.payload);
    }

    /// Appends the header of the packet; its payload follows.
    pub fn write_header(&self, into: &mut Vec<u8>) {
        let marker = u8::from(self.marker) << 7;
        into.extend([VERSION_BITS, marker | self.payload_type & 0x7f]);
        into.extend(self.sequence.to_be_bytes());
        into.extend(self.timestamp.to_be_bytes());
        into.extend(self.ssrc.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    /// Octets of the fixed header (RFC 3550 section 5.1).
    const HEADER_OCTETS: usize = 12;

    use proptest::prelude::*;

    use super::*;

    fn packet() -> RtpPacket<'static> {
        RtpPacket {
            marker: false,
            payload_type: 8,
            sequence: 65_535,
            timestamp: 0xdead_beef,
            ssrc: 7,
            payload: b"voice",
        }
    }

    fn written(packet: &RtpPacket<'_>) -> Vec<u8> {
        let mut octets = Vec::new();
        packet.write(&mut octets);
        octets
    }

    #[test]
    fn what_was_written_is_read() {
        let octets = written(&packet());
        assert_eq!(octets.len(), 17);
        assert_eq!(RtpPacket::read(&octets), Some(packet()));
        for length in 0..HEADER_OCTETS {
            assert_eq!(RtpPacket::read(&octets[..length]), None);
        }
    }

    #[test]
    fn what_is_around_the_payload_is_left_out() {
        let mut octets = written(&packet());
        // Two contributing sources, an extension of one word, three octets of padding.
        octets[0] |= 0x20 | 0x10 | 2;
        let inserted = [&[1; 8][..], &[0xbe, 0xde, 0, 1], &[2; 4]].concat();
        octets.splice(HEADER_OCTETS..HEADER_OCTETS, inserted);
        octets.extend([0, 0, 3]);
        assert_eq!(RtpPacket::read(&octets), Some(packet()));
    }

    #[test]
    fn headers_that_say_too_much_are_refused() {
        let good = written(&packet());
        let with = |at: usize, value: u8| {
            let mut octets = good.clone();
            octets[at] = value;
            octets
        };
        assert_eq!(RtpPacket::read(&with(0, 0x40)), None, "version 1");
        assert_eq!(RtpPacket::read(&with(0, 0x8f)), None, "15 sources");
        assert_eq!(RtpPacket::read(&with(0, 0x90)), None, "a long extension");
        let mut padded = with(0, 0xa0);
        *padded.last_mut().unwrap() = 6;
        assert_eq!(RtpPacket::read(&padded), None, "more padding than payload");
        *padded.last_mut().unwrap() = 0;
        assert_eq!(RtpPacket::read(&padded), None, "no padding at all");
        assert_eq!(RtpPacket::read(&with(1, 200)), None, "a sender report");
    }

    proptest! {
        #[test]
        fn anything_may_come(octets in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Some(packet) = RtpPacket::read(&octets) {
                prop_assert!(packet.payload.len() <= octets.len() - HEADER_OCTETS);
                let again = written(&packet);
                prop_assert_eq!(RtpPacket::read(&again), Some(packet));
            }
        }
    }
}
