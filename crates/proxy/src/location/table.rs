//! The bindings in memory: a table in shards, each behind a lock of its own, which is held for the
//! time of one look-up or change.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ahash::RandomState;
use hashbrown::HashTable;

use super::backend::LocationStatistics;
use super::record::{self, Record};
use crate::core::{AddressOfRecord, Answer, Binding, Page, Place};

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

/// What records use of the bounds, or how much more than the records that they replace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    addresses: isize,
    octets: isize,
}

#[derive(Debug, Default)]
struct Shard {
    records: HashTable<Record>,
    /// What a record is written in first, so that it takes no more than its length.
    draft: Vec<u8>,
}

/// So many that a worker seldom waits for another, and that one of them is soon looked through.
const SHARDS: usize = 64;

/// Above which bits of its hash the number of an address of record's shard stands.
const SHARD_SHIFT: u32 = 24;

/// In how much time all shards are looked through for what has expired.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// The longest draft whose memory is kept for the next.
const DRAFT_OCTETS: usize = 4096;

/// What a record takes besides its octets: its place in the table and the allocator's part.
const RECORD_OVERHEAD: usize = 48;

impl Usage {
    /// Replaces a record by another; each is given by its length in octets.
    pub(super) fn replace(&mut self, old: Option<usize>, new: Option<usize>) {
        for (octets, sign) in [(old, -1), (new, 1)] {
            if let Some(octets) = octets {
                self.addresses += sign;
                self.octets += sign * (octets + RECORD_OVERHEAD).cast_signed();
            }
        }
    }
}

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
        Entry {
            table: self,
            shard: lock(&self.shards[shard_at(place_of(hash))]),
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
        match self.entry(address.as_str()).record() {
            Some(record) => Answer::Bindings(record.shared_bindings(self.epoch)),
            None => Answer::Unknown,
        }
    }

    /// Up to so many addresses of record that have bindings, from a place on in the order of their hashes. That does not
    /// change when others come or go, so that nobody is left out.
    pub(super) fn page(&self, from: Place, limit: usize) -> Page {
        let limit = limit.max(1);
        let mut users = Vec::new();
        let mut from = from.0;
        loop {
            let number = shard_at(from);
            let is_cut = {
                let shard = lock(&self.shards[number]);
                let places = shard.records.iter().filter(|record| record.count() > 0);
                let places =
                    places.map(|record| (place_of(self.hasher.hash_one(record.address())), record));
                let mut found: Vec<(u64, &Record)> =
                    places.filter(|(place, _)| *place >= from).collect();
                // Those with one place stay together: the next page begins behind it.
                let left = limit - users.len();
                found.sort_unstable_by_key(|(place, _)| *place);
                let last = found.get(left - 1).map(|(place, _)| *place);
                let end = last.map_or(found.len(), |last| {
                    found.partition_point(|(place, _)| *place <= last)
                });
                let is_cut = end < found.len();
                if let Some(last) = last.filter(|_| is_cut) {
                    from = last + 1;
                }
                users.extend(found[..end].iter().filter_map(|(_, record)| {
                    let address = AddressOfRecord::from_stored(record.address())?;
                    Some((address, record.bindings(self.epoch).into()))
                }));
                is_cut
            };
            if is_cut {
                break;
            }
            if number + 1 == SHARDS {
                return Page { users, next: None };
            }
            from = first_place(number + 1);
            if users.len() >= limit {
                break;
            }
        }
        Page {
            users,
            next: Some(Place(from)),
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

    /// Whether `wanted` more fits within the bounds, of which `taken` is not counted in the table yet. What uses no more
    /// than before always fits.
    pub(super) fn has_room(&self, taken: Usage, wanted: Usage) -> bool {
        let fits = |count: &AtomicUsize, wanted: isize, bound: usize| {
            count
                .load(Relaxed)
                .checked_add_signed(wanted)
                .is_none_or(|sum| sum <= bound)
        };
        (wanted.addresses <= taken.addresses
            || fits(&self.addresses, wanted.addresses, self.bounds.addresses))
            && (wanted.octets <= taken.octets
                || fits(&self.octets, wanted.octets, self.bounds.octets))
    }

    fn count(&self, usage: Usage, bindings: isize) {
        let add = |count: &AtomicUsize, change: isize| {
            count.fetch_add(change.cast_unsigned(), Relaxed);
        };
        add(&self.addresses, usage.addresses);
        add(&self.octets, usage.octets);
        add(&self.bindings, bindings);
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
        let records = &self.shard.records;
        records.find(self.hash, |record| record.is_of(self.address))
    }

    /// The bindings that are there; `None` where the address of record is not known.
    pub(super) fn bindings(&self) -> Option<Vec<Binding>> {
        Some(self.record()?.bindings(self.table.epoch))
    }

    /// Puts bindings in place of what is there. `false`, and nothing has changed, where there is no
    /// room for them. Several that are put at once into different shards may each find the same last room.
    pub(super) fn put(&mut self, number: u64, bindings: &[Binding]) -> bool {
        self.write_and_set(number, bindings, true)
    }

    /// Puts bindings in place of what is there, whether there is room or not.
    pub(super) fn set(&mut self, number: u64, bindings: &[Binding]) {
        self.write_and_set(number, bindings, false);
    }

    fn write_and_set(&mut self, number: u64, bindings: &[Binding], is_bounded: bool) -> bool {
        let mut draft = std::mem::take(&mut self.shard.draft);
        record::write(&mut draft, self.address, number, bindings, self.table.epoch);
        let is_set = self.set_written(&draft, bindings.len(), is_bounded);
        draft.clear();
        draft.shrink_to(DRAFT_OCTETS);
        self.shard.draft = draft;
        is_set
    }

    /// Puts a record of so many bindings, as it is written, in place of what is there. `false` where it is to
    /// be within the bounds, and is not.
    pub(super) fn set_written(&mut self, written: &[u8], count: usize, is_bounded: bool) -> bool {
        let table = self.table;
        let mut usage = Usage::default();
        let mut bindings = count.cast_signed();
        let old = self
            .shard
            .records
            .find_mut(self.hash, |record| record.is_of(self.address));
        usage.replace(old.as_deref().map(Record::octets), Some(written.len()));
        if is_bounded && !table.has_room(Usage::default(), usage) {
            return false;
        }
        match old {
            Some(old) => {
                bindings -= old.count().cast_signed();
                old.become_written(written);
            }
            None => {
                let hasher = |record: &Record| table.hasher.hash_one(record.address());
                let record = Record::new(written);
                self.shard.records.insert_unique(self.hash, record, hasher);
            }
        }
        table.count(usage, bindings);
        true
    }

    /// Forgets the address of record.
    pub(super) fn remove(&mut self) {
        let found = self
            .shard
            .records
            .find_entry(self.hash, |record| record.is_of(self.address));
        if let Ok(found) = found {
            let (old, _) = found.remove();
            let mut usage = Usage::default();
            usage.replace(Some(old.octets()), None);
            self.table.count(usage, -old.count().cast_signed());
        }
    }
}

/// The place of an address of record in the order in which all are gone through: shard by shard, whose number is in
/// bits of its hash by which the table itself is not ordered.
fn place_of(hash: u64) -> u64 {
    hash.rotate_right(SHARD_SHIFT + SHARDS.ilog2())
}

/// The shard that a place is in.
fn shard_at(place: u64) -> usize {
    (place >> (u64::BITS - SHARDS.ilog2())) as usize
}

/// The first place of a shard.
fn first_place(shard: usize) -> u64 {
    (shard as u64) << (u64::BITS - SHARDS.ilog2())
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
