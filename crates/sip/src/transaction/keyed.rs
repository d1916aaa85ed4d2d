//! Transactions by number and by key.

use ahash::RandomState;
use hashbrown::HashTable;

use super::table::Table;

/// The transactions of one side: a [`Table`] whose entries are found by their keys too.
#[derive(Debug)]
pub(super) struct Keyed<T> {
    table: Table<(Box<[u8]>, T)>,
    /// The numbers of the entries, ordered by their keys.
    by_key: HashTable<u64>,
    hasher: RandomState,
    /// The key that is looked for, or that the next entry gets.
    sought: Vec<u8>,
}

impl<T> Keyed<T> {
    pub(super) fn new(hasher: RandomState) -> Keyed<T> {
        Keyed {
            table: Table::new(),
            by_key: HashTable::new(),
            hasher,
            sought: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        self.table.contains(number)
    }

    /// Where a key is written before [`find`](Keyed::find) or [`insert`](Keyed::insert).
    pub(super) fn sought(&mut self) -> &mut Vec<u8> {
        &mut self.sought
    }

    /// What has the key that was written.
    pub(super) fn find(&mut self) -> Option<(u64, &mut T)> {
        let hash = self.hasher.hash_one(&self.sought[..]);
        let has_key = |number: &u64| key(&self.table, *number) == &self.sought[..];
        let number = *self.by_key.find(hash, has_key)?;
        Some((number, self.get_mut(number)?))
    }

    /// Puts something in under the key that was written, which nothing else has, and returns its
    /// number.
    pub(super) fn insert(&mut self, item: T) -> u64 {
        let hash = self.hasher.hash_one(&self.sought[..]);
        let number = self.table.insert((self.sought.as_slice().into(), item));
        self.by_key.insert_unique(hash, number, |number| {
            self.hasher.hash_one(key(&self.table, *number))
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
        let (key, item) = self.table.remove(number)?;
        let hash = self.hasher.hash_one(&*key);
        if let Ok(entry) = self.by_key.find_entry(hash, |other| *other == number) {
            entry.remove();
        }
        Some(item)
    }

    /// The hash function of the keys.
    pub(super) fn hasher(&self) -> &RandomState {
        &self.hasher
    }
}

/// The key of an entry; empty where there is none.
fn key<T>(table: &Table<(Box<[u8]>, T)>, number: u64) -> &[u8] {
    table.get(number).map_or(&[], |(key, _)| key)
}
