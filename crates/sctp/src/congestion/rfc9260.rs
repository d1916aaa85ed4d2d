//! Slow start, congestion avoidance and their reactions to loss as RFC 9260 section 7.2 has them.

use super::window::{Law, Window};
use super::{AckedBytes, PathConditions};

/// The law of RFC 9260.
#[derive(Debug, Clone, Default)]
pub(super) struct Rfc9260 {
    partial_bytes_acked: usize,
}

impl Law for Rfc9260 {
    const IS_COUPLED: bool = false;

    fn avoid_congestion(&mut self, window: &mut Window, acked: AckedBytes, _: &PathConditions<'_>) {
        self.partial_bytes_acked = self.partial_bytes_acked.saturating_add(acked.acknowledged);
        if self.partial_bytes_acked >= window.cwnd {
            if window.is_used(acked) {
                self.partial_bytes_acked -= window.cwnd;
                window.grow(window.pmdcs as f64);
            } else {
                self.partial_bytes_acked = window.cwnd;
            }
        }
        if acked.all_acknowledged {
            self.partial_bytes_acked = 0;
        }
    }

    fn reduced(&mut self, window: &Window, _: &PathConditions<'_>) -> usize {
        self.partial_bytes_acked = 0;
        window.half(4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::CongestionController;
    use crate::congestion::tests::{acked, acknowledge, lose, time_out};
    use crate::congestion::window::LossBased;

    type Controller = LossBased<Rfc9260>;

    fn fresh_controller(pmdcs: usize, ipv6: bool) -> Controller {
        LossBased::new(Rfc9260::default(), pmdcs, ipv6)
    }

    const PMDCS: usize = 1000;

    #[test]
    fn begins_with_the_window_of_section_7_2_1() {
        assert_eq!(fresh_controller(1000, false).cwnd(), 4000);
        assert_eq!(fresh_controller(1460, false).cwnd(), 4404);
        assert_eq!(fresh_controller(1460, true).cwnd(), 4344);
        assert_eq!(fresh_controller(9000, false).cwnd(), 18_000);
    }

    #[test]
    fn grows_in_slow_start_only_when_the_window_is_used() {
        let mut controller = fresh_controller(PMDCS, false);
        acknowledge(&mut controller, acked(2000, 3999), false);
        assert_eq!(controller.cwnd(), 4000);
        acknowledge(&mut controller, acked(2000, 4000), false);
        assert_eq!(controller.cwnd(), 5000, "by one packet at most");
        acknowledge(&mut controller, acked(300, 5000), false);
        assert_eq!(controller.cwnd(), 5300, "by what was acknowledged at most");
        acknowledge(&mut controller, acked(1000, 5300), true);
        assert_eq!(controller.cwnd(), 5300, "not in fast recovery");
    }

    #[test]
    fn grows_by_one_packet_a_window_in_congestion_avoidance() {
        let mut controller = fresh_controller(PMDCS, false);
        controller.window.cwnd = 10_000;
        controller.window.ssthresh = 5000;
        for _ in 0..4 {
            acknowledge(&mut controller, acked(2000, 10_000), false);
            assert_eq!(controller.cwnd(), 10_000);
        }
        acknowledge(&mut controller, acked(2500, 10_000), false);
        assert_eq!(controller.cwnd(), 11_000);
        assert_eq!(controller.law.partial_bytes_acked, 500);
        acknowledge(&mut controller, acked(20_000, 500), false);
        assert_eq!(controller.cwnd(), 11_000, "the window was not used");
        assert_eq!(controller.law.partial_bytes_acked, 11_000);
        let all = AckedBytes {
            all_acknowledged: true,
            ..acked(1, 1)
        };
        acknowledge(&mut controller, all, false);
        assert_eq!(controller.law.partial_bytes_acked, 0);
    }

    #[test]
    fn halves_the_window_on_fast_retransmit() {
        let mut controller = fresh_controller(PMDCS, false);
        controller.window.cwnd = 20_000;
        lose(&mut controller);
        assert_eq!((controller.cwnd(), controller.ssthresh()), (10_000, 10_000));
        lose(&mut controller);
        lose(&mut controller);
        assert_eq!(controller.cwnd(), 4000, "four packets at least");
    }

    #[test]
    fn allows_one_packet_after_a_timeout() {
        let mut controller = fresh_controller(PMDCS, false);
        controller.window.cwnd = 20_000;
        time_out(&mut controller);
        assert_eq!((controller.cwnd(), controller.ssthresh()), (1000, 10_000));
        assert!(controller.flight_limit() > 0);
        assert!(controller.flight_limit() < 500, "although cwnd is more");
        acknowledge(&mut controller, acked(1000, 1000), false);
        assert_eq!(controller.cwnd(), 2000);
        assert_eq!(controller.flight_limit(), 2000);
    }

    #[test]
    fn decays_while_idle_and_remembers_the_threshold() {
        let mut controller = fresh_controller(PMDCS, false);
        controller.window.cwnd = 20_000;
        controller.on_idle();
        assert_eq!((controller.cwnd(), controller.ssthresh()), (10_000, 20_000));
        controller.on_idle();
        controller.on_idle();
        assert_eq!((controller.cwnd(), controller.ssthresh()), (4000, 20_000));

        let mut fresh = fresh_controller(1460, false);
        let before = (fresh.cwnd(), fresh.ssthresh());
        fresh.on_idle();
        assert_eq!((fresh.cwnd(), fresh.ssthresh()), before);
    }

    #[test]
    fn has_its_window_back_after_a_spurious_loss() {
        let mut controller = fresh_controller(PMDCS, false);
        controller.window.cwnd = 20_000;
        lose(&mut controller);
        controller.on_spurious_loss();
        let unlimited = u32::MAX as usize;
        assert_eq!(
            (controller.cwnd(), controller.ssthresh()),
            (20_000, unlimited)
        );
        controller.on_spurious_loss();
        assert_eq!(controller.cwnd(), 20_000, "once");

        time_out(&mut controller);
        time_out(&mut controller);
        controller.on_spurious_loss();
        assert_eq!(
            controller.cwnd(),
            20_000,
            "that of before the first timeout"
        );
        assert_eq!(controller.flight_limit(), 20_000);
    }
}
