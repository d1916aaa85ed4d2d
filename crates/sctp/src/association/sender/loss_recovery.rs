//! What the sender does about losses beside RFC 9260's own way: RACK-TLP (RFC 8985), and time-outs that were
//! for nothing (RFC 5682).

use std::time::{Duration, Instant};

use super::{Sender, SentCounts};
use crate::association::loss::Loss;
use crate::association::loss::f_rto::{Answer, FRto};
use crate::association::loss::gap_reports::MissRule;
use crate::association::loss::rack_tlp::{Delivered, ProbeTiming, RackTlp, Transmission};
use crate::association::loss::thin::is_thin;
use crate::association::outstanding::{Acknowledged, SackSummary};
use crate::association::path::Path;
use crate::association::path_id::PathId;
use crate::association::path_list::Paths;
use crate::packet::Tsn;
use crate::{AssociationConfig, LossDetection};

/// Left free in a probe for what goes with it, in bytes: a HEARTBEAT, which measures the round-trip time.
const PROBE_RESERVE: usize = 96;

/// What the chunks that a SACK newly acknowledges say together.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// One of them was to be sent again because T3-rtx had expired, and was not.
    original_arrived: bool,
    /// Paths on which everything had arrived that was taken for lost.
    spurious: Vec<PathId>,
}

impl Arrivals {
    /// Takes in a chunk.
    #[inline]
    pub(super) fn chunk(
        &mut self,
        now: Instant,
        chunk: &Acknowledged,
        by_gap: bool,
        rack: &mut Option<Box<RackTlp>>,
    ) {
        self.original_arrived |= chunk.lost == Some(Loss::Timeout);
        if let Some(rack) = rack {
            self.delivered(now, chunk, by_gap, rack);
        }
    }

    fn delivered(&mut self, now: Instant, chunk: &Acknowledged, by_gap: bool, rack: &mut RackTlp) {
        let delivered = Delivered {
            transmission: Transmission {
                tsn: chunk.tsn,
                sent: chunk.sent,
            },
            ambiguous: chunk.ambiguous,
            by_gap,
        };
        self.spurious
            .extend(rack.delivered(now, chunk.path, delivered, chunk.lost.is_some()));
    }

    /// Takes in a TSN that the peer has received twice; `next` is the one of the next new chunk.
    pub(super) fn duplicate(&mut self, tsn: Tsn, next: Tsn, rack: &mut Option<Box<RackTlp>>) {
        if let Some(rack) = rack {
            self.spurious.extend(rack.duplicate(tsn, next));
        }
    }
}

impl Sender {
    /// How losses are detected.
    pub(super) fn loss_detection(&self) -> LossDetection {
        match self.rack {
            None => LossDetection::GapReports,
            Some(_) => LossDetection::RackTlp,
        }
    }

    /// What SACKs mean as miss indications; `None` where losses are detected otherwise.
    pub(super) fn miss_rule(&self, paths: &Paths, config: &AssociationConfig) -> Option<MissRule> {
        if self.rack.is_some() {
            return None;
        }
        let rule = MissRule::new(self.fast_recovery.is_common());
        if !config.recovery.early_retransmit || self.has_new_data(paths) {
            return Some(rule);
        }
        Some(rule.early(self.outstanding.len()))
    }

    /// Whether `path` recovers from a loss: a path of its own with RACK-TLP, all together else (section
    /// 7.2.4).
    pub(super) fn is_in_recovery(&self, path: PathId) -> bool {
        match &self.rack {
            None => self.fast_recovery.contains(path),
            Some(rack) => rack.is_in_recovery(path),
        }
    }

    /// Whether something is marked for retransmission on `path`, and may go: not while F-RTO tries new data.
    #[inline]
    pub(super) fn retransmits_on(&self, path: PathId, paths: &Paths) -> bool {
        self.outstanding.has_lost()
            && !self.sends_new_first(paths)
            && self.outstanding.has_lost_on(path)
    }

    /// Whether F-RTO has new data leave in place of what is marked for retransmission. There may be none any
    /// more: it was abandoned, or its stream is paused.
    #[inline]
    pub(super) fn sends_new_first(&self, paths: &Paths) -> bool {
        self.f_rto.holds_back() && self.has_new_data(paths)
    }

    /// What was sent counts for nothing any more.
    pub(super) fn forget_transmissions(&mut self) {
        if let Some(rack) = &mut self.rack {
            **rack = RackTlp::default();
        }
        self.f_rto = FRto::Off;
    }

    /// Whether the chunk `tsn` is the earliest one outstanding on `path` (RFC 9260 section 6.1).
    pub(super) fn is_earliest_on(&mut self, tsn: Tsn, path: PathId) -> bool {
        let outstanding = &self.outstanding;
        match &mut self.rack {
            None => outstanding.is_earliest_on(tsn, path),
            Some(rack) => {
                let is_in_flight = |transmission| outstanding.is_in_flight(transmission, path);
                let earliest = rack.earliest(path, is_in_flight);
                earliest.is_none_or(|earliest| tsn < earliest.tsn)
            }
        }
    }

    /// A chunk left on `path`.
    #[inline]
    pub(super) fn chunk_left(&mut self, now: Instant, tsn: Tsn, path: PathId) {
        if self.rack.is_some() {
            self.transmission(now, tsn, path);
        }
    }

    fn transmission(&mut self, now: Instant, tsn: Tsn, path: PathId) {
        if let Some(rack) = &mut self.rack {
            let outstanding = &self.outstanding;
            let transmission = Transmission { tsn, sent: now };
            rack.chunk_sent(path, transmission, |transmission| {
                outstanding.is_in_flight(transmission, path)
            });
        }
    }

    /// A packet left on `path` with the chunks that `counts` tells.
    #[inline]
    pub(super) fn data_left(
        &mut self,
        now: Instant,
        path: PathId,
        counts: &SentCounts,
        paths: &mut Paths,
        config: &AssociationConfig,
    ) {
        if counts.has_new {
            self.f_rto.new_data_sent();
        }
        let Some(rack) = &mut self.rack else {
            return;
        };
        let (Some(lowest), Some(highest)) = (counts.first, counts.last) else {
            return;
        };
        if rack.is_probe_due(path) {
            rack.probe_sent(path, now, lowest, highest, counts.probes > 0);
            // Section 7.3: T3-rtx comes after it.
            if let Some(path) = paths.get_mut(path) {
                path.restart_t3_rtx(now);
            }
        } else if counts.has_new {
            self.arm_probe(now, path, paths, config);
        }
    }

    fn arm_probe(&mut self, now: Instant, id: PathId, paths: &Paths, config: &AssociationConfig) {
        if let (Some(rack), Some(path)) = (&mut self.rack, paths.get(id)) {
            rack.arm_probe(id, now, probe_timing(path, config));
        }
    }

    /// Draws the conclusions of a SACK that was taken in: losses, and losses that were none.
    pub(super) fn conclude_sack(
        &mut self,
        now: Instant,
        cumulative: Tsn,
        summary: &SackSummary,
        arrivals: Arrivals,
        paths: &mut Paths,
        config: &AssociationConfig,
    ) {
        self.conclude_f_rto(now, cumulative, summary, &arrivals, paths);
        let Some(rack) = &mut self.rack else {
            return;
        };
        rack.finish_sack(now, cumulative, self.outstanding.has_gaps());
        for id in arrivals.spurious {
            rack.undo_recovery(id);
            if let Some(path) = paths.get_mut(id) {
                path.loss_was_spurious();
            }
        }
        let mut last = None;
        while let Some(id) = paths.next_after(last) {
            last = Some(id);
            self.detect_losses(now, id, paths, config);
            let repaired = self
                .rack
                .as_mut()
                .is_some_and(|rack| rack.take_repaired(id, now));
            let in_recovery = self.is_in_recovery(id);
            if let Some((path, coupled)) = paths.get_mut_coupled(id, now) {
                if repaired {
                    path.loss_detected(now, path.flight(), coupled, config);
                }
                path.reduce_rate(in_recovery);
                if path.made_progress() {
                    self.arm_probe(now, id, paths, config);
                }
            }
        }
    }

    /// Has T3-rtx count from when the earliest chunk was sent, while little is in flight or waits to be
    /// (RFC 7765).
    pub(super) fn restart_timers(&mut self, now: Instant, paths: &mut Paths) {
        for path in paths.iter_mut() {
            let id = path.id();
            if !is_thin(path.flight() + self.queue.bytes(), path.pmdcs()) {
                continue;
            }
            let outstanding = &self.outstanding;
            let earliest = match &mut self.rack {
                None => outstanding.earliest_sent(id),
                Some(rack) => rack
                    .earliest(id, |transmission| {
                        outstanding.is_in_flight(transmission, id)
                    })
                    .map(|transmission| transmission.sent),
            };
            if let Some(sent) = earliest {
                path.restart_t3_rtx_from(now, sent);
            }
        }
    }

    /// A path on which losses were detected while little was in flight; said once.
    pub(crate) fn take_thin_loss(&mut self) -> Option<PathId> {
        self.thin_losses.pop()
    }

    /// RFC 5682.
    fn conclude_f_rto(
        &mut self,
        now: Instant,
        cumulative: Tsn,
        summary: &SackSummary,
        arrivals: &Arrivals,
        paths: &mut Paths,
    ) {
        if self.f_rto == FRto::Off {
            return;
        }
        let answer = Answer {
            cumulative,
            advanced: summary.advanced,
            highest: summary.highest,
            original_arrived: arrivals.original_arrived,
            has_new_data: self.has_new_data(paths),
        };
        let Some(id) = self.f_rto.acknowledged(answer) else {
            return;
        };
        let Some(path) = paths.get_mut(id) else {
            return;
        };
        path.loss_was_spurious();
        let restored = self
            .outstanding
            .restore(id, |size| path.chunk_in_flight_again(now, size));
        if let Some(rack) = &mut self.rack {
            rack.restored(id, restored);
            rack.undo_recovery(id);
        }
    }

    /// RFC 8985 section 6.2, step 5.
    fn detect_losses(
        &mut self,
        now: Instant,
        id: PathId,
        paths: &mut Paths,
        config: &AssociationConfig,
    ) {
        let (Some(rack), Some((path, coupled))) = (&mut self.rack, paths.get_mut_coupled(id, now))
        else {
            return;
        };
        let outstanding = &mut self.outstanding;
        let in_flight = path.flight();
        let is_thin = is_thin(in_flight, path.pmdcs());
        let mut is_reduced = false;
        let mut is_lost = false;
        while let Some(lost) = rack.next_lost(id, now, path.srtt(), |transmission| {
            outstanding.is_in_flight(transmission, id)
        }) {
            if !outstanding.is_reported(lost.tsn) {
                path.chunk_left_flight(outstanding.lose(lost.tsn, Loss::Unreported, id));
                continue;
            }
            is_lost = true;
            path.chunk_left_flight(outstanding.lose(lost.tsn, Loss::Rack, id));
            if rack.chunk_lost(id, now, lost, Loss::Rack, !is_reduced) {
                is_reduced = true;
                path.loss_detected(now, in_flight, coupled, config);
                // Section 7.2.4 of RFC 9260: one packet leaves whatever the window.
                self.fast_retransmit = Some(id);
            }
        }
        if is_lost && is_thin {
            self.thin_losses.push(id);
        }
        if path.flight() == 0 && self.forward_tsn.path() != Some(id) {
            // What it waited for is to be sent again. A FORWARD-TSN still waits (RFC 3758 section 3.5, rule C5).
            path.stop_t3_rtx();
        }
    }

    /// A chunk goes again that left the flight when the peer may have had no room to report it: by now it had, and the
    /// chunk is lost.
    pub(super) fn confirm_loss(
        &mut self,
        now: Instant,
        tsn: Tsn,
        paths: &mut Paths,
        config: &AssociationConfig,
    ) {
        let (Some(rack), Some((id, transmission))) =
            (&mut self.rack, self.outstanding.unreported(tsn))
        else {
            return;
        };
        if rack.chunk_lost(id, now, transmission, Loss::Rack, true)
            && let Some((path, coupled)) = paths.get_mut_coupled(id, now)
        {
            path.loss_detected(now, path.flight(), coupled, config);
        }
    }

    /// When a chunk counts as lost, or a probe is due.
    pub(crate) fn loss_timeout(&self) -> Option<Instant> {
        self.rack.as_ref().and_then(|rack| rack.timeout())
    }

    /// Does what is due then.
    pub(crate) fn handle_loss_timeout(
        &mut self,
        now: Instant,
        current: PathId,
        paths: &mut Paths,
        config: &AssociationConfig,
    ) {
        if self.loss_timeout().is_none_or(|timeout| timeout > now) {
            return;
        }
        while let Some(id) = self
            .rack
            .as_mut()
            .and_then(|rack| rack.take_reordering_timeout(now))
        {
            self.detect_losses(now, id, paths, config);
            self.arm_probe(now, id, paths, config);
        }
        while let Some(id) = self
            .rack
            .as_mut()
            .and_then(|rack| rack.take_probe_timeout(now))
        {
            self.probe_tail(now, id, current, paths);
        }
    }

    /// The PTO of a path has expired (RFC 8985 section 7.3): new data leaves beyond the window, or else the
    /// packet with the highest TSNs again.
    fn probe_tail(&mut self, now: Instant, id: PathId, current: PathId, paths: &mut Paths) {
        let has_new_data =
            id == current && self.queue.next_destination().is_none() && self.has_new_data(paths);
        let room = paths
            .get(id)
            .map_or(0, Path::pmdcs)
            .saturating_sub(paths.auth_length() + PROBE_RESERVE);
        let (Some(rack), Some(path)) = (&mut self.rack, paths.get_mut(id)) else {
            return;
        };
        if path.t3_rtx().is_none() || path.flight() == 0 {
            return;
        }
        if !self.outstanding.has_lost() && !has_new_data {
            let outstanding = &self.outstanding;
            let mut size = 0;
            let tail: Vec<Tsn> = rack
                .latest_first(id, |transmission| {
                    outstanding.is_in_flight(transmission, id)
                })
                .filter_map(|Transmission { tsn, .. }| {
                    let chunk_size = outstanding.may_be_repeated(now, tsn)?;
                    Some((tsn, chunk_size))
                })
                .take_while(|(_, chunk_size)| {
                    let is_first = size == 0;
                    size += chunk_size;
                    is_first || size <= room
                })
                .map(|(tsn, _)| tsn)
                .collect();
            if tail.is_empty() {
                return;
            }
            for tsn in tail {
                path.chunk_left_flight(self.outstanding.lose(tsn, Loss::Probe, id));
            }
            path.measure_beside_retransmission();
        }
        rack.want_probe(id);
    }

    /// Whether a probe may leave on `path`, whatever the window.
    pub(super) fn is_probe_due(&self, path: PathId) -> bool {
        self.rack
            .as_ref()
            .is_some_and(|rack| rack.is_probe_due(path))
    }

    /// What T3-rtx of `path` was waiting for counts as lost (RFC 8985 section 6.3): the first chunk, and
    /// those of which something should have been heard by now. All of them, where losses are detected by
    /// gap reports (RFC 9260 section 6.3.3).
    pub(super) fn lose_by_timeout(
        &mut self,
        now: Instant,
        id: PathId,
        next: PathId,
        paths: &mut Paths,
    ) {
        let Some(path) = paths.get_mut(id) else {
            return;
        };
        let Some(rack) = &mut self.rack else {
            self.outstanding
                .mark_lost_on(id, next, |size| path.chunk_left_flight(size));
            return;
        };
        let outstanding = &mut self.outstanding;
        rack.begin_recovery(id, now);
        let mut lost = rack.earliest(id, |transmission| {
            outstanding.is_in_flight(transmission, id)
        });
        while let Some(chunk) = lost {
            path.chunk_left_flight(outstanding.lose(chunk.tsn, Loss::Timeout, next));
            rack.chunk_lost(id, now, chunk, Loss::Timeout, false);
            lost = rack.next_overdue(id, now, path.srtt(), |transmission| {
                outstanding.is_in_flight(transmission, id)
            });
        }
        if path.flight() > 0 {
            path.start_t3_rtx(now);
        }
        // RFC 9260 section 6.3.3, rule E3: one packet leaves, though others may be in flight.
        self.fast_retransmit = Some(next);
    }
}

fn probe_timing(path: &Path, config: &AssociationConfig) -> ProbeTiming {
    let is_one_packet = path.flight() <= path.pmdcs();
    ProbeTiming {
        srtt: path.srtt(),
        ack_delay: if is_one_packet {
            config.sack_delay
        } else {
            Duration::ZERO
        },
        t3_rtx: path.t3_rtx(),
        measured: path.measured(),
    }
}
