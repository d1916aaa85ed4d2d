//! RACK (RFC 8985 section 6): a chunk is lost when one that was sent later has arrived, and the time that
//! reordering may take has passed. The state of one path.

use std::time::{Duration, Instant};

use super::transmissions::Transmission;
use crate::packet::Tsn;

/// Without reordering, as many SACKs beyond a gap end the waiting (DupThresh).
const DUP_THRESH: u32 = 3;

/// For how many recoveries an enlarged reordering window stays (RACK.reo_wnd_persist).
const REO_WND_PERSIST: u32 = 16;

/// Beyond it the reordering window grows no more: it is bounded by the round-trip time long before.
const MAX_REO_WND_MULT: u32 = 64;

/// A chunk that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delivered {
    pub(crate) transmission: Transmission,
    /// It was sent more than once, or acknowledged before.
    pub(crate) ambiguous: bool,
    /// By a Gap Ack Block.
    pub(crate) by_gap: bool,
}

/// Whether a chunk is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Lost,
    /// It counts as lost at that time, unless it is acknowledged before.
    LostAt(Instant),
    /// Nothing that was sent later has arrived.
    Unknown,
}

/// The state of one path.
#[derive(Debug, Default)]
pub(super) struct Rack {
    /// RACK.xmit_ts and RACK.end_seq: the latest transmission that arrived.
    latest: Option<Transmission>,
    /// RACK.rtt: the round-trip time of the chunk that was sent last among those that the last SACK
    /// acknowledged.
    rtt: Duration,
    min_rtt: MinRtt,
    /// RACK.fack: the highest TSN that was acknowledged.
    fack: Option<Tsn>,
    /// RACK.reordering_seen.
    reordering_seen: bool,
    /// RACK.dsack_round: the reordering window has grown, and does not again before this TSN is
    /// acknowledged.
    dsack_round: Option<Tsn>,
    /// One less than RACK.reo_wnd_mult.
    extra_mult: u32,
    reo_wnd_persist: u32,
    /// In place of RACK.segs_sacked: how many SACKs have acknowledged something beyond a gap since there
    /// was none. The peer sends one for each packet then (RFC 9260 section 6.7).
    sacks_beyond_gap: u32,
    /// What the SACK that is taken in says.
    sack: Progress,
}

/// What a SACK says of a path, gathered chunk by chunk.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    /// The latest transmission among those that it acknowledges.
    latest: Option<Transmission>,
    beyond_gap: bool,
}

impl Rack {
    /// Steps 1 to 3 of section 6.2, for one chunk.
    pub(super) fn delivered(&mut self, now: Instant, chunk: Delivered) {
        let Delivered {
            transmission,
            ambiguous,
            by_gap,
        } = chunk;
        let rtt = now.saturating_duration_since(transmission.sent);
        self.sack.beyond_gap |= by_gap;
        self.detect_reordering(transmission.tsn, ambiguous);
        if ambiguous && self.min_rtt.get().is_some_and(|min_rtt| rtt < min_rtt) {
            // It answers an earlier transmission of the chunk.
            return;
        }
        if !ambiguous {
            self.min_rtt.observe(now, rtt);
        }
        let is_later = |before: &Transmission| is_sent_after(transmission, *before);
        if self.sack.latest.as_ref().is_none_or(is_later) {
            self.sack.latest = Some(transmission);
        }
    }

    fn detect_reordering(&mut self, tsn: Tsn, ambiguous: bool) {
        match self.fack {
            Some(fack) if tsn < fack => self.reordering_seen |= !ambiguous,
            _ => self.fack = Some(tsn),
        }
    }

    /// All chunks that a SACK acknowledges were told. `has_gaps` says that it has Gap Ack Blocks.
    pub(super) fn finish_sack(&mut self, now: Instant, cumulative: Tsn, has_gaps: bool) {
        let Progress { latest, beyond_gap } = std::mem::take(&mut self.sack);
        if let Some(latest) = latest {
            self.rtt = now.saturating_duration_since(latest.sent);
            if self
                .latest
                .is_none_or(|before| is_sent_after(latest, before))
            {
                self.latest = Some(latest);
            }
        }
        if !has_gaps {
            self.sacks_beyond_gap = 0;
        } else if beyond_gap {
            self.sacks_beyond_gap = self.sacks_beyond_gap.saturating_add(1);
        }
        self.dsack_round.take_if(|round| *round <= cumulative);
    }

    /// A chunk that was taken for lost had arrived. `next` is the TSN of the next new chunk (step 4).
    pub(super) fn loss_was_spurious(&mut self, next: Tsn) {
        if self.dsack_round.is_none() {
            self.dsack_round = Some(next);
            self.extra_mult = (self.extra_mult + 1).min(MAX_REO_WND_MULT);
            self.reo_wnd_persist = REO_WND_PERSIST;
        }
    }

    /// A recovery is over (step 4).
    pub(super) fn recovery_ended(&mut self) {
        self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
        if self.reo_wnd_persist == 0 {
            self.extra_mult = 0;
        }
    }

    /// RACK_update_reo_wnd of step 4.
    pub(super) fn reo_wnd(&self, srtt: Option<Duration>, in_recovery: bool) -> Duration {
        if !self.reordering_seen && (in_recovery || self.sacks_beyond_gap >= DUP_THRESH) {
            return Duration::ZERO;
        }
        let min_rtt = self.min_rtt.get().unwrap_or_default();
        let window = (min_rtt / 4).saturating_mul(self.extra_mult + 1);
        window.min(srtt.unwrap_or(window))
    }

    /// Whether a chunk in flight is lost (step 5).
    pub(super) fn judge(
        &self,
        transmission: Transmission,
        now: Instant,
        reo_wnd: Duration,
    ) -> Verdict {
        let has_overtaken = |latest| is_sent_after(latest, transmission);
        if !self.latest.is_some_and(has_overtaken) {
            return Verdict::Unknown;
        }
        let at = transmission.sent + self.rtt + reo_wnd;
        if at <= now {
            Verdict::Lost
        } else {
            Verdict::LostAt(at)
        }
    }

    /// Whether a chunk counts as lost when T3-rtx has expired, though it is not the first one
    /// (section 6.3).
    pub(super) fn is_overdue(
        &self,
        transmission: Transmission,
        now: Instant,
        reo_wnd: Duration,
    ) -> bool {
        transmission.sent + self.rtt + reo_wnd <= now
    }
}

/// RACK_sent_after.
fn is_sent_after(one: Transmission, other: Transmission) -> bool {
    one.sent > other.sent || one.sent == other.sent && one.tsn > other.tsn
}

/// RACK.min_RTT: the least round-trip time of the last minutes (step 1), in two windows of which the older
/// one is dropped as a whole.
#[derive(Debug, Default)]
struct MinRtt {
    /// When the present window began, and the least of it.
    present: Option<(Instant, Duration)>,
    before: Option<Duration>,
}

impl MinRtt {
    const WINDOW: Duration = Duration::from_secs(150);

    fn observe(&mut self, now: Instant, rtt: Duration) {
        match &mut self.present {
            Some((began, least)) if now < *began + MinRtt::WINDOW => *least = rtt.min(*least),
            present => {
                self.before = present.map(|(_, least)| least);
                *present = Some((now, rtt));
            }
        }
    }

    fn get(&self) -> Option<Duration> {
        let (_, present) = self.present?;
        Some(self.before.map_or(present, |before| before.min(present)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);
    const RTT: Duration = Duration::from_millis(40);

    struct RackTest {
        start: Instant,
        rack: Rack,
    }

    impl RackTest {
        fn new() -> RackTest {
            RackTest {
                start: Instant::now(),
                rack: Rack::default(),
            }
        }

        fn at(&self, milliseconds: u32) -> Instant {
            self.start + MILLISECOND * milliseconds
        }

        fn transmission(&self, tsn: u32, sent: u32) -> Transmission {
            Transmission {
                tsn: Tsn(tsn),
                sent: self.at(sent),
            }
        }

        /// A SACK for one chunk, which was sent at `sent`.
        fn sack(&mut self, now: u32, tsn: u32, sent: u32, ambiguous: bool, by_gap: bool) {
            let chunk = Delivered {
                transmission: self.transmission(tsn, sent),
                ambiguous,
                by_gap,
            };
            self.rack.delivered(self.at(now), chunk);
            self.rack.finish_sack(self.at(now), Tsn(0), by_gap);
        }

        fn judge(&self, tsn: u32, sent: u32, now: u32) -> Verdict {
            let reo_wnd = self.rack.reo_wnd(Some(RTT), false);
            self.rack
                .judge(self.transmission(tsn, sent), self.at(now), reo_wnd)
        }
    }

    #[test]
    fn what_was_overtaken_is_lost_after_the_reordering_window() {
        let mut test = RackTest::new();
        test.sack(40, 1, 0, false, false);
        assert_eq!(test.judge(2, 1, 200), Verdict::Unknown);
        test.sack(44, 3, 4, false, true);
        assert_eq!(test.judge(2, 1, 44), Verdict::LostAt(test.at(51)));
        assert_eq!(test.judge(2, 1, 51), Verdict::Lost);
        assert_eq!(test.judge(4, 4, 200), Verdict::Unknown, "sent after it");
        assert_eq!(test.judge(2, 4, 44 + 10), Verdict::Lost, "by the TSN");
    }

    #[test]
    fn the_third_sack_beyond_a_gap_ends_the_waiting() {
        let mut test = RackTest::new();
        for tsn in 3..6 {
            assert_ne!(test.judge(2, 0, 40), Verdict::Lost);
            test.sack(40, tsn, 0, false, true);
        }
        assert_eq!(test.judge(2, 0, 40), Verdict::Lost);
        test.rack.reordering_seen = true;
        assert_eq!(test.judge(2, 0, 40), Verdict::LostAt(test.at(50)));
    }

    #[test]
    fn reordering_is_seen_and_the_window_grows_by_spurious_losses() {
        let mut test = RackTest::new();
        test.sack(40, 5, 0, false, true);
        assert_eq!(test.rack.reo_wnd(Some(RTT), true), Duration::ZERO);
        test.sack(41, 4, 1, true, true);
        assert!(!test.rack.reordering_seen, "it was sent again");
        test.sack(41, 3, 1, false, true);
        assert_eq!(test.rack.reo_wnd(Some(RTT), true), RTT / 4);
        for _ in 0..2 {
            test.rack.loss_was_spurious(Tsn(7));
        }
        assert_eq!(test.rack.reo_wnd(Some(RTT), true), RTT / 2, "once a round");
        test.rack.finish_sack(test.at(80), Tsn(7), false);
        test.rack.loss_was_spurious(Tsn(9));
        assert_eq!(test.rack.reo_wnd(Some(RTT), true), RTT / 4 * 3);
        assert_eq!(
            test.rack.reo_wnd(Some(RTT / 2), true),
            RTT / 2,
            "SRTT at most"
        );
        for _ in 0..REO_WND_PERSIST {
            assert_ne!(test.rack.reo_wnd(Some(RTT), true), RTT / 4);
            test.rack.recovery_ended();
        }
        assert_eq!(test.rack.reo_wnd(Some(RTT), true), RTT / 4);
    }

    #[test]
    fn too_quick_an_answer_to_a_retransmission_says_nothing() {
        let mut test = RackTest::new();
        test.sack(40, 1, 0, false, false);
        test.sack(100, 2, 90, true, true);
        assert_eq!(test.judge(3, 50, 200), Verdict::Unknown);
        test.sack(130, 2, 90, true, true);
        assert_eq!(test.judge(3, 50, 200), Verdict::Lost);
    }

    #[test]
    fn the_least_round_trip_time_is_forgotten_in_time() {
        let start = Instant::now();
        let mut min_rtt = MinRtt::default();
        min_rtt.observe(start, RTT);
        min_rtt.observe(start + MinRtt::WINDOW, RTT * 3);
        assert_eq!(min_rtt.get(), Some(RTT));
        min_rtt.observe(start + 2 * MinRtt::WINDOW, RTT * 4);
        assert_eq!(min_rtt.get(), Some(RTT * 3));
    }
}
