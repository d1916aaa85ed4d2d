//! On which path chunks are sent again, where several are in use.

use std::time::Instant;

use super::{ChunkState, OutstandingChunk, OutstandingData};
use crate::association::loss::Loss;
use crate::association::message_fragment::MessageFragment;
use crate::association::path_id::PathId;
use crate::packet::Tsn;

impl OutstandingData {
    /// Whether a chunk is to be sent again on `path`.
    pub(crate) fn has_lost_on(&self, path: PathId) -> bool {
        self.lost_count > 0 && self.first_lost_on(path).is_some()
    }

    /// The lowest TSN that is to be sent again on `path`.
    pub(crate) fn next_lost_on(&mut self, path: PathId) -> Option<(Tsn, &MessageFragment)> {
        // Forgets what was acknowledged since.
        self.next_lost()?;
        let tsn = self.first_lost_on(path)?;
        let chunk = self.lost_chunk(tsn)?;
        Some((tsn, &chunk.fragment))
    }

    fn first_lost_on(&self, path: PathId) -> Option<Tsn> {
        let is_there = |tsn: &Tsn| {
            self.lost_chunk(*tsn)
                .is_some_and(|chunk| chunk.next_path == path)
        };
        self.lost
            .iter()
            .copied()
            .take_while(|tsn| self.is_reported(*tsn))
            .find(is_there)
    }

    fn lost_chunk(&self, tsn: Tsn) -> Option<&OutstandingChunk> {
        if tsn < self.first {
            return None;
        }
        self.chunks
            .get(tsn.distance_from(self.first) as usize)
            .filter(|chunk| matches!(chunk.state, ChunkState::Lost(_)))
    }

    /// Has everything that is to be sent again go to `path`, but for probes of other paths.
    pub(crate) fn send_lost_on(&mut self, path: PathId) {
        for tsn in &self.lost {
            if *tsn >= self.first
                && let Some(chunk) = self.chunks.get_mut(tsn.distance_from(self.first) as usize)
                && chunk.state != ChunkState::Lost(Loss::Probe)
            {
                chunk.next_path = path;
            }
        }
    }

    /// Whether the chunk `tsn` is in flight on another path than `path`.
    pub(crate) fn is_in_flight_beside(&self, tsn: Tsn, path: PathId) -> bool {
        self.chunks
            .get(tsn.distance_from(self.first) as usize)
            .is_some_and(|chunk| chunk.state == ChunkState::InFlight && chunk.path != path)
    }

    /// The chunk `tsn`, which is going to be sent on another path, too: nobody knows then which of them its
    /// acknowledgement proves.
    pub(crate) fn copy(&mut self, tsn: Tsn) -> Option<&MessageFragment> {
        let index = tsn.distance_from(self.first) as usize;
        let chunk = self.chunks.get_mut(index)?;
        chunk.copied = true;
        Some(&chunk.fragment)
    }

    /// The chunk `tsn` with header and padding, in bytes.
    pub(crate) fn size_of_chunk(&self, tsn: Tsn) -> Option<usize> {
        let chunk = self.chunks.get(tsn.distance_from(self.first) as usize)?;
        Some(chunk.fragment.chunk_size())
    }

    /// What is in flight on a path, in bytes of chunks.
    #[cfg(test)]
    pub(crate) fn flight_on(&self, path: PathId) -> usize {
        let chunks = self.chunks.iter();
        let there =
            chunks.filter(|chunk| chunk.path == path && chunk.state == ChunkState::InFlight);
        there.map(|chunk| chunk.fragment.chunk_size()).sum()
    }

    /// The path on which the chunk is in flight that all others wait for: the earliest one.
    pub(crate) fn blocking_path(&self) -> Option<PathId> {
        let first = self.chunks.front()?;
        (first.state == ChunkState::InFlight).then_some(first.path)
    }

    /// Marks the earliest chunks, which are in flight on the path `from`, to be sent again on the path `to`, where
    /// `is_late` says so, which hears when each was sent, and whether it was on several paths before. They are as many as
    /// `room` bytes hold, and one at least. One that may not be sent again stays where it is: it is not known to be
    /// lost. `on_moved` hears the size of each.
    pub(crate) fn reschedule(
        &mut self,
        now: Instant,
        [from, to]: [PathId; 2],
        room: usize,
        mut is_late: impl FnMut(Instant, bool) -> bool,
        mut on_moved: impl FnMut(usize),
    ) {
        let mut left = room;
        for index in 0..self.chunks.len() {
            let Some(chunk) = self.chunks.get(index) else {
                return;
            };
            let size = chunk.fragment.chunk_size();
            let moves = chunk.state == ChunkState::InFlight
                && chunk.path == from
                && (index == 0 || size <= left)
                && !chunk.fragment.limit.is_reached(now, chunk.retransmissions)
                && is_late(chunk.sent, chunk.moved);
            if !moves {
                return;
            }
            left = left.saturating_sub(size);
            self.mark_lost(index, Loss::FastRetransmit, &mut |_, size| on_moved(size));
            if let Some(chunk) = self.chunks.get_mut(index) {
                chunk.next_path = to;
            }
        }
    }
}
