//! Core: what a network link does to packets.
//!
//! A [`Link`] is one direction of a link. It sees sizes and times, never contents, and answers each
//! packet with a [`Verdict`]: when it arrives, if it does, and how often. It holds no packet and
//! reads no clock, so the same model serves sockets and simulations.
//!
//! Every impairment is a part of its own, with random numbers of its own. They act in this order:
//!
//! 1. a link that is down takes nothing,
//! 2. queue and rate: what finds no room is dropped, the rest leaves in its turn,
//! 3. loss of what has left,
//! 4. duplication of what is not lost,
//! 5. delay with jitter, for each copy by itself,
//! 6. order: unless reordering is allowed, no copy arrives before one that was sent earlier.
//!
//! Each part draws the same number of random numbers for every packet. So the seed and the number
//! of a packet alone fix its fate: whether it is lost or duplicated and how much jitter it meets,
//! whatever the sizes and times are, and whichever other parts are switched on.
#![forbid(unsafe_code)]

mod bottleneck;
mod delay;
mod duplication;
mod loss;
mod order;
mod random;
mod statistics;
mod verdict;

pub use bottleneck::Bottleneck;
pub use statistics::LinkStatistics;
pub use verdict::{DropCause, Verdict};

use bottleneck::Queue;
use delay::Delay;
use duplication::Duplication;
use loss::Loss;
use order::Order;
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use std::time::{Duration, Instant};

/// How a link treats packets. The default is a perfect link: everything arrives at once.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct LinkConfig {
    /// How much the link carries a second; `None` when that is without limit.
    pub bottleneck: Option<Bottleneck>,
    /// Probability that a packet is lost, independent of all others, from 0 to 1.
    pub loss: f64,
    /// Time that every packet takes, once it has left.
    pub delay: Duration,
    /// Largest deviation from the delay, uniformly distributed in both directions. A packet never
    /// arrives before it was sent, so a jitter above the delay makes many arrive at once.
    pub jitter: Duration,
    /// Whether jitter may let a packet overtake another one.
    pub reorder: bool,
    /// Probability that a packet that is not lost arrives twice, from 0 to 1.
    pub duplicate: f64,
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct Link {
    is_up: bool,
    bottleneck: Option<Bottleneck>,
    queue: Queue,
    loss: Loss,
    duplication: Duplication,
    delay: Delay,
    order: Order,
    statistics: LinkStatistics,
}

impl Link {
    /// A link that is up and takes all its randomness from `rng`. Probabilities outside 0 to 1
    /// count as the nearer end of that range, and what is no number as 0.
    pub fn new(config: LinkConfig, mut rng: ChaCha12Rng) -> Link {
        // A new part draws its generator after all others, lest the fates change that a seed stands
        // for.
        let mut generator = || ChaCha12Rng::from_rng(&mut rng);
        Link {
            is_up: true,
            bottleneck: config.bottleneck,
            queue: Queue::default(),
            loss: Loss::new(config.loss, generator()),
            duplication: Duplication::new(config.duplicate, generator()),
            delay: Delay::new(config.delay, config.jitter, generator()),
            order: Order::new(config.reorder),
            statistics: LinkStatistics::default(),
        }
    }

    /// Says what becomes of a packet of `bytes` bytes that is sent `now`, which must not be before
    /// the time of the packet before.
    pub fn offer(&mut self, now: Instant, bytes: usize) -> Verdict {
        let lost = self.loss.next_is_lost();
        let duplicated = self.duplication.next_is_duplicated();
        let [delay, delay_of_copy] = self.delay.next_pair();
        let verdict = match self.leave(now, bytes) {
            Err(cause) => Verdict::dropped(cause),
            Ok(_) if lost => Verdict::dropped(DropCause::Lost),
            Ok(left) => {
                let first = self.order.arrival(left, delay);
                let second = duplicated.then(|| self.order.arrival(left, delay_of_copy));
                Verdict::delivered(first, second)
            }
        };
        self.statistics.count(&verdict, bytes);
        verdict
    }

    /// Treats packets otherwise from now on. The fates that the seed stands for go on where they
    /// are, and what waits in the queue leaves when that was said.
    pub fn set_config(&mut self, config: LinkConfig) {
        self.bottleneck = config.bottleneck;
        self.loss.set_probability(config.loss);
        self.duplication.set_probability(config.duplicate);
        self.delay.set(config.delay, config.jitter);
        self.order.set_overtaking_allowed(config.reorder);
    }

    /// Takes the link down, so that it drops what is offered, or brings it up again. What was
    /// offered before is on its way.
    pub fn set_up(&mut self, up: bool) {
        self.is_up = up;
    }

    /// Whether the link is up.
    pub fn is_up(&self) -> bool {
        self.is_up
    }

    /// What the link has done so far.
    pub fn statistics(&self) -> &LinkStatistics {
        &self.statistics
    }

    /// When a packet has left this end of the link.
    fn leave(&mut self, now: Instant, bytes: usize) -> Result<Instant, DropCause> {
        if !self.is_up {
            return Err(DropCause::Down);
        }
        match &self.bottleneck {
            None => Ok(now),
            Some(bottleneck) => self
                .queue
                .pass(bottleneck, now, bytes)
                .ok_or(DropCause::QueueFull),
        }
    }
}
