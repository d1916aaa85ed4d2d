//! The timers of a transaction (RFC 3261 section 17).

use std::time::Duration;

use crate::engine::time::Time;

/// When the message of a transaction is retransmitted, and until when.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct TransactionTimers {
    /// Timers A, E and G.
    retransmit_at: Time,
    interval: Duration,
    /// Timers B, F and H.
    expires_at: Time,
}

impl TransactionTimers {
    /// Starts them. Without `t1` nothing is retransmitted, without `timeout` they do not expire.
    pub(in crate::engine) fn start(
        &mut self,
        now: Time,
        t1: Option<Duration>,
        timeout: Option<Duration>,
    ) {
        let at = |time: Option<Duration>| time.map_or(Time::NEVER, |time| now.after(time));
        *self = TransactionTimers {
            retransmit_at: at(t1),
            interval: t1.unwrap_or_default(),
            expires_at: at(timeout),
        };
    }

    /// Stops all of them.
    pub(in crate::engine) fn stop(&mut self) {
        *self = TransactionTimers::default();
    }

    /// Nothing is retransmitted any more.
    pub(in crate::engine) fn stop_retransmitting(&mut self) {
        self.retransmit_at = Time::NEVER;
    }

    /// From the next retransmission on the interval is this one.
    pub(in crate::engine) fn set_interval(&mut self, interval: Duration) {
        self.interval = interval;
    }

    /// Sets the end of the transaction.
    pub(in crate::engine) fn expire_at(&mut self, time: Time) {
        self.expires_at = time;
    }

    /// Whether a retransmission is due. The next one follows after twice the interval, `longest` at most.
    pub(in crate::engine) fn retransmits(&mut self, now: Time, longest: Duration) -> bool {
        let is_due = self.retransmit_at <= now && self.expires_at > now;
        if is_due {
            self.interval = (self.interval * 2).min(longest);
            self.retransmit_at = now.after(self.interval);
        }
        is_due
    }

    /// Whether the message is retransmitted.
    pub(in crate::engine) fn is_retransmitting(&self) -> bool {
        self.retransmit_at.is_known()
    }

    /// Whether the transaction is at its end.
    pub(in crate::engine) fn has_expired(&self, now: Time) -> bool {
        self.expires_at <= now
    }

    /// Whether it has an end.
    pub(in crate::engine) fn expires(&self) -> bool {
        self.expires_at.is_known()
    }

    /// When something is due.
    pub(in crate::engine) fn next(&self) -> Time {
        self.retransmit_at.min(self.expires_at)
    }
}

impl Default for TransactionTimers {
    fn default() -> TransactionTimers {
        TransactionTimers {
            retransmit_at: Time::NEVER,
            interval: Duration::ZERO,
            expires_at: Time::NEVER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_double_up_to_t2_until_the_end() {
        let milliseconds = Duration::from_millis;
        let at = |time| Time::START.after(milliseconds(time));
        let mut timers = TransactionTimers::default();
        timers.start(
            Time::START,
            Some(milliseconds(500)),
            Some(milliseconds(32_000)),
        );
        let mut sent = Vec::new();
        for time in (0..40_000).step_by(100) {
            if timers.retransmits(at(time), milliseconds(4_000)) {
                sent.push(time);
            }
        }
        assert_eq!(
            sent,
            [
                500, 1_500, 3_500, 7_500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500
            ]
        );
        assert!(timers.has_expired(at(32_000)) && !timers.has_expired(at(31_999)));
        timers.stop();
        assert_eq!(timers.next(), Time::NEVER);
    }
}
