//! What the emulated users measured, by the definitions of RFC 6076.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Delays of one kind, kept as a histogram of three significant figures from 1 µs on: its size does
/// not grow with the number of samples.
#[derive(Clone, Debug)]
pub struct Delays {
    histogram: Histogram<u64>,
    total: Duration,
    longest: Duration,
}

impl Delays {
    /// Longest delay told apart from longer ones; a transaction times out long before (Timer C of
    /// RFC 3261 section 16.6 runs for some minutes).
    const LONGEST: Duration = Duration::from_secs(3600);

    /// No delays yet.
    pub fn new() -> Delays {
        let histogram = Histogram::new_with_bounds(1, Self::LONGEST.as_micros() as u64, 3)
            .expect("constant bounds are in order and three figures are supported");
        Delays {
            histogram,
            total: Duration::ZERO,
            longest: Duration::ZERO,
        }
    }

    /// Adds a sample.
    pub fn record(&mut self, delay: Duration) {
        let microseconds = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        self.histogram.saturating_record(microseconds);
        self.total += delay;
        self.longest = self.longest.max(delay);
    }

    /// Adds the samples of another set.
    pub fn merge(&mut self, other: &Delays) {
        self.histogram
            .add(&other.histogram)
            .expect("both histograms have the same bounds");
        self.total += other.total;
        self.longest = self.longest.max(other.longest);
    }

    /// How many samples there are.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The arithmetic mean, exact; none without a sample.
    pub fn mean(&self) -> Option<Duration> {
        (self.count() > 0).then(|| self.total.div_f64(self.count() as f64))
    }

    /// The delay that this part of the samples (0 to 1) does not exceed, to three significant figures;
    /// none without a sample.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        (self.count() > 0).then(|| {
            Duration::from_micros(self.histogram.value_at_quantile(part)).min(self.longest)
        })
    }

    /// The longest delay, exact; none without a sample.
    pub fn maximum(&self) -> Option<Duration> {
        (self.count() > 0).then_some(self.longest)
    }
}

impl Default for Delays {
    fn default() -> Delays {
        Delays::new()
    }
}

/// What became of the registrations of a side.
#[derive(Clone, Debug, Default)]
pub struct RegistrationResults {
    /// Users that are to register.
    pub users: u32,
    /// REGISTER requests sent, retransmissions apart.
    pub attempted: u64,
    /// Requests answered 200.
    pub succeeded: u64,
    /// Requests answered otherwise, timed out or not sent: ineffective registration attempts
    /// (RFC 6076 section 4.2).
    pub failed: u64,
    /// Registration request delay of the successful ones (RFC 6076 section 4.1).
    pub delay: Delays,
}

impl RegistrationResults {
    /// Adds those of another side.
    pub fn merge(&mut self, other: &RegistrationResults) {
        self.users += other.users;
        self.attempted += other.attempted;
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.delay.merge(&other.delay);
    }
}

/// What became of the calls of the callers.
#[derive(Clone, Debug, Default)]
pub struct CallResults {
    /// Calls begun: an INVITE was sent.
    pub attempted: u64,
    /// Calls set up and ended by a BYE that was answered 200.
    pub completed: u64,
    /// Calls refused, timed out, or broken.
    pub failed: u64,
    /// Calls that an open loop would have begun, had not as many calls as allowed been in flight.
    pub not_started: u64,
    /// Session request delay of the calls that were set up: first INVITE to first provisional response
    /// beyond 100, or to the 200 where there was none (RFC 6076 section 4.3.1).
    pub session_request_delay: Delays,
    /// The same of the calls that failed to be set up: to the first such provisional or to the failure
    /// response (RFC 6076 section 4.3.2). A call that nobody answered at all has none.
    pub failed_session_request_delay: Delays,
    /// Session disconnect delay: BYE to its 200 (RFC 6076 section 4.4).
    pub session_disconnect_delay: Delays,
}

impl CallResults {
    /// Calls still under way.
    pub fn unfinished(&self) -> u64 {
        self.attempted - self.completed - self.failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_samples_there_are_no_statistics() {
        let delays = Delays::new();
        assert_eq!(delays.mean(), None);
        assert_eq!(delays.quantile(0.5), None);
        assert_eq!(delays.maximum(), None);
    }

    #[test]
    fn statistics_are_those_of_the_samples() {
        let mut delays = Delays::new();
        for milliseconds in 1..=100 {
            delays.record(Duration::from_millis(milliseconds));
        }
        assert_eq!(delays.mean(), Some(Duration::from_micros(50_500)));
        let median = delays.quantile(0.5).unwrap().as_secs_f64();
        assert!((0.0499..=0.0501).contains(&median), "{median}");
        let p95 = delays.quantile(0.95).unwrap().as_secs_f64();
        assert!((0.0949..=0.0951).contains(&p95), "{p95}");
        assert_eq!(delays.maximum(), Some(Duration::from_millis(100)));
    }

    #[test]
    fn a_quantile_never_exceeds_the_maximum() {
        let mut delays = Delays::new();
        delays.record(Duration::from_nanos(1_234_567));
        assert!(delays.quantile(1.0) <= delays.maximum());
    }

    #[test]
    fn merged_sets_count_all_samples() {
        let mut left = Delays::new();
        left.record(Duration::from_millis(1));
        let mut right = Delays::new();
        right.record(Duration::from_millis(3));
        left.merge(&right);
        assert_eq!(left.count(), 2);
        assert_eq!(left.mean(), Some(Duration::from_millis(2)));
        assert_eq!(left.maximum(), Some(Duration::from_millis(3)));
    }
}
