//! The engine: one signalling process with its peers, application servers and routes.
//!
//! An application server is served by peers (we are an SGP: `serving`), by us (we are an ASP: `asking`), or by both (an
//! IPSP with single exchange). `registration` is routing key management, `management` is SS7 network management, `transfer`
//! is the way of a message. A process can be all of this at once, so that a gateway is an SGP to some peers and an ASP to
//! others.

mod application_server;
mod asking;
mod config;
mod destinations;
mod expectations;
mod key_table;
mod management;
mod output;
mod peer;
mod point_code_map;
mod reachability;
mod registration;
mod serving;
mod sls_shares;
mod statistics;
#[cfg(test)]
mod tests;
mod timers;
mod transfer;
mod view;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Instant;

use bytes::Bytes;

use crate::message::{ErrorCode, ErrorMessage, Message, ReadError};
use application_server::ApplicationServer;
pub use config::{
    Activation, ApplicationServerConfig, AsId, Config, KeySelection, MemberConfig, Network,
    NetworkId, PeerConfig, PeerId, PeerRole, Registration, Route, ServedBy, SgId, Via,
};
pub use destinations::Availability;
use destinations::{Destinations, Gateway};
use expectations::{is_expected, is_right_stream, routing_contexts};
use key_table::KeyTable;
pub use output::{AsState, AspState, ManagementIndication, MtpIndication, MtpStatus, Output};
use peer::{Membership, Peer};
use point_code_map::canonical;
pub use reachability::{Destination, Reachability};
use serving::Changes;
pub use statistics::{DropReason, Flow, Statistics, Traffic};
use timers::{Timer, Timers};
pub use transfer::TransferError;

/// Octets of an offending message in an Error message about its class or type (section 3.8.1).
const DIAGNOSTIC_LENGTH: usize = 40;

/// Octets of it in other Error messages.
const MAX_DIAGNOSTIC_LENGTH: usize = 1024;

/// A signalling process.
#[derive(Debug)]
pub struct SignallingProcess {
    config: Config,
    peers: Vec<Peer>,
    application_servers: Vec<Option<ApplicationServer>>,
    /// Numbers below the highest that no application server has.
    free: BTreeSet<AsId>,
    /// Application servers by routing context.
    contexts: HashMap<u32, AsId>,
    /// The routing context of the latest registration.
    last_context: u32,
    gateways: Vec<Gateway>,
    /// By network.
    destinations: Vec<Destinations>,
    keys: KeyTable,
    timers: Timers,
    changes: Changes,
    outputs: VecDeque<Output>,
    statistics: Statistics,
}

/// A configuration that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// There are fewer networks.
    #[error("there is no network {0:?}")]
    Network(NetworkId),
    /// There are fewer peers.
    #[error("there is no peer {0:?}")]
    Peer(PeerId),
    /// There are fewer application servers, or it is gone.
    #[error("there is no application server {0:?}")]
    ApplicationServer(AsId),
    /// There are fewer SGs.
    #[error("there is no SG {0:?}")]
    Gateway(SgId),
    /// Another application server has it.
    #[error("routing context {0} is there twice")]
    RoutingContext(u32),
    /// There may be no more.
    #[error("there are too many application servers")]
    TooMany,
}

impl SignallingProcess {
    /// A process without peers.
    pub fn new(config: Config) -> SignallingProcess {
        let config = config.bounded();
        SignallingProcess {
            destinations: config
                .networks
                .iter()
                .map(|_| Destinations::default())
                .collect(),
            config,
            peers: Vec::new(),
            application_servers: Vec::new(),
            free: BTreeSet::new(),
            contexts: HashMap::new(),
            last_context: 0,
            gateways: Vec::new(),
            keys: KeyTable::default(),
            timers: Timers::default(),
            changes: Changes::default(),
            outputs: VecDeque::new(),
            statistics: Statistics::default(),
        }
    }

    /// Adds an SG: SGPs that lead to the same destinations.
    pub fn add_gateway(&mut self) -> SgId {
        self.gateways.push(Gateway::default());
        SgId(self.gateways.len() - 1)
    }

    /// Adds a peer. One that we ask is an SGP of `gateway`; without, it is an SG by itself.
    pub fn add_peer(
        &mut self,
        config: PeerConfig,
        gateway: Option<SgId>,
    ) -> Result<PeerId, ConfigError> {
        self.check_network(config.network)?;
        let gateway = match (config.role.is_asked(), gateway) {
            (false, _) => None,
            (true, Some(gateway)) if gateway.0 >= self.gateways.len() => {
                return Err(ConfigError::Gateway(gateway));
            }
            (true, gateway) => Some(gateway.unwrap_or_else(|| self.add_gateway())),
        };
        self.peers.push(Peer::new(config, gateway));
        Ok(PeerId(self.peers.len() - 1))
    }

    /// Adds an application server.
    pub fn add_application_server(
        &mut self,
        config: ApplicationServerConfig,
    ) -> Result<AsId, ConfigError> {
        self.check_network(config.network)?;
        if let Some(context) = config.routing_context
            && self.contexts.contains_key(&context)
        {
            return Err(ConfigError::RoutingContext(context));
        }
        self.insert_application_server(config, false)
            .ok_or(ConfigError::TooMany)
    }

    /// Makes a peer an ASP of an application server, or us at this peer, as [`ServedBy`] says.
    pub fn add_member(
        &mut self,
        peer: PeerId,
        application_server: AsId,
        config: MemberConfig,
    ) -> Result<(), ConfigError> {
        let server = self.application_servers.get_mut(application_server.0);
        let server = server.and_then(Option::as_mut);
        let server = server.ok_or(ConfigError::ApplicationServer(application_server))?;
        let state = self.peers.get_mut(peer.0).ok_or(ConfigError::Peer(peer))?;
        let served_by = server.config.served_by;
        // The routing context of a key that we register is the peer's to tell.
        let context = server
            .config
            .routing_context
            .filter(|_| config.registers.is_none());
        if let Some(context) = context {
            state.contexts.insert(context, application_server);
        }
        if served_by.has_peers() {
            server.add(peer);
        }
        let membership = Membership {
            routing_context: context,
            our_state: AspState::Down,
            wants_active: served_by.has_us() && config.activation == Activation::Immediate,
            is_withdrawn: false,
            config,
            is_registered: false,
            is_refused: false,
        };
        state.members.insert(application_server, membership);
        Ok(())
    }

    /// Adds a route.
    pub fn add_route(&mut self, network: NetworkId, route: Route) -> Result<(), ConfigError> {
        match route.via {
            Via::As(server) if self.server(server).is_none() => {
                return Err(ConfigError::ApplicationServer(server));
            }
            Via::Sg(gateway) if gateway.0 >= self.gateways.len() => {
                return Err(ConfigError::Gateway(gateway));
            }
            _ => {}
        }
        let destinations = self.destinations.get_mut(network.0);
        destinations
            .ok_or(ConfigError::Network(network))?
            .add_route(route);
        Ok(())
    }

    /// An association with the peer is there, with so many streams towards it (SCTP's COMMUNICATION UP).
    pub fn association_up(&mut self, now: Instant, peer: PeerId, outbound_streams: u16) {
        let Some(state) = self.peers.get_mut(peer.0) else {
            return;
        };
        state.outbound_streams = Some(outbound_streams);
        state.last_heard = Some(now);
        if outbound_streams < 2 {
            self.manage(ManagementIndication::NoDataStream(peer));
        }
        if let Some(t_beat) = self.config.t_beat {
            self.timers.set(Timer::Beat(peer), now + t_beat);
        }
        self.pursue(now, peer);
    }

    /// The association is gone (COMMUNICATION LOST, or SHUTDOWN COMPLETE): all states at both ends are down.
    pub fn association_down(&mut self, now: Instant, peer: PeerId) {
        self.lose(now, peer);
        self.announce();
    }

    /// The peer has restarted the association: it knows nothing of what was (section 4.3.3).
    pub fn association_restarted(&mut self, now: Instant, peer: PeerId, outbound_streams: u16) {
        self.manage(ManagementIndication::Restarted(peer));
        self.association_down(now, peer);
        self.association_up(now, peer, outbound_streams);
    }

    /// The association is congested, or no longer: the user is told about all that it leads to (section 1.4.6).
    pub fn association_congested(&mut self, peer: PeerId, is_congested: bool) {
        self.report_congestion(peer, is_congested);
    }

    /// Takes a message from a peer.
    pub fn handle_message(&mut self, now: Instant, peer: PeerId, stream: u16, bytes: &Bytes) {
        let Some(state) = self.peers.get_mut(peer.0) else {
            return;
        };
        state.last_heard = Some(now);
        let outcome = match Message::read(bytes) {
            Ok(message) => {
                self.statistics.count_received(message.kind());
                self.dispatch(now, peer, stream, message)
            }
            // No Error about an Error (section 3.8.1).
            Err(_) if bytes.get(2..4) == Some(&[0, 0]) => {
                self.statistics
                    .count_dropped(DropReason::UnreadableError, 1);
                Ok(())
            }
            Err(error) => Err(ErrorMessage {
                diagnostic: about_kind(&error).then(|| head(bytes, DIAGNOSTIC_LENGTH)),
                ..ErrorMessage::new(error.error_code())
            }),
        };
        if let Err(error) = outcome {
            self.refuse(peer, error, bytes);
        }
        self.announce();
    }

    /// When [`Self::handle_timeout`] is next due.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(timer) = self.timers.take_expired(now) {
            match timer {
                Timer::Acknowledgement(peer) => self.ask_again(now, peer),
                Timer::Beat(peer) => self.beat(now, peer),
                Timer::Recovery(server) => self.give_up_recovery(server),
                Timer::Audit(gateway) => self.audit_gateway(now, gateway),
            }
            self.announce();
        }
    }

    /// The next thing to do or to tell. To be called until there is none after each input.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn dispatch(
        &mut self,
        now: Instant,
        peer: PeerId,
        stream: u16,
        message: Message,
    ) -> Result<(), ErrorMessage> {
        let Some(state) = self.peers.get(peer.0) else {
            return Ok(());
        };
        let role = state.config.role;
        let kind = message.kind();
        if !is_right_stream(kind, stream) {
            return Err(ErrorMessage::new(ErrorCode::INVALID_STREAM_IDENTIFIER));
        }
        if !is_expected(kind, role) {
            return Err(ErrorMessage {
                routing_contexts: routing_contexts(&message),
                ..ErrorMessage::new(ErrorCode::UNEXPECTED_MESSAGE)
            });
        }
        match message {
            Message::Error(error) => self.on_error(now, peer, &error),
            Message::Notify(notify) => self.on_notify(now, peer, &notify)?,
            Message::Data(data) => self.on_data(now, peer, data)?,
            Message::Duna(it) => self.on_status(now, peer, it, Availability::Unavailable)?,
            Message::Dava(it) => self.on_status(now, peer, it, Availability::Available)?,
            Message::Drst(it) => self.on_status(now, peer, it, Availability::Restricted)?,
            Message::Daud(it) => self.on_audit(peer, it)?,
            Message::Scon(it) => self.on_congestion(peer, it)?,
            Message::Dupu(it) => self.on_user_part(peer, it)?,
            Message::AspUp(up) => self.on_asp_up(now, peer, up)?,
            Message::AspDown(_) => self.on_asp_down(now, peer),
            Message::AspActive(active) => self.on_asp_active(now, peer, active)?,
            Message::AspInactive(inactive) => self.on_asp_inactive(now, peer, inactive)?,
            Message::AspUpAck(_) => self.on_asp_up_ack(now, peer)?,
            Message::AspDownAck(_) => self.on_asp_down_ack(now, peer),
            Message::AspActiveAck(active) => {
                self.on_asp_active_ack(now, peer, &active.routing_contexts);
            }
            Message::AspInactiveAck(inactive) => {
                self.on_asp_inactive_ack(now, peer, &inactive.routing_contexts);
            }
            // A heartbeat is answered in any state, as the peer may be ASP-DOWN.
            Message::Beat(data) => self.send(peer, 0, &Message::BeatAck(data)),
            // That it has come is enough.
            Message::BeatAck(_) => {}
            Message::RegReq(keys) => self.on_registration_request(now, peer, keys)?,
            Message::RegRsp(results) => self.on_registration_response(now, peer, &results)?,
            Message::DeregReq(contexts) => self.on_deregistration_request(now, peer, &contexts)?,
            Message::DeregRsp(results) => self.on_deregistration_response(now, peer, &results),
        }
        Ok(())
    }

    fn send(&mut self, peer: PeerId, stream: u16, message: &Message) {
        let Some(state) = self.peers.get(peer.0) else {
            return;
        };
        if state.outbound_streams.is_none() {
            return;
        }
        match message.write() {
            Ok(bytes) => {
                self.statistics.count_sent(message.kind());
                self.outputs.push_back(Output::Send {
                    peer,
                    stream,
                    message: bytes,
                });
            }
            Err(_) => self.statistics.count_dropped(DropReason::TooLong, 1),
        }
    }

    /// Answers a message with an Error, and tells the management.
    fn refuse(&mut self, peer: PeerId, error: ErrorMessage, offending: &Bytes) {
        let diagnostic = error
            .diagnostic
            .unwrap_or_else(|| head(offending, MAX_DIAGNOSTIC_LENGTH));
        let error = ErrorMessage {
            diagnostic: Some(diagnostic),
            ..error
        };
        self.complain(peer, error);
    }

    /// Sends an Error, and tells the management.
    fn complain(&mut self, peer: PeerId, error: ErrorMessage) {
        self.statistics.refused += 1;
        let code = error.code;
        self.send(peer, 0, &Message::Error(error));
        self.manage(ManagementIndication::Refused { peer, code });
    }

    fn manage(&mut self, indication: ManagementIndication) {
        self.outputs.push_back(Output::Management(indication));
    }

    fn lose(&mut self, now: Instant, peer: PeerId) {
        self.report_congestion(peer, false);
        self.peer_fails(now, peer);
        self.we_are_down(now, peer);
        if let Some(state) = self.peers.get_mut(peer.0) {
            state.outbound_streams = None;
        }
        self.timers.cancel(Timer::Beat(peer));
    }

    /// T(beat): the next heartbeat, or the end of a peer that has been silent for twice as long (section 4.3.4.6).
    fn beat(&mut self, now: Instant, peer: PeerId) {
        let (Some(t_beat), Some(state)) = (self.config.t_beat, self.peers.get_mut(peer.0)) else {
            return;
        };
        let is_silent = state
            .last_heard
            .is_some_and(|heard| now >= heard + 2 * t_beat);
        if is_silent {
            self.outputs.push_back(Output::Abort(peer));
            self.lose(now, peer);
            return;
        }
        state.beats += 1;
        let data = Bytes::copy_from_slice(&state.beats.to_be_bytes());
        self.timers.set(Timer::Beat(peer), now + t_beat);
        self.send(peer, 0, &Message::Beat(Some(data)));
    }

    /// The lowest number that no application server has. So numbers, and the names that are made of them, are as many as
    /// there ever were application servers at a time.
    fn next_application_server(&self) -> AsId {
        let free = self.free.first().copied();
        free.unwrap_or(AsId(self.application_servers.len()))
    }

    fn insert_application_server(
        &mut self,
        config: ApplicationServerConfig,
        is_dynamic: bool,
    ) -> Option<AsId> {
        let whose = self.next_application_server();
        if whose.0 >= self.config.max_application_servers {
            return None;
        }
        self.free.remove(&whose);
        if let Some(context) = config.routing_context {
            self.contexts.insert(context, whose);
        }
        self.keys.insert(config.network, &config.routing_key, whose);
        if let Some(destinations) = self.destinations.get_mut(config.network.0) {
            for selection in &config.routing_key {
                match config.served_by.has_peers() {
                    true => destinations.add_route(own_route(selection, whose)),
                    false => destinations.add_own(selection.traffic.dpc),
                }
            }
        }
        let server = Some(ApplicationServer::new(config, is_dynamic));
        match self.application_servers.get_mut(whose.0) {
            Some(place) => *place = server,
            None => self.application_servers.push(server),
        }
        Some(whose)
    }

    fn remove_application_server(&mut self, whose: AsId) {
        let Some(server) = self
            .application_servers
            .get_mut(whose.0)
            .and_then(Option::take)
        else {
            return;
        };
        self.statistics
            .count_dropped(DropReason::ServerGone, server.waiting.len());
        // It serves its destinations no more, and has its routes yet: that is told (section 4.5.2).
        self.via_changed(Via::As(whose));
        let config = server.config;
        self.free.insert(whose);
        if let Some(context) = config.routing_context {
            self.contexts.remove(&context);
        }
        self.timers.cancel(Timer::Recovery(whose));
        self.keys.remove(config.network, &config.routing_key, whose);
        if let Some(destinations) = self.destinations.get_mut(config.network.0) {
            for selection in &config.routing_key {
                destinations.remove_route(own_route(selection, whose));
            }
        }
        // Where another route leads there, it counts again.
        let dpcs = config.routing_key.iter();
        let dpcs = dpcs.map(|it| canonical(it.traffic.dpc));
        self.report(config.network, dpcs.collect());
    }

    fn server(&self, application_server: AsId) -> Option<&ApplicationServer> {
        self.application_servers.get(application_server.0)?.as_ref()
    }

    fn server_mut(&mut self, application_server: AsId) -> Option<&mut ApplicationServer> {
        self.application_servers
            .get_mut(application_server.0)?
            .as_mut()
    }

    /// The network of a message (section 3.3.1); without appearance the peer's.
    fn network(&self, peer: PeerId, appearance: Option<u32>) -> Result<NetworkId, ErrorMessage> {
        let Some(appearance) = appearance else {
            let peer = self.peers.get(peer.0);
            return Ok(peer.map_or(NetworkId(0), |peer| peer.config.network));
        };
        let mut networks = self.config.networks.iter();
        let found = networks.position(|network| network.appearance == Some(appearance));
        found.map(NetworkId).ok_or(ErrorMessage {
            network_appearance: Some(appearance),
            ..ErrorMessage::new(ErrorCode::INVALID_NETWORK_APPEARANCE)
        })
    }

    fn appearance(&self, network: NetworkId) -> Option<u32> {
        self.config.networks.get(network.0)?.appearance
    }

    fn check_network(&self, network: NetworkId) -> Result<(), ConfigError> {
        match network.0 < self.config.networks.len() {
            true => Ok(()),
            false => Err(ConfigError::Network(network)),
        }
    }
}

/// The route that a routing key is by itself: it comes before all others.
fn own_route(selection: &KeySelection, whose: AsId) -> Route {
    Route {
        destination: selection.traffic.dpc,
        via: Via::As(whose),
        priority: 0,
    }
}

fn about_kind(error: &ReadError) -> bool {
    matches!(error, ReadError::Class(_) | ReadError::Type { .. })
}

fn head(bytes: &Bytes, length: usize) -> Bytes {
    bytes.slice(..bytes.len().min(length))
}
