//! How a process is, at one time: for people, programs and metrics.

use std::net::SocketAddr;

use m3ua::message::Kind;
use m3ua::{
    AspState, Availability, DropReason, MaskedPointCode, NetworkId, PeerRole, ServedBy,
    SignallingProcess, Via,
};
use serde::Serialize;

use crate::configuration::Names;

/// How many application servers, memberships of peers in them, and destinations are listed, of each the first ones.
const MAX_LISTED: usize = 2_000;

/// Counts of the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that did not fit into the queue of their association.
    pub overflows: u64,
    /// Messages that waited for an association when it ended, or when the peer restarted it.
    pub abandoned: u64,
    /// Associations of hosts that are no peers, or of peers that had one.
    pub strangers: u64,
}

/// How a process is.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Status {
    /// Peers, and their states in application servers.
    pub peers: Vec<PeerStatus>,
    /// Application servers, configured and registered.
    pub application_servers: Vec<ApplicationServerStatus>,
    /// Destinations that have routes.
    pub destinations: Vec<DestinationStatus>,
    /// How many destinations there are, by how they are reached.
    pub destinations_by_availability: Vec<Count>,
    /// Destinations of which somebody has said that they are congested.
    pub congested_destinations: usize,
    /// Application servers, memberships and destinations that are not listed.
    pub left_out: usize,
    /// Messages by type.
    pub messages: Vec<MessageCount>,
    /// DATA by destination and user.
    pub traffic: Vec<TrafficCount>,
    /// Messages that were dropped, by reason.
    pub drops: Vec<Count>,
    /// Messages relayed from one peer to another.
    pub relayed: u64,
    /// Messages that were wrong and answered with an Error.
    pub refused: u64,
    /// Associations of hosts that are no peers, or of peers that had one.
    pub strangers: u64,
}

/// A peer.
#[derive(Clone, Debug, Serialize)]
pub struct PeerStatus {
    /// Its name.
    pub name: String,
    /// What it is to us: `asp`, `sgp`, `ipsp-single` or `ipsp-double`.
    pub role: &'static str,
    /// Where its association leads; none: there is no association.
    pub association: Option<SocketAddr>,
    /// Whether the association is congested.
    pub is_congested: bool,
    /// Messages that wait for the association to take them.
    pub queued: usize,
    /// In which state it is in which application server, or we are at it.
    pub states: Vec<AspStatus>,
}

/// A state in an application server.
#[derive(Clone, Debug, Serialize)]
pub struct AspStatus {
    /// The application server.
    pub application_server: String,
    /// The state.
    #[serde(serialize_with = "as_text")]
    pub state: AspState,
}

/// An application server.
#[derive(Clone, Debug, Serialize)]
pub struct ApplicationServerStatus {
    /// Its name.
    pub name: String,
    /// `peers`, `us` or `both`.
    pub served_by: &'static str,
    /// Its routing context.
    pub routing_context: Option<u32>,
    /// Its state; none where peers are not its ASPs.
    #[serde(serialize_with = "as_optional_text")]
    pub state: Option<m3ua::AsState>,
    /// Messages that wait until T(r) expires.
    pub waiting: usize,
}

/// A destination with its routes.
#[derive(Clone, Debug, Serialize)]
pub struct DestinationStatus {
    /// The Network Appearance, if there is one.
    pub network_appearance: Option<u32>,
    /// The point code, with the number of wildcard bits where it has some.
    pub destination: String,
    /// `available`, `restricted` or `unavailable`.
    pub availability: &'static str,
    /// Where the routes lead, with their priorities, the best first.
    pub via: Vec<(String, u8)>,
}

/// Messages of one type.
#[derive(Clone, Debug, Serialize)]
pub struct MessageCount {
    /// The abbreviation of the RFC.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// From peers.
    pub received: u64,
    /// To peers.
    pub sent: u64,
}

/// DATA to one destination, for one user.
#[derive(Clone, Debug, Serialize)]
pub struct TrafficCount {
    /// The Network Appearance, if there is one.
    pub network_appearance: Option<u32>,
    /// The destination; `other` for those beyond the bound.
    pub dpc: String,
    /// The MTP3 user.
    pub si: String,
    /// From peers.
    pub received: u64,
    /// To peers.
    pub sent: u64,
}

/// A count with its name.
#[derive(Clone, Debug, Serialize)]
pub struct Count {
    /// What is counted.
    pub name: &'static str,
    /// How many.
    pub count: u64,
}

/// What the driver knows of the association with a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkStatus {
    pub(crate) remote: SocketAddr,
    pub(crate) queued: usize,
}

impl Status {
    /// Messages that were dropped, for any reason.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().map(|it| it.count).sum()
    }

    /// How an engine is, and its associations by the numbers of the peers.
    pub(crate) fn of(
        engine: &SignallingProcess,
        names: &Names,
        links: &[Option<LinkStatus>],
        counts: &Counts,
    ) -> Status {
        let mut status = Status {
            congested_destinations: engine.congested_destinations(),
            relayed: engine.statistics().relayed,
            refused: engine.statistics().refused,
            strangers: counts.strangers,
            ..Status::default()
        };
        status.list_peers(engine, links);
        status.list_servers(engine);
        status.list_destinations(engine, names);
        status.count_messages(engine);
        status.count_drops(engine, counts);
        status
    }

    fn list_peers(&mut self, engine: &SignallingProcess, links: &[Option<LinkStatus>]) {
        let mut room = MAX_LISTED;
        for peer in engine.peers() {
            let Some(config) = engine.peer(peer) else {
                continue;
            };
            let link = links.get(peer.0).copied().flatten();
            let members = engine.members(peer).count();
            let states = engine.members(peer).take(room).filter_map(|server| {
                Some(AspStatus {
                    application_server: engine.application_server(server)?.name.clone(),
                    state: engine.asp_state(peer, server),
                })
            });
            let states: Vec<AspStatus> = states.collect();
            room -= states.len();
            self.left_out += members - states.len();
            self.peers.push(PeerStatus {
                name: config.name.clone(),
                role: role_name(config.role),
                association: link.map(|it| it.remote),
                is_congested: engine.is_congested(peer),
                queued: link.map_or(0, |it| it.queued),
                states,
            });
        }
    }

    fn list_servers(&mut self, engine: &SignallingProcess) {
        let all = engine.application_servers().count();
        self.left_out += all.saturating_sub(MAX_LISTED);
        for server in engine.application_servers().take(MAX_LISTED) {
            let Some(config) = engine.application_server(server) else {
                continue;
            };
            let (served_by, has_asps) = match config.served_by {
                ServedBy::Peers => ("peers", true),
                ServedBy::Us => ("us", false),
                ServedBy::Both => ("both", true),
            };
            self.application_servers.push(ApplicationServerStatus {
                name: config.name.clone(),
                served_by,
                routing_context: config.routing_context,
                state: has_asps.then(|| engine.as_state(server)),
                waiting: engine.waiting(server),
            });
        }
    }

    fn list_destinations(&mut self, engine: &SignallingProcess, names: &Names) {
        let mut by_availability = [0; 3];
        for (number, network) in engine.networks().iter().enumerate() {
            let id = NetworkId(number);
            for (range, availability) in engine.destinations(id) {
                let place = by_availability.get_mut(availability as usize);
                place.into_iter().for_each(|count| *count += 1);
                if self.destinations.len() >= MAX_LISTED {
                    self.left_out += 1;
                    continue;
                }
                let routes = engine.routes(id, range).iter();
                let via = routes.map(|route| {
                    let name = match route.via {
                        Via::As(server) => engine.application_server(server).map(|it| &*it.name),
                        Via::Sg(gateway) => names.of_gateway(gateway),
                    };
                    (name.unwrap_or_default().to_owned(), route.priority)
                });
                self.destinations.push(DestinationStatus {
                    network_appearance: network.appearance,
                    destination: written(range, network.variant),
                    availability: availability_name(availability),
                    via: via.collect(),
                });
            }
        }
        let states = [
            Availability::Available,
            Availability::Restricted,
            Availability::Unavailable,
        ];
        let counts = states.into_iter().map(|availability| Count {
            name: availability_name(availability),
            count: by_availability
                .get(availability as usize)
                .copied()
                .unwrap_or_default(),
        });
        self.destinations_by_availability = counts.collect();
    }

    fn count_messages(&mut self, engine: &SignallingProcess) {
        let statistics = engine.statistics();
        let messages = Kind::ALL.iter().map(|kind| MessageCount {
            kind: kind.name(),
            received: statistics.received(*kind),
            sent: statistics.sent(*kind),
        });
        self.messages = messages.filter(|it| it.received + it.sent > 0).collect();
        let flows = statistics.flows().into_iter().map(|(flow, traffic)| {
            let network = engine.networks().get(flow.network.0).copied();
            let network = network.unwrap_or_default();
            TrafficCount {
                network_appearance: network.appearance,
                dpc: network.variant.write(flow.dpc).to_string(),
                si: flow.user.to_string(),
                received: traffic.received,
                sent: traffic.sent,
            }
        });
        self.traffic = flows.collect();
        let other = statistics.other_flows;
        if other.received + other.sent > 0 {
            self.traffic.push(TrafficCount {
                network_appearance: None,
                dpc: "other".to_owned(),
                si: "other".to_owned(),
                received: other.received,
                sent: other.sent,
            });
        }
    }

    fn count_drops(&mut self, engine: &SignallingProcess, counts: &Counts) {
        let of_engine = DropReason::ALL.iter().map(|reason| Count {
            name: reason.name(),
            count: engine.statistics().dropped(*reason),
        });
        let of_driver = [
            ("queue_full", counts.overflows),
            ("association_lost", counts.abandoned),
        ];
        let of_driver = of_driver.map(|(name, count)| Count { name, count });
        self.drops = of_engine.chain(of_driver).collect();
    }
}

/// A point code or a range, as configurations have them.
pub(crate) fn written(range: MaskedPointCode, variant: m3ua::Variant) -> String {
    match range.mask {
        0 => variant.write(range.point_code).to_string(),
        mask => format!("{}/{mask}", variant.write(range.point_code)),
    }
}

fn role_name(role: PeerRole) -> &'static str {
    match role {
        PeerRole::Asp => "asp",
        PeerRole::Sgp => "sgp",
        PeerRole::IpspSingleExchange => "ipsp-single",
        PeerRole::IpspDoubleExchange => "ipsp-double",
    }
}

fn availability_name(availability: Availability) -> &'static str {
    match availability {
        Availability::Available => "available",
        Availability::Restricted => "restricted",
        Availability::Unavailable => "unavailable",
    }
}

fn as_text<S: serde::Serializer>(state: &AspState, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(state)
}

fn as_optional_text<S: serde::Serializer>(
    state: &Option<m3ua::AsState>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match state {
        Some(state) => serializer.collect_str(state),
        None => serializer.serialize_none(),
    }
}
