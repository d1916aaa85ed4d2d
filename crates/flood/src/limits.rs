//! How much a flood may be.

use std::time::Duration;

/// Packets that are sent unless told otherwise.
pub const DEFAULT_COUNT: u64 = 10_000;
/// Packets a second unless told otherwise.
pub const DEFAULT_RATE: u64 = 2000;
/// No flood has more packets.
pub const MOST_PACKETS: u64 = 5_000_000;
/// No flood is faster, in packets a second.
pub const MOST_PER_SECOND: u64 = 200_000;
/// No flood lasts longer, in seconds.
pub const MOST_SECONDS: u64 = 120;

/// How much is sent: within the bounds that hold for every flood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    count: u64,
    rate: u64,
}

/// A flood that is not allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LimitsError {
    /// More packets than any flood may have, or none.
    #[error("a flood has 1 to {MOST_PACKETS} packets, not {0}")]
    Count(u64),
    /// Faster than any flood may be, or not at all.
    #[error("a flood has 1 to {MOST_PER_SECOND} packets a second, not {0}")]
    Rate(u64),
    /// It would last too long.
    #[error("it would take {0} s; a flood lasts {MOST_SECONDS} s at most")]
    Time(u64),
}

impl Limits {
    /// So many packets, so many a second.
    ///
    /// # Errors
    ///
    /// When that is above what any flood may be.
    pub fn new(count: u64, rate: u64) -> Result<Limits, LimitsError> {
        if !(1..=MOST_PACKETS).contains(&count) {
            return Err(LimitsError::Count(count));
        }
        if !(1..=MOST_PER_SECOND).contains(&rate) {
            return Err(LimitsError::Rate(rate));
        }
        let seconds = count.div_ceil(rate);
        if seconds > MOST_SECONDS {
            return Err(LimitsError::Time(seconds));
        }
        Ok(Limits { count, rate })
    }

    /// Packets in all.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Packets a second.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// How many of them are due so long after the beginning.
    pub fn due(&self, elapsed: Duration) -> u64 {
        let due = elapsed.as_nanos() * u128::from(self.rate) / 1_000_000_000;
        u64::try_from(due).unwrap_or(u64::MAX).min(self.count)
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            count: DEFAULT_COUNT,
            rate: DEFAULT_RATE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_flood_is_bounded_in_number_rate_and_time() {
        assert!(Limits::new(DEFAULT_COUNT, DEFAULT_RATE).is_ok());
        assert_eq!(Limits::new(0, 1), Err(LimitsError::Count(0)));
        let many = MOST_PACKETS + 1;
        assert_eq!(Limits::new(many, 1000), Err(LimitsError::Count(many)));
        let fast = MOST_PER_SECOND + 1;
        assert_eq!(Limits::new(1000, fast), Err(LimitsError::Rate(fast)));
        assert_eq!(Limits::new(1000, 0), Err(LimitsError::Rate(0)));
        assert_eq!(Limits::new(121, 1), Err(LimitsError::Time(121)));
        assert!(Limits::new(120, 1).is_ok());
    }

    proptest! {
        #[test]
        fn whatever_is_allowed_is_within_the_bounds(count: u64, rate: u64, nanos: u64) {
            if let Ok(limits) = Limits::new(count, rate) {
                prop_assert!(limits.count().div_ceil(limits.rate()) <= MOST_SECONDS);
                prop_assert!(limits.due(Duration::from_nanos(nanos)) <= MOST_PACKETS);
            }
        }
    }
}
