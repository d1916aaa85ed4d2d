//! Karn's algorithm (RFC 9260 section 6.3.1, rule C5): whose acknowledgement still tells the
//! round-trip time after retransmissions.
//!
//! This part knows TSNs only. Acknowledging a chunk measures nothing when it was retransmitted, or
//! a lower TSN was after the chunk had first been sent.

use std::collections::VecDeque;

use crate::packet::Tsn;

/// The TSNs whose acknowledgement measures nothing.
#[derive(Debug, Default)]
pub(crate) struct Karn {
    /// Ascending and isolated from each other.
    ambiguous: VecDeque<AmbiguousRange>,
}

#[derive(Debug, Clone, Copy)]
struct AmbiguousRange {
    first: Tsn,
    /// The first one that is not ambiguous any more.
    end: Tsn,
}

impl Karn {
    /// `tsn` goes out again; `next` will be the TSN of the next new chunk.
    pub(crate) fn retransmitted(&mut self, tsn: Tsn, next: Tsn) {
        let mut first = tsn;
        while let Some(last) = self.ambiguous.back()
            && last.end >= first
        {
            if last.first < first {
                first = last.first;
            }
            self.ambiguous.pop_back();
        }
        self.ambiguous
            .push_back(AmbiguousRange { first, end: next });
    }

    /// Whether the acknowledgement of `tsn` measures the round-trip time.
    pub(crate) fn is_unambiguous(&self, tsn: Tsn) -> bool {
        // Most chunks were sent after the last retransmission, if there was one.
        if self.ambiguous.back().is_none_or(|last| last.end <= tsn) {
            return true;
        }
        let after = self.ambiguous.partition_point(|range| range.first <= tsn);
        after
            .checked_sub(1)
            .and_then(|index| self.ambiguous.get(index))
            .is_none_or(|range| range.end <= tsn)
    }

    /// Everything below `tsn` is acknowledged for good.
    pub(crate) fn forget_below(&mut self, tsn: Tsn) {
        while self.ambiguous.front().is_some_and(|range| range.end <= tsn) {
            self.ambiguous.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FIRST: Tsn = Tsn(u32::MAX - 5);

    #[test]
    fn spoils_a_retransmitted_chunk_and_what_was_sent_before_the_retransmission() {
        let mut karn = Karn::default();
        assert!(karn.is_unambiguous(FIRST));
        karn.retransmitted(FIRST + 2, FIRST + 5);
        let measurable = |karn: &Karn| {
            (0..9)
                .filter(|&offset| karn.is_unambiguous(FIRST + offset))
                .collect::<Vec<u32>>()
        };
        assert_eq!(measurable(&karn), [0, 1, 5, 6, 7, 8]);
        karn.retransmitted(FIRST + 7, FIRST + 8);
        assert_eq!(measurable(&karn), [0, 1, 5, 6, 8]);
        karn.retransmitted(FIRST + 1, FIRST + 8);
        assert_eq!(measurable(&karn), [0, 8]);
    }

    proptest! {
        /// Each step is a new chunk, the retransmission of one, or a cumulative acknowledgement.
        #[test]
        fn agrees_with_the_rule_as_it_is_written(steps in prop::collection::vec((0u8..3, 0u32..20), 0..100)) {
            let mut karn = Karn::default();
            // Whether each TSN can be measured, by its offset.
            let mut model: Vec<bool> = Vec::new();
            let mut acknowledged = 0;
            for (step, choice) in steps {
                let outstanding = model.len() - acknowledged;
                match step {
                    1 if outstanding > 0 => {
                        let again = acknowledged + choice as usize % outstanding;
                        karn.retransmitted(FIRST + again as u32, FIRST + model.len() as u32);
                        model[again..].fill(false);
                    }
                    2 => {
                        acknowledged = (acknowledged + choice as usize).min(model.len());
                        karn.forget_below(FIRST + acknowledged as u32);
                    }
                    _ => model.push(true),
                }
                for (offset, &expected) in model.iter().enumerate().skip(acknowledged) {
                    prop_assert_eq!(karn.is_unambiguous(FIRST + offset as u32), expected);
                }
                prop_assert!(karn.ambiguous.len() <= model.len() - acknowledged);
            }
        }
    }
}
