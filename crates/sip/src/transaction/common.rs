//! What client and server transactions have in common.

use std::collections::VecDeque;

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
}

impl Common {
    pub(super) fn new(config: TransactionConfig) -> Common {
        Common {
            config: config.bounded(),
            timers: Timers::default(),
            transmits: VecDeque::new(),
            events: VecDeque::new(),
            statistics: TransactionStatistics::default(),
        }
    }
}
