//! Forward Cumulative TSN for interleaved messages (RFC 8260, section 2.3.1).

use super::ChunkType;
use crate::packet::tlv::HEADER_LENGTH;
use crate::packet::{DoesNotFit, Mid, PacketWriter, Tsn};
use bytes::{Buf, BufMut};

/// Tells the receiver not to wait for messages that the sender has abandoned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IForwardTsn<'a> {
    /// All missing TSNs up to and including this one count as received.
    pub new_cumulative_tsn: Tsn,
    /// The streams on which messages are skipped.
    pub skipped: SkippedMids<'a>,
}

/// A stream on which ordered or unordered messages are skipped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SkippedMid {
    /// The stream.
    pub stream: u16,
    /// U bit: it is about the unordered messages of the stream, not about its ordered ones.
    pub unordered: bool,
    /// The largest Message Identifier that is skipped.
    pub mid: Mid,
}

/// The skipped streams of an I-FORWARD-TSN, as they lie in the packet. Nothing makes sure that each
/// is there once.
#[derive(Clone, Copy, Default, Debug)]
pub struct SkippedMids<'a>(&'a [[u8; 8]]);

impl IForwardTsn<'_> {
    /// Bytes that an I-FORWARD-TSN takes without any skipped stream.
    pub const OVERHEAD: usize = 8;

    /// Bytes that each skipped stream adds.
    pub const ENTRY_LENGTH: usize = 8;
}

impl<'a> IForwardTsn<'a> {
    pub(super) fn read(mut value: &'a [u8]) -> Option<IForwardTsn<'a>> {
        let new_cumulative_tsn = Tsn(value.try_get_u32().ok()?);
        match value.as_chunks() {
            (skipped, []) => Some(IForwardTsn {
                new_cumulative_tsn,
                skipped: SkippedMids(skipped),
            }),
            _ => None,
        }
    }
}

impl<'a> SkippedMids<'a> {
    /// The skipped streams in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = SkippedMid> + Clone + use<'a> {
        self.0.iter().map(|&[a, b, _, flags, mid @ ..]| SkippedMid {
            stream: u16::from_be_bytes([a, b]),
            unordered: flags & UNORDERED != 0,
            mid: Mid(u32::from_be_bytes(mid)),
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

/// Reserved bits do not count.
impl PartialEq for SkippedMids<'_> {
    fn eq(&self, other: &SkippedMids<'_>) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for SkippedMids<'_> {}

impl PacketWriter<'_> {
    /// Appends an I-FORWARD-TSN.
    ///
    /// # Errors
    ///
    /// When the chunk does not fit.
    pub fn i_forward_tsn(
        &mut self,
        new_cumulative_tsn: Tsn,
        skipped: impl ExactSizeIterator<Item = SkippedMid>,
    ) -> Result<(), DoesNotFit> {
        let value_length =
            IForwardTsn::OVERHEAD - HEADER_LENGTH + skipped.len() * IForwardTsn::ENTRY_LENGTH;
        self.append(ChunkType::I_FORWARD_TSN, 0, value_length, |buffer| {
            buffer.put_u32(new_cumulative_tsn.0);
            for entry in skipped {
                buffer.put_u16(entry.stream);
                buffer.put_u16(if entry.unordered {
                    u16::from(UNORDERED)
                } else {
                    0
                });
                buffer.put_u32(entry.mid.0);
            }
        })
    }
}

const UNORDERED: u8 = 0x01;
