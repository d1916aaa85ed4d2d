//! Delays of one kind: smallest, mean, largest, percentiles.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// Delays of one kind, kept as a histogram of three significant figures: its size grows with the logarithm
/// of the longest, not with their number. Smallest, mean and largest are exact.
#[derive(Clone, Debug)]
pub struct Delays {
    histogram: Histogram<u64>,
    total: u128,
    shortest: u64,
    longest: u64,
}

/// Delays in a few numbers. Without a sample all but the count are absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct DelaySummary {
    /// How many there are.
    pub count: u64,
    /// All of them together, exact. It is in no document but those with [`MicrosecondKeys`](super::MicrosecondKeys).
    #[serde(skip)]
    pub total: f64,
    /// The smallest, exact.
    pub min: Option<f64>,
    /// The arithmetic mean, exact.
    pub mean: Option<f64>,
    /// The median, to three significant figures, as are the other percentiles.
    pub p50: Option<f64>,
    /// The 90th percentile.
    pub p90: Option<f64>,
    /// The 95th percentile.
    pub p95: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
    /// The largest, exact.
    pub max: Option<f64>,
}

impl Delays {
    /// Longest delay, in nanoseconds, that percentiles tell apart from longer ones: a day.
    const LONGEST: u64 = 86_400_000_000_000;
    /// What is shorter than this many nanoseconds need not be told apart.
    const FINEST: u64 = 64;

    /// No delays yet.
    pub fn new() -> Delays {
        let mut histogram = Histogram::new_with_bounds(Self::FINEST, 2 * Self::FINEST, 3)
            .expect("constant bounds are in order and three figures are supported");
        histogram.auto(true);
        Delays {
            histogram,
            total: 0,
            shortest: u64::MAX,
            longest: 0,
        }
    }

    /// Adds a sample.
    pub fn record(&mut self, delay: Duration) {
        let nanoseconds = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        self.histogram += nanoseconds.min(Self::LONGEST);
        self.total += u128::from(nanoseconds);
        self.shortest = self.shortest.min(nanoseconds);
        self.longest = self.longest.max(nanoseconds);
    }

    /// Adds a sample in nanoseconds. One below zero (clocks that are not in step) counts as zero.
    pub fn record_nanoseconds(&mut self, nanoseconds: i64) {
        self.record(Duration::from_nanos(
            u64::try_from(nanoseconds).unwrap_or(0),
        ));
    }

    /// Adds the samples of another set.
    pub fn merge(&mut self, other: &Delays) {
        self.histogram
            .add(&other.histogram)
            .expect("a histogram that grows takes the samples of any other");
        self.total += other.total;
        self.shortest = self.shortest.min(other.shortest);
        self.longest = self.longest.max(other.longest);
    }

    /// How many samples there are.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The shortest delay, exact; none without a sample.
    pub fn minimum(&self) -> Option<Duration> {
        (self.count() > 0).then(|| Duration::from_nanos(self.shortest))
    }

    /// The arithmetic mean, exact; none without a sample.
    pub fn mean(&self) -> Option<Duration> {
        let mean = self.total.checked_div(u128::from(self.count()))?;
        Some(Duration::from_nanos(
            u64::try_from(mean).unwrap_or(u64::MAX),
        ))
    }

    /// The delay that this part of the samples (0 to 1) does not exceed, to three significant figures;
    /// none without a sample.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        (self.count() > 0).then(|| {
            let value = self.histogram.value_at_quantile(part);
            Duration::from_nanos(value.clamp(self.shortest, self.longest))
        })
    }

    /// The longest delay, exact; none without a sample.
    pub fn maximum(&self) -> Option<Duration> {
        (self.count() > 0).then(|| Duration::from_nanos(self.longest))
    }

    /// The part of the samples (0 to 1) that are longer than this, to three significant figures; 0 without
    /// a sample.
    pub fn share_above(&self, limit: Duration) -> f64 {
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        if limit >= self.longest {
            return 0.0;
        }
        // By counts: one in a hundred is not more than a hundredth. What the histogram cannot tell from
        // the limit is not above it.
        let next = self.histogram.next_non_equivalent(limit);
        let above = self.histogram.count_between(next, self.longest);
        above as f64 / self.count() as f64
    }

    /// The samples from the shortest to the longest as steps of a distribution: each value (to three
    /// significant figures) with the number of samples at it. For plots of the distribution.
    pub fn steps(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        self.histogram.iter_recorded().map(|step| {
            let value = step.value_iterated_to().clamp(self.shortest, self.longest);
            (Duration::from_nanos(value), step.count_at_value())
        })
    }

    /// The samples in few numbers, in microseconds.
    pub fn microseconds(&self) -> DelaySummary {
        self.summary(1e3)
    }

    /// The samples in few numbers, in milliseconds.
    pub fn milliseconds(&self) -> DelaySummary {
        self.summary(1e6)
    }

    /// The samples in few numbers, in seconds.
    pub fn seconds(&self) -> DelaySummary {
        self.summary(1e9)
    }

    fn summary(&self, unit: f64) -> DelaySummary {
        let count = self.count();
        let of = |value: u64| (count > 0).then(|| value as f64 / unit);
        let at = |part| {
            self.quantile(part)
                .map(|delay| delay.as_nanos() as f64 / unit)
        };
        DelaySummary {
            count,
            total: self.total as f64 / unit,
            min: of(self.shortest),
            mean: (count > 0).then(|| self.total as f64 / count as f64 / unit),
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            max: of(self.longest),
        }
    }
}

impl Default for Delays {
    fn default() -> Delays {
        Delays::new()
    }
}

/// Sets are equal when no statistic tells them apart.
impl PartialEq for Delays {
    fn eq(&self, other: &Delays) -> bool {
        self.total == other.total
            && self.shortest == other.shortest
            && self.longest == other.longest
            && self.steps().eq(other.steps())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_samples_there_are_no_statistics() {
        let delays = Delays::new();
        assert_eq!(delays.minimum(), None);
        assert_eq!(delays.mean(), None);
        assert_eq!(delays.quantile(0.5), None);
        assert_eq!(delays.maximum(), None);
        assert_eq!(delays.share_above(Duration::ZERO), 0.0);
        assert_eq!(delays.milliseconds(), DelaySummary::default());
    }

    #[test]
    fn statistics_are_those_of_the_samples() {
        let mut delays = Delays::new();
        for milliseconds in 1..=100 {
            delays.record(Duration::from_millis(milliseconds));
        }
        assert_eq!(delays.minimum(), Some(Duration::from_millis(1)));
        assert_eq!(delays.mean(), Some(Duration::from_micros(50_500)));
        let median = delays.quantile(0.5).unwrap().as_secs_f64();
        assert!((0.0499..=0.0501).contains(&median), "{median}");
        let p95 = delays.milliseconds().p95.unwrap();
        assert!((94.9..=95.1).contains(&p95), "{p95}");
        assert_eq!(delays.maximum(), Some(Duration::from_millis(100)));
        assert_eq!(delays.seconds().max, Some(0.1));
        let late = delays.share_above(Duration::from_millis(90));
        assert!((0.0999..=0.1001).contains(&late), "{late}");
        assert_eq!(delays.steps().map(|(_, count)| count).sum::<u64>(), 100);
    }

    #[test]
    fn a_quantile_is_never_beyond_the_samples() {
        let mut delays = Delays::new();
        delays.record(Duration::from_nanos(1_234_567));
        assert_eq!(delays.quantile(1.0), delays.maximum());
        assert_eq!(delays.quantile(0.0), delays.minimum());
    }

    #[test]
    fn any_delay_is_taken() {
        let mut delays = Delays::new();
        delays.record(Duration::ZERO);
        delays.record(Duration::MAX);
        for nanoseconds in [i64::MIN, -1, i64::MAX] {
            delays.record_nanoseconds(nanoseconds);
        }
        assert_eq!(delays.minimum(), Some(Duration::ZERO));
        assert_eq!(delays.maximum(), Some(Duration::from_nanos(u64::MAX)));
        assert_eq!(delays.count(), 5);
        assert!(delays.quantile(0.5) < Some(Duration::from_nanos(64)));
    }

    #[test]
    fn merged_sets_count_all_samples() {
        let mut left = Delays::new();
        left.record(Duration::from_millis(1));
        let mut right = Delays::new();
        right.record(Duration::from_secs(3));
        left.merge(&right);
        assert_eq!(left.count(), 2);
        assert_eq!(left.mean(), Some(Duration::from_micros(1_500_500)));
        assert_eq!(left.maximum(), Some(Duration::from_secs(3)));
        assert_eq!(left.minimum(), Some(Duration::from_millis(1)));
    }
}
