//! Which sessions have a Call-ID, by its hash.

use hashbrown::HashTable;

/// The places of sessions by the hashes of their Call-IDs. A part of the hash stands beside the place, so that no session is
/// looked at that has another one, not even when the table grows: ten thousand of them are not in the processor's cache.
#[derive(Debug, Default)]
pub(super) struct CallIds(HashTable<(u32, u32)>);

impl CallIds {
    /// The first place of those with a hash that is the right one.
    pub(super) fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let part = part(hash);
        let found = self
            .0
            .find(spread(part), |entry| entry.0 == part && is_it(entry.1));
        found.map(|entry| entry.1)
    }

    /// Adds a place.
    pub(super) fn insert(&mut self, hash: u64, place: u32) {
        let part = part(hash);
        self.0
            .insert_unique(spread(part), (part, place), |entry| spread(entry.0));
    }

    /// Takes a place out.
    pub(super) fn remove(&mut self, hash: u64, place: u32) {
        let part = part(hash);
        let found = self
            .0
            .find_entry(spread(part), |entry| *entry == (part, place));
        if let Ok(entry) = found {
            entry.remove();
        }
    }
}

fn part(hash: u64) -> u32 {
    hash as u32
}

/// A hash of all bits, which the table needs, by a part of one: Fibonacci hashing.
fn spread(part: u32) -> u64 {
    u64::from(part).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_by_the_hash() {
        let mut table = CallIds::default();
        for place in 0..1000 {
            // Two places a hash.
            table.insert(u64::from(place / 2) << 3, place);
        }
        assert_eq!(table.find(8, |place| place == 3), Some(3));
        assert_eq!(table.find(8, |place| place == 4), None);
        table.remove(8, 3);
        table.remove(8, 4);
        assert_eq!(table.find(8, |_| true), Some(2));
        assert_eq!(
            (0..1000)
                .filter(|place| table
                    .find(u64::from(place / 2) << 3, |found| found == *place)
                    .is_some())
                .count(),
            999
        );
    }
}
