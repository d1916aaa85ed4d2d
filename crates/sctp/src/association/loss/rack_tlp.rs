//! RACK-TLP (RFC 8985) of all paths: what each of them has sent, when something of that is lost, when a
//! probe is due, and whether a loss was none.
//!
//! It is told of chunks by TSN and time, and asks whether a transmission is still in flight. In place of
//! DSACK (RFC 2883) SCTP has the duplicate TSNs of a SACK (RFC 9260 section 3.3.4).

use std::time::{Duration, Instant};

use super::Loss;
use super::probe::TailLossProbe;
use super::rack::{Rack, Verdict};
use super::recovery::Recovery;
use super::transmissions::Transmissions;
use crate::association::path_id::PathId;
use crate::packet::Tsn;

pub(crate) use super::probe::ProbeTiming;
pub(crate) use super::rack::Delivered;
pub(crate) use super::transmissions::Transmission;

/// The state of all paths.
#[derive(Debug, Default)]
pub(crate) struct RackTlp {
    /// Those on which something was sent.
    paths: Vec<PathLosses>,
}

#[derive(Debug)]
struct PathLosses {
    id: PathId,
    transmissions: Transmissions,
    rack: Rack,
    recovery: Recovery,
    probe: TailLossProbe,
    /// The reordering timer: when the next chunk counts as lost.
    reo_timeout: Option<Instant>,
    /// A probe has repaired a loss that the window was not reduced for.
    repaired_by_probe: bool,
}

impl RackTlp {
    fn path(&self, id: PathId) -> Option<&PathLosses> {
        self.paths.iter().find(|path| path.id == id)
    }

    fn path_mut(&mut self, id: PathId) -> Option<&mut PathLosses> {
        self.paths.iter_mut().find(|path| path.id == id)
    }

    fn path_or_new(&mut self, id: PathId) -> Option<&mut PathLosses> {
        if self.path(id).is_none() {
            self.paths.push(PathLosses::new(id));
        }
        self.path_mut(id)
    }

    /// The path is gone.
    pub(crate) fn forget_path(&mut self, id: PathId) {
        self.paths.retain(|path| path.id != id);
    }

    // --- Transmissions ---

    /// A chunk leaves on `path` (section 6.1).
    pub(crate) fn chunk_sent(
        &mut self,
        path: PathId,
        transmission: Transmission,
        is_in_flight: impl Fn(Transmission) -> bool,
    ) {
        for path in &mut self.paths {
            path.recovery.chunk_sent(transmission.tsn);
        }
        if let Some(path) = self.path_or_new(path) {
            path.transmissions.tidy(is_in_flight);
            path.transmissions.push(transmission);
        }
    }

    /// Chunks that had counted as lost on `path` are in flight again, in ascending order of TSNs.
    pub(crate) fn restored(&mut self, path: PathId, mut transmissions: Vec<Transmission>) {
        transmissions.sort_by_key(|transmission| transmission.sent);
        if let Some(path) = self.path_or_new(path) {
            for transmission in transmissions.into_iter().rev() {
                path.transmissions.restore(transmission);
            }
        }
    }

    /// The earliest chunk in flight on `path`.
    pub(crate) fn earliest(
        &mut self,
        path: PathId,
        is_in_flight: impl Fn(Transmission) -> bool,
    ) -> Option<Transmission> {
        self.path_mut(path)?.transmissions.earliest(is_in_flight)
    }

    /// What is in flight on `path`, the latest first.
    pub(crate) fn latest_first(
        &self,
        path: PathId,
        is_in_flight: impl Fn(Transmission) -> bool,
    ) -> impl Iterator<Item = Transmission> {
        self.path(path)
            .map(|path| path.transmissions.latest_first(is_in_flight))
            .into_iter()
            .flatten()
    }

    // --- Acknowledgements ---

    /// A SACK newly acknowledges a chunk whose last transmission was on `path`; `lost` says that it counted
    /// as lost and was not sent again. Gives that path where this proves that everything had arrived that
    /// was lost there.
    pub(crate) fn delivered(
        &mut self,
        now: Instant,
        path: PathId,
        chunk: Delivered,
        lost: bool,
    ) -> Option<PathId> {
        let state = self.path_mut(path)?;
        state.rack.delivered(now, chunk);
        state.repaired_by_probe |= state.probe.acknowledged(chunk.transmission);
        if state.recovery.acknowledged(chunk.transmission.sent) {
            state.rack.recovery_ended();
        }
        let spurious = lost.then(|| state.recovery.chunk_had_arrived(chunk.transmission.tsn))??;
        spurious.all.then_some(path)
    }

    /// The peer has the chunk `tsn` twice; `next` is the TSN of the next new one.
    pub(crate) fn duplicate(&mut self, tsn: Tsn, next: Tsn) -> Option<PathId> {
        self.paths.iter_mut().find_map(|path| {
            if path.probe.is_needless(tsn) {
                return None;
            }
            let spurious = path.recovery.chunk_came_twice(tsn)?;
            if spurious.loss == Loss::Rack {
                path.rack.loss_was_spurious(next);
            }
            spurious.all.then_some(path.id)
        })
    }

    /// The SACK was told.
    pub(crate) fn finish_sack(&mut self, now: Instant, cumulative: Tsn, has_gaps: bool) {
        for path in &mut self.paths {
            path.rack.finish_sack(now, cumulative, has_gaps);
        }
    }

    /// Whether `path` recovers from a loss.
    pub(crate) fn is_in_recovery(&self, path: PathId) -> bool {
        self.path(path)
            .is_some_and(|path| path.recovery.is_active())
    }

    // --- Losses ---

    /// The next chunk on `path` that is lost (section 6.2, step 5); when there is none, the reordering timer
    /// is set.
    pub(crate) fn next_lost(
        &mut self,
        path: PathId,
        now: Instant,
        srtt: Option<Duration>,
        is_in_flight: impl Fn(Transmission) -> bool,
    ) -> Option<Transmission> {
        let path = self.path_mut(path)?;
        path.reo_timeout = None;
        let earliest = path.transmissions.earliest(is_in_flight)?;
        let reo_wnd = path.rack.reo_wnd(srtt, path.recovery.is_active());
        match path.rack.judge(earliest, now, reo_wnd) {
            Verdict::Lost => Some(earliest),
            Verdict::LostAt(at) => {
                path.reo_timeout = Some(at);
                None
            }
            Verdict::Unknown => None,
        }
    }

    /// The next chunk on `path` that counts as lost because T3-rtx has expired (section 6.3), beside the
    /// first one.
    pub(crate) fn next_overdue(
        &mut self,
        path: PathId,
        now: Instant,
        srtt: Option<Duration>,
        is_in_flight: impl Fn(Transmission) -> bool,
    ) -> Option<Transmission> {
        let path = self.path_mut(path)?;
        let earliest = path.transmissions.earliest(is_in_flight)?;
        let reo_wnd = path.rack.reo_wnd(srtt, true);
        let is_overdue = path.rack.is_overdue(earliest, now, reo_wnd);
        is_overdue.then_some(earliest)
    }

    /// A chunk on `path` is taken for lost. Tells whether the window is to be reduced; that begins a
    /// recovery. `counts` says that it was not reduced for others just now.
    pub(crate) fn chunk_lost(
        &mut self,
        path: PathId,
        now: Instant,
        chunk: Transmission,
        loss: Loss,
        counts: bool,
    ) -> bool {
        let Some(path) = self.path_mut(path) else {
            return false;
        };
        let begins = counts && path.recovery.is_begun_by(chunk.sent);
        if begins {
            path.begin_recovery(now);
        }
        path.recovery.chunk_lost(chunk.tsn, loss);
        begins
    }

    /// T3-rtx of `path` has expired.
    pub(crate) fn begin_recovery(&mut self, path: PathId, now: Instant) {
        if let Some(path) = self.path_mut(path) {
            path.begin_recovery(now);
        }
    }

    /// The window of `path` is what it was before.
    pub(crate) fn undo_recovery(&mut self, path: PathId) {
        if let Some(path) = self.path_mut(path) {
            path.recovery.undo();
        }
    }

    // --- Timers and probes ---

    /// The earliest reordering timer or PTO.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        let timeouts = self.paths.iter();
        timeouts
            .flat_map(|path| [path.reo_timeout, path.probe.timeout()])
            .flatten()
            .min()
    }

    /// The paths whose reordering timer has expired.
    pub(crate) fn take_reordering_timeout(&mut self, now: Instant) -> Option<PathId> {
        self.paths.iter_mut().find_map(|path| {
            let expired = path.reo_timeout.take_if(|timeout| *timeout <= now);
            expired.map(|_| path.id)
        })
    }

    /// A path whose PTO has expired.
    pub(crate) fn take_probe_timeout(&mut self, now: Instant) -> Option<PathId> {
        self.paths.iter_mut().find_map(|path| {
            let is_expired = path.probe.timeout().is_some_and(|timeout| timeout <= now);
            is_expired.then(|| {
                path.probe.disarm();
                path.id
            })
        })
    }

    /// Data left on `path`, or was acknowledged there: a probe is due when no acknowledgement comes, unless
    /// something else finds out (section 7.2).
    pub(crate) fn arm_probe(&mut self, path: PathId, now: Instant, timing: ProbeTiming) {
        if let Some(path) = self.path_mut(path) {
            if path.recovery.is_active() || path.reo_timeout.is_some() {
                path.probe.disarm();
            } else {
                path.probe.arm(now, timing);
            }
        }
    }

    /// A probe may leave on `path`.
    pub(crate) fn want_probe(&mut self, path: PathId) {
        if let Some(path) = self.path_mut(path) {
            path.repaired_by_probe |= path.probe.expired();
        }
    }

    /// Whether a probe may leave on `path`.
    pub(crate) fn is_probe_due(&self, path: PathId) -> bool {
        self.path(path).is_some_and(|path| path.probe.is_due())
    }

    /// The probe leaves on `path`: the chunks from `lowest` to `highest`.
    pub(crate) fn probe_sent(
        &mut self,
        path: PathId,
        now: Instant,
        lowest: Tsn,
        highest: Tsn,
        is_retransmission: bool,
    ) {
        if let Some(path) = self.path_mut(path) {
            path.probe.sent(now, lowest, highest, is_retransmission);
        }
    }

    /// Whether a probe has repaired a loss on `path` that the window is to be reduced for (section 7.4.2).
    pub(crate) fn take_repaired(&mut self, path: PathId, now: Instant) -> bool {
        let Some(path) = self.path_mut(path) else {
            return false;
        };
        let is_repaired = std::mem::take(&mut path.repaired_by_probe) && !path.recovery.is_active();
        if is_repaired {
            path.recovery.reduced(now);
        }
        is_repaired
    }
}

impl PathLosses {
    fn new(id: PathId) -> PathLosses {
        PathLosses {
            id,
            transmissions: Transmissions::default(),
            rack: Rack::default(),
            recovery: Recovery::default(),
            probe: TailLossProbe::default(),
            reo_timeout: None,
            repaired_by_probe: false,
        }
    }

    fn begin_recovery(&mut self, now: Instant) {
        self.recovery.begin(now);
        self.probe.reset();
        self.reo_timeout = None;
        self.repaired_by_probe = false;
    }
}
