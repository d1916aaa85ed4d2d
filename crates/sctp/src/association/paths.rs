//! The paths of an association together (RFC 9260 sections 5.4, 6.4 and 8; RFC 7829): which one data
//! goes to, what an error or an answer on one of them means, and whose turn a HEARTBEAT is.

mod failure_detection;
mod peer_addresses;
mod sources;
mod timers;

use std::cmp::Reverse;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::path::Path;
use super::path_id::PathId;
use super::{Association, Context};
use crate::{
    AssociationConfig, AssociationState, Event, LossDetection, PathChange, PathConfig, PathError,
    PathState,
};

/// Where an association's packets go.
#[derive(Debug, Clone, Copy)]
pub(super) struct Routing {
    /// Where new data goes when that path is usable.
    pub(super) primary: PathId,
    /// Where new data goes now; during the set-up, INIT and COOKIE ECHO.
    pub(super) current: PathId,
    /// The path that got a HEARTBEAT last: when not all may get one, they take turns.
    last_heartbeat: Option<PathId>,
    probes: ProbeBurst,
}

impl Routing {
    /// Everything goes to the first path.
    pub(super) fn new() -> Routing {
        Routing {
            primary: PathId::FIRST,
            current: PathId::FIRST,
            last_heartbeat: None,
            probes: ProbeBurst::default(),
        }
    }
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
    /// None of our addresses may be the source (RFC 5061 section 5.3).
    NoSource,
}

impl Suitability {
    fn of(path: &Path) -> Suitability {
        if !path.has_source() {
            return Suitability::NoSource;
        }
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
        let path_id = self.path_for_user(remote)?;
        if self
            .paths
            .get(path_id)
            .is_none_or(|path| path.state() == PathState::Unconfirmed)
        {
            return Err(PathError::NotConfirmed);
        }
        self.make_primary(path_id, context);
        self.choose_current();
        self.begin_burst();
        Ok(())
    }

    /// Has a HEARTBEAT sent on a path.
    pub(crate) fn request_heartbeat(&mut self, remote: IpAddr) -> Result<(), PathError> {
        let path_id = self.path_for_user(remote)?;
        if self.sends_heartbeats()
            && let Some(path) = self.paths.get_mut(path_id)
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
        let path_id = self.path_for_user(remote)?;
        let is_up = self.sends_heartbeats();
        if let Some(path) = self.paths.get_mut(path_id) {
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
            for path in self.paths.iter_mut() {
                path.reconfigured(context.now, context.rng, context.config);
            }
        }
        self.begin_burst();
    }

    fn path_for_user(&self, remote: IpAddr) -> Result<PathId, PathError> {
        if self.state == AssociationState::Closed {
            return Err(PathError::UnknownAssociation);
        }
        self.path_to(remote).ok_or(PathError::UnknownPath)
    }

    // --- Which path (section 6.4) ---

    /// The path whose remote address this is.
    pub(super) fn path_to(&self, remote: IpAddr) -> Option<PathId> {
        self.paths
            .iter()
            .find(|path| path.address().remote == remote)
            .map(Path::id)
    }

    /// The path on which the next packet with DATA should go.
    ///
    /// Retransmissions come first (section 6.1 C). With RACK-TLP new data does not wait for the window of another path;
    /// without it two paths that fail together would back off side by side, and neither be tried when the other one waits.
    pub(super) fn next_data_path(&mut self, config: &AssociationConfig) -> PathId {
        let new_data = match self.sender.next_destination() {
            None => self.routing.current,
            Some(remote) => match self.path_to(remote) {
                None => self.routing.current,
                Some(preferred) => self.usable_path(preferred),
            },
        };
        let waits = config.recovery.loss_detection == LossDetection::GapReports;
        match self.sender.next_lost_path(&self.paths) {
            Some(path)
                if waits
                    || path == new_data
                    || self.sender.may_retransmit_on(path, &self.paths, config) =>
            {
                path
            }
            _ => new_data,
        }
    }

    /// What was lost while little was in flight goes again on another path, if there is one as good, where
    /// that is asked for: a second loss on the first one would have no SACK to tell of it.
    pub(super) fn move_thin_retransmissions(&mut self, config: &AssociationConfig) {
        while let Some(path) = self.sender.take_thin_loss() {
            let alternate = self.alternate_path(path);
            if config.recovery.thin_alternate_path && alternate != path {
                self.sender.redirect_lost(path, alternate);
            }
        }
    }

    /// A path for a packet that answers what came on `path`: the same one, unless it may not be
    /// used because it is not confirmed (section 5.4).
    pub(super) fn reply_path(&self, path: PathId) -> PathId {
        match self.paths.get(path).map(Path::state) {
            None | Some(PathState::Unconfirmed) => self.routing.current,
            Some(_) => path,
        }
    }

    /// Whether anything but HEARTBEATs and answers to what came from there may go on a path: its address
    /// is confirmed (section 5.4), and one of ours may be the source.
    pub(super) fn is_open(&self, path: PathId) -> bool {
        self.paths
            .get(path)
            .is_some_and(|path| path.state() != PathState::Unconfirmed && path.has_source())
    }

    /// Whether an ASCONF may go on a path: it has sources of its own (RFC 5061 section 5.3, rule F1).
    pub(super) fn carries_asconf(&self, path: PathId) -> bool {
        self.paths.get(path).is_some_and(|path| {
            path.state() != PathState::Unconfirmed && path.asconf_address().is_some()
        })
    }

    /// The path for a SACK: where the last DATA came from (section 6.4).
    pub(super) fn sack_path(&self) -> PathId {
        self.receiver
            .data_path()
            .map_or(self.routing.current, |path| self.reply_path(path))
    }

    /// The path for what timed out on `path`: another one, if there is one as good (section 6.4
    /// and RFC 7829 section 3.2, rules 3 and 4).
    pub(super) fn alternate_path(&self, path: PathId) -> PathId {
        self.best_path(|path_id| path_id == path)
    }

    /// `preferred` while it is active, else the best one that there is (section 6.4.1).
    fn usable_path(&self, preferred: PathId) -> PathId {
        let is_active = |path: &Path| path.state() == PathState::Active && path.has_source();
        if self.paths.get(preferred).is_some_and(is_active) {
            return preferred;
        }
        self.best_path(|_| false)
    }

    /// The most suitable path; among equals one that is not to be avoided, the one that is in use,
    /// and then the first one.
    fn best_path(&self, avoid: impl Fn(PathId) -> bool) -> PathId {
        let current = self.routing.current;
        self.paths
            .iter()
            .min_by_key(|path| {
                let id = path.id();
                let suitability = Suitability::of(path);
                (suitability, avoid(id), Reverse(id == current), id)
            })
            .map_or(current, Path::id)
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
        let mut next = self.routing.current;
        for _ in 0..self.paths.len() {
            next = self.paths.next_in_turn(Some(next)).unwrap_or(next);
            if self.is_setup_candidate(next) {
                self.routing.current = next;
                return;
            }
        }
    }

    /// Whether the chunks of the set-up go to that address: it is confirmed, and was not given up.
    fn is_setup_candidate(&self, path_id: PathId) -> bool {
        self.paths
            .get(path_id)
            .is_some_and(|path| path.state() != PathState::Unconfirmed && !path.is_abandoned())
    }

    /// The peer has answered the set-up on `answered`. That path becomes the primary one where the
    /// address that the user prefers did not answer.
    pub(super) fn choose_primary_by_answer(&mut self, answered: PathId) {
        let is_repeated = self.setup.as_ref().is_some_and(|setup| setup.is_repeated());
        if is_repeated && self.is_setup_candidate(answered) {
            self.routing.primary = answered;
        }
    }

    pub(super) fn make_primary(&mut self, path_id: PathId, context: &mut Context<'_>) {
        if self.routing.primary != path_id {
            self.routing.primary = path_id;
            self.report_path_change(path_id, PathChange::MadePrimary, context);
        }
    }

    // --- Errors and answers (sections 8.1 and 8.2) ---

    pub(super) fn report_path_change(
        &mut self,
        path_id: PathId,
        change: PathChange,
        context: &mut Context<'_>,
    ) {
        if change == PathChange::PotentiallyFailed && !context.config.potentially_failed_events {
            return;
        }
        if let Some(path) = self.paths.get(path_id) {
            context.events.push_back(Event::PathStateChanged {
                id: self.id,
                path: path.address(),
                change,
                state: path.state(),
            });
        }
    }

    // --- Timers ---

    /// Whether HEARTBEATs are sent in this state (section 8.3).
    pub(super) fn sends_heartbeats(&self) -> bool {
        matches!(
            self.state,
            AssociationState::Established | AssociationState::ShutdownPending
        )
    }
}
