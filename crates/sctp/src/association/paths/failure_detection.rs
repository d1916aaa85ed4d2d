//! What errors and answers mean for a path and the peer (RFC 9260 sections 8.1 and 8.2; RFC 7829).

use std::net::IpAddr;

use crate::association::path::Path;
use crate::association::path_id::PathId;
use crate::association::{Association, Context};
use crate::{LostCause, PathChange, PathState};

impl Association {
    /// Counts an error of `path`, and of the peer where `of_peer` says so.
    pub(in crate::association) fn count_error(
        &mut self,
        path: PathId,
        of_peer: bool,
        context: &mut Context<'_>,
    ) {
        self.count_path_error(path, context);
        if of_peer {
            self.error_count += 1;
            if self.error_count > context.config.association_max_retrans {
                self.lost(LostCause::TimedOut, context);
            }
        }
    }

    /// Gives up an unconfirmed address that answers as if there were no association. It may belong to
    /// another host (section 5.4), so its answer says nothing about the peer. Its owner gets no more of
    /// our packets (RFC 5062 section 5.3). `false` when the address is confirmed, or not one of this
    /// association.
    pub(in crate::association) fn abandon_unconfirmed(
        &mut self,
        remote: IpAddr,
        context: &mut Context<'_>,
    ) -> bool {
        let unconfirmed = self.path_to(remote).filter(|path_id| {
            self.paths
                .get(*path_id)
                .is_some_and(|path| path.state() == PathState::Unconfirmed)
        });
        if let Some(path_id) = unconfirmed {
            self.abandon_path(path_id, context);
        }
        unconfirmed.is_some()
    }

    /// Gives up an address where nobody listens, as long as the set-up has others to try, and tries
    /// the next one at once.
    pub(in crate::association) fn abandon_path_in_setup(
        &mut self,
        path_id: PathId,
        context: &mut Context<'_>,
    ) -> bool {
        let has_others = self
            .paths
            .iter()
            .map(Path::id)
            .any(|other| other != path_id && self.is_setup_candidate(other));
        if !self.is_opening() || !has_others {
            return false;
        }
        self.abandon_path(path_id, context);
        if self.routing.current == path_id {
            self.repeat_setup();
            if let Some(setup) = &mut self.setup {
                setup.repeat();
            }
        }
        true
    }

    fn abandon_path(&mut self, path_id: PathId, context: &mut Context<'_>) {
        if let Some(path) = self.paths.get_mut(path_id)
            && path.give_up(context.config)
        {
            self.report_path_change(path_id, PathChange::Unreachable, context);
        }
    }

    fn count_path_error(&mut self, path_id: PathId, context: &mut Context<'_>) {
        let is_up = self.sends_heartbeats();
        let Some(path) = self.paths.get_mut(path_id) else {
            return;
        };
        let crossed = path.count_error(context.config);
        if crossed {
            let change = match path.state() {
                PathState::PotentiallyFailed => PathChange::PotentiallyFailed,
                _ => PathChange::Unreachable,
            };
            // A path that leads nowhere any more does not wait a whole interval to be tried
            // (RFC 7829 section 3.2, rule 6), and one that was given up does.
            if is_up {
                path.reconfigured(context.now, context.rng, context.config);
            }
            self.report_path_change(path_id, change, context);
        }
        self.choose_current();
        self.switch_primary_over(context);
        if crossed {
            let alternate = self.alternate_path(path_id);
            self.sender.redirect_lost(path_id, alternate);
            self.route_retransmissions(context.config);
            if let Some(path) = self.paths.get_mut(path_id)
                && path.flight() == 0
                && alternate != path_id
            {
                // Rule R2 of section 6.3.2: what it waited for goes elsewhere.
                path.stop_t3_rtx();
            }
            self.want_heartbeat_of_failed_path(path_id, context);
        }
    }

    /// A path that has become Potentially Failed gets a HEARTBEAT at once, unless data that goes
    /// there says as much (RFC 7829 section 3.2, rules 5 and 6).
    pub(super) fn want_heartbeat_of_failed_path(&mut self, path_id: PathId, context: &Context<'_>) {
        if self.sends_heartbeats()
            && !self.gets_retransmissions(path_id)
            && let Some(path) = self.paths.get_mut(path_id)
            && path.state() == PathState::PotentiallyFailed
            && path.is_watched(context.config)
        {
            path.want_heartbeat();
        }
    }

    /// Whether data that has to be sent again goes to that path, because there is no better one: it
    /// will tell what a HEARTBEAT would.
    fn gets_retransmissions(&self, path_id: PathId) -> bool {
        !self.sender.is_finished() && self.alternate_path(path_id) == path_id
    }

    /// Whether the path may have failed, and data that goes there will tell.
    pub(super) fn is_probed_by_data(&self, path_id: PathId) -> bool {
        self.paths.get(path_id).is_some_and(|path| {
            path.state() == PathState::PotentiallyFailed
                && (path.flight() > 0 || self.gets_retransmissions(path_id))
        })
    }

    /// Primary Path Switchover (RFC 7829 section 5).
    fn switch_primary_over(&mut self, context: &mut Context<'_>) {
        let Some(primary) = self.paths.get(self.routing.primary) else {
            return;
        };
        let limit = primary.primary_switchover_max_retrans(context.config);
        if limit.is_some_and(|limit| primary.error_count() > limit) {
            self.make_primary(self.routing.current, context);
        }
    }

    /// The peer answered on `path_id`.
    pub(in crate::association) fn clear_path_errors(
        &mut self,
        path_id: PathId,
        context: &mut Context<'_>,
    ) {
        let is_up = self.sends_heartbeats();
        let Some(path) = self.paths.get_mut(path_id) else {
            return;
        };
        let before = path.state();
        if path.clear_errors() {
            if is_up {
                path.reconfigured(context.now, context.rng, context.config);
            }
            if before == PathState::Inactive || context.config.potentially_failed_events {
                self.report_path_change(path_id, PathChange::Available, context);
            }
            self.choose_current();
        }
    }

    /// A HEARTBEAT ACK came that answers ours on `path_id`, whose state was `before`.
    pub(in crate::association) fn heartbeat_answered(
        &mut self,
        path_id: PathId,
        before: PathState,
        context: &mut Context<'_>,
    ) {
        self.error_count = 0;
        self.clear_path_errors(path_id, context);
        if before == PathState::Unconfirmed {
            if self.sends_heartbeats()
                && let Some(path) = self.paths.get_mut(path_id)
            {
                path.reconfigured(context.now, context.rng, context.config);
            }
            self.addresses_changed();
            self.report_path_change(path_id, PathChange::Confirmed, context);
            self.choose_current();
        }
    }
}
