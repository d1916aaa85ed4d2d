//! Eight clients send one large message each, through one slow link, to a server that has no room for
//! all of them at once.

use crate::engines::host::{EngineHost, Entry, Message, Place};
use crate::engines::world::{SERVER_PORT, address, generator};
use bytes::Bytes;
use link::{Bottleneck, Link, LinkConfig};
use sctp::packet::{Cause, Causes};
use sctp::{AssociationId, EndpointConfig, Event, LostCause, SendInfo};
use sim::{HostId, Simulation, Stop};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const CLIENTS: u16 = 8;
const MESSAGE: usize = 200_000;
const ROOM: usize = 1_000_000;

/// How many clients were served, how many were given up, and how long that took.
fn run(config: EndpointConfig) -> (usize, usize, Duration) {
    let start = Instant::now();
    let mut simulation = Simulation::new(start);
    let server_address = address(false, 0, 1);
    let server = host(&mut simulation, 0, config);
    let slow = LinkConfig {
        bottleneck: Some(Bottleneck {
            queue_packets: 128,
            ..Bottleneck::new(2_000_000)
        }),
        delay: Duration::from_millis(50),
        ..LinkConfig::default()
    };
    let slow = simulation
        .network_mut()
        .add_link(Link::new(slow, generator(1, 0)));
    let back = LinkConfig {
        delay: Duration::from_millis(50),
        ..LinkConfig::default()
    };
    let clients: Vec<HostId> = (1..=CLIENTS)
        .map(|number| {
            let client_address = address(false, 0, 1 + number);
            let network = simulation.network_mut();
            network.add_route(client_address, server_address, slow);
            let back = Link::new(back.clone(), generator(1, number.into()));
            network.connect(server_address, client_address, back);
            host(&mut simulation, number, EndpointConfig::default())
        })
        .collect();
    let place = simulation.host(server).place().clone();
    for &client in &clients {
        let host = simulation.host_mut(client);
        host.connect(start, &place, 1);
        let message = Message {
            info: SendInfo::default(),
            payload: Bytes::from(vec![7; MESSAGE]),
        };
        host.send(start, message);
    }
    let stop = simulation.run(start + Duration::from_secs(3600), |simulation| {
        let host = simulation.host(server);
        whole(host).count() + lost(host).count() == usize::from(CLIENTS)
    });
    assert_eq!(stop, Ok(Stop::Done));
    let host = simulation.host(server);
    assert!(lost(host).all(|cause| *cause == LostCause::OutOfResource));
    let (whole, given_up) = (whole(host).count(), lost(host).count());
    let took = simulation.now() - start;
    // Those who were given up hear of it, and why.
    let end = simulation.now() + Duration::from_secs(1);
    assert!(simulation.run(end, |_| false).is_ok());
    let told = clients
        .iter()
        .flat_map(|client| lost(simulation.host(*client)));
    let told = told.map(|cause| match cause {
        LostCause::AbortedByPeer { causes } => {
            let causes: Vec<_> = Causes::new(causes).iter().collect();
            assert_eq!(causes, [Ok(Cause::OutOfResource)]);
        }
        other => panic!("{other}"),
    });
    assert_eq!(told.count(), given_up);
    (whole, given_up, took)
}

/// The messages that arrived to their ends.
fn whole(host: &EngineHost) -> impl Iterator<Item = AssociationId> {
    let mut parts: BTreeMap<AssociationId, usize> = BTreeMap::new();
    host.log().iter().filter_map(move |(_, entry)| {
        let Entry::Received(id, message) = entry else {
            return None;
        };
        let bytes = parts.entry(*id).or_default();
        *bytes += message.payload.len();
        message.end_of_record.then(|| {
            assert_eq!(*bytes, MESSAGE);
            *id
        })
    })
}

fn lost(host: &EngineHost) -> impl Iterator<Item = &LostCause> {
    host.events().filter_map(|(_, event)| match event {
        Event::CommunicationLost { cause, .. } => Some(cause),
        _ => None,
    })
}

/// The server is number 0.
fn host(simulation: &mut Simulation<EngineHost>, number: u16, config: EndpointConfig) -> HostId {
    let addresses = vec![address(false, 0, 1 + number)];
    let place = Place {
        addresses: addresses.clone(),
        udp_port: None,
        sctp_port: SERVER_PORT,
    };
    let host = EngineHost::new(place, config, generator(2, number.into()));
    simulation.add_host(host, &addresses)
}

#[test]
fn messages_that_wait_for_each_others_room_cost_some_associations_and_the_others_arrive() {
    let config = EndpointConfig::default().max_received_bytes(ROOM);
    let (whole, given_up, took) = run(config);
    println!("{whole} whole, {given_up} given up in {took:?}");
    assert!(given_up > 0, "there is no room for all");
    assert!(whole >= 4, "as many as there is room for, or nearly");
    assert!(took < Duration::from_secs(60), "{took:?}");
}

#[test]
fn delivered_in_parts_all_of_them_arrive() {
    let config = EndpointConfig::default()
        .max_received_bytes(ROOM)
        .partial_delivery_point(1 << 20);
    let (whole, _, took) = run(config);
    assert_eq!(whole, usize::from(CLIENTS));
    assert!(took < Duration::from_secs(60), "{took:?}");
}
