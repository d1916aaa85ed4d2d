//! Driver: what an operator watches: metrics in the text format of OpenMetrics, which Prometheus reads, and the HTTP listener
//! that serves them.
//!
//! A server takes a snapshot of its counters, which implements [`Metrics`], when somebody asks. [`Page`] puts it into words;
//! [`MetricsListener`] serves `/metrics`, `/healthz`, `/readyz`, and further documents of the server ([`Observed`]).
#![forbid(unsafe_code)]

mod listener;
mod page;
mod process;
mod sctp;

pub use listener::{BindError, Document, MetricsListener, Observed};
pub use page::{Buckets, Labels, Metrics, Page, used, write};
pub use sctp::SctpAssociation;
