//! Tail loss probes (RFC 8985 section 7): when no acknowledgement comes for two round trips, one packet
//! asks for one, so that RACK can tell what was lost. The state of one path.

use std::time::{Duration, Instant};

use super::transmissions::Transmission;
use crate::packet::Tsn;

/// The clock granularity G of RFC 9260 section 6.3.1.
const LEAST_TIMEOUT: Duration = Duration::from_millis(1);

/// What decides when a probe is due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProbeTiming {
    pub(crate) srtt: Option<Duration>,
    /// TLP.max_ack_delay, where no more than a packet is in flight.
    pub(crate) ack_delay: Duration,
    /// When T3-rtx expires.
    pub(crate) t3_rtx: Option<Instant>,
    /// When the round-trip time was measured last.
    pub(crate) measured: Option<Instant>,
}

/// The state of one path.
#[derive(Debug, Default)]
pub(super) struct TailLossProbe {
    /// The PTO.
    timeout: Option<Instant>,
    /// One packet may leave, whatever the window.
    due: bool,
    /// When the last probe was sent.
    sent: Option<Instant>,
    /// The probe whose fate is not known (TLP.end_seq).
    open: Option<OpenProbe>,
}

#[derive(Debug, Clone, Copy)]
struct OpenProbe {
    sent: Instant,
    lowest: Tsn,
    /// TLP.end_seq.
    highest: Tsn,
    /// TLP.is_retrans.
    is_retransmission: bool,
    acknowledged: bool,
}

impl OpenProbe {
    fn contains(&self, tsn: Tsn) -> bool {
        self.lowest <= tsn && tsn <= self.highest
    }
}

impl TailLossProbe {
    /// When a probe is due.
    pub(super) fn timeout(&self) -> Option<Instant> {
        self.timeout
    }

    /// No probe is needed for now.
    pub(super) fn disarm(&mut self) {
        self.timeout = None;
        self.due = false;
    }

    /// Forgets everything but when a probe was sent last (section 7.1).
    pub(super) fn reset(&mut self) {
        self.timeout = None;
        self.due = false;
        self.open = None;
    }

    /// Waits for an acknowledgement from `now` on, if a probe may be sent at all (sections 7.2 and 7.3):
    /// no other one is in flight, and the round-trip time was measured since the last one.
    pub(super) fn arm(&mut self, now: Instant, timing: ProbeTiming) {
        self.due = false;
        let is_open = self.open.is_some_and(|probe| !probe.acknowledged);
        let is_measured = self
            .sent
            .is_none_or(|sent| timing.measured.is_some_and(|measured| measured > sent));
        let t3_rtx = timing.t3_rtx.filter(|_| !is_open && is_measured);
        self.timeout = t3_rtx.map(|t3_rtx| {
            let timeout = match timing.srtt {
                Some(srtt) => (2 * srtt + timing.ack_delay).max(LEAST_TIMEOUT),
                None => Duration::from_secs(1),
            };
            t3_rtx.min(now + timeout)
        });
    }

    /// Whether a probe may leave.
    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    /// The PTO has expired, and there is something to send. Tells whether a probe before it has repaired a
    /// loss, for no sign came that it had been needless.
    pub(super) fn expired(&mut self) -> bool {
        self.timeout = None;
        self.due = true;
        self.open.take().is_some()
    }

    /// The probe leaves: the chunks from `lowest` to `highest`.
    pub(super) fn sent(
        &mut self,
        now: Instant,
        lowest: Tsn,
        highest: Tsn,
        is_retransmission: bool,
    ) {
        self.due = false;
        self.sent = Some(now);
        self.open = Some(OpenProbe {
            sent: now,
            lowest,
            highest,
            is_retransmission,
            acknowledged: false,
        });
    }

    /// A chunk is acknowledged (section 7.4.2). Tells whether the probe has repaired a loss: it arrived,
    /// something that was sent after it has, too, and there was no sign that it had been needless.
    pub(super) fn acknowledged(&mut self, chunk: Transmission) -> bool {
        let Some(probe) = &mut self.open else {
            return false;
        };
        if probe.contains(chunk.tsn) {
            probe.acknowledged = true;
            if !probe.is_retransmission {
                self.open = None;
            }
            return false;
        }
        let has_repaired = probe.acknowledged && chunk.sent > probe.sent;
        if has_repaired {
            self.open = None;
        }
        has_repaired
    }

    /// The peer has a chunk twice: tells whether it was the probe, which was needless then.
    pub(super) fn is_needless(&mut self, tsn: Tsn) -> bool {
        let needless = |probe: &mut OpenProbe| probe.is_retransmission && probe.contains(tsn);
        self.open.take_if(needless).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    fn timing(now: Instant) -> ProbeTiming {
        ProbeTiming {
            srtt: Some(10 * MILLISECOND),
            ack_delay: 5 * MILLISECOND,
            t3_rtx: Some(now + 200 * MILLISECOND),
            measured: None,
        }
    }

    fn chunk(tsn: u32, sent: Instant) -> Transmission {
        Transmission {
            tsn: Tsn(tsn),
            sent,
        }
    }

    #[test]
    fn is_due_after_two_round_trips_but_no_later_than_t3_rtx() {
        let now = Instant::now();
        let mut probe = TailLossProbe::default();
        probe.arm(now, timing(now));
        assert_eq!(probe.timeout(), Some(now + 25 * MILLISECOND));
        let unmeasured = ProbeTiming {
            srtt: None,
            ..timing(now)
        };
        probe.arm(now, unmeasured);
        assert_eq!(probe.timeout(), Some(now + 200 * MILLISECOND));
        let slow = ProbeTiming {
            t3_rtx: Some(now + 2000 * MILLISECOND),
            ..unmeasured
        };
        probe.arm(now, slow);
        assert_eq!(probe.timeout(), Some(now + 1000 * MILLISECOND));
        let idle = ProbeTiming {
            t3_rtx: None,
            ..unmeasured
        };
        probe.arm(now, idle);
        assert_eq!(probe.timeout(), None);
    }

    #[test]
    fn the_next_one_waits_for_the_fate_of_the_last_one_and_a_measurement() {
        let now = Instant::now();
        let measured = |milliseconds: u32| ProbeTiming {
            measured: Some(now + milliseconds * MILLISECOND),
            ..timing(now)
        };
        let mut probe = TailLossProbe::default();
        assert!(!probe.expired());
        probe.sent(now, Tsn(7), Tsn(8), true);
        probe.arm(now, measured(10));
        assert_eq!(probe.timeout(), None, "in flight");
        assert!(!probe.acknowledged(chunk(8, now)));
        probe.arm(now, measured(0));
        assert_eq!(probe.timeout(), None, "not measured since");
        probe.arm(now, measured(10));
        assert!(probe.timeout().is_some());
        assert!(probe.expired(), "the last one repaired a loss");
    }

    #[test]
    fn a_repaired_loss_is_told_unless_the_peer_has_the_chunk_twice() {
        let now = Instant::now();
        let later = now + MILLISECOND;
        let sent = || {
            let mut probe = TailLossProbe::default();
            probe.expired();
            probe.sent(now, Tsn(7), Tsn(8), true);
            probe
        };
        let mut repaired = sent();
        assert!(!repaired.acknowledged(chunk(9, later)), "not there yet");
        assert!(!repaired.acknowledged(chunk(8, now)));
        assert!(repaired.acknowledged(chunk(9, later)));
        assert!(!repaired.acknowledged(chunk(10, later)), "said once");

        let mut needless = sent();
        needless.acknowledged(chunk(8, now));
        assert!(!needless.is_needless(Tsn(6)));
        assert!(needless.is_needless(Tsn(7)));
        assert!(!needless.acknowledged(chunk(9, later)));

        let mut new_data = TailLossProbe::default();
        new_data.sent(now, Tsn(7), Tsn(8), false);
        new_data.acknowledged(chunk(8, now));
        assert!(!new_data.acknowledged(chunk(9, later)));
    }
}
