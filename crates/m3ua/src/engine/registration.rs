//! Routing key management (section 4.4): keys that ASPs register with us, and ours at peers.

use std::collections::BTreeSet;
use std::time::Instant;

use super::SignallingProcess;
use super::config::{
    ApplicationServerConfig, AsId, KeySelection, MemberConfig, NetworkId, PeerId, Registration,
    ServedBy,
};
use super::key_table::{normalize, overlap};
use super::output::{AspState, ManagementIndication};
use super::peer::{Membership, Request};
use super::statistics::MAX_SERVICE_INDICATOR;
use crate::message::{
    DeregistrationResult, DeregistrationStatus, ErrorCode, ErrorMessage, Message,
    RegistrationResult, RegistrationStatus, RoutingKey, TrafficSelection,
};

impl SignallingProcess {
    pub(super) fn on_registration_request(
        &mut self,
        now: Instant,
        peer: PeerId,
        keys: Vec<RoutingKey>,
    ) -> Result<(), ErrorMessage> {
        self.check_registration(peer)?;
        let mut results = Vec::new();
        let mut registered = Vec::new();
        for key in keys {
            let local_rk_identifier = key.local_rk_identifier;
            let (status, server) = match self.register(peer, key) {
                Ok(server) => {
                    registered.push(server);
                    (RegistrationStatus::REGISTERED, Some(server))
                }
                Err((status, server)) => (status, server),
            };
            let context = server.and_then(|it| self.server(it)?.config.routing_context);
            results.push(RegistrationResult {
                local_rk_identifier,
                status,
                routing_context: context.unwrap_or_default(),
            });
        }
        self.send(peer, 0, &Message::RegRsp(results));
        for application_server in registered {
            self.manage(ManagementIndication::PeerRegistered {
                peer,
                application_server,
            });
            self.set_asp_state(now, peer, application_server, AspState::Inactive);
        }
        Ok(())
    }

    pub(super) fn on_deregistration_request(
        &mut self,
        now: Instant,
        peer: PeerId,
        contexts: &[u32],
    ) -> Result<(), ErrorMessage> {
        self.check_registration(peer)?;
        let mut results = Vec::new();
        for context in contexts {
            let (status, server) = self.deregistration_status(peer, *context);
            if let (DeregistrationStatus::DEREGISTERED, Some(server)) = (status, server) {
                self.deregister(now, peer, server);
            }
            results.push(DeregistrationResult {
                routing_context: *context,
                status,
            });
        }
        self.send(peer, 0, &Message::DeregRsp(results));
        Ok(())
    }

    pub(super) fn on_registration_response(
        &mut self,
        now: Instant,
        peer: PeerId,
        results: &[RegistrationResult],
    ) -> Result<(), ErrorMessage> {
        let Some(state) = self.peers.get_mut(peer.0) else {
            return Ok(());
        };
        let Some(Request::Register(keys)) = &mut state.request else {
            return Ok(());
        };
        let mut answered = Vec::new();
        let mut taken = Vec::new();
        for result in results {
            let Some(server) = keys.remove(&result.local_rk_identifier) else {
                continue;
            };
            let Some(membership) = state.members.get_mut(&server) else {
                continue;
            };
            let mut status = result.status;
            let mut is_registered = matches!(
                status,
                RegistrationStatus::REGISTERED | RegistrationStatus::ALREADY_REGISTERED
            );
            // A routing context is one application server's (section 3.6.2).
            let owner = state.contexts.get(&result.routing_context);
            if is_registered && owner.is_some_and(|owner| *owner != server) {
                taken.push(result.routing_context);
                is_registered = false;
                status = RegistrationStatus::UNKNOWN;
            }
            membership.is_registered = is_registered;
            membership.is_refused = !is_registered;
            if is_registered {
                membership.routing_context = Some(result.routing_context);
                state.contexts.insert(result.routing_context, server);
            }
            answered.push((server, status));
        }
        let is_done = keys.is_empty();
        for (application_server, status) in answered {
            self.manage(ManagementIndication::Registered {
                peer,
                application_server,
                status,
            });
        }
        if is_done {
            self.finish_request(now, peer);
        }
        match taken.is_empty() {
            true => Ok(()),
            false => Err(ErrorMessage {
                routing_contexts: taken,
                ..ErrorMessage::new(ErrorCode::INVALID_ROUTING_CONTEXT)
            }),
        }
    }

    pub(super) fn on_deregistration_response(
        &mut self,
        now: Instant,
        peer: PeerId,
        results: &[DeregistrationResult],
    ) {
        for result in results {
            let Some(state) = self.peers.get_mut(peer.0) else {
                return;
            };
            let Some(server) = state.contexts.get(&result.routing_context).copied() else {
                continue;
            };
            let Some(Request::Deregister(servers)) = &mut state.request else {
                continue;
            };
            if !servers.remove(&server) {
                continue;
            }
            let is_done = servers.is_empty();
            // Whatever the peer says, we do not use the key any more.
            self.forget_registration(peer, server);
            self.manage(ManagementIndication::Deregistered {
                peer,
                application_server: server,
                status: result.status,
            });
            if is_done {
                self.finish_request(now, peer);
            }
        }
    }

    /// Our registration of a key at a peer is gone.
    pub(super) fn forget_registration(&mut self, peer: PeerId, application_server: AsId) {
        let Some(state) = self.peers.get_mut(peer.0) else {
            return;
        };
        let Some(membership) = state.members.get_mut(&application_server) else {
            return;
        };
        if membership.config.registers.is_none() {
            return;
        }
        membership.is_registered = false;
        membership.is_refused = false;
        if let Some(context) = membership.routing_context.take() {
            state.contexts.remove(&context);
        }
    }

    /// All registrations of a peer with us are gone (sections 4.3.4.1 and 4.3.4.2).
    pub(super) fn deregister_all(&mut self, now: Instant, peer: PeerId) {
        let Some(state) = self.peers.get(peer.0) else {
            return;
        };
        let registered = state.members.iter().filter(|(server, membership)| {
            membership.is_registered
                && self
                    .server(**server)
                    .is_some_and(|it| it.config.served_by.has_peers())
        });
        let registered: Vec<AsId> = registered.map(|(server, _)| *server).collect();
        for server in registered {
            self.deregister(now, peer, server);
        }
    }

    fn check_registration(&self, peer: PeerId) -> Result<(), ErrorMessage> {
        if self.config.registration == Registration::Unsupported {
            return Err(ErrorMessage::new(ErrorCode::UNSUPPORTED_MESSAGE_CLASS));
        }
        match self.peers.get(peer.0).is_some_and(|peer| peer.is_up) {
            true => Ok(()),
            false => Err(ErrorMessage::new(ErrorCode::UNEXPECTED_MESSAGE)),
        }
    }

    /// The AS that the peer is now registered in; or why not, and the AS that it is registered in already.
    fn register(
        &mut self,
        peer: PeerId,
        key: RoutingKey,
    ) -> Result<AsId, (RegistrationStatus, Option<AsId>)> {
        let refused = |status| (status, None);
        let network = self.check_key(peer, &key).map_err(refused)?;
        let mut selections: Vec<KeySelection> = key
            .selections
            .iter()
            .cloned()
            .map(KeySelection::from)
            .collect();
        normalize(&mut selections);
        let of_peer = self.peers.get(peer.0).map(|peer| &peer.members);
        let count = of_peer.map_or(0, |it| it.values().filter(|it| it.is_registered).count());
        let server = match self.find_key(network, &selections) {
            Found::Same(server) => {
                let existing = self
                    .server(server)
                    .ok_or(refused(RegistrationStatus::UNKNOWN))?;
                let is_change = key.routing_context.is_some()
                    && key.routing_context != existing.config.routing_context;
                if is_change {
                    return Err(refused(RegistrationStatus::CHANGE_REFUSED));
                }
                if existing.asps().any(|(asp, _)| asp == peer) {
                    return Err((RegistrationStatus::ALREADY_REGISTERED, Some(server)));
                }
                if !existing.accepts(key.traffic_mode) {
                    return Err(refused(RegistrationStatus::UNSUPPORTED_TRAFFIC_MODE));
                }
                server
            }
            _ if count >= self.config.max_registrations => {
                return Err(refused(RegistrationStatus::INSUFFICIENT_RESOURCES));
            }
            _ if key.routing_context.is_some() => {
                return Err(refused(RegistrationStatus::CHANGE_REFUSED));
            }
            Found::Overlapping => {
                return Err(refused(RegistrationStatus::CANNOT_SUPPORT_UNIQUE_ROUTING));
            }
            Found::Nothing => self.create(network, selections, &key).map_err(refused)?,
        };
        self.join(peer, server);
        Ok(server)
    }

    fn check_key(&self, peer: PeerId, key: &RoutingKey) -> Result<NetworkId, RegistrationStatus> {
        let network = self.network(peer, key.network_appearance);
        let network = network.map_err(|_| RegistrationStatus::INVALID_NETWORK_APPEARANCE)?;
        let variant = self
            .config
            .networks
            .get(network.0)
            .map(|network| network.variant);
        if key.unsupported_parameter.is_some() {
            return Err(RegistrationStatus::UNSUPPORTED_PARAMETER);
        }
        let is_valid = |it: &TrafficSelection| {
            it.dpc.mask == 0 && variant.is_some_and(|variant| variant.has(it.dpc.point_code))
        };
        if key.selections.is_empty() || !key.selections.iter().all(is_valid) {
            return Err(RegistrationStatus::INVALID_DPC);
        }
        // 0 is MTP management, which no user part may have (section 3.6.1).
        let mut users = key.selections.iter().flat_map(|it| &it.service_indicators);
        if users.any(|user| *user == 0 || u32::from(*user) > MAX_SERVICE_INDICATOR) {
            return Err(RegistrationStatus::INVALID_ROUTING_KEY);
        }
        if key.traffic_mode.is_some_and(|mode| mode.name().is_none()) {
            return Err(RegistrationStatus::UNSUPPORTED_TRAFFIC_MODE);
        }
        Ok(network)
    }

    /// Only application servers with one of the destinations are looked at, however many there are.
    fn find_key(&self, network: NetworkId, selections: &[KeySelection]) -> Found {
        let Some(destinations) = self.destinations.get(network.0) else {
            return Found::Nothing;
        };
        let candidates: BTreeSet<AsId> = selections
            .iter()
            .flat_map(|it| destinations.servers_of(it.traffic.dpc))
            .collect();
        let mut found = Found::Nothing;
        for candidate in candidates {
            let Some(server) = self.server(candidate) else {
                continue;
            };
            let existing = server.normalized_key();
            if existing == selections {
                return Found::Same(candidate);
            }
            if existing
                .iter()
                .any(|it| selections.iter().any(|that| overlap(it, that)))
            {
                found = Found::Overlapping;
            }
        }
        found
    }

    fn create(
        &mut self,
        network: NetworkId,
        selections: Vec<KeySelection>,
        key: &RoutingKey,
    ) -> Result<AsId, RegistrationStatus> {
        if self.config.registration != Registration::Dynamic {
            return Err(RegistrationStatus::NOT_PROVISIONED);
        }
        // After the last one, not from the beginning: a peer that registers much would make the search long.
        let mut contexts = (self.last_context.wrapping_add(1)..=u32::MAX).chain(1..=u32::MAX);
        let context = contexts.find(|context| !self.contexts.contains_key(context));
        self.last_context = context.unwrap_or_default();
        let config = ApplicationServerConfig {
            name: self.next_application_server().registered_name(),
            network,
            served_by: ServedBy::Peers,
            routing_context: context,
            routing_key: selections,
            traffic_mode: key.traffic_mode,
            required_asps: 1,
        };
        let created = self.insert_application_server(config, true);
        created.ok_or(RegistrationStatus::INSUFFICIENT_RESOURCES)
    }

    fn join(&mut self, peer: PeerId, application_server: AsId) {
        let Some(server) = self.server_mut(application_server) else {
            return;
        };
        server.add(peer);
        let context = server.config.routing_context;
        let membership = Membership {
            config: MemberConfig::default(),
            routing_context: context,
            our_state: AspState::Down,
            wants_active: false,
            is_withdrawn: false,
            is_registered: true,
            is_refused: false,
        };
        if let Some(state) = self.peers.get_mut(peer.0) {
            if let Some(context) = context {
                state.contexts.insert(context, application_server);
            }
            state.members.insert(application_server, membership);
        }
    }

    fn deregistration_status(
        &self,
        peer: PeerId,
        context: u32,
    ) -> (DeregistrationStatus, Option<AsId>) {
        let state = self.peers.get(peer.0);
        let found = state.and_then(|state| {
            let server = *state.contexts.get(&context)?;
            let membership = state.members.get(&server)?;
            let existing = self.server(server)?;
            existing
                .config
                .served_by
                .has_peers()
                .then_some((server, membership, existing))
        });
        let Some((server, membership, existing)) = found else {
            return (DeregistrationStatus::INVALID_ROUTING_CONTEXT, None);
        };
        let status = match (membership.is_registered, existing.asp_state(peer)) {
            (false, _) => DeregistrationStatus::NOT_REGISTERED,
            (true, AspState::Active) => DeregistrationStatus::CURRENTLY_ACTIVE,
            (true, _) => DeregistrationStatus::DEREGISTERED,
        };
        (status, Some(server))
    }

    /// A peer is no ASP of an AS any more. An AS that was made for a registration goes with its last ASP.
    fn deregister(&mut self, now: Instant, peer: PeerId, application_server: AsId) {
        self.set_asp_state(now, peer, application_server, AspState::Down);
        if let Some(state) = self.peers.get_mut(peer.0)
            && let Some(membership) = state.members.remove(&application_server)
            && let Some(context) = membership.routing_context
        {
            state.contexts.remove(&context);
        }
        self.manage(ManagementIndication::PeerDeregistered {
            peer,
            application_server,
        });
        let Some(server) = self.server_mut(application_server) else {
            return;
        };
        server.remove(peer);
        if server.is_dynamic && server.is_empty() {
            self.remove_application_server(application_server);
        }
    }
}

/// What a key that is to be registered meets.
enum Found {
    Same(AsId),
    Overlapping,
    Nothing,
}
