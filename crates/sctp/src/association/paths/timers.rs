//! T3-rtx and the HEARTBEATs of all paths (RFC 9260 sections 6.3.3 and 8.3).

use crate::AssociationState;
use crate::association::path::Path;
use crate::association::path_id::PathId;
use crate::association::{Association, Context};

impl Association {
    /// T3-rtx and HEARTBEATs of all paths.
    pub(in crate::association) fn handle_path_timeouts(&mut self, context: &mut Context<'_>) {
        let mut last = None;
        while let Some(path_id) = self.paths.next_after(last) {
            last = Some(path_id);
            self.handle_t3_rtx(path_id, context);
            if self.state == AssociationState::Closed {
                return;
            }
            self.handle_unanswered_heartbeat(path_id, context);
            if self.state == AssociationState::Closed {
                return;
            }
            if let Some(path) = self.paths.get_mut(path_id)
                && path.mtu_timeout().is_some_and(|time| time <= context.now)
            {
                path.handle_mtu_timeout(context.now, context.config);
            }
        }
        self.send_due_heartbeats(context);
    }

    /// Section 6.3.3.
    fn handle_t3_rtx(&mut self, path_id: PathId, context: &mut Context<'_>) {
        let has_expired =
            |path: &&Path| path.t3_rtx().is_some_and(|expires| expires <= context.now);
        let Some(waited) = self.paths.get(path_id).filter(has_expired).map(Path::rto) else {
            return;
        };
        let mine = &mut self.statistics;
        mine.t3_expiries += 1;
        mine.t3_waited = mine.t3_waited.saturating_add(waited);
        let all = &mut context.statistics;
        all.t3_expiries += 1;
        all.t3_waited = all.t3_waited.saturating_add(waited);
        if self.sender.t3_rtx_is_error() {
            self.count_error(path_id, true, context);
        }
        if self.state == AssociationState::Closed {
            return;
        }
        let next = self.alternate_path(path_id);
        self.sender
            .handle_t3_rtx(context.now, path_id, next, &mut self.paths, context.config);
        self.route_retransmissions(context.config);
        self.begin_burst();
    }

    fn handle_unanswered_heartbeat(&mut self, path_id: PathId, context: &mut Context<'_>) {
        let is_unanswered = self
            .paths
            .get_mut(path_id)
            .is_some_and(|path| path.take_unanswered_heartbeat(context.now, context.config));
        if !is_unanswered {
            return;
        }
        // Section 8.1: the peer's own count, only for the path that carries data.
        let of_peer = path_id == self.routing.current;
        self.count_error(path_id, of_peer, context);
        self.want_heartbeat_of_failed_path(path_id, context);
    }

    /// HEARTBEATs to paths that have been idle, and to those that are to be verified: as many as
    /// HB.Max.Burst lets go out at one time, the paths taking turns.
    pub(in crate::association) fn send_due_heartbeats(&mut self, context: &mut Context<'_>) {
        let now = context.now;
        let max = context.config.hb_max_burst;
        let mut sent = 0;
        let mut previous = self.routing.last_heartbeat;
        for _ in 0..self.paths.len() {
            previous = self.paths.next_in_turn(previous);
            let Some(path_id) = previous else {
                return;
            };
            let is_probed_by_data = self.is_probed_by_data(path_id);
            let Some(path) = self.paths.get_mut(path_id) else {
                continue;
            };
            if !path.heartbeat_is_due(now, context.rng, context.config) {
                continue;
            }
            let may_send = sent < max
                && !is_probed_by_data
                && (!path.is_probed(context.config)
                    || self.routing.probes.take(now, path.rto(), max));
            if may_send {
                path.want_heartbeat();
                sent += 1;
                self.routing.last_heartbeat = Some(path_id);
            } else {
                path.put_heartbeat_off(now);
            }
        }
    }

    /// Begins to watch all paths, and to verify those that are not confirmed.
    pub(in crate::association) fn start_heartbeats(&mut self, context: &mut Context<'_>) {
        for path in self.paths.iter_mut() {
            path.start_heartbeats(context.now, context.rng, context.config);
        }
        self.send_due_heartbeats(context);
    }

    pub(in crate::association) fn stop_heartbeats(&mut self) {
        for path in self.paths.iter_mut() {
            path.stop_heartbeats();
        }
    }
}
