//! What an ASP asks of its SGPs: to be up, registered, active. It compares what is with what is wanted, and asks for the next
//! thing; an answer, or the lack of one, makes it look again (section 4.3.4).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::SignallingProcess;
use super::config::{Activation, AsId, PeerId};
use super::output::{AspState, ManagementIndication};
use super::peer::{Membership, Peer, Request};
use super::timers::Timer;
use crate::message::{
    AspActive, AspDown, AspInactive, AspUp, ErrorCode, ErrorMessage, Message, Notify, RoutingKey,
    Status, TrafficMode,
};

impl SignallingProcess {
    /// M-ASP_UP request: we want to be up at a peer.
    pub fn asp_up(&mut self, now: Instant, peer: PeerId) {
        if let Some(state) = self.peers.get_mut(peer.0) {
            state.wants_up = state.config.role.is_asked();
        }
        self.pursue(now, peer);
    }

    /// M-ASP_DOWN request: we want to be down at a peer. Being active and registered ends before (section 4.9).
    pub fn asp_down(&mut self, now: Instant, peer: PeerId) {
        if let Some(state) = self.peers.get_mut(peer.0) {
            state.wants_up = false;
        }
        self.pursue(now, peer);
    }

    /// M-ASP_ACTIVE request: we want to be active in an application server, at one peer or at all.
    pub fn asp_active(&mut self, now: Instant, peer: Option<PeerId>, application_server: AsId) {
        self.want(now, peer, application_server, true);
    }

    /// M-ASP_INACTIVE request.
    pub fn asp_inactive(&mut self, now: Instant, peer: Option<PeerId>, application_server: AsId) {
        self.want(now, peer, application_server, false);
    }

    /// Asks a peer for the next thing that we want and do not have.
    pub(super) fn pursue(&mut self, now: Instant, peer: PeerId) {
        let Some(state) = self.peers.get(peer.0) else {
            return;
        };
        if state.outbound_streams.is_none() || state.request.is_some() {
            return;
        }
        let Some((request, messages)) = self.next_request(state) else {
            return;
        };
        for message in messages {
            self.send(peer, 0, &message);
        }
        if let Some(state) = self.peers.get_mut(peer.0) {
            state.request = Some(request);
        }
        let deadline = now + self.config.t_ack;
        self.timers.set(Timer::Acknowledgement(peer), deadline);
    }

    /// T(ack): whatever is still wanted is asked for again.
    pub(super) fn ask_again(&mut self, now: Instant, peer: PeerId) {
        self.finish_request(now, peer);
    }

    /// The request is answered, or in vain.
    pub(super) fn finish_request(&mut self, now: Instant, peer: PeerId) {
        self.drop_request(peer);
        self.pursue(now, peer);
    }

    pub(super) fn on_asp_up_ack(&mut self, now: Instant, peer: PeerId) -> Result<(), ErrorMessage> {
        let Some(state) = self.peers.get(peer.0) else {
            return Ok(());
        };
        let is_expected = state.request == Some(Request::Up);
        let was_active = state.has_us_active();
        if !is_expected && was_active {
            // It has forgotten us: back to where we were (section 4.3.4.1).
            self.we_are_inactive(now, peer);
            return Err(ErrorMessage::new(ErrorCode::UNEXPECTED_MESSAGE));
        }
        self.we_are_up(now, peer);
        if self.has_single_exchange(peer) {
            self.peer_follows_up(now, peer);
        }
        Ok(())
    }

    pub(super) fn on_asp_down_ack(&mut self, now: Instant, peer: PeerId) {
        self.we_are_down(now, peer);
        if self.has_single_exchange(peer) {
            self.peer_is_down(now, peer);
        }
        self.pursue(now, peer);
    }

    pub(super) fn on_asp_active_ack(&mut self, now: Instant, peer: PeerId, contexts: &[u32]) {
        self.on_traffic_ack(now, peer, contexts, AspState::Active);
    }

    pub(super) fn on_asp_inactive_ack(&mut self, now: Instant, peer: PeerId, contexts: &[u32]) {
        self.on_traffic_ack(now, peer, contexts, AspState::Inactive);
    }

    pub(super) fn on_notify(
        &mut self,
        now: Instant,
        peer: PeerId,
        notify: &Notify,
    ) -> Result<(), ErrorMessage> {
        let Some(state) = self.peers.get_mut(peer.0) else {
            return Ok(());
        };
        let unknown: Vec<u32> = notify
            .routing_contexts
            .iter()
            .copied()
            .filter(|it| !state.contexts.contains_key(it))
            .collect();
        let servers: Vec<AsId> = match notify.routing_contexts.is_empty() {
            true => state.members.keys().copied().collect(),
            false => notify
                .routing_contexts
                .iter()
                .filter_map(|it| state.contexts.get(it).copied())
                .collect(),
        };
        let mut overridden = Vec::new();
        for (server, membership) in &mut state.members {
            if !servers.contains(server) {
                continue;
            }
            match notify.status {
                Status::ALTERNATE_ASP_ACTIVE if membership.our_state == AspState::Active => {
                    // Not to be asked for again, or the two would take turns.
                    membership.wants_active = false;
                    overridden.push(*server);
                }
                Status::AS_PENDING | Status::INSUFFICIENT_ASP_RESOURCES
                    if membership.config.activation != Activation::Manual
                        && !membership.is_withdrawn =>
                {
                    membership.wants_active = true;
                }
                _ => {}
            }
        }
        for server in overridden {
            self.set_our_state(now, peer, server, AspState::Inactive);
        }
        self.manage(ManagementIndication::Notify {
            peer,
            status: notify.status,
            application_servers: servers,
            asp_identifier: notify.asp_identifier,
        });
        self.pursue(now, peer);
        match unknown.is_empty() {
            true => Ok(()),
            false => Err(ErrorMessage {
                routing_contexts: unknown,
                ..ErrorMessage::new(ErrorCode::INVALID_ROUTING_CONTEXT)
            }),
        }
    }

    /// A peer complains. A request that it refuses for good is not repeated; one that it cannot grant now is, after T(ack).
    pub(super) fn on_error(&mut self, now: Instant, peer: PeerId, error: &ErrorMessage) {
        self.manage(ManagementIndication::PeerError {
            peer,
            code: error.code,
        });
        let Some(state) = self.peers.get_mut(peer.0) else {
            return;
        };
        let is_final = match (&state.request, error.code) {
            (
                Some(Request::Up),
                ErrorCode::ASP_IDENTIFIER_REQUIRED
                | ErrorCode::INVALID_ASP_IDENTIFIER
                | ErrorCode::INVALID_VERSION,
            ) => {
                state.wants_up = false;
                true
            }
            (
                Some(Request::Active(servers)),
                ErrorCode::UNSUPPORTED_TRAFFIC_MODE_TYPE
                | ErrorCode::INVALID_ROUTING_CONTEXT
                | ErrorCode::NO_CONFIGURED_AS
                | ErrorCode::MISSING_PARAMETER,
            ) => {
                let servers = concerned(state, servers, &error.routing_contexts);
                for server in &servers {
                    if let Some(membership) = state.members.get_mut(server) {
                        membership.wants_active = false;
                    }
                }
                !servers.is_empty()
            }
            (
                Some(Request::Inactive(servers)),
                ErrorCode::INVALID_ROUTING_CONTEXT | ErrorCode::NO_CONFIGURED_AS,
            ) => {
                for server in concerned(state, servers, &error.routing_contexts) {
                    if let Some(membership) = state.members.get_mut(&server) {
                        membership.our_state = AspState::Inactive;
                    }
                }
                true
            }
            (Some(Request::Register(keys)), ErrorCode::UNSUPPORTED_MESSAGE_CLASS) => {
                let servers: Vec<AsId> = keys.values().copied().collect();
                for server in servers {
                    if let Some(membership) = state.members.get_mut(&server) {
                        membership.is_refused = true;
                    }
                }
                true
            }
            _ => false,
        };
        if is_final {
            self.finish_request(now, peer);
        }
    }

    pub(super) fn we_are_up(&mut self, now: Instant, peer: PeerId) {
        let Some(state) = self.peers.get_mut(peer.0) else {
            return;
        };
        if std::mem::replace(&mut state.we_are_up, true) {
            return;
        }
        let members: Vec<AsId> = state.members.keys().copied().collect();
        self.manage(ManagementIndication::Confirm {
            peer,
            application_server: None,
            state: AspState::Inactive,
        });
        for server in members {
            self.set_our_state(now, peer, server, AspState::Inactive);
        }
        let request = self
            .peers
            .get(peer.0)
            .and_then(|peer| peer.request.as_ref());
        if request == Some(&Request::Up) {
            self.finish_request(now, peer);
        }
    }

    /// We are ASP-DOWN at a peer: it said so, or the association is gone. So are our registrations.
    pub(super) fn we_are_down(&mut self, now: Instant, peer: PeerId) {
        let Some(state) = self.peers.get_mut(peer.0) else {
            return;
        };
        let was_up = std::mem::take(&mut state.we_are_up);
        let members: Vec<AsId> = state.members.keys().copied().collect();
        self.drop_request(peer);
        for server in members {
            self.forget_registration(peer, server);
            self.set_our_state(now, peer, server, AspState::Down);
        }
        if was_up {
            self.manage(ManagementIndication::Confirm {
                peer,
                application_server: None,
                state: AspState::Down,
            });
        }
    }

    /// Our own state in an application server at a peer.
    pub(super) fn set_our_state(
        &mut self,
        now: Instant,
        peer: PeerId,
        application_server: AsId,
        state: AspState,
    ) {
        let has_us = self
            .server(application_server)
            .is_some_and(|it| it.config.served_by.has_us());
        let Some(of_peer) = self.peers.get_mut(peer.0) else {
            return;
        };
        let Some(membership) = of_peer.members.get_mut(&application_server) else {
            return;
        };
        if !has_us || membership.our_state == state {
            return;
        }
        membership.our_state = state;
        if let Some(Request::Active(servers) | Request::Inactive(servers)) = &mut of_peer.request {
            servers.remove(&application_server);
            if servers.is_empty() {
                self.finish_request(now, peer);
            }
        }
        self.manage(ManagementIndication::Confirm {
            peer,
            application_server: Some(application_server),
            state,
        });
        self.update_gateway(peer);
    }

    fn want(&mut self, now: Instant, peer: Option<PeerId>, server: AsId, wants_active: bool) {
        let peers: Vec<PeerId> = match peer {
            Some(peer) => vec![peer],
            None => self.peers().collect(),
        };
        for peer in peers {
            let members = self.peers.get_mut(peer.0).map(|peer| &mut peer.members);
            if let Some(membership) = members.and_then(|it| it.get_mut(&server)) {
                membership.wants_active = wants_active;
                membership.is_withdrawn = !wants_active;
                self.pursue(now, peer);
            }
        }
    }

    /// Whether asked for or not, the peer says what we are: where we want to be something else, we ask (section 4.3.4.4).
    fn on_traffic_ack(&mut self, now: Instant, peer: PeerId, contexts: &[u32], state: AspState) {
        if self.peers.get(peer.0).is_none_or(|peer| !peer.we_are_up) {
            return;
        }
        for server in self.acknowledged(peer, contexts) {
            self.set_our_state(now, peer, server, state);
            if self.has_single_exchange(peer) {
                self.set_asp_state(now, peer, server, state);
            }
        }
        self.pursue(now, peer);
    }

    /// The request is void: what it asks for has changed.
    fn drop_request(&mut self, peer: PeerId) {
        if let Some(state) = self.peers.get_mut(peer.0) {
            state.request = None;
        }
        self.timers.cancel(Timer::Acknowledgement(peer));
    }

    /// We are up, and not more than that: we ask for the rest again.
    pub(super) fn we_are_inactive(&mut self, now: Instant, peer: PeerId) {
        let Some(state) = self.peers.get(peer.0) else {
            return;
        };
        let members: Vec<AsId> = state.members.keys().copied().collect();
        self.drop_request(peer);
        for server in members {
            self.forget_registration(peer, server);
            self.set_our_state(now, peer, server, AspState::Inactive);
        }
        self.pursue(now, peer);
    }

    /// Single exchange: we came up, and so did the peer.
    fn peer_follows_up(&mut self, now: Instant, peer: PeerId) {
        let Some(state) = self.peers.get_mut(peer.0) else {
            return;
        };
        let was_up = std::mem::replace(&mut state.is_up, true);
        let members: Vec<AsId> = state.members.keys().copied().collect();
        if !was_up {
            for server in members {
                self.set_asp_state(now, peer, server, AspState::Inactive);
            }
        }
    }

    /// The application servers of ours that an acknowledgement names; without contexts, those that were asked for, or all.
    fn acknowledged(&self, peer: PeerId, contexts: &[u32]) -> Vec<AsId> {
        let Some(state) = self.peers.get(peer.0) else {
            return Vec::new();
        };
        if !contexts.is_empty() {
            return contexts
                .iter()
                .filter_map(|it| state.contexts.get(it).copied())
                .collect();
        }
        match &state.request {
            Some(Request::Active(servers) | Request::Inactive(servers)) => {
                servers.iter().copied().collect()
            }
            _ => state.members.keys().copied().collect(),
        }
    }

    /// The next request, and its messages.
    fn next_request(&self, peer: &Peer) -> Option<(Request, Vec<Message>)> {
        let ours = || {
            peer.members.iter().filter(|(server, _)| {
                self.server(**server)
                    .is_some_and(|it| it.config.served_by.has_us())
            })
        };
        let with = |wanted: fn(&Membership) -> bool| -> BTreeSet<AsId> {
            let found = ours().filter(|(_, membership)| wanted(membership));
            found.map(|(server, _)| *server).collect()
        };
        if !peer.we_are_up {
            let up = AspUp {
                asp_identifier: peer.config.asp_identifier,
                info: None,
            };
            return peer
                .wants_up
                .then(|| (Request::Up, vec![Message::AspUp(up)]));
        }
        let stop = match peer.wants_up {
            true => with(|it| it.our_state == AspState::Active && !it.wants_active),
            false => with(|it| it.our_state == AspState::Active),
        };
        if !stop.is_empty() {
            let groups = grouped(peer, &stop, |_| ());
            let messages = groups.into_values().map(|routing_contexts| {
                Message::AspInactive(AspInactive {
                    routing_contexts,
                    info: None,
                })
            });
            return Some((Request::Inactive(stop), messages.collect()));
        }
        if !peer.wants_up {
            let registered = with(|it| it.is_registered);
            let down = || (Request::Down, vec![Message::AspDown(AspDown::default())]);
            return Some(match registered.is_empty() {
                true => down(),
                false => {
                    let contexts = registered
                        .iter()
                        .filter_map(|it| peer.members.get(it)?.routing_context);
                    let message = Message::DeregReq(contexts.collect());
                    (Request::Deregister(registered), vec![message])
                }
            });
        }
        let unregistered =
            with(|it| it.config.registers.is_some() && !it.is_registered && !it.is_refused);
        if !unregistered.is_empty() {
            let mut numbered = BTreeMap::new();
            let mut keys = Vec::new();
            for (number, server) in (1..).zip(unregistered) {
                let key = peer
                    .members
                    .get(&server)
                    .and_then(|it| it.config.registers.clone());
                keys.extend(key.map(|key| RoutingKey {
                    local_rk_identifier: number,
                    ..key
                }));
                numbered.insert(number, server);
            }
            return Some((Request::Register(numbered), vec![Message::RegReq(keys)]));
        }
        let start = with(|it| {
            it.wants_active
                && it.our_state == AspState::Inactive
                && (it.config.registers.is_none() || it.is_registered)
        });
        if start.is_empty() {
            return None;
        }
        let mode = |server: AsId| self.server(server).and_then(|it| it.config.traffic_mode);
        let groups = grouped(peer, &start, |server| mode(server).map(|mode| mode.0));
        let messages = groups.into_iter().map(|((mode, _), routing_contexts)| {
            Message::AspActive(AspActive {
                traffic_mode: mode.map(TrafficMode),
                routing_contexts,
                info: None,
            })
        });
        Some((Request::Active(start), messages.collect()))
    }
}

/// The routing contexts of application servers, for a message for each kind. Those without a context have one of their own.
fn grouped<K: Ord>(
    peer: &Peer,
    servers: &BTreeSet<AsId>,
    kind: impl Fn(AsId) -> K,
) -> BTreeMap<(K, bool), Vec<u32>> {
    let mut groups: BTreeMap<(K, bool), Vec<u32>> = BTreeMap::new();
    for server in servers {
        let context = peer.members.get(server).and_then(|it| it.routing_context);
        let group = groups
            .entry((kind(*server), context.is_some()))
            .or_default();
        group.extend(context);
    }
    groups
}

/// Those of the application servers that an Error names; without contexts, all.
fn concerned(peer: &Peer, servers: &BTreeSet<AsId>, contexts: &[u32]) -> Vec<AsId> {
    let is_named = |server: &AsId| {
        contexts.is_empty()
            || contexts
                .iter()
                .any(|it| peer.contexts.get(it) == Some(server))
    };
    servers.iter().copied().filter(is_named).collect()
}
