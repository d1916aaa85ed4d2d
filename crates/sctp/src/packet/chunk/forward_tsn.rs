//! Forward Cumulative TSN (RFC 3758, section 3.2).

use super::ChunkType;
use crate::packet::tlv::HEADER_LENGTH;
use crate::packet::{DoesNotFit, PacketWriter, Ssn, Tsn};
use bytes::{Buf, BufMut};

/// Tells the receiver not to wait for messages that the sender has abandoned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForwardTsn<'a> {
    /// All missing TSNs up to and including this one count as received.
    pub new_cumulative_tsn: Tsn,
    /// The streams on which ordered messages are skipped.
    pub skipped: SkippedSsns<'a>,
}

/// A stream on which ordered messages are skipped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SkippedSsn {
    /// The stream.
    pub stream: u16,
    /// The largest Stream Sequence Number that is skipped.
    pub ssn: Ssn,
}

/// The skipped streams of a FORWARD-TSN, as they lie in the packet. Nothing makes sure that each
/// stream is there once.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SkippedSsns<'a>(&'a [[u8; 4]]);

impl ForwardTsn<'_> {
    /// Bytes that a FORWARD-TSN takes without any skipped stream.
    pub const OVERHEAD: usize = 8;

    /// Bytes that each skipped stream adds.
    pub const ENTRY_LENGTH: usize = 4;
}

impl<'a> ForwardTsn<'a> {
    pub(super) fn read(mut value: &'a [u8]) -> Option<ForwardTsn<'a>> {
        let new_cumulative_tsn = Tsn(value.try_get_u32().ok()?);
        match value.as_chunks() {
            (skipped, []) => Some(ForwardTsn {
                new_cumulative_tsn,
                skipped: SkippedSsns(skipped),
            }),
            _ => None,
        }
    }
}

impl<'a> SkippedSsns<'a> {
    /// The skipped streams in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = SkippedSsn> + Clone + use<'a> {
        self.0.iter().map(|&[a, b, c, d]| SkippedSsn {
            stream: u16::from_be_bytes([a, b]),
            ssn: Ssn(u16::from_be_bytes([c, d])),
        })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl PacketWriter<'_> {
    /// Appends a FORWARD-TSN.
    ///
    /// # Errors
    ///
    /// When the chunk does not fit.
    pub fn forward_tsn(
        &mut self,
        new_cumulative_tsn: Tsn,
        skipped: impl ExactSizeIterator<Item = SkippedSsn>,
    ) -> Result<(), DoesNotFit> {
        let value_length =
            ForwardTsn::OVERHEAD - HEADER_LENGTH + skipped.len() * ForwardTsn::ENTRY_LENGTH;
        self.append(ChunkType::FORWARD_TSN, 0, value_length, |buffer| {
            buffer.put_u32(new_cumulative_tsn.0);
            for entry in skipped {
                buffer.put_u16(entry.stream);
                buffer.put_u16(entry.ssn.0);
            }
        })
    }
}
