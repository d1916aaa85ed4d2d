//! Chunks by their last transmission, as detection of losses by time sees them (RFC 8985).

use std::time::Instant;

use super::{ChunkState, OutstandingData};
use crate::association::loss::Loss;
use crate::association::loss::rack_tlp::Transmission;
use crate::association::path_id::PathId;
use crate::packet::Tsn;

/// A SACK with so many Gap Ack Blocks may leave others out: Linux sends 16 at most (SCTP_MAX_GABS), others as many as fit
/// into a packet (RFC 9260 section 3.3.4).
const LEAST_FULL_REPORT: usize = 16;

impl OutstandingData {
    /// Whether the last SACK would report the chunk `tsn` if it had arrived. Beyond the last Gap Ack Block of many there may
    /// have been no room: chunks that left later being acknowledged says that it is no more in flight (RFC 8985 section 6),
    /// not that it is lost.
    pub(crate) fn is_reported(&self, tsn: Tsn) -> bool {
        let is_full = self.acknowledged.len() >= LEAST_FULL_REPORT;
        let last = self.acknowledged.last().filter(|_| is_full);
        last.is_none_or(|last| tsn <= self.first + last.last)
    }

    /// The last transmission of a chunk that left the flight when there may have been no room to report it, and its path.
    pub(crate) fn unreported(&self, tsn: Tsn) -> Option<(PathId, Transmission)> {
        let chunk = self.chunks.get(tsn.distance_from(self.first) as usize)?;
        let sent = chunk.sent;
        (chunk.state == ChunkState::Lost(Loss::Unreported))
            .then_some((chunk.path, Transmission { tsn, sent }))
    }

    /// Whether a transmission on `path` is the last one of its chunk, and neither acknowledged nor taken
    /// for lost.
    pub(crate) fn is_in_flight(&self, transmission: Transmission, path: PathId) -> bool {
        let Transmission { tsn, sent } = transmission;
        tsn >= self.first
            && self
                .chunks
                .get(tsn.distance_from(self.first) as usize)
                .is_some_and(|chunk| {
                    let may_be_lost = matches!(
                        chunk.state,
                        ChunkState::InFlight | ChunkState::Abandoned { in_flight: true }
                    );
                    may_be_lost && chunk.path == path && chunk.sent == sent
                })
    }

    /// Marks a chunk that is in flight for retransmission on the path `next`. Gives the bytes that leave
    /// the flight: none where its message was abandoned, for then they did before, and the window is to be
    /// reduced all the same (RFC 3758 section 3.5, rule F5).
    pub(crate) fn lose(&mut self, tsn: Tsn, loss: Loss, next: PathId) -> usize {
        let index = tsn.distance_from(self.first) as usize;
        let Some(chunk) = self.chunks.get_mut(index) else {
            return 0;
        };
        if let ChunkState::Abandoned { in_flight } = &mut chunk.state {
            *in_flight = false;
            return 0;
        }
        if chunk.state != ChunkState::InFlight {
            return 0;
        }
        let mut left = 0;
        self.mark_lost(index, loss, &mut |_, size| left = size);
        if let Some(chunk) = self.chunks.get_mut(index) {
            chunk.next_path = next;
        }
        left
    }

    /// Whether a chunk in flight may be sent once more, though it is not known to be lost, and its size
    /// with header and padding.
    pub(crate) fn may_be_repeated(&self, now: Instant, tsn: Tsn) -> Option<usize> {
        let chunk = self.chunks.get(tsn.distance_from(self.first) as usize)?;
        let is_allowed = chunk.state == ChunkState::InFlight
            && !chunk.fragment.limit.is_reached(now, chunk.retransmissions);
        is_allowed.then(|| chunk.fragment.chunk_size())
    }

    /// T3-rtx of `path` has expired for nothing: what is marked for retransmission because of it is in
    /// flight again. `on_restored` hears the size of each chunk.
    pub(crate) fn restore(
        &mut self,
        path: PathId,
        mut on_restored: impl FnMut(usize),
    ) -> Vec<Transmission> {
        let mut restored = Vec::new();
        for tsn in &self.lost {
            if *tsn < self.first {
                continue;
            }
            let index = tsn.distance_from(self.first) as usize;
            let Some(chunk) = self.chunks.get_mut(index) else {
                continue;
            };
            if chunk.path != path || chunk.state != ChunkState::Lost(Loss::Timeout) {
                continue;
            }
            chunk.state = ChunkState::InFlight;
            self.lost_count -= 1;
            self.bytes_in_flight += chunk.fragment.payload.len();
            on_restored(chunk.fragment.chunk_size());
            restored.push(Transmission {
                tsn: *tsn,
                sent: chunk.sent,
            });
        }
        if self.lost_count == 0 {
            self.lost.clear();
        }
        restored
    }

    /// When the earliest chunk in flight on `path` was sent, by TSN.
    pub(crate) fn earliest_sent(&self, path: PathId) -> Option<Instant> {
        let mut offset = 0;
        let mut acknowledged = self.acknowledged.iter().peekable();
        loop {
            while let Some(range) = acknowledged.next_if(|range| range.first <= offset) {
                offset = offset.max(range.last + 1);
            }
            let chunk = self.chunks.get(offset as usize)?;
            if chunk.path == path && chunk.state == ChunkState::InFlight {
                return Some(chunk.sent);
            }
            offset += 1;
        }
    }
}
