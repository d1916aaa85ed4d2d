//! What a class of packets meets once it has left the queue.

use crate::corruption::Spoiler;
use crate::duplication::Duplication;
use crate::jitter::Delays;
use crate::loss::Losses;
use crate::order::Order;
use crate::reordering::Reorderer;
use crate::{Alteration, LinkConfig, LinkStatistics};
use rand_chacha::ChaCha12Rng;

/// The parts behind the queue, in the order in which they act. Times are nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// Number of the next packet, counted from 0.
    number: u64,
    loss: Losses,
    duplication: Duplication,
    corruption: Spoiler,
    delays: Delays,
    reordering: Reorderer,
    order: Order,
    pub(crate) statistics: LinkStatistics,
}

/// What is in store for a packet, should it leave the queue.
pub(crate) struct Fate {
    is_lost: bool,
    is_duplicated: bool,
    goes_ahead: bool,
    alterations: [Option<Alteration>; 2],
    delays: [u64; 2],
}

/// One arrival.
pub(crate) struct Arrival {
    pub(crate) at: u64,
    pub(crate) alteration: Option<Alteration>,
}

impl Line {
    pub(crate) fn new(config: &LinkConfig, rng: &mut ChaCha12Rng) -> Line {
        // A new part draws its generator after all others, lest the fates change that a seed stands
        // for.
        Line {
            number: 0,
            loss: Losses::new(config.loss.clone(), rng),
            duplication: Duplication::new(config.duplicate, rng),
            delays: Delays::new(config.delay, &config.jitter, rng),
            corruption: Spoiler::new(config.corrupt, rng),
            reordering: Reorderer::new(config.reorder, rng),
            order: Order::new(config.jitter.reorders),
            statistics: LinkStatistics::default(),
        }
    }

    /// Treats packets otherwise from now on.
    pub(crate) fn set(&mut self, config: &LinkConfig) {
        self.loss.set(config.loss.clone());
        self.duplication.set(config.duplicate);
        self.corruption.set(config.corrupt);
        self.delays.set(config.delay, &config.jitter);
        self.reordering.set(config.reorder);
        self.order.set_overtaking_allowed(config.jitter.reorders);
    }

    /// What is in store for the next packet. Each packet has a fate, also one that the queue drops.
    #[inline]
    pub(crate) fn next_fate(&mut self) -> Fate {
        let number = self.number;
        self.number = number.wrapping_add(1);
        let delays = if self.delays.is_constant() {
            [self.delays.fixed(); 2]
        } else {
            self.delays.delays(number)
        };
        Fate {
            is_lost: !self.loss.is_off() && self.loss.loses(number),
            is_duplicated: !self.duplication.is_off() && self.duplication.duplicates(number),
            goes_ahead: !self.reordering.is_off() && self.reordering.goes_ahead(number),
            alterations: if self.corruption.is_off() {
                [None; 2]
            } else {
                self.corruption.alterations(number)
            },
            delays,
        }
    }

    /// When a packet of that fate arrives that left the queue then; `None` when it is lost.
    #[inline]
    pub(crate) fn carry(&mut self, fate: &Fate, left: u64) -> Option<(Arrival, Option<Arrival>)> {
        if fate.is_lost {
            return None;
        }
        let mut arrive = |copy: usize| Arrival {
            at: if fate.goes_ahead {
                left
            } else {
                self.order.arrival(left.saturating_add(fate.delays[copy]))
            },
            alteration: fate.alterations[copy],
        };
        let first = arrive(0);
        let second = fate.is_duplicated.then(|| arrive(1));
        self.statistics.duplicated_packets += u64::from(fate.is_duplicated);
        self.statistics.reordered_packets += u64::from(fate.goes_ahead);
        Some((first, second))
    }
}
