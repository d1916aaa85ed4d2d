//! What the peer has received and does not take back (NR-SACK): it is not needed any more, though the
//! cumulative TSN has not reached it.

use super::{ChunkState, NeverSent, OutstandingData};
use crate::association::gap_blocks::{for_each_only_in, read_gaps};
use crate::packet::GapAckBlock;

impl OutstandingData {
    /// Frees the user data of chunks that the peer keeps, by the NR Gap Ack Blocks of an NR-SACK whose
    /// blocks of either kind were taken in as acknowledged before.
    pub(crate) fn free_non_renegable(
        &mut self,
        blocks: impl Iterator<Item = GapAckBlock>,
    ) -> Result<(), NeverSent> {
        let mut reported = std::mem::take(&mut self.scratch);
        let sound = read_gaps(blocks, self.chunks.len() as u32, &mut reported);
        let before = std::mem::take(&mut self.non_renegable);
        for_each_only_in(&reported, &before, |offset| {
            if let Some(chunk) = self.chunks.get_mut(offset as usize)
                && chunk.state == ChunkState::Acknowledged
            {
                chunk.state = ChunkState::NonRenegable;
                self.bytes -= std::mem::take(&mut chunk.fragment.payload).len();
            }
        });
        self.non_renegable = reported;
        self.scratch = before;
        self.scratch.clear();
        if sound { Ok(()) } else { Err(NeverSent) }
    }
}
