//! A bad network inside the socket: a link each way, and the datagrams on their way over it.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use etherparse::checksum::Sum16BitWords;
use link::{Alteration, Link, LinkConfig};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;

use crate::batch::Received;
use crate::datagram::Datagram;
use crate::delay::DelayQueue;
use crate::statistics::Counters;

/// What the network does to datagrams, in each direction. The seed fixes the fate of the n-th
/// datagram of a direction.
///
/// A datagram whose bits flip is dropped, as the receiver's UDP would, unless its checksum would not
/// tell. Queues that mark packets (ECN) do so in vain: a socket cannot set what only the kernel's IP
/// writes, so their links take no packet for one that can be marked.
#[derive(Clone, Debug, PartialEq)]
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

impl<T: Clone + Alter> Direction<T> {
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
        // Until a copy of it is left that arrives.
        let mut fate = Fate::Lost;
        for delivery in verdict.deliveries() {
            let mut datagram = datagram.clone();
            if let Some(alteration) = delivery.alteration
                && !datagram.alter(&alteration)
            {
                continue;
            }
            fate = Fate::Carried;
            if delivery.at <= now {
                ready.push_back(datagram);
            } else if !self.delayed.push(delivery.at, bytes, datagram) {
                counters.delay_overflow();
            }
        }
        fate
    }
}

/// Something whose bits can flip on the way.
trait Alter {
    /// Flips bits; false when the receiver's UDP would see that by its checksum, and drop it.
    fn alter(&mut self, alteration: &Alteration) -> bool;
}

impl Alter for Datagram {
    fn alter(&mut self, alteration: &Alteration) -> bool {
        alter_payload(&mut self.payload, alteration)
    }
}

impl Alter for Received {
    fn alter(&mut self, alteration: &Alteration) -> bool {
        alter_payload(&mut self.payload, alteration)
    }
}

/// The kernel computes the checksum of what it is given, so the one that the datagram had before it
/// was spoiled is looked at here. A flip of one bit it always finds; several may make up for each
/// other.
fn alter_payload(payload: &mut Bytes, alteration: &Alteration) -> bool {
    let mut altered = BytesMut::from(&payload[..]);
    alteration.apply(&mut altered);
    let sum = |octets: &[u8]| Sum16BitWords::new().add_slice(octets).ones_complement();
    let is_unnoticed = sum(&altered) == sum(payload);
    *payload = altered.freeze();
    is_unnoticed
}

/// A panic elsewhere leaves a queue of datagrams as good as it was.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use link::Corruption;

    impl Alter for u32 {
        fn alter(&mut self, _: &Alteration) -> bool {
            false
        }
    }

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
    fn a_datagram_is_spoiled_only_where_its_checksum_would_not_tell() {
        let original = Bytes::from((0..=255).collect::<Vec<u8>>());
        let (mut noticed, mut unnoticed) = (0, 0);
        for seed in 0..20_000 {
            let mut payload = original.clone();
            // Two bits make up for each other when they are of one value and flip to and fro.
            if alter_payload(&mut payload, &Alteration::new(seed, 2)) {
                unnoticed += 1;
                let places: Vec<usize> = Alteration::new(seed, 2).places(256).collect();
                assert_eq!(places[0] % 16, places[1] % 16);
            } else {
                noticed += 1;
            }
            assert_ne!(payload, original);
            let mut payload = original.clone();
            assert!(!alter_payload(&mut payload, &Alteration::new(seed, 1)));
        }
        // One pair in 16 has one value, half of these flip to and fro.
        let share = f64::from(unnoticed) / f64::from(noticed + unnoticed);
        assert!((share - 1.0 / 32.0).abs() < 0.01, "{share}");
    }

    #[test]
    fn a_datagram_of_which_one_copy_is_left_is_not_lost() {
        let config = LinkConfig {
            corrupt: Corruption {
                chance: 0.5.into(),
                ..Corruption::default()
            },
            duplicate: 1.0.into(),
            ..LinkConfig::default()
        };
        let mut direction = Direction::new(config, 3, 0);
        let (counters, now) = (Counters::default(), Instant::now());
        let mut seen = [0; 3];
        for number in 0..200_u32 {
            let mut ready = VecDeque::new();
            let fate = direction.offer(now, number, 100, &counters, &mut ready);
            assert_eq!(fate == Fate::Lost, ready.is_empty());
            seen[ready.len()] += 1;
        }
        assert!(seen.iter().all(|times| *times > 0), "{seen:?}");
    }

    #[test]
    fn the_directions_lose_different_datagrams_of_one_seed() {
        let config = LinkConfig {
            loss: 0.3.into(),
            ..LinkConfig::default()
        };
        let outbound = dropped(&mut Direction::new(config.clone(), 7, 0));
        let inbound = dropped(&mut Direction::new(config.clone(), 7, 1));
        assert_eq!(outbound, dropped(&mut Direction::new(config.clone(), 7, 0)));
        assert_ne!(outbound, inbound);
        assert_ne!(outbound, dropped(&mut Direction::new(config, 8, 0)));
    }
}
