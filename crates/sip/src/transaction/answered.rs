//! Transactions of which nothing is kept but that they have been answered.

use std::mem;
use std::time::{Duration, Instant};

use hashbrown::HashTable;

/// The keys of transactions whose answer can be made anew, so that it need not be kept: each is known for at least the
/// time of Timer J (RFC 3261 section 17.2.2), and for twice that at the most, while keys come.
///
/// Kept are 64 bits of a hash under a secret of ours ([`Keyed`](super::keyed::Keyed)) of the key and of what else the request
/// says of itself, which among millions no two share by chance. Two generations take turns, so that no key has a timer.
#[derive(Debug)]
pub(super) struct Answered {
    current: HashTable<u64>,
    former: HashTable<u64>,
    /// When the current generation becomes the former one.
    until: Option<Instant>,
    period: Duration,
}

/// How many keys a generation has at most: 32 MiB. Where more come in its time, each is known for a shorter one.
const MOST_KEYS: usize = 2 << 20;

/// For how many times as many keys as there were room is kept.
const SPARE: usize = 4;

/// Room that is not worth giving back.
const FEW_KEYS: usize = 1024;

impl Answered {
    /// Each key is known for this time.
    pub(super) fn new(period: Duration) -> Answered {
        Answered {
            current: HashTable::new(),
            former: HashTable::new(),
            until: None,
            period,
        }
    }

    /// Whether no key is known.
    pub(super) fn is_empty(&self) -> bool {
        self.current.is_empty() && self.former.is_empty()
    }

    /// Whether a key with this hash was put in a short time ago.
    pub(super) fn contains(&mut self, now: Instant, hash: u64) -> bool {
        self.turn(now);
        self.holds(hash)
    }

    /// Whether a key with this hash is still there, be its time over.
    pub(super) fn holds(&self, hash: u64) -> bool {
        let is_in = |keys: &HashTable<u64>| keys.find(hash, |other| *other == hash).is_some();
        is_in(&self.current) || is_in(&self.former)
    }

    pub(super) fn insert(&mut self, now: Instant, hash: u64) {
        self.turn(now);
        if self.current.len() >= MOST_KEYS {
            self.begin_generation(now);
        }
        self.until.get_or_insert(now + self.period);
        // It is told apart from others by all of its bits, and is as good a hash as any.
        let is_it = |other: &u64| *other == hash;
        self.current
            .entry(hash, is_it, |hash| *hash)
            .or_insert(hash);
    }

    /// Forgets the generation whose time is over.
    fn turn(&mut self, now: Instant) {
        let Some(until) = self.until.filter(|until| *until <= now) else {
            return;
        };
        self.begin_generation(until);
        if until + self.period <= now {
            self.former.clear();
        }
        if self.former.is_empty() {
            self.until = None;
        }
    }

    fn begin_generation(&mut self, from: Instant) {
        mem::swap(&mut self.current, &mut self.former);
        self.current.clear();
        let wanted = SPARE * self.former.len().max(FEW_KEYS);
        if self.current.capacity() > wanted {
            self.current.shrink_to(wanted, |hash| *hash);
        }
        self.until = Some(from + self.period);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PERIOD: Duration = Duration::from_secs(32);

    #[test]
    fn a_key_is_known_for_its_time_and_not_for_long() {
        let begin = Instant::now();
        let mut answered = Answered::new(PERIOD);
        assert!(answered.is_empty());
        answered.insert(begin, 7);
        answered.insert(begin + PERIOD / 2, 8);
        let known = |answered: &mut Answered, after: Duration| {
            [7, 8].map(|hash| answered.contains(begin + after, hash))
        };
        assert_eq!(known(&mut answered, Duration::ZERO), [true, true]);
        assert_eq!(known(&mut answered, PERIOD), [true, true]);
        assert_eq!(known(&mut answered, PERIOD * 3 / 2), [true, true]);
        assert_eq!(known(&mut answered, PERIOD * 2), [false, false]);
        assert!(answered.is_empty());
    }

    #[test]
    fn what_nobody_asked_about_for_long_is_forgotten_at_once() {
        let begin = Instant::now();
        let mut answered = Answered::new(PERIOD);
        answered.insert(begin, 7);
        assert!(!answered.contains(begin + 3 * PERIOD, 7));
        assert!(answered.is_empty());
    }

    #[test]
    fn there_are_never_more_than_two_generations_hold() {
        let now = Instant::now();
        let mut answered = Answered::new(PERIOD);
        for hash in 0..3 * MOST_KEYS as u64 {
            answered.insert(now, hash);
        }
        assert_eq!(answered.current.len(), MOST_KEYS);
        assert_eq!(answered.former.len(), MOST_KEYS);
        assert!(!answered.contains(now, 0));
        assert!(answered.contains(now, 3 * MOST_KEYS as u64 - 1));
        // The room of a flood is given back.
        let later = now + 2 * PERIOD;
        answered.insert(later, 1);
        answered.insert(later + PERIOD, 2);
        answered.insert(later + 2 * PERIOD, 3);
        let capacity = answered.current.capacity() + answered.former.capacity();
        assert!(capacity <= 4 * SPARE * FEW_KEYS, "{capacity}");
    }

    proptest! {
        /// Every key is known for its period, and none that was never put in.
        #[test]
        fn keys_are_known_as_long_as_they_have_to_be(
            steps in prop::collection::vec((0..40_u64, 0..20_u64), 1..200),
        ) {
            let begin = Instant::now();
            let mut answered = Answered::new(PERIOD);
            let mut now = begin;
            let mut last = std::collections::HashMap::new();
            for (hash, seconds) in steps {
                now += Duration::from_secs(seconds);
                let put_in = last.get(&hash).map(|then| now.saturating_duration_since(*then));
                let is_known = answered.contains(now, hash);
                match put_in {
                    None => prop_assert!(!is_known),
                    Some(age) if age < PERIOD => prop_assert!(is_known),
                    Some(age) if age >= 2 * PERIOD => prop_assert!(!is_known),
                    Some(_) => {}
                }
                answered.insert(now, hash);
                last.insert(hash, now);
            }
        }
    }
}
