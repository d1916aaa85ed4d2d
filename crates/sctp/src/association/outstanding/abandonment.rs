//! Messages that are given up although some of their chunks were sent (RFC 3758 sections 3.4 and 3.5):
//! their chunks count as acknowledged, and the peer is told to wait for them no more.

use std::collections::BTreeMap;
use std::time::Instant;

use bytes::Bytes;

use super::{ChunkState, OutstandingChunk, OutstandingData};
use crate::association::limit::Limit;
use crate::association::message_fragment::MessageFragment;
use crate::association::path_id::PathId;
use crate::packet::{SkippedMid, Tsn};

/// A message some of whose chunks were sent, and which was abandoned.
#[derive(Debug)]
pub(crate) struct AbandonedMessage {
    /// What is known of it, without user data.
    pub(crate) message: MessageFragment,
    /// Its user data, as far as it was sent and is not acknowledged for good.
    pub(crate) parts: Vec<Bytes>,
    /// Its last chunk was sent, too.
    pub(crate) ended: bool,
}

/// A message some of whose chunks are outstanding, and which gives way to another one.
#[derive(Debug)]
pub(crate) struct SentMessage {
    /// A chunk of it.
    pub(crate) fragment: MessageFragment,
    /// Where that is.
    pub(crate) index: usize,
    pub(crate) priority: u32,
    /// Bytes of user data that this sets free.
    pub(crate) bytes: usize,
    /// All of it that is outstanding has arrived.
    arrived: bool,
}

/// What is to be looked at again because its limit may be reached.
#[derive(Debug, Default)]
pub(super) struct LimitWatch {
    /// A chunk was lost once more than it may be sent again.
    exhausted: bool,
    /// The earliest time at which a lost chunk expires, or an earlier one.
    expires: Option<Instant>,
}

impl LimitWatch {
    /// A chunk is marked for retransmission.
    pub(super) fn chunk_lost(&mut self, limit: Limit, retransmissions: u32) {
        match limit {
            Limit::None | Limit::Priority(_) => {}
            Limit::Until(end) => {
                self.expires = Some(self.expires.map_or(end, |earliest| earliest.min(end)));
            }
            Limit::Retransmissions(most) => self.exhausted |= retransmissions >= most,
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        self.exhausted || self.expires.is_some_and(|expires| expires <= now)
    }
}

impl OutstandingData {
    /// The Advanced.Peer.Ack.Point (rules A1, C1 and C2): beyond the Cumulative TSN Ack Point where
    /// the chunks right after that are abandoned.
    pub(crate) fn advanced_peer_ack_point(&self) -> Tsn {
        self.cumulative_ack_point() + self.leading_abandoned as u32
    }

    /// Whether a chunk may be among those to be sent again which is not to be.
    #[inline]
    pub(crate) fn is_beyond_limits(&self, now: Instant) -> bool {
        self.limits.is_due(now)
    }

    /// Abandons the messages that have a chunk to be sent again which may not be; `on_left_flight`
    /// hears path and size of each chunk that was in flight.
    pub(crate) fn abandon_beyond_limits(
        &mut self,
        now: Instant,
        mut on_left_flight: impl FnMut(PathId, usize),
    ) -> Vec<AbandonedMessage> {
        if !self.limits.is_due(now) {
            return Vec::new();
        }
        self.limits = LimitWatch::default();
        let mut abandoned = Vec::new();
        for tsn in self.lost.clone() {
            let index = tsn.distance_from(self.first) as usize;
            let Some(chunk) = self.chunks.get(index) else {
                continue;
            };
            let (limit, retransmissions) = (chunk.fragment.limit, chunk.retransmissions);
            if !matches!(chunk.state, ChunkState::Lost(_)) {
                continue;
            }
            if limit.is_reached(now, retransmissions) {
                abandoned.extend(self.abandon(index, &mut on_left_flight));
            } else {
                self.limits.chunk_lost(limit, retransmissions);
            }
        }
        abandoned
    }

    /// The outstanding messages that give way to one of the limit `other`, oldest first.
    pub(crate) fn giving_way_to(&self, other: Limit) -> Vec<SentMessage> {
        let mut found: Vec<SentMessage> = Vec::new();
        for (index, chunk) in self.chunks.iter().enumerate() {
            let fragment = &chunk.fragment;
            let Limit::Priority(priority) = fragment.limit else {
                continue;
            };
            if !fragment.limit.gives_way_to(other) || chunk.is_abandoned() {
                continue;
            }
            // Fragments of other messages may lie between those of one, but few messages are open at a
            // time.
            let before = found
                .iter_mut()
                .rev()
                .filter(|_| !fragment.beginning)
                .find(|before| before.fragment.is_of_same_message(fragment));
            let arrived = matches!(
                chunk.state,
                ChunkState::Acknowledged | ChunkState::NonRenegable
            );
            match before {
                Some(message) => {
                    message.bytes += fragment.payload.len();
                    message.arrived &= arrived;
                }
                None => found.push(SentMessage {
                    fragment: fragment.clone(),
                    index,
                    priority,
                    bytes: fragment.payload.len(),
                    arrived,
                }),
            }
        }
        // What has arrived is going to be acknowledged for good soon.
        found.retain(|message| !message.arrived);
        found
    }

    /// Abandons the message of the chunk at `index`, whole (rule A3).
    pub(crate) fn abandon(
        &mut self,
        index: usize,
        mut on_left_flight: impl FnMut(PathId, usize),
    ) -> Option<AbandonedMessage> {
        let chunk = self
            .chunks
            .get(index)
            .filter(|chunk| !chunk.is_abandoned())?;
        let message = MessageFragment {
            payload: Bytes::new(),
            ..chunk.fragment.clone()
        };
        let first = (0..=index).rev().find(|index| {
            self.is_chunk_of(*index, &message)
                && self
                    .chunks
                    .get(*index)
                    .is_some_and(|chunk| chunk.fragment.beginning)
        });
        let mut abandoned = AbandonedMessage {
            message,
            parts: Vec::new(),
            ended: false,
        };
        // Where its first chunk is acknowledged for good, the message reaches down to there.
        for index in first.unwrap_or(0)..self.chunks.len() {
            if !self.is_chunk_of(index, &abandoned.message) {
                continue;
            }
            let Some(chunk) = self.chunks.get_mut(index) else {
                break;
            };
            let chunk_size = chunk.fragment.chunk_size();
            let payload = std::mem::take(&mut chunk.fragment.payload);
            let size = payload.len();
            let before = chunk.state;
            let in_flight = before == ChunkState::InFlight;
            chunk.state = ChunkState::Abandoned { in_flight };
            match before {
                ChunkState::InFlight => {
                    self.bytes_in_flight -= size;
                    on_left_flight(chunk.path, chunk_size);
                }
                ChunkState::Lost(_) => self.lost_count -= 1,
                ChunkState::Acknowledged
                | ChunkState::NonRenegable
                | ChunkState::Abandoned { .. } => {}
            }
            self.bytes -= size;
            self.abandoned += 1;
            if size > 0 {
                abandoned.parts.push(payload);
            }
            if chunk.fragment.ending {
                abandoned.ended = true;
                break;
            }
        }
        if self.lost_count == 0 {
            self.lost.clear();
        }
        self.advance_peer_ack_point();
        Some(abandoned)
    }

    /// Abandons what was never sent of a message that had begun to leave: `rest` gets a TSN that no
    /// chunk will have. Else the peer would never hear that it is over, where everything sent of it
    /// is acknowledged, and would take the next message for the rest of it.
    pub(crate) fn abandon_rest(&mut self, now: Instant, rest: MessageFragment, path: PathId) {
        let mut chunk = OutstandingChunk::new(now, self.next_tsn(), rest, path);
        chunk.state = ChunkState::Abandoned { in_flight: false };
        self.chunks.push_back(chunk);
        self.abandoned += 1;
        self.advance_peer_ack_point();
    }

    /// The chunk of the message of `fragment` that was sent last, if any is outstanding.
    pub(crate) fn last_chunk_of(&self, fragment: &MessageFragment) -> Option<usize> {
        (0..self.chunks.len())
            .rev()
            .find(|index| self.is_chunk_of(*index, fragment))
    }

    /// What a FORWARD-TSN tells (rules C3 and C4) that has room for so many streams, or, if `interleaved`,
    /// an I-FORWARD-TSN, which names unordered messages, too (RFC 8260 section 2.3.1): the new cumulative
    /// TSN, and the last message skipped on each stream. The former is lowered to what fits.
    pub(crate) fn skipped(&self, most: usize, interleaved: bool) -> (Tsn, Vec<SkippedMid>) {
        let mut highest = BTreeMap::new();
        let mut point = self.cumulative_ack_point();
        for chunk in self.chunks.iter().take(self.leading_abandoned) {
            let fragment = &chunk.fragment;
            if interleaved || !fragment.unordered {
                let order = (fragment.stream, fragment.unordered);
                if highest.len() >= most && !highest.contains_key(&order) {
                    break;
                }
                // Numbers are given in the order of TSNs.
                highest.insert(order, fragment.mid);
            }
            point = point.next();
        }
        let skipped = highest
            .into_iter()
            .map(|((stream, unordered), mid)| SkippedMid {
                stream,
                unordered,
                mid,
            })
            .collect();
        (point, skipped)
    }

    /// Moves the Advanced.Peer.Ack.Point on over what is abandoned (rule C2).
    pub(super) fn advance_peer_ack_point(&mut self) {
        while self
            .chunks
            .get(self.leading_abandoned)
            .is_some_and(OutstandingChunk::is_abandoned)
        {
            self.leading_abandoned += 1;
        }
    }

    fn is_chunk_of(&self, index: usize, message: &MessageFragment) -> bool {
        self.chunks
            .get(index)
            .is_some_and(|chunk| chunk.fragment.is_of_same_message(message))
    }
}

impl OutstandingChunk {
    pub(super) fn is_abandoned(&self) -> bool {
        matches!(self.state, ChunkState::Abandoned { .. })
    }
}
