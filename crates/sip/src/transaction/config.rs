//! The timer values of RFC 3261 Table 4 and RFC 6026 section 8.11, and the bounds of the layer.

use std::time::Duration;

/// How transactions behave. The default is what the RFCs say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionConfig {
    /// Estimate of the round-trip time; the first retransmission interval (RFC 3261 section
    /// 17.1.1.2). Values below a millisecond are taken for one.
    pub t1: Duration,
    /// The longest retransmission interval of requests other than INVITE and of responses to INVITE
    /// (section 17.1.2.2). Values below T1 are taken for T1.
    pub t2: Duration,
    /// How long a message stays in the network (section 17.1.2.2).
    pub t4: Duration,
    /// How long a client transaction answers retransmitted non-2xx responses to INVITE on an
    /// unreliable transport; the RFC wants 32 s at least (section 17.1.1.2).
    pub timer_d: Duration,
    /// After what time without an answer of the transaction user an INVITE is answered with 100
    /// (section 17.2.1): zero sends the 100 before the user sees the request, `None` leaves it to
    /// the user.
    pub trying_after: Option<Duration>,
    /// The most client transactions, and the most server transactions, at one time.
    pub max_transactions: usize,
}

impl Default for TransactionConfig {
    fn default() -> TransactionConfig {
        TransactionConfig {
            t1: Duration::from_millis(500),
            t2: Duration::from_secs(4),
            t4: Duration::from_secs(5),
            timer_d: Duration::from_secs(32),
            trying_after: Some(Duration::from_millis(200)),
            max_transactions: 500_000,
        }
    }
}
