//! The reliability of a 2xx to INVITE, which the transaction layer leaves to the user agent server.

use std::time::{Duration, Instant};

/// Tells when a 2xx to an INVITE is to be sent again, over whatever transport: after T1 first, then
/// after twice as long each time until that is T2, until the ACK comes or 64*T1 are over (RFC 3261
/// section 13.3.1.4). It is thrown away when the ACK has come.
#[derive(Clone, Debug)]
pub struct AnswerRetransmitter {
    next: Instant,
    end: Instant,
    interval: Duration,
    t2: Duration,
}

/// What an [`AnswerRetransmitter`] asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retransmission {
    /// Nothing yet.
    Wait,
    /// Pass the 2xx to its server transaction again.
    Send,
    /// No ACK came: the dialog stands, but its session is to be ended with a BYE.
    GiveUp,
}

impl AnswerRetransmitter {
    /// For a 2xx that was first sent at `now`. A T1 below a millisecond is taken for one.
    pub fn new(now: Instant, t1: Duration, t2: Duration) -> AnswerRetransmitter {
        let t1 = t1.max(Duration::from_millis(1));
        AnswerRetransmitter {
            next: now + t1,
            end: now + t1 * 64,
            interval: t1,
            t2,
        }
    }

    /// When [`handle_timeout`](AnswerRetransmitter::handle_timeout) is to be called next.
    pub fn next_timeout(&self) -> Instant {
        self.next.min(self.end)
    }

    /// What is to be done at `now`.
    pub fn handle_timeout(&mut self, now: Instant) -> Retransmission {
        if now >= self.end {
            return Retransmission::GiveUp;
        }
        if now < self.next {
            return Retransmission::Wait;
        }
        self.interval = (self.interval * 2).min(self.t2).max(self.interval);
        self.next = now + self.interval;
        Retransmission::Send
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_double_until_t2_and_end_at_64_t1() {
        let start = Instant::now();
        let (t1, t2) = (Duration::from_millis(500), Duration::from_secs(4));
        let mut answer = AnswerRetransmitter::new(start, t1, t2);
        assert_eq!(answer.handle_timeout(start), Retransmission::Wait);
        let mut times = Vec::new();
        let end = loop {
            let due = answer.next_timeout();
            let elapsed = (due - start).as_millis();
            match answer.handle_timeout(due) {
                Retransmission::Send => times.push(elapsed),
                Retransmission::GiveUp => break elapsed,
                Retransmission::Wait => panic!("nothing was due at {elapsed}"),
            }
        };
        let expected = [
            500, 1500, 3500, 7500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500,
        ];
        assert_eq!(times, expected);
        assert_eq!(end, 32_000);
    }

    #[test]
    fn a_late_call_sends_once() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let mut answer = AnswerRetransmitter::new(start, second, second * 4);
        let late = start + second * 30;
        assert_eq!(answer.handle_timeout(late), Retransmission::Send);
        assert_eq!(answer.handle_timeout(late), Retransmission::Wait);
        assert_eq!(answer.next_timeout(), late + second * 2);
    }

    #[test]
    fn odd_times_do_no_harm() {
        let start = Instant::now();
        let mut answer = AnswerRetransmitter::new(start, Duration::ZERO, Duration::ZERO);
        for _ in 0..63 {
            let due = answer.next_timeout();
            assert_eq!(answer.handle_timeout(due), Retransmission::Send);
        }
        let due = answer.next_timeout();
        assert_eq!(answer.handle_timeout(due), Retransmission::GiveUp);
    }
}
