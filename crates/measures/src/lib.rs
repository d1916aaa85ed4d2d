//! Core: delays in histograms, and what RFC 6076 measures of SIP, for users and captures.
//!
//! [`Metrics`] has the counters of RFC 6076 and its ratios; whoever fills it says how requests and sessions
//! [ended](Ending). [`Delays`] keeps delays of one kind.
#![forbid(unsafe_code)]

mod delays;
mod keys;
mod metrics;

pub use delays::{DelaySummary, Delays};
pub use keys::{BriefKeys, MicrosecondKeys, MillisecondKeys};
pub use metrics::{Disconnection, Ending, Metrics, MetricsSummary};
