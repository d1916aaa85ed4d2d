//! Call detail records: a line of JSON for each call.
//!
//! The workers tell what happens to calls by a bounded queue and never wait: what finds it full is
//! dropped and counted. A thread of its own joins the events to `calls` and writes the `record` of each
//! that is over to the `file`.

mod calls;
mod file;
mod record;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use crate::core::Event;
use calls::Calls;
use file::RotatedFile;
use record::Record;

/// Where call detail records go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordsSettings {
    /// The file that is written; `None` writes none.
    pub file: Option<PathBuf>,
    /// From what length in octets the file is set aside and a new one begun.
    pub maximum_octets: u64,
    /// How many files that were set aside are kept: `FILE.1` is the newest.
    pub kept_files: u32,
    /// How many records may wait to be written; further ones are dropped and counted.
    pub queue: usize,
    /// How many calls that have not ended are remembered. Of one beyond, the record is written when it
    /// is answered, without its end.
    pub maximum_calls: usize,
    /// After what time a call is taken to have ended unseen.
    pub maximum_duration: Duration,
}

impl Default for RecordsSettings {
    fn default() -> RecordsSettings {
        RecordsSettings {
            file: None,
            maximum_octets: 100 << 20,
            kept_files: 10,
            queue: 10_000,
            maximum_calls: 100_000,
            maximum_duration: Duration::from_secs(24 * 3600),
        }
    }
}

/// What was written, and what was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordStatistics {
    /// Records written.
    pub(crate) written: u64,
    /// Events dropped because too many waited, and records that could not be written.
    pub(crate) dropped: u64,
    /// Now: calls that have not ended.
    pub(crate) open_calls: u64,
}

/// The way to the thread that writes records; a handle that is cheap to clone. When the last one is
/// dropped the thread writes what it has and ends.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    queue: SyncSender<Message>,
    counters: Arc<Counters>,
    writer: Arc<Mutex<Option<JoinHandle<()>>>>,
}

#[derive(Debug, Default)]
struct Counters {
    written: AtomicU64,
    dropped: AtomicU64,
    open_calls: AtomicU64,
}

#[derive(Debug)]
enum Message {
    Event(SystemTime, Event),
    /// Somebody has moved the file away.
    Reopen,
    /// Write what there is, and end.
    Close,
}

impl Recorder {
    /// Opens the file and starts the thread; `None` where no records are wanted.
    ///
    /// # Errors
    /// The file cannot be opened, or the thread not started.
    pub(crate) fn start(settings: &RecordsSettings) -> io::Result<Option<Recorder>> {
        let Some(path) = &settings.file else {
            return Ok(None);
        };
        let file = RotatedFile::open(path, settings.maximum_octets, settings.kept_files)?;
        let (queue, messages) = sync_channel(settings.queue.max(1));
        let counters = Arc::new(Counters::default());
        let mut writer = Writer {
            messages,
            calls: Calls::new(settings.maximum_calls, settings.maximum_duration),
            file,
            counters: Arc::clone(&counters),
            last_warning: None,
        };
        let writer = std::thread::Builder::new()
            .name("records".to_owned())
            .spawn(move || writer.run())?;
        Ok(Some(Recorder {
            queue,
            counters,
            writer: Arc::new(Mutex::new(Some(writer))),
        }))
    }

    /// Takes in an event, if it is about a call. Never waits.
    pub(crate) fn note(&self, at: SystemTime, event: &Event) {
        if !calls::is_call_event(event) {
            return;
        }
        if let Err(TrySendError::Full(_)) = self.queue.try_send(Message::Event(at, event.clone())) {
            self.counters.dropped.fetch_add(1, Relaxed);
        }
    }

    /// Begins the file anew under its name: a program that rotates it has moved it away.
    pub(crate) fn reopen(&self) {
        // Where the queue is full it will be asked for again.
        let _ = self.queue.try_send(Message::Reopen);
    }

    /// Writes what there is, calls that have not ended included, and returns when it is written.
    pub(crate) fn close(&self) {
        let _ = self.queue.send(Message::Close);
        let writer = self.writer.lock();
        let writer = writer.unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            let _ = writer.join();
        }
    }

    pub(crate) fn statistics(&self) -> RecordStatistics {
        RecordStatistics {
            written: self.counters.written.load(Relaxed),
            dropped: self.counters.dropped.load(Relaxed),
            open_calls: self.counters.open_calls.load(Relaxed),
        }
    }
}

/// The thread that writes.
#[derive(Debug)]
struct Writer {
    messages: Receiver<Message>,
    calls: Calls,
    file: RotatedFile,
    counters: Arc<Counters>,
    /// When a failure to write was logged last.
    last_warning: Option<Instant>,
}

/// How often calls are looked for that have ended unseen.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// How often failures to write are logged.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

const LOST: &str = "call detail records are lost";

impl Writer {
    fn run(&mut self) {
        let mut swept = Instant::now();
        loop {
            let message = match self.messages.try_recv() {
                Ok(message) => Ok(message),
                Err(_) => {
                    // There is time: what was written becomes visible.
                    self.flush();
                    self.messages.recv_timeout(SWEEP_INTERVAL)
                }
            };
            match message {
                Ok(Message::Event(at, event)) => {
                    let record = self.calls.handle_event(at, event);
                    self.write(record);
                }
                Ok(Message::Reopen) => {
                    let reopened = self.file.reopen();
                    self.warn(reopened, LOST);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Message::Close) | Err(RecvTimeoutError::Disconnected) => break,
            }
            if swept.elapsed() >= SWEEP_INTERVAL {
                swept = Instant::now();
                let over = self.calls.expire(SystemTime::now());
                self.write(over);
            }
            let open = self.calls.len() as u64;
            self.counters.open_calls.store(open, Relaxed);
        }
        let left = self.calls.take_all();
        self.write(left);
        self.flush();
    }

    fn write(&mut self, records: impl IntoIterator<Item = Record>) {
        for record in records {
            let line = record.to_line();
            let room = self.file.make_room(line.len());
            self.warn(room, "the file of call detail records cannot be set aside");
            let written = self.file.write_line(&line);
            match &written {
                Ok(()) => self.counters.written.fetch_add(1, Relaxed),
                Err(_) => self.counters.dropped.fetch_add(1, Relaxed),
            };
            self.warn(written, LOST);
        }
    }

    fn flush(&mut self) {
        let flushed = self.file.flush();
        self.warn(flushed, LOST);
    }

    fn warn(&mut self, result: io::Result<()>, what: &str) {
        let is_due = self
            .last_warning
            .is_none_or(|at| at.elapsed() >= WARNING_INTERVAL);
        if let Err(error) = result
            && is_due
        {
            self.last_warning = Some(Instant::now());
            tracing::error!(%error, "{what}");
        }
    }
}

#[cfg(test)]
mod tests;
