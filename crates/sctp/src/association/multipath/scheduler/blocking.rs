//! Which paths hold up others more than they help, where all share one window: data in flight on a slow path, or lost
//! there, keeps a faster one from sending. This is the condition of BLEST (Ferlin et al., IFIP Networking 2016), by
//! rates, and with losses.

use super::{Candidate, WaitingData};

/// What may be lost on the better path by trying a path again that has held it up, as a share of what it carries.
const TRIAL_SHARE: f64 = 0.01;

/// Whether another path does better without one more packet on `path`: it could fill the window
///
/// - while the packet is under way, or
/// - while a loss is repaired, by more than `path` carries between two losses.
///
/// A path that is not used is not measured either. So it may cost a small share of what the better one has carried since
/// it did so last.
pub(super) fn is_blocking(path: &Candidate, paths: &[Candidate], data: &WaitingData) -> bool {
    let available = data.window.saturating_sub(path.flight + path.packet) as f64;
    let mut better = paths.iter().filter(|other| other.rate > path.rate);
    better.any(|other| {
        let since = path.tried.map_or(0.0, |at| {
            data.now.saturating_duration_since(at).as_secs_f64()
        });
        let allowed = TRIAL_SHARE * other.rate * since;
        let costs = |seconds: f64| other.rate * seconds - available;
        let delta = path.rttvar.max(other.rttvar);
        let under_way = costs((path.rtt + delta).as_secs_f64());
        let loss = path.acked_between_losses.map_or(0.0, |carried| {
            costs((path.overdue + other.rtt).as_secs_f64()) - carried as f64
        });
        under_way.max(loss) > allowed
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::super::tests::{candidate, waiting};
    use super::*;

    /// One of 10 kB in 100 ms, and one that carries ten times as much.
    fn pair() -> [Candidate; 2] {
        let slow = Candidate {
            srtt: Duration::from_millis(100),
            rtt: Duration::from_millis(100),
            overdue: Duration::from_millis(150),
            rate: 1e5,
            ..candidate(1)
        };
        [candidate(0), slow]
    }

    #[test]
    fn a_slow_path_must_not_fill_the_window() {
        let [fast, slow] = pair();
        let blocks =
            |path: &Candidate, window| is_blocking(path, &[fast, slow], &waiting(1, window));
        // 1 MB/s for 101 ms, and the packet itself.
        assert!(blocks(&slow, 101_900));
        assert!(!blocks(&slow, 102_100));
        assert!(!blocks(&fast, 1000), "no other one is better");
    }

    #[test]
    fn losses_must_not_cost_more_than_the_path_carries() {
        let [fast, slow] = pair();
        let blocks = |carried| {
            let lossy = Candidate {
                acked_between_losses: Some(carried),
                ..slow
            };
            is_blocking(&lossy, &[fast, lossy], &waiting(1, 121_000))
        };
        // 160 ms for the repair, 120 kB of which go on meanwhile.
        assert!(blocks(39_000));
        assert!(!blocks(41_000));
    }

    #[test]
    fn a_path_is_tried_again_in_time() {
        let [fast, slow] = pair();
        let now = Instant::now();
        let blocks = |seconds| {
            let tried = Candidate {
                tried: Some(now),
                ..slow
            };
            let data = WaitingData {
                now: now + Duration::from_secs(seconds),
                ..waiting(1, 52_000)
            };
            is_blocking(&tried, &[fast, tried], &data)
        };
        // It costs 50 kB: one in a hundred of 5 MB.
        assert!(blocks(4));
        assert!(!blocks(6));
    }
}
