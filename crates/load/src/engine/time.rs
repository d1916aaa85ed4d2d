//! Times as an engine keeps them: nanoseconds since it was made.

use std::time::{Duration, Instant};

use timer_wheel::Timestamp;

/// A time, in nanoseconds since the engine was made. Half as long as an [`Instant`], of which a session has
/// many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Time(u64);

impl Time {
    /// When the engine was made, and whatever was before.
    pub(super) const START: Time = Time(0);
    /// Never.
    pub(super) const NEVER: Time = Time(u64::MAX);

    /// This much later.
    pub(super) fn after(self, duration: Duration) -> Time {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Time(self.0.saturating_add(nanoseconds))
    }

    /// How much later than another time; nothing where it is earlier.
    pub(super) fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// As [`since`](Time::since), where this time has come at all.
    pub(super) fn known_since(self, earlier: Time) -> Option<Duration> {
        self.is_known().then(|| self.since(earlier))
    }

    /// Sets it, where it is not known yet. Returns whether it was not.
    pub(super) fn set_once(&mut self, time: Time) -> bool {
        let is_first = !self.is_known();
        if is_first {
            *self = time;
        }
        is_first
    }

    /// Whether it has come, or will.
    pub(super) fn is_known(self) -> bool {
        self != Time::NEVER
    }

    /// Whole milliseconds, rounded down.
    pub(super) fn milliseconds(self) -> u64 {
        self.0 / 1_000_000
    }

    /// The next whole millisecond: what is due within one comes up together.
    pub(super) fn rounded_up(self) -> Time {
        Time(self.0.div_ceil(1_000_000).saturating_mul(1_000_000))
    }
}

impl Timestamp for Time {
    fn milliseconds_since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0) / 1_000_000
    }
}

/// Tells the driver's times from the engine's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    origin: Instant,
}

impl Clock {
    pub(super) fn new(origin: Instant) -> Clock {
        Clock { origin }
    }

    pub(super) fn time(self, instant: Instant) -> Time {
        Time::START.after(instant.saturating_duration_since(self.origin))
    }

    /// The instant of a time; one too far away is as good as none.
    pub(super) fn instant(self, time: Time) -> Option<Instant> {
        self.origin.checked_add(time.since(Time::START))
    }

    /// When the engine was made.
    pub(super) fn origin(self) -> Instant {
        self.origin
    }
}

/// The times of an event: delays end when the message was received, new transactions begin now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) now: Time,
    pub(super) received: Time,
}
