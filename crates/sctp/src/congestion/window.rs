//! The window of a loss-based controller: what all of these do alike, and the law in which they differ.

use std::fmt;
use std::time::Duration;

use super::coupled::CoupledPath;
use super::{AckedBytes, CongestionController, PathConditions};

/// No more can ever be in flight: the a_rwnd of a peer has 32 bits (RFC 9260 section 3.3.4).
const MAX_CWND: usize = u32::MAX as usize;

/// How the window of a controller grows and shrinks.
pub(super) trait Law: Clone + fmt::Debug + Send {
    /// Whether it looks at the other paths of the association.
    const IS_COUPLED: bool;

    /// A SACK acknowledged something in slow start.
    fn slow_start(&mut self, window: &mut Window, acked: AckedBytes, path: &PathConditions<'_>) {
        if window.is_used(acked) && !path.in_recovery {
            window.grow(acked.acknowledged.min(window.pmdcs) as f64);
        }
    }

    /// A SACK acknowledged something in congestion avoidance.
    fn avoid_congestion(
        &mut self,
        window: &mut Window,
        acked: AckedBytes,
        path: &PathConditions<'_>,
    );

    /// Something was lost: gives the new slow-start threshold, in bytes.
    fn reduced(&mut self, window: &Window, path: &PathConditions<'_>) -> usize;

    /// T3-rtx expired, after [`Self::reduced`] was asked.
    fn timed_out(&mut self) {}
}

/// The window itself.
#[derive(Debug, Clone)]
pub(super) struct Window {
    /// Path Maximum DATA Chunk Size: what one packet carries of DATA chunks, in bytes.
    pub(super) pmdcs: usize,
    pub(super) cwnd: usize,
    pub(super) ssthresh: usize,
    /// What of the growth is less than a byte.
    fraction: f64,
    /// After a timeout only one packet may be in flight until something is acknowledged
    /// (section 7.2.3).
    single_packet: bool,
    /// ssthresh remembers the window from before this idle period (section 7.2.1).
    idle: bool,
    acked_since_loss: u64,
    acked_before_loss: u64,
    /// Bytes acknowledged between two losses, on average; `None` before the first one.
    mean_between_losses: Option<f64>,
}

/// The part of the latest interval between losses in their mean.
const LATEST_INTERVAL: f64 = 0.25;

fn weigh(mean: f64, latest: u64) -> f64 {
    mean + LATEST_INTERVAL * (latest as f64 - mean)
}

impl Window {
    /// The window of section 7.2.1.
    fn initial(pmdcs: usize, ipv6: bool) -> Window {
        let least = if ipv6 { 4344 } else { 4404 };
        Window {
            pmdcs,
            cwnd: (4 * pmdcs).min(least.max(2 * pmdcs)),
            ssthresh: MAX_CWND,
            fraction: 0.0,
            single_packet: false,
            idle: false,
            acked_since_loss: 0,
            acked_before_loss: 0,
            mean_between_losses: None,
        }
    }

    /// Whether the window was full before the SACK.
    pub(super) fn is_used(&self, acked: AckedBytes) -> bool {
        acked.flight_before >= self.cwnd
    }

    /// Whether no loss has bounded slow start yet.
    pub(super) fn is_unbounded(&self) -> bool {
        self.ssthresh == MAX_CWND
    }

    /// The congestion window with what of it is less than a byte.
    pub(super) fn exact(&self) -> f64 {
        self.cwnd as f64 + self.fraction
    }

    /// Grows by so many bytes, or shrinks if they are less than none.
    pub(super) fn grow(&mut self, bytes: f64) {
        self.fraction += bytes;
        let whole = self.fraction.floor();
        self.fraction -= whole;
        let grown = self.cwnd as f64 + whole;
        let least = self.pmdcs.min(self.cwnd) as f64;
        self.cwnd = grown.clamp(least, MAX_CWND as f64) as usize;
    }

    /// The growth of Reno for these bytes: a packet for each window.
    pub(super) fn reno_increase(&self, acknowledged: usize) -> f64 {
        acknowledged as f64 * self.pmdcs as f64 / self.cwnd.max(1) as f64
    }

    /// Half the window, and at least `packets` packets.
    pub(super) fn half(&self, packets: usize) -> usize {
        (self.cwnd / 2).max(packets * self.pmdcs)
    }

    /// The path as coupled controllers see it. `None` before the first measurement of its round-trip time:
    /// until then it is on its own.
    pub(super) fn coupled(&self, path: &PathConditions<'_>) -> Option<CoupledPath> {
        path.rtt.map(|rtt| self.with_srtt(rtt.smoothed))
    }

    /// Something was lost: an interval between losses is over.
    fn count_loss(&mut self) {
        let acked = std::mem::take(&mut self.acked_since_loss);
        self.acked_before_loss = acked;
        let mean = self.mean_between_losses;
        self.mean_between_losses = Some(mean.map_or(acked as f64, |mean| weigh(mean, acked)));
    }

    fn acked_between_losses(&self) -> u64 {
        self.acked_since_loss.max(self.acked_before_loss)
    }

    fn with_srtt(&self, srtt: Duration) -> CoupledPath {
        CoupledPath {
            cwnd: self.cwnd,
            // Where nothing was lost yet, the threshold says nothing.
            ssthresh: self.ssthresh.min(self.cwnd),
            srtt,
            acked_between_losses: self.acked_between_losses(),
        }
    }
}

/// A controller whose window shrinks when something is lost.
#[derive(Debug)]
pub(super) struct LossBased<L> {
    pub(super) window: Window,
    pub(super) law: L,
    /// Window and law as they would be without the latest loss or timeout.
    before_loss: Option<(Window, L)>,
}

impl<L: Law> LossBased<L> {
    /// A controller for a path whose packets carry `pmdcs` bytes of DATA chunks, before any data
    /// was sent. `ipv6` is the family of the peer's address.
    pub(super) fn new(law: L, pmdcs: usize, ipv6: bool) -> LossBased<L> {
        LossBased {
            window: Window::initial(pmdcs, ipv6),
            law,
            before_loss: None,
        }
    }

    /// Something was lost that had been sent before the window was reduced for it.
    fn count_loss(&mut self) {
        self.before_loss = Some((self.window.clone(), self.law.clone()));
        self.window.count_loss();
    }
}

fn reduce<L: Law>(window: &mut Window, law: &mut L, path: &PathConditions<'_>) {
    window.ssthresh = law.reduced(window, path).min(MAX_CWND);
    window.cwnd = window.ssthresh;
    window.fraction = 0.0;
}

impl<L: Law> CongestionController for LossBased<L> {
    fn cwnd(&self) -> usize {
        self.window.cwnd
    }

    fn ssthresh(&self) -> usize {
        self.window.ssthresh
    }

    fn flight_limit(&self) -> usize {
        if self.window.single_packet {
            1
        } else {
            self.window.cwnd
        }
    }

    fn on_acknowledged(&mut self, acked: AckedBytes, path: &PathConditions<'_>) {
        let window = &mut self.window;
        window.single_packet = false;
        window.idle = false;
        window.acked_since_loss = window
            .acked_since_loss
            .saturating_add(acked.acknowledged as u64);
        // Right after a loss RFC 9260 section 7.2.1 has slow start, which adds a packet. RFC 5681 section 3.1 leaves that open;
        // it is many round trips of coupled growth.
        if window.cwnd < window.ssthresh || (window.cwnd == window.ssthresh && !L::IS_COUPLED) {
            self.law.slow_start(window, acked, path);
        } else {
            self.law.avoid_congestion(window, acked, path);
        }
    }

    fn on_congestion_event(&mut self, path: &PathConditions<'_>) {
        self.count_loss();
        reduce(&mut self.window, &mut self.law, path);
    }

    fn on_timeout(&mut self, path: &PathConditions<'_>) {
        // Of timeouts in a row, the first one found the window as it was. The others are that of its retransmission: one
        // loss event (RFC 5348 section 5.2).
        if !self.window.single_packet {
            self.count_loss();
        }
        reduce(&mut self.window, &mut self.law, path);
        self.law.timed_out();
        self.window.cwnd = self.window.pmdcs;
        self.window.single_packet = true;
    }

    fn on_penalty(&mut self, is_lost: bool, path: &PathConditions<'_>) {
        let acked = self.window.acked_since_loss;
        if is_lost {
            self.window.count_loss();
        }
        reduce(&mut self.window, &mut self.law, path);
        if let Some((window, law)) = &mut self.before_loss {
            if is_lost {
                window.acked_since_loss = window.acked_since_loss.saturating_add(acked);
                window.count_loss();
            }
            reduce(window, law, path);
        }
    }

    fn on_spurious_loss(&mut self) {
        let Some((window, law)) = self.before_loss.take() else {
            return;
        };
        self.window.single_packet = false;
        if self.window.cwnd < window.cwnd {
            self.window.cwnd = window.cwnd;
            self.window.ssthresh = window.ssthresh;
            self.window.acked_before_loss = window.acked_before_loss;
            self.window.mean_between_losses = window.mean_between_losses;
            self.window.acked_since_loss = self
                .window
                .acked_since_loss
                .saturating_add(window.acked_since_loss);
            self.law = law;
        }
    }

    fn set_pmdcs(&mut self, pmdcs: usize) {
        self.window.pmdcs = pmdcs;
    }

    fn on_idle(&mut self) {
        let window = &mut self.window;
        let reduced = window.half(4);
        // A window of four packets or less is not made larger by being idle.
        if reduced >= window.cwnd {
            return;
        }
        if !window.idle {
            window.idle = true;
            window.ssthresh = window.cwnd;
        }
        window.cwnd = reduced;
    }

    fn acked_between_losses(&self) -> Option<u64> {
        let before = self.window.mean_between_losses?;
        // What is not over yet counts only if it is more (RFC 5348 section 5.4).
        let now = weigh(before, self.window.acked_since_loss);
        Some(before.max(now) as u64)
    }

    fn coupled(&self) -> Option<CoupledPath> {
        L::IS_COUPLED.then(|| self.window.with_srtt(Duration::ZERO))
    }
}
