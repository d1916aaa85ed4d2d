//! The store in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use rand_chacha::ChaCha12Rng;

use super::backend::{Backend, LocationStatistics, StoreQuery};
use super::mailbox::Mailbox;
use super::table::Table;
use super::url::{Opened, Scheme};
use super::users::{User, UserTable, Users};
use super::{EmptyTables, LocationConfig};
use crate::core::{AddressOfRecord, Answer, Bindings, QueryId, Update};

/// `memory:`: in memory; what is registered ends with the process.
pub(super) static SCHEME: Scheme = Scheme {
    name: "memory",
    form: "memory:",
    is_valid: str::is_empty,
    keeps_users: false,
    open,
};

fn open(config: &LocationConfig, rng: &mut ChaCha12Rng) -> Opened {
    let empty = EmptyTables::new(config, rng);
    Ok(Arc::new(MemoryStore::new(empty, &config.users)))
}

/// Bindings by address of record. An address of record that has been registered stays known when its
/// bindings are gone, for as long as there is room: calls to it are answered 480, not 404.
#[derive(Debug)]
struct MemoryStore {
    table: Table,
    users: Users,
    seed: [u8; 32],
    updates: AtomicU64,
    /// When addresses of record without bindings may be forgotten again to make room, in milliseconds
    /// since the table's epoch.
    next_forgetting: AtomicU64,
}

/// How often at most a full store looks for what it can forget, in milliseconds.
const FORGETTING_INTERVAL: u64 = 1000;

impl MemoryStore {
    fn new(empty: EmptyTables, users: &[User]) -> MemoryStore {
        let EmptyTables {
            table,
            users: all,
            seed,
            ..
        } = empty;
        let mut user_table = UserTable::default();
        for user in users {
            all.add(&mut user_table, user);
        }
        all.replace(user_table);
        MemoryStore {
            table,
            users: all,
            seed,
            updates: AtomicU64::new(0),
            next_forgetting: AtomicU64::new(0),
        }
    }

    fn update(&self, now: Instant, address: &AddressOfRecord, update: &Update) -> Answer {
        match self.try_update(address, update) {
            Answer::Full if self.make_room(now) => self.try_update(address, update),
            answer => answer,
        }
    }

    fn try_update(&self, address: &AddressOfRecord, update: &Update) -> Answer {
        let mut entry = self.table.entry(address.as_str());
        let record = entry.record();
        let is_known = record.is_some();
        let changed = match record {
            Some(record) => record.updated(update, self.table.epoch()),
            None => update.apply_to(Vec::new()).map(Bindings::from),
        };
        let changed = match changed {
            Ok(bindings) => bindings,
            Err(error) => return Answer::Refused(error),
        };
        // Nobody becomes known by removing what is not there.
        if is_known || !changed.is_empty() {
            if !entry.put(0, &changed) {
                return Answer::Full;
            }
            self.updates.fetch_add(1, Relaxed);
        }
        Answer::Bindings(changed)
    }

    /// Forgets what has expired and who has no bindings. `false` where that was done just now.
    fn make_room(&self, now: Instant) -> bool {
        let elapsed = now
            .saturating_duration_since(self.table.epoch())
            .as_millis() as u64;
        let due = self.next_forgetting.load(Relaxed);
        let is_mine = elapsed >= due
            && self
                .next_forgetting
                .compare_exchange(due, elapsed + FORGETTING_INTERVAL, Relaxed, Relaxed)
                .is_ok();
        if is_mine {
            for shard in Table::shards() {
                self.remove_expired(shard, now);
                for address in self.table.without_bindings(shard, usize::MAX) {
                    let mut entry = self.table.entry(&address);
                    if entry.record().is_some_and(|record| record.count() == 0) {
                        entry.remove();
                    }
                }
            }
        }
        is_mine
    }

    fn remove_expired(&self, shard: usize, now: Instant) {
        for address in self.table.expired(shard, now, usize::MAX) {
            let mut entry = self.table.entry(&address);
            let mut left = entry.bindings().unwrap_or_default();
            left.retain(|binding| binding.expires() > now);
            entry.set(0, &left);
        }
    }
}

impl Backend for MemoryStore {
    fn ask(&self, now: Instant, _: QueryId, query: StoreQuery, _: &Arc<Mailbox>) -> Option<Answer> {
        Some(match query {
            StoreQuery::Lookup(address) => self.table.look_up(&address),
            StoreQuery::Update(address, update) => self.update(now, &address, &update),
            StoreQuery::Credentials { realm, username } => self.users.answer(&realm, &username),
            StoreQuery::Page { from, limit } => Answer::Page(self.table.page(from, limit)),
        })
    }

    fn seed(&self) -> [u8; 32] {
        self.seed
    }

    fn maintain(&self, now: Instant) {
        if let Some(shard) = self.table.due_shard(now) {
            self.remove_expired(shard, now);
        }
    }

    fn statistics(&self) -> LocationStatistics {
        LocationStatistics {
            updates: self.updates.load(Relaxed),
            users: self.users.len() as u64,
            ..self.table.statistics()
        }
    }
}
