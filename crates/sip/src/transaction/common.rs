//! What client and server transactions have in common.

use std::collections::VecDeque;

use bytes::Bytes;

use super::timers::Timers;
use super::{TransactionConfig, TransactionEvent, TransactionStatistics};
use crate::Transmit;

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
}

impl Common {
    pub(super) fn new(config: TransactionConfig) -> Common {
        Common {
            config: config.bounded(),
            timers: Timers::default(),
            transmits: VecDeque::new(),
            events: VecDeque::new(),
            statistics: TransactionStatistics::default(),
            kept_octets: 0,
        }
    }

    /// Whether a transaction may begin that keeps a message of this length, besides so many others.
    /// One that may not is counted.
    pub(super) fn has_room(&mut self, transactions: usize, octets: usize) -> bool {
        let has_room = transactions < self.config.max_transactions
            && self.kept_octets.saturating_add(octets) <= self.config.max_octets;
        if !has_room {
            self.statistics.overloaded += 1;
        }
        has_room
    }

    /// Lets a transaction keep a message in place of another.
    pub(super) fn keep(&mut self, place: &mut Bytes, message: Bytes) {
        self.kept_octets = self.kept_octets + message.len() - place.len();
        *place = message;
    }

    /// The length of all messages that are kept.
    pub(super) fn kept_octets(&self) -> usize {
        self.kept_octets
    }
}
