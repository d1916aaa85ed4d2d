//! Chunk rescheduling (Adhari 2011; opportunistic retransmission and penalisation in MPTCP, Raiciu 2012): when the
//! window lets nothing new leave because of the earliest chunk, which is still under way on another path, that chunk goes
//! out again on a path that has nothing else to do, and the window of the path that held everything up is reduced.

use std::time::Instant;

use super::scheduler::fastest_with_room;
use crate::AssociationConfig;
use crate::association::Association;
use crate::association::path_id::PathId;

impl Association {
    /// Marks chunks to be sent again on the path that is returned, if everything waits for them: because they would be
    /// acknowledged sooner there, which is tried once, or because they are overdue where they are.
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
        let [rtt, overdue] = [path.round_trip(), path.overdue()];
        let mut wake = None;
        let is_late = |sent: Instant, moved: bool| {
            let is_late = (!moved && now + to.rtt() < sent + rtt) || now >= sent + overdue;
            if !is_late && wake.is_none() {
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
        if !any {
            return None;
        }
        let (path, coupled) = self.paths.get_mut_coupled(from, now)?;
        path.penalise(now, coupled);
        Some(to.id)
    }
}
