//! What a process shows of itself: states, and what is configured.

use std::sync::Arc;

use super::SignallingProcess;
use super::config::{ApplicationServerConfig, AsId, Network, PeerConfig, PeerId};
use super::output::{AsState, AspState};
use super::reachability::Reachability;
use super::statistics::Statistics;

impl SignallingProcess {
    /// The state of a peer in an application server (M-ASP_STATUS): its own where peers are the ASPs, ours where we are.
    pub fn asp_state(&self, peer: PeerId, application_server: AsId) -> AspState {
        let server = self.server(application_server);
        match server {
            Some(server) if server.config.served_by.has_peers() => server.asp_state(peer),
            _ => self.our_state(peer, application_server),
        }
    }

    /// Our own state in an application server at a peer.
    pub fn our_state(&self, peer: PeerId, application_server: AsId) -> AspState {
        let membership = self.peers.get(peer.0);
        let membership = membership.and_then(|peer| peer.members.get(&application_server));
        membership.map(|it| it.our_state).unwrap_or_default()
    }

    /// The state of an application server that peers serve (M-AS_STATUS).
    pub fn as_state(&self, application_server: AsId) -> AsState {
        self.server(application_server)
            .map(|server| server.state())
            .unwrap_or_default()
    }

    /// Messages that wait in a pending application server.
    pub fn waiting(&self, application_server: AsId) -> usize {
        self.server(application_server)
            .map_or(0, |server| server.waiting.len())
    }

    /// The configuration of an application server, with its routing context; none if it is gone.
    pub fn application_server(&self, application_server: AsId) -> Option<&ApplicationServerConfig> {
        self.server(application_server).map(|server| &server.config)
    }

    /// All application servers, configured and registered.
    pub fn application_servers(&self) -> impl Iterator<Item = AsId> {
        let all = self.application_servers.iter().enumerate();
        all.filter_map(|(number, server)| server.as_ref().map(|_| AsId(number)))
    }

    /// The configuration of a peer.
    pub fn peer(&self, peer: PeerId) -> Option<&PeerConfig> {
        self.peers.get(peer.0).map(|peer| &peer.config)
    }

    /// All peers.
    pub fn peers(&self) -> impl Iterator<Item = PeerId> {
        (0..self.peers.len()).map(PeerId)
    }

    /// The application servers that we share with a peer.
    pub fn members(&self, peer: PeerId) -> impl Iterator<Item = AsId> {
        let peer = self.peers.get(peer.0).into_iter();
        peer.flat_map(|peer| peer.members.keys().copied())
    }

    /// How many application servers we share with a peer.
    pub fn member_count(&self, peer: PeerId) -> usize {
        self.peers.get(peer.0).map_or(0, |it| it.members.len())
    }

    /// Whether there is an association with a peer (M-SCTP_STATUS).
    pub fn has_association(&self, peer: PeerId) -> bool {
        self.peers
            .get(peer.0)
            .is_some_and(|peer| peer.outbound_streams.is_some())
    }

    /// Whether the association with a peer is congested.
    pub fn is_congested(&self, peer: PeerId) -> bool {
        self.peers.get(peer.0).is_some_and(|it| it.is_congested)
    }

    /// The networks.
    pub fn networks(&self) -> &[Network] {
        &self.config.networks
    }

    /// The routes, and which destinations can be reached, as it is now.
    pub fn reachability(&self) -> Reachability {
        let servers = self.application_servers.iter().enumerate();
        let usable = servers.filter(|(_, it)| it.as_ref().is_some_and(|it| it.is_usable()));
        Reachability::new(
            self.destinations.iter().map(|it| Arc::clone(&it.routes)),
            self.gateways
                .iter()
                .map(|it| (!it.active.is_empty(), Arc::clone(&it.status))),
            usable.map(|(number, _)| AsId(number)),
        )
    }

    /// Destinations of which an SG, or the network behind us, has said that they are congested.
    pub fn congested_destinations(&self) -> usize {
        let told = self.gateways.iter().map(|it| it.congestion.len());
        let declared = self.destinations.iter().map(|it| it.congested());
        told.chain(declared).sum()
    }

    /// Counts since the start.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }
}
