//! Which TSNs of the peer have arrived (RFC 9260 sections 3.3.4 and 6.7).
//!
//! This part knows numbers only: no payload, no streams, no time.

use std::collections::VecDeque;

use crate::packet::{GapAckBlock, Tsn};

/// TSNs in a row, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TsnRange {
    pub(crate) first: Tsn,
    pub(crate) last: Tsn,
}

/// The TSNs of a message; none when it cannot be taken back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct MessageTsns {
    /// The lowest ones.
    first: Option<TsnRange>,
    /// The others, where other chunks came between those of the message; ascending.
    more: Vec<TsnRange>,
}

impl MessageTsns {
    /// Adds a TSN above all others.
    pub(crate) fn push(&mut self, tsn: Tsn) {
        match self.more.last_mut().or(self.first.as_mut()) {
            Some(range) if range.last.next() == tsn => range.last = tsn,
            Some(_) => self.more.push(TsnRange {
                first: tsn,
                last: tsn,
            }),
            None => *self = MessageTsns::from(tsn),
        }
    }

    /// All of them, ascending.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = TsnRange> {
        self.first.iter().chain(&self.more).copied()
    }

    /// The lowest one.
    pub(crate) fn lowest(&self) -> Option<Tsn> {
        self.first.map(|range| range.first)
    }

    /// Whether a message of so many bytes stays when what lies above `limit` is thrown away. If not,
    /// `on_removed` hears all its TSNs, and its bytes with the first of them.
    pub(crate) fn stay_below(
        &self,
        limit: Tsn,
        mut bytes: usize,
        mut on_removed: impl FnMut(TsnRange, usize),
    ) -> bool {
        let stays = self.lowest().is_none_or(|lowest| lowest <= limit);
        if !stays {
            for range in self.first.iter().chain(&self.more) {
                on_removed(*range, std::mem::take(&mut bytes));
            }
        }
        stays
    }
}

impl From<TsnRange> for MessageTsns {
    fn from(range: TsnRange) -> MessageTsns {
        MessageTsns {
            first: Some(range),
            more: Vec::new(),
        }
    }
}

impl From<Tsn> for MessageTsns {
    fn from(tsn: Tsn) -> MessageTsns {
        let (first, last) = (tsn, tsn);
        TsnRange { first, last }.into()
    }
}

/// What a TSN that arrives is to this association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Not seen before, and it can be recorded.
    New,
    /// Received before.
    Duplicate,
    /// So far ahead, or so scattered, that it could not be acknowledged or would cost more memory
    /// than we grant: to be dropped; the peer will send it again.
    OutOfReach,
}

/// The TSNs received, as the cumulative one and the ranges above it.
#[derive(Debug)]
pub(crate) struct ReceivedTsns {
    cumulative: Tsn,
    /// Ascending, isolated from each other and from `cumulative`.
    ranges: VecDeque<TsnRange>,
    /// Since the last SACK, one entry for each arrival.
    duplicates: Vec<Tsn>,
    bounds: Bounds,
}

/// How much of what has arrived is kept in mind.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Bounds {
    /// TSNs more than this above the cumulative one are out of reach.
    pub(crate) max_distance: u16,
    /// So is one that would make more ranges than this.
    pub(crate) max_ranges: usize,
    /// Duplicates listed in a SACK; what comes on top of them is not worth telling.
    pub(crate) max_duplicates: usize,
}

impl ReceivedTsns {
    /// Nothing received yet of a peer whose first TSN will be `initial`.
    pub(crate) fn new(initial: Tsn, bounds: Bounds) -> ReceivedTsns {
        ReceivedTsns {
            cumulative: initial.previous(),
            ranges: VecDeque::new(),
            duplicates: Vec::new(),
            bounds,
        }
    }

    /// Changes how much is kept in mind from now on.
    pub(crate) fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    /// The last TSN before the first hole.
    pub(crate) fn cumulative(&self) -> Tsn {
        self.cumulative
    }

    /// The highest TSN received.
    pub(crate) fn highest(&self) -> Tsn {
        self.ranges
            .back()
            .map_or(self.cumulative, |range| range.last)
    }

    /// Whether a TSN is missing below one that arrived.
    pub(crate) fn has_gaps(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// What `tsn` would be if it arrived now.
    #[inline]
    pub(crate) fn classify(&self, tsn: Tsn) -> Arrival {
        if tsn == self.cumulative.next() {
            Arrival::New
        } else if tsn <= self.cumulative {
            Arrival::Duplicate
        } else {
            self.classify_above(tsn)
        }
    }

    /// The same for one above the one that is missing first.
    fn classify_above(&self, tsn: Tsn) -> Arrival {
        if tsn.distance_from(self.cumulative) > u32::from(self.bounds.max_distance) {
            return Arrival::OutOfReach;
        }
        let above = self.ranges_before(tsn);
        if let Some(range) = above
            .checked_sub(1)
            .and_then(|index| self.ranges.get(index))
            && tsn <= range.last
        {
            return Arrival::Duplicate;
        }
        if self.ranges.len() >= self.bounds.max_ranges {
            let touches_lower = above
                .checked_sub(1)
                .and_then(|index| self.ranges.get(index))
                .is_some_and(|range| range.last.next() == tsn);
            let touches_upper = self
                .ranges
                .get(above)
                .is_some_and(|range| range.first == tsn.next());
            if !touches_lower && !touches_upper {
                return Arrival::OutOfReach;
            }
        }
        Arrival::New
    }

    /// Records a TSN that [`Self::classify`] found new.
    #[inline]
    pub(crate) fn record(&mut self, tsn: Tsn) {
        if tsn != self.cumulative.next() {
            self.record_above(tsn);
            return;
        }
        self.cumulative = tsn;
        if let Some(range) = self.ranges.front().copied()
            && range.first == tsn.next()
        {
            self.cumulative = range.last;
            self.ranges.pop_front();
        }
    }

    /// Records one above a hole.
    fn record_above(&mut self, tsn: Tsn) {
        let above = self.ranges_before(tsn);
        let joins_upper = self
            .ranges
            .get(above)
            .is_some_and(|range| range.first == tsn.next());
        let lower = above
            .checked_sub(1)
            .and_then(|index| self.ranges.get_mut(index))
            .filter(|range| range.last.next() == tsn);
        match (lower, joins_upper) {
            (Some(lower), false) => lower.last = tsn,
            (Some(lower), true) => {
                let first = lower.first;
                if let Some(upper) = self.ranges.get_mut(above) {
                    upper.first = first;
                }
                self.ranges.remove(above - 1);
            }
            (None, true) => {
                if let Some(upper) = self.ranges.get_mut(above) {
                    upper.first = tsn;
                }
            }
            (None, false) => self.ranges.insert(
                above,
                TsnRange {
                    first: tsn,
                    last: tsn,
                },
            ),
        }
    }

    /// Counts what is missing up to `tsn`, which is above the cumulative TSN, as received (RFC 3758
    /// section 3.6).
    pub(crate) fn advance(&mut self, tsn: Tsn) {
        self.cumulative = tsn;
        while let Some(range) = self
            .ranges
            .pop_front_if(|range| range.first <= self.cumulative.next())
        {
            if range.last > self.cumulative {
                self.cumulative = range.last;
            }
        }
    }

    /// Takes back what was recorded above the cumulative TSN: those TSNs count as never received
    /// (section 6.2).
    pub(crate) fn forget(&mut self, mut forgotten: Vec<TsnRange>) {
        let cumulative = self.cumulative;
        forgotten.sort_unstable_by_key(|range| range.first.distance_from(cumulative));
        let mut forgotten = forgotten.into_iter().peekable();
        let mut kept = VecDeque::new();
        for range in self.ranges.drain(..) {
            let mut first = range.first;
            while let Some(gone) = forgotten.next_if(|gone| gone.first <= range.last) {
                if first < gone.first {
                    let last = gone.first.previous();
                    kept.push_back(TsnRange { first, last });
                }
                first = gone.last.next();
            }
            if first <= range.last {
                kept.push_back(TsnRange { first, ..range });
            }
        }
        self.ranges = kept;
    }

    /// Notes that `tsn` arrived again.
    pub(crate) fn record_duplicate(&mut self, tsn: Tsn) {
        if self.duplicates.len() < self.bounds.max_duplicates {
            self.duplicates.push(tsn);
        }
    }

    /// The Gap Ack Blocks, lowest first.
    pub(crate) fn gaps(&self) -> impl ExactSizeIterator<Item = GapAckBlock> + '_ {
        self.ranges.iter().map(|range| GapAckBlock {
            start: range.first.distance_from(self.cumulative) as u16,
            end: range.last.distance_from(self.cumulative) as u16,
        })
    }

    /// The duplicates that arrived since [`Self::clear_duplicates`].
    pub(crate) fn duplicates(&self) -> &[Tsn] {
        &self.duplicates
    }

    /// To be called when a SACK has reported the duplicates.
    pub(crate) fn clear_duplicates(&mut self) {
        self.duplicates.clear();
    }

    /// How many ranges begin at or before `tsn`.
    fn ranges_before(&self, tsn: Tsn) -> usize {
        // Nearly every TSN that arrives above a hole is the highest so far.
        match self.ranges.back() {
            None => 0,
            Some(range) if range.first <= tsn => self.ranges.len(),
            Some(_) => self.ranges.partition_point(|range| range.first <= tsn),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn new(initial: Tsn, max_distance: u16, max_ranges: usize) -> ReceivedTsns {
        let bounds = Bounds {
            max_distance,
            max_ranges,
            max_duplicates: 3,
        };
        ReceivedTsns::new(initial, bounds)
    }

    fn receive(received: &mut ReceivedTsns, tsn: u32) -> Arrival {
        let arrival = received.classify(Tsn(tsn));
        if arrival == Arrival::New {
            received.record(Tsn(tsn));
        }
        arrival
    }

    fn blocks(received: &ReceivedTsns) -> Vec<(u16, u16)> {
        received.gaps().map(|gap| (gap.start, gap.end)).collect()
    }

    #[test]
    fn reports_the_example_of_section_3_3_4() {
        let mut received = new(Tsn(10), u16::MAX, 100);
        for tsn in [10, 11, 12, 14, 15, 17] {
            assert_eq!(receive(&mut received, tsn), Arrival::New);
        }
        assert_eq!(received.cumulative(), Tsn(12));
        assert_eq!(received.highest(), Tsn(17));
        assert_eq!(blocks(&received), [(2, 3), (5, 5)]);
    }

    #[test]
    fn fills_holes_in_any_order() {
        let mut received = new(Tsn(0), u16::MAX, 100);
        for tsn in [4, 2, 6, 5, 3] {
            assert_eq!(receive(&mut received, tsn), Arrival::New);
        }
        assert_eq!(blocks(&received), [(3, 7)]);
        assert_eq!(receive(&mut received, 0), Arrival::New);
        assert_eq!(receive(&mut received, 1), Arrival::New);
        assert_eq!(received.cumulative(), Tsn(6));
        assert!(!received.has_gaps());
    }

    #[test]
    fn counts_across_the_wrap() {
        let mut received = new(Tsn(u32::MAX - 1), u16::MAX, 100);
        assert_eq!(receive(&mut received, u32::MAX - 1), Arrival::New);
        assert_eq!(receive(&mut received, 1), Arrival::New);
        assert_eq!(blocks(&received), [(3, 3)]);
        assert_eq!(receive(&mut received, u32::MAX), Arrival::New);
        assert_eq!(receive(&mut received, 0), Arrival::New);
        assert_eq!(received.cumulative(), Tsn(1));
        assert_eq!(receive(&mut received, u32::MAX), Arrival::Duplicate);
    }

    #[test]
    fn refuses_what_is_too_far_ahead_or_too_scattered() {
        let mut received = new(Tsn(1), 100, 2);
        assert_eq!(receive(&mut received, 101), Arrival::OutOfReach);
        assert_eq!(receive(&mut received, 100), Arrival::New);
        assert_eq!(receive(&mut received, 50), Arrival::New);
        assert_eq!(receive(&mut received, 60), Arrival::OutOfReach);
        assert_eq!(receive(&mut received, 99), Arrival::New);
        assert_eq!(receive(&mut received, 51), Arrival::New);
        assert_eq!(receive(&mut received, 1), Arrival::New);
        assert_eq!(receive(&mut received, 3), Arrival::OutOfReach);
    }

    /// RFC 3758, section 3.6.
    #[test]
    fn advances_over_what_is_missing_and_further() {
        let mut received = new(Tsn(101), u16::MAX, 100);
        for tsn in [101, 102, 104, 105, 107] {
            assert_eq!(receive(&mut received, tsn), Arrival::New);
        }
        received.advance(Tsn(103));
        assert_eq!(received.cumulative(), Tsn(105));
        assert_eq!(blocks(&received), [(2, 2)]);
        assert_eq!(receive(&mut received, 103), Arrival::Duplicate);
        received.advance(Tsn(120));
        assert_eq!(received.cumulative(), Tsn(120));
        assert!(!received.has_gaps());
    }

    #[test]
    fn advances_into_the_middle_of_a_range_and_across_the_wrap() {
        let mut received = new(Tsn(u32::MAX), u16::MAX, 100);
        for tsn in [1, 2, 3, 5] {
            assert_eq!(receive(&mut received, tsn), Arrival::New);
        }
        received.advance(Tsn(2));
        assert_eq!(received.cumulative(), Tsn(3));
        assert_eq!(blocks(&received), [(2, 2)]);
    }

    #[test]
    fn takes_back_what_is_above_the_cumulative_tsn() {
        let mut received = new(Tsn(u32::MAX), 1000, 100);
        for tsn in [u32::MAX, 1, 2, 3, 4, 5, 7, 9, 10] {
            assert_eq!(receive(&mut received, tsn), Arrival::New);
        }
        let range = |first, last| TsnRange {
            first: Tsn(first),
            last: Tsn(last),
        };
        received.forget(vec![range(9, 10), range(4, 4), range(1, 2)]);
        assert_eq!(received.cumulative(), Tsn(u32::MAX));
        assert_eq!(blocks(&received), [(4, 4), (6, 6), (8, 8)]);
        for tsn in [4, 1, 2, 10, 9] {
            assert_eq!(receive(&mut received, tsn), Arrival::New);
        }
        assert_eq!(blocks(&received), [(2, 6), (8, 8), (10, 11)]);
    }

    #[test]
    fn lists_a_duplicate_each_time_it_comes() {
        let mut received = new(Tsn(19), u16::MAX, 100);
        receive(&mut received, 19);
        for _ in 0..2 {
            assert_eq!(receive(&mut received, 19), Arrival::Duplicate);
            received.record_duplicate(Tsn(19));
        }
        assert_eq!(received.duplicates(), [Tsn(19), Tsn(19)]);
        for _ in 0..9 {
            received.record_duplicate(Tsn(19));
        }
        assert_eq!(received.duplicates().len(), 3, "no more than are allowed");
        received.clear_duplicates();
        assert!(received.duplicates().is_empty());
    }

    proptest! {
        #[test]
        fn agrees_with_a_set(initial: u32, offsets in prop::collection::vec(0u32..200, 0..400)) {
            let mut received = new(Tsn(initial), 1000, 1000);
            let mut model = BTreeSet::new();
            for offset in offsets {
                let arrival = receive(&mut received, initial.wrapping_add(offset));
                prop_assert_eq!(arrival == Arrival::New, model.insert(offset));
                let whole = (0..).find(|offset| !model.contains(offset)).unwrap_or(0);
                prop_assert_eq!(
                    received.cumulative(),
                    Tsn(initial.wrapping_add(whole).wrapping_sub(1))
                );
                let mut reported = BTreeSet::new();
                let mut last_end = 0;
                for gap in received.gaps() {
                    prop_assert!(u32::from(gap.start) > last_end + 1, "blocks are isolated");
                    last_end = u32::from(gap.end);
                    reported.extend(
                        (gap.start..=gap.end).map(|position| u32::from(position) + whole - 1),
                    );
                }
                let above: BTreeSet<u32> = model.range(whole..).copied().collect();
                prop_assert_eq!(reported, above);
            }
        }
    }
}
