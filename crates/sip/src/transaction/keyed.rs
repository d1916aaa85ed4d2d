//! Transactions by number and by key.

use hashbrown::HashTable;
use siphasher::sip128::{Hash128, Hasher128, SipHasher13};
use std::hash::Hasher;

use super::table::Table;

/// The transactions of one side: a [`Table`] whose entries are found by their keys too.
///
/// Kept is not the key but its hash, of 128 bits and under a secret of ours: nobody can find two keys that
/// share one, and among any number of transactions that could be, none do by chance.
#[derive(Debug)]
pub(super) struct Keyed<T> {
    table: Table<(Hash128, T)>,
    /// The numbers of the entries, ordered by their keys.
    by_key: HashTable<u64>,
    hasher: SipHasher13,
    /// The key that is looked for.
    sought: Vec<u8>,
    /// That of the key that was looked for last.
    sought_hash: Hash128,
}

impl<T> Keyed<T> {
    /// `secret` has to be unknown to those whose messages make the keys.
    pub(super) fn new(secret: [u64; 2]) -> Keyed<T> {
        let [one, other] = secret;
        Keyed {
            table: Table::new(),
            by_key: HashTable::new(),
            hasher: SipHasher13::new_with_keys(one, other),
            sought: Vec::new(),
            sought_hash: Hash128 { h1: 0, h2: 0 },
        }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        self.table.contains(number)
    }

    /// Where a key is written before [`find`](Keyed::find).
    pub(super) fn sought(&mut self) -> &mut Vec<u8> {
        &mut self.sought
    }

    /// What has the key that was written.
    pub(super) fn find(&mut self) -> Option<(u64, &mut T)> {
        let mut hasher = self.hasher;
        hasher.write(&self.sought);
        let hash = hasher.finish128();
        self.sought_hash = hash;
        let has_key = |number: &u64| key(&self.table, *number) == Some(hash);
        let number = *self.by_key.find(hash.h1, has_key)?;
        Some((number, self.get_mut(number)?))
    }

    /// Puts something in under the key that was looked for last and not found, and returns its number.
    pub(super) fn insert(&mut self, item: T) -> u64 {
        let hash = self.sought_hash;
        let number = self.table.insert((hash, item));
        self.by_key.insert_unique(hash.h1, number, |number| {
            key(&self.table, *number).map_or(0, |hash| hash.h1)
        });
        number
    }

    pub(super) fn get(&self, number: u64) -> Option<&T> {
        self.table.get(number).map(|(_, item)| item)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        self.table.get_mut(number).map(|(_, item)| item)
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<T> {
        let (hash, item) = self.table.remove(number)?;
        if let Ok(entry) = self.by_key.find_entry(hash.h1, |other| *other == number) {
            entry.remove();
        }
        Some(item)
    }
}

/// The hash of an entry's key.
fn key<T>(table: &Table<(Hash128, T)>, number: u64) -> Option<Hash128> {
    table.get(number).map(|(hash, _)| *hash)
}
