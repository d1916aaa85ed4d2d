//! When something last went over a connection.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The time of the last octet in either direction, shared by the halves of a connection.
#[derive(Debug)]
pub(crate) struct Activity {
    began: Instant,
    last_milliseconds: AtomicU64,
}

impl Activity {
    pub(crate) fn new() -> Activity {
        Activity {
            began: Instant::now(),
            last_milliseconds: AtomicU64::new(0),
        }
    }

    pub(crate) fn touch(&self, now: Instant) {
        let elapsed = now.duration_since(self.began).as_millis();
        self.last_milliseconds
            .store(u64::try_from(elapsed).unwrap_or(u64::MAX), Relaxed);
    }

    pub(crate) fn last(&self) -> Instant {
        self.began + Duration::from_millis(self.last_milliseconds.load(Relaxed))
    }
}
