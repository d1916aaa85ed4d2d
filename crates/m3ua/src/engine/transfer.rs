//! The way of a message of an MTP3 user: to an application server by routing key, or to an SG by route (sections 1.4.2 and
//! 4.1.1).

use std::time::Instant;

use super::SignallingProcess;
use super::config::{AsId, NetworkId, PeerId, Via};
use super::destinations::Availability;
use super::output::{AsState, AspState, MtpIndication, Output};
use super::statistics::{DropReason, Flow, Traffic};
use crate::MaskedPointCode;
use crate::message::{
    Data, Destinations, ErrorCode, ErrorMessage, MAX_USER_DATA_LENGTH, Message, ProtocolData,
    ServiceIndicator,
};

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// Neither a routing key nor a route has its destination.
    #[error("there is no route to its destination")]
    NoRoute,
    /// There are ways, none of which can be used now.
    #[error("its destination is not available")]
    Unavailable,
    /// The application server is pending, and as many messages wait as may.
    #[error("too many messages wait for its application server")]
    Full,
    /// MTP3 management is not carried (section 1.4.3.2).
    #[error("MTP3 management messages are not carried")]
    Management,
    /// It is longer than a DATA message can be.
    #[error("it is too long")]
    TooLong,
}

impl TransferError {
    fn reason(self) -> DropReason {
        match self {
            TransferError::NoRoute => DropReason::NoRoute,
            TransferError::Unavailable => DropReason::Unavailable,
            TransferError::Full => DropReason::PendingFull,
            TransferError::Management => DropReason::Management,
            TransferError::TooLong => DropReason::TooLong,
        }
    }
}

impl SignallingProcess {
    /// MTP-TRANSFER request: sends a message to its destination.
    pub fn transfer(
        &mut self,
        network: NetworkId,
        message: ProtocolData,
    ) -> Result<(), TransferError> {
        self.route(network, message, &[])
    }

    pub(super) fn on_data(
        &mut self,
        now: Instant,
        peer: PeerId,
        data: Data,
    ) -> Result<(), ErrorMessage> {
        if is_management(&data.protocol_data) {
            return Err(ErrorMessage::new(ErrorCode::PROTOCOL_ERROR));
        }
        let network = self.network(peer, data.network_appearance)?;
        let server = self.flow(peer, data.routing_context)?;
        let network = match data.network_appearance {
            Some(_) => network,
            None => self.server(server).map_or(network, |it| it.config.network),
        };
        let is_active = self.our_state(peer, server) == AspState::Active
            || self
                .server(server)
                .is_some_and(|it| it.asp_state(peer) == AspState::Active);
        if !is_active {
            // It may have been on its way when the ASP became inactive (section 3.8.1).
            self.statistics.count_dropped(DropReason::NotActive, 1);
            return Ok(());
        }
        let message = data.protocol_data;
        if self.config.relays && !self.is_ours(network, &message) {
            self.relay(now, peer, server, network, message);
            return Ok(());
        }
        self.traffic(Flow::of(network, &message)).received += 1;
        self.outputs.push_back(Output::Mtp(MtpIndication::Transfer {
            peer,
            network,
            message,
            correlation_id: data.correlation_id,
        }));
        Ok(())
    }

    /// Sends a message to the ASPs of an application server, or keeps it while that is pending.
    pub(super) fn distribute(&mut self, application_server: AsId, message: ProtocolData) {
        let Some(server) = self.server_mut(application_server) else {
            return;
        };
        if server.state() == AsState::Pending {
            server.waiting.push_back(message);
            return;
        }
        let correlation_id = server.correlation_id(message.sls);
        match server.asp_for(message.sls) {
            Some(peer) => self.send_data(peer, application_server, message, correlation_id),
            None => {
                for peer in server.active().to_vec() {
                    self.send_data(peer, application_server, message.clone(), correlation_id);
                }
            }
        }
    }

    /// How well a destination is reached one way.
    pub(super) fn availability_via(&self, via: Via, range: MaskedPointCode) -> Availability {
        match via {
            Via::As(server) => match self.server(server).is_some_and(|it| it.is_usable()) {
                true => Availability::Available,
                false => Availability::Unavailable,
            },
            Via::Sg(gateway) => {
                let gateway = self.gateways.get(gateway.0);
                gateway.map(|it| it.availability(range)).unwrap_or_default()
            }
        }
    }

    fn route(
        &mut self,
        network: NetworkId,
        message: ProtocolData,
        from: &[Via],
    ) -> Result<(), TransferError> {
        let outcome = self.try_route(network, message, from);
        if let Err(error) = outcome {
            self.statistics.count_dropped(error.reason(), 1);
        }
        outcome
    }

    fn try_route(
        &mut self,
        network: NetworkId,
        message: ProtocolData,
        from: &[Via],
    ) -> Result<(), TransferError> {
        if is_management(&message) {
            return Err(TransferError::Management);
        }
        if message.user_data.len() > MAX_USER_DATA_LENGTH {
            return Err(TransferError::TooLong);
        }
        match self.way(network, &message, from)? {
            Via::As(server) => {
                let is_pending = self.as_state(server) == AsState::Pending;
                if is_pending && self.waiting(server) >= self.config.max_pending_messages {
                    return Err(TransferError::Full);
                }
                self.distribute(server, message);
            }
            Via::Sg(gateway) => {
                let peer = self
                    .gateways
                    .get(gateway.0)
                    .and_then(|it| it.by_sls.of(message.sls));
                let peer = peer.ok_or(TransferError::Unavailable)?;
                let server = self.our_server(peer, &message);
                let server = server.ok_or(TransferError::Unavailable)?;
                self.send_data(peer, server, message, None);
            }
        }
        Ok(())
    }

    /// Where a message goes: to the application server of its routing key; else, or when that is not available, along the
    /// first routes that are, by SLS.
    fn way(
        &self,
        network: NetworkId,
        message: &ProtocolData,
        from: &[Via],
    ) -> Result<Via, TransferError> {
        let by_key = self.keys.find(network, message);
        let by_key = by_key.and_then(|it| Some((it, self.server(it)?)));
        let by_key = by_key.filter(|(_, server)| server.config.served_by.has_peers());
        if let Some((server, it)) = by_key
            && it.is_usable()
            && !from.contains(&Via::As(server))
        {
            return Ok(Via::As(server));
        }
        let range = MaskedPointCode::single(message.dpc);
        let destinations = self.destinations.get(network.0);
        let routes = destinations.map(|it| it.routes(range)).unwrap_or_default();
        // The routes of other keys with the same destination are not for this message.
        let is_for_all = |via: Via| match via {
            Via::Sg(_) => true,
            Via::As(server) => self
                .server(server)
                .is_some_and(|it| it.config.routing_key.is_empty()),
        };
        let routes: Vec<_> = routes.iter().filter(|it| is_for_all(it.via)).collect();
        for same in routes.chunk_by(|a, b| a.priority == b.priority) {
            let candidates = same.iter().filter(|it| !from.contains(&it.via));
            let rated: Vec<(Availability, Via)> = candidates
                .map(|it| (self.availability_via(it.via, range), it.via))
                .filter(|(availability, _)| availability.is_reachable())
                .collect();
            let best = rated.iter().map(|(availability, _)| *availability).max();
            let best: Vec<Via> = rated
                .iter()
                .filter(|(availability, _)| Some(*availability) == best)
                .map(|(_, via)| *via)
                .collect();
            let chosen = usize::from(message.sls).checked_rem(best.len());
            if let Some(via) = chosen.and_then(|it| best.get(it)) {
                return Ok(*via);
            }
        }
        match routes.is_empty() && by_key.is_none() {
            true => Err(TransferError::NoRoute),
            false => Err(TransferError::Unavailable),
        }
    }

    fn relay(
        &mut self,
        now: Instant,
        peer: PeerId,
        server: AsId,
        network: NetworkId,
        message: ProtocolData,
    ) {
        let gateway = self.peers.get(peer.0).and_then(|peer| peer.gateway);
        // Not back to where it comes from.
        let from: Vec<Via> = gateway
            .map(Via::Sg)
            .into_iter()
            .chain([Via::As(server)])
            .collect();
        let (flow, dpc) = (Flow::of(network, &message), message.dpc);
        let outcome = self.route(network, message, &from);
        let traffic = match outcome {
            // Whatever point codes there are not are counted together.
            Err(TransferError::NoRoute) => &mut self.statistics.other_flows,
            _ => self.traffic(flow),
        };
        traffic.received += 1;
        match outcome {
            Ok(()) => self.statistics.relayed += 1,
            Err(TransferError::NoRoute | TransferError::Unavailable) => {
                self.answer_unavailable(now, peer, server, network, dpc.into());
            }
            Err(TransferError::Full | TransferError::Management | TransferError::TooLong) => {}
        }
    }

    /// A message to a destination that is not available is answered with DUNA (section 3.4.1), once in a while.
    fn answer_unavailable(
        &mut self,
        now: Instant,
        peer: PeerId,
        server: AsId,
        network: NetworkId,
        range: MaskedPointCode,
    ) {
        let Some(state) = self.peers.get_mut(peer.0) else {
            return;
        };
        if !state.config.role.asks() {
            return;
        }
        let pause = self.config.t_ack;
        let is_recent = |(told, at): (MaskedPointCode, Instant)| told == range && now < at + pause;
        if state.last_unavailable.is_some_and(is_recent) {
            return;
        }
        state.last_unavailable = Some((range, now));
        let duna = Destinations {
            network_appearance: self.appearance(network),
            routing_contexts: self.contexts_of(peer, &[server]),
            affected: vec![range],
            info: None,
        };
        self.send(peer, 0, &Message::Duna(duna));
    }

    /// The counts of a flow.
    fn traffic(&mut self, flow: Flow) -> &mut Traffic {
        let (destinations, servers) = (&self.destinations, &self.application_servers);
        let is_configured = |via: Via| match via {
            Via::Sg(_) => true,
            Via::As(AsId(number)) => {
                let server = servers.get(number).and_then(Option::as_ref);
                server.is_some_and(|it| !it.is_dynamic)
            }
        };
        self.statistics.traffic(flow, || {
            let destinations = destinations.get(flow.network.0)?;
            destinations.configured(flow.destination, is_configured)
        })
    }

    /// The application server that a DATA message belongs to.
    fn flow(&self, peer: PeerId, context: Option<u32>) -> Result<AsId, ErrorMessage> {
        let nothing = ErrorMessage::new(ErrorCode::NO_CONFIGURED_AS);
        let Some(state) = self.peers.get(peer.0) else {
            return Err(nothing);
        };
        if let Some(context) = context {
            return state.contexts.get(&context).copied().ok_or(ErrorMessage {
                routing_contexts: vec![context],
                ..ErrorMessage::new(ErrorCode::INVALID_ROUTING_CONTEXT)
            });
        }
        // With several routing contexts, one must be said (section 3.3.1).
        match state.contexts.len() > 1 {
            true => Err(ErrorMessage::new(ErrorCode::MISSING_PARAMETER)),
            false => state.members.keys().next().copied().ok_or(nothing),
        }
    }

    /// Whether a message is for an application server that we are an ASP of.
    fn is_ours(&self, network: NetworkId, message: &ProtocolData) -> bool {
        let server = self
            .keys
            .find(network, message)
            .and_then(|it| self.server(it));
        server.is_some_and(|it| !it.config.served_by.has_peers())
    }

    /// The application server that we send a message from: ours with the originating point, or else any, active at this peer.
    fn our_server(&self, peer: PeerId, message: &ProtocolData) -> Option<AsId> {
        let members = &self.peers.get(peer.0)?.members;
        let mut active = members
            .iter()
            .filter(|(_, membership)| membership.our_state == AspState::Active)
            .map(|(server, _)| *server);
        let is_origin = |server: &AsId| {
            let key = self.server(*server).map(|it| &it.config.routing_key);
            key.is_some_and(|key| key.iter().any(|it| it.traffic.dpc.contains(message.opc)))
        };
        active.clone().find(is_origin).or_else(|| active.next())
    }

    fn send_data(
        &mut self,
        peer: PeerId,
        application_server: AsId,
        message: ProtocolData,
        correlation_id: Option<u32>,
    ) {
        let Some(network) = self.server(application_server).map(|it| it.config.network) else {
            return;
        };
        let network_appearance = self.appearance(network);
        let Some(state) = self.peers.get(peer.0) else {
            return;
        };
        let membership = state.members.get(&application_server);
        let routing_context = membership.and_then(|it| it.routing_context);
        let Some(stream) = state.data_stream(message.sls) else {
            self.statistics.count_dropped(DropReason::NoStream, 1);
            return;
        };
        self.traffic(Flow::of(network, &message)).sent += 1;
        let data = Data {
            network_appearance,
            routing_context,
            protocol_data: message,
            correlation_id,
        };
        self.send(peer, stream, &Message::Data(data));
    }
}

fn is_management(message: &ProtocolData) -> bool {
    u32::from(message.service_indicator) == ServiceIndicator::MANAGEMENT.0
}
