//! Earliest Completion First (Lim et al., CoNEXT 2017): a slower path takes data only when what waits would not
//! be sent sooner by waiting for the fastest one. That reckons with windows of congestion control alone; where all share a
//! smaller one, a path takes data only if that does not keep a better one from sending.

use super::blocking::is_blocking;
use super::{Candidate, Scheduler, WaitingData, fastest, fastest_with_room};
use crate::association::path_id::PathId;

/// Beta of the paper: once waiting, the fastest path has to be worse by this share to go on with another.
const HYSTERESIS: f64 = 0.25;

#[derive(Debug, Default)]
pub(super) struct Ecf {
    waiting: bool,
}

impl Scheduler for Ecf {
    fn next(&mut self, paths: &[Candidate], data: &WaitingData) -> Option<PathId> {
        // To wait for a path that may have room but is not to be used would be to wait for ever.
        let useful = paths.iter().filter(|path| !is_blocking(path, paths, data));
        let fast = fastest(useful.clone())?;
        let slow = fastest_with_room(useful)?;
        if slow.id == fast.id {
            return Some(fast.id);
        }
        let delta = fast.rttvar.max(slow.rttvar).as_secs_f64();
        let [srtt_fast, srtt_slow] = [fast, slow].map(|path| path.srtt.as_secs_f64());
        let [cwnd_fast, cwnd_slow] = [fast, slow].map(|path| path.cwnd.max(1) as f64);
        let unsent = (data.unsent as f64).max(cwnd_fast);
        let threshold = if self.waiting { 1.0 + HYSTERESIS } else { 1.0 };
        let fast_is_sooner =
            srtt_fast * (unsent + cwnd_fast) < threshold * cwnd_fast * (srtt_slow + delta);
        let slow_is_late =
            srtt_slow * unsent.max(cwnd_slow) >= cwnd_slow * (2.0 * srtt_fast + delta);
        if fast_is_sooner && slow_is_late {
            self.waiting = true;
            return None;
        }
        // The hysteresis ends only when waiting for the fastest path does not pay by itself.
        self.waiting &= fast_is_sooner;
        Some(slow.id)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tests::{candidate, waiting};
    use super::*;

    #[test]
    fn waits_for_the_fastest_path_when_that_is_sooner() {
        let fast = Candidate {
            has_room: false,
            ..candidate(0)
        };
        let slow = Candidate {
            srtt: Duration::from_millis(100),
            ..candidate(1)
        };
        let next = |unsent| Ecf::default().next(&[fast, slow], &waiting(unsent, 1 << 20));
        // 10 kB in 10 ms on the one, after 100 ms on the other.
        assert_eq!(next(20_000), None);
        assert_eq!(next(500_000), Some(slow.id));
        let mut scheduler = Ecf::default();
        let just_above = 95_000;
        let mut next = |unsent| scheduler.next(&[fast, slow], &waiting(unsent, 1 << 20));
        assert_eq!(next(just_above), Some(slow.id));
        assert_eq!(next(20_000), None);
        assert_eq!(next(just_above), None, "hysteresis");
    }

    #[test]
    fn does_not_wait_for_a_path_that_holds_up_a_better_one() {
        let rttvar = Duration::from_millis(50);
        let near = Candidate {
            rttvar,
            cwnd: 1500,
            rate: 1.5e5,
            ..candidate(0)
        };
        let far = Candidate {
            srtt: Duration::from_millis(100),
            rtt: Duration::from_millis(100),
            rttvar,
            cwnd: 100_000,
            ..candidate(1)
        };
        let paths = [near, far];
        let data = waiting(1000, 50_000);
        assert!(is_blocking(&near, &paths, &data));
        // Nothing is in flight: no acknowledgement would end the wait.
        assert_eq!(Ecf::default().next(&paths, &data), Some(far.id));
    }
}
