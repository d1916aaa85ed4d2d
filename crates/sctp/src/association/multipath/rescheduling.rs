//! Chunk rescheduling (Adhari 2011; opportunistic retransmission and penalisation in MPTCP, Raiciu 2012): when the
//! window lets nothing new leave because of the earliest chunk, which is still under way on another path, that chunk goes
//! out again on a path that has nothing else to do, and the window of the path that held everything up is reduced.

use std::time::Instant;

use super::scheduler::fastest_with_room;
use crate::AssociationConfig;
use crate::association::Association;
use crate::association::path_id::PathId;

impl Association {
    /// Marks chunks to be sent again on the path that is returned, if everything waits for them, and they would be
    /// acknowledged sooner there: than they may be where they are, which is tried once, or, where they are overdue, than
    /// they would be if their loss was left to be detected.
    pub(super) fn reschedule(
        &mut self,
        now: Instant,
        config: &AssociationConfig,
    ) -> Option<PathId> {
        let multipath = self.multipath.as_deref_mut()?;
        let from = self.sender.blocking_path()?;
        let to = *fastest_with_room(
            multipath
                .candidates
                .iter()
                .filter(|candidate| candidate.id != from),
        )?;
        let path = self.paths.get(from)?;
        let rtt = path.round_trip();
        // To wait longer for what comes late on a slower path costs as much as to be too early.
        let overdue = path.overdue() + to.rtt.saturating_sub(rtt);
        let detected = [path.t3_rtx(), self.sender.loss_timeout()];
        let repaired = detected.into_iter().flatten().min().map(|at| at + rtt);
        let arrives = now + to.rtt;
        let mut wake = None;
        let mut earliest = None;
        let is_late = |sent: Instant, moved: bool| {
            earliest.get_or_insert(sent);
            let is_overdue = now >= sent + overdue;
            let is_late = (!moved && arrives < sent + rtt)
                || (is_overdue && repaired.is_none_or(|repaired| arrives < repaired));
            if !is_overdue && wake.is_none() {
                wake = Some(sent + overdue);
            }
            is_late
        };
        // Without bundling a packet holds one chunk.
        let room = if config.bundling { to.packet } else { 0 };
        let any = self
            .sender
            .reschedule(now, [from, to.id], room, &mut self.paths, is_late);
        multipath.wake = wake;
        let sent = earliest.filter(|_| any)?;
        let (path, coupled) = self.paths.get_mut_coupled(from, now)?;
        path.penalise(now, sent, now >= sent + overdue, coupled);
        Some(to.id)
    }
}
