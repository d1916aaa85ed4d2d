//! The thread that changes the database: many changes in one transaction.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use ahash::RandomState;
use rusqlite::{Connection, ErrorCode, Statement};
use tracing::{error, info};

use super::super::mailbox::Mailbox;
use super::super::record::{self, Record};
use super::super::table::{Table, Usage};
use super::database::Lock;
use super::log::{Clocks, Extent, Statements, put_entry};
use super::queue::{QueueEvent, QueuedUpdate, UpdateQueue};
use super::{Counters, Shared};
use crate::core::{Answer, Binding, Bindings, QueryId};

/// What the thread owns.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) shared: Arc<Shared>,
    pub(super) path: PathBuf,
    /// What is in the log.
    pub(super) log: Extent,
    pub(super) hasher: RandomState,
    /// Nobody else may write bindings before this thread has ended.
    pub(super) _lock: Lock,
}

type Answers = Vec<(QueryId, Answer)>;

/// How long the thread sleeps at most when there is nothing to do.
const IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// How many addresses of record are cleaned up in one transaction at most.
const CLEANED_AT_ONCE: usize = 1000;

/// How many superseded entries the log may have besides as many as there are addresses of record.
const SUPERSEDED_ENTRIES: usize = 10_000;

/// How many entries are looked at for each that is added, to find superseded ones: more than one, so that the log
/// becomes shorter.
const COMPACTED_AN_ENTRY: usize = 2;

/// The longest row whose memory is kept for the next.
const ROW_OCTETS: usize = 1 << 20;

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
            entries: Vec::new(),
            draft: Vec::new(),
            usage: Usage::default(),
            log: self.log,
            was_full: false,
            path: &self.path,
            is_damage_logged: false,
        };
        let mut health = Health {
            path: &self.path,
            counters: &self.shared.counters,
            last_failure: None,
        };
        let mut queued: Vec<QueuedUpdate> = Vec::new();
        let mut answers = Vec::new();
        let mut forgotten: Option<Instant> = None;
        loop {
            let found = self.shared.queue.take(&mut queued, IDLE_TIMEOUT);
            if found == QueueEvent::Closed {
                break;
            }
            let now = Instant::now();
            let is_forgetting = batch.was_full
                && forgotten.is_none_or(|last| now.duration_since(last) >= FORGETTING_INTERVAL);
            if is_forgetting {
                forgotten = Some(now);
            }
            let done = batch.write(now, &queued, &mut answers, is_forgetting);
            health.record(now, &done, queued.len());
            if let Err(error) = &done {
                if error.sqlite_error_code() == Some(ErrorCode::DiskFull) {
                    // The log may have room inside when what is in it has been brought to its place.
                    // Where there is no room for that either, nothing is lost.
                    let _ = self
                        .connection
                        .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
                }
                let failed = queued.iter().map(|queued| (queued.id, Answer::Failed));
                answers.clear();
                answers.extend(failed);
            }
            post(&mut queued, &mut answers);
        }
    }
}

struct Closing<'a>(&'a UpdateQueue);

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
    /// The row of the log that says so.
    entries: Vec<u8>,
    /// What a record is written in first, so that it takes no more than its length.
    draft: Vec<u8>,
    /// The room that the staged records take more than what they take the place of.
    usage: Usage,
    log: Extent,
    /// A change was refused for want of room.
    was_full: bool,
    path: &'a Path,
    /// The operator has been told that the log cannot be read.
    is_damage_logged: bool,
}

impl Batch<'_> {
    /// Makes all changes, and cleans up a little. The answers are in the order of the changes. Where it
    /// fails nothing has changed.
    fn write(
        &mut self,
        now: Instant,
        queued: &[QueuedUpdate],
        answers: &mut Answers,
        is_forgetting: bool,
    ) -> rusqlite::Result<()> {
        self.clocks = Clocks::now();
        let log_before = self.log;
        let written = self.stage_all(now, queued, answers, is_forgetting);
        let done = written.and_then(|()| self.commit());
        if done.is_err() {
            self.transaction.roll_back();
            self.staged.clear();
            self.log = log_before;
        } else {
            self.install();
            self.was_full &= !is_forgetting;
        }
        self.entries.clear();
        self.entries.shrink_to(ROW_OCTETS);
        self.usage = Usage::default();
        done
    }

    fn stage_all(
        &mut self,
        now: Instant,
        queued: &[QueuedUpdate],
        answers: &mut Answers,
        is_forgetting: bool,
    ) -> rusqlite::Result<()> {
        let entries_before = self.log.entries;
        for queued in queued {
            let answer = self.update(queued);
            self.was_full |= answer == Answer::Full;
            answers.push((queued.id, answer));
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
            self.remove_expired(now, &address);
        }
        for address in idle {
            self.forget(&address);
        }
        self.compact(entries_before)
    }

    /// Makes what is staged safe.
    fn commit(&mut self) -> rusqlite::Result<()> {
        if self.entries.is_empty() {
            return Ok(());
        }
        let row = self.row();
        self.transaction.begin()?;
        self.statements.put(row, &self.entries)?;
        self.transaction.commit()?;
        self.log.last_row = row;
        Ok(())
    }

    /// The number of the row that is being written.
    fn row(&self) -> u64 {
        self.log.last_row + 1
    }

    /// Removes a few superseded entries from the log where there are many. Those among them that still
    /// count are written again, at the end; they are few, since user agents register again and again.
    /// Where the log cannot be read nothing is removed, and the changes are written all the same.
    fn compact(&mut self, entries_before: usize) -> rusqlite::Result<()> {
        let known = self.shared.table.statistics().addresses_of_record as usize;
        let superseded = self.log.entries.saturating_sub(2 * known);
        if self.staged.is_empty() || superseded < SUPERSEDED_ENTRIES {
            return Ok(());
        }
        self.transaction.begin()?;
        // An address of record may have changed several times.
        let added = self.log.entries.saturating_sub(entries_before);
        let oldest = match self.statements.oldest(COMPACTED_AN_ENTRY * added) {
            Ok(oldest) => oldest,
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
                self.log_damage(&error);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        for (row, address) in &oldest {
            if let Some((current, bindings)) = self.current(address)
                && current.number == *row
            {
                self.append(address, &bindings, Some(current.octets), false);
            }
        }
        if let Some((last, _)) = oldest.last() {
            self.statements.remove_through(*last)?;
            self.log.entries = self.log.entries.saturating_sub(oldest.len());
        }
        Ok(())
    }

    /// Says once what follows from it that the log cannot be read.
    fn log_damage(&mut self, error: &rusqlite::Error) {
        if !self.is_damage_logged {
            self.is_damage_logged = true;
            error!(
                "{} is damaged: {error}; registrations are written to it as before, but it grows, and cannot be \
                 loaded again: restore a backup, or move it away, when the proxy is stopped",
                self.path.display()
            );
        }
    }

    fn update(&mut self, queued: &QueuedUpdate) -> Answer {
        let (address, update) = (queued.address.as_str(), &queued.update);
        let epoch = self.shared.table.epoch();
        let (changed, old) = self.with_current(address, |record| match record {
            Some(record) => (record.updated(update, epoch), Some(record.octets())),
            None => (update.apply_to(Vec::new()).map(Bindings::from), None),
        });
        let changed = match changed {
            Ok(changed) => changed,
            Err(error) => return Answer::Refused(error),
        };
        // Nobody becomes known by removing what is not there.
        if (old.is_some() || !changed.is_empty()) && !self.append(address, &changed, old, true) {
            return Answer::Full;
        }
        Answer::Bindings(changed)
    }

    fn remove_expired(&mut self, now: Instant, address: &str) {
        let Some((old, mut bindings)) = self.current(address) else {
            return;
        };
        if bindings.iter().any(|binding| binding.expires() <= now) {
            bindings.retain(|binding| binding.expires() > now);
            self.append(address, &bindings, Some(old.octets), false);
        }
    }

    fn forget(&mut self, address: &str) {
        if !self.staged.contains_key(address) {
            put_entry(&mut self.entries, self.clocks, address, None);
            self.log.entries += 1;
            self.staged.insert(address.into(), None);
        }
    }

    /// The last entry and the bindings of an address of record, with what this transaction has changed; `None` where
    /// it is not known.
    fn current(&self, address: &str) -> Option<(Current, Vec<Binding>)> {
        let epoch = self.shared.table.epoch();
        self.with_current(address, |record| {
            let record = record?;
            let current = Current {
                number: record.number(),
                octets: record.octets(),
            };
            Some((current, record.bindings(epoch)))
        })
    }

    /// Looks at the record of an address of record, with what this transaction has changed; `None` where it is not known.
    fn with_current<T>(&self, address: &str, look: impl FnOnce(Option<&Record>) -> T) -> T {
        match self.staged.get(address) {
            Some(staged) => look(staged.as_ref()),
            None => look(self.shared.table.entry(address).record()),
        }
    }

    /// Adds an entry: from now on an address of record has these bindings, and is known. `false`, and nothing has
    /// changed, where there has to be room for them and is none. `old` is the length of the record that there is.
    fn append(
        &mut self,
        address: &str,
        bindings: &[Binding],
        old: Option<usize>,
        is_bounded: bool,
    ) -> bool {
        let table = &self.shared.table;
        let row = self.log.last_row + 1;
        record::write(&mut self.draft, address, row, bindings, table.epoch());
        let mut usage = self.usage;
        usage.replace(old, Some(self.draft.len()));
        if is_bounded && !table.has_room(self.usage, usage) {
            return false;
        }
        self.usage = usage;
        put_entry(&mut self.entries, self.clocks, address, Some(bindings));
        self.log.entries += 1;
        let record = Record::new(&self.draft);
        self.staged.insert(address.into(), Some(record));
        true
    }

    /// Shows everybody what is safe now.
    fn install(&mut self) {
        for (address, record) in self.staged.drain() {
            let mut entry = self.shared.table.entry(&address);
            match record {
                Some(record) => {
                    entry.set_written(record.as_written(), record.count(), false);
                }
                None => entry.remove(),
            }
        }
    }
}

/// What the last entry of an address of record is.
struct Current {
    /// Its row.
    number: u64,
    /// The length of the record.
    octets: usize,
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
    path: &'a Path,
    counters: &'a Counters,
    /// Of the present spell of failures.
    last_failure: Option<Instant>,
}

/// How long nothing must have failed before writing counts as working again: on a full disk, a small change may find
/// room between two larger ones that do not.
const RECOVERY: Duration = Duration::from_secs(1);

impl Health<'_> {
    fn record(&mut self, now: Instant, done: &rusqlite::Result<()>, changes: usize) {
        let changes_counter = match done {
            Ok(()) => &self.counters.updates,
            Err(_) => &self.counters.failed_updates,
        };
        changes_counter.fetch_add(changes as u64, Relaxed);
        if changes > 0 && done.is_ok() {
            self.counters.commits.fetch_add(1, Relaxed);
        }
        match (done, self.last_failure) {
            (Err(error), last) => {
                self.last_failure = Some(now);
                if last.is_none() {
                    error!(
                        "cannot write to {}: {error}; registrations are answered 500 until it works again",
                        self.path.display()
                    );
                }
            }
            (Ok(()), Some(last)) if changes > 0 && now.duration_since(last) >= RECOVERY => {
                self.last_failure = None;
                info!("writing to {} works again", self.path.display());
            }
            _ => {}
        }
    }
}

/// Hands the answers out, those of each worker at once.
fn post(queued: &mut Vec<QueuedUpdate>, answers: &mut Answers) {
    let mut of_mailbox: Vec<(Arc<Mailbox>, Answers)> = Vec::new();
    for (queued, answer) in queued.drain(..).zip(answers.drain(..)) {
        let found = of_mailbox
            .iter_mut()
            .find(|(mailbox, _)| Arc::ptr_eq(mailbox, &queued.mailbox));
        match found {
            Some((_, answers)) => answers.push(answer),
            None => of_mailbox.push((queued.mailbox, vec![answer])),
        }
    }
    for (mailbox, answers) in of_mailbox {
        mailbox.post(answers);
    }
}
