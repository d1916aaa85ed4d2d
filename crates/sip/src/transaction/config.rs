//! The timer values of RFC 3261 Table 4 and RFC 6026 section 8.11, and the bounds of the layer.

use std::time::Duration;

use super::table::PLACE_BITS;

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
    /// The most client transactions, and the most server transactions, at one time; the CANCEL for
    /// an INVITE that has come is let in beyond them.
    pub max_transactions: usize,
    /// The most octets of messages that all transactions keep to send them again. A transaction that
    /// would begin beyond it is refused; the responses of those that are there may exceed it.
    pub max_octets: usize,
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
            max_octets: 512 << 20,
        }
    }
}

impl TransactionConfig {
    /// The shortest retransmission interval.
    const SHORTEST_T1: Duration = Duration::from_millis(1);

    /// The same with T1, T2 and the number of transactions within their bounds: an interval of zero would
    /// repeat a message without end.
    pub(super) fn bounded(self) -> TransactionConfig {
        let t1 = self.t1.max(TransactionConfig::SHORTEST_T1);
        let t2 = self.t2.max(t1);
        TransactionConfig {
            t1,
            t2,
            // With a CANCEL each they have a place in the table.
            max_transactions: self.max_transactions.min(1 << (PLACE_BITS - 1)),
            ..self
        }
    }

    /// 64*T1: Timers B, F, H, J, L and M.
    pub(super) fn timeout(&self) -> Duration {
        self.t1.saturating_mul(64)
    }

    /// What is left of 64*T1 after a time.
    pub(super) fn timeout_after(&self, elapsed: Duration) -> Duration {
        self.timeout().saturating_sub(elapsed)
    }

    /// T1 doubled so often, without a bound.
    pub(super) fn doubled_t1(&self, times: u8) -> Duration {
        let factor = 1_u32.checked_shl(times.into());
        self.t1.saturating_mul(factor.unwrap_or(u32::MAX))
    }

    /// How long after the first transmission Timer E of a client is first set to T2: when a 100 to a
    /// request other than INVITE is due (RFC 4320 section 4.1). 3.5 s with the default values.
    pub(super) fn time_until_timer_e_is_t2(&self) -> Duration {
        let mut elapsed = Duration::ZERO;
        let mut interval = self.t1;
        while interval < self.t2 {
            elapsed = elapsed.saturating_add(interval);
            interval = interval.saturating_mul(2);
        }
        elapsed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_times() {
        let config = TransactionConfig::default();
        assert_eq!(config.timeout(), Duration::from_secs(32));
        let trying = config.time_until_timer_e_is_t2();
        assert_eq!(trying, Duration::from_millis(500 + 1000 + 2000));
    }

    #[test]
    fn intervals_are_never_zero() {
        let zero = TransactionConfig {
            t1: Duration::ZERO,
            t2: Duration::ZERO,
            ..TransactionConfig::default()
        };
        let config = zero.bounded();
        assert_eq!(config.t1, Duration::from_millis(1));
        assert_eq!(config.t2, config.t1);
    }
}
