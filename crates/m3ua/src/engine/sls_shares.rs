//! Who gets the messages with which SLS.

use std::collections::BTreeMap;

use super::config::PeerId;

/// Values that an SLS can have.
pub(crate) const SLS_VALUES: usize = 256;

/// The peer of each SLS. Messages with one SLS go to one peer, so that they stay in order.
#[derive(Debug, Default)]
pub(crate) struct SlsShares {
    by_sls: Vec<PeerId>,
}

impl SlsShares {
    /// The peer for messages with this SLS.
    pub(crate) fn of(&self, sls: u8) -> Option<PeerId> {
        self.by_sls.get(usize::from(sls)).copied()
    }

    /// Shares the values among these peers as evenly as it goes, and moves no more of them than that takes.
    pub(crate) fn share(&mut self, active: &[PeerId]) {
        if active.is_empty() {
            self.by_sls.clear();
            return;
        }
        // Networks with 16 values of SLS use the first ones only, those with 32 twice as many: each of these groups is
        // shared by itself.
        let mut shared = Vec::with_capacity(SLS_VALUES);
        let mut start = 0;
        for end in [16, 32, SLS_VALUES] {
            let before = self.by_sls.get(start..end).unwrap_or_default();
            shared.extend(shared_evenly(before, end - start, active));
            start = end;
        }
        self.by_sls = shared;
    }
}

/// A share of `count` values for each of the active ones, given whose each value was `before`.
fn shared_evenly(before: &[PeerId], count: usize, active: &[PeerId]) -> Vec<PeerId> {
    let (share, rest) = (count / active.len(), count % active.len());
    let mut kept: BTreeMap<PeerId, usize> = active.iter().map(|peer| (*peer, 0)).collect();
    let mut larger = rest;
    let mut shared: Vec<Option<PeerId>> = vec![None; count];
    for (place, owner) in shared.iter_mut().zip(before) {
        let Some(has) = kept.get_mut(owner) else {
            continue;
        };
        // So many may have one more than the others.
        let may_keep = *has < share || (*has == share && larger > 0);
        if may_keep {
            if *has == share {
                larger -= 1;
            }
            *has += 1;
            *place = Some(*owner);
        }
    }
    let mut free = Vec::new();
    for (peer, has) in &kept {
        let mut has = *has;
        while has < share {
            free.push(*peer);
            has += 1;
        }
    }
    for (peer, has) in &kept {
        if larger > 0 && *has <= share {
            free.push(*peer);
            larger -= 1;
        }
    }
    let mut free = free.into_iter();
    let places = shared
        .into_iter()
        .filter_map(|place| place.or_else(|| free.next()));
    places.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Shares differ by one at most, and a value keeps its owner unless that is inactive or would have too many.
        #[test]
        fn values_are_shared_evenly_and_few_move(steps in prop::collection::vec(0usize..12, 1..30)) {
            let mut active: Vec<PeerId> = Vec::new();
            let mut shared: Vec<PeerId> = Vec::new();
            for step in steps {
                let peer = PeerId(step);
                match active.binary_search(&peer) {
                    Ok(position) => { active.remove(position); }
                    Err(position) => active.insert(position, peer),
                }
                if active.is_empty() {
                    shared.clear();
                    continue;
                }
                let before = shared;
                shared = shared_evenly(&before, 16, &active);
                prop_assert_eq!(shared.len(), 16);
                let counts = active.iter().map(|peer| shared.iter().filter(|it| *it == peer).count());
                let counts: Vec<usize> = counts.collect();
                let (least, most) = (counts.iter().min().copied(), counts.iter().max().copied());
                prop_assert!(most.unwrap_or(0) - least.unwrap_or(0) <= 1, "{counts:?}");
                let moved = before.iter().zip(&shared).filter(|(a, b)| a != b && active.contains(a)).count();
                prop_assert!(moved <= 16usize.div_ceil(active.len()), "{moved} of {before:?} to {shared:?}");
            }
        }
    }
}
