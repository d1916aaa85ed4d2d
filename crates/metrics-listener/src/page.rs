//! A page of metrics, in the text format of OpenMetrics 1.0.

use std::fmt;
use std::time::{Duration, SystemTime};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, LabelSetEncoder, NoLabelSet, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::process::Process;

/// A snapshot of what is watched.
pub trait Metrics: fmt::Debug + Send + Sync + 'static {
    /// Writes all of it.
    ///
    /// # Errors
    /// When the page cannot be written.
    fn write(&self, page: &mut Page<'_>) -> fmt::Result;
}

/// Puts a snapshot into words.
pub fn write(metrics: impl Metrics) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Collected(metrics)));
    let mut text = String::new();
    // Only a writer can fail, and a string does not.
    let _ = text::encode(&mut text, &registry);
    text
}

#[derive(Debug)]
struct Collected<M>(M);

impl<M: Metrics> Collector for Collected<M> {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.write(&mut Page(encoder))
    }
}

/// The labels of a series: names, and values, which may be anything.
pub type Labels<'a> = Vec<(&'static str, &'a str)>;

/// The values of a histogram.
#[derive(Clone, Debug, PartialEq)]
pub struct Buckets {
    /// The sum of all values.
    pub sum: f64,
    /// How many values there were up to each upper bound, and above the one before it; the last bound is [`f64::MAX`].
    pub counts: Vec<(f64, u64)>,
}

/// What of a list has been counted at all: series that never were anything are left out.
pub fn used<'a>(
    series: impl IntoIterator<Item = (Labels<'a>, u64)>,
) -> impl Iterator<Item = (Labels<'a>, u64)> {
    series.into_iter().filter(|(_, count)| *count > 0)
}

/// A page of metrics that is being written.
#[derive(Debug)]
pub struct Page<'a>(DescriptorEncoder<'a>);

impl Page<'_> {
    /// A counter without labels.
    ///
    /// # Errors
    /// When the page cannot be written, as for all that follow.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.counters(name, help, [(Vec::new(), value)])
    }

    /// A family of counters.
    ///
    /// # Errors
    /// As [`Self::counter`].
    pub fn counters<'a>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels<'a>, u64)>,
    ) -> fmt::Result {
        let kind = MetricType::Counter;
        let mut family = self.0.encode_descriptor(name, help, None, kind)?;
        for (labels, value) in series {
            family
                .encode_family(&Written(labels))?
                .encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        Ok(())
    }

    /// A counter of seconds.
    ///
    /// # Errors
    /// As [`Self::counter`].
    pub fn seconds(&mut self, name: &str, help: &str, value: Duration) -> fmt::Result {
        let kind = MetricType::Counter;
        self.0
            .encode_descriptor(name, help, None, kind)?
            .encode_counter::<NoLabelSet, _, u64>(&value.as_secs_f64(), None)
    }

    /// A gauge without labels.
    ///
    /// # Errors
    /// As [`Self::counter`].
    pub fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        self.gauges(name, help, [(Vec::new(), value)])
    }

    /// A family of gauges.
    ///
    /// # Errors
    /// As [`Self::counter`].
    pub fn gauges<'a>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels<'a>, f64)>,
    ) -> fmt::Result {
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in series {
            family
                .encode_family(&Written(labels))?
                .encode_gauge(&value)?;
        }
        Ok(())
    }

    /// A family of histograms.
    ///
    /// # Errors
    /// As [`Self::counter`].
    pub fn histograms<'a>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels<'a>, Buckets)>,
    ) -> fmt::Result {
        let kind = MetricType::Histogram;
        let mut family = self.0.encode_descriptor(name, help, None, kind)?;
        for (labels, Buckets { sum, counts }) in series {
            let count = counts.iter().map(|(_, count)| count).sum();
            family
                .encode_family(&Written(labels))?
                .encode_histogram::<NoLabelSet>(sum, count, &counts, None)?;
        }
        Ok(())
    }

    /// What this process uses: CPU time, memory, descriptors, and when it was started.
    ///
    /// # Errors
    /// As [`Self::counter`].
    pub fn process(&mut self, started: SystemTime) -> fmt::Result {
        let process = Process::now(started);
        self.seconds(
            "process_cpu_seconds",
            "CPU time of all threads",
            process.cpu,
        )?;
        if let Some(bytes) = process.resident_bytes {
            self.gauge(
                "process_resident_memory_bytes",
                "Resident memory",
                bytes as f64,
            )?;
        }
        if let Some(descriptors) = process.descriptors {
            self.gauge(
                "process_open_fds",
                "Open file descriptors",
                descriptors as f64,
            )?;
        }
        let started = process.started.duration_since(SystemTime::UNIX_EPOCH);
        self.gauge(
            "process_start_time_seconds",
            "When the server was started",
            started.unwrap_or_default().as_secs_f64(),
        )
    }
}

/// Labels whose values are written so that they can be read again, whatever they are: the encoder does
/// not see to that.
#[derive(Debug)]
struct Written<'a>(Labels<'a>);

impl EncodeLabelSet for Written<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        let labels: Vec<(&str, String)> = self
            .0
            .iter()
            .map(|(name, value)| {
                let value = value.replace('\\', "\\\\").replace('"', "\\\"");
                (*name, value.replace('\n', "\\n"))
            })
            .collect();
        labels.as_slice().encode(encoder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Odd;

    impl Metrics for Odd {
        fn write(&self, page: &mut Page<'_>) -> fmt::Result {
            page.counters(
                "odd",
                "Odd things",
                used([(vec![("name", "a\"\\\nb")], 3), (vec![("name", "none")], 0)]),
            )?;
            let counts = vec![(0.5, 2), (f64::MAX, 1)];
            let buckets = Buckets { sum: 4.0, counts };
            page.histograms("times", "Times", [(vec![("of", "a")], buckets)])
        }
    }

    #[test]
    fn labels_are_escaped_and_buckets_cumulate() {
        let text = write(Odd);
        assert!(
            text.contains("odd_total{name=\"a\\\"\\\\\\nb\"} 3\n"),
            "{text}"
        );
        assert!(!text.contains("none"), "{text}");
        assert!(
            text.contains("times_bucket{le=\"0.5\",of=\"a\"} 2\n"),
            "{text}"
        );
        assert!(
            text.contains("times_bucket{le=\"+Inf\",of=\"a\"} 3\n"),
            "{text}"
        );
        assert!(text.contains("times_count{of=\"a\"} 3\n"), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
