//! Two engines, and anything at any time.

use crate::chunks::Chunk;
use crate::lists::{Few, Many};
use crate::pair::{Call, Icmp, Pair, Setup, Source};
use arbitrary::Arbitrary;
use std::time::Duration;

/// An arbitrary order of packets that arrive, are lost or made up, calls of users, ICMP messages
/// and time that passes.
#[derive(Arbitrary, Debug, Clone)]
pub struct Interleaving {
    setup: Setup,
    steps: Many<(bool, Step)>,
}

#[derive(Arbitrary, Debug, Clone)]
enum Step {
    /// So many packets arrive.
    Deliver(u8),
    /// A packet arrives before those that were sent earlier.
    DeliverLate(u8),
    /// One arrives, but seems to come from elsewhere.
    DeliverFrom(Source),
    /// One arrives, and will arrive again.
    DeliverTwice,
    Lose(u8),
    Inject(Source, Few<Chunk>),
    Icmp(Source, Icmp, Option<u32>),
    Call(Call),
    /// Milliseconds, squared.
    Pass(u8),
    /// Until somebody has something to do.
    PassToTimeout,
}

impl Interleaving {
    /// Plays it out.
    ///
    /// # Panics
    ///
    /// When an engine does what it must not.
    pub fn play(&self) {
        let mut pair = Pair::new(&self.setup);
        for (side, step) in self.steps.iter() {
            let side = usize::from(*side);
            match step {
                Step::Deliver(count) => (0..=*count % 16).for_each(|_| pair.deliver(side, 0)),
                Step::DeliverLate(which) => pair.deliver(side, (*which).into()),
                Step::DeliverFrom(from) => {
                    if let Some((_, packet)) = pair.wire[side].pop_front() {
                        let from = pair.source(side, *from);
                        pair.arrive(side, from, packet);
                    }
                }
                Step::DeliverTwice => {
                    if let Some((from, packet)) = pair.wire[side].front().cloned() {
                        pair.arrive(side, from, packet);
                    }
                }
                Step::Lose(count) => (0..=*count % 16).for_each(|_| {
                    pair.wire[side].pop_front();
                }),
                Step::Inject(from, chunks) => pair.inject(side, *from, chunks),
                Step::Icmp(about, says, tag) => pair.icmp(side, *about, *says, *tag),
                Step::Call(call) => pair.call(side, call),
                Step::Pass(steps) => pair.pass(Duration::from_millis(u64::from(*steps).pow(2))),
                Step::PassToTimeout => {
                    if let Some(next) = pair.next_timeout() {
                        let time = next.saturating_duration_since(pair.now);
                        pair.pass(time);
                    }
                }
            }
        }
        pair.end();
    }
}
