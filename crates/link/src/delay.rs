//! How long packets are on their way.

use crate::random::up_to;
use rand_chacha::ChaCha12Rng;
use std::time::Duration;

/// Delays each packet by a fixed time and a uniformly distributed deviation from it.
#[derive(Clone, Debug)]
pub(crate) struct Delay {
    /// Nanoseconds.
    fixed: u64,
    /// Nanoseconds.
    jitter: u64,
    rng: ChaCha12Rng,
}

impl Delay {
    pub(crate) fn new(fixed: Duration, jitter: Duration, rng: ChaCha12Rng) -> Delay {
        Delay {
            fixed: nanoseconds(fixed),
            jitter: nanoseconds(jitter),
            rng,
        }
    }

    pub(crate) fn set(&mut self, fixed: Duration, jitter: Duration) {
        self.fixed = nanoseconds(fixed);
        self.jitter = nanoseconds(jitter);
    }

    /// The delays of the next packet and of its copy, should it be duplicated.
    pub(crate) fn next_pair(&mut self) -> [Duration; 2] {
        [self.next(), self.next()]
    }

    fn next(&mut self) -> Duration {
        let above_least = up_to(&mut self.rng, self.jitter * 2);
        Duration::from_nanos((self.fixed + above_least).saturating_sub(self.jitter))
    }
}

/// The longest time that is told apart from longer ones, about 73 years: sums of three stay in
/// range, for the type and for the clock.
pub(crate) const LONGEST: u64 = u64::MAX / 8;

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).map_or(LONGEST, |nanoseconds| nanoseconds.min(LONGEST))
}
