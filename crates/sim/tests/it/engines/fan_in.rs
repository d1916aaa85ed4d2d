//! Sixty-four clients send to one server through one narrow link.

use crate::engines::host::{EngineHost, Message, Place};
use crate::engines::world::{SERVER_PORT, address, generator};
use bytes::Bytes;
use link::{Bottleneck, Link, LinkConfig};
use sctp::{EndpointConfig, Event, SendInfo};
use sim::{HostId, Simulation, Stop};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const CLIENTS: u16 = 64;
const MESSAGES: u32 = 50;
const MESSAGE: usize = 4000;

const BITS_PER_SECOND: u64 = 10_000_000;

/// Bytes of user data of all clients together.
const TOTAL: usize = CLIENTS as usize * MESSAGES as usize * MESSAGE;

#[test]
fn many_clients_share_a_narrow_link_and_all_come_through() {
    let start = Instant::now();
    let mut simulation = Simulation::new(start);
    let server_address = address(false, 0, 1);
    let server = host(&mut simulation, 0);
    // Everything to the server goes through one queue; what comes back has all the room.
    let narrow = LinkConfig {
        bottleneck: Some(Bottleneck {
            queue_packets: 128,
            ..Bottleneck::new(BITS_PER_SECOND)
        }),
        delay: Duration::from_millis(10),
        ..LinkConfig::default()
    };
    let narrow = simulation
        .network_mut()
        .add_link(Link::new(narrow, generator(1, 0)));
    let wide = LinkConfig {
        delay: Duration::from_millis(10),
        ..LinkConfig::default()
    };
    let clients: Vec<HostId> = (1..=CLIENTS)
        .map(|number| {
            let client_address = address(false, 0, 1 + number);
            let network = simulation.network_mut();
            network.add_route(client_address, server_address, narrow);
            let back = Link::new(wide.clone(), generator(1, number.into()));
            network.connect(server_address, client_address, back);
            host(&mut simulation, number)
        })
        .collect();
    let place = simulation.host(server).place().clone();
    for &client in &clients {
        let host = simulation.host_mut(client);
        host.connect(start, &place, 1);
        for ppid in 0..MESSAGES {
            let message = Message {
                info: SendInfo {
                    ppid,
                    ..SendInfo::default()
                },
                payload: Bytes::from(vec![ppid as u8; MESSAGE]),
            };
            host.send(start, message);
        }
    }
    let all = CLIENTS as usize * MESSAGES as usize;
    let stop = simulation.run(start + Duration::from_secs(600), |simulation| {
        simulation.host(server).log().len() >= all
            && simulation.host(server).received().count() == all
    });
    assert_eq!(stop, Ok(Stop::Done));
    let took = simulation.now() - start;

    // Each client's messages, once and in order.
    let mut by_association = BTreeMap::new();
    for (_, entry) in simulation.host(server).log() {
        if let crate::engines::host::Entry::Received(id, message) = entry {
            let numbers: &mut Vec<u32> = by_association.entry(*id).or_default();
            numbers.push(message.ppid);
            assert_eq!(message.payload, vec![message.ppid as u8; MESSAGE]);
        }
    }
    assert_eq!(by_association.len(), usize::from(CLIENTS));
    assert!(
        by_association
            .values()
            .all(|numbers| numbers.iter().copied().eq(0..MESSAGES))
    );

    // The link is used, and nobody waits for its turn for ever.
    let goodput = TOTAL as f64 * 8.0 / took.as_secs_f64();
    let share = goodput / BITS_PER_SECOND as f64;
    let statistics = simulation.network().link(narrow).statistics();
    println!(
        "{CLIENTS} clients: {took:?}, {:.0} % of the link, {} of {} packets dropped",
        share * 100.0,
        statistics.queue_full_packets,
        statistics.offered_packets
    );
    assert!(statistics.queue_full_packets > 0, "a narrow link");
    // At the end the last ones wait for their RTO, which is a second at least.
    assert!(share > 0.5, "{share:.2} of the link is used");

    // And all of them leave in good order.
    for &client in &clients {
        let now = simulation.now();
        simulation.host_mut(client).shutdown(now);
    }
    let end = simulation.now() + Duration::from_secs(600);
    assert_eq!(simulation.run(end, |_| false), Ok(Stop::Idle));
    for &id in clients.iter().chain([&server]) {
        assert_eq!(simulation.host(id).endpoint().association_count(), 0);
    }
    let complete = simulation.host(server).events();
    let complete = complete.filter(|(_, event)| matches!(event, Event::ShutdownComplete { .. }));
    assert_eq!(complete.count(), usize::from(CLIENTS));
}

/// The server is number 0.
fn host(simulation: &mut Simulation<EngineHost>, number: u16) -> HostId {
    let addresses = vec![address(false, 0, 1 + number)];
    let place = Place {
        addresses: addresses.clone(),
        udp_port: None,
        sctp_port: SERVER_PORT,
    };
    let rng = generator(2, number.into());
    let host = EngineHost::new(place, EndpointConfig::default(), rng);
    simulation.add_host(host, &addresses)
}
