//! What became of numbered datagrams: lost, out of order, twice, and how unevenly they came.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How many numbers below the highest one are remembered, to tell a late datagram from a second copy.
const WINDOW: u64 = 4096;

/// Bits of a word of the window.
const WORD: u64 = u64::BITS as u64;

/// What was seen of the datagrams of one or more flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reception {
    /// Datagrams that came, each counted once.
    pub received: u64,
    /// Numbers from the first to the highest seen: what must have been sent at least.
    pub expected: u64,
    /// Datagrams that came after one with a higher number.
    pub reordered: u64,
    /// Further copies of datagrams, and those too late to tell.
    pub duplicates: u64,
    /// Interarrival jitter by the rule of RFC 3550 section 6.4.1, milliseconds; of several flows the
    /// largest.
    pub jitter_ms: f64,
}

impl Reception {
    /// Adds what another flow saw.
    pub fn add(&mut self, other: &Reception) {
        self.received = self.received.saturating_add(other.received);
        self.expected = self.expected.saturating_add(other.expected);
        self.reordered = self.reordered.saturating_add(other.reordered);
        self.duplicates = self.duplicates.saturating_add(other.duplicates);
        self.jitter_ms = self.jitter_ms.max(other.jitter_ms);
    }
}

/// Follows the datagrams of one flow, which are numbered from 1 and carry when they were sent.
#[derive(Debug)]
pub struct SequenceTracker {
    highest: u64,
    /// A bit for each of the last [`WINDOW`] numbers, at its place modulo the window.
    seen: [u64; (WINDOW / WORD) as usize],
    received: u64,
    reordered: u64,
    duplicates: u64,
    /// Transit time of the last datagram, in the difference of two clocks, nanoseconds.
    last_transit: Option<i128>,
    jitter_nanoseconds: f64,
}

impl SequenceTracker {
    /// Nothing has come yet.
    pub fn new() -> SequenceTracker {
        SequenceTracker {
            highest: 0,
            seen: [0; (WINDOW / WORD) as usize],
            received: 0,
            reordered: 0,
            duplicates: 0,
            last_transit: None,
            jitter_nanoseconds: 0.0,
        }
    }

    /// A datagram came: its number, when it was sent by the sender's clock, and now by ours; each clock
    /// has a zero of its own. Returns whether it is new.
    pub fn arrived(&mut self, number: u64, sent: Duration, now: Duration) -> bool {
        if number > self.highest {
            self.advance(number);
        } else if self.highest - number >= WINDOW || self.is_seen(number) {
            self.duplicates += 1;
            return false;
        } else {
            self.reordered += 1;
        }
        self.set_seen(number);
        self.received += 1;
        self.measure_jitter(sent, now);
        true
    }

    /// What was seen until now.
    pub fn reception(&self) -> Reception {
        Reception {
            received: self.received,
            expected: self.highest,
            reordered: self.reordered,
            duplicates: self.duplicates,
            jitter_ms: self.jitter_nanoseconds / 1e6,
        }
    }

    fn measure_jitter(&mut self, sent: Duration, now: Duration) {
        let transit = now.as_nanos() as i128 - sent.as_nanos() as i128;
        if let Some(last) = self.last_transit.replace(transit) {
            let difference = transit.abs_diff(last) as f64;
            self.jitter_nanoseconds += (difference - self.jitter_nanoseconds) / 16.0;
        }
    }

    /// Makes `number` the highest, and forgets what falls out of the window.
    fn advance(&mut self, number: u64) {
        if number - self.highest >= WINDOW {
            self.seen.fill(0);
        } else {
            for skipped in self.highest + 1..=number {
                let (word, bit) = place(skipped);
                self.seen[word] &= !bit;
            }
        }
        self.highest = number;
    }

    fn is_seen(&self, number: u64) -> bool {
        let (word, bit) = place(number);
        self.seen[word] & bit != 0
    }

    fn set_seen(&mut self, number: u64) {
        let (word, bit) = place(number);
        self.seen[word] |= bit;
    }
}

impl Default for SequenceTracker {
    fn default() -> Self {
        Self::new()
    }
}

/// Where the bit of a number is.
fn place(number: u64) -> (usize, u64) {
    let index = number % WINDOW;
    ((index / WORD) as usize, 1 << (index % WORD))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn track(numbers: &[u64]) -> Reception {
        let mut tracker = SequenceTracker::new();
        for &number in numbers {
            tracker.arrived(number, Duration::ZERO, Duration::ZERO);
        }
        tracker.reception()
    }

    #[test]
    fn in_order_nothing_is_wrong() {
        let reception = track(&(1..=10_000).collect::<Vec<_>>());
        assert_eq!(reception.received, 10_000);
        assert_eq!(reception.expected, 10_000);
        assert_eq!((reception.reordered, reception.duplicates), (0, 0));
    }

    #[test]
    fn gaps_late_ones_and_copies_are_told_apart() {
        let reception = track(&[1, 2, 5, 4, 4, 5, 6]);
        assert_eq!(reception.received, 5, "3 is missing");
        assert_eq!(reception.expected, 6);
        assert_eq!(reception.reordered, 1);
        assert_eq!(reception.duplicates, 2);
    }

    #[test]
    fn what_is_older_than_the_window_counts_as_a_copy() {
        let reception = track(&[1, WINDOW + 10, 2]);
        assert_eq!((reception.received, reception.duplicates), (2, 1));
        let reception = track(&[u64::MAX, 1]);
        assert_eq!((reception.received, reception.duplicates), (1, 1));
    }

    #[test]
    fn jitter_follows_rfc_3550() {
        let mut tracker = SequenceTracker::new();
        let ms = Duration::from_millis;
        tracker.arrived(1, ms(0), ms(100));
        tracker.arrived(2, ms(20), ms(120));
        assert_eq!(tracker.reception().jitter_ms, 0.0, "the same delay");
        tracker.arrived(3, ms(40), ms(156));
        assert_eq!(
            tracker.reception().jitter_ms,
            1.0,
            "16 ms more, a sixteenth"
        );
    }

    proptest! {
        /// Whatever comes within a window, each number counts once.
        #[test]
        fn each_number_counts_once(numbers in prop::collection::vec(1..WINDOW, 0..600)) {
            let reception = track(&numbers);
            let different: HashSet<u64> = numbers.iter().copied().collect();
            prop_assert_eq!(reception.received, different.len() as u64);
            prop_assert_eq!(reception.duplicates, (numbers.len() - different.len()) as u64);
            prop_assert_eq!(reception.expected, numbers.iter().copied().max().unwrap_or(0));
        }

        /// Whatever a stranger sends, nothing breaks.
        #[test]
        fn any_numbers_are_taken(numbers in prop::collection::vec(any::<u64>(), 0..100)) {
            let reception = track(&numbers);
            prop_assert_eq!(reception.received + reception.duplicates, numbers.len() as u64);
        }
    }
}
