//! Selective Acknowledgement (RFC 9260, section 3.3.4).

use super::ChunkType;
use crate::packet::tlv::HEADER_LENGTH;
use crate::packet::{DoesNotFit, PacketWriter, Tsn};
use bytes::{Buf, BufMut};

/// Says which DATA chunks have been received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sack<'a> {
    /// All TSNs up to and including this one have been received.
    pub cumulative_tsn_ack: Tsn,
    /// Advertised Receiver Window Credit, in bytes.
    pub a_rwnd: u32,
    /// How many packets with DATA have come since the last SACK, at most [`Sack::MAX_PACKETS`]; 0 where that
    /// is not told, as it is with concurrent multipath transfer (DAC) alone.
    pub packets: u8,
    /// Runs of TSNs received beyond the cumulative TSN ack.
    pub gap_ack_blocks: GapAckBlocks<'a>,
    /// TSNs received more than once since the last SACK.
    pub duplicate_tsns: TsnList<'a>,
}

/// A run of received TSNs, as offsets from the cumulative TSN ack.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GapAckBlock {
    /// Offset of the first TSN of the run.
    pub start: u16,
    /// Offset of the last TSN of the run.
    pub end: u16,
}

/// The Gap Ack Blocks of a SACK or NR-SACK, as they lie in the packet. Nothing makes sure that they are in
/// order or apart, nor that a block's start is not behind its end.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GapAckBlocks<'a>(&'a [[u8; 4]]);

/// The duplicate TSNs of a SACK or NR-SACK, as they lie in the packet.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TsnList<'a>(&'a [[u8; 4]]);

impl Sack<'_> {
    /// Bytes that a SACK takes without any Gap Ack Block or duplicate TSN.
    pub const OVERHEAD: usize = 16;

    /// Bytes that each Gap Ack Block and each duplicate TSN adds.
    pub const ENTRY_LENGTH: usize = 4;

    /// The most packets that a SACK can tell of.
    pub const MAX_PACKETS: u8 = 3;

    /// The number of packets is in the two highest flags.
    pub(super) const PACKETS_SHIFT: u32 = 6;
}

impl<'a> Sack<'a> {
    pub(super) fn read(flags: u8, mut value: &'a [u8]) -> Option<Sack<'a>> {
        let cumulative_tsn_ack = Tsn(value.try_get_u32().ok()?);
        let a_rwnd = value.try_get_u32().ok()?;
        let blocks = usize::from(value.try_get_u16().ok()?);
        let duplicates = usize::from(value.try_get_u16().ok()?);
        let (entries, _) = value.as_chunks();
        let (gap_ack_blocks, entries) = entries.split_at_checked(blocks)?;
        Some(Sack {
            cumulative_tsn_ack,
            a_rwnd,
            packets: flags >> Sack::PACKETS_SHIFT,
            gap_ack_blocks: GapAckBlocks::new(gap_ack_blocks),
            duplicate_tsns: TsnList::new(entries.get(..duplicates)?),
        })
    }
}

impl<'a> GapAckBlocks<'a> {
    pub(super) fn new(entries: &'a [[u8; 4]]) -> GapAckBlocks<'a> {
        GapAckBlocks(entries)
    }

    /// The blocks in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = GapAckBlock> + Clone + use<'a> {
        self.0.iter().map(|&[a, b, c, d]| GapAckBlock {
            start: u16::from_be_bytes([a, b]),
            end: u16::from_be_bytes([c, d]),
        })
    }

    /// How many blocks there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no block.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> TsnList<'a> {
    pub(super) fn new(entries: &'a [[u8; 4]]) -> TsnList<'a> {
        TsnList(entries)
    }

    /// The TSNs in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Tsn> + Clone + use<'a> {
        self.0.iter().map(|&bytes| Tsn(u32::from_be_bytes(bytes)))
    }

    /// How many TSNs there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no TSN.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl PacketWriter<'_> {
    /// Appends a SACK. Who has more to say than fits takes as many entries as
    /// [`PacketWriter::remaining`] has room for.
    ///
    /// # Errors
    ///
    /// When the chunk does not fit.
    pub fn sack(
        &mut self,
        cumulative_tsn_ack: Tsn,
        a_rwnd: u32,
        packets: u8,
        gap_ack_blocks: impl ExactSizeIterator<Item = GapAckBlock>,
        duplicate_tsns: impl ExactSizeIterator<Item = Tsn>,
    ) -> Result<(), DoesNotFit> {
        let (blocks, duplicates) = (gap_ack_blocks.len(), duplicate_tsns.len());
        let value_length =
            Sack::OVERHEAD - HEADER_LENGTH + (blocks + duplicates) * Sack::ENTRY_LENGTH;
        // Counts that fit into a chunk fit into 16 bits.
        let flags = packets << Sack::PACKETS_SHIFT;
        self.append(ChunkType::SACK, flags, value_length, |buffer| {
            buffer.put_u32(cumulative_tsn_ack.0);
            buffer.put_u32(a_rwnd);
            buffer.put_u16(blocks as u16);
            buffer.put_u16(duplicates as u16);
            for block in gap_ack_blocks {
                buffer.put_u16(block.start);
                buffer.put_u16(block.end);
            }
            for tsn in duplicate_tsns {
                buffer.put_u32(tsn.0);
            }
        })
    }
}
