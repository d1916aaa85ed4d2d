//! Delays: smallest, mean, largest, percentiles.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Delays of one kind, in nanoseconds, kept as a histogram of three significant figures: its size does not
/// grow with their number. Smallest, mean and largest are exact.
#[derive(Clone, Debug)]
pub struct Delays {
    histogram: Histogram<u64>,
    smallest: u64,
    largest: u64,
    total: u128,
}

/// Delays in a few numbers. Without a sample all are absent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DelaySummary {
    /// How many there are.
    pub count: u64,
    /// The smallest, exact.
    pub min: Option<f64>,
    /// The arithmetic mean, exact.
    pub mean: Option<f64>,
    /// The median, to three significant figures, as are the other percentiles.
    pub p50: Option<f64>,
    /// The 95th percentile.
    pub p95: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
    /// The largest, exact.
    pub max: Option<f64>,
}

impl Delays {
    /// No delays yet.
    pub fn new() -> Delays {
        Delays {
            // It grows with what is recorded: a day needs less than 300 KiB.
            histogram: Histogram::new(3).expect("three figures are supported"),
            smallest: u64::MAX,
            largest: 0,
            total: 0,
        }
    }

    /// Adds a sample in nanoseconds. One below zero (clocks that are not in step) counts as zero.
    pub fn record(&mut self, nanoseconds: i64) {
        let nanoseconds = u64::try_from(nanoseconds).unwrap_or(0);
        // Beyond a day the percentiles stop telling delays apart.
        self.histogram += nanoseconds.min(86_400_000_000_000);
        self.smallest = self.smallest.min(nanoseconds);
        self.largest = self.largest.max(nanoseconds);
        self.total += u128::from(nanoseconds);
    }

    /// How many samples there are.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The delay in nanoseconds that this part (0 to 1) of the samples does not exceed, to three
    /// significant figures; `None` without a sample.
    pub fn quantile(&self, part: f64) -> Option<u64> {
        (self.count() > 0).then(|| {
            let value = self.histogram.value_at_quantile(part);
            value.clamp(self.smallest, self.largest)
        })
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
        let at = |part| self.quantile(part).map(|value| value as f64 / unit);
        DelaySummary {
            count,
            min: of(self.smallest),
            mean: (count > 0).then(|| self.total as f64 / count as f64 / unit),
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            max: of(self.largest),
        }
    }
}

impl Default for Delays {
    fn default() -> Delays {
        Delays::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_samples_there_are_no_statistics() {
        let summary = Delays::new().milliseconds();
        assert_eq!((summary.count, summary.min, summary.max), (0, None, None));
        assert_eq!((summary.mean, summary.p99), (None, None));
    }

    #[test]
    fn statistics_are_those_of_the_samples() {
        let mut delays = Delays::new();
        for milliseconds in 1..=100 {
            delays.record(milliseconds * 1_000_000);
        }
        let summary = delays.milliseconds();
        assert_eq!((summary.min, summary.max), (Some(1.0), Some(100.0)));
        assert_eq!(summary.mean, Some(50.5));
        let p95 = summary.p95.unwrap();
        assert!((94.9..=95.1).contains(&p95), "{p95}");
        assert_eq!(delays.seconds().max, Some(0.1));
    }

    #[test]
    fn hostile_samples_are_taken() {
        let mut delays = Delays::new();
        for nanoseconds in [i64::MIN, -1, i64::MAX] {
            delays.record(nanoseconds);
        }
        let summary = delays.seconds();
        assert_eq!(summary.min, Some(0.0));
        assert_eq!(summary.max, Some(i64::MAX as f64 / 1e9));
    }
}
