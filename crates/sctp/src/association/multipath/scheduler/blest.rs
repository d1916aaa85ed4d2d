//! Blocking Estimation (BLEST; Ferlin et al., IFIP Networking 2016): a slower path takes data only when that does
//! not fill the window before the fastest one could.

use std::time::Instant;

use super::{Candidate, Scheduler, WaitingData, fastest, fastest_with_room};
use crate::association::path_id::PathId;

/// Lambda of the paper, which corrects the estimate: its bounds, and how it changes.
const LEAST_LAMBDA: f64 = 1.0;
const MOST_LAMBDA: f64 = 1.3;
const UP: f64 = 0.04;
const DOWN: f64 = 0.01;

#[derive(Debug)]
pub(super) struct Blest {
    lambda: f64,
    /// Lambda changes once in a round trip of the fastest path: when next.
    changes: Option<Instant>,
    /// The window was full since it last did.
    was_blocked: bool,
}

impl Default for Blest {
    fn default() -> Blest {
        Blest {
            lambda: LEAST_LAMBDA,
            changes: None,
            was_blocked: false,
        }
    }
}

impl Blest {
    fn adapt(&mut self, fast: &Candidate, in_flight: usize, data: &WaitingData) {
        self.was_blocked |= fast.has_room && in_flight + fast.packet > data.window;
        if self.changes.is_some_and(|changes| data.now < changes) {
            return;
        }
        let change = if self.was_blocked { UP } else { -DOWN };
        self.lambda = (self.lambda + change).clamp(LEAST_LAMBDA, MOST_LAMBDA);
        self.was_blocked = false;
        self.changes = Some(data.now + fast.srtt);
    }
}

impl Scheduler for Blest {
    fn next(&mut self, paths: &[Candidate], data: &WaitingData) -> Option<PathId> {
        let fast = fastest(paths)?;
        let in_flight = paths.iter().map(|path| path.flight).sum();
        self.adapt(fast, in_flight, data);
        let slow = fastest_with_room(paths)?;
        if slow.id == fast.id {
            return Some(fast.id);
        }
        let available = data.window.saturating_sub(slow.flight + slow.packet);
        let blocks = sent_meanwhile(fast, slow) * self.lambda > available as f64;
        (!blocks).then_some(slow.id)
    }
}

/// Bytes that the fast path can send while a packet is under way on the slow one.
fn sent_meanwhile(fast: &Candidate, slow: &Candidate) -> f64 {
    let fast_rtt = fast.srtt.as_secs_f64().max(1e-6);
    // Beyond this many, anything is larger than a window.
    let round_trips = (slow.srtt.as_secs_f64() / fast_rtt).clamp(1.0, 1e6);
    let window = fast.cwnd.max(1) as f64;
    // As many in slow start, which ends with the first growth where the window is at the threshold (RFC 9260 section
    // 7.2.1). The others add a packet each.
    let doublings = (fast.ssthresh as f64 / window)
        .log2()
        .clamp(0.0, round_trips);
    let grown = window * doublings.exp2();
    let left = round_trips - doublings;
    (grown - window) + (grown + fast.packet as f64 * (left - 1.0) / 2.0) * left
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tests::{candidate, waiting};
    use super::*;

    #[test]
    fn leaves_the_window_to_the_fastest_path() {
        let fast = Candidate {
            has_room: false,
            ..candidate(0)
        };
        let slow = Candidate {
            srtt: Duration::from_millis(100),
            ..candidate(1)
        };
        // Within 100 ms the fast path sends ten windows of 10 to 19 packets.
        let next = |window| Blest::default().next(&[fast, slow], &waiting(1 << 20, window));
        assert_eq!(next(145_000), None);
        assert_eq!(next(147_000), Some(slow.id));
    }

    #[test]
    fn slow_start_doubles_the_window_up_to_the_threshold() {
        let slow = Candidate {
            srtt: Duration::from_millis(40),
            ..candidate(1)
        };
        let sent = |ssthresh| {
            let fast = Candidate {
                ssthresh,
                ..candidate(0)
            };
            sent_meanwhile(&fast, &slow)
        };
        // 10 + 20 + 40 + 80 packets, where nothing was lost yet.
        assert_eq!(sent(u32::MAX as usize), 150_000.0);
        // 10 + 20, and then 40 + 41.
        assert_eq!(sent(40_000), 111_000.0);
        // 10 to 13, whether the window is at the threshold, as after a loss, or above it.
        assert_eq!(sent(10_000), 46_000.0);
        assert_eq!(sent(5000), 46_000.0);
    }

    #[test]
    fn a_full_window_makes_it_careful() {
        let fast = Candidate {
            flight: 9000,
            ..candidate(0)
        };
        let mut scheduler = Blest::default();
        let mut data = waiting(1 << 20, 9500);
        for _ in 0..20 {
            assert_eq!(scheduler.next(&[fast], &data), Some(fast.id));
            data.now += Duration::from_millis(10);
        }
        assert_eq!(scheduler.lambda, MOST_LAMBDA);
        data.window = 1 << 20;
        for _ in 0..100 {
            scheduler.next(&[fast], &data);
            data.now += Duration::from_millis(10);
        }
        assert_eq!(scheduler.lambda, LEAST_LAMBDA);
    }
}
