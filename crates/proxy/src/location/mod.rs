//! The location service: which bindings an address of record has (RFC 3261 section 10), and who the
//! users are.
//!
//! A [`Store`] is opened once and shared; every worker has a [`Handle`], which it asks and which
//! brings the answers, at once or later. What stands behind it the scheme of a [`Url`] chooses:
//!
//! - `memory` keeps everything in a `table` of compact `record`s and loses it with the process;
//! - `sqlite` keeps the same table, and a database from which it is filled at the start. A change is
//!   answered, and visible to look-ups, when it is on the disk.
//!
//! A store of another kind implements [`Backend`] and has a [`Scheme`] of its own; answers that come later go through
//! a [`Mailbox`].

mod backend;
mod mailbox;
mod memory;
mod record;
mod sqlite;
mod table;
mod url;
mod users;

use std::collections::VecDeque;
use std::error::Error;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Instant;

use ahash::RandomState;
use rand::Rng;
use rand_chacha::ChaCha12Rng;

use crate::core::{Answer, QueryId};
pub use backend::{Backend, LocationStatistics, StoreQuery};
pub use mailbox::Mailbox;
use sqlite::path_of;
pub use sqlite::{DatabaseError, UserDatabase, UserDatabaseError};
use table::{Bounds, Table};
use url::forms;
pub use url::{Opened, Scheme, Url, UrlError};
pub use users::User;
use users::Users;

/// What a store is told when it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocationConfig {
    /// Which store.
    pub url: Url,
    /// How many addresses of record it holds. A REGISTER that needs more is answered 503.
    pub maximum_addresses_of_record: usize,
    /// How many octets it holds: names, Contacts, Call-IDs, and what each binding takes besides. A
    /// REGISTER that needs more is answered 503.
    pub maximum_octets: usize,
    /// How many questions of one worker wait for their answers. One more is answered 503.
    pub maximum_waiting: usize,
    /// What a registration in a database file that was answered 200 survives.
    pub synchronous: Synchronous,
    /// The users of a store in memory; one in a database file has those that are in the file.
    pub users: Vec<User>,
}

/// What is safe of a database file when a change of it is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// Everything, also when the power fails: a transaction ends when the disk has it.
    #[default]
    Full,
    /// Everything when the process ends, in whatever way. When the whole machine does, the changes of
    /// the last seconds may be lost, but nothing that is older, and the file stays whole.
    Normal,
}

impl Synchronous {
    /// The name in settings and in SQLite.
    pub fn name(self) -> &'static str {
        match self {
            Synchronous::Full => "full",
            Synchronous::Normal => "normal",
        }
    }
}

impl Default for LocationConfig {
    /// In memory: a library does not write files that nobody has named.
    fn default() -> LocationConfig {
        LocationConfig {
            url: Url::memory(),
            maximum_addresses_of_record: 200_000,
            maximum_octets: 256 << 20,
            maximum_waiting: 10_000,
            synchronous: Synchronous::default(),
            users: Vec::new(),
        }
    }
}

/// Why a store could not be opened: one line that says what is wrong and what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The database file could not be used.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// A store of another kind says why.
    #[error(transparent)]
    Backend(#[from] Box<dyn Error + Send + Sync>),
}

/// The schemes that settings may name.
const SCHEMES: [&Scheme; 2] = [&sqlite::SCHEME, &memory::SCHEME];

impl Url {
    /// `memory:`, the store that ends with the process.
    pub fn memory() -> Url {
        Url::new(&memory::SCHEME, "")
    }

    /// `sqlite:PATH`, the store in a database file.
    pub fn sqlite(path: impl Into<String>) -> Url {
        Url::new(&sqlite::SCHEME, path)
    }

    /// The database file of an `sqlite:` URL: a bare file name lies in the directory where services keep their state, any
    /// other path is what it is to every program. `None` for other stores.
    pub fn path(&self) -> Option<PathBuf> {
        path_of(self)
    }

    /// The stores that settings may name, for messages: `sqlite:PATH or memory:`.
    pub fn known_forms() -> String {
        forms(&SCHEMES)
    }
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Url, UrlError> {
        Url::parse(text, &SCHEMES)
    }
}

/// An open location store. Clones are the same store.
#[derive(Clone, Debug)]
pub struct Store {
    backend: Arc<dyn Backend>,
    maximum_waiting: usize,
}

impl Store {
    /// Opens the store that the configuration names; what it holds is loaded. `rng` gives the keys of
    /// the tables.
    ///
    /// # Errors
    /// What is wrong with the file, in words for the operator.
    pub fn open(config: &LocationConfig, rng: &mut ChaCha12Rng) -> Result<Store, OpenError> {
        Ok(Store {
            backend: (config.url.scheme().open)(config, rng)?,
            maximum_waiting: config.maximum_waiting,
        })
    }

    /// What the keys are drawn from under which things are signed that user agents keep: flow tokens,
    /// GRUUs, nonces. It outlives the process where the bindings do.
    pub fn seed(&self) -> [u8; 32] {
        self.backend.seed()
    }

    /// A handle for one worker.
    pub fn handle(&self) -> Handle {
        Handle {
            store: self.clone(),
            mailbox: Arc::default(),
            ready: VecDeque::new(),
            waiting: 0,
        }
    }

    /// The counters as they stand.
    pub fn statistics(&self) -> LocationStatistics {
        self.backend.statistics()
    }
}

/// What a store begins with.
#[derive(Debug)]
struct EmptyTables {
    table: Table,
    users: Users,
    hasher: RandomState,
    /// The [seed](Store::seed), where none is written down.
    seed: [u8; 32],
}

impl EmptyTables {
    fn new(config: &LocationConfig, rng: &mut ChaCha12Rng) -> EmptyTables {
        let hasher = RandomState::with_seeds(
            rng.next_u64(),
            rng.next_u64(),
            rng.next_u64(),
            rng.next_u64(),
        );
        let mut seed = [0; 32];
        rng.fill_bytes(&mut seed);
        let bounds = Bounds {
            addresses: config.maximum_addresses_of_record,
            octets: config.maximum_octets,
        };
        EmptyTables {
            table: Table::new(hasher.clone(), Instant::now(), bounds),
            users: Users::new(hasher.clone()),
            hasher,
            seed,
        }
    }
}

/// A worker's way to the store.
#[derive(Debug)]
pub struct Handle {
    store: Store,
    mailbox: Arc<Mailbox>,
    /// Answers that were there at once, or have been taken out of the mailbox.
    ready: VecDeque<(QueryId, Answer)>,
    /// How many answers are still to come through the mailbox.
    waiting: usize,
}

impl Handle {
    /// Asks. Every question has one answer, which [`next_now`](Handle::next_now) or
    /// [`next`](Handle::next) brings.
    pub fn submit(&mut self, now: Instant, id: QueryId, query: StoreQuery) {
        if self.waiting >= self.store.maximum_waiting {
            self.ready.push_back((id, Answer::Full));
            return;
        }
        match self.store.backend.ask(now, id, query, &self.mailbox) {
            Some(answer) => self.ready.push_back((id, answer)),
            None => self.waiting += 1,
        }
    }

    /// The next answer, if there is one now.
    pub fn next_now(&mut self) -> Option<(QueryId, Answer)> {
        if self.ready.is_empty() && self.waiting > 0 {
            let taken = self.mailbox.take_all(&mut self.ready);
            self.waiting = self.waiting.saturating_sub(taken);
        }
        self.ready.pop_front()
    }

    /// Waits for the next answer. It can be cancelled; none is lost.
    pub async fn next(&mut self) -> (QueryId, Answer) {
        loop {
            if let Some(answer) = self.next_now() {
                return answer;
            }
            self.mailbox.arrived().await;
        }
    }

    /// Does a small part of what has to be done now and then, such as removing what has expired. To be
    /// called often; it costs nothing when there is nothing to do.
    pub fn maintain(&self, now: Instant) {
        self.store.backend.maintain(now);
    }
}

#[cfg(test)]
mod tests;
