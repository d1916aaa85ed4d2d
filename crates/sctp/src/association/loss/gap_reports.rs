//! Miss indications: how often SACKs have reported that a chunk is missing (RFC 9260 section 7.2.4).

use crate::packet::Tsn;

/// The third miss indication is the one that counts (section 7.2.4).
const MISS_INDICATIONS: u8 = 3;

/// What holds for the miss indications of one SACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MissRule {
    /// The association is in Fast Recovery.
    pub(crate) in_fast_recovery: bool,
    /// How many miss indications make a chunk lost.
    threshold: u8,
}

impl MissRule {
    /// The rule of section 7.2.4.
    pub(crate) fn new(in_fast_recovery: bool) -> MissRule {
        MissRule {
            in_fast_recovery,
            threshold: MISS_INDICATIONS,
        }
    }

    /// Early Retransmit (RFC 5827 section 3.2): where fewer than four chunks are outstanding, and nothing
    /// new can be sent, there are never three SACKs to wait for. Then all others are enough.
    pub(crate) fn early(self, outstanding: usize) -> MissRule {
        match u8::try_from(outstanding) {
            Ok(outstanding @ 2..4) => MissRule {
                threshold: outstanding - 1,
                ..self
            },
            _ => self,
        }
    }
}

/// The miss indications of one chunk.
#[derive(Debug)]
pub(crate) struct MissIndications {
    count: u8,
    /// A chunk is marked for fast retransmission only once.
    marked: bool,
    /// One counts only when it comes from a TSN sent after this chunk last was.
    from: Tsn,
}

impl MissIndications {
    /// Of a chunk that goes out for the first time.
    pub(crate) fn new(tsn: Tsn) -> MissIndications {
        MissIndications {
            count: 0,
            marked: false,
            from: tsn,
        }
    }

    /// The chunk goes out again; `next` will be the TSN of the next new one.
    pub(crate) fn retransmitted(&mut self, next: Tsn) {
        self.count = 0;
        self.from = next;
    }

    /// Whether a SACK that newly acknowledges `tsn` is a miss indication.
    pub(crate) fn counts(&self, tsn: Tsn) -> bool {
        !self.marked && tsn >= self.from
    }

    /// The peer reneged on the chunk: that is a miss indication (section 6.2.1 D iii), unless the same
    /// SACK is one anyway.
    pub(crate) fn reneged(&mut self, counts_anyway: bool) {
        self.count = u8::from(!counts_anyway);
    }

    /// Takes in a miss indication by the acknowledgement of `tsn`; tells whether the chunk is lost.
    pub(crate) fn count(&mut self, tsn: Tsn, rule: MissRule) -> bool {
        if !self.counts(tsn) {
            return false;
        }
        self.count = self.count.saturating_add(1);
        self.marked = self.count >= rule.threshold;
        self.marked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_one_counts_and_only_once() {
        let rule = MissRule::new(false);
        let mut misses = MissIndications::new(Tsn(5));
        assert!(!misses.count(Tsn(4), rule), "sent before it");
        let marked: Vec<bool> = (6..10).map(|tsn| misses.count(Tsn(tsn), rule)).collect();
        assert_eq!(marked, [false, false, true, false]);
        misses.retransmitted(Tsn(20));
        assert!(!(20..30).any(|tsn| misses.count(Tsn(tsn), rule)));
    }

    #[test]
    fn fewer_are_enough_when_no_more_can_come() {
        let rule = MissRule::new(false);
        let thresholds: Vec<u8> = (0..6).map(|count| rule.early(count).threshold).collect();
        assert_eq!(thresholds, [3, 3, 1, 2, 3, 3]);
    }
}
