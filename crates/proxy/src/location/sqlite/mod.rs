//! The store in a database file: what is answered is on the disk.
//!
//! All bindings are in memory too, as in the store that has nothing else, and look-ups are answered
//! there at once. Changes go through a `queue` to one thread, the `writer`, which makes all that wait in
//! one transaction: what a transaction costs, above all the wait for the disk, they share. When it is
//! through, the table is changed and the answers go out; where it fails, nothing has changed.
//!
//! Another thread reads the `users` again when somebody has changed them.
//!
//! `database` opens the file, `log` is how bindings are written in it, and `schema_1` how they were, `secret`
//! what keys are made of.

mod database;
mod log;
mod path;
mod queue;
mod schema_1;
mod secret;
mod users;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rand_chacha::ChaCha12Rng;
use tracing::error;

use super::backend::{Backend, LocationStatistics, StoreQuery};
use super::mailbox::Mailbox;
use super::table::Table;
use super::url::{Opened, Scheme};
use super::users::Users;
use super::{EmptyTables, LocationConfig};
use crate::core::{Answer, Binding, QueryId};
pub use database::DatabaseError;
use database::describe;
pub(super) use path::path_of;
use queue::{QueuedUpdate, UpdateQueue};
use users::UserReader;
pub use users::{UserDatabase, UserDatabaseError};
use writer::Writer;

/// `sqlite:PATH`: in a database file, which outlives the process.
pub(super) static SCHEME: Scheme = Scheme {
    name: "sqlite",
    form: "sqlite:PATH",
    is_valid: |path| !path.is_empty(),
    keeps_users: true,
    open,
};

fn open(config: &LocationConfig, rng: &mut ChaCha12Rng) -> Opened {
    let path = path_of(&config.url).unwrap_or_default();
    let store = SqliteStore::open(&path, config, EmptyTables::new(config, rng))?;
    Ok(Arc::new(store))
}

/// The store. When the last of it is dropped what waits is still written.
#[derive(Debug)]
struct SqliteStore {
    shared: Arc<Shared>,
    seed: [u8; 32],
    /// The thread that reads users.
    reader: Option<JoinHandle<()>>,
    /// Dropped, it ends that thread.
    reading: Option<SyncSender<()>>,
    writer: Option<JoinHandle<()>>,
}

/// What the workers share with the writer.
#[derive(Debug)]
struct Shared {
    table: Table,
    users: Users,
    queue: UpdateQueue,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    updates: AtomicU64,
    failed_updates: AtomicU64,
    commits: AtomicU64,
}

/// How often it is looked whether users have changed.
const USERS_INTERVAL: Duration = Duration::from_secs(1);

impl SqliteStore {
    /// Opens the file and loads what is in it.
    fn open(
        path: &Path,
        config: &LocationConfig,
        empty: EmptyTables,
    ) -> Result<SqliteStore, DatabaseError> {
        let EmptyTables {
            table,
            users,
            hasher,
            seed,
        } = empty;
        let lock = database::lock(path)?;
        let connection = database::open(path, config.synchronous, Some(&lock))?;
        let mut reader = UserReader::new(path)?;
        let mut load = || {
            let take = |row: u64, address: &str, bindings: Option<&[Binding]>| {
                let mut place = table.entry(address);
                match bindings {
                    Some(bindings) => place.set(row, bindings),
                    None => place.remove(),
                }
            };
            let loaded = log::load(&connection, take)?;
            reader.refresh(&users)?;
            Ok((loaded, secret::seed(&connection, seed)?))
        };
        let (loaded, seed) = load().map_err(|error| describe(path, error))?;
        let shared = Arc::new(Shared {
            table,
            users,
            queue: UpdateQueue::default(),
            counters: Counters::default(),
        });
        let writer = Writer {
            connection,
            shared: Arc::clone(&shared),
            path: path.to_owned(),
            log: loaded,
            hasher,
            _lock: lock,
        };
        let (reading, stopped) = sync_channel(0);
        let mut store = SqliteStore {
            shared: Arc::clone(&shared),
            seed,
            reader: None,
            reading: Some(reading),
            writer: None,
        };
        let users_path = path.to_owned();
        store.writer = Some(spawn(path, "location", move || writer.run())?);
        store.reader = Some(spawn(path, "users", move || {
            read_users(reader, &shared.users, &stopped, &users_path);
        })?);
        Ok(store)
    }
}

/// How many entries are in the log of a file.
#[cfg(test)]
pub(super) fn count_entries(path: &Path) -> usize {
    let connection = database::open_reader(path).expect("a database");
    let loaded = log::load(&connection, |_, _, _| {});
    loaded.expect("it is whole").entries
}

fn spawn(
    path: &Path,
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, DatabaseError> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(|error| DatabaseError::Open {
            path: path.to_owned(),
            error,
        })
}

/// Keeps the users in memory as they are in the file.
fn read_users(mut reader: UserReader, users: &Users, stopped: &Receiver<()>, path: &Path) {
    let mut is_failing = false;
    while stopped.recv_timeout(USERS_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let refreshed = reader.refresh(users);
        if let Err(error) = &refreshed
            && !is_failing
        {
            error!(
                "cannot read users from {}: {error}; those known before stay",
                path.display()
            );
        }
        is_failing = refreshed.is_err();
    }
}

impl Backend for SqliteStore {
    fn ask(
        &self,
        _: Instant,
        id: QueryId,
        query: StoreQuery,
        mailbox: &Arc<Mailbox>,
    ) -> Option<Answer> {
        match query {
            StoreQuery::Lookup(address) => Some(self.shared.table.look_up(&address)),
            StoreQuery::Update(address, update) => {
                let is_waiting = self.shared.queue.push(QueuedUpdate {
                    id,
                    address,
                    update,
                    mailbox: Arc::clone(mailbox),
                });
                (!is_waiting).then_some(Answer::Failed)
            }
            StoreQuery::Credentials { realm, username } => {
                Some(self.shared.users.answer(&realm, &username))
            }
            StoreQuery::Page { from, limit } => {
                Some(Answer::Page(self.shared.table.page(from, limit)))
            }
        }
    }

    fn seed(&self) -> [u8; 32] {
        self.seed
    }

    fn statistics(&self) -> LocationStatistics {
        let counters = &self.shared.counters;
        LocationStatistics {
            updates: counters.updates.load(Relaxed),
            failed_updates: counters.failed_updates.load(Relaxed),
            commits: counters.commits.load(Relaxed),
            users: self.shared.users.len() as u64,
            ..self.shared.table.statistics()
        }
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        // The reader first: whoever closes the file last clears the log away, for which it must be able
        // to write. A thread that has panicked has said so.
        drop(self.reading.take());
        let _ = self.reader.take().map(JoinHandle::join);
        self.shared.queue.close();
        let _ = self.writer.take().map(JoinHandle::join);
    }
}
