//! What client and server transactions have in common.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::timers::Timers;
use super::{TransactionConfig, TransactionEvent, TransactionStatistics};
use crate::hop_by_hop::write_follower_fields;
use crate::{Message, Transmit};

/// The timers and the ways out.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) config: TransactionConfig,
    pub(super) timers: Timers,
    pub(super) transmits: VecDeque<Transmit>,
    pub(super) events: VecDeque<TransactionEvent>,
    pub(super) statistics: TransactionStatistics,
    /// The length of all messages that are kept.
    kept_octets: usize,
    /// Where the next messages are written that end together.
    chunk: BytesMut,
    /// Where something is written whose length is not known yet.
    draft: Vec<u8>,
}

/// How many octets of messages share a piece of memory.
const CHUNK_OCTETS: usize = 32 << 10;

impl Common {
    pub(super) fn new(config: TransactionConfig) -> Common {
        Common {
            config: config.bounded(),
            timers: Timers::default(),
            transmits: VecDeque::new(),
            events: VecDeque::new(),
            statistics: TransactionStatistics::default(),
            kept_octets: 0,
            chunk: BytesMut::new(),
            draft: Vec::new(),
        }
    }

    /// Whether a transaction may begin that keeps a message of this length, besides so many others.
    pub(super) fn has_room(&self, transactions: usize, octets: usize) -> bool {
        transactions < self.config.max_transactions && self.has_octets(octets)
    }

    /// Whether a message of this length may be kept.
    pub(super) fn has_octets(&self, octets: usize) -> bool {
        self.kept_octets.saturating_add(octets) <= self.config.max_octets
    }

    /// Lets a transaction keep a message in place of another.
    pub(super) fn keep(&mut self, place: &mut Bytes, message: Bytes) {
        self.kept_octets = self.kept_octets + message.len() - place.len();
        *place = message;
    }

    /// Writes a message that is kept for a time that is the same for all: each lies behind the one before,
    /// and their memory goes when the last of them does.
    pub(super) fn write_in_turn(&mut self, message: &Message) -> Bytes {
        let length = message.wire_length();
        if self.chunk.capacity() < length {
            self.chunk = BytesMut::with_capacity(CHUNK_OCTETS.max(length));
        }
        message.write_to(&mut self.chunk);
        self.chunk.split().freeze()
    }

    /// The fields of a request that its CANCEL and ACK copy; `None` where it is no request.
    pub(super) fn follower_fields(&mut self, request: &[u8]) -> Option<Bytes> {
        write_follower_fields(&mut self.draft, request).then(|| Bytes::copy_from_slice(&self.draft))
    }

    /// The length of all messages that are kept.
    pub(super) fn kept_octets(&self) -> usize {
        self.kept_octets
    }
}
