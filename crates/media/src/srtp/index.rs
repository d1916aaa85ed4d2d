//! Which packet of its source a packet is: the sequence number with its rollovers (RFC 3711 section 3.3.1), and whether it
//! has come before (section 3.3.2).

/// Indices are numbers of 48 bits.
const MODULUS: u64 = 1 << 48;
/// Packets before the latest one that are told apart; at least 64 (RFC 3711 section 3.3.2).
const WINDOW: u64 = 128;

/// The highest index of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RtpIndex(u64);

impl RtpIndex {
    /// A source whose first packet has this number: its rollover counter is zero (RFC 4568 section 6.4).
    pub(super) fn starting_at(sequence: u16) -> RtpIndex {
        RtpIndex(u64::from(sequence))
    }

    /// The index that is closest to the highest one.
    pub(super) fn estimate(self, sequence: u16) -> u64 {
        let ahead = sequence.wrapping_sub(self.0 as u16) as i16;
        let index = self.0.checked_add_signed(i64::from(ahead));
        // Before the first packet there is no rollover: the number is from the first 2^16.
        index.map_or(u64::from(sequence), |index| index % MODULUS)
    }

    /// A packet with this index is authentic.
    pub(super) fn accept(&mut self, index: u64) {
        self.0 = self.0.max(index);
    }
}

/// The packets that have come, as a bit for each before the latest one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReplayWindow {
    latest: u64,
    seen: u128,
}

impl ReplayWindow {
    pub(super) fn is_new(&self, index: u64) -> bool {
        match self.latest.checked_sub(index) {
            None => true,
            Some(_) if self.seen == 0 => true,
            Some(behind) => behind < WINDOW && self.seen & (1 << behind) == 0,
        }
    }

    /// A packet with this index is authentic.
    pub(super) fn accept(&mut self, index: u64) {
        if self.seen == 0 {
            (self.latest, self.seen) = (index, 1);
        } else if let Some(behind) = self.latest.checked_sub(index) {
            if behind < WINDOW {
                self.seen |= 1 << behind;
            }
        } else {
            let ahead = u32::try_from(index - self.latest).unwrap_or(u32::MAX);
            self.seen = self.seen.checked_shl(ahead).unwrap_or(0) | 1;
            self.latest = index;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_index_counts_on_when_numbers_begin_again() {
        let mut last = RtpIndex::starting_at(u16::MAX - 1);
        for (sequence, index) in [
            (u16::MAX, 65_535),
            (1, 65_537),
            (0, 65_536),
            (65_534, 65_534),
        ] {
            assert_eq!(last.estimate(sequence), index);
            last.accept(index);
        }
        assert_eq!(last, RtpIndex(65_537));
        // One that was on its way before the first one.
        assert_eq!(RtpIndex::starting_at(3).estimate(1), 1);
        assert_eq!(RtpIndex::starting_at(3).estimate(65_535), 65_535);
    }

    #[test]
    fn what_is_too_old_to_tell_is_not_new() {
        let mut window = ReplayWindow::default();
        assert!(window.is_new(0));
        window.accept(1_000);
        assert!(window.is_new(1_000 - WINDOW + 1) && !window.is_new(1_000 - WINDOW));
        assert!(!window.is_new(1_000));
        window.accept(1_000_000);
        assert!(!window.is_new(1_000), "far behind");
    }

    proptest! {
        /// Each index is new once.
        #[test]
        fn nothing_is_accepted_twice(indices in prop::collection::vec(0_u64..300, 1..200)) {
            let mut window = ReplayWindow::default();
            let mut accepted = BTreeSet::new();
            for index in indices {
                if window.is_new(index) {
                    prop_assert!(accepted.insert(index));
                    window.accept(index);
                } else {
                    let latest = accepted.last().copied().unwrap_or(0);
                    prop_assert!(accepted.contains(&index) || latest - index >= WINDOW);
                }
            }
        }

        /// With no gap of 2^15 numbers the index is the number of the packet.
        #[test]
        fn indices_follow_the_packets(first in 0_u64..32_768, steps in prop::collection::vec(1_u64..20_000, 1..100)) {
            let mut last = RtpIndex::starting_at(first as u16);
            let mut index = first;
            for step in steps {
                index += step;
                prop_assert_eq!(last.estimate(index as u16), index);
                last.accept(index);
            }
        }
    }
}
