//! The keys that a [`DelaySummary`] has in documents that do not name its numbers as it does: for
//! `#[serde(with = "measures::MillisecondKeys")]`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::delays::DelaySummary;

/// The unit stands in the keys: `p95_ms`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(
    remote = "DelaySummary",
    default = "DelaySummary::default",
    deny_unknown_fields
)]
pub struct MillisecondKeys {
    count: u64,
    #[serde(skip)]
    total: f64,
    #[serde(rename = "min_ms")]
    min: Option<f64>,
    #[serde(rename = "mean_ms")]
    mean: Option<f64>,
    #[serde(rename = "p50_ms")]
    p50: Option<f64>,
    #[serde(skip)]
    p90: Option<f64>,
    #[serde(rename = "p95_ms")]
    p95: Option<f64>,
    #[serde(rename = "p99_ms")]
    p99: Option<f64>,
    #[serde(rename = "max_ms")]
    max: Option<f64>,
}

/// Microseconds with their total, from which a reader of two documents computes the mean of the time between them. What
/// is absent is zero.
#[derive(Debug, Serialize, Deserialize)]
#[serde(remote = "DelaySummary", default = "DelaySummary::default")]
pub struct MicrosecondKeys {
    count: u64,
    #[serde(rename = "total_us")]
    total: f64,
    #[serde(rename = "min_us", with = "or_zero")]
    min: Option<f64>,
    #[serde(skip)]
    mean: Option<f64>,
    #[serde(rename = "median_us", with = "or_zero")]
    p50: Option<f64>,
    #[serde(rename = "p90_us", with = "or_zero")]
    p90: Option<f64>,
    #[serde(skip)]
    p95: Option<f64>,
    #[serde(rename = "p99_us", with = "or_zero")]
    p99: Option<f64>,
    #[serde(rename = "max_us", with = "or_zero")]
    max: Option<f64>,
}

/// Mean, median, 95th percentile and largest, and nothing else.
#[derive(Debug, Serialize, Deserialize)]
#[serde(remote = "DelaySummary", default = "DelaySummary::default")]
pub struct BriefKeys {
    #[serde(skip)]
    count: u64,
    #[serde(skip)]
    total: f64,
    #[serde(skip)]
    min: Option<f64>,
    mean: Option<f64>,
    p50: Option<f64>,
    #[serde(skip)]
    p90: Option<f64>,
    p95: Option<f64>,
    #[serde(skip)]
    p99: Option<f64>,
    max: Option<f64>,
}

mod or_zero {
    use super::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        number: &Option<f64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        number.unwrap_or_default().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<f64>, D::Error> {
        f64::deserialize(deserializer).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Delays;
    use super::*;

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Document {
        #[serde(with = "MillisecondKeys")]
        ms: DelaySummary,
        #[serde(with = "MicrosecondKeys")]
        us: DelaySummary,
        #[serde(with = "BriefKeys")]
        brief: DelaySummary,
    }

    #[test]
    fn without_a_sample_the_keys_are_there() {
        let expected = concat!(
            r#"{"ms":{"count":0,"min_ms":null,"mean_ms":null,"p50_ms":null,"p95_ms":null,"p99_ms":null,"max_ms":null},"#,
            r#""us":{"count":0,"total_us":0.0,"min_us":0.0,"median_us":0.0,"p90_us":0.0,"p99_us":0.0,"max_us":0.0},"#,
            r#""brief":{"mean":null,"p50":null,"p95":null,"max":null}}"#
        );
        let empty = Document::default();
        assert_eq!(serde_json::to_string(&empty).unwrap(), expected);
    }

    #[test]
    fn what_is_written_reads_back() {
        let mut delays = Delays::new();
        delays.record(Duration::from_micros(1500));
        delays.record(Duration::from_micros(2500));
        let (ms, us) = (delays.milliseconds(), delays.microseconds());
        let document = Document { ms, us, brief: ms };
        let json = serde_json::to_string(&document).unwrap();
        let read: Document = serde_json::from_str(&json).unwrap();
        assert_eq!(
            (read.ms.count, read.ms.mean, read.ms.p90),
            (2, Some(2.0), None)
        );
        assert_eq!((read.us.total, read.us.max), (4000.0, Some(2500.0)));
        assert_eq!((read.brief.mean, read.brief.count), (Some(2.0), 0));
        assert!(
            json.contains(r#""us":{"count":2,"total_us":4000.0,"min_us":1500.0,"#),
            "{json}"
        );
        let unknown = json.replace("min_ms", "minimum");
        assert!(serde_json::from_str::<Document>(&unknown).is_err());
    }
}
