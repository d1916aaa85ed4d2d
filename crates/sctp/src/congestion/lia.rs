//! Linked increases (RFC 6356): together the paths take what one TCP on the best of them would.

use super::coupled::CoupledPath;
use super::window::{Law, Window};
use super::{AckedBytes, PathConditions};

/// The law of RFC 6356 section 3. Slow start and decrease are TCP's.
#[derive(Debug, Clone, Default)]
pub(super) struct Lia;

impl Law for Lia {
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

/// Formula (1), with alpha / cwnd_total from formula (2).
fn increase(window: &Window, acknowledged: usize, path: &PathConditions<'_>) -> f64 {
    let reno = window.reno_increase(acknowledged);
    let Some(own) = window.coupled(path) else {
        return reno;
    };
    let by_rtt = |path: &CoupledPath| path.rate() / path.rtt();
    let best = path.coupled.max(by_rtt(&own), by_rtt);
    let rate = path.coupled.sum(own.rate(), CoupledPath::rate);
    let linked = best / (rate * rate) * acknowledged as f64 * window.pmdcs as f64;
    linked.min(reno)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::tests::{avoiding, coupled, growth};

    #[test]
    fn two_equal_paths_grow_together_as_one_tcp() {
        // alpha = 2w * (w/r^2) / (2w/r)^2 = 1/2: 1/2 * 1000 * 1000 / 200,000 = 2.5 bytes a packet.
        let paths = coupled(&[(100_000, 100, 0), (100_000, 100, 0)]);
        let grown = growth(&mut avoiding::<Lia>(100_000), 10, 100, &paths);
        assert_eq!(grown, 25);
    }

    #[test]
    fn the_path_with_the_short_round_trip_weighs_most() {
        // Rates are 1 and 0.2 MB/s, w/r^2 are 1e8 and 4e6 at most: 1e8 / 1.44e12 * 1e6 = 69.4 bytes a packet,
        // which is more than the 10 of Reno for w = 100,000.
        let paths = coupled(&[(10_000, 10, 0), (10_000, 50, 0)]);
        let own = growth(&mut avoiding::<Lia>(10_000), 1, 10, &paths);
        assert_eq!(own, 69);
        // Never more than Reno.
        let paths = coupled(&[(10_000, 10, 0), (100_000, 500, 0)]);
        let grown = growth(&mut avoiding::<Lia>(100_000), 10, 500, &paths);
        assert!((95..=100).contains(&grown), "{grown}");
    }
}
