//! A sample of durations in four numbers.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Mean, median, 95th percentile and maximum of a sample of durations, in milliseconds.
///
/// Without a sample all four are absent: `{"mean":null,"p50":null,"p95":null,"max":null}` in JSON, so that
/// a reader finds the same keys in every run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Arithmetic mean, milliseconds.
    pub mean: Option<f64>,
    /// Median, milliseconds.
    pub p50: Option<f64>,
    /// 95th percentile, milliseconds.
    pub p95: Option<f64>,
    /// Largest, milliseconds.
    pub max: Option<f64>,
}

impl Summary {
    /// The summary of an empty sample.
    pub const ABSENT: Summary = Summary {
        mean: None,
        p50: None,
        p95: None,
        max: None,
    };

    /// Sums up a sample known in full; a percentile is the smallest sample that as many are not above
    /// (the nearest rank).
    pub fn of(samples: &[Duration]) -> Summary {
        let mut milliseconds: Vec<f64> = samples
            .iter()
            .map(|sample| sample.as_secs_f64() * 1e3)
            .collect();
        milliseconds.sort_by(f64::total_cmp);
        let count = milliseconds.len();
        let at_percent = |percent: usize| {
            milliseconds
                .get((count * percent).div_ceil(100).saturating_sub(1))
                .copied()
        };
        Summary {
            mean: (count > 0).then(|| milliseconds.iter().sum::<f64>() / count as f64),
            p50: at_percent(50),
            p95: at_percent(95),
            max: milliseconds.last().copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_sample_keeps_its_keys() {
        assert_eq!(Summary::of(&[]), Summary::ABSENT);
        assert_eq!(
            serde_json::to_string(&Summary::ABSENT).unwrap(),
            r#"{"mean":null,"p50":null,"p95":null,"max":null}"#
        );
    }

    #[test]
    fn percentiles_are_samples() {
        let samples: Vec<Duration> = (1..=100).rev().map(Duration::from_millis).collect();
        let summary = Summary::of(&samples);
        assert_eq!(summary.mean, Some(50.5));
        assert_eq!(summary.p50, Some(50.0));
        assert_eq!(summary.p95, Some(95.0));
        assert_eq!(summary.max, Some(100.0));
    }

    #[test]
    fn a_single_sample_is_every_statistic() {
        let summary = Summary::of(&[Duration::from_micros(1500)]);
        assert_eq!(
            summary,
            Summary {
                mean: Some(1.5),
                p50: Some(1.5),
                p95: Some(1.5),
                max: Some(1.5)
            }
        );
    }
}
