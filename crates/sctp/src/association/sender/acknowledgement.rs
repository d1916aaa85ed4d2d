//! SACKs and what they mean for what is outstanding (RFC 9260 sections 6.2.1 and 7.2.4).

use std::time::Instant;

use super::loss_recovery::Arrivals;
use super::{NeverSent, SackOutcome, Sender};
use crate::AssociationConfig;
use crate::association::loss::thin::is_thin;
use crate::association::path::Path;
use crate::association::path_id::PathId;
use crate::association::path_list::Paths;
use crate::packet::{GapAckBlock, GapAckBlocks, NrSack, Sack, Tsn, TsnList};

/// What a SACK, an NR-SACK or a SHUTDOWN says.
struct Report<'a, G> {
    cumulative: Tsn,
    /// The a_rwnd, if it says that.
    window: Option<usize>,
    /// All that was received above the cumulative TSN.
    gaps: G,
    /// What was received more than once.
    duplicates: TsnList<'a>,
    /// What of that the peer keeps.
    non_renegable: GapAckBlocks<'a>,
    /// How many packets with DATA it acknowledges, where it says that; else 1.
    packets: u8,
}

impl Sender {
    /// Takes in a SACK.
    pub(crate) fn handle_sack(
        &mut self,
        now: Instant,
        sack: &Sack<'_>,
        paths: &mut Paths,
        config: &AssociationConfig,
    ) -> Result<SackOutcome, NeverSent> {
        if sack.cumulative_tsn_ack < self.outstanding.cumulative_ack_point() {
            return Ok(SackOutcome::default());
        }
        let report = Report {
            cumulative: sack.cumulative_tsn_ack,
            window: Some(sack.a_rwnd as usize),
            gaps: sack.gap_ack_blocks.iter(),
            duplicates: sack.duplicate_tsns,
            packets: sack.packets.max(1),
            non_renegable: GapAckBlocks::default(),
        };
        self.acknowledge(now, report, paths, config)
    }

    /// Takes in an NR-SACK.
    pub(crate) fn handle_nr_sack(
        &mut self,
        now: Instant,
        nr_sack: &NrSack<'_>,
        paths: &mut Paths,
        config: &AssociationConfig,
    ) -> Result<SackOutcome, NeverSent> {
        if nr_sack.cumulative_tsn_ack < self.outstanding.cumulative_ack_point() {
            return Ok(SackOutcome::default());
        }
        let non_renegable = nr_sack.nr_gap_ack_blocks;
        let report = Report {
            cumulative: nr_sack.cumulative_tsn_ack,
            window: Some(nr_sack.a_rwnd as usize),
            gaps: nr_sack.gap_ack_blocks.iter().chain(non_renegable.iter()),
            duplicates: nr_sack.duplicate_tsns,
            packets: nr_sack.packets.max(1),
            non_renegable,
        };
        self.acknowledge(now, report, paths, config)
    }

    /// Takes in the Cumulative TSN Ack of a SHUTDOWN, which has no Gap Ack Blocks: that some are
    /// missing does not mean that the peer reneged (section 3.3.8).
    pub(crate) fn handle_cumulative_ack(
        &mut self,
        now: Instant,
        cumulative: Tsn,
        paths: &mut Paths,
        config: &AssociationConfig,
    ) -> Result<SackOutcome, NeverSent> {
        if cumulative < self.outstanding.cumulative_ack_point() {
            return Ok(SackOutcome::default());
        }
        let gaps = self.outstanding.acknowledged_above(cumulative);
        let report = Report {
            cumulative,
            window: None,
            gaps: gaps.into_iter(),
            duplicates: TsnList::default(),
            packets: 1,
            non_renegable: GapAckBlocks::default(),
        };
        self.acknowledge(now, report, paths, config)
    }

    fn acknowledge(
        &mut self,
        now: Instant,
        report: Report<'_, impl Iterator<Item = GapAckBlock>>,
        paths: &mut Paths,
        config: &AssociationConfig,
    ) -> Result<SackOutcome, NeverSent> {
        let Report {
            cumulative,
            window,
            gaps,
            duplicates,
            non_renegable,
            packets,
        } = report;
        let probed_before = self.probed_path();
        let window_before = self.peer_window;
        self.peer_window = window.unwrap_or(self.peer_window);
        self.sack_since_t3_rtx = true;
        let split = config.cmt && paths.len() > 1;
        let misses = self.miss_rule(paths, config);
        for path in paths.iter_mut() {
            path.begin_sack(self.is_in_recovery(path.id()));
        }
        let earliest = self.earliest_of_each(paths);
        // Losses are told after acknowledgements, so they can share the paths one after another.
        let mut lost = Vec::new();
        let mut reneged = Vec::new();
        let mut arrivals = Arrivals::default();
        let rack = &mut self.rack;
        let summary = self
            .outstanding
            .handle_sack(
                now,
                cumulative,
                gaps,
                misses,
                split.then_some(packets),
                |chunk| {
                    let by_gap = chunk.tsn > cumulative;
                    if let Some(path) = paths.get_mut(chunk.path) {
                        path.chunk_acknowledged(chunk, !by_gap);
                    }
                    arrivals.chunk(now, chunk, by_gap, rack);
                },
                |path, size| lost.push((path, size)),
                |path, size, tsn| reneged.push((path, size, tsn)),
            )
            .map_err(|_| NeverSent)?;
        if summary.overtaken {
            self.peer_window = window_before;
            return Ok(SackOutcome::default());
        }
        let next_tsn = self.outstanding.next_tsn();
        for tsn in duplicates.iter() {
            arrivals.duplicate(tsn, next_tsn, &mut self.rack);
        }
        if !non_renegable.is_empty() {
            self.outstanding
                .free_non_renegable(non_renegable.iter())
                .map_err(|_| NeverSent)?;
        }
        for (id, before) in earliest {
            if self.outstanding.is_acknowledged(before)
                && let Some(path) = paths.get_mut(id)
            {
                path.earliest_acknowledged();
            }
        }
        self.acknowledge_copies(now, duplicates, paths);
        let (coupled_paths, coupled) = paths.iter_mut_coupled(now);
        for path in coupled_paths {
            path.finish_sack(now, coupled, config);
        }
        for (id, size, tsn) in reneged {
            if let Some(path) = paths.get_mut(id) {
                path.chunk_in_flight_again(now, size);
                self.chunk_left(now, tsn, id);
            }
        }
        self.leave_fast_recovery(cumulative);
        if config.recovery.rto_restart {
            self.restart_timers(now, paths);
        }
        if let Some(first_path) = summary.fast_retransmit {
            let exit = self.outstanding.next_tsn().previous();
            let entering: Vec<PathId> = paths
                .iter()
                .map(Path::id)
                .filter(|path| !self.fast_recovery.contains(*path))
                .collect();
            if paths
                .get(first_path)
                .is_some_and(|path| is_thin(path.flight(), path.pmdcs()))
            {
                self.thin_losses.push(first_path);
            }
            for (id, size) in lost {
                let enters = entering.contains(&id);
                if let Some((path, coupled)) = paths.get_mut_coupled(id, now) {
                    path.chunk_lost(now, size, enters, coupled);
                    if path.flight() == 0 && self.forward_tsn.path() != Some(id) {
                        // What it waited for is to be sent again, maybe elsewhere.
                        path.stop_t3_rtx();
                    }
                }
                if enters {
                    self.fast_recovery.enter(id, exit, split);
                    self.fast_retransmit = Some(first_path);
                }
            }
        }
        self.conclude_sack(now, cumulative, &summary, arrivals, paths, config);
        if !self.outstanding.has_lost() {
            self.fast_retransmit = None;
        }
        let forwarded = self
            .forward_tsn
            .path()
            .filter(|_| summary.skipped && !summary.newly_acknowledged);
        self.review_forward_tsn(now, paths);
        let probed = forwarded.or(probed_before).or_else(|| self.probed_path());
        self.update_probe(cumulative, paths);
        Ok(SackOutcome {
            progress: summary.newly_acknowledged || summary.skipped,
            probed: probed.filter(|_| !summary.newly_acknowledged),
            writable: self.take_room_again(config),
        })
    }

    /// The SACK may have acknowledged all that was outstanding when Fast Recovery began.
    fn leave_fast_recovery(&mut self, cumulative: Tsn) {
        self.fast_recovery.advance(cumulative);
        let split: Vec<PathId> = self.fast_recovery.split().collect();
        if !split.is_empty() {
            let earliest = self.outstanding.earliest_on_each(split);
            self.fast_recovery.advance_split(&earliest);
        }
    }

    /// The earliest outstanding chunk of each of several paths that have some in flight. It may be
    /// acknowledged by a Gap Ack Block, while an earlier one is out on another path.
    fn earliest_of_each(&self, paths: &Paths) -> Vec<(PathId, Tsn)> {
        if paths.len() < 2 {
            return Vec::new();
        }
        let busy = paths
            .iter()
            .filter(|path| path.flight() > 0)
            .map(Path::id)
            .collect();
        self.outstanding.earliest_on_each(busy)
    }
}
