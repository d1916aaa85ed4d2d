//! What an operator watches: counters and gauges in the text format of OpenMetrics, which Prometheus
//! reads, and whether the server is well.
//!
//! Nothing is counted twice: what the parts count anyway is fetched when somebody asks, and put into
//! words by `exposition`. The number of series has a bound: methods that nobody knows are one,
//! associations are shown up to a limit.

mod exposition;

pub use crate::driver::Observer;
pub use metrics_listener::{BindError, MetricsListener, Observed};
