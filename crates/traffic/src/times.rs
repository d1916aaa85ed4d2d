//! Many times in a few numbers.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Times as they are measured, to three figures, from a nanosecond to an hour.
#[derive(Clone, Debug)]
pub struct Times(Histogram<u64>);

/// Times summed up, in milliseconds; all absent without any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TimeSummary {
    /// How many.
    pub count: u64,
    /// The shortest.
    pub min_ms: Option<f64>,
    /// The mean.
    pub mean_ms: Option<f64>,
    /// The median.
    pub p50_ms: Option<f64>,
    /// 95 % are not longer.
    pub p95_ms: Option<f64>,
    /// 99 % are not longer.
    pub p99_ms: Option<f64>,
    /// The longest.
    pub max_ms: Option<f64>,
}

/// The longest time that is told from longer ones.
const LONGEST: u64 = 3_600_000_000_000;

impl Times {
    /// None yet.
    pub fn new() -> Times {
        Times(Histogram::new_with_bounds(1, LONGEST, 3).expect("these bounds are in order"))
    }

    /// Adds one.
    pub fn add(&mut self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.saturating_record(nanoseconds);
    }

    /// Sums them up.
    pub fn summary(&self) -> TimeSummary {
        let times = &self.0;
        if times.is_empty() {
            return TimeSummary::default();
        }
        let ms = |nanoseconds: u64| Some(nanoseconds as f64 / 1e6);
        TimeSummary {
            count: times.len(),
            min_ms: ms(times.min()),
            mean_ms: Some(times.mean() / 1e6),
            p50_ms: ms(times.value_at_quantile(0.5)),
            p95_ms: ms(times.value_at_quantile(0.95)),
            p99_ms: ms(times.value_at_quantile(0.99)),
            max_ms: ms(times.max()),
        }
    }
}

impl Default for Times {
    fn default() -> Self {
        Self::new()
    }
}

/// What repeated work takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Work {
    /// Packets that it was done to.
    pub packets: u64,
    /// Their octets.
    pub bytes: u64,
    /// What it took, nanoseconds.
    pub nanoseconds: u64,
}

impl Work {
    /// Adds a packet.
    pub fn add(&mut self, bytes: usize, time: Option<Duration>) {
        let nanoseconds = time.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        self.packets += 1;
        self.bytes = self.bytes.saturating_add(bytes as u64);
        self.nanoseconds = self.nanoseconds.saturating_add(nanoseconds);
    }

    /// Nanoseconds a packet.
    pub fn nanoseconds_per_packet(&self) -> Option<f64> {
        (self.packets > 0).then(|| self.nanoseconds as f64 / self.packets as f64)
    }

    /// Octets a second while it is done.
    pub fn bytes_per_second(&self) -> Option<f64> {
        (self.nanoseconds > 0).then(|| self.bytes as f64 * 1e9 / self.nanoseconds as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_summed_up() {
        let mut times = Times::new();
        assert_eq!(times.summary(), TimeSummary::default());
        for ms in 1..=100 {
            times.add(Duration::from_millis(ms));
        }
        let summary = times.summary();
        assert_eq!(summary.count, 100);
        let near = |value: Option<f64>, truth: f64| (value.unwrap() / truth - 1.0).abs() < 2e-3;
        assert!(
            near(summary.mean_ms, 50.5) && near(summary.p50_ms, 50.0),
            "{summary:?}"
        );
        assert!(
            near(summary.p95_ms, 95.0) && near(summary.max_ms, 100.0),
            "{summary:?}"
        );
        times.add(Duration::MAX);
        assert_eq!(times.summary().count, 101);
    }

    #[test]
    fn work_is_told_by_packet_and_by_time() {
        let mut work = Work::default();
        assert_eq!(
            (work.nanoseconds_per_packet(), work.bytes_per_second()),
            (None, None)
        );
        work.add(100, Some(Duration::from_nanos(200)));
        work.add(100, None);
        assert_eq!(work.nanoseconds_per_packet(), Some(100.0));
        assert_eq!(work.bytes_per_second(), Some(1e9));
    }
}
