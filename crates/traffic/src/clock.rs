//! The clock of timestamps.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// A moment of a host's monotonic clock, nanoseconds. All programs of a host have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// How long it is since an earlier moment; `None` if that is later.
    pub fn since(self, earlier: Timestamp) -> Option<Duration> {
        self.0.checked_sub(earlier.0).map(Duration::from_nanos)
    }

    /// A later moment.
    #[must_use]
    pub fn after(self, time: Duration) -> Timestamp {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Timestamp(self.0.saturating_add(nanoseconds))
    }
}

/// Now.
pub(crate) fn now() -> Timestamp {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or(0);
    Timestamp(seconds * 1_000_000_000 + nanoseconds)
}

/// Names the clock: it begins anew with each start of the system, which has a name of its own.
pub(crate) fn name() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|text| text.trim().chars().take(64).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on() {
        let (one, other) = (now(), now());
        assert!(other.since(one).is_some());
        assert_eq!(
            one.after(Duration::from_nanos(5))
                .since(one)
                .unwrap()
                .as_nanos(),
            5
        );
        assert_eq!(one.since(one.after(Duration::from_nanos(1))), None);
        assert_eq!(
            Timestamp(u64::MAX).after(Duration::MAX),
            Timestamp(u64::MAX)
        );
    }
}
