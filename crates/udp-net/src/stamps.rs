//! When datagrams came: the kernel's stamps, by the clock of the program.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::options::stamp_arrivals;

/// A stamp older than this is none: somebody has set the clock.
const OLDEST: Duration = Duration::from_secs(10);

/// What turns the stamps of a socket into times of the program's clock.
#[derive(Debug)]
pub(crate) struct Stamps {
    is_stamped: bool,
    opened: Instant,
    /// Up to when all that had come has been read: nanoseconds since it was opened.
    empty: AtomicU64,
}

/// One call to the kernel for what has come.
#[derive(Debug)]
pub(crate) struct Reading {
    began: Duration,
    /// What is read now had not come before this.
    earliest: Instant,
}

impl Stamps {
    /// Asks the kernel to stamp what comes to a socket from now on (`SO_TIMESTAMPNS`). Where it does not,
    /// datagrams have come when they are read.
    pub(crate) fn ask(socket: BorrowedFd<'_>) -> Stamps {
        Stamps {
            is_stamped: stamp_arrivals(socket).is_ok(),
            opened: Instant::now(),
            empty: AtomicU64::new(0),
        }
    }

    /// Whether the kernel tells when datagrams come.
    pub(crate) fn is_stamped(&self) -> bool {
        self.is_stamped
    }

    /// To be called right before the kernel is asked for datagrams.
    pub(crate) fn begin(&self) -> Reading {
        Reading {
            began: self.opened.elapsed(),
            earliest: self.opened + Duration::from_nanos(self.empty.load(Ordering::Relaxed)),
        }
    }

    /// All that had come when the reading began has been read: what comes next came later.
    pub(crate) fn note_empty(&self, reading: &Reading) {
        let since_opened = u64::try_from(reading.began.as_nanos()).unwrap_or(u64::MAX);
        self.empty.fetch_max(since_opened, Ordering::Relaxed);
    }
}

impl Reading {
    /// The clocks after it: what it has brought came before.
    pub(crate) fn clocks(self) -> Clocks {
        Clocks::now(self.earliest)
    }
}

/// The two clocks at one time: that of stamps and that of the program.
#[derive(Debug)]
pub(crate) struct Clocks {
    now: Instant,
    since_epoch: Duration,
    earliest: Instant,
}

/// Between the two readings around that of the other clock no more than this has passed, unless each try is interrupted.
const CLOSE: Duration = Duration::from_micros(50);
const TRIES: usize = 4;

impl Clocks {
    fn now(earliest: Instant) -> Clocks {
        let (mut clocks, mut width) = Self::read(earliest);
        for _ in 1..TRIES {
            if width <= CLOSE {
                break;
            }
            let (again, narrower) = Self::read(earliest);
            if narrower < width {
                (clocks, width) = (again, narrower);
            }
        }
        clocks
    }

    /// Reads them, and tells how far they may be from each other.
    fn read(earliest: Instant) -> (Clocks, Duration) {
        let before = Instant::now();
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let width = before.elapsed();
        let clocks = Clocks {
            now: before + width / 2,
            since_epoch,
            earliest,
        };
        (clocks, width)
    }

    /// When the clock of stamps showed this; now, where there is no stamp. It is never before the earliest time: where
    /// somebody has set the clock forward it would seem to be.
    pub(crate) fn instant(&self, stamp: Option<Duration>) -> Instant {
        let Some(stamp) = stamp else {
            return self.now;
        };
        let age = self.since_epoch.checked_sub(stamp);
        let age = age.filter(|age| *age <= OLDEST).unwrap_or_default();
        let came = self.now.checked_sub(age).unwrap_or(self.now);
        came.max(self.earliest).min(self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clocks(earliest: Duration) -> Clocks {
        let now = Instant::now() + Duration::from_secs(100);
        Clocks {
            now,
            since_epoch: Duration::from_secs(1_000),
            earliest: now - earliest,
        }
    }

    #[test]
    fn a_stamp_is_as_old_by_one_clock_as_by_the_other() {
        let clocks = clocks(Duration::from_secs(5));
        let came = clocks.instant(Some(Duration::from_secs(998)));
        assert_eq!(clocks.now - came, Duration::from_secs(2));
        assert_eq!(clocks.instant(None), clocks.now);
    }

    #[test]
    fn a_clock_that_was_set_makes_nothing_older_than_it_can_be() {
        let clocks = clocks(Duration::from_secs(5));
        // Forward, after the datagram was stamped; so far that the stamp is none; and backward.
        let seconds = |stamp| clocks.instant(Some(Duration::from_secs(stamp)));
        assert_eq!(clocks.now - seconds(992), Duration::from_secs(5));
        assert_eq!(seconds(10), clocks.now);
        assert_eq!(seconds(1_001), clocks.now);
    }
}
