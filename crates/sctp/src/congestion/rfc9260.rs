//! Slow start, congestion avoidance and their reactions to loss as RFC 9260 section 7.2 has them.

use super::{AckedBytes, CongestionController};

/// The congestion controller of RFC 9260.
#[derive(Debug)]
pub(crate) struct Rfc9260 {
    /// Path Maximum DATA Chunk Size: what one packet carries of DATA chunks, in bytes.
    pmdcs: usize,
    cwnd: usize,
    ssthresh: usize,
    partial_bytes_acked: usize,
    /// After a timeout only one packet may be in flight until something is acknowledged
    /// (section 7.2.3).
    single_packet: bool,
    /// ssthresh remembers the window from before this idle period (section 7.2.1).
    idle: bool,
}

impl Rfc9260 {
    /// A controller for a path whose packets carry `pmdcs` bytes of DATA chunks, before any data
    /// was sent. `ipv6` is the family of the peer's address.
    pub(crate) fn new(pmdcs: usize, ipv6: bool) -> Rfc9260 {
        let least = if ipv6 { 4344 } else { 4404 };
        Rfc9260 {
            pmdcs,
            cwnd: (4 * pmdcs).min(least.max(2 * pmdcs)),
            ssthresh: u32::MAX as usize,
            partial_bytes_acked: 0,
            single_packet: false,
            idle: false,
        }
    }

    fn reduced(&self) -> usize {
        (self.cwnd / 2).max(4 * self.pmdcs)
    }
}

impl CongestionController for Rfc9260 {
    fn cwnd(&self) -> usize {
        self.cwnd
    }

    fn ssthresh(&self) -> usize {
        self.ssthresh
    }

    fn allows(&self, flight: usize) -> bool {
        if self.single_packet {
            flight == 0
        } else {
            flight < self.cwnd
        }
    }

    fn on_acknowledged(&mut self, acked: AckedBytes) {
        self.single_packet = false;
        self.idle = false;
        let fully_used = acked.flight_before >= self.cwnd;
        if self.cwnd <= self.ssthresh {
            if fully_used && !acked.in_fast_recovery {
                self.cwnd += acked.acknowledged.min(self.pmdcs);
            }
        } else {
            self.partial_bytes_acked += acked.acknowledged;
            if self.partial_bytes_acked >= self.cwnd {
                if !fully_used {
                    self.partial_bytes_acked = self.cwnd;
                } else {
                    self.partial_bytes_acked -= self.cwnd;
                    self.cwnd += self.pmdcs;
                }
            }
        }
        if acked.all_acknowledged {
            self.partial_bytes_acked = 0;
        }
    }

    fn on_fast_retransmit(&mut self) {
        self.ssthresh = self.reduced();
        self.cwnd = self.ssthresh;
        self.partial_bytes_acked = 0;
    }

    fn on_timeout(&mut self) {
        self.ssthresh = self.reduced();
        self.cwnd = self.pmdcs;
        self.partial_bytes_acked = 0;
        self.single_packet = true;
    }

    fn set_pmdcs(&mut self, pmdcs: usize) {
        self.pmdcs = pmdcs;
    }

    fn on_idle(&mut self) {
        let reduced = self.reduced();
        // A window of four packets or less is not made larger by being idle.
        if reduced >= self.cwnd {
            return;
        }
        if !self.idle {
            self.idle = true;
            self.ssthresh = self.cwnd;
        }
        self.cwnd = reduced;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PMDCS: usize = 1000;

    fn acked(acknowledged: usize, flight_before: usize) -> AckedBytes {
        AckedBytes {
            acknowledged,
            flight_before,
            all_acknowledged: false,
            in_fast_recovery: false,
        }
    }

    #[test]
    fn begins_with_the_window_of_section_7_2_1() {
        assert_eq!(Rfc9260::new(1000, false).cwnd(), 4000);
        assert_eq!(Rfc9260::new(1460, false).cwnd(), 4404);
        assert_eq!(Rfc9260::new(1460, true).cwnd(), 4344);
        assert_eq!(Rfc9260::new(9000, false).cwnd(), 18_000);
    }

    #[test]
    fn grows_in_slow_start_only_when_the_window_is_used() {
        let mut controller = Rfc9260::new(PMDCS, false);
        controller.on_acknowledged(acked(2000, 3999));
        assert_eq!(controller.cwnd(), 4000);
        controller.on_acknowledged(acked(2000, 4000));
        assert_eq!(controller.cwnd(), 5000, "by one packet at most");
        controller.on_acknowledged(acked(300, 5000));
        assert_eq!(controller.cwnd(), 5300, "by what was acknowledged at most");
        controller.on_acknowledged(AckedBytes {
            in_fast_recovery: true,
            ..acked(1000, 5300)
        });
        assert_eq!(controller.cwnd(), 5300, "not in fast recovery");
    }

    #[test]
    fn grows_by_one_packet_a_window_in_congestion_avoidance() {
        let mut controller = Rfc9260::new(PMDCS, false);
        controller.cwnd = 10_000;
        controller.ssthresh = 5000;
        for _ in 0..4 {
            controller.on_acknowledged(acked(2000, 10_000));
            assert_eq!(controller.cwnd(), 10_000);
        }
        controller.on_acknowledged(acked(2500, 10_000));
        assert_eq!(controller.cwnd(), 11_000);
        assert_eq!(controller.partial_bytes_acked, 500);
        controller.on_acknowledged(acked(20_000, 500));
        assert_eq!(controller.cwnd(), 11_000, "the window was not used");
        assert_eq!(controller.partial_bytes_acked, 11_000);
        controller.on_acknowledged(AckedBytes {
            all_acknowledged: true,
            ..acked(1, 1)
        });
        assert_eq!(controller.partial_bytes_acked, 0);
    }

    #[test]
    fn halves_the_window_on_fast_retransmit() {
        let mut controller = Rfc9260::new(PMDCS, false);
        controller.cwnd = 20_000;
        controller.on_fast_retransmit();
        assert_eq!((controller.cwnd(), controller.ssthresh()), (10_000, 10_000));
        controller.on_fast_retransmit();
        controller.on_fast_retransmit();
        assert_eq!(controller.cwnd(), 4000, "four packets at least");
    }

    #[test]
    fn allows_one_packet_after_a_timeout() {
        let mut controller = Rfc9260::new(PMDCS, false);
        controller.cwnd = 20_000;
        controller.on_timeout();
        assert_eq!((controller.cwnd(), controller.ssthresh()), (1000, 10_000));
        assert!(controller.allows(0));
        assert!(!controller.allows(500), "although 500 is less than cwnd");
        controller.on_acknowledged(acked(1000, 1000));
        assert_eq!(controller.cwnd(), 2000);
        assert!(controller.allows(1999));
        assert!(!controller.allows(2000));
    }

    #[test]
    fn decays_while_idle_and_remembers_the_threshold() {
        let mut controller = Rfc9260::new(PMDCS, false);
        controller.cwnd = 20_000;
        controller.on_idle();
        assert_eq!((controller.cwnd(), controller.ssthresh()), (10_000, 20_000));
        controller.on_idle();
        controller.on_idle();
        assert_eq!((controller.cwnd(), controller.ssthresh()), (4000, 20_000));

        let mut fresh = Rfc9260::new(1460, false);
        let before = (fresh.cwnd(), fresh.ssthresh());
        fresh.on_idle();
        assert_eq!((fresh.cwnd(), fresh.ssthresh()), before);
    }
}
