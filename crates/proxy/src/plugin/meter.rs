//! How much a call of a hook has used: instructions, and the time where there is a clock.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Reads the time of the process. Without one, time limits nothing, and every run repeats.
pub type Stopwatch = fn() -> Instant;

/// Counts what a state uses. It is looked at every [`Meter::STEP`] instructions.
#[derive(Debug)]
pub(super) struct Meter {
    left: AtomicI64,
    is_over: AtomicBool,
    /// How often it has been looked at since a limit was reached.
    looks: AtomicU32,
    stopwatch: Option<Stopwatch>,
    origin: Option<Instant>,
    /// When the call has to be done, in nanoseconds from `origin`.
    deadline: AtomicU64,
    time: Duration,
}

impl Meter {
    /// How many instructions run between two looks.
    pub(super) const STEP: u32 = 500;

    pub(super) fn new(stopwatch: Option<Stopwatch>, time: Duration) -> Meter {
        Meter {
            left: AtomicI64::new(0),
            is_over: AtomicBool::new(false),
            looks: AtomicU32::new(0),
            stopwatch,
            origin: stopwatch.map(|now| now()),
            deadline: AtomicU64::new(0),
            time,
        }
    }

    /// A call begins or goes on, and may use so many instructions.
    pub(super) fn start(&self, instructions: u64) {
        let left = i64::try_from(instructions).unwrap_or(i64::MAX);
        self.left.store(left, Relaxed);
        self.is_over.store(false, Relaxed);
        self.looks.store(0, Relaxed);
        if let Some(elapsed) = self.elapsed() {
            let deadline = elapsed.saturating_add(nanoseconds(self.time));
            self.deadline.store(deadline, Relaxed);
        }
    }

    /// The script is loaded: it may use so many instructions, and takes the time that it takes.
    pub(super) fn start_loading(&self, instructions: u64) {
        self.start(instructions);
        self.deadline.store(u64::MAX, Relaxed);
    }

    /// How many instructions are left.
    pub(super) fn left(&self) -> u64 {
        self.left.load(Relaxed).try_into().unwrap_or(0)
    }

    /// Counts instructions, or work that is worth as many. Returns whether there may be more.
    pub(super) fn charge(&self, instructions: u64) -> bool {
        let instructions = i64::try_from(instructions).unwrap_or(i64::MAX);
        let left = self.left.load(Relaxed).saturating_sub(instructions);
        self.left.store(left, Relaxed);
        let is_late = || {
            self.elapsed()
                .is_some_and(|elapsed| elapsed > self.deadline.load(Relaxed))
        };
        if left < 0 || is_late() {
            self.is_over.store(true, Relaxed);
        }
        !self.is_over()
    }

    /// Whether a call that has reached a limit is to be left as it is: at first, for where that cannot be it is looked at again.
    pub(super) fn is_left_alone(&self) -> bool {
        const ATTEMPTS: u32 = 4;
        self.looks.fetch_add(1, Relaxed) < ATTEMPTS
    }

    /// Whether a limit has been reached in this call.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }

    fn elapsed(&self) -> Option<u64> {
        let now = self.stopwatch?();
        Some(nanoseconds(now.saturating_duration_since(self.origin?)))
    }
}

fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos().try_into().unwrap_or(u64::MAX)
}
