//! CUBIC (RFC 9438, by draft-ietf-tcpm-rfc8312bis): after a loss the window returns to its size from before
//! along a cubic function of time, whatever the round-trip time.

use std::time::{Duration, Instant};

use super::hystart::HyStart;
use super::window::{Law, Window};
use super::{AckedBytes, PathConditions};

/// Section 4.6: the multiplicative decrease factor.
const BETA: f64 = 0.7;

/// Section 5: how aggressive the window grows, in packets a cubic second.
const C: f64 = 0.4;

/// Section 4.3: the additive increase, in packets a round trip, that takes as much as Reno.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// RFC 3465 section 2.2: how many packets slow start adds for one SACK at most.
const L: usize = 2;

/// Hybrid slow start looks at windows of so many packets and more.
const HYSTART_LOW_WINDOW: usize = 16;

/// Max.Burst may keep so many packets of the window unused (RFC 9260 section 6.1).
const BURST: usize = 4;

/// The law of RFC 9438.
#[derive(Debug, Clone, Default)]
pub(super) struct Cubic {
    /// Where the plateau is, in bytes; 0: where congestion avoidance begins.
    w_max: f64,
    /// cwnd when ssthresh was set last, in bytes.
    cwnd_prior: f64,
    /// The present stage of congestion avoidance.
    epoch: Option<Epoch>,
    hystart: HyStart,
}

/// A stage of congestion avoidance.
#[derive(Debug, Clone)]
struct Epoch {
    /// How long it has lasted, without the time when the window was not used (section 5.8).
    elapsed: Duration,
    /// When it was looked at last.
    updated: Instant,
    /// The plateau, in bytes.
    w_max: f64,
    /// How long the window takes to the plateau, in seconds.
    k: f64,
    /// What Reno's window would be, in bytes.
    w_est: f64,
}

impl Law for Cubic {
    const IS_COUPLED: bool = false;

    fn slow_start(&mut self, window: &mut Window, acked: AckedBytes, path: &PathConditions<'_>) {
        if path.in_recovery || !is_used(window, acked) {
            return;
        }
        window.grow(acked.acknowledged.min(L * window.pmdcs) as f64);
        let is_first = window.is_unbounded() && window.cwnd >= HYSTART_LOW_WINDOW * window.pmdcs;
        if let Some(rtt) = path.rtt.filter(|_| is_first)
            && self
                .hystart
                .on_acknowledged(path.now, acked.acknowledged, acked.flight_before, rtt)
        {
            // Section 4.10: the plateau is where congestion avoidance begins.
            window.ssthresh = window.cwnd;
            self.cwnd_prior = window.cwnd as f64;
        }
    }

    fn avoid_congestion(
        &mut self,
        window: &mut Window,
        acked: AckedBytes,
        path: &PathConditions<'_>,
    ) {
        if path.in_recovery {
            return;
        }
        let is_used = is_used(window, acked);
        let (smoothed, longest) = path.rtt.map_or((Duration::ZERO, Duration::ZERO), |rtt| {
            (rtt.smoothed, rtt.smoothed.max(rtt.latest))
        });
        let w_max = self.w_max;
        let epoch = self
            .epoch
            .get_or_insert_with(|| Epoch::begin(path.now, w_max, window));
        epoch.advance(path.now, longest, is_used);
        if !is_used {
            return;
        }
        let cwnd = window.exact();
        let acknowledged = acked.acknowledged.min(window.cwnd) as f64;
        let alpha = if epoch.w_est >= self.cwnd_prior {
            1.0
        } else {
            ALPHA
        };
        // Formula 4, in bytes.
        epoch.w_est += alpha * acknowledged * window.pmdcs as f64 / cwnd;
        let increase = if epoch.w_cubic(Duration::ZERO, window.pmdcs) < epoch.w_est {
            // Section 4.3: the Reno-friendly region.
            epoch.w_est - cwnd
        } else {
            let target = epoch.w_cubic(smoothed, window.pmdcs);
            (target.min(1.5 * cwnd) - cwnd) * acknowledged / cwnd
        };
        if increase > 0.0 {
            window.grow(increase);
        }
    }

    fn reduced(&mut self, window: &Window, _: &PathConditions<'_>) -> usize {
        let cwnd = window.cwnd as f64;
        // Section 4.7: fast convergence.
        self.w_max = if cwnd < self.w_max {
            cwnd * (1.0 + BETA) / 2.0
        } else {
            cwnd
        };
        self.cwnd_prior = cwnd;
        self.epoch = None;
        ((cwnd * BETA).round() as usize).max(2 * window.pmdcs)
    }

    fn timed_out(&mut self) {
        // Section 4.8: congestion avoidance begins on the plateau.
        self.w_max = 0.0;
    }
}

/// Whether the window was full, but for what Max.Burst may have held back.
fn is_used(window: &Window, acked: AckedBytes) -> bool {
    let unused = (BURST * window.pmdcs).min(window.cwnd / 2);
    acked.flight_before >= window.cwnd - unused
}

impl Epoch {
    /// Congestion avoidance begins with this window (formula 2).
    fn begin(now: Instant, w_max: f64, window: &Window) -> Epoch {
        let cwnd = window.cwnd as f64;
        let w_max = w_max.max(cwnd);
        Epoch {
            elapsed: Duration::ZERO,
            updated: now,
            w_max,
            k: ((w_max - cwnd) / window.pmdcs.max(1) as f64 / C).cbrt(),
            w_est: cwnd,
        }
    }

    /// Time has passed. Acknowledgements come every round trip: what is more than the `longest` one was no
    /// time of use.
    fn advance(&mut self, now: Instant, longest: Duration, is_used: bool) {
        let step = now.saturating_duration_since(self.updated).min(longest);
        self.updated = self.updated.max(now);
        if is_used {
            self.elapsed = self.elapsed.saturating_add(step);
        }
    }

    /// The window that much later, in bytes (formula 1).
    fn w_cubic(&self, later: Duration, pmdcs: usize) -> f64 {
        let time = self.elapsed.saturating_add(later).as_secs_f64() - self.k;
        C * time.powi(3) * pmdcs as f64 + self.w_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::tests::{acked, acknowledge, lose, steady_rtt, time_out};
    use crate::congestion::window::LossBased;
    use crate::congestion::{CongestionController, CoupledPaths, PathRtt};

    const MSS: usize = 1000;

    /// A sender that fills its window at a steady round-trip time.
    struct Flow {
        controller: LossBased<Cubic>,
        now: Instant,
        milliseconds: u64,
    }

    impl Flow {
        /// One whose window was that large when a loss cut it.
        fn after_loss(cwnd: usize, milliseconds: u64) -> Flow {
            let mut controller = LossBased::new(Cubic::default(), MSS, false);
            controller.window.cwnd = cwnd;
            lose(&mut controller);
            Flow {
                controller,
                now: Instant::now(),
                milliseconds,
            }
        }

        /// Sends for a time, `used` of whose windows are full.
        fn run(&mut self, duration: Duration, used: bool) {
            let coupled = CoupledPaths::default();
            let end = self.now + duration;
            while self.now < end {
                let cwnd = self.controller.cwnd();
                let packets = (cwnd / MSS) as u32;
                let interval = Duration::from_millis(self.milliseconds) / packets;
                for _ in 0..packets {
                    self.now += interval;
                    let flight = if used { self.controller.cwnd() } else { 0 };
                    let path = PathConditions {
                        now: self.now,
                        rtt: Some(steady_rtt(self.milliseconds)),
                        in_recovery: false,
                        coupled: &coupled,
                    };
                    self.controller.on_acknowledged(acked(MSS, flight), &path);
                }
            }
        }

        fn packets(&self) -> f64 {
            self.controller.cwnd() as f64 / MSS as f64
        }
    }

    fn close(value: f64, expected: f64, tolerance: f64) -> bool {
        (value - expected).abs() <= expected * tolerance
    }

    #[test]
    fn returns_to_its_window_after_k_seconds() {
        // K = cbrt(1000 * 0.3 / 0.4) = 9.09 s.
        let mut flow = Flow::after_loss(1000 * MSS, 100);
        assert_eq!(flow.packets(), 700.0);
        // Half-way: 1000 - 0.4 * 4.54^3 = 962.5.
        flow.run(Duration::from_millis(4543), true);
        assert!(close(flow.packets(), 962.5, 0.01), "{}", flow.packets());
        flow.run(Duration::from_millis(4543), true);
        assert!(close(flow.packets(), 1000.0, 0.005), "{}", flow.packets());
        // And beyond: 1000 + 0.4 * 9.09^3 = 1300.
        flow.run(Duration::from_millis(9086), true);
        assert!(close(flow.packets(), 1300.0, 0.02), "{}", flow.packets());
    }

    /// Formula 5 of RFC 9438: the average window in packets where one is lost after so many.
    fn response(packets: f64, rtt: f64) -> f64 {
        1.054 * (rtt * packets).powf(0.75)
    }

    /// RFC 9438 section 5 and appendix B reckon with losses that come K seconds after each other, where the window was at
    /// the last one: fast convergence has no part in the law.
    #[test]
    fn the_average_window_is_that_of_the_response_function() {
        let mut flow = Flow::after_loss(1000 * MSS, 100);
        // K = 9.09 s.
        let rounds = 91;
        let mut packets = 0.0;
        for _ in 0..rounds {
            packets += flow.packets().floor();
            flow.run(Duration::from_millis(99), true);
        }
        assert!(close(flow.packets(), 1000.0, 0.005));
        let (mean, law) = (packets / f64::from(rounds), response(packets, 0.1));
        assert!(close(mean, law, 0.02), "{mean}, {law}");
    }

    /// Where as many packets come between any two losses, the window is a little smaller now and then than at the last one.
    /// Fast convergence (section 4.7) takes that for a sign of other flows, so it stays below the law.
    #[test]
    fn fast_convergence_keeps_the_window_below_the_response_function() {
        let mut flow = Flow::after_loss(1000 * MSS, 100);
        let interval = 84_000.0;
        let [mut packets, mut rounds, mut since_loss] = [0.0, 0.0, 0.0];
        for _ in 0..40 {
            while since_loss < interval {
                let window = flow.packets().floor();
                packets += window;
                since_loss += window;
                rounds += 1.0;
                flow.run(Duration::from_millis(99), true);
            }
            since_loss -= interval;
            lose(&mut flow.controller);
        }
        let share = packets / rounds / response(interval, 0.1);
        assert!((0.85..0.95).contains(&share), "{share}");
    }

    #[test]
    fn takes_as_much_as_reno_where_round_trips_are_short() {
        // Where K = cbrt(50 * 0.3 / 0.4) = 3.3 s, Reno takes 50 ms. The first acknowledgement belongs to slow
        // start; from 36 packets on the estimate adds 0.53 of one each round trip, and 1 from 50 on.
        let mut flow = Flow::after_loss(50 * MSS, 2);
        assert_eq!(flow.packets(), 35.0);
        flow.run(Duration::from_millis(2 * 26), true);
        assert!(close(flow.packets(), 50.0, 0.03), "{}", flow.packets());
        flow.run(Duration::from_millis(2 * 50), true);
        assert!(close(flow.packets(), 100.0, 0.04), "{}", flow.packets());
    }

    #[test]
    fn time_without_use_does_not_count() {
        let mut flow = Flow::after_loss(1000 * MSS, 100);
        flow.run(Duration::from_secs(2), true);
        let before = flow.packets();
        flow.run(Duration::from_secs(60), false);
        assert_eq!(flow.packets(), before);
        // Nor does an hour of silence.
        flow.now += Duration::from_secs(3600);
        flow.run(Duration::from_millis(100), true);
        assert!(close(flow.packets(), before, 0.02), "{}", flow.packets());
    }

    #[test]
    fn a_second_loss_below_the_plateau_lowers_it_further() {
        let mut controller = Flow::after_loss(1000 * MSS, 100).controller;
        lose(&mut controller);
        assert_eq!(controller.cwnd(), 490 * MSS);
        assert_eq!(controller.law.w_max, 595.0 * MSS as f64);
    }

    #[test]
    fn after_a_timeout_slow_start_leads_to_a_plateau() {
        let mut flow = Flow::after_loss(1000 * MSS, 100);
        time_out(&mut flow.controller);
        let half = (flow.controller.cwnd(), flow.controller.ssthresh());
        assert_eq!(half, (MSS, 490 * MSS));
        while flow.controller.cwnd() <= flow.controller.ssthresh() {
            let full = acked(MSS, flow.controller.cwnd());
            acknowledge(&mut flow.controller, full, false);
        }
        // K = 0: 491 + 0.4 * 1^3, where Reno's part has added 0.53 * 10.
        flow.run(Duration::from_secs(1), true);
        assert!(close(flow.packets(), 496.3, 0.005), "{}", flow.packets());
    }

    #[test]
    fn slow_start_ends_when_round_trips_grow() {
        let mut controller = LossBased::new(Cubic::default(), MSS, false);
        let coupled = CoupledPaths::default();
        let start = Instant::now();
        let mut rtt = 50;
        for round in 0..12_u64 {
            for _ in 0..controller.cwnd() / MSS {
                let path = PathConditions {
                    now: start + Duration::from_millis(50 * round),
                    rtt: Some(PathRtt {
                        min: Duration::from_millis(50),
                        ..steady_rtt(rtt)
                    }),
                    in_recovery: false,
                    coupled: &coupled,
                };
                let full = acked(MSS, controller.cwnd());
                controller.on_acknowledged(full, &path);
            }
            // A bottleneck with room for 64 packets: more of them wait.
            rtt = 50 * (controller.cwnd() as u64).max(64 * MSS as u64) / (64 * MSS as u64);
        }
        assert!(
            controller.ssthresh() < 420 * MSS,
            "{}",
            controller.ssthresh()
        );
        assert!(controller.cwnd() >= 128 * MSS);
    }
}
