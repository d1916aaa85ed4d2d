//! What an SGP does for its ASPs: their states, the states of application servers, and Notify (section 4.3).

use std::collections::BTreeMap;
use std::time::Instant;

use super::SignallingProcess;
use super::config::{AsId, PeerId, PeerRole, Via};
use super::output::{AsState, AspState, ManagementIndication};
use super::statistics::DropReason;
use super::timers::Timer;
use crate::message::{
    AspActive, AspDown, AspInactive, AspUp, ErrorCode, ErrorMessage, Message, Notify, Status,
    TrafficMode,
};

/// What has changed while an input was handled. It is told when the acknowledgements are on their way (section 4.3.4.5).
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Application servers whose ASPs have changed, and the state that they had.
    touched: BTreeMap<AsId, AsState>,
    /// ASPs that have come up in an AS, and are to know its state.
    newcomers: Vec<(PeerId, AsId)>,
    /// ASPs that were overridden, and the ASP Identifier of the other one.
    alternates: Vec<(PeerId, AsId, Option<u32>)>,
    /// ASPs that have failed, and their ASP Identifiers.
    failures: Vec<(PeerId, AsId, Option<u32>)>,
}

/// Errors about a message that has many faults; the rest share one.
const MAX_ERRORS: usize = 16;

/// Notifies, collected so that an ASP is told about several application servers at once.
type Notices = BTreeMap<(PeerId, u32, Option<u32>), Vec<AsId>>;

impl SignallingProcess {
    /// Locks a peer out, or lets it in again (section 4.7: an SGP that is cut off from its network does so with all).
    pub fn set_blocked(&mut self, now: Instant, peer: PeerId, is_blocked: bool) {
        let Some(state) = self.peers.get_mut(peer.0) else {
            return;
        };
        state.is_blocked = is_blocked;
        if is_blocked && state.is_up {
            self.send(peer, 0, &Message::AspDownAck(AspDown::default()));
            self.peer_is_down(now, peer);
        }
        self.announce();
    }

    /// Takes an application server out of service, or lets it in again (section 4.7: an SGP that is cut off from a part of its
    /// network).
    pub fn set_application_server_blocked(
        &mut self,
        now: Instant,
        application_server: AsId,
        is_blocked: bool,
    ) {
        let Some(server) = self.server_mut(application_server) else {
            return;
        };
        server.is_blocked = is_blocked;
        let active = match is_blocked {
            true => server.active().to_vec(),
            false => Vec::new(),
        };
        for peer in active {
            let ack = AspInactive {
                routing_contexts: self.contexts_of(peer, &[application_server]),
                info: None,
            };
            self.send(peer, 0, &Message::AspInactiveAck(ack));
            self.set_asp_state(now, peer, application_server, AspState::Inactive);
        }
        self.announce();
    }

    pub(super) fn on_asp_up(
        &mut self,
        now: Instant,
        peer: PeerId,
        up: AspUp,
    ) -> Result<(), ErrorMessage> {
        self.check_asp_up(peer, up.asp_identifier)?;
        let Some(state) = self.peers.get_mut(peer.0) else {
            return Ok(());
        };
        if up.asp_identifier.is_some() {
            state.asp_identifier = up.asp_identifier;
        }
        let was_up = std::mem::replace(&mut state.is_up, true);
        let own = state
            .config
            .asp_identifier
            .filter(|_| state.config.role != PeerRole::Asp);
        let ack = AspUp {
            asp_identifier: own,
            info: None,
        };
        let members: Vec<AsId> = state.members.keys().copied().collect();
        self.send(peer, 0, &Message::AspUpAck(ack));
        let is_active = |it: &AsId| {
            self.server(*it)
                .is_some_and(|it| it.asp_state(peer) == AspState::Active)
        };
        let was_active = was_up && members.iter().any(is_active);
        if was_active {
            self.deregister_all(now, peer);
        }
        for server in members {
            self.set_asp_state(now, peer, server, AspState::Inactive);
        }
        if was_active && self.has_single_exchange(peer) {
            self.we_are_inactive(now, peer);
        }
        if !was_up {
            self.manage(ManagementIndication::Asp {
                peer,
                application_server: None,
                state: AspState::Inactive,
            });
            self.follow_up(now, peer);
        }
        match was_active {
            true => Err(ErrorMessage::new(ErrorCode::UNEXPECTED_MESSAGE)),
            false => Ok(()),
        }
    }

    pub(super) fn on_asp_down(&mut self, now: Instant, peer: PeerId) {
        self.send(peer, 0, &Message::AspDownAck(AspDown::default()));
        self.peer_is_down(now, peer);
        self.follow_down(now, peer);
    }

    pub(super) fn on_asp_active(
        &mut self,
        now: Instant,
        peer: PeerId,
        active: AspActive,
    ) -> Result<(), ErrorMessage> {
        let about_contexts = |code| ErrorMessage {
            routing_contexts: active.routing_contexts.clone(),
            ..ErrorMessage::new(code)
        };
        let Some(state) = self.peers.get(peer.0) else {
            return Ok(());
        };
        if !state.is_up {
            return Err(about_contexts(ErrorCode::UNEXPECTED_MESSAGE));
        }
        if state.is_blocked {
            return Err(about_contexts(ErrorCode::MANAGEMENT_BLOCKING));
        }
        let (servers, unknown) = self.named(peer, &active.routing_contexts);
        if active.routing_contexts.is_empty() {
            if servers.is_empty() {
                return Err(ErrorMessage::new(ErrorCode::INVALID_ROUTING_CONTEXT));
            }
            if self.config.requires_routing_context {
                return Err(ErrorMessage::new(ErrorCode::MISSING_PARAMETER));
            }
        }
        let mut accepted = Vec::new();
        let mut wrong_mode = Vec::new();
        let mut blocked = Vec::new();
        for server in servers {
            if self.server(server).is_some_and(|it| it.is_blocked) {
                blocked.push(server);
                continue;
            }
            match self
                .server(server)
                .is_some_and(|it| it.accepts(active.traffic_mode))
            {
                true => accepted.push(server),
                false => wrong_mode.push(server),
            }
        }
        if !accepted.is_empty() {
            self.activate(now, peer, &accepted, &active);
        }
        if !unknown.is_empty() {
            self.complain(
                peer,
                ErrorMessage {
                    routing_contexts: unknown,
                    ..ErrorMessage::new(ErrorCode::NO_CONFIGURED_AS)
                },
            );
        }
        if !blocked.is_empty() {
            let error = ErrorMessage {
                routing_contexts: self.contexts_of(peer, &blocked),
                ..ErrorMessage::new(ErrorCode::MANAGEMENT_BLOCKING)
            };
            self.complain(peer, error);
        }
        if !wrong_mode.is_empty() {
            return Err(ErrorMessage {
                routing_contexts: self.contexts_of(peer, &wrong_mode),
                ..ErrorMessage::new(ErrorCode::UNSUPPORTED_TRAFFIC_MODE_TYPE)
            });
        }
        Ok(())
    }

    pub(super) fn on_asp_inactive(
        &mut self,
        now: Instant,
        peer: PeerId,
        inactive: AspInactive,
    ) -> Result<(), ErrorMessage> {
        if self.peers.get(peer.0).is_none_or(|state| !state.is_up) {
            return Err(ErrorMessage {
                routing_contexts: inactive.routing_contexts,
                ..ErrorMessage::new(ErrorCode::UNEXPECTED_MESSAGE)
            });
        }
        let (servers, unknown) = self.named(peer, &inactive.routing_contexts);
        if servers.is_empty() && unknown.is_empty() {
            return Err(ErrorMessage::new(ErrorCode::NO_CONFIGURED_AS));
        }
        if !servers.is_empty() {
            for server in &servers {
                self.set_asp_state(now, peer, *server, AspState::Inactive);
                self.follow_traffic(now, peer, *server, AspState::Inactive);
            }
            let routing_contexts = match inactive.routing_contexts.is_empty() {
                true => Vec::new(),
                false => self.contexts_of(peer, &servers),
            };
            let ack = AspInactive {
                routing_contexts,
                info: None,
            };
            self.send(peer, 0, &Message::AspInactiveAck(ack));
        }
        // An Error for each of them (section 4.3.4.4), unless they are very many.
        let (singly, together) = unknown.split_at(unknown.len().min(MAX_ERRORS));
        let singly = singly.iter().map(std::slice::from_ref);
        let together = Some(together).filter(|it| !it.is_empty());
        for contexts in singly.chain(together) {
            let error = ErrorMessage {
                routing_contexts: contexts.to_vec(),
                ..ErrorMessage::new(ErrorCode::INVALID_ROUTING_CONTEXT)
            };
            self.complain(peer, error);
        }
        Ok(())
    }

    /// The peer is ASP-DOWN: it said so, or its association is lost. Its registrations are gone (section 4.3.4.2).
    pub(super) fn peer_is_down(&mut self, now: Instant, peer: PeerId) {
        let Some(state) = self.peers.get_mut(peer.0) else {
            return;
        };
        let was_up = std::mem::take(&mut state.is_up);
        let members: Vec<AsId> = state.members.keys().copied().collect();
        for server in members {
            self.set_asp_state(now, peer, server, AspState::Down);
        }
        self.deregister_all(now, peer);
        if was_up {
            self.manage(ManagementIndication::Asp {
                peer,
                application_server: None,
                state: AspState::Down,
            });
        }
    }

    /// The same where it was not the ASP's intention: the others are told.
    pub(super) fn peer_fails(&mut self, now: Instant, peer: PeerId) {
        let Some(state) = self.peers.get(peer.0) else {
            return;
        };
        let identifier = state.asp_identifier;
        let members: Vec<AsId> = state.members.keys().copied().collect();
        for server in members {
            if self
                .server(server)
                .is_some_and(|it| it.asp_state(peer) != AspState::Down)
            {
                self.changes.failures.push((peer, server, identifier));
            }
        }
        self.peer_is_down(now, peer);
    }

    /// The state of a peer as an ASP of an application server that peers serve.
    pub(super) fn set_asp_state(
        &mut self,
        now: Instant,
        peer: PeerId,
        application_server: AsId,
        state: AspState,
    ) {
        let t_r = self.config.t_r;
        let Some(server) = self.server_mut(application_server) else {
            return;
        };
        let before = server.asp_state(peer);
        if before == state || !server.config.served_by.has_peers() {
            return;
        }
        let state_before = server.state();
        let overridden = server.set_asp_state(peer, state);
        server.advance();
        let is_pending = server.state() == AsState::Pending;
        self.changes
            .touched
            .entry(application_server)
            .or_insert(state_before);
        let timer = Timer::Recovery(application_server);
        match (is_pending, self.timers.runs(timer)) {
            (true, false) => self.timers.set(timer, now + t_r),
            (false, true) => self.timers.cancel(timer),
            _ => {}
        }
        if before == AspState::Down {
            self.changes.newcomers.push((peer, application_server));
        }
        let identifier = self.peers.get(peer.0).and_then(|peer| peer.asp_identifier);
        let of_overridden = overridden
            .into_iter()
            .map(|other| (other, AspState::Inactive));
        let of_overridden: Vec<_> = of_overridden.collect();
        for (other, _) in &of_overridden {
            self.changes
                .alternates
                .push((*other, application_server, identifier));
        }
        for (peer, state) in std::iter::once((peer, state)).chain(of_overridden) {
            self.manage(ManagementIndication::Asp {
                peer,
                application_server: Some(application_server),
                state,
            });
        }
    }

    /// Tells of the changes: Notifies to ASPs, indications to the management, availability to whoever depends on it. What
    /// waited for an ASP is sent.
    pub(super) fn announce(&mut self) {
        let changes = std::mem::take(&mut self.changes);
        if changes.touched.is_empty() {
            return;
        }
        let mut notices = Notices::new();
        for (application_server, before) in &changes.touched {
            self.notices_of(*application_server, *before, &changes, &mut notices);
        }
        for ((peer, status, asp_identifier), servers) in notices {
            let notify = Notify {
                status: Status(status),
                asp_identifier,
                routing_contexts: self.contexts_of(peer, &servers),
                info: None,
            };
            self.send(peer, 0, &Message::Notify(notify));
        }
        for (application_server, before) in changes.touched {
            self.state_changed(application_server, before);
        }
    }

    pub(super) fn give_up_recovery(&mut self, application_server: AsId) {
        let Some(server) = self.server_mut(application_server) else {
            return;
        };
        let before = server.state();
        let messages = server.give_up();
        self.statistics.count_dropped(DropReason::Expired, messages);
        self.changes
            .touched
            .entry(application_server)
            .or_insert(before);
        if messages > 0 {
            self.manage(ManagementIndication::Discarded {
                application_server,
                messages,
            });
        }
    }

    /// The application servers that routing contexts name among those that the peer serves, and the contexts that name none;
    /// without contexts, all that it serves.
    pub(super) fn named(&self, peer: PeerId, contexts: &[u32]) -> (Vec<AsId>, Vec<u32>) {
        let Some(state) = self.peers.get(peer.0) else {
            return (Vec::new(), Vec::new());
        };
        let is_peers = |it: &AsId| {
            self.server(*it)
                .is_some_and(|it| it.config.served_by.has_peers())
        };
        if contexts.is_empty() {
            return (
                state.members.keys().copied().filter(is_peers).collect(),
                Vec::new(),
            );
        }
        let (mut servers, mut unknown) = (Vec::new(), Vec::new());
        for context in contexts {
            match state.contexts.get(context).copied().filter(is_peers) {
                Some(server) => servers.push(server),
                None => unknown.push(*context),
            }
        }
        (servers, unknown)
    }

    /// The routing contexts that these application servers have at a peer.
    pub(super) fn contexts_of(&self, peer: PeerId, servers: &[AsId]) -> Vec<u32> {
        let members = self.peers.get(peer.0).map(|peer| &peer.members);
        let contexts = servers
            .iter()
            .filter_map(|it| members?.get(it)?.routing_context);
        contexts.collect()
    }

    fn check_asp_up(&self, peer: PeerId, identifier: Option<u32>) -> Result<(), ErrorMessage> {
        let Some(state) = self.peers.get(peer.0) else {
            return Ok(());
        };
        if state.is_blocked {
            return Err(ErrorMessage::new(ErrorCode::MANAGEMENT_BLOCKING));
        }
        let Some(identifier) = identifier else {
            return match self.config.requires_asp_identifier {
                true => Err(ErrorMessage::new(ErrorCode::ASP_IDENTIFIER_REQUIRED)),
                false => Ok(()),
            };
        };
        // It is unique among the ASPs that support an AS (section 3.5.1).
        let has_it = |other: &PeerId| {
            let other = self.peers.get(other.0);
            other.is_some_and(|it| it.is_up && it.asp_identifier == Some(identifier))
        };
        let servers = state.members.keys().filter_map(|it| self.server(*it));
        let mut others = servers.flat_map(|it| it.asps().map(|(other, _)| other));
        match others.any(|other| other != peer && has_it(&other)) {
            true => Err(ErrorMessage::new(ErrorCode::INVALID_ASP_IDENTIFIER)),
            false => Ok(()),
        }
    }

    fn activate(&mut self, now: Instant, peer: PeerId, servers: &[AsId], active: &AspActive) {
        // Before the acknowledgement, so that it does not send to destinations that are not available (section 4.5.1).
        self.tell_unavailable(peer, servers);
        for application_server in servers {
            if let (Some(mode), Some(server)) =
                (active.traffic_mode, self.server_mut(*application_server))
            {
                server.set_traffic_mode(mode);
            }
            self.set_asp_state(now, peer, *application_server, AspState::Active);
            self.follow_traffic(now, peer, *application_server, AspState::Active);
        }
        let routing_contexts = match active.routing_contexts.is_empty() {
            true => Vec::new(),
            false => self.contexts_of(peer, servers),
        };
        let ack = AspActive {
            traffic_mode: active.traffic_mode,
            routing_contexts,
            info: None,
        };
        self.send(peer, 0, &Message::AspActiveAck(ack));
    }

    /// What the ASPs of an AS are told after a change.
    fn notices_of(
        &mut self,
        application_server: AsId,
        before: AsState,
        changes: &Changes,
        notices: &mut Notices,
    ) {
        let Some(server) = self.server_mut(application_server) else {
            return;
        };
        let mut tell = |peer: PeerId, status: Status, identifier: Option<u32>| {
            let told = notices.entry((peer, status.0, identifier)).or_default();
            told.push(application_server);
        };
        let up: Vec<_> = server
            .asps()
            .filter(|(_, state)| *state != AspState::Down)
            .collect();
        let state = server.state();
        let status = match state {
            AsState::Down => None,
            AsState::Inactive => Some(Status::AS_INACTIVE),
            AsState::Active => Some(Status::AS_ACTIVE),
            AsState::Pending => Some(Status::AS_PENDING),
        };
        let is_newcomer = |peer: PeerId| changes.newcomers.contains(&(peer, application_server));
        // The first ASP that comes up makes an AS inactive: the change and the newcomer's news are one.
        if let Some(status) = status {
            for (peer, _) in &up {
                if state != before || is_newcomer(*peer) {
                    tell(*peer, status, None);
                }
            }
        }
        for (peer, of, identifier) in &changes.alternates {
            if *of == application_server {
                tell(*peer, Status::ALTERNATE_ASP_ACTIVE, *identifier);
            }
        }
        for (failed, of, identifier) in &changes.failures {
            for (peer, _) in up
                .iter()
                .filter(|(peer, _)| *of == application_server && peer != failed)
            {
                tell(*peer, Status::ASP_FAILURE, *identifier);
            }
        }
        let shares = server.traffic_mode() != TrafficMode::OVERRIDE;
        let is_short =
            shares && state == AsState::Active && server.active().len() < server.required();
        let was_short = std::mem::replace(&mut server.is_short, is_short);
        if is_short {
            let inactive = up.iter().filter(|(_, state)| *state == AspState::Inactive);
            for (peer, _) in inactive.filter(|(peer, _)| !was_short || is_newcomer(*peer)) {
                tell(*peer, Status::INSUFFICIENT_ASP_RESOURCES, None);
            }
        } else if was_short && state == AsState::Active && before == AsState::Active {
            // There are enough again (section 5.2.3).
            for (peer, _) in up.iter().filter(|(peer, _)| !is_newcomer(*peer)) {
                tell(*peer, Status::AS_ACTIVE, None);
            }
        }
    }

    fn state_changed(&mut self, application_server: AsId, before: AsState) {
        let Some(server) = self.server_mut(application_server) else {
            return;
        };
        let state = server.state();
        if state == before {
            return;
        }
        let waiting = match state {
            AsState::Active => std::mem::take(&mut server.waiting),
            _ => Default::default(),
        };
        self.manage(ManagementIndication::As {
            application_server,
            state,
        });
        for message in waiting {
            self.distribute(application_server, message);
        }
        let is_usable = |state| matches!(state, AsState::Active | AsState::Pending);
        if is_usable(state) != is_usable(before) {
            self.via_changed(Via::As(application_server));
        }
    }

    /// Single exchange: the peer came up, and so did we (section 4.3).
    fn follow_up(&mut self, now: Instant, peer: PeerId) {
        if self.has_single_exchange(peer) {
            if let Some(state) = self.peers.get_mut(peer.0) {
                state.wants_up = true;
            }
            self.we_are_up(now, peer);
        }
    }

    /// Single exchange: the peer went down, and so do we.
    fn follow_down(&mut self, now: Instant, peer: PeerId) {
        if self.has_single_exchange(peer) {
            if let Some(state) = self.peers.get_mut(peer.0) {
                state.wants_up = false;
            }
            self.we_are_down(now, peer);
        }
    }

    /// Single exchange: the peer's state in an AS is ours, too.
    fn follow_traffic(
        &mut self,
        now: Instant,
        peer: PeerId,
        application_server: AsId,
        state: AspState,
    ) {
        if !self.has_single_exchange(peer) {
            return;
        }
        let members = self.peers.get_mut(peer.0).map(|peer| &mut peer.members);
        if let Some(membership) = members.and_then(|it| it.get_mut(&application_server)) {
            membership.wants_active = state == AspState::Active;
        }
        self.set_our_state(now, peer, application_server, state);
    }

    pub(super) fn has_single_exchange(&self, peer: PeerId) -> bool {
        let peer = self.peers.get(peer.0);
        peer.is_some_and(|peer| peer.config.role == PeerRole::IpspSingleExchange)
    }
}
