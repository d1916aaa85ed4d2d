//! How long clients wait for their responses, by method.

use std::ops::AddAssign;
use std::time::Duration;

use sip::Method;

/// The methods that are counted by name; all others are one. What peers make up must not become names
/// in somebody's database.
const METHODS: [Method; 14] = [
    Method::Invite,
    Method::Ack,
    Method::Bye,
    Method::Cancel,
    Method::Register,
    Method::Options,
    Method::Prack,
    Method::Update,
    Method::Info,
    Method::Message,
    Method::Refer,
    Method::Subscribe,
    Method::Notify,
    Method::Publish,
];

/// A place for each method that is counted by name, and one for the others.
pub const METHOD_CLASSES: usize = METHODS.len() + 1;

/// The place of a method.
pub fn method_class(method: &Method) -> usize {
    METHODS
        .iter()
        .position(|known| known == method)
        .unwrap_or(METHODS.len())
}

/// The name of a place: that of its method, or `other`.
pub fn method_class_name(class: usize) -> &'static str {
    match METHODS.get(class) {
        Some(Method::Invite) => "INVITE",
        Some(Method::Ack) => "ACK",
        Some(Method::Bye) => "BYE",
        Some(Method::Cancel) => "CANCEL",
        Some(Method::Register) => "REGISTER",
        Some(Method::Options) => "OPTIONS",
        Some(Method::Prack) => "PRACK",
        Some(Method::Update) => "UPDATE",
        Some(Method::Info) => "INFO",
        Some(Method::Message) => "MESSAGE",
        Some(Method::Refer) => "REFER",
        Some(Method::Subscribe) => "SUBSCRIBE",
        Some(Method::Notify) => "NOTIFY",
        Some(Method::Publish) => "PUBLISH",
        Some(Method::Other(_)) | None => "other",
    }
}

/// The upper ends of the ranges that are told apart.
pub const LATENCY_BOUNDS: [Duration; 16] = [
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2_500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_millis(2_500),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(32),
    Duration::from_secs(180),
];

/// How often something took how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// How many were in each range of [`LATENCY_BOUNDS`], and above the last.
    pub counts: [u64; LATENCY_BOUNDS.len() + 1],
    /// All together.
    pub sum: Duration,
}

impl Histogram {
    /// Counts one.
    pub fn add(&mut self, time: Duration) {
        let range = LATENCY_BOUNDS.partition_point(|bound| *bound < time);
        if let Some(count) = self.counts.get_mut(range) {
            *count += 1;
        }
        self.sum = self.sum.saturating_add(time);
    }
}

impl AddAssign for Histogram {
    fn add_assign(&mut self, other: Histogram) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.sum = self.sum.saturating_add(other.sum);
    }
}

/// How long after their requests responses were sent, of requests that were forwarded or registered
/// something. Refusals cost no time that would be worth a word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Until the first response that is no 100, by [method](method_class).
    pub first: [Histogram; METHOD_CLASSES],
    /// Until the final response.
    pub last: [Histogram; METHOD_CLASSES],
}

impl Latencies {
    pub(super) fn add_first(&mut self, method: &Method, time: Duration) {
        if let Some(histogram) = self.first.get_mut(method_class(method)) {
            histogram.add(time);
        }
    }

    pub(super) fn add_last(&mut self, method: &Method, time: Duration) {
        if let Some(histogram) = self.last.get_mut(method_class(method)) {
            histogram.add(time);
        }
    }
}

impl AddAssign<&Latencies> for Latencies {
    fn add_assign(&mut self, other: &Latencies) {
        for (histogram, more) in self.first.iter_mut().zip(other.first) {
            *histogram += more;
        }
        for (histogram, more) in self.last.iter_mut().zip(other.last) {
            *histogram += more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_into_ranges_whose_upper_end_belongs_to_them() {
        let mut histogram = Histogram::default();
        for time in [
            Duration::ZERO,
            LATENCY_BOUNDS[0],
            LATENCY_BOUNDS[0] + Duration::from_nanos(1),
            Duration::from_secs(1000),
        ] {
            histogram.add(time);
        }
        assert_eq!(histogram.counts[..2], [2, 1]);
        assert_eq!(histogram.counts[LATENCY_BOUNDS.len()], 1);
        let mut sum = histogram;
        sum += histogram;
        assert_eq!(sum.counts[0], 4);
        assert_eq!(sum.sum, 2 * histogram.sum);
        assert!(LATENCY_BOUNDS.is_sorted());
    }

    #[test]
    fn methods_that_nobody_knows_share_a_name() {
        for method in METHODS {
            assert_eq!(method_class_name(method_class(&method)), method.as_str());
        }
        let other = method_class(&Method::Other("FROBNICATE".into()));
        assert_eq!(other, METHOD_CLASSES - 1);
        assert_eq!(method_class_name(other), "other");
    }
}
