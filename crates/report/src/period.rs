//! When something was measured.

use std::time::{Duration, Instant, SystemTime};

/// When a measurement began, and how long it lasted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// Date and time of day.
    pub began: SystemTime,
    /// Its length, by a clock that nobody sets.
    pub lasted: Duration,
}

impl Period {
    /// Date, time of day and length: `2026-11-29 08:29:49 UTC, 1m 13s`.
    pub(crate) fn in_words(self) -> String {
        let began = humantime::format_rfc3339_seconds(self.began.max(SystemTime::UNIX_EPOCH));
        let began = began.to_string().replace('T', " ").replace('Z', " UTC");
        // Fractions of seconds matter in short times only.
        let lasted = match self.lasted.as_secs() {
            0..10 => {
                Duration::from_millis(u64::try_from(self.lasted.as_millis()).unwrap_or(u64::MAX))
            }
            seconds => Duration::from_secs(seconds),
        };
        format!("{began}, {}", humantime::format_duration(lasted))
    }
}

/// Measures a [`Period`] that begins now.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    began: SystemTime,
    started: Instant,
}

impl Stopwatch {
    /// Begins.
    #[must_use]
    pub fn start() -> Stopwatch {
        Stopwatch {
            began: SystemTime::now(),
            started: Instant::now(),
        }
    }

    /// From the beginning until now.
    pub fn period(&self) -> Period {
        Period {
            began: self.began,
            lasted: self.started.elapsed(),
        }
    }
}
