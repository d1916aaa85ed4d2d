//! Opportunistic linked increases (draft-khalili-mptcp-congestion-control-05): like LIA, but windows move
//! from the paths with the largest ones to better paths.

use super::coupled::CoupledPath;
use super::window::{Law, Window};
use super::{AckedBytes, PathConditions};

/// The law of section 3 of the draft. Slow start and decrease are TCP's.
#[derive(Debug, Clone, Default)]
pub(super) struct Olia;

impl Law for Olia {
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

    fn reduced(&mut self, window: &Window, _: &PathConditions<'_>) -> usize {
        window.half(2)
    }
}

fn increase(window: &Window, acknowledged: usize, path: &PathConditions<'_>) -> f64 {
    let Some(own) = window.coupled(path) else {
        return window.reno_increase(acknowledged);
    };
    let rate = path.coupled.sum(own.rate(), CoupledPath::rate);
    let linked = own.rate() / own.rtt() / (rate * rate);
    let shifted = alpha(own, window.pmdcs, path) / window.cwnd.max(1) as f64;
    (linked + shifted) * acknowledged as f64 * window.pmdcs as f64
}

/// The draft's alpha_r: what a path gains when it is among the best, but its window is not among the largest,
/// is taken from those with the largest windows.
fn alpha(own: CoupledPath, pmdcs: usize, path: &PathConditions<'_>) -> f64 {
    let quality = |path: &CoupledPath| (path.acked_between_losses as f64).powi(2) / path.rtt();
    let cwnd = |path: &CoupledPath| path.cwnd as f64;
    let best = path.coupled.max(quality(&own), quality);
    let largest = path.coupled.max(cwnd(&own), cwnd);
    let is_best = |path: &CoupledPath| quality(path) >= best;
    // Windows that differ by less than a packet are the same.
    let is_largest = |path: &CoupledPath| cwnd(path) + pmdcs as f64 > largest;
    let is_collected = |path: &CoupledPath| is_best(path) && !is_largest(path);
    let count = |among: &dyn Fn(&CoupledPath) -> bool| {
        path.coupled
            .iter()
            .filter(|path| among(path))
            .count()
            .max(1) as f64
    };
    let paths = count(&|_| true);
    if is_collected(&own) {
        1.0 / (paths * count(&is_collected))
    } else if is_largest(&own) && path.coupled.iter().any(is_collected) {
        -1.0 / (paths * count(&is_largest))
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::tests::{avoiding, coupled, growth};

    #[test]
    fn equal_paths_grow_together_as_one_tcp() {
        // (w/r^2) / (2w/r)^2 = 1 / 4w = 2.5e-6: 2.5 bytes a packet. Both are best and largest: alpha is 0.
        let paths = coupled(&[(100_000, 100, 0), (100_000, 100, 0)]);
        let grown = growth(&mut avoiding::<Olia>(100_000), 10, 100, &paths);
        assert!((24..=25).contains(&grown), "{grown}");
    }

    #[test]
    fn windows_move_from_the_largest_to_the_best() {
        let paths = [(50_000, 100, 0), (100_000, 100, 900_000)];
        // The small path has lost less: it is collected, the other one is the largest.
        let mut best = avoiding::<Olia>(50_000);
        best.window.cwnd = 50_000;
        let path = [(50_000, 100, 1_000_000), paths[1]];
        // The controller's own interval is told by its window, so acknowledge that much.
        let told = coupled(&path);
        // rate = 1.5 MB/s; w/r^2 = 5e6 / 2.25e12 = 2.22e-6; alpha = 1/(2*1) = 0.5, over 50,000 = 1e-5:
        // 12.2 bytes for the first packet.
        let own = crate::congestion::tests::acked(1_000_000, 0);
        crate::congestion::tests::acknowledge(&mut best, own, false);
        assert_eq!(growth(&mut best, 1, 100, &told), 12);

        // For the largest: 1e7 / 2.25e12 = 4.44e-6, alpha = -0.5 over 100,000 = -5e-6: -0.56 bytes a packet.
        let mut largest = avoiding::<Olia>(100_000);
        let grown = growth(&mut largest, 9, 100, &told);
        assert!((-6..=-5).contains(&grown), "{grown}");
    }
}
