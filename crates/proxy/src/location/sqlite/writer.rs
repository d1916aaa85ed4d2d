//! The thread that changes the database: many changes in one transaction.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use ahash::RandomState;
use rusqlite::{Connection, ErrorCode, Statement};
use tracing::{error, info};

use super::super::mailbox::Mailbox;
use super::super::record::Record;
use super::super::table::{Room, Table};
use super::database::Lock;
use super::queue::{Found, Queue, Waiting};
use super::rows::{Clocks, Loaded, MAXIMUM_PLACES, Statements};
use super::{Counters, Shared};
use crate::core::{Answer, Binding, Bindings, QueryId, UpdateError};

/// What the thread owns.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) shared: Arc<Shared>,
    pub(super) path: PathBuf,
    pub(super) commit_delay: Duration,
    /// What is in the log.
    pub(super) loaded: Loaded,
    pub(super) hasher: RandomState,
    /// Nobody else may write bindings before this thread has ended.
    pub(super) _lock: Lock,
}

type Answers = Vec<(QueryId, Answer)>;

/// How long the thread sleeps at most when there is nothing to do.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many addresses of record are cleaned up in one transaction at most.
const CLEANED_AT_ONCE: usize = 1000;

/// How many superseded rows the log may have besides as many as there are bindings.
const SUPERSEDED_ROWS: usize = 10_000;

/// How many rows are looked at for each change, to find superseded ones: more than one, so that the log
/// becomes shorter.
const COMPACTED_A_CHANGE: usize = 2;

/// How often at most a full store looks for what it can forget.
const FORGETTING_INTERVAL: Duration = Duration::from_secs(1);

impl Writer {
    /// Works until the queue is closed and empty.
    pub(super) fn run(self) {
        // However this thread ends, nobody waits for it in vain.
        let _closing = Closing(&self.shared.queue);
        let prepared = || {
            Ok((
                Transaction::new(&self.connection)?,
                Statements::new(&self.connection)?,
            ))
        };
        let prepared: rusqlite::Result<_> = prepared();
        let (transaction, statements) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                error!("{}: cannot prepare: {error}", self.path.display());
                return;
            }
        };
        let mut batch = Batch {
            shared: &self.shared,
            transaction,
            statements,
            clocks: Clocks::now(),
            staged: HashMap::with_hasher(self.hasher.clone()),
            room: Room::default(),
            log: self.loaded,
            lacked_room: false,
        };
        let mut health = Health {
            path: &self.path,
            counters: &self.shared.counters,
            is_failing: false,
        };
        let mut waiting: Vec<Waiting> = Vec::new();
        let mut answers = Vec::new();
        let mut forgotten: Option<Instant> = None;
        loop {
            let found = self
                .shared
                .queue
                .take(&mut waiting, PATIENCE, self.commit_delay);
            if found == Found::Closed {
                break;
            }
            let now = Instant::now();
            let is_forgetting = batch.lacked_room
                && forgotten.is_none_or(|last| now.duration_since(last) >= FORGETTING_INTERVAL);
            if is_forgetting {
                forgotten = Some(now);
            }
            let done = batch.write(now, &waiting, &mut answers, is_forgetting);
            health.note(&done, waiting.len());
            if let Err(error) = &done {
                if error.sqlite_error_code() == Some(ErrorCode::DiskFull) {
                    // The log may have room inside when what is in it has been brought to its place.
                    // Where there is no room for that either, nothing is lost.
                    let _ = self
                        .connection
                        .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
                }
                let failed = waiting.iter().map(|waiting| (waiting.id, Answer::Failed));
                answers.clear();
                answers.extend(failed);
            }
            post(&mut waiting, &mut answers);
        }
    }
}

struct Closing<'a>(&'a Queue);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The changes of one transaction.
struct Batch<'a> {
    shared: &'a Shared,
    transaction: Transaction<'a>,
    statements: Statements<'a>,
    clocks: Clocks,
    /// What addresses of record have when the transaction is through; `None`: they are forgotten.
    staged: HashMap<Box<str>, Option<Record>, RandomState>,
    /// The room that the staged records take more than what they take the place of.
    room: Room,
    log: Loaded,
    /// A change was refused for want of room.
    lacked_room: bool,
}

impl Batch<'_> {
    /// Makes all changes, and cleans up a little. The answers are in the order of the changes. Where it
    /// fails nothing has changed.
    fn write(
        &mut self,
        now: Instant,
        waiting: &[Waiting],
        answers: &mut Answers,
        is_forgetting: bool,
    ) -> rusqlite::Result<()> {
        self.clocks = Clocks::now();
        let rows_before = self.log.rows;
        let written = self.stage_all(now, waiting, answers, is_forgetting);
        let done = match written {
            Ok(()) => self.transaction.commit(),
            Err(error) => Err(error),
        };
        if done.is_err() {
            self.transaction.roll_back();
            self.staged.clear();
            self.log.rows = rows_before;
        } else {
            self.install();
            self.lacked_room &= !is_forgetting;
        }
        self.room = Room::default();
        done
    }

    fn stage_all(
        &mut self,
        now: Instant,
        waiting: &[Waiting],
        answers: &mut Answers,
        is_forgetting: bool,
    ) -> rusqlite::Result<()> {
        for waiting in waiting {
            let answer = self.update(waiting)?;
            self.lacked_room |= answer == Answer::Full;
            answers.push((waiting.id, answer));
        }
        let table = &self.shared.table;
        let mut expired = match table.due_shard(now) {
            Some(shard) => table.expired(shard, now, CLEANED_AT_ONCE),
            None => Vec::new(),
        };
        let mut idle = Vec::new();
        if is_forgetting {
            for shard in Table::shards() {
                let left = CLEANED_AT_ONCE - expired.len().min(CLEANED_AT_ONCE);
                expired.extend(table.expired(shard, now, left));
                let left = CLEANED_AT_ONCE - idle.len();
                idle.extend(table.without_bindings(shard, left));
            }
        }
        for address in expired {
            self.remove_expired(now, &address)?;
        }
        for address in idle {
            self.forget(&address)?;
        }
        self.compact()
    }

    /// Removes a few superseded entries from the log where there are many. Those among them that still
    /// count are written again, at the end; they are few, since user agents register again and again.
    fn compact(&mut self) -> rusqlite::Result<()> {
        let statistics = self.shared.table.statistics();
        let needed = statistics.bindings.max(statistics.addresses_of_record) as usize;
        let superseded = self.log.rows.saturating_sub(2 * needed);
        if self.staged.is_empty() || superseded < SUPERSEDED_ROWS {
            return Ok(());
        }
        let oldest = self
            .statements
            .oldest(COMPACTED_A_CHANGE * self.staged.len())?;
        for (entry, address) in &oldest {
            if let (Some(number), Some(bindings)) = self.current(address)
                && number == *entry
            {
                self.append(address, &bindings)?;
            }
        }
        if let Some((last, _)) = oldest.last() {
            self.log.rows -= self.statements.remove_through(*last)?;
        }
        Ok(())
    }

    fn update(&mut self, waiting: &Waiting) -> rusqlite::Result<Answer> {
        let address = waiting.address.as_str();
        let (_, current) = self.current(address);
        let changed = match waiting.update.apply(current.as_deref().unwrap_or_default()) {
            Ok(changed) => changed,
            Err(error) => return Ok(Answer::Refused(error)),
        };
        if changed.len() > MAXIMUM_PLACES {
            return Ok(Answer::Refused(UpdateError::TooManyBindings));
        }
        // Nobody becomes known by removing what is not there.
        if current.is_some() || !changed.is_empty() {
            if !self.has_room(address, &changed) {
                return Ok(Answer::Full);
            }
            self.append(address, &changed)?;
        }
        Ok(Answer::Bindings(Bindings::from(changed)))
    }

    fn remove_expired(&mut self, now: Instant, address: &str) -> rusqlite::Result<()> {
        let (_, Some(mut bindings)) = self.current(address) else {
            return Ok(());
        };
        if bindings.iter().any(|binding| binding.expires() <= now) {
            bindings.retain(|binding| binding.expires() > now);
            self.append(address, &bindings)?;
        }
        Ok(())
    }

    fn forget(&mut self, address: &str) -> rusqlite::Result<()> {
        if !self.staged.contains_key(address) {
            self.transaction.begin()?;
            self.log.last_entry += 1;
            self.statements
                .append_forgotten(self.log.last_entry, address)?;
            self.log.rows += 1;
            self.staged.insert(address.into(), None);
        }
        Ok(())
    }

    /// The last entry and the bindings of an address of record, with what this transaction has changed.
    fn current(&self, address: &str) -> (Option<u64>, Option<Vec<Binding>>) {
        let table = &self.shared.table;
        let read = |record: &Record| (Some(record.number()), Some(record.bindings(table.epoch())));
        match self.staged.get(address) {
            Some(Some(record)) => read(record),
            Some(None) => (None, None),
            None => table.entry(address).record().map_or((None, None), read),
        }
    }

    /// Whether an address of record can have these bindings.
    fn has_room(&self, address: &str, bindings: &[Binding]) -> bool {
        let table = &self.shared.table;
        let record = table.write(address, 0, bindings);
        table.has_room(self.room, self.room_with(address, &record))
    }

    /// The room that is taken when a record is staged, too.
    fn room_with(&self, address: &str, record: &Record) -> Room {
        let old = match self.staged.get(address).and_then(Option::as_ref) {
            Some(staged) => Some(staged.octets()),
            None => {
                let entry = self.shared.table.entry(address);
                entry.record().map(Record::octets)
            }
        };
        let mut room = self.room;
        room.exchange(old, Some(record.octets()));
        room
    }

    /// Writes the bindings of an address of record into the transaction.
    fn append(&mut self, address: &str, bindings: &[Binding]) -> rusqlite::Result<()> {
        self.transaction.begin()?;
        self.log.last_entry += 1;
        let entry = self.log.last_entry;
        self.log.rows += self
            .statements
            .append(self.clocks, entry, address, bindings)?;
        let record = self.shared.table.write(address, entry, bindings);
        self.room = self.room_with(address, &record);
        self.staged.insert(address.into(), Some(record));
        Ok(())
    }

    /// Shows everybody what is safe now.
    fn install(&mut self) {
        for (address, record) in self.staged.drain() {
            let mut entry = self.shared.table.entry(&address);
            match record {
                Some(record) => entry.set(record),
                None => entry.remove(),
            }
        }
    }
}

/// A transaction that is begun when there is something to write.
struct Transaction<'a> {
    begin: Statement<'a>,
    commit: Statement<'a>,
    rollback: Statement<'a>,
    connection: &'a Connection,
}

impl Transaction<'_> {
    fn new(connection: &Connection) -> rusqlite::Result<Transaction<'_>> {
        Ok(Transaction {
            begin: connection.prepare("BEGIN IMMEDIATE")?,
            commit: connection.prepare("COMMIT")?,
            rollback: connection.prepare("ROLLBACK")?,
            connection,
        })
    }

    fn begin(&mut self) -> rusqlite::Result<()> {
        match self.connection.is_autocommit() {
            true => self.begin.raw_execute().map(drop),
            false => Ok(()),
        }
    }

    fn commit(&mut self) -> rusqlite::Result<()> {
        match self.connection.is_autocommit() {
            true => Ok(()),
            false => self.commit.raw_execute().map(drop),
        }
    }

    /// After some errors SQLite has done it already.
    fn roll_back(&mut self) {
        if !self.connection.is_autocommit() {
            // What fails here fails again at the next transaction, and is told then.
            let _ = self.rollback.raw_execute();
        }
    }
}

/// Whether the database can be written, told to the operator when it changes.
struct Health<'a> {
    path: &'a std::path::Path,
    counters: &'a Counters,
    is_failing: bool,
}

impl Health<'_> {
    fn note(&mut self, done: &rusqlite::Result<()>, changes: usize) {
        let changes_counter = match done {
            Ok(()) => &self.counters.updates,
            Err(_) => &self.counters.failed_updates,
        };
        changes_counter.fetch_add(changes as u64, Relaxed);
        if changes > 0 && done.is_ok() {
            self.counters.commits.fetch_add(1, Relaxed);
        }
        match done {
            Err(error) if !self.is_failing => {
                self.is_failing = true;
                error!(
                    "cannot write to {}: {error}; registrations are answered 500 until it works again",
                    self.path.display()
                );
            }
            Ok(()) if self.is_failing && changes > 0 => {
                self.is_failing = false;
                info!("writing to {} works again", self.path.display());
            }
            _ => {}
        }
    }
}

/// Hands the answers out, those of each worker at once.
fn post(waiting: &mut Vec<Waiting>, answers: &mut Answers) {
    let mut of_mailbox: Vec<(Arc<Mailbox>, Answers)> = Vec::new();
    for (waiting, answer) in waiting.drain(..).zip(answers.drain(..)) {
        let found = of_mailbox
            .iter_mut()
            .find(|(mailbox, _)| Arc::ptr_eq(mailbox, &waiting.mailbox));
        match found {
            Some((_, answers)) => answers.push(answer),
            None => of_mailbox.push((waiting.mailbox, vec![answer])),
        }
    }
    for (mailbox, answers) in of_mailbox {
        mailbox.post(answers);
    }
}
