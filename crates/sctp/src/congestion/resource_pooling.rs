//! Resource pooling for CMT-SCTP (Dreibholz, Becke, Pulinthanath and Rathgeb: Applying TCP-Friendly Congestion
//! Control to Concurrent Multipath Transfer, and On the Fairness of Transport Protocols in a Multi-Path
//! Environment): the paths together behave as one.

use super::coupled::CoupledPath;
use super::window::{Law, Window};
use super::{AckedBytes, PathConditions};

/// CMT/RPv1: windows grow by their part of all slow-start thresholds, and a loss takes away half of all
/// windows together.
#[derive(Debug, Clone, Default)]
pub(super) struct RpV1;

/// CMT/RPv2: windows grow by their part of what all paths carry, and a loss takes away half of that.
#[derive(Debug, Clone, Default)]
pub(super) struct RpV2;

impl Law for RpV1 {
    const IS_COUPLED: bool = true;

    fn slow_start(&mut self, window: &mut Window, acked: AckedBytes, path: &PathConditions<'_>) {
        slow_start(window, acked, path, |path| path.ssthresh as f64);
    }

    fn avoid_congestion(
        &mut self,
        window: &mut Window,
        acked: AckedBytes,
        path: &PathConditions<'_>,
    ) {
        avoid_congestion(window, acked, path, |path| path.ssthresh as f64);
    }

    fn reduced(&mut self, window: &Window, path: &PathConditions<'_>) -> usize {
        let mine = window.cwnd as f64;
        let all = path.coupled.sum(mine, |path| path.cwnd as f64);
        ((mine - all / 2.0) as usize).max(window.pmdcs)
    }
}

impl Law for RpV2 {
    const IS_COUPLED: bool = true;

    fn slow_start(&mut self, window: &mut Window, acked: AckedBytes, path: &PathConditions<'_>) {
        slow_start(window, acked, path, CoupledPath::rate);
    }

    fn avoid_congestion(
        &mut self,
        window: &mut Window,
        acked: AckedBytes,
        path: &PathConditions<'_>,
    ) {
        avoid_congestion(window, acked, path, CoupledPath::rate);
    }

    fn reduced(&mut self, window: &Window, path: &PathConditions<'_>) -> usize {
        let part = part(window, path, CoupledPath::rate);
        let factor = (0.5 / part).max(0.5);
        let cwnd = window.cwnd as f64;
        ((cwnd - factor * cwnd) as usize).max(window.pmdcs)
    }
}

fn slow_start(
    window: &mut Window,
    acked: AckedBytes,
    path: &PathConditions<'_>,
    value: fn(&CoupledPath) -> f64,
) {
    if window.is_used(acked) && !path.in_recovery {
        let most = acked.acknowledged.min(window.pmdcs) as f64;
        window.grow(most * part(window, path, value));
    }
}

fn avoid_congestion(
    window: &mut Window,
    acked: AckedBytes,
    path: &PathConditions<'_>,
    value: fn(&CoupledPath) -> f64,
) {
    if window.is_used(acked) && !path.in_recovery {
        window.grow(window.reno_increase(acked.acknowledged) * part(window, path, value));
    }
}

/// The path's part of the sum of a value over all paths, above 0 and at most 1.
fn part(window: &Window, path: &PathConditions<'_>, value: fn(&CoupledPath) -> f64) -> f64 {
    let Some(own) = window.coupled(path) else {
        return 1.0;
    };
    let mine = value(&own);
    if mine > 0.0 {
        mine / path.coupled.sum(mine, value)
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::congestion::tests::{acked, avoiding, coupled, growth, steady_rtt};
    use crate::congestion::window::LossBased;
    use crate::congestion::{CongestionController, CoupledPaths};

    fn conditions(coupled: &CoupledPaths) -> PathConditions<'_> {
        PathConditions {
            now: Instant::now(),
            rtt: Some(steady_rtt(100)),
            in_recovery: false,
            coupled,
        }
    }

    #[test]
    fn v1_grows_by_its_part_of_the_thresholds() {
        // Thresholds of 10,000 and 30,000: a quarter of Reno's 1000 * 1000 / 20,000 = 50 bytes a packet.
        let paths = coupled(&[(20_000, 100, 0), (60_000, 100, 0)]);
        assert_eq!(growth(&mut avoiding::<RpV1>(20_000), 1, 100, &paths), 12);
    }

    #[test]
    fn v1_loses_half_of_all_windows() {
        let paths = coupled(&[(60_000, 100, 0), (20_000, 100, 0)]);
        let mut large = avoiding::<RpV1>(60_000);
        large.on_congestion_event(&conditions(&paths));
        assert_eq!((large.cwnd(), large.ssthresh()), (20_000, 20_000));
        let mut small = avoiding::<RpV1>(20_000);
        small.on_congestion_event(&conditions(&paths));
        assert_eq!(small.cwnd(), 1000, "a packet at least");
    }

    #[test]
    fn v2_grows_by_its_part_of_the_rates() {
        // 0.2 and 0.6 MB/s: a quarter of Reno's 50 bytes a packet; in slow start, of the packet.
        let paths = coupled(&[(20_000, 100, 0), (120_000, 200, 0)]);
        assert_eq!(growth(&mut avoiding::<RpV2>(20_000), 1, 100, &paths), 12);
        let mut starting = LossBased::new(RpV2, 1000, false);
        starting.window.cwnd = 20_000;
        starting.on_acknowledged(acked(2000, 20_000), &conditions(&paths));
        assert_eq!(starting.cwnd(), 20_250);
    }

    #[test]
    fn v2_loses_half_of_all_that_the_paths_carry() {
        // 0.6 and 0.2 MB/s: the first one loses 0.4 / 0.6 of its window, the second one all but a packet.
        let paths = coupled(&[(60_000, 100, 0), (20_000, 100, 0)]);
        let mut large = avoiding::<RpV2>(60_000);
        large.on_congestion_event(&conditions(&paths));
        assert_eq!(large.cwnd(), 20_000);
        let mut small = avoiding::<RpV2>(20_000);
        small.on_congestion_event(&conditions(&paths));
        assert_eq!(small.cwnd(), 1000);
        // A path that carries most of all loses half at least.
        let paths = coupled(&[(60_000, 100, 0), (1000, 100, 0)]);
        let mut most = avoiding::<RpV2>(60_000);
        most.on_congestion_event(&conditions(&paths));
        assert!((29_400..=30_000).contains(&most.cwnd()), "{}", most.cwnd());
    }
}
