//! Non-Renegable Selective Acknowledgement (draft-natarajan-tsvwg-sctp-nrsack).

use super::ChunkType;
use super::sack::{GapAckBlock, GapAckBlocks, Sack, TsnList};
use crate::packet::tlv::HEADER_LENGTH;
use crate::packet::{DoesNotFit, PacketWriter, Tsn};
use bytes::{Buf, BufMut};

/// Says which DATA chunks have been received, and which of these the receiver will not give up
/// again. It takes the place of SACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NrSack<'a> {
    /// All TSNs up to and including this one have been received.
    pub cumulative_tsn_ack: Tsn,
    /// Advertised Receiver Window Credit, in bytes.
    pub a_rwnd: u32,
    /// See [`Sack::packets`].
    pub packets: u8,
    /// Runs of TSNs received beyond the cumulative TSN ack that the receiver may still discard.
    pub gap_ack_blocks: GapAckBlocks<'a>,
    /// Runs of TSNs received beyond the cumulative TSN ack that the receiver keeps.
    pub nr_gap_ack_blocks: GapAckBlocks<'a>,
    /// TSNs received more than once since the last acknowledgement.
    pub duplicate_tsns: TsnList<'a>,
}

impl NrSack<'_> {
    /// Bytes that an NR-SACK takes without any Gap Ack Block or duplicate TSN.
    pub const OVERHEAD: usize = 20;

    /// Bytes that each Gap Ack Block of either kind and each duplicate TSN adds.
    pub const ENTRY_LENGTH: usize = 4;
}

impl<'a> NrSack<'a> {
    pub(super) fn read(flags: u8, mut value: &'a [u8]) -> Option<NrSack<'a>> {
        let cumulative_tsn_ack = Tsn(value.try_get_u32().ok()?);
        let a_rwnd = value.try_get_u32().ok()?;
        let blocks = usize::from(value.try_get_u16().ok()?);
        let nr_blocks = usize::from(value.try_get_u16().ok()?);
        let duplicates = usize::from(value.try_get_u16().ok()?);
        let _reserved = value.try_get_u16().ok()?;
        let (entries, _) = value.as_chunks();
        let (gap_ack_blocks, entries) = entries.split_at_checked(blocks)?;
        let (nr_gap_ack_blocks, entries) = entries.split_at_checked(nr_blocks)?;
        Some(NrSack {
            cumulative_tsn_ack,
            a_rwnd,
            packets: flags >> Sack::PACKETS_SHIFT,
            gap_ack_blocks: GapAckBlocks::new(gap_ack_blocks),
            nr_gap_ack_blocks: GapAckBlocks::new(nr_gap_ack_blocks),
            duplicate_tsns: TsnList::new(entries.get(..duplicates)?),
        })
    }
}

impl PacketWriter<'_> {
    /// Appends an NR-SACK. Who has more to say than fits takes as many entries as
    /// [`PacketWriter::remaining`] has room for.
    ///
    /// # Errors
    ///
    /// When the chunk does not fit.
    pub fn nr_sack(
        &mut self,
        cumulative_tsn_ack: Tsn,
        a_rwnd: u32,
        packets: u8,
        gap_ack_blocks: impl ExactSizeIterator<Item = GapAckBlock>,
        nr_gap_ack_blocks: impl ExactSizeIterator<Item = GapAckBlock>,
        duplicate_tsns: impl ExactSizeIterator<Item = Tsn>,
    ) -> Result<(), DoesNotFit> {
        let (blocks, nr_blocks) = (gap_ack_blocks.len(), nr_gap_ack_blocks.len());
        let duplicates = duplicate_tsns.len();
        let entries = blocks + nr_blocks + duplicates;
        let value_length = NrSack::OVERHEAD - HEADER_LENGTH + entries * NrSack::ENTRY_LENGTH;
        // Counts that fit into a chunk fit into 16 bits.
        let flags = packets << Sack::PACKETS_SHIFT;
        self.append(ChunkType::NR_SACK, flags, value_length, |buffer| {
            buffer.put_u32(cumulative_tsn_ack.0);
            buffer.put_u32(a_rwnd);
            buffer.put_u16(blocks as u16);
            buffer.put_u16(nr_blocks as u16);
            buffer.put_u16(duplicates as u16);
            buffer.put_u16(0);
            for block in gap_ack_blocks.chain(nr_gap_ack_blocks) {
                buffer.put_u16(block.start);
                buffer.put_u16(block.end);
            }
            for tsn in duplicate_tsns {
                buffer.put_u32(tsn.0);
            }
        })
    }
}
