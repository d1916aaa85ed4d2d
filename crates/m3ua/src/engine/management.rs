//! SS7 network management: what SGs say of destinations, what the network behind us says, audits, and what users and ASPs
//! are told (section 4.5).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use super::SignallingProcess;
use super::config::{AsId, NetworkId, PeerId, SgId, Via};
use super::destinations::{Availability, Declared, best};
use super::output::{AspState, MtpIndication, MtpStatus, Output};
use super::point_code_map::canonical;
use super::timers::Timer;
use crate::message::{
    Destinations, ErrorCode, ErrorMessage, Message, ServiceIndicator, SignallingCongestion,
    UnavailabilityCause, UserPartUnavailable,
};
use crate::{MaskedPointCode, PointCode};

/// Point codes in a message that we send.
const MAX_AFFECTED: usize = 64;

/// Destinations of which an ASP that becomes active is told that they are not available.
const MAX_TOLD: usize = 1_000;

/// What ASPs are told of destinations.
#[derive(Clone, Copy, Debug)]
enum News {
    Availability(Availability),
    Congestion(Option<u8>),
}

impl SignallingProcess {
    /// MTP-PAUSE, MTP-RESUME or a restriction, from the network behind us at an SGP: the ASPs are told.
    pub fn set_availability(
        &mut self,
        network: NetworkId,
        affected: &[MaskedPointCode],
        availability: Availability,
    ) {
        self.declare(network, affected, |it| it.availability = availability);
        self.tell_asps(network, affected, News::Availability(availability), &[]);
    }

    /// MTP-STATUS from the network behind us: congestion, with a level where the network has some.
    pub fn set_congestion(
        &mut self,
        network: NetworkId,
        affected: &[MaskedPointCode],
        level: Option<u8>,
    ) {
        self.declare(network, affected, |it| it.congestion = level);
        self.tell_asps(network, affected, News::Congestion(level), &[]);
    }

    /// MTP-STATUS from the network behind us: a user part is not there.
    pub fn user_part_unavailable(
        &mut self,
        network: NetworkId,
        affected: PointCode,
        user: ServiceIndicator,
        cause: UnavailabilityCause,
    ) {
        for (peer, contexts) in self.concerned_asps(network, &[]) {
            let dupu = UserPartUnavailable {
                network_appearance: self.appearance(network),
                routing_contexts: contexts,
                affected,
                user,
                cause,
                info: None,
            };
            self.send(peer, 0, &Message::Dupu(dupu));
        }
    }

    /// Asks a peer for the state of destinations (DAUD, section 4.5.3).
    pub fn audit(&mut self, peer: PeerId, network: NetworkId, affected: &[MaskedPointCode]) {
        let Some(state) = self.peers.get(peer.0) else {
            return;
        };
        if !state.we_are_up {
            return;
        }
        let active = state.members.iter().filter(|(server, membership)| {
            membership.our_state == AspState::Active
                && self
                    .server(**server)
                    .is_some_and(|it| it.config.network == network)
        });
        let active: Vec<AsId> = active.map(|(server, _)| *server).collect();
        for affected in affected.chunks(MAX_AFFECTED) {
            let daud = self.about(peer, network, &active, affected);
            self.send(peer, 0, &Message::Daud(daud));
        }
    }

    /// Whether a destination can be reached, by routing keys or by routes.
    pub fn availability(&self, network: NetworkId, destination: MaskedPointCode) -> Availability {
        let destinations = self.destinations.get(network.0);
        let routes = destinations
            .map(|it| it.routes(destination))
            .unwrap_or_default();
        best(routes, |via| self.availability_via(via, destination))
    }

    pub(super) fn on_status(
        &mut self,
        now: Instant,
        peer: PeerId,
        message: Destinations,
        availability: Availability,
    ) -> Result<(), ErrorMessage> {
        let (gateway, network) = self.check_status(peer, &message)?;
        let max = self.config.max_destinations;
        let mut ranges = BTreeSet::new();
        // What is said twice is looked at once, however many destinations are inside.
        let affected: BTreeSet<_> = message.affected.into_iter().map(canonical).collect();
        for range in affected {
            ranges.extend(self.known_inside(network, range));
            if self
                .destinations
                .get(network.0)
                .is_some_and(|it| !it.routes(range).is_empty())
            {
                ranges.insert(range);
            }
            if let Some(gateway) = self.gateways.get_mut(gateway.0) {
                let is_kept = gateway.set(range, availability, max);
                self.statistics.forgotten += u64::from(!is_kept);
            }
        }
        self.update_audit(now, gateway);
        self.report(network, ranges);
        Ok(())
    }

    pub(super) fn on_congestion(
        &mut self,
        peer: PeerId,
        message: SignallingCongestion,
    ) -> Result<(), ErrorMessage> {
        let SignallingCongestion {
            destinations,
            level,
            ..
        } = message;
        let network = match self.peers.get(peer.0).and_then(|peer| peer.gateway) {
            Some(_) => {
                let (gateway, network) = self.check_status(peer, &destinations)?;
                if let Some(gateway) = self.gateways.get_mut(gateway.0) {
                    let congestion = &mut gateway.congestion;
                    for range in &destinations.affected {
                        let has_room = congestion.len() < self.config.max_destinations
                            || congestion.get(*range).is_some();
                        match level {
                            Some(level @ 1..) if has_room => congestion.insert(*range, level),
                            Some(1..) => self.statistics.forgotten += 1,
                            _ => congestion.remove(*range),
                        }
                    }
                }
                network
            }
            // From an ASP: for the network behind us (section 1.4.6).
            None => self.network(peer, destinations.network_appearance)?,
        };
        self.status(network, destinations.affected, MtpStatus::Congestion(level));
        Ok(())
    }

    pub(super) fn on_user_part(
        &mut self,
        peer: PeerId,
        message: UserPartUnavailable,
    ) -> Result<(), ErrorMessage> {
        let affected = vec![message.affected.into()];
        let about = Destinations {
            network_appearance: message.network_appearance,
            routing_contexts: message.routing_contexts,
            affected: affected.clone(),
            info: None,
        };
        let (_, network) = self.check_status(peer, &about)?;
        let status = MtpStatus::UserPartUnavailable {
            user: message.user,
            cause: message.cause,
        };
        self.status(network, affected, status);
        Ok(())
    }

    /// DAUD: each destination's congestion level, if it is known, and its availability (sections 4.5.3 and 5.4).
    pub(super) fn on_audit(
        &mut self,
        peer: PeerId,
        message: Destinations,
    ) -> Result<(), ErrorMessage> {
        let network = self.network(peer, message.network_appearance)?;
        if self.peers.get(peer.0).is_none_or(|peer| !peer.is_up) {
            return Err(ErrorMessage {
                routing_contexts: message.routing_contexts,
                ..ErrorMessage::new(ErrorCode::UNEXPECTED_MESSAGE)
            });
        }
        self.check_contexts(peer, &message.routing_contexts)?;
        // Many destinations are answered in few messages.
        let mut by_availability: BTreeMap<Availability, Vec<MaskedPointCode>> = BTreeMap::new();
        let mut by_level: BTreeMap<u8, Vec<MaskedPointCode>> = BTreeMap::new();
        for range in message.affected {
            let destinations = self.destinations.get(network.0);
            let declared = destinations.and_then(|it| it.declared.covering(range));
            // By routes in a gateway between M3UA networks; of the network behind us, what it says. Nobody knows: DUNA.
            let declared = declared.copied().unwrap_or(Declared {
                availability: self.availability(network, range),
                congestion: None,
            });
            by_availability
                .entry(declared.availability)
                .or_default()
                .push(range);
            if declared.availability.is_reachable()
                && let Some(level) = declared.congestion
            {
                by_level.entry(level).or_default().push(range);
            }
        }
        let about = |affected: &[MaskedPointCode]| Destinations {
            network_appearance: message.network_appearance,
            routing_contexts: message.routing_contexts.clone(),
            affected: affected.to_vec(),
            info: None,
        };
        for (level, ranges) in by_level {
            for affected in ranges.chunks(MAX_AFFECTED) {
                let scon = SignallingCongestion {
                    destinations: about(affected),
                    concerned: None,
                    level: Some(level),
                };
                self.send(peer, 0, &Message::Scon(scon));
            }
        }
        for (availability, ranges) in by_availability {
            for affected in ranges.chunks(MAX_AFFECTED) {
                self.send(peer, 0, &status_message(availability, about(affected)));
            }
        }
        Ok(())
    }

    /// An ASP becomes active in these application servers: what is not available, restricted or congested (section 4.5.1).
    pub(super) fn tell_unavailable(&mut self, peer: PeerId, servers: &[AsId]) {
        let networks = servers
            .iter()
            .filter_map(|it| Some(self.server(*it)?.config.network));
        let networks: BTreeSet<NetworkId> = networks.collect();
        for network in networks {
            let of_network = |it: &&AsId| {
                self.server(**it)
                    .is_some_and(|it| it.config.network == network)
            };
            let servers: Vec<AsId> = servers.iter().filter(of_network).copied().collect();
            let Some(destinations) = self.destinations.get(network.0) else {
                continue;
            };
            let (mut unavailable, mut restricted) = (Vec::new(), Vec::new());
            let mut congested = Vec::new();
            for range in destinations.declared.ranges().into_iter().take(MAX_TOLD) {
                let Some(declared) = destinations.declared.get(range).copied() else {
                    continue;
                };
                match declared.availability {
                    Availability::Unavailable => unavailable.push(range),
                    Availability::Restricted => restricted.push(range),
                    Availability::Available => {}
                }
                if let Some(level @ 1..) = declared.congestion {
                    congested.push((range, level));
                }
            }
            if self.config.relays {
                let activated: BTreeSet<AsId> = servers.iter().copied().collect();
                let own = |range: &MaskedPointCode| {
                    let mut routes = destinations.routes(*range).iter();
                    routes
                        .any(|it| matches!(it.via, Via::As(server) if activated.contains(&server)))
                };
                let gone = destinations.all().into_iter().filter(|range| {
                    !self.availability(network, *range).is_reachable() && !own(range)
                });
                unavailable.extend(gone.take(MAX_TOLD));
            }
            for (availability, ranges) in [
                (Availability::Unavailable, unavailable),
                (Availability::Restricted, restricted),
            ] {
                for affected in ranges.chunks(MAX_AFFECTED) {
                    let about = self.about(peer, network, &servers, affected);
                    self.send(peer, 0, &status_message(availability, about));
                }
            }
            for (range, level) in congested {
                let scon = SignallingCongestion {
                    destinations: self.about(peer, network, &servers, &[range]),
                    concerned: None,
                    level: Some(level),
                };
                self.send(peer, 0, &Message::Scon(scon));
            }
        }
    }

    /// We have become active at an SGP, or are no longer.
    pub(super) fn update_gateway(&mut self, peer: PeerId) {
        let Some(state) = self.peers.get(peer.0) else {
            return;
        };
        let Some(gateway_id) = state.gateway else {
            return;
        };
        let is_active = state.has_us_active();
        let Some(gateway) = self.gateways.get_mut(gateway_id.0) else {
            return;
        };
        let was_usable = !gateway.active.is_empty();
        match (gateway.active.binary_search(&peer), is_active) {
            (Ok(position), false) => {
                gateway.active.remove(position);
            }
            (Err(position), true) => gateway.active.insert(position, peer),
            _ => return,
        }
        gateway.by_sls.share(&gateway.active);
        let is_usable = !gateway.active.is_empty();
        if is_usable == was_usable {
            return;
        }
        if !is_usable {
            // What it has said is out of date when it comes back.
            gateway.status = Arc::default();
            gateway.congestion.clear();
            self.timers.cancel(Timer::Audit(gateway_id));
        }
        self.via_changed(Via::Sg(gateway_id));
    }

    /// An application server or an SG can be used, or no longer: the destinations behind it may have changed.
    pub(super) fn via_changed(&mut self, via: Via) {
        for network in (0..self.destinations.len()).map(NetworkId) {
            let Some(destinations) = self.destinations.get(network.0) else {
                continue;
            };
            let mut ranges = BTreeSet::new();
            for range in destinations.reached_by(via) {
                ranges.extend(self.known_inside(network, range));
                ranges.insert(range);
            }
            self.report(network, ranges);
        }
    }

    /// The association with a peer is congested, or no longer. A destination is congested as long as any way to it is.
    pub(super) fn report_congestion(&mut self, peer: PeerId, is_congested: bool) {
        let Some(state) = self.peers.get_mut(peer.0) else {
            return;
        };
        if std::mem::replace(&mut state.is_congested, is_congested) == is_congested {
            return;
        }
        let mut ways: Vec<Via> = state.ways().collect();
        for other in self.peers.iter().filter(|it| it.is_congested) {
            if !is_congested {
                ways.retain(|way| !other.ways().any(|it| it == *way));
            }
        }
        let level = match is_congested {
            true => None,
            false => Some(0),
        };
        for network in (0..self.destinations.len()).map(NetworkId) {
            let Some(destinations) = self.destinations.get(network.0) else {
                continue;
            };
            let affected: BTreeSet<_> = ways
                .iter()
                .flat_map(|via| destinations.reached_by(*via))
                .collect();
            if !affected.is_empty() {
                let affected = affected.into_iter().collect();
                self.status(network, affected, MtpStatus::Congestion(level));
            }
        }
    }

    /// The time for an audit: of all destinations that the SG has said are not available.
    pub(super) fn audit_gateway(&mut self, now: Instant, gateway: SgId) {
        let Some(state) = self.gateways.get(gateway.0) else {
            return;
        };
        let Some(peer) = state.active.first().copied() else {
            return;
        };
        let mut ranges: BTreeSet<_> = state.status.ranges().into_iter().collect();
        ranges.extend(state.congestion.ranges());
        let ranges: Vec<_> = ranges.into_iter().collect();
        let network = self.peers.get(peer.0).map(|peer| peer.config.network);
        if let Some(network) = network {
            self.audit(peer, network, &ranges);
        }
        self.update_audit(now, gateway);
    }

    /// The next audit is a while after something was said (section 4.5.3).
    fn update_audit(&mut self, now: Instant, gateway: SgId) {
        let (Some(t_audit), Some(state)) = (self.config.t_audit, self.gateways.get(gateway.0))
        else {
            return;
        };
        match state.status.len() + state.congestion.len() {
            0 => self.timers.cancel(Timer::Audit(gateway)),
            _ => self.timers.set(Timer::Audit(gateway), now + t_audit),
        }
    }

    /// The destinations inside a range that may differ from the rest of it: those with routes of their own, those of which an
    /// SG has said something, and those of which the user knows something.
    fn known_inside(
        &self,
        network: NetworkId,
        range: MaskedPointCode,
    ) -> BTreeSet<MaskedPointCode> {
        let of_network = self.destinations.get(network.0).into_iter();
        let of_network = of_network.flat_map(|it| {
            let reported = it.reported.inside(range);
            it.routes_inside(range).into_iter().chain(reported)
        });
        let of_gateways = self.gateways.iter().flat_map(|it| it.status.inside(range));
        of_network.chain(of_gateways).collect()
    }

    /// Compares what can be reached with what the user knows, and tells the difference. What is told of a range is told of all
    /// inside, so it comes before what differs there. What was told of a part is told of it again.
    pub(super) fn report(&mut self, network: NetworkId, ranges: BTreeSet<MaskedPointCode>) {
        let Some(destinations) = self.destinations.get(network.0) else {
            return;
        };
        let known = ranges.into_iter().map(|range| {
            let was = destinations.reported.covering(range).copied();
            (range, was.unwrap_or_default())
        });
        let mut known: Vec<(MaskedPointCode, Availability)> = known.collect();
        known.sort_by_key(|(range, _)| Reverse(range.wildcards()));
        let mut news = Vec::new();
        for (range, was) in known {
            let is = self.availability(network, range);
            let Some(destinations) = self.destinations.get_mut(network.0) else {
                return;
            };
            let reported = &mut destinations.reported;
            let otherwise = reported.covering(range).copied().unwrap_or_default();
            if is != was || is != otherwise {
                news.push((range, is));
            }
            if is == otherwise {
                continue;
            }
            // Only what differs from the range around it is kept, so that peers cannot make this grow.
            for inside in reported.inside(range) {
                reported.remove(inside);
            }
            if is != reported.covering(range).copied().unwrap_or_default() {
                reported.insert(range, is);
            }
        }
        news.sort_by_key(|(range, is)| (Reverse(range.wildcards()), *is));
        for same in news.chunk_by(|(_, a), (_, b)| a == b) {
            let Some((_, availability)) = same.first().copied() else {
                continue;
            };
            let affected: Vec<MaskedPointCode> = same.iter().map(|(range, _)| *range).collect();
            let indication = match availability.is_reachable() {
                true => MtpIndication::Resume {
                    network,
                    affected: affected.clone(),
                },
                false => MtpIndication::Pause {
                    network,
                    affected: affected.clone(),
                },
            };
            self.outputs.push_back(Output::Mtp(indication));
            if self.config.relays {
                self.relay_availability(network, affected, availability);
            }
        }
    }

    /// The ASPs of all others are told; those of an application server are not told of themselves.
    fn relay_availability(
        &mut self,
        network: NetworkId,
        affected: Vec<MaskedPointCode>,
        availability: Availability,
    ) {
        let Some(destinations) = self.destinations.get(network.0) else {
            return;
        };
        let owners = |range: &MaskedPointCode| -> Vec<AsId> {
            let routes = destinations.routes(*range).iter();
            let servers = routes.filter_map(|route| match route.via {
                Via::As(server) => Some(server),
                Via::Sg(_) => None,
            });
            servers.collect()
        };
        let owned: Vec<_> = affected
            .iter()
            .map(|range| (owners(range), *range))
            .collect();
        for same in owned.chunk_by(|(a, _), (b, _)| a == b) {
            let ranges: Vec<_> = same.iter().map(|(_, range)| *range).collect();
            let except = same
                .first()
                .map(|(owners, _)| owners.clone())
                .unwrap_or_default();
            self.tell_asps(network, &ranges, News::Availability(availability), &except);
        }
    }

    fn tell_asps(
        &mut self,
        network: NetworkId,
        affected: &[MaskedPointCode],
        news: News,
        except: &[AsId],
    ) {
        for (peer, contexts) in self.concerned_asps(network, except) {
            for affected in affected.chunks(MAX_AFFECTED) {
                let about = Destinations {
                    network_appearance: self.appearance(network),
                    routing_contexts: contexts.clone(),
                    affected: affected.to_vec(),
                    info: None,
                };
                let message = match news {
                    News::Availability(availability) => status_message(availability, about),
                    News::Congestion(level) => Message::Scon(SignallingCongestion {
                        destinations: about,
                        concerned: None,
                        level,
                    }),
                };
                self.send(peer, 0, &message);
            }
        }
    }

    /// The ASPs that are active in a network, with the routing contexts of the application servers in which they are.
    fn concerned_asps(&self, network: NetworkId, except: &[AsId]) -> Vec<(PeerId, Vec<u32>)> {
        let mut concerned = Vec::new();
        for peer in self.peers() {
            let Some(state) = self.peers.get(peer.0) else {
                continue;
            };
            let active = state.members.keys().copied().filter(|id| {
                !except.contains(id)
                    && self.server(*id).is_some_and(|it| {
                        it.config.network == network && it.asp_state(peer) == AspState::Active
                    })
            });
            let active: Vec<AsId> = active.collect();
            if !active.is_empty() {
                concerned.push((peer, self.contexts_of(peer, &active)));
            }
        }
        concerned
    }

    fn about(
        &self,
        peer: PeerId,
        network: NetworkId,
        servers: &[AsId],
        affected: &[MaskedPointCode],
    ) -> Destinations {
        Destinations {
            network_appearance: self.appearance(network),
            routing_contexts: self.contexts_of(peer, servers),
            affected: affected.to_vec(),
            info: None,
        }
    }

    fn declare(
        &mut self,
        network: NetworkId,
        affected: &[MaskedPointCode],
        change: impl Fn(&mut Declared),
    ) {
        let max = self.config.max_destinations;
        if let Some(destinations) = self.destinations.get_mut(network.0) {
            for range in affected {
                let is_kept = destinations.declare(*range, max, &change);
                self.statistics.forgotten += u64::from(!is_kept);
            }
        }
    }

    fn status(&mut self, network: NetworkId, affected: Vec<MaskedPointCode>, status: MtpStatus) {
        self.outputs.push_back(Output::Mtp(MtpIndication::Status {
            network,
            affected,
            status,
        }));
    }

    /// The SG and network that a message about destinations is of.
    fn check_status(
        &self,
        peer: PeerId,
        message: &Destinations,
    ) -> Result<(SgId, NetworkId), ErrorMessage> {
        let network = self.network(peer, message.network_appearance)?;
        self.check_contexts(peer, &message.routing_contexts)?;
        let state = self.peers.get(peer.0).filter(|peer| peer.we_are_up);
        let gateway = state.and_then(|peer| peer.gateway);
        let gateway = gateway.ok_or_else(|| ErrorMessage {
            routing_contexts: message.routing_contexts.clone(),
            ..ErrorMessage::new(ErrorCode::UNEXPECTED_MESSAGE)
        })?;
        Ok((gateway, network))
    }

    fn check_contexts(&self, peer: PeerId, contexts: &[u32]) -> Result<(), ErrorMessage> {
        let known = self.peers.get(peer.0).map(|peer| &peer.contexts);
        let is_unknown = |it: &u32| known.is_none_or(|known| !known.contains_key(it));
        let unknown: Vec<u32> = contexts.iter().copied().filter(is_unknown).collect();
        match unknown.is_empty() {
            true => Ok(()),
            false => Err(ErrorMessage {
                routing_contexts: unknown,
                ..ErrorMessage::new(ErrorCode::INVALID_ROUTING_CONTEXT)
            }),
        }
    }
}

fn status_message(availability: Availability, about: Destinations) -> Message {
    match availability {
        Availability::Unavailable => Message::Duna(about),
        Availability::Restricted => Message::Drst(about),
        Availability::Available => Message::Dava(about),
    }
}
