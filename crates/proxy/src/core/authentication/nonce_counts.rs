//! Which counts have been used with which nonce, so that no request is taken twice (RFC 7616 section
//! 5.5).

use std::collections::BTreeMap;

use super::nonce::NonceName;

/// The counts that have been used with the nonces that are still good.
///
/// As many nonces are kept as it is told. When there are more, those that were given out first are
/// forgotten, and none that is as old as they were is taken any more: their clients are given new ones.
/// So an attacker who makes us forget gains nothing but that work.
#[derive(Debug, Default)]
pub(super) struct NonceCounts {
    used: BTreeMap<NonceName, Used>,
    /// The last nonce that was forgotten while it was good.
    forgotten: Option<NonceName>,
}

/// The counts of one nonce. Requests of a client can overtake each other: the last 64 counts are known one
/// by one, those before them have all been used.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    highest: u32,
    /// Bit *n* is set when `highest - n` has been used.
    recent: u64,
}

/// What becomes of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It was not used before.
    First,
    /// It was used before, or nothing is known of the nonce any more.
    Again,
    /// It was not used before. For the nonce another one was forgotten.
    FirstWithoutRoom,
}

impl NonceCounts {
    /// Takes a count, which is used then. Counts begin with 1.
    pub(super) fn take(&mut self, nonce: NonceName, count: u32, maximum: usize) -> Taken {
        let is_known = self.used.contains_key(&nonce);
        let is_forgotten = !is_known && Some(nonce) <= self.forgotten;
        if is_forgotten || count == 0 {
            return Taken::Again;
        }
        if !self.used.entry(nonce).or_default().take(count) {
            return Taken::Again;
        }
        if self.used.len() <= maximum {
            return Taken::First;
        }
        if let Some((first, _)) = self.used.pop_first() {
            self.forgotten = Some(first);
        }
        Taken::FirstWithoutRoom
    }

    /// Forgets the nonces that were given out so early that they are not taken any more; nor are they when that time
    /// is set longer.
    pub(super) fn expire(&mut self, before_milliseconds: u64) {
        while let Some(first) = self.used.first_entry() {
            if first.key().milliseconds >= before_milliseconds {
                break;
            }
            let (name, _) = first.remove_entry();
            self.forgotten = Some(name);
        }
    }

    /// How many nonces are kept.
    pub(super) fn len(&self) -> usize {
        self.used.len()
    }
}

impl Used {
    /// Whether a count has not been used before; it has then.
    fn take(&mut self, count: u32) -> bool {
        if count > self.highest {
            self.recent = self
                .recent
                .checked_shl(count - self.highest)
                .unwrap_or_default()
                | 1;
            self.highest = count;
            return true;
        }
        let Some(bit) = 1_u64.checked_shl(self.highest - count) else {
            return false;
        };
        let is_first = self.recent & bit == 0;
        self.recent |= bit;
        is_first
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn nonce(milliseconds: u64) -> NonceName {
        NonceName {
            milliseconds,
            number: 0,
        }
    }

    #[test]
    fn counts_may_overtake_each_other_but_not_come_again() {
        let mut counts = NonceCounts::default();
        for (count, expected) in [
            (0, Taken::Again),
            (2, Taken::First),
            (1, Taken::First),
            (1, Taken::Again),
            (2, Taken::Again),
            (100, Taken::First),
            (37, Taken::First),
            // Too far behind for anybody to know.
            (36, Taken::Again),
            (u32::MAX, Taken::First),
            (100, Taken::Again),
            (u32::MAX, Taken::Again),
        ] {
            assert_eq!(counts.take(nonce(1), count, 10), expected, "{count}");
        }
        assert_eq!(counts.take(nonce(2), 2, 10), Taken::First);
    }

    #[test]
    fn without_room_the_oldest_are_forgotten_and_not_taken_again() {
        let mut counts = NonceCounts::default();
        assert_eq!(counts.take(nonce(5), 1, 2), Taken::First);
        assert_eq!(counts.take(nonce(6), 1, 2), Taken::First);
        assert_eq!(counts.take(nonce(7), 1, 2), Taken::FirstWithoutRoom);
        assert_eq!(counts.len(), 2);
        // Not even with a count that was never used: who could tell?
        for (time, count) in [(5, 1), (5, 2), (4, 1)] {
            assert_eq!(counts.take(nonce(time), count, 2), Taken::Again);
        }
        assert_eq!(counts.take(nonce(6), 2, 2), Taken::First);
        assert_eq!(counts.take(nonce(6), 1, 2), Taken::Again);
    }

    #[test]
    fn what_is_too_old_takes_no_room() {
        let mut counts = NonceCounts::default();
        for time in 0..10 {
            counts.take(nonce(time), 1, 100);
        }
        counts.expire(7);
        assert_eq!(counts.len(), 3);
        // It stays used up where nonces are to live longer from now on.
        assert_eq!(counts.take(nonce(6), 1, 100), Taken::Again);
        assert_eq!(counts.take(nonce(6), 2, 100), Taken::Again);
        assert_eq!(counts.take(nonce(7), 2, 100), Taken::First);
    }

    proptest! {
        #[test]
        fn no_count_is_taken_twice(
            steps in proptest::collection::vec((0..6_u64, 0..90_u32), 0..300),
            maximum in 1..8_usize,
        ) {
            let mut counts = NonceCounts::default();
            let mut taken = BTreeSet::new();
            for (time, count) in steps {
                if counts.take(nonce(time), count, maximum) != Taken::Again {
                    prop_assert!(taken.insert((time, count)));
                }
                prop_assert!(counts.len() <= maximum);
            }
        }
    }
}
