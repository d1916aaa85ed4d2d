//! The header of every packet: experiment, run, number, timestamp.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |             length of the packet, header included             |
//! +-------------------------------+---------------+---------------+
//! |         "tt" (0x7474)         |  version (1)  |     kind      |
//! +---------------+---------------+---------------+---------------+
//! |  encryption   |                       zero                    |
//! +---------------+-----------------------------------------------+
//! |                              run                              |
//! +---------------------------------------------------------------+
//! |                          experiment (64)                      |
//! +---------------------------------------------------------------+
//! |                        packet number (64)                     |
//! +---------------------------------------------------------------+
//! |        timestamp (64): nanoseconds of the sender's clock      |
//! +---------------------------------------------------------------+
//! ```
//!
//! All numbers are in network order. The header itself is never encrypted, since it tells whose key it
//! takes; ciphers with authentication protect it, too.

use crate::clock::Timestamp;
use crate::encryption::Encryption;

/// Octets of the header.
pub const HEADER_OCTETS: usize = 40;

/// The largest packet, header included.
pub const MAX_PACKET_OCTETS: usize = 1 << 20;

const MAGIC: [u8; 2] = *b"tt";
const VERSION: u8 = 1;

/// What a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It is counted.
    Data,
    /// The receiver has sent it back.
    Echo,
    /// A word of the two sides' conversation, in JSON.
    Control,
}

/// What a packet begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Octets of the packet, this header included.
    pub length: u32,
    /// What it is for.
    pub kind: Kind,
    /// How what follows is encrypted.
    pub encryption: Encryption,
    /// Which run of the experiment.
    pub run: u32,
    /// Which experiment.
    pub experiment: u64,
    /// One more with each packet of a run, from 1.
    pub number: u64,
    /// When it was made.
    pub timestamp: Timestamp,
}

impl Header {
    /// Reads the header that a packet begins with; `None` when it is none, or tells a length that no packet
    /// has.
    pub fn read(packet: &[u8]) -> Option<Header> {
        let octets = packet.first_chunk::<HEADER_OCTETS>()?;
        let word = |at: usize| {
            let word = octets.get(at..)?.first_chunk::<4>()?;
            Some(u32::from_be_bytes(*word))
        };
        let long = |at: usize| {
            let long = octets.get(at..)?.first_chunk::<8>()?;
            Some(u64::from_be_bytes(*long))
        };
        let [_, _, _, _, m0, m1, version, kind, encryption, 0, 0, 0, ..] = *octets else {
            return None;
        };
        if [m0, m1] != MAGIC || version != VERSION {
            return None;
        }
        let length = word(0)?;
        if !(HEADER_OCTETS..=MAX_PACKET_OCTETS).contains(&(length as usize)) {
            return None;
        }
        Some(Header {
            length,
            kind: Kind::of(kind)?,
            encryption: Encryption::of(encryption)?,
            run: word(12)?,
            experiment: long(16)?,
            number: long(24)?,
            timestamp: Timestamp(long(32)?),
        })
    }

    /// The header as it goes over the wire.
    pub fn to_octets(self) -> [u8; HEADER_OCTETS] {
        let mut octets = [0; HEADER_OCTETS];
        octets[0..4].copy_from_slice(&self.length.to_be_bytes());
        octets[4..6].copy_from_slice(&MAGIC);
        octets[6] = VERSION;
        octets[7] = self.kind.code();
        octets[8] = self.encryption.code();
        octets[12..16].copy_from_slice(&self.run.to_be_bytes());
        octets[16..24].copy_from_slice(&self.experiment.to_be_bytes());
        octets[24..32].copy_from_slice(&self.number.to_be_bytes());
        octets[32..40].copy_from_slice(&self.timestamp.0.to_be_bytes());
        octets
    }
}

impl Kind {
    /// The octet that stands for it.
    pub(crate) fn code(self) -> u8 {
        match self {
            Kind::Data => 0,
            Kind::Echo => 1,
            Kind::Control => 2,
        }
    }

    fn of(code: u8) -> Option<Kind> {
        [Kind::Data, Kind::Echo, Kind::Control]
            .into_iter()
            .find(|kind| kind.code() == code)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header() -> Header {
        Header {
            length: 1000,
            kind: Kind::Echo,
            encryption: Encryption::DesCfb,
            run: 3,
            experiment: u64::MAX,
            number: 7,
            timestamp: Timestamp(1 << 60),
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let octets = header().to_octets();
        assert_eq!(Header::read(&octets), Some(header()));
        assert_eq!(Header::read(&octets[..39]), None);
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let good = header().to_octets();
        for (at, value) in [(4, b'x'), (6, 2), (7, 3), (8, 9), (9, 1), (0, 1)] {
            let mut octets = good;
            octets[at] = value;
            assert_eq!(Header::read(&octets), None, "octet {at}");
        }
        let short = Header {
            length: 39,
            ..header()
        };
        assert_eq!(Header::read(&short.to_octets()), None);
    }

    proptest! {
        #[test]
        fn anything_may_come(mut octets in prop::collection::vec(any::<u8>(), 0..60), disguise in any::<bool>()) {
            if disguise && octets.len() > 12 {
                octets[..12].copy_from_slice(&[0, 0, 1, 0, b't', b't', 1, 0, 0, 0, 0, 0]);
            }
            if let Some(header) = Header::read(&octets) {
                prop_assert_eq!(&header.to_octets()[..], &octets[..HEADER_OCTETS]);
            }
        }
    }
}
