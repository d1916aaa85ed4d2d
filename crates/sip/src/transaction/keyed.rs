//! Transactions by number and by key.

use siphasher::sip128::{Hash128, Hasher128, SipHasher13};
use std::hash::Hasher;

use super::index::Index;
use super::table::{Entry, Table, split};

/// The transactions of one side: a [`Table`] whose entries are found by their keys too.
///
/// Kept is not the key but its hash, of 128 bits and under a secret of ours: nobody can find two keys that
/// share one, and among any number of transactions that could be, none do by chance.
#[derive(Debug)]
pub(super) struct Keyed<T> {
    table: Table<Hashed<T>>,
    /// The places of the entries, by half of their hashes' lower half.
    by_key: Index,
    hasher: SipHasher13,
    /// The key that is looked for.
    sought: Vec<u8>,
    /// That of the key that was looked for last.
    sought_hash: Hash128,
}

/// An entry with the hash of its key before it.
#[derive(Debug)]
#[repr(C)]
struct Hashed<T> {
    hash: Hash128,
    item: T,
}

impl<T: Entry> Entry for Hashed<T> {
    fn vacate(&mut self) {
        self.item.vacate();
    }
}

impl<T: Entry> Keyed<T> {
    /// `secret` has to be unknown to those whose messages make the keys.
    pub(super) fn new(secret: [u64; 2]) -> Keyed<T> {
        let [one, other] = secret;
        Keyed {
            table: Table::new(),
            by_key: Index::new(),
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
        let mut number = None;
        self.by_key.find(half(hash), |place| {
            let found = self.table.at(place).filter(|(_, entry)| entry.hash == hash);
            number = found.map(|(number, _)| number);
            number.is_some()
        });
        let number = number?;
        Some((number, self.get_mut(number)?))
    }

    /// Puts something in under the key that was looked for last and not found, and returns its number.
    pub(super) fn insert(&mut self, item: T) -> u64 {
        let hash = self.sought_hash;
        let number = self.table.insert(Hashed { hash, item });
        self.by_key.insert(half(hash), split(number).0 as u32);
        number
    }

    pub(super) fn get(&self, number: u64) -> Option<&T> {
        self.table.get(number).map(|entry| &entry.item)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        self.table.get_mut(number).map(|entry| &mut entry.item)
    }

    pub(super) fn remove(&mut self, number: u64) {
        if let Some(entry) = self.table.get(number) {
            self.by_key.remove(half(entry.hash), split(number).0 as u32);
            self.table.remove(number);
        }
    }

    /// Reads what has to be at hand for [`get`](Keyed::get) and [`remove`](Keyed::remove): of several entries that have
    /// not been of use for long, all at a time and not one after the other. What it returns has no meaning.
    pub(super) fn prefetch(&self, number: u64) -> u64 {
        let entry = self.table.get(number);
        entry.map_or(0, |entry| self.by_key.prefetch(half(entry.hash)))
    }
}

/// What an entry is looked for by in the index.
fn half(hash: Hash128) -> u32 {
    hash.h1 as u32
}
