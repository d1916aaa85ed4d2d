//! A bad network inside the socket: a link each way, and the datagrams on their way over it.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use link::{Link, LinkConfig};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;

use crate::batch::Received;
use crate::delay::DelayQueue;
use crate::socket::Datagram;
use crate::statistics::Counters;

/// What the network does to datagrams, in each direction. The seed fixes the fate of the n-th
/// datagram of a direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Impairment {
    /// The link that outgoing datagrams cross.
    pub outbound: LinkConfig,
    /// The link that incoming datagrams cross.
    pub inbound: LinkConfig,
    /// Where the randomness of both comes from; each draws a sequence of its own from it.
    pub seed: u64,
}

/// How many datagrams can be on their way in one direction.
const MAX_DELAYED_DATAGRAMS: usize = 1 << 16;
/// How many bytes can be on their way in one direction.
const MAX_DELAYED_BYTES: usize = 64 << 20;

/// The two links of a socket. The mutexes are held for the length of a call on a link, never
/// while waiting or sending.
#[derive(Debug)]
pub(crate) struct Impaired {
    outbound: Mutex<Direction<Datagram>>,
    inbound: Mutex<Direction<Received>>,
}

impl Impaired {
    pub(crate) fn new(impairment: Impairment) -> Self {
        Self {
            outbound: Mutex::new(Direction::new(impairment.outbound, impairment.seed, 0)),
            inbound: Mutex::new(Direction::new(impairment.inbound, impairment.seed, 1)),
        }
    }

    /// Offers a datagram of `bytes` on the wire to the outbound link. What arrives at once goes
    /// to `ready`. True when the next release is earlier than before.
    pub(crate) fn offer_outbound(
        &self,
        now: Instant,
        datagram: Datagram,
        bytes: u64,
        counters: &Counters,
        ready: &mut VecDeque<Datagram>,
    ) -> bool {
        let mut direction = lock(&self.outbound);
        let due_before = direction.delayed.next_due();
        if direction.offer(now, datagram, bytes, counters, ready) == Fate::Lost {
            counters.outbound_dropped();
        }
        let due = direction.delayed.next_due();
        due.is_some() && (due_before.is_none() || due < due_before)
    }

    /// Offers a datagram of `bytes` on the wire to the inbound link. What arrives at once goes to
    /// `ready`.
    pub(crate) fn offer_inbound(
        &self,
        now: Instant,
        datagram: Received,
        bytes: u64,
        counters: &Counters,
        ready: &mut VecDeque<Received>,
    ) {
        if lock(&self.inbound).offer(now, datagram, bytes, counters, ready) == Fate::Lost {
            counters.inbound_dropped();
        }
    }

    /// Holds a datagram, which has crossed the link already, until `due`.
    pub(crate) fn hold_outbound(&self, due: Instant, datagram: Datagram, counters: &Counters) {
        let bytes = datagram.payload.len();
        if !lock(&self.outbound).delayed.push(due, bytes, datagram) {
            counters.delay_overflow();
        }
    }

    /// The next outgoing datagram that is due.
    pub(crate) fn due_outbound(&self, now: Instant) -> Option<Datagram> {
        lock(&self.outbound).delayed.pop_due(now)
    }

    /// The next incoming datagram that is due.
    pub(crate) fn due_inbound(&self, now: Instant) -> Option<Received> {
        lock(&self.inbound).delayed.pop_due(now)
    }

    /// When the next datagram is due, in either direction.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let inbound = lock(&self.inbound).delayed.next_due();
        self.next_due_outbound().into_iter().chain(inbound).min()
    }

    /// When the next outgoing datagram is due.
    pub(crate) fn next_due_outbound(&self) -> Option<Instant> {
        lock(&self.outbound).delayed.next_due()
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Lost,
    Carried,
}

#[derive(Debug)]
struct Direction<T> {
    link: Link,
    delayed: DelayQueue<T>,
}

impl<T: Clone> Direction<T> {
    fn new(config: LinkConfig, seed: u64, stream: u64) -> Self {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Self {
            link: Link::new(config, rng),
            delayed: DelayQueue::new(MAX_DELAYED_DATAGRAMS, MAX_DELAYED_BYTES),
        }
    }

    fn offer(
        &mut self,
        now: Instant,
        datagram: T,
        bytes: u64,
        counters: &Counters,
        ready: &mut VecDeque<T>,
    ) -> Fate {
        let bytes = bytes as usize;
        let verdict = self.link.offer(now, bytes);
        for due in verdict.deliveries() {
            if due <= now {
                ready.push_back(datagram.clone());
            } else if !self.delayed.push(due, bytes, datagram.clone()) {
                counters.delay_overflow();
            }
        }
        if verdict.is_dropped() {
            Fate::Lost
        } else {
            Fate::Carried
        }
    }
}

/// A panic elsewhere leaves a queue of datagrams as good as it was.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dropped(direction: &mut Direction<u32>) -> Vec<u32> {
        let counters = Counters::default();
        let mut ready = VecDeque::new();
        let now = Instant::now();
        (0..200)
            .filter(|&number| {
                direction.offer(now, number, 100, &counters, &mut ready) == Fate::Lost
            })
            .collect()
    }

    #[test]
    fn the_directions_lose_different_datagrams_of_one_seed() {
        let config = LinkConfig {
            loss: 0.3,
            ..LinkConfig::default()
        };
        let outbound = dropped(&mut Direction::new(config, 7, 0));
        let inbound = dropped(&mut Direction::new(config, 7, 1));
        assert_eq!(outbound, dropped(&mut Direction::new(config, 7, 0)));
        assert_ne!(outbound, inbound);
        assert_ne!(outbound, dropped(&mut Direction::new(config, 8, 0)));
    }
}
