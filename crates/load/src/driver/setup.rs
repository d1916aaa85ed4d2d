//! What a worker sends by: sockets and connections, and whose they are.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use ahash::RandomState;
use sip::{Peer, Transport};
use sip_net::{Listen, SipNetConfig, StreamPolicy};
use udp_net::Impairment;

use super::carrier::{Carrier, NetCarrier, PlainCarrier, Traffic};
use super::config::{Connections, GeneratorConfig};
use super::error::LoadError;
use super::population::Population;
use super::users::Users;
use crate::engine::{Connection, ConnectionId, UserRange};

/// What a worker sends by.
pub(super) struct Setup {
    pub(super) carrier: Carrier,
    /// Where callees are called directly.
    pub(super) listening: Option<SocketAddr>,
    /// The UDP port under our SCTP.
    pub(super) encapsulation: Option<SocketAddr>,
}

/// Binds the sockets of a worker and plans its connections. Each user is assigned to its own.
pub(super) fn build(
    config: &GeneratorConfig,
    population: Population,
    link_seed: u64,
    hasher: RandomState,
    users: &mut Users,
) -> Result<Setup, LoadError> {
    match is_plain(config) {
        true => plain(config, population, hasher, users),
        false => net(config, population, link_seed, hasher, users),
    }
}

/// Whether messages are sent and received without anything between that needs more than sockets.
pub(super) fn is_plain(config: &GeneratorConfig) -> bool {
    let SipNetConfig {
        impairment,
        tap,
        sip_tap,
        ..
    } = &config.transports;
    matches!(config.transport, Transport::Udp | Transport::Tcp)
        && impairment.is_none()
        && tap.is_none()
        && sip_tap.is_none()
}

fn plain(
    config: &GeneratorConfig,
    population: Population,
    hasher: RandomState,
    users: &mut Users,
) -> Result<Setup, LoadError> {
    let mut carrier = PlainCarrier::new(hasher)?;
    let is_tcp = config.transport == Transport::Tcp;
    let local = local_ip(config)?;
    let listening = match is_listening(config) {
        true => {
            let address = SocketAddr::new(local, config.local_port.unwrap_or(0));
            let is_shared = population.share.workers > 1 && config.local_port.is_some();
            Some(match is_tcp {
                true => carrier.listen(address, is_shared)?,
                false => carrier.listen_udp(address, is_shared)?,
            })
        }
        false => None,
    };
    let target = listening.unwrap_or(config.target);
    for (side, range) in connecting(config, population).into_iter().enumerate() {
        let mut connect = |place: u32| -> Result<ConnectionId, LoadError> {
            if is_tcp {
                let id = carrier.connect(config.local_ip, target)?;
                users.plan(id);
                if let Some(remote) = config.second_target {
                    let second = carrier.connect(config.local_ip, remote)?;
                    users.plan_second(id, second);
                }
                return Ok(id);
            }
            let port = port(config, population, side as u64, place)?;
            let (id, local) = carrier.bind_udp(SocketAddr::new(local, port), target)?;
            let connection = Connection {
                transport: Transport::Udp,
                local,
                remote: target,
            };
            users.plan(id);
            users.opened(id, connection);
            if let Some(remote) = config.second_target {
                let second = carrier.add_way(id, remote)?;
                let connection = Connection {
                    remote,
                    ..connection
                };
                users.plan_second(id, second);
                users.opened(second, connection);
            }
            Ok(id)
        };
        let ids = match config.connections {
            Connections::Shared => vec![connect(0)?],
            Connections::PerUser => (0..range.count)
                .map(connect)
                .collect::<Result<Vec<_>, _>>()?,
        };
        users.assign(range, &ids);
    }
    Ok(Setup {
        carrier: Carrier::Plain(Box::new(carrier)),
        listening,
        encapsulation: None,
    })
}

fn net(
    config: &GeneratorConfig,
    population: Population,
    link_seed: u64,
    hasher: RandomState,
    users: &mut Users,
) -> Result<Setup, LoadError> {
    let transport = config.transport;
    let is_listening = is_listening(config);
    let is_sctp = matches!(transport, Transport::Sctp | Transport::TlsSctp);
    if is_listening && config.role.has_callers() && is_sctp {
        return Err(LoadError::Settings(
            "over SCTP callers call callees directly from another process: use a role for each",
        ));
    }
    let address = SocketAddr::new(local_ip(config)?, config.local_port.unwrap_or(0));
    let listeners = is_listening.then_some(Listen { transport, address });
    let mut transports = SipNetConfig {
        listeners: listeners.into_iter().collect(),
        impairment: config
            .transports
            .impairment
            .clone()
            .map(|impairment| Impairment {
                seed: link_seed,
                ..impairment
            }),
        ..config.transports.clone()
    };
    if population.share.workers > 1 {
        // Each worker has SCTP of its own: they cannot have one port under it together.
        transports.encapsulation_port = 0;
    }
    let streams = match transports.stream_policy {
        StreamPolicy::PerFlow if transport == Transport::TlsSctp => transports.tls_streams,
        StreamPolicy::PerFlow if is_sctp => transports.sctp.association.outbound_streams,
        _ => 1,
    };
    let limit = u32::from(streams);
    let connections = transports.limits.max_connections;
    transports.limits.max_connections = connections.max(4 * config.users as usize + 16);
    let mut carrier = NetCarrier::start(transports, hasher)?;
    let listening = carrier.listening().first().map(|listen| listen.address);
    let target = listening.unwrap_or(config.target);
    for range in connecting(config, population) {
        let mut connect = |streams: u32| {
            let streams = u16::try_from(streams).unwrap_or(u16::MAX);
            let mut open = |target, peer: &Option<Arc<Peer>>| {
                let first = carrier.connect(transport, target, peer.clone(), streams);
                let ids = (0..streams).map(|stream| ConnectionId(first.0 + u32::from(stream)));
                ids.collect::<Vec<_>>()
            };
            let ids = open(target, &config.peer);
            ids.iter().for_each(|id| users.plan(*id));
            if let Some(second) = config.second_target {
                for (id, second) in ids.iter().zip(open(second, &config.second_peer)) {
                    users.plan_second(*id, second);
                }
            }
            ids
        };
        let ids = match config.connections {
            Connections::Shared => connect(range.count.min(limit)),
            Connections::PerUser => (0..range.count).flat_map(|_| connect(1)).collect(),
        };
        users.assign(range, &ids);
    }
    let encapsulation = carrier.encapsulation();
    Ok(Setup {
        carrier: Carrier::Net(Box::new(carrier)),
        listening,
        encapsulation,
    })
}

/// Whether callees are called directly.
pub(super) fn is_listening(config: &GeneratorConfig) -> bool {
    config.direct && config.role.has_callees()
}

/// The users who connect to the target: all but callees who are called directly.
fn connecting(config: &GeneratorConfig, population: Population) -> Vec<UserRange> {
    let callers = config.role.has_callers().then_some(population.callers);
    let callees = config.role.has_callees() && !config.direct;
    let callees = callees.then_some(population.callees);
    let sides = callers.into_iter().chain(callees);
    sides.filter(|range| range.count > 0).collect()
}

/// The port of a UDP socket that sends to the target.
fn port(
    config: &GeneratorConfig,
    population: Population,
    side: u64,
    place: u32,
) -> Result<u16, LoadError> {
    // Where callees listen at the port, their callers have any.
    let Some(first) = config.local_port.filter(|_| !is_listening(config)) else {
        return Ok(0);
    };
    let (worker, workers) = (population.share.worker, population.share.workers);
    let behind = match config.connections {
        Connections::Shared => side * u64::from(workers) + u64::from(worker),
        Connections::PerUser => {
            let user = u64::from(place) * u64::from(workers) + u64::from(worker);
            side * u64::from(config.users) + user
        }
    };
    let port = u64::from(first) + behind;
    u16::try_from(port).map_err(|_| {
        LoadError::Settings("there are not enough ports above the local one: choose a lower one")
    })
}

/// The address that users send from.
pub(super) fn local_ip(config: &GeneratorConfig) -> io::Result<IpAddr> {
    if let Some(local) = config.local_ip {
        return Ok(local);
    }
    if is_listening(config) && !config.role.has_callers() {
        // There is nobody to ask the way to: callees are where they are looked for, and say so to each who calls.
        return Ok(match config.target {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        });
    }
    udp_net::local_address_towards(config.target.ip())
}
