//! A file that is written beside live traffic and never keeps it waiting.

use crate::TapStatistics;
use crate::blocks::append_interface_statistics;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

/// A capture file and the thread that writes it. Clones write to the same file, which is complete
/// when the last of them is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Live {
    owner: Arc<Owner>,
}

impl Live {
    /// Begins a new file with `prelude`; one that is there is overwritten. It gets about `limit` bytes at most.
    pub(crate) fn create(path: &Path, prelude: &[u8], limit: u64) -> io::Result<Live> {
        let path = path.to_path_buf();
        // For its owner alone: messages have credentials in them.
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)?;
        file.write_all(prelude)?;

        let shared = Arc::new(Shared::default());
        shared.state().room = limit;
        let writer = Writer {
            shared: Arc::clone(&shared),
            file,
            path,
        };
        let thread = std::thread::Builder::new()
            .name("tap".to_owned())
            .spawn(move || writer.run())?;
        Ok(Live {
            owner: Arc::new(Owner {
                shared,
                thread: Mutex::new(Some(thread)),
            }),
        })
    }

    /// Has a packet of so many bytes appended, unless the file does not keep up. `append` says
    /// whether it could.
    pub(crate) fn record(&self, bytes: usize, append: impl FnOnce(&mut Vec<u8>) -> bool) {
        let shared = &self.owner.shared;
        let mut state = shared.state();
        let keeps_up = state.error.is_none() && state.waiting.len() + bytes <= MAX_WAITING_BYTES;
        let before = state.waiting.len();
        if state.room < bytes as u64 {
            // A smaller one that still fitted would look as if nothing had been left out before it.
            state.room = 0;
            state.statistics.beyond_limit += 1;
        } else if keeps_up && append(&mut state.waiting) {
            state.statistics.recorded += 1;
            let grown = state.waiting.len() - before;
            state.room = state.room.saturating_sub(grown as u64);
        } else {
            state.statistics.dropped += 1;
        }
        if state.waiting.len() >= WRITTEN_AT_ONCE {
            shared.work.notify_one();
        }
    }

    /// Waits until all that was recorded before is in the file.
    pub(crate) fn flush(&self) -> io::Result<()> {
        let shared = &self.owner.shared;
        let mut state = shared.state();
        // What is being written at the moment was taken before this call.
        let wanted = state.batches_taken + 1;
        state.flush_wanted = true;
        shared.work.notify_one();
        while state.batches_written < wanted && state.error.is_none() {
            state = shared
                .written
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        match &state.error {
            Some(error) => Err(io::Error::new(error.kind(), error.to_string())),
            None => Ok(()),
        }
    }

    /// What was recorded and left out so far.
    pub(crate) fn statistics(&self) -> TapStatistics {
        self.owner.shared.state().statistics
    }
}

/// Held by all clones of a [`Live`]; ends the thread with the last of them.
#[derive(Debug)]
struct Owner {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.state().ending = true;
        self.shared.work.notify_one();
        let thread = self.thread.get_mut();
        if let Some(thread) = thread.unwrap_or_else(PoisonError::into_inner).take() {
            thread.join().ok();
        }
    }
}

/// What those who record and the thread that writes have in common.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// There is something to write, or an end.
    work: Condvar,
    /// Something was written.
    written: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Blocks that are not handed to the file yet.
    waiting: Vec<u8>,
    /// How often the thread has taken all that waited.
    batches_taken: u64,
    /// How many of these are in the file.
    batches_written: u64,
    /// How many more bytes of blocks the file may get.
    room: u64,
    flush_wanted: bool,
    ending: bool,
    error: Option<io::Error>,
    statistics: TapStatistics,
}

impl Shared {
    /// A thread that panicked with the lock in its hands has left nothing half done: the worst is
    /// a block cut short.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that writes.
struct Writer {
    shared: Arc<Shared>,
    file: File,
    path: PathBuf,
}

impl Writer {
    fn run(mut self) {
        let mut batch = Vec::new();
        loop {
            let ending = self.wait_for_work(&mut batch);
            let result = self.file.write_all(&batch);
            batch.clear();
            if self.tell(result).is_err() || ending {
                return;
            }
        }
    }

    /// Takes what waits, once there is enough of it or it has waited long enough. True when
    /// nothing comes after it.
    fn wait_for_work(&self, batch: &mut Vec<u8>) -> bool {
        let state = self.shared.state();
        let (mut state, _) = self
            .shared
            .work
            .wait_timeout_while(state, LONGEST_WAIT, |state| {
                !state.ending && !state.flush_wanted && state.waiting.len() < WRITTEN_AT_ONCE
            })
            .unwrap_or_else(PoisonError::into_inner);
        state.flush_wanted = false;
        state.batches_taken += 1;
        std::mem::swap(&mut state.waiting, batch);
        let dropped = state.statistics.dropped;
        if state.ending && dropped > 0 {
            append_interface_statistics(SystemTime::now(), dropped, batch);
        }
        state.ending
    }

    fn tell(&self, result: io::Result<()>) -> Result<(), Failed> {
        let mut state = self.shared.state();
        state.batches_written += 1;
        let result = result.map_err(|error| {
            let path = self.path.display();
            tracing::error!(%path, %error, "the capture cannot be written and ends here");
            state.waiting = Vec::new();
            state.error = Some(error);
            Failed
        });
        drop(state);
        self.shared.written.notify_all();
        result
    }
}

/// The file cannot be written any more, and everyone has been told.
struct Failed;

/// How long a packet waits to be written.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// So much is written without waiting for more.
const WRITTEN_AT_ONCE: usize = 256 << 10;

/// So much waits at most for a file that does not keep up.
const MAX_WAITING_BYTES: usize = 64 << 20;
