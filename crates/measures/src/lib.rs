//! Core: what is measured of SIP, for whoever sees it: emulated users, or a capture.
//!
//! [`Metrics`] has the counters of RFC 6076 and its ratios; whoever fills it says how requests and sessions
//! [ended](Ending). [`Delays`] keeps delays of one kind.
#![forbid(unsafe_code)]

mod delays;
mod metrics;

pub use delays::{DelaySummary, Delays};
pub use metrics::{Disconnection, Ending, Metrics, MetricsSummary};
