//! Balanced linked adaptation (draft-walid-mptcp-congestion-control-04): increase and decrease depend on how
//! much more the fastest path carries.

use super::coupled::CoupledPath;
use super::window::{Law, Window};
use super::{AckedBytes, PathConditions};

/// The law of section 3 of the draft. Slow start is TCP's.
#[derive(Debug, Clone, Default)]
pub(super) struct Balia;

impl Law for Balia {
    const IS_COUPLED: bool = true;

    fn avoid_congestion(
        &mut self,
        window: &mut Window,
        acked: AckedBytes,
        path: &PathConditions<'_>,
    ) {
        if window.is_used(acked) && !path.in_recovery {
            window.grow(increase(window, acked.acknowledged, path));
        }
    }

    fn reduced(&mut self, window: &Window, path: &PathConditions<'_>) -> usize {
        let alpha = window.coupled(path).map_or(1.0, |own| alpha(own, path));
        let cwnd = window.cwnd as f64;
        let reduced = cwnd - cwnd / 2.0 * alpha.min(1.5);
        (reduced as usize).max(2 * window.pmdcs)
    }
}

fn increase(window: &Window, acknowledged: usize, path: &PathConditions<'_>) -> f64 {
    let Some(own) = window.coupled(path) else {
        return window.reno_increase(acknowledged);
    };
    let alpha = alpha(own, path);
    let rate = path.coupled.sum(own.rate(), CoupledPath::rate);
    let balanced = (1.0 + alpha) / 2.0 * (4.0 + alpha) / 5.0;
    own.rate() / own.rtt() / (rate * rate) * balanced * acknowledged as f64 * window.pmdcs as f64
}

/// By how much the fastest path carries more than this one.
fn alpha(own: CoupledPath, path: &PathConditions<'_>) -> f64 {
    let mine = own.rate();
    if mine > 0.0 {
        path.coupled.max(mine, CoupledPath::rate) / mine
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::congestion::CongestionController;
    use crate::congestion::tests::{avoiding, coupled, growth, steady_rtt};

    #[test]
    fn equal_paths_grow_together_as_one_tcp() {
        // x/r / (2x)^2 = 1/4w, alpha = 1: 2.5 bytes a packet.
        let paths = coupled(&[(100_000, 100, 0), (100_000, 100, 0)]);
        let grown = growth(&mut avoiding::<Balia>(100_000), 10, 100, &paths);
        assert!((24..=25).contains(&grown), "{grown}");
    }

    #[test]
    fn the_slow_path_grows_more_and_loses_more() {
        // Rates are 1 and 0.5 MB/s: alpha = 2 for the slow one. 5e6 / 2.25e12 * 3/2 * 6/5 * 1e6 = 4 bytes.
        let paths = coupled(&[(100_000, 100, 0), (50_000, 100, 0)]);
        let mut slow = avoiding::<Balia>(50_000);
        assert_eq!(growth(&mut slow, 1, 100, &paths), 4);

        let path = PathConditions {
            now: Instant::now(),
            rtt: Some(steady_rtt(100)),
            in_recovery: false,
            coupled: &paths,
        };
        let mut slow = avoiding::<Balia>(50_000);
        slow.on_congestion_event(&path);
        assert_eq!(slow.cwnd(), 12_500, "less 50,000 / 2 * 1.5");
        let mut fast = avoiding::<Balia>(100_000);
        fast.on_congestion_event(&path);
        assert_eq!(fast.cwnd(), 50_000, "alpha is 1");
    }
}
