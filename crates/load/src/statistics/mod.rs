//! What the emulated users measured: the metrics of RFC 6076, the published figures, response codes, and
//! all of it over time.
//!
//! A worker keeps [`Statistics`] of its own; they are merged to look at, in any order.

mod codes;
mod metrics;
mod published;
mod run;
mod series;
mod sketch;
#[cfg(test)]
mod tests;

pub use codes::{Codes, Failures};
pub use measures::{DelaySummary, Delays, Metrics, MetricsSummary};
pub use published::{Published, PublishedSummary};
pub use run::{ArrivalCounts, Ends, Statistics};
pub use series::{Interval, Series};
pub use sketch::Sketch;
