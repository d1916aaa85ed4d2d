//! The Internet checksum (RFC 1071).

/// A sum under way: ones' complement, of 16-bit words.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Checksum(u64);

impl Checksum {
    /// Adds octets; an odd one at the end counts as if a zero followed it.
    pub(crate) fn add(&mut self, octets: &[u8]) {
        let (words, rest) = octets.as_chunks::<2>();
        for word in words {
            self.0 += u64::from(u16::from_be_bytes(*word));
        }
        if let [last] = rest {
            self.0 += u64::from(*last) << 8;
        }
    }

    /// What belongs in the field of the checksum; zero when the field was summed too and was right.
    pub(crate) fn finish(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }
}

/// The checksum of these octets alone.
pub(crate) fn of(octets: &[u8]) -> u16 {
    let mut checksum = Checksum::default();
    checksum.add(octets);
    checksum.finish()
}

/// What a checksum becomes when one of the words changes (RFC 1624 section 3, equation 3).
pub(crate) fn updated(checksum: u16, old: u16, new: u16) -> u16 {
    let mut sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
