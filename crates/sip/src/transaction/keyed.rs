//! Transactions by number and by key.

use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;

use super::table::Table;

/// The transactions of one side: a [`Table`] whose entries are found by their keys too.
#[derive(Debug)]
pub(super) struct Keyed<T> {
    table: Table<(Arc<[u8]>, T)>,
    by_key: HashMap<Arc<[u8]>, u64, RandomState>,
    /// The key that is looked for, or that the next entry gets.
    sought: Vec<u8>,
}

impl<T> Keyed<T> {
    pub(super) fn new(hasher: RandomState) -> Keyed<T> {
        Keyed {
            table: Table::new(),
            by_key: HashMap::with_hasher(hasher),
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
        let number = *self.by_key.get(&self.sought[..])?;
        Some((number, self.get_mut(number)?))
    }

    /// Puts something in under the key that was written, and returns its number.
    pub(super) fn insert(&mut self, item: T) -> u64 {
        let key: Arc<[u8]> = self.sought.as_slice().into();
        let number = self.table.insert((Arc::clone(&key), item));
        self.by_key.insert(key, number);
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
        self.by_key.remove(&key);
        Some(item)
    }

    /// The hash function of the keys.
    pub(super) fn hasher(&self) -> &RandomState {
        self.by_key.hasher()
    }
}
