//! Values for ranges of point codes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::{MaskedPointCode, PointCode};

/// Values for ranges of point codes. A look-up takes a step for each length of range that occurs, at most 25, however many
/// ranges there are; so does the search for those inside a range, and a step for each that it finds.
#[derive(Clone, Debug)]
pub(crate) struct PointCodeMap<V> {
    /// By wildcards and prefix.
    values: HashMap<(u32, u32), V>,
    /// The same keys: the order of [`MaskedPointCode`].
    in_order: BTreeSet<(u32, u32)>,
    /// How many ranges have so many wildcards.
    lengths: BTreeMap<u32, usize>,
}

impl<V> Default for PointCodeMap<V> {
    fn default() -> PointCodeMap<V> {
        PointCodeMap {
            values: HashMap::new(),
            in_order: BTreeSet::new(),
            lengths: BTreeMap::new(),
        }
    }
}

impl<V> PointCodeMap<V> {
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn get(&self, range: MaskedPointCode) -> Option<&V> {
        self.values.get(&key(range))
    }

    pub(crate) fn get_mut(&mut self, range: MaskedPointCode) -> Option<&mut V> {
        self.values.get_mut(&key(range))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.values.values()
    }

    pub(crate) fn insert(&mut self, range: MaskedPointCode, value: V) {
        if self.values.insert(key(range), value).is_none() {
            self.in_order.insert(key(range));
            *self.lengths.entry(range.wildcards()).or_default() += 1;
        }
    }

    pub(crate) fn remove(&mut self, range: MaskedPointCode) {
        if self.values.remove(&key(range)).is_none() {
            return;
        }
        self.in_order.remove(&key(range));
        if let Some(count) = self.lengths.get_mut(&range.wildcards()) {
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&range.wildcards());
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.values.clear();
        self.in_order.clear();
        self.lengths.clear();
    }

    /// The value of the smallest range that has all of this one.
    pub(crate) fn covering(&self, range: MaskedPointCode) -> Option<&V> {
        self.all_covering(range).next()
    }

    /// The values of all ranges that have all of this one, the smallest first.
    pub(crate) fn all_covering(&self, range: MaskedPointCode) -> impl Iterator<Item = &V> {
        let lengths = self.lengths.range(range.wildcards()..);
        lengths.filter_map(move |(bits, _)| {
            let prefix = range.point_code.value() >> bits;
            self.values.get(&(*bits, prefix))
        })
    }

    /// All ranges inside this one, in order.
    pub(crate) fn inside(&self, range: MaskedPointCode) -> Vec<MaskedPointCode> {
        let (wildcards, prefix) = key(range);
        let lengths = self.lengths.range(..=wildcards);
        let found = lengths.flat_map(|(bits, _)| {
            let more = wildcards - bits;
            let (first, end) = (prefix << more, (prefix + 1) << more);
            self.in_order.range((*bits, first)..(*bits, end))
        });
        found
            .map(|(bits, prefix)| range_of(*bits, *prefix))
            .collect()
    }

    /// All ranges, in order.
    pub(crate) fn ranges(&self) -> Vec<MaskedPointCode> {
        let all = self.in_order.iter();
        all.map(|(bits, prefix)| range_of(*bits, *prefix)).collect()
    }
}

/// The same range, written as all that are the same.
pub(crate) fn canonical(range: MaskedPointCode) -> MaskedPointCode {
    range_of(range.wildcards(), range.prefix())
}

fn key(range: MaskedPointCode) -> (u32, u32) {
    (range.wildcards(), range.prefix())
}

fn range_of(bits: u32, prefix: u32) -> MaskedPointCode {
    MaskedPointCode {
        mask: u8::try_from(bits).unwrap_or(u8::MAX),
        point_code: PointCode::new(prefix << bits).unwrap_or(PointCode::MAX),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(mask: u8, value: u32) -> MaskedPointCode {
        MaskedPointCode {
            mask,
            point_code: PointCode::new(value).expect("24 bits"),
        }
    }

    proptest! {
        /// The map says what a list of ranges would.
        #[test]
        fn the_smallest_range_counts(
            ranges in prop::collection::vec((0u8..6, 0u32..64), 0..12),
            removed in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
            (mask, value) in (0u8..6, 0u32..64),
        ) {
            let mut map = PointCodeMap::default();
            let mut list: Vec<MaskedPointCode> = Vec::new();
            for (mask, value) in ranges {
                let range = range(mask, value >> mask << mask);
                map.insert(range, range);
                if !list.contains(&range) {
                    list.push(range);
                }
            }
            for index in removed {
                if !list.is_empty() {
                    map.remove(list.remove(index.index(list.len())));
                }
            }
            let asked = range(mask, value >> mask << mask);
            let expected = list.iter().filter(|it| it.mask >= mask && it.contains(asked.point_code));
            prop_assert_eq!(map.covering(asked), expected.min_by_key(|it| it.mask));
            let mut inside: Vec<_> = list
                .iter()
                .copied()
                .filter(|it| it.mask <= mask && asked.contains(it.point_code))
                .collect();
            inside.sort();
            prop_assert_eq!(map.inside(asked), inside);
            prop_assert_eq!(map.len(), list.len());
        }
    }
}
