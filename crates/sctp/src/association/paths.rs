//! The paths of an association together (RFC 9260 sections 5.4, 6.4 and 8; RFC 7829): which one data
//! goes to, what an error or an answer on one of them means, and whose turn a HEARTBEAT is.

use std::cmp::Reverse;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::addresses::lists_own;
use super::cookie::Cookie;
use super::outstanding::PathIndex;
use super::path::Path;
use super::{Association, Context};
use crate::packet::{Chunk, Packet, Parameter};
use crate::{
    AssociationState, Event, LostCause, PathAddress, PathChange, PathConfig, PathError, PathState,
};

/// Where an association's packets go.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Routing {
    /// Where new data goes when that path is usable.
    pub(super) primary: PathIndex,
    /// Where new data goes now; during the set-up, INIT and COOKIE ECHO.
    pub(super) current: PathIndex,
    /// Whose turn it is when not all paths may get a HEARTBEAT.
    next_heartbeat: PathIndex,
    probes: ProbeBurst,
}

/// The HEARTBEATs to unconfirmed addresses within one RTO, which HB.Max.Burst limits
/// (section 5.4).
#[derive(Debug, Clone, Copy, Default)]
struct ProbeBurst {
    ends: Option<Instant>,
    count: u32,
}

impl ProbeBurst {
    /// Whether one more may go out `now`; if so, it counts.
    fn take(&mut self, now: Instant, rto: Duration, max: u32) -> bool {
        if self.ends.is_none_or(|ends| ends <= now) {
            *self = ProbeBurst {
                ends: Some(now + rto),
                count: 0,
            };
        }
        let may = self.count < max;
        self.count += u32::from(may);
        may
    }
}

/// How well a path suits for data; the least is best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Suitability {
    Active,
    /// RFC 7829 section 3.2, rule 4: the fewest errors in a row; among equals the one from which
    /// something came last.
    PotentiallyFailed(u32, Reverse<Option<Instant>>),
    /// The dormant state (RFC 7829 section 4.1): the same.
    Inactive(u32, Reverse<Option<Instant>>),
    /// Gets no data (section 5.4).
    Unconfirmed,
}

impl Suitability {
    fn of(path: &Path) -> Suitability {
        match path.state() {
            PathState::Active => Suitability::Active,
            PathState::PotentiallyFailed => {
                Suitability::PotentiallyFailed(path.error_count(), Reverse(path.last_received()))
            }
            PathState::Inactive => {
                Suitability::Inactive(path.error_count(), Reverse(path.last_received()))
            }
            PathState::Unconfirmed => Suitability::Unconfirmed,
        }
    }
}

impl Association {
    // --- User calls (sections 11.1.6, 11.1.9, 11.1.10, 11.1.12) ---

    /// Makes a path the primary one.
    pub(crate) fn set_primary(
        &mut self,
        remote: IpAddr,
        context: &mut Context<'_>,
    ) -> Result<(), PathError> {
        let index = self.path_for_user(remote)?;
        if self
            .paths
            .get(index)
            .is_none_or(|path| path.state() == PathState::Unconfirmed)
        {
            return Err(PathError::NotConfirmed);
        }
        self.make_primary(index, context);
        self.choose_current();
        self.begin_burst();
        Ok(())
    }

    /// Has a HEARTBEAT sent on a path.
    pub(crate) fn request_heartbeat(&mut self, remote: IpAddr) -> Result<(), PathError> {
        let index = self.path_for_user(remote)?;
        if self.sends_heartbeats()
            && let Some(path) = self.paths.get_mut(index)
        {
            path.want_heartbeat();
        }
        Ok(())
    }

    /// Changes what holds for one path.
    pub(crate) fn configure_path(
        &mut self,
        remote: IpAddr,
        config: PathConfig,
        context: &mut Context<'_>,
    ) -> Result<(), PathError> {
        let index = self.path_for_user(remote)?;
        let is_up = self.sends_heartbeats();
        if let Some(path) = self.paths.get_mut(index) {
            path.configure(config, context.config);
            if is_up {
                path.reconfigured(context.now, context.rng, context.config);
            }
        }
        Ok(())
    }

    /// The association's settings have changed.
    pub(crate) fn reconfigured(&mut self, context: &mut Context<'_>) {
        self.receiver.reconfigured(context.config);
        if self.sends_heartbeats() {
            for path in &mut self.paths {
                path.reconfigured(context.now, context.rng, context.config);
            }
        }
        self.begin_burst();
    }

    fn path_for_user(&self, remote: IpAddr) -> Result<PathIndex, PathError> {
        if self.state == AssociationState::Closed {
            return Err(PathError::UnknownAssociation);
        }
        self.path_to(remote).ok_or(PathError::UnknownPath)
    }

    // --- Which path (section 6.4) ---

    /// The path whose remote address this is.
    pub(super) fn path_to(&self, remote: IpAddr) -> Option<PathIndex> {
        self.paths
            .iter()
            .position(|path| path.address().remote == remote)
    }

    /// The path on which the next packet with DATA should go.
    pub(super) fn next_data_path(&mut self) -> PathIndex {
        if let Some(path) = self.sender.next_lost_path() {
            return path;
        }
        match self.sender.next_destination() {
            None => self.routing.current,
            Some(remote) => match self.path_to(remote) {
                None => self.routing.current,
                Some(preferred) => self.usable_path(preferred),
            },
        }
    }

    /// A path for a packet that answers what came on `path`: the same one, unless it may not be
    /// used because it is not confirmed (section 5.4).
    pub(super) fn reply_path(&self, path: PathIndex) -> PathIndex {
        match self.paths.get(path).map(Path::state) {
            None | Some(PathState::Unconfirmed) => self.routing.current,
            Some(_) => path,
        }
    }

    /// The path for what timed out on `path`: another one, if there is one as good (section 6.4
    /// and RFC 7829 section 3.2, rules 3 and 4).
    pub(super) fn alternate_path(&self, path: PathIndex) -> PathIndex {
        self.best_path(|index| index == path)
    }

    /// `preferred` while it is active, else the best one that there is (section 6.4.1).
    fn usable_path(&self, preferred: PathIndex) -> PathIndex {
        let is_active = |path: &Path| path.state() == PathState::Active;
        if self.paths.get(preferred).is_some_and(is_active) {
            return preferred;
        }
        self.best_path(|_| false)
    }

    /// The most suitable path; among equals one that is not to be avoided, the one that is in use,
    /// and then the first one.
    fn best_path(&self, avoid: impl Fn(PathIndex) -> bool) -> PathIndex {
        let current = self.routing.current;
        self.paths
            .iter()
            .enumerate()
            .min_by_key(|(index, path)| {
                let suitability = Suitability::of(path);
                (
                    suitability,
                    avoid(*index),
                    Reverse(*index == current),
                    *index,
                )
            })
            .map_or(0, |(index, _)| index)
    }

    /// Decides anew where new data goes.
    pub(super) fn choose_current(&mut self) {
        let chosen = self.usable_path(self.routing.primary);
        if chosen != self.routing.current {
            self.routing.current = chosen;
            self.begin_burst();
        }
    }

    /// The next confirmed path after the one in use, for the chunks of the set-up.
    pub(super) fn rotate_current(&mut self) {
        let count = self.paths.len();
        let next = (1..=count)
            .map(|offset| (self.routing.current + offset) % count)
            .find(|index| self.is_setup_candidate(*index));
        if let Some(next) = next {
            self.routing.current = next;
        }
    }

    /// Whether the chunks of the set-up go to that address: it is confirmed, and was not given up.
    fn is_setup_candidate(&self, index: PathIndex) -> bool {
        self.paths
            .get(index)
            .is_some_and(|path| path.state() != PathState::Unconfirmed && !path.is_abandoned())
    }

    /// The peer has answered the set-up on `answered`. That path becomes the primary one where the
    /// address that the user prefers did not answer.
    pub(super) fn choose_primary_by_answer(&mut self, answered: PathIndex) {
        let is_repeated = self.setup.as_ref().is_some_and(|setup| setup.is_repeated());
        if is_repeated && self.is_setup_candidate(answered) {
            self.routing.primary = answered;
        }
    }

    fn make_primary(&mut self, index: PathIndex, context: &mut Context<'_>) {
        if self.routing.primary != index {
            self.routing.primary = index;
            self.report_path_change(index, PathChange::MadePrimary, context);
        }
    }

    // --- Addresses (section 5.1.2) ---

    /// Takes in addresses that the peer says are its own: they are to be verified. They are reached
    /// as `like` is.
    pub(super) fn add_paths(
        &mut self,
        addresses: &[IpAddr],
        like: PathAddress,
        context: &mut Context<'_>,
    ) {
        for remote in addresses {
            if self.path_to(*remote).is_some() {
                continue;
            }
            if self.paths.len() >= context.config.max_peer_addresses {
                context.statistics.drops.addresses += 1;
                continue;
            }
            // The peer knows no other address of ours when it was told none.
            let local =
                only_address(like, context).filter(|local| local.is_ipv4() == remote.is_ipv4());
            let address = PathAddress {
                local,
                remote: *remote,
                encapsulation_port: like.encapsulation_port,
            };
            self.paths
                .push(Path::new(address, PathState::Unconfirmed, context.config));
            self.addresses_changed();
        }
    }

    /// Takes up what the INIT ACK from `source` says of the peer's addresses: these and `source`
    /// are all there are from now on (section 5.1.2).
    pub(super) fn learn_addresses(
        &mut self,
        source: PathAddress,
        listed: &[IpAddr],
        context: &mut Context<'_>,
    ) {
        let primary = self.peer_address().map(|address| address.remote);
        self.paths.retain(|path| {
            let remote = path.address().remote;
            remote == source.remote || listed.contains(&remote)
        });
        self.add_paths(listed, source, context);
        self.addresses_changed();
        let answered = self.path_to(source.remote).unwrap_or(0);
        self.routing.primary = primary
            .and_then(|remote| self.path_to(remote))
            .unwrap_or(answered);
        self.choose_primary_by_answer(answered);
        // Section 6.4: an answer goes where the question came from.
        self.routing.current = self.routing.primary;
        self.routing.current = self.reply_path(answered);
    }

    /// The peer opened the association, too: what its INIT said of its addresses counts as well
    /// (section 5.2.1).
    pub(super) fn combine_paths(&mut self, cookie: &Cookie, context: &mut Context<'_>) {
        let like = PathAddress {
            local: None,
            remote: cookie.source.remote,
            encapsulation_port: cookie.source.encapsulation_port,
        };
        if self.state == AssociationState::CookieWait {
            // Nothing but our user has told addresses of the peer before.
            let source = self.address_of(like.remote).unwrap_or(like);
            self.learn_addresses(source, &cookie.other_addresses, context);
        } else {
            let addresses: Vec<IpAddr> = cookie.addresses().collect();
            self.add_paths(&addresses, like, context);
        }
    }

    /// The peer has restarted with these addresses, of which the one that the INIT ACK went to is
    /// proved (sections 5.2.4 and 5.4). What the user has set for a path stays.
    pub(super) fn restart_paths(&mut self, cookie: &Cookie, context: &mut Context<'_>) {
        for index in 0..self.paths.len() {
            let stays = self.paths.get(index).is_some_and(|path| {
                let remote = path.address().remote;
                cookie.addresses().any(|address| address == remote)
            });
            if !stays {
                self.report_path_change(index, PathChange::Removed, context);
            }
        }
        let before = std::mem::take(&mut self.paths);
        let path_to = |remote| before.iter().find(|path| path.address().remote == remote);
        self.paths = cookie
            .addresses()
            .filter_map(|remote| {
                let state = if remote == cookie.source.remote {
                    PathState::Active
                } else {
                    PathState::Unconfirmed
                };
                Some(path_to(remote)?.restarted(state, context.config))
            })
            .collect();
        self.routing = Routing::default();
        self.addresses_changed();
    }

    /// The path for an INIT ACK that comes from an address that we do not know yet, but names one
    /// that we do (section 5.1.2 C and D).
    pub(super) fn add_source_of_init_ack(
        &mut self,
        from: PathAddress,
        parsed: &Packet<'_>,
        context: &mut Context<'_>,
    ) -> Option<PathIndex> {
        if self.state != AssociationState::CookieWait {
            return None;
        }
        let Some(Ok(Chunk::InitAck(init))) = parsed.chunks().next() else {
            return None;
        };
        let is_ours = init.parameters.iter().any(|parameter| match parameter {
            Ok(Parameter::Ipv4Address(address)) => self.path_to(address.into()).is_some(),
            Ok(Parameter::Ipv6Address(address)) => self.path_to(address.into()).is_some(),
            _ => false,
        });
        if is_ours {
            self.add_paths(&[from.remote], from, context);
        }
        self.path_to(from.remote)
    }

    /// The endpoint is to find this association by other addresses.
    pub(super) fn addresses_changed(&mut self) {
        self.paths_version = self.paths_version.wrapping_add(1);
    }

    /// Learns the encapsulation port from a packet (RFC 6951 section 5.4), and our own address when the
    /// peer knows no other one.
    pub(super) fn learn_path(
        &mut self,
        index: PathIndex,
        from: PathAddress,
        context: &Context<'_>,
    ) {
        if let Some(path) = self.paths.get_mut(index) {
            let known = path.address();
            if known == from {
                return;
            }
            let only_address = only_address(from, context);
            let learnt = PathAddress {
                local: known.local.or(only_address),
                ..from
            };
            if learnt != known {
                path.learn(learnt, context.config);
                self.addresses_changed();
            }
        }
    }

    // --- Errors and answers (sections 8.1 and 8.2) ---

    /// Counts an error of `path`, and of the peer where `of_peer` says so.
    pub(super) fn count_error(
        &mut self,
        path: PathIndex,
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
    pub(super) fn abandon_unconfirmed(
        &mut self,
        remote: IpAddr,
        context: &mut Context<'_>,
    ) -> bool {
        let unconfirmed = self.path_to(remote).filter(|index| {
            self.paths
                .get(*index)
                .is_some_and(|path| path.state() == PathState::Unconfirmed)
        });
        if let Some(index) = unconfirmed {
            self.abandon_path(index, context);
        }
        unconfirmed.is_some()
    }

    /// Gives up an address where nobody listens, as long as the set-up has others to try, and tries
    /// the next one at once.
    pub(super) fn abandon_path_in_setup(
        &mut self,
        index: PathIndex,
        context: &mut Context<'_>,
    ) -> bool {
        let has_others =
            (0..self.paths.len()).any(|other| other != index && self.is_setup_candidate(other));
        if !self.is_opening() || !has_others {
            return false;
        }
        self.abandon_path(index, context);
        if self.routing.current == index {
            self.repeat_setup();
            if let Some(setup) = &mut self.setup {
                setup.repeat();
            }
        }
        true
    }

    fn abandon_path(&mut self, index: PathIndex, context: &mut Context<'_>) {
        if let Some(path) = self.paths.get_mut(index)
            && path.give_up(context.config)
        {
            self.report_path_change(index, PathChange::Unreachable, context);
        }
    }

    fn count_path_error(&mut self, index: PathIndex, context: &mut Context<'_>) {
        let is_up = self.sends_heartbeats();
        let Some(path) = self.paths.get_mut(index) else {
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
            self.report_path_change(index, change, context);
        }
        self.choose_current();
        self.switch_primary_over(context);
        if crossed {
            let alternate = self.alternate_path(index);
            self.sender.redirect_lost(index, alternate);
            if let Some(path) = self.paths.get_mut(index)
                && path.flight() == 0
                && alternate != index
            {
                // Rule R2 of section 6.3.2: what it waited for goes elsewhere.
                path.stop_t3_rtx();
            }
            self.want_heartbeat_of_failed_path(index, context);
        }
    }

    /// A path that has become Potentially Failed gets a HEARTBEAT at once, unless data that goes
    /// there says as much (RFC 7829 section 3.2, rules 5 and 6).
    fn want_heartbeat_of_failed_path(&mut self, index: PathIndex, context: &Context<'_>) {
        if self.sends_heartbeats()
            && !self.gets_retransmissions(index)
            && let Some(path) = self.paths.get_mut(index)
            && path.state() == PathState::PotentiallyFailed
            && path.is_watched(context.config)
        {
            path.want_heartbeat();
        }
    }

    /// Whether data that has to be sent again goes to that path, because there is no better one: it
    /// will tell what a HEARTBEAT would.
    fn gets_retransmissions(&self, index: PathIndex) -> bool {
        !self.sender.is_finished() && self.alternate_path(index) == index
    }

    /// Whether the path may have failed, and data that goes there will tell.
    fn is_probed_by_data(&self, index: PathIndex) -> bool {
        self.paths.get(index).is_some_and(|path| {
            path.state() == PathState::PotentiallyFailed
                && (path.flight() > 0 || self.gets_retransmissions(index))
        })
    }

    /// Primary Path Switchover (RFC 7829 section 5).
    fn switch_primary_over(&mut self, context: &mut Context<'_>) {
        let Some(limit) = context.config.primary_switchover_max_retrans else {
            return;
        };
        let errors = self
            .paths
            .get(self.routing.primary)
            .map_or(0, Path::error_count);
        if errors > limit {
            self.make_primary(self.routing.current, context);
        }
    }

    /// The peer answered on `index`.
    pub(super) fn clear_path_errors(&mut self, index: PathIndex, context: &mut Context<'_>) {
        let is_up = self.sends_heartbeats();
        let Some(path) = self.paths.get_mut(index) else {
            return;
        };
        let before = path.state();
        if path.clear_errors() {
            if is_up {
                path.reconfigured(context.now, context.rng, context.config);
            }
            if before == PathState::Inactive || context.config.potentially_failed_events {
                self.report_path_change(index, PathChange::Available, context);
            }
            self.choose_current();
        }
    }

    /// A HEARTBEAT ACK came that answers ours on `index`, whose state was `before`.
    pub(super) fn heartbeat_answered(
        &mut self,
        index: PathIndex,
        before: PathState,
        context: &mut Context<'_>,
    ) {
        self.error_count = 0;
        self.clear_path_errors(index, context);
        if before == PathState::Unconfirmed {
            if self.sends_heartbeats()
                && let Some(path) = self.paths.get_mut(index)
            {
                path.reconfigured(context.now, context.rng, context.config);
            }
            self.addresses_changed();
            self.report_path_change(index, PathChange::Confirmed, context);
            self.choose_current();
        }
    }

    pub(super) fn report_path_change(
        &mut self,
        index: PathIndex,
        change: PathChange,
        context: &mut Context<'_>,
    ) {
        if change == PathChange::PotentiallyFailed && !context.config.potentially_failed_events {
            return;
        }
        if let Some(path) = self.paths.get(index) {
            context.events.push_back(Event::PathStateChanged {
                id: self.id,
                path: path.address(),
                change,
                state: path.state(),
            });
        }
    }

    // --- Timers ---

    /// T3-rtx and HEARTBEATs of all paths.
    pub(super) fn handle_path_timeouts(&mut self, context: &mut Context<'_>) {
        for index in 0..self.paths.len() {
            self.handle_t3_rtx(index, context);
            if self.state == AssociationState::Closed {
                return;
            }
            self.handle_unanswered_heartbeat(index, context);
            if self.state == AssociationState::Closed {
                return;
            }
            if let Some(path) = self.paths.get_mut(index)
                && path.mtu_timeout().is_some_and(|time| time <= context.now)
            {
                path.handle_mtu_timeout(context.now, context.config);
            }
        }
        self.send_due_heartbeats(context);
    }

    /// Section 6.3.3.
    fn handle_t3_rtx(&mut self, index: PathIndex, context: &mut Context<'_>) {
        let has_expired =
            |path: &&Path| path.t3_rtx().is_some_and(|expires| expires <= context.now);
        let Some(waited) = self.paths.get(index).filter(has_expired).map(Path::rto) else {
            return;
        };
        let mine = &mut self.statistics;
        mine.t3_expiries += 1;
        mine.t3_waited = mine.t3_waited.saturating_add(waited);
        let all = &mut context.statistics;
        all.t3_expiries += 1;
        all.t3_waited = all.t3_waited.saturating_add(waited);
        if self.sender.t3_rtx_is_error() {
            self.count_error(index, true, context);
        }
        if self.state == AssociationState::Closed {
            return;
        }
        let next = self.alternate_path(index);
        self.sender
            .handle_t3_rtx(index, next, &mut self.paths, context.config);
        self.begin_burst();
    }

    fn handle_unanswered_heartbeat(&mut self, index: PathIndex, context: &mut Context<'_>) {
        let is_unanswered = self
            .paths
            .get_mut(index)
            .is_some_and(|path| path.take_unanswered_heartbeat(context.now, context.config));
        if !is_unanswered {
            return;
        }
        // Section 8.1: the peer's own count, only for the path that carries data.
        let of_peer = index == self.routing.current;
        self.count_error(index, of_peer, context);
        self.want_heartbeat_of_failed_path(index, context);
    }

    /// HEARTBEATs to paths that have been idle, and to those that are to be verified: as many as
    /// HB.Max.Burst lets go out at one time, the paths taking turns.
    pub(super) fn send_due_heartbeats(&mut self, context: &mut Context<'_>) {
        let now = context.now;
        let count = self.paths.len();
        let max = context.config.hb_max_burst;
        let mut sent = 0;
        let begin = self.routing.next_heartbeat;
        for offset in 0..count {
            let index = (begin + offset) % count;
            let is_setup_candidate = self.is_probed_by_data(index);
            let Some(path) = self.paths.get_mut(index) else {
                continue;
            };
            if !path.heartbeat_is_due(now, context.rng, context.config) {
                continue;
            }
            let may_send = sent < max
                && !is_setup_candidate
                && (!path.is_probed(context.config)
                    || self.routing.probes.take(now, path.rto(), max));
            if may_send {
                path.want_heartbeat();
                sent += 1;
                self.routing.next_heartbeat = (index + 1) % count;
            } else {
                path.put_heartbeat_off(now);
            }
        }
    }

    /// Begins to watch all paths, and to verify those that are not confirmed.
    pub(super) fn start_heartbeats(&mut self, context: &mut Context<'_>) {
        for path in &mut self.paths {
            path.start_heartbeats(context.now, context.rng, context.config);
        }
        self.send_due_heartbeats(context);
    }

    pub(super) fn stop_heartbeats(&mut self) {
        for path in &mut self.paths {
            path.stop_heartbeats();
        }
    }

    /// Whether HEARTBEATs are sent in this state (section 8.3).
    fn sends_heartbeats(&self) -> bool {
        matches!(
            self.state,
            AssociationState::Established | AssociationState::ShutdownPending
        )
    }
}

/// Our address of a packet, if it is the only one that the peer knows. When it knows several, where it
/// sends to says nothing of the way back: it may send to one of our addresses over the network of another.
pub(super) fn only_address(from: PathAddress, context: &Context<'_>) -> Option<IpAddr> {
    from.local
        .filter(|_| !lists_own(context.local_addresses, from.remote))
}
