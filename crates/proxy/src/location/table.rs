//! The bindings in memory: a table in shards, each behind a lock of its own, which is held for the
//! time of one look-up or change.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ahash::RandomState;
use hashbrown::HashTable;

use super::backend::LocationStatistics;
use super::record::Record;
use crate::core::{AddressOfRecord, Answer, Binding};

/// All addresses of record that are known, with their bindings.
#[derive(Debug)]
pub(super) struct Table {
    hasher: RandomState,
    /// What the instants in records count from.
    epoch: Instant,
    shards: Box<[Mutex<Shard>]>,
    bounds: Bounds,
    addresses: AtomicUsize,
    bindings: AtomicUsize,
    octets: AtomicUsize,
    /// When the next shard is looked through, in milliseconds since the epoch.
    next_sweep: AtomicU64,
    /// How many shards have been looked through.
    swept: AtomicUsize,
}

/// How much a table holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) addresses: usize,
    pub(super) octets: usize,
}

#[derive(Debug, Default)]
struct Shard {
    records: HashTable<Record>,
    /// What records are written in.
    scratch: Vec<u8>,
}

/// So many that a worker seldom waits for another, and that one of them is soon looked through.
const SHARDS: usize = 64;

/// In how much time all shards are looked through for what has expired.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// What a record takes besides its octets: its place in the table and the allocator's part.
const RECORD_OVERHEAD: usize = 48;

impl Table {
    pub(super) fn new(hasher: RandomState, epoch: Instant, bounds: Bounds) -> Table {
        Table {
            hasher,
            epoch,
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            bounds,
            addresses: AtomicUsize::new(0),
            bindings: AtomicUsize::new(0),
            octets: AtomicUsize::new(0),
            next_sweep: AtomicU64::new(0),
            swept: AtomicUsize::new(0),
        }
    }

    /// The place of an address of record; nobody else comes near it as long as it is held.
    pub(super) fn entry<'a>(&'a self, address: &'a str) -> Entry<'a> {
        let hash = self.hasher.hash_one(address);
        // Not the bits by which the table itself is ordered.
        let shard = (hash >> 24) as usize % SHARDS;
        Entry {
            table: self,
            shard: lock(&self.shards[shard]),
            hash,
            address,
        }
    }

    /// What instants in records count from.
    pub(super) fn epoch(&self) -> Instant {
        self.epoch
    }

    /// The bindings of an address of record.
    pub(super) fn look_up(&self, address: &AddressOfRecord) -> Answer {
        match self.entry(address.as_str()).bindings() {
            Some(bindings) => Answer::Bindings(bindings.into()),
            None => Answer::Unknown,
        }
    }

    /// What is counted here; the rest is zero.
    pub(super) fn statistics(&self) -> LocationStatistics {
        LocationStatistics {
            addresses_of_record: self.addresses.load(Relaxed) as u64,
            bindings: self.bindings.load(Relaxed) as u64,
            octets: self.octets.load(Relaxed) as u64,
            ..LocationStatistics::default()
        }
    }

    /// The shard that it is time to look through, if any: each comes up once in
    /// [`SWEEP_INTERVAL`], and whoever asks first sees to it.
    pub(super) fn due_shard(&self, now: Instant) -> Option<usize> {
        let elapsed = now.saturating_duration_since(self.epoch).as_millis() as u64;
        let due = self.next_sweep.load(Relaxed);
        if elapsed < due {
            return None;
        }
        let next = elapsed + SWEEP_INTERVAL.as_millis() as u64 / SHARDS as u64;
        self.next_sweep
            .compare_exchange(due, next, Relaxed, Relaxed)
            .ok()?;
        Some(self.swept.fetch_add(1, Relaxed) % SHARDS)
    }

    /// All shards.
    pub(super) fn shards() -> impl Iterator<Item = usize> {
        0..SHARDS
    }

    /// Up to so many addresses of record of a shard of which a binding has expired.
    pub(super) fn expired(&self, shard: usize, now: Instant, limit: usize) -> Vec<Box<str>> {
        self.addresses_where(shard, limit, |record| record.has_expired(now, self.epoch))
    }

    /// Up to so many addresses of record of a shard that have no bindings.
    pub(super) fn without_bindings(&self, shard: usize, limit: usize) -> Vec<Box<str>> {
        self.addresses_where(shard, limit, |record| record.count() == 0)
    }

    fn addresses_where(
        &self,
        shard: usize,
        limit: usize,
        is_wanted: impl Fn(&Record) -> bool,
    ) -> Vec<Box<str>> {
        let Some(shard) = self.shards.get(shard) else {
            return Vec::new();
        };
        lock(shard)
            .records
            .iter()
            .filter(|record| is_wanted(record))
            .take(limit)
            .map(|record| record.address().into())
            .collect()
    }

    /// Takes or gives back room for a record in place of another; `false` where there is not enough.
    /// What takes no more than before always finds it.
    fn exchange(&self, old: Option<usize>, new: Option<usize>) -> bool {
        let old_octets = old.map_or(0, |octets| octets + RECORD_OVERHEAD);
        let new_octets = new.map_or(0, |octets| octets + RECORD_OVERHEAD);
        let is_new = old.is_none() && new.is_some();
        if is_new {
            let taken = self.addresses.try_update(Relaxed, Relaxed, |count| {
                (count < self.bounds.addresses).then_some(count + 1)
            });
            if taken.is_err() {
                return false;
            }
        }
        let taken = self.octets.try_update(Relaxed, Relaxed, |octets| {
            let octets = octets - old_octets + new_octets;
            (new_octets <= old_octets || octets <= self.bounds.octets).then_some(octets)
        });
        if is_new && taken.is_err() || old.is_some() && new.is_none() {
            self.addresses.fetch_sub(1, Relaxed);
        }
        taken.is_ok()
    }
}

/// The place of one address of record in the table, locked.
pub(super) struct Entry<'a> {
    table: &'a Table,
    shard: MutexGuard<'a, Shard>,
    hash: u64,
    address: &'a str,
}

impl Entry<'_> {
    /// What is there; `None` where the address of record is not known.
    pub(super) fn record(&self) -> Option<&Record> {
        self.shard
            .records
            .find(self.hash, |record| record.address() == self.address)
    }

    /// The bindings that are there; `None` where the address of record is not known.
    pub(super) fn bindings(&self) -> Option<Vec<Binding>> {
        Some(self.record()?.bindings(self.table.epoch))
    }

    /// Writes a record for this address of record, to be [put](Entry::put) here or not.
    pub(super) fn write(&mut self, number: u64, bindings: &[Binding]) -> Record {
        let scratch = &mut self.shard.scratch;
        Record::new(scratch, self.address, number, bindings, self.table.epoch)
    }

    /// Whether [`put`](Entry::put) would find room, were it called now.
    pub(super) fn has_room(&self, record: &Record) -> bool {
        let table = self.table;
        let octets = table.octets.load(Relaxed);
        match self.record().map(Record::octets) {
            Some(old) => {
                record.octets() <= old || octets - old + record.octets() <= table.bounds.octets
            }
            None => {
                table.addresses.load(Relaxed) < table.bounds.addresses
                    && octets + record.octets() + RECORD_OVERHEAD <= table.bounds.octets
            }
        }
    }

    /// Puts a record in place of what is there. `false`, and nothing has changed, where there is no
    /// room for it.
    pub(super) fn put(&mut self, record: Record) -> bool {
        let table = self.table;
        let old = self
            .shard
            .records
            .find_mut(self.hash, |record| record.address() == self.address);
        let old_octets = old.as_ref().map(|old| old.octets());
        if !table.exchange(old_octets, Some(record.octets())) {
            return false;
        }
        table.bindings.fetch_add(record.count(), Relaxed);
        match old {
            Some(old) => {
                table.bindings.fetch_sub(old.count(), Relaxed);
                old.replace(record);
            }
            None => {
                let hasher = |record: &Record| table.hasher.hash_one(record.address());
                self.shard.records.insert_unique(self.hash, record, hasher);
            }
        }
        true
    }

    /// Forgets the address of record.
    pub(super) fn remove(&mut self) {
        let found = self
            .shard
            .records
            .find_entry(self.hash, |record| record.address() == self.address);
        if let Ok(found) = found {
            let (old, _) = found.remove();
            self.table.exchange(Some(old.octets()), None);
            self.table.bindings.fetch_sub(old.count(), Relaxed);
        }
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
