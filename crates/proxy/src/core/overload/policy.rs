//! The settings of the defence.

use std::time::Duration;

/// How much is taken before requests are refused. A rate of `None` is no limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverloadPolicy {
    /// Requests a second from all sources together, ACKs not counted. Beyond it those that would begin
    /// a dialog, and all others outside of one, are answered 503.
    pub requests_per_second: Option<u32>,
    /// Requests a second from one source: an IPv4 address, or an IPv6 prefix of 64 bits. Beyond it
    /// requests outside of a dialog are not answered; beyond twice the burst nothing is.
    pub requests_per_second_per_source: Option<u32>,
    /// OPTIONS, and REGISTERs where these are challenged, without the right credentials a second from one
    /// source. Those beyond it are not answered: they are a scanner's. Wrong passwords in other requests
    /// count, too.
    pub unauthenticated_per_second_per_source: Option<u32>,
    /// For how long a rate may be saved up: what may come at once is the rate times this.
    pub burst: Duration,
    /// How many sources have a rate of their own. Those beyond share one.
    pub maximum_sources: usize,
    /// How long a message may wait between the socket and the core. Where none has waited less for an
    /// [interval](OverloadPolicy::queue_delay_interval), and those were many, new calls are refused until one does.
    pub queue_delay_target: Duration,
    /// For how long messages must have waited too long before calls are refused: longer than a burst,
    /// and than the system ever lets the process pause. For ten times as long after calls were refused,
    /// those that have waited too long are refused without further proof.
    pub queue_delay_interval: Duration,
    /// The part of the transactions' room that is kept for what belongs to a dialog, in per cent: new
    /// calls are refused when only so much is left.
    pub reserved_transactions_percent: u8,
    /// What Retry-After says in a 503, in whole seconds (RFC 3261 section 20.33).
    pub retry_after: Duration,
}

impl Default for OverloadPolicy {
    fn default() -> OverloadPolicy {
        OverloadPolicy {
            requests_per_second: None,
            requests_per_second_per_source: None,
            unauthenticated_per_second_per_source: Some(100),
            burst: Duration::from_secs(2),
            maximum_sources: 65_536,
            queue_delay_target: Duration::from_millis(50),
            queue_delay_interval: Duration::from_millis(100),
            reserved_transactions_percent: 10,
            retry_after: Duration::from_secs(5),
        }
    }
}

impl OverloadPolicy {
    /// What one of so many workers may take. The messages of a source are spread over all of them by
    /// their Call-IDs.
    pub fn shared_among(&self, workers: usize) -> OverloadPolicy {
        let workers = u32::try_from(workers).unwrap_or(u32::MAX).max(1);
        let share = |rate: Option<u32>| rate.map(|rate| rate.div_ceil(workers));
        OverloadPolicy {
            requests_per_second: share(self.requests_per_second),
            requests_per_second_per_source: share(self.requests_per_second_per_source),
            unauthenticated_per_second_per_source: share(
                self.unauthenticated_per_second_per_source,
            ),
            ..self.clone()
        }
    }
}
