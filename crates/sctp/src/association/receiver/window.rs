//! The room for received data: the window to advertise, and what is given up for data that fills holes
//! (RFC 9260 section 6.2).

use super::{FullBuffer, Receiver};
use crate::AssociationConfig;
use crate::association::received_tsns::TsnRange;
use crate::packet::Tsn;

impl Receiver {
    /// Throws away what is held above the cumulative TSN for want of what is missing below it, and
    /// takes back that it was received (section 6.2): the peer still has it and sends it again.
    /// Tells how many chunks that were.
    pub(crate) fn renege(&mut self) -> u64 {
        let chunks = self.renege_above(self.tsns.cumulative());
        self.out_of_order = 0;
        chunks
    }

    /// The same for what lies above `limit`, which is not below the cumulative TSN.
    fn renege_above(&mut self, limit: Tsn) -> u64 {
        let mut forgotten = Vec::new();
        let mut bytes = 0;
        let mut on_removed = |tsns: TsnRange, size| {
            forgotten.push(tsns);
            bytes += size;
        };
        self.streams.renege(limit, &mut on_removed);
        self.reassembly.renege(limit, &mut on_removed);
        let chunks = forgotten
            .iter()
            .map(|run| u64::from(run.last.distance_from(run.first)) + 1)
            .sum();
        self.tsns.forget(forgotten);
        self.buffered -= bytes;
        if chunks > 0 {
            self.acknowledgement.request();
        }
        chunks
    }

    /// How many more bytes this association may hold where the endpoint may hold `budget` more: no
    /// fewer than what it is guaranteed, whatever others hold.
    fn share(&self, budget: usize, config: &AssociationConfig) -> usize {
        let guaranteed = config
            .guaranteed_receive_bytes
            .saturating_sub(self.buffered);
        budget.max(guaranteed)
    }

    /// The window to advertise. Its end never moves back, for the peer may be sending into it, unless
    /// others have taken the room; and it moves on only by enough to be worth telling: into slivers
    /// the peer would send chunks as small (the silly window syndrome, section 6.2, RFC 1122
    /// section 4.2.3.3). But when the user has nothing to receive, a sliver is all that there will
    /// be, and what is missing of a message may have to go into it.
    #[inline]
    pub(super) fn window(&self, budget: usize, config: &AssociationConfig) -> usize {
        let size = config.a_rwnd as usize;
        let room = size
            .saturating_sub(self.buffered)
            .min(self.share(budget, config));
        let sliver = least_window(config);
        if self.held() >= config.max_received_messages {
            0
        } else if room >= self.promised + sliver || !self.streams.is_ready() {
            room
        } else {
            self.promised.min(room)
        }
    }

    /// Finds room for a chunk of `size` bytes with a new TSN, if it may be kept (section 6.2).
    ///
    /// One above all others is dropped when the window is 0, and no larger one could be told. What
    /// fills a hole was promised room when the window was told, and without it nothing could be
    /// delivered: it may exceed the window once over before the largest TSNs held are dropped in
    /// its favour, because the peer has to send these again.
    pub(super) fn find_room_for(
        &mut self,
        tsn: Tsn,
        size: usize,
        budget: usize,
        config: &AssociationConfig,
    ) -> Result<(), FullBuffer> {
        let a_rwnd = config.a_rwnd as usize;
        if tsn > self.tsns.highest() && self.window(budget, config) == 0 {
            let is_full = self.buffered >= a_rwnd || self.held() >= config.max_received_messages;
            return Err(if is_full {
                FullBuffer::Association
            } else {
                FullBuffer::Endpoint
            });
        }
        if size > self.share(budget, config) {
            return Err(FullBuffer::Endpoint);
        }
        while tsn < self.tsns.highest() && self.buffered >= a_rwnd.saturating_mul(2) {
            if !self.renege_largest() {
                return Err(FullBuffer::Association);
            }
        }
        Ok(())
    }

    /// Throws away the messages, or runs of fragments, with the largest TSNs that can be taken back:
    /// a small part of them at a time, for finding them means to look at all of them, and a peer
    /// could ask for that with each small chunk.
    fn renege_largest(&mut self) -> bool {
        const PART: usize = 16;
        let cumulative = self.tsns.cumulative();
        let mut offsets = self.reassembly.offsets_above(cumulative);
        let waiting = self.streams.lowest_waiting_tsns();
        offsets.extend(
            waiting
                .filter(|tsn| *tsn > cumulative)
                .map(|tsn| tsn.distance_from(cumulative)),
        );
        let rank = offsets.len() / PART;
        if offsets.is_empty() {
            return false;
        }
        let (_, offset, _) = offsets.select_nth_unstable_by(rank, |one, other| other.cmp(one));
        let limit = cumulative + (*offset - 1);
        let chunks = self.renege_above(limit);
        self.reneged += chunks;
        chunks > 0
    }
}

/// A window smaller than this is not worth telling: no full packet fits into it.
pub(super) fn least_window(config: &AssociationConfig) -> usize {
    (config.a_rwnd as usize / 4).min(config.path.mtu)
}
