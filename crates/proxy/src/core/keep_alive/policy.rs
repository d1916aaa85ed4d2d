//! What an operator says about keep-alives.

use std::time::Duration;

/// What is sent to user agents behind NATs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepAliveMethod {
    /// Two line ends: the least that a NAT can see.
    LineEnds,
    /// An OPTIONS request, which a user agent answers: for NATs that want to see traffic from inside.
    Options,
}

/// How the way to user agents behind NATs is kept open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeepAlivePolicy {
    /// What is sent; `None` leaves it to the user agents.
    pub method: Option<KeepAliveMethod>,
    /// How often.
    pub interval: Duration,
    /// To how many flows, by each worker. Those that register when there are so many are left alone.
    pub maximum_flows: usize,
}

impl Default for KeepAlivePolicy {
    /// Nothing is sent.
    fn default() -> KeepAlivePolicy {
        KeepAlivePolicy {
            method: None,
            interval: Duration::from_secs(25),
            maximum_flows: 100_000,
        }
    }
}
