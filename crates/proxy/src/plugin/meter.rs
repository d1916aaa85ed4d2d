//! How much a call of a hook has used: instructions, and the time where there is a clock.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Reads the clocks of the process.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    /// The time.
    pub now: fn() -> Instant,
    /// How long this thread has had a processor. It is read seldom: that takes a system call.
    pub processor_time: fn() -> Duration,
}

/// Counts what a state uses. It is looked at every [`Meter::STEP`] instructions.
#[derive(Debug)]
pub(super) struct Meter {
    left: AtomicI64,
    is_over: AtomicBool,
    /// How often it has been looked at since a limit was reached.
    looks: AtomicU32,
    stopwatch: Option<Stopwatch>,
    origin: Option<Instant>,
    /// When the call is to be done, in nanoseconds from `origin`: when half of its time is over.
    deadline: AtomicU64,
    /// From then on this counts, in nanoseconds of processor time: the thread may not have had a processor before, and a
    /// call is not to be cut off for what other programs do. 0 until then.
    processor_deadline: AtomicU64,
    half_of_time: Duration,
}

impl Meter {
    /// How many instructions run between two looks. A text of some megabytes is joined to another in a millisecond, by one
    /// instruction: so it is not many.
    pub(super) const STEP: u32 = 100;

    pub(super) fn new(stopwatch: Option<Stopwatch>, time: Duration) -> Meter {
        Meter {
            left: AtomicI64::new(0),
            is_over: AtomicBool::new(false),
            looks: AtomicU32::new(0),
            stopwatch,
            origin: stopwatch.map(|clocks| (clocks.now)()),
            deadline: AtomicU64::new(0),
            processor_deadline: AtomicU64::new(0),
            half_of_time: time / 2,
        }
    }

    /// A call begins or goes on, and may use so many instructions.
    pub(super) fn start(&self, instructions: u64) {
        let left = i64::try_from(instructions).unwrap_or(i64::MAX);
        self.left.store(left, Relaxed);
        self.is_over.store(false, Relaxed);
        self.looks.store(0, Relaxed);
        if let Some(elapsed) = self.elapsed() {
            let deadline = elapsed.saturating_add(nanoseconds(self.half_of_time));
            self.deadline.store(deadline, Relaxed);
            self.processor_deadline.store(0, Relaxed);
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
        if left < 0 || self.is_late() {
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
        let now = (self.stopwatch?.now)();
        Some(nanoseconds(now.saturating_duration_since(self.origin?)))
    }

    /// Whether the call has had its time.
    fn is_late(&self) -> bool {
        let is_past = |elapsed| elapsed > self.deadline.load(Relaxed);
        let (Some(clocks), true) = (self.stopwatch, self.elapsed().is_some_and(is_past)) else {
            return false;
        };
        let time = nanoseconds((clocks.processor_time)());
        match self.processor_deadline.load(Relaxed) {
            0 => {
                let deadline = time.saturating_add(nanoseconds(self.half_of_time));
                self.processor_deadline.store(deadline, Relaxed);
                false
            }
            deadline => time > deadline,
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos().try_into().unwrap_or(u64::MAX)
}
