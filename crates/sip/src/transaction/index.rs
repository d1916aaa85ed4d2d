//! Places by the hashes of their keys.

/// An open hash table whose slots have eight octets, half a hash and a place: what is looked for is there or is not,
/// mostly by one line of the processor's cache, among however many there are.
#[derive(Debug)]
pub(super) struct Index {
    /// Their number is a power of two. At least half of them are empty.
    slots: Vec<Slot>,
    length: usize,
}

/// The hash in the upper half and one more than the place in the lower; 0 where it is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot(u64);

const EMPTY: Slot = Slot(0);

/// How many slots there are at first.
const FIRST: usize = 16;

impl Slot {
    fn new(hash: u32, place: u32) -> Slot {
        Slot(u64::from(hash) << 32 | (u64::from(place) + 1))
    }

    fn hash(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn place(self) -> u32 {
        (self.0 as u32).wrapping_sub(1)
    }
}

impl Index {
    pub(super) fn new() -> Index {
        Index {
            slots: vec![EMPTY; FIRST],
            length: 0,
        }
    }

    /// The place with this hash of which `is_it` is true.
    pub(super) fn find(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = self.home(hash);
        loop {
            let slot = self.slots[at];
            if slot == EMPTY {
                return None;
            }
            if slot.hash() == hash && is_it(slot.place()) {
                return Some(slot.place());
            }
            at = self.after(at);
        }
    }

    /// Puts a place in, which is not there.
    pub(super) fn insert(&mut self, hash: u32, place: u32) {
        self.length += 1;
        if self.length * 2 > self.slots.len() {
            let doubled = vec![EMPTY; self.slots.len() * 2];
            let slots = std::mem::replace(&mut self.slots, doubled);
            for slot in slots.into_iter().filter(|slot| *slot != EMPTY) {
                self.put(slot);
            }
        }
        self.put(Slot::new(hash, place));
    }

    /// Takes a place out, if it is there.
    pub(super) fn remove(&mut self, hash: u32, place: u32) {
        let sought = Slot::new(hash, place);
        let mut hole = self.home(hash);
        while self.slots[hole] != sought {
            if self.slots[hole] == EMPTY {
                return;
            }
            hole = self.after(hole);
        }
        self.length -= 1;
        // What stands behind it moves up where it may, so that nothing is ever looked for across a hole.
        let mut at = self.after(hole);
        while self.slots[at] != EMPTY {
            let slot = self.slots[at];
            let distance = |from: usize| at.wrapping_sub(from) & (self.slots.len() - 1);
            if distance(self.home(slot.hash())) >= distance(hole) {
                self.slots[hole] = slot;
                hole = at;
            }
            at = self.after(at);
        }
        self.slots[hole] = EMPTY;
    }

    /// What is read of the table first when this hash is looked for.
    pub(super) fn prefetch(&self, hash: u32) -> u64 {
        self.slots[self.home(hash)].0
    }

    fn put(&mut self, slot: Slot) {
        let mut at = self.home(slot.hash());
        while self.slots[at] != EMPTY {
            at = self.after(at);
        }
        self.slots[at] = slot;
    }

    fn home(&self, hash: u32) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Hashes that crowd at both ends of the table, and many that are the same.
        #[test]
        fn what_was_put_in_is_found_until_it_is_taken_out(
            steps in prop::collection::vec((any::<bool>(), 0..40_u32, 0..40_u32), 0..400),
        ) {
            let mut index = Index::new();
            let mut model = BTreeMap::new();
            let spread = |number: u32| (number % 5).wrapping_sub(2) ^ (number / 20) << 30;
            for (is_put, number, place) in steps {
                if is_put && !model.contains_key(&place) {
                    index.insert(spread(number), place);
                    model.insert(place, spread(number));
                } else if !is_put {
                    let hash = model.remove(&place);
                    index.remove(hash.unwrap_or(spread(number)), place);
                }
                prop_assert_eq!(index.length, model.len());
                for place in 0..40 {
                    for number in 0..40 {
                        let hash = spread(number);
                        let expected = (model.get(&place) == Some(&hash)).then_some(place);
                        prop_assert_eq!(index.find(hash, |found| found == place), expected);
                    }
                }
            }
        }
    }

    #[test]
    fn it_grows_as_it_fills() {
        let mut index = Index::new();
        for place in 0..10_000_u32 {
            index.insert(place.wrapping_mul(0x9e37_79b9), place);
        }
        for place in 0..10_000_u32 {
            let hash = place.wrapping_mul(0x9e37_79b9);
            assert_eq!(index.find(hash, |found| found == place), Some(place));
            assert_eq!(index.find(hash, |_| false), None);
            index.remove(hash, place);
            assert_eq!(index.find(hash, |found| found == place), None);
        }
        assert_eq!((index.length, index.slots.len()), (0, 32_768));
    }
}
