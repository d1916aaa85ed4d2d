//! How a process is, at one time: for people, programs and metrics.

use std::net::SocketAddr;

use m3ua::message::Kind;
use m3ua::{
    AspState, Availability, DropReason, MaskedPointCode, NetworkId, PeerId, PeerRole, ServedBy, Via,
};
use serde::Serialize;

use crate::configuration::Names;
use crate::snapshot::{MAX_LISTED, Snapshot};

/// How a process is.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Status {
    /// Peers, and their states in application servers.
    pub peers: Vec<PeerStatus>,
    /// Application servers, configured and registered.
    pub application_servers: Vec<ApplicationServerStatus>,
    /// Application servers whose ASPs are peers, listed or not.
    pub application_servers_with_asps: usize,
    /// How many of them are active.
    pub active_application_servers: usize,
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
    /// The destination; a range, or `other`, for those beyond the bounds.
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

impl Status {
    /// Messages that were dropped, for any reason.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().map(|it| it.count).sum()
    }

    /// Puts a snapshot into words.
    pub(crate) fn of(snapshot: &Snapshot, names: &Names) -> Status {
        let mut status = Status {
            application_servers_with_asps: snapshot.with_asps,
            active_application_servers: snapshot.active,
            congested_destinations: snapshot.congested_destinations,
            left_out: snapshot.left_out,
            relayed: snapshot.statistics.relayed,
            refused: snapshot.statistics.refused,
            strangers: snapshot.counts.strangers,
            ..Status::default()
        };
        status.list_peers(snapshot, names);
        status.list_servers(snapshot, names);
        status.list_destinations(snapshot, names);
        status.count_messages(snapshot);
        status.count_drops(snapshot);
        status
    }

    fn list_peers(&mut self, snapshot: &Snapshot, names: &Names) {
        let peers = snapshot.peers.iter().enumerate().map(|(number, peer)| {
            let states = peer.states.iter().map(|(server, state)| AspStatus {
                application_server: names.of_application_server(*server).into_owned(),
                state: *state,
            });
            PeerStatus {
                name: names.of_peer(PeerId(number)).to_owned(),
                role: role_name(peer.role),
                association: peer.link.map(|it| it.remote),
                is_congested: peer.is_congested,
                queued: peer.link.map_or(0, |it| it.queued),
                states: states.collect(),
            }
        });
        self.peers = peers.collect();
    }

    fn list_servers(&mut self, snapshot: &Snapshot, names: &Names) {
        let servers = snapshot.application_servers.iter().map(|server| {
            let (served_by, has_asps) = match server.served_by {
                ServedBy::Peers => ("peers", true),
                ServedBy::Us => ("us", false),
                ServedBy::Both => ("both", true),
            };
            ApplicationServerStatus {
                name: names.of_application_server(server.number).into_owned(),
                served_by,
                routing_context: server.routing_context,
                state: has_asps.then_some(server.state),
                waiting: server.waiting,
            }
        });
        self.application_servers = servers.collect();
    }

    fn list_destinations(&mut self, snapshot: &Snapshot, names: &Names) {
        let mut by_availability = [0; 3];
        for (number, network) in snapshot.networks.iter().enumerate() {
            let destinations = snapshot.reachability.destinations(NetworkId(number));
            for destination in &destinations {
                let place = by_availability.get_mut(destination.availability as usize);
                place.into_iter().for_each(|count| *count += 1);
            }
            let room = MAX_LISTED - self.destinations.len();
            self.left_out += destinations.len().saturating_sub(room);
            let listed = destinations.into_iter().take(room).map(|it| {
                let via = it.routes.iter().map(|route| {
                    let name = match route.via {
                        Via::As(server) => names.of_application_server(server),
                        Via::Sg(gateway) => names.of_gateway(gateway).unwrap_or_default().into(),
                    };
                    (name.into_owned(), route.priority)
                });
                DestinationStatus {
                    network_appearance: network.appearance,
                    destination: written(it.range, network.variant),
                    availability: availability_name(it.availability),
                    via: via.collect(),
                }
            });
            self.destinations.extend(listed);
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

    fn count_messages(&mut self, snapshot: &Snapshot) {
        let statistics = &snapshot.statistics;
        let messages = Kind::ALL.iter().map(|kind| MessageCount {
            kind: kind.name(),
            received: statistics.received(*kind),
            sent: statistics.sent(*kind),
        });
        self.messages = messages.filter(|it| it.received + it.sent > 0).collect();
        let flows = statistics.flows().into_iter().map(|(flow, traffic)| {
            let network = snapshot.networks.get(flow.network.0).copied();
            let network = network.unwrap_or_default();
            TrafficCount {
                network_appearance: network.appearance,
                dpc: written(flow.destination, network.variant),
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

    fn count_drops(&mut self, snapshot: &Snapshot) {
        let of_engine = DropReason::ALL.iter().map(|reason| Count {
            name: reason.name(),
            count: snapshot.statistics.dropped(*reason),
        });
        let of_driver = [
            ("queue_full", snapshot.counts.overflows),
            ("association_lost", snapshot.counts.abandoned),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::Configuration;
    use crate::snapshot::Counts;

    /// Of application servers, memberships and destinations the first 2,000 are listed, and all are counted.
    #[test]
    fn what_is_not_listed_is_counted() {
        let mut text =
            "[[peer]]\nname = \"asp\"\nrole = \"asp\"\naddress = \"127.0.0.1:3001\"\n".to_owned();
        for number in 0..2_100 {
            text.push_str(&format!(
                "[[application_server]]\nname = \"as{number}\"\nserved_by = \"peers\"\npeers = [\"asp\"]\n\
                 routing_context = {number}\ndpc = [\"{number}\"]\n"
            ));
        }
        let configuration = Configuration::read(&text).expect("a configuration");
        let (engine, names) = configuration.build().expect("a configuration");
        let counts = Counts {
            overflows: 3,
            ..Counts::default()
        };
        let snapshot = Snapshot::of(&engine, [None].into_iter(), counts);
        let status = Status::of(&snapshot, &names);
        let states = &status.peers[0].states;
        assert_eq!(
            [
                status.application_servers.len(),
                states.len(),
                status.destinations.len()
            ],
            [2_000; 3]
        );
        assert_eq!(status.left_out, 300);
        assert_eq!(states[1_999].application_server, "as1999");
        let last = &status.destinations[1_999];
        assert_eq!(last.destination, "0-249-7");
        assert_eq!(last.via, [("as1999".to_owned(), 0)]);
        let by_availability = status.destinations_by_availability.iter();
        let by_availability: Vec<usize> = by_availability.map(|it| it.count as usize).collect();
        assert_eq!(by_availability, [0, 0, 2_100]);
        assert_eq!(status.dropped(), 3);
    }
}
