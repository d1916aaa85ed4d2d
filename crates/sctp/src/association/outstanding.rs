//! DATA chunks that were sent and are not acknowledged for good (RFC 9260 sections 6.2.1, 6.7 and
//! 7.2.4): a ring indexed by TSN.
//!
//! This part knows which chunk is in flight on which path, acknowledged, or lost. Of time it knows
//! only when each chunk was last sent, and nothing of windows or timers.

mod abandonment;
mod non_renegable;
mod routing;
mod transmissions;

use std::collections::VecDeque;
use std::time::Instant;

use super::gap_blocks::{OffsetRange, for_each_only_in, read_gaps, rebase};
use super::karn::Karn;
use super::loss::Loss;
use super::loss::gap_reports::{MissIndications, MissRule};
use super::message_fragment::MessageFragment;
use super::multipath::split_fast_retransmit::MissLimits;
use super::path_id::PathId;
use crate::packet::{GapAckBlock, Tsn};
use abandonment::LimitWatch;

pub(crate) use abandonment::{AbandonedMessage, SentMessage};

/// Where a chunk stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChunkState {
    InFlight,
    /// By a Gap Ack Block: the peer may still take it back (section 6.2).
    Acknowledged,
    /// By an NR Gap Ack Block: the peer does not take it back, so its user data is freed.
    NonRenegable,
    /// Marked for retransmission.
    Lost(Loss),
    /// It is not sent again, nor waited for (RFC 3758 section 3.4).
    Abandoned {
        /// It was in flight then, and nobody knows yet whether it was lost.
        in_flight: bool,
    },
}

#[derive(Debug)]
struct OutstandingChunk {
    fragment: MessageFragment,
    /// Where it was sent last.
    path: PathId,
    /// Where it is to be sent again, once it is lost.
    next_path: PathId,
    /// It was sent on more than one path: nobody knows which of them its acknowledgement proves.
    moved: bool,
    /// It was copied to other paths, too.
    copied: bool,
    /// When it was sent last, or came in flight again.
    sent: Instant,
    state: ChunkState,
    misses: MissIndications,
    /// The peer took its acknowledgement back, or so it seemed.
    reneged: bool,
    /// How often it was sent again.
    retransmissions: u32,
}

impl OutstandingChunk {
    /// One that goes out for the first time.
    fn new(now: Instant, tsn: Tsn, fragment: MessageFragment, path: PathId) -> OutstandingChunk {
        OutstandingChunk {
            fragment,
            path,
            next_path: path,
            moved: false,
            copied: false,
            sent: now,
            state: ChunkState::InFlight,
            misses: MissIndications::new(tsn),
            reneged: false,
            retransmissions: 0,
        }
    }

    /// Whether the peer may take back that it has it, or may not have it.
    fn is_renegable(&self) -> bool {
        !matches!(
            self.state,
            ChunkState::NonRenegable | ChunkState::Abandoned { .. }
        )
    }

    /// What there is to tell of it when a SACK newly acknowledges it, before its state changes.
    #[inline(always)]
    fn acknowledged(&self, tsn: Tsn, karn: &Karn) -> Acknowledged {
        Acknowledged {
            tsn,
            path: self.path,
            chunk_size: self.fragment.chunk_size(),
            in_flight: self.state == ChunkState::InFlight,
            lost: match self.state {
                ChunkState::Lost(loss) => Some(loss),
                _ => None,
            },
            moved: self.moved || self.copied,
            copied: self.copied,
            sent: self.sent,
            ambiguous: self.retransmissions > 0 || self.reneged || self.copied,
            measures: karn.is_unambiguous(tsn),
        }
    }
}

/// A chunk that a SACK newly acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    pub(crate) tsn: Tsn,
    /// Where it was sent last.
    pub(crate) path: PathId,
    /// With header and padding.
    pub(crate) chunk_size: usize,
    /// Whether it was counted in flight.
    pub(crate) in_flight: bool,
    /// Why it was to be sent again, if it was.
    pub(crate) lost: Option<Loss>,
    /// Whether it was sent, or copied, to more than one path.
    pub(crate) moved: bool,
    /// Whether a copy of it may be what arrived.
    pub(crate) copied: bool,
    /// When it was sent last.
    pub(crate) sent: Instant,
    /// Whether its acknowledgement may be that of an earlier transmission, or an earlier acknowledgement
    /// that comes again.
    pub(crate) ambiguous: bool,
    /// Whether its acknowledgement measures the round-trip time (section 6.3.1, rule C5).
    pub(crate) measures: bool,
}

/// What a SACK said in sum.
#[derive(Debug, Clone, Default)]
pub(crate) struct SackSummary {
    /// The cumulative TSN moved.
    pub(crate) advanced: bool,
    /// Something was acknowledged for the first time.
    pub(crate) newly_acknowledged: bool,
    /// The highest TSN that was.
    pub(crate) highest: Option<Tsn>,
    /// The peer has skipped what was abandoned.
    pub(crate) skipped: bool,
    /// It was overtaken by one that says more: it counts for nothing.
    pub(crate) overtaken: bool,
    /// Chunks were marked for fast retransmission; the path of the first one.
    pub(crate) fast_retransmit: Option<PathId>,
}

/// A SACK that no honest peer sends: it acknowledges what was never sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NeverSent;

/// The chunks from the one after the Cumulative TSN Ack Point to the last one sent.
#[derive(Debug)]
pub(crate) struct OutstandingData {
    /// The TSN of the first chunk of the ring.
    first: Tsn,
    chunks: VecDeque<OutstandingChunk>,
    /// What the last SACK acknowledged by Gap Ack Blocks: ascending, isolated.
    acknowledged: Vec<OffsetRange>,
    /// What the last NR-SACK acknowledged by NR Gap Ack Blocks: ascending, isolated.
    non_renegable: Vec<OffsetRange>,
    /// Room for the ranges of the next SACK, kept to be used again.
    scratch: Vec<OffsetRange>,
    /// TSNs marked for retransmission, ascending; some may have been acknowledged since.
    lost: VecDeque<Tsn>,
    lost_count: usize,
    karn: Karn,
    bytes: usize,
    bytes_in_flight: usize,
    limits: LimitWatch,
    /// How many chunks are abandoned.
    abandoned: usize,
    /// How many of them come before all others.
    leading_abandoned: usize,
}

impl OutstandingData {
    /// Nothing sent yet; the first chunk will have the TSN `initial`.
    pub(crate) fn new(initial: Tsn) -> OutstandingData {
        OutstandingData {
            first: initial,
            chunks: VecDeque::new(),
            acknowledged: Vec::new(),
            non_renegable: Vec::new(),
            scratch: Vec::new(),
            lost: VecDeque::new(),
            lost_count: 0,
            karn: Karn::default(),
            bytes: 0,
            bytes_in_flight: 0,
            limits: LimitWatch::default(),
            abandoned: 0,
            leading_abandoned: 0,
        }
    }

    /// The TSN that the next new chunk gets.
    pub(crate) fn next_tsn(&self) -> Tsn {
        self.first + self.chunks.len() as u32
    }

    /// The Cumulative TSN Ack Point.
    pub(crate) fn cumulative_ack_point(&self) -> Tsn {
        self.first.previous()
    }

    /// Whether everything sent was acknowledged for good.
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Whether a chunk of one of the streams that `matches` is not acknowledged for good.
    pub(crate) fn has_any(&self, matches: impl Fn(u16) -> bool) -> bool {
        let mut chunks = self.chunks.iter();
        chunks.any(|chunk| matches(chunk.fragment.stream))
    }

    /// How many chunks are not acknowledged for good.
    pub(crate) fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Bytes of user data that are not acknowledged for good.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of user data in flight: neither acknowledged nor marked for retransmission.
    pub(crate) fn bytes_in_flight(&self) -> usize {
        self.bytes_in_flight
    }

    /// Whether a chunk is authenticated with a shared key.
    pub(crate) fn uses_key(&self, key: u16) -> bool {
        self.chunks
            .iter()
            .any(|chunk| chunk.fragment.shared_key == Some(key))
    }

    /// Whether the last SACK acknowledged something by Gap Ack Blocks.
    pub(crate) fn has_gaps(&self) -> bool {
        !self.acknowledged.is_empty()
    }

    /// Whether chunks are marked for retransmission.
    pub(crate) fn has_lost(&self) -> bool {
        self.lost_count > 0
    }

    /// Whether the chunk `tsn` is the earliest one outstanding on `path` (section 6.1).
    pub(crate) fn is_earliest_on(&self, tsn: Tsn, path: PathId) -> bool {
        let before = tsn.distance_from(self.first) as usize;
        !self
            .chunks
            .iter()
            .take(before)
            .any(|chunk| chunk.path == path && chunk.state == ChunkState::InFlight)
    }

    /// Takes in a chunk that goes out for the first time, `now` and on `path`; gives its TSN.
    pub(crate) fn push(&mut self, now: Instant, fragment: MessageFragment, path: PathId) -> Tsn {
        let tsn = self.next_tsn();
        self.bytes += fragment.payload.len();
        self.bytes_in_flight += fragment.payload.len();
        self.chunks
            .push_back(OutstandingChunk::new(now, tsn, fragment, path));
        tsn
    }

    /// Takes out all chunks that are neither acknowledged for good nor abandoned. What Gap Ack Blocks
    /// acknowledged is among them, for it may never have come to the peer's user. The TSNs will be
    /// used again.
    pub(crate) fn take_all(&mut self) -> impl DoubleEndedIterator<Item = MessageFragment> + use<> {
        let before = std::mem::replace(self, OutstandingData::new(self.first));
        let chunks = before.chunks.into_iter();
        let left = chunks.filter(|chunk| chunk.is_renegable());
        left.map(|chunk| chunk.fragment)
    }

    /// The user data of the first outstanding chunk, in bytes.
    pub(crate) fn first_size(&self) -> Option<usize> {
        self.chunks
            .front()
            .map(|chunk| chunk.fragment.payload.len())
    }

    /// The user data of the chunk `tsn`, in bytes.
    pub(crate) fn size(&self, tsn: Tsn) -> Option<usize> {
        self.chunks
            .get(tsn.distance_from(self.first) as usize)
            .map(|chunk| chunk.fragment.payload.len())
    }

    /// What the last SACK acknowledged by Gap Ack Blocks, as blocks above `cumulative`.
    pub(crate) fn acknowledged_above(&self, cumulative: Tsn) -> Vec<GapAckBlock> {
        let advance = cumulative.distance_from(self.cumulative_ack_point());
        let mut ranges = self.acknowledged.clone();
        rebase(&mut ranges, advance);
        ranges
            .iter()
            .filter_map(|range| {
                Some(GapAckBlock {
                    start: u16::try_from(range.first + 1).ok()?,
                    end: u16::try_from(range.last + 1).ok()?,
                })
            })
            .collect()
    }

    /// The lowest TSN marked for retransmission, if the peer would have reported it.
    pub(crate) fn next_lost(&mut self) -> Option<(Tsn, &MessageFragment)> {
        while let Some(tsn) = self.lost.front().copied() {
            let index = tsn.distance_from(self.first) as usize;
            let is_lost = tsn >= self.first
                && self
                    .chunks
                    .get(index)
                    .is_some_and(|chunk| matches!(chunk.state, ChunkState::Lost(_)));
            if is_lost {
                let chunk = self.chunks.get(index).filter(|_| self.is_reported(tsn));
                return chunk.map(|chunk| (tsn, &chunk.fragment));
            }
            self.lost.pop_front();
        }
        None
    }

    /// The path on which the chunk that [`Self::next_lost`] gives is to be sent again.
    pub(crate) fn next_lost_path(&mut self) -> Option<PathId> {
        let (tsn, _) = self.next_lost()?;
        self.chunks
            .get(tsn.distance_from(self.first) as usize)
            .map(|chunk| chunk.next_path)
    }

    /// The earliest chunk that was sent last on each of these paths and is not acknowledged. One
    /// walk for all of them, which ends with the last one found.
    pub(crate) fn earliest_on_each(&self, mut paths: Vec<PathId>) -> Vec<(PathId, Tsn)> {
        let mut found = Vec::with_capacity(paths.len());
        for (offset, chunk) in self.chunks.iter().enumerate() {
            if paths.is_empty() {
                break;
            }
            if !matches!(chunk.state, ChunkState::InFlight | ChunkState::Lost(_)) {
                continue;
            }
            let path = chunk.path;
            if let Some(position) = paths.iter().position(|wanted| *wanted == path) {
                paths.swap_remove(position);
                found.push((path, self.first + offset as u32));
            }
        }
        found
    }

    /// Whether the chunk `tsn`, which was outstanding, is acknowledged: for good or not.
    pub(crate) fn is_acknowledged(&self, tsn: Tsn) -> bool {
        tsn < self.first
            || self
                .chunks
                .get(tsn.distance_from(self.first) as usize)
                .is_some_and(|chunk| {
                    matches!(
                        chunk.state,
                        ChunkState::Acknowledged | ChunkState::NonRenegable
                    )
                })
    }

    /// Where the chunk `tsn` was sent last.
    pub(crate) fn last_path(&self, tsn: Tsn) -> Option<PathId> {
        self.chunks
            .get(tsn.distance_from(self.first) as usize)
            .map(|chunk| chunk.path)
    }

    /// Has the chunks that were to be sent again on the path `from` sent on the path `to`.
    pub(crate) fn redirect_lost(&mut self, from: PathId, to: PathId) {
        if self.lost_count == 0 {
            return;
        }
        for chunk in &mut self.chunks {
            if matches!(chunk.state, ChunkState::Lost(_)) && chunk.next_path == from {
                chunk.next_path = to;
            }
        }
    }

    /// Notes that the chunk that [`Self::next_lost`] gave goes out again `now` on `path`; tells why it
    /// was lost.
    pub(crate) fn retransmit(&mut self, now: Instant, tsn: Tsn, path: PathId) -> Option<Loss> {
        let next_tsn = self.next_tsn();
        let index = tsn.distance_from(self.first) as usize;
        let chunk = self.chunks.get_mut(index)?;
        let ChunkState::Lost(loss) = chunk.state else {
            return None;
        };
        chunk.state = ChunkState::InFlight;
        chunk.moved |= chunk.path != path;
        chunk.path = path;
        chunk.sent = now;
        chunk.misses.retransmitted(next_tsn);
        chunk.retransmissions = chunk.retransmissions.saturating_add(1);
        self.bytes_in_flight += chunk.fragment.payload.len();
        self.lost_count -= 1;
        self.karn.retransmitted(tsn, next_tsn);
        if let Some(position) = self.lost.iter().position(|other| *other == tsn) {
            self.lost.remove(position);
        }
        Some(loss)
    }

    /// Marks everything in flight on `path` for retransmission on the path `next` (section 6.3.3);
    /// `on_lost` hears the size of each chunk.
    pub(crate) fn mark_lost_on(
        &mut self,
        path: PathId,
        next: PathId,
        mut on_lost: impl FnMut(usize),
    ) {
        for index in 0..self.chunks.len() {
            let in_flight = self
                .chunks
                .get(index)
                .is_some_and(|chunk| chunk.path == path && chunk.state == ChunkState::InFlight);
            if in_flight {
                self.mark_lost(index, Loss::Timeout, &mut |_, size| on_lost(size));
                if let Some(chunk) = self.chunks.get_mut(index) {
                    chunk.next_path = next;
                }
            }
        }
    }

    /// The path `from` is removed, and nothing goes there any more. What is in flight there is marked for retransmission on
    /// the path `to`. What a Gap Ack Block has acknowledged would be in flight there if the peer reneged
    /// on it.
    pub(crate) fn forget_path(&mut self, from: PathId, to: PathId) {
        self.mark_lost_on(from, to, |_| {});
        for chunk in &mut self.chunks {
            if chunk.next_path == from {
                chunk.next_path = to;
            }
            if chunk.path == from && chunk.state == ChunkState::Acknowledged {
                chunk.path = to;
                chunk.moved = true;
            }
        }
    }

    /// Takes in a SACK that comes `now` (sections 6.2.1 and 7.2.4). `on_acknowledged` hears each chunk that
    /// is newly acknowledged, `on_lost` path and size of each that is marked for fast retransmission.
    /// `on_reneged` hears path, size and TSN of each that is in flight again. Without `misses`, SACKs are no
    /// miss indications. `split` is given where several paths are in use, so that chunks, and SACKs, overtake
    /// each other: how many packets the SACK acknowledges.
    #[expect(clippy::too_many_arguments, reason = "three of them are what it tells")]
    pub(crate) fn handle_sack(
        &mut self,
        now: Instant,
        cumulative: Tsn,
        gaps: impl Iterator<Item = GapAckBlock>,
        misses: Option<MissRule>,
        split: Option<u8>,
        mut on_acknowledged: impl FnMut(&Acknowledged),
        mut on_lost: impl FnMut(PathId, usize),
        mut on_reneged: impl FnMut(PathId, usize, Tsn),
    ) -> Result<SackSummary, NeverSent> {
        let mut summary = SackSummary::default();
        let advance = cumulative.distance_from(self.cumulative_ack_point());
        if advance as usize > self.chunks.len() {
            return Err(NeverSent);
        }
        // Offsets, below, are from the chunk after the new Cumulative TSN Ack Point.
        let outstanding = self.chunks.len() as u32 - advance;
        let mut reported = std::mem::take(&mut self.scratch);
        let sound = read_gaps(gaps, outstanding, &mut reported);
        if !sound {
            self.scratch = reported;
            return Err(NeverSent);
        }

        // A peer that reneges says so again when it acknowledges anything new.
        if split.is_some() && advance == 0 && is_part_of(&reported, &self.acknowledged) {
            self.scratch = reported;
            summary.overtaken = true;
            return Ok(summary);
        }

        let next_tsn = self.next_tsn();
        let mut limits = MissLimits::new(split);
        summary.advanced = advance > 0;
        for _ in 0..advance {
            let Some(chunk) = self.chunks.front() else {
                break;
            };
            let tsn = self.first;
            let size = chunk.fragment.payload.len();
            self.bytes -= size;
            match chunk.state {
                ChunkState::Acknowledged | ChunkState::NonRenegable => {}
                ChunkState::Abandoned { .. } => {
                    self.abandoned -= 1;
                    summary.skipped = true;
                }
                ChunkState::InFlight | ChunkState::Lost(_) => {
                    let acknowledged = chunk.acknowledged(tsn, &self.karn);
                    if acknowledged.in_flight {
                        self.bytes_in_flight -= size;
                    } else {
                        self.lost_count -= 1;
                    }
                    summary.newly_acknowledged = true;
                    summary.highest = Some(tsn);
                    on_acknowledged(&acknowledged);
                }
            }
            self.chunks.pop_front();
            self.first = tsn.next();
        }
        self.karn.forget_below(self.first);
        rebase(&mut self.acknowledged, advance);
        rebase(&mut self.non_renegable, advance);

        let before = std::mem::take(&mut self.acknowledged);
        for_each_only_in(&reported, &before, |offset| {
            let tsn = self.first + offset;
            let Some(chunk) = self.chunks.get_mut(offset as usize) else {
                return;
            };
            if let ChunkState::Abandoned { in_flight } = &mut chunk.state {
                *in_flight = false;
                return;
            }
            if chunk.state == ChunkState::NonRenegable {
                return;
            }
            let acknowledged = chunk.acknowledged(tsn, &self.karn);
            if acknowledged.in_flight {
                self.bytes_in_flight -= chunk.fragment.payload.len();
            } else {
                self.lost_count -= 1;
            }
            chunk.state = ChunkState::Acknowledged;
            summary.newly_acknowledged = true;
            summary.highest = Some(tsn);
            limits.newly_acknowledged(chunk.path, offset, chunk.moved);
            on_acknowledged(&acknowledged);
        });
        let highest_reported = reported.last().map(|range| range.last);
        let first = self.first;
        if summary.advanced && misses.is_some_and(|rule| rule.in_fast_recovery) {
            limits.cumulative_advanced(highest_reported);
        }
        for_each_only_in(&before, &reported, |offset| {
            let chunk = self.chunks.get_mut(offset as usize);
            let Some(chunk) = chunk.filter(|chunk| chunk.is_renegable()) else {
                return;
            };
            // Acknowledged anew, without having been sent again, it would seem to have taken long.
            self.karn.retransmitted(first + offset, next_tsn);
            chunk.state = ChunkState::InFlight;
            // It may be that SACKs came in another order; if not, it has as long as any other chunk.
            chunk.sent = now;
            chunk.reneged = true;
            let limit = misses.and_then(|_| limits.on(chunk.path));
            let counts_below =
                limit.is_some_and(|limit| offset < limit && chunk.misses.counts(first + limit));
            chunk.misses.reneged(counts_below);
            self.bytes_in_flight += chunk.fragment.payload.len();
            on_reneged(chunk.path, chunk.fragment.chunk_size(), first + offset);
        });

        self.acknowledged = reported;
        self.scratch = before;
        self.scratch.clear();
        if let Some(rule) = misses {
            self.count_misses(rule, &limits, &mut summary, &mut on_lost);
        }
        if self.lost_count == 0 {
            self.lost.clear();
        }
        self.leading_abandoned = self.leading_abandoned.saturating_sub(advance as usize);
        if self.abandoned > 0 {
            self.advance_peer_ack_point();
        }
        Ok(summary)
    }

    /// Gives every chunk below its limit that is not acknowledged a miss indication.
    fn count_misses(
        &mut self,
        rule: MissRule,
        limits: &MissLimits,
        summary: &mut SackSummary,
        on_lost: &mut impl FnMut(PathId, usize),
    ) {
        let Some(highest) = limits.highest() else {
            return;
        };
        let mut offset = 0;
        let mut range = 0;
        while offset < highest {
            if let Some(acknowledged) = self.acknowledged.get(range)
                && offset >= acknowledged.first
            {
                offset = acknowledged.last + 1;
                range += 1;
                continue;
            }
            let index = offset as usize;
            offset += 1;
            let Some(chunk) = self.chunks.get_mut(index) else {
                break;
            };
            let may_be_lost = matches!(
                chunk.state,
                ChunkState::InFlight | ChunkState::Abandoned { in_flight: true }
            );
            let Some(limit) = limits
                .on(chunk.path)
                .filter(|limit| (index as u32) < *limit)
            else {
                continue;
            };
            let limit_tsn = self.first + limit;
            let mut indications = 0..limits.indications();
            if may_be_lost && indications.any(|_| chunk.misses.count(limit_tsn, rule)) {
                summary.fast_retransmit.get_or_insert(chunk.path);
                if chunk.is_abandoned() {
                    // It left the flight before; the window is to be reduced all the same (RFC 3758
                    // section 3.5, rule F5).
                    on_lost(chunk.path, 0);
                } else {
                    self.mark_lost(index, Loss::FastRetransmit, on_lost);
                }
            }
        }
    }

    /// Marks the chunk at `index`, which is in flight, for retransmission.
    fn mark_lost(&mut self, index: usize, loss: Loss, on_lost: &mut impl FnMut(PathId, usize)) {
        let Some(chunk) = self.chunks.get_mut(index) else {
            return;
        };
        chunk.state = ChunkState::Lost(loss);
        self.limits
            .chunk_lost(chunk.fragment.limit, chunk.retransmissions);
        // Fast retransmissions go where the chunk was sent before (section 6.4).
        chunk.next_path = chunk.path;
        self.bytes_in_flight -= chunk.fragment.payload.len();
        on_lost(chunk.path, chunk.fragment.chunk_size());
        let tsn = self.first + index as u32;
        self.lost_count += 1;
        let base = self.first;
        match self.lost.back() {
            Some(back) if tsn <= *back => {
                // Entries of acknowledged chunks may lie before `first`: they sort first.
                let position = self.lost.partition_point(|other| {
                    *other < base || other.distance_from(base) < tsn.distance_from(base)
                });
                if self.lost.get(position) != Some(&tsn) {
                    self.lost.insert(position, tsn);
                }
            }
            _ => self.lost.push_back(tsn),
        }
    }
}

/// Whether there is nothing in `these` but what is in `those`, and not all of it. Both are ascending and isolated.
fn is_part_of(these: &[OffsetRange], those: &[OffsetRange]) -> bool {
    let has_only_in = |these, those| {
        let mut any = false;
        for_each_only_in(these, those, |_| any = true);
        any
    };
    !has_only_in(these, those) && has_only_in(those, these)
}

#[cfg(test)]
mod tests;
