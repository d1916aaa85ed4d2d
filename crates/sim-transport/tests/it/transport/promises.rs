//! What both transports promise, whatever the links do.

use crate::transport::world::World;
use link::LinkConfig;
use sctp::EndpointConfig;
use sim_transport::{Delivery, Load, TcpConfig, percentile};
use std::time::Duration;

fn bad_link() -> LinkConfig {
    LinkConfig {
        loss: 0.05.into(),
        delay: Duration::from_millis(20),
        jitter: Duration::from_millis(5).into(),
        ..LinkConfig::default()
    }
}

fn world(seed: u64) -> World {
    let sctp = EndpointConfig::default();
    World::new(seed, bad_link(), bad_link(), &sctp, TcpConfig::default())
}

fn transfer(remaining: u64) -> Load {
    Load::Transfer {
        message: 700,
        remaining,
        streams: 1,
        unordered: false,
    }
}

#[test]
fn all_messages_come_once_and_in_order_over_a_bad_network() {
    for seed in 0..20 {
        let mut world = world(seed);
        let over_tcp = world.open_tcp(TcpConfig::default(), transfer(300));
        let over_sctp = world.open_sctp(transfer(300));
        world.run_until(Duration::from_secs(600));
        for flow in [over_tcp, over_sctp] {
            let state = world.client().flow_state(flow).unwrap();
            assert!(state.is_up && state.is_idle, "seed {seed}: {state:?}");
        }
        let server = world.server();
        assert_eq!(server.flows().count(), 2);
        for flow in server.flows() {
            let numbers = server
                .deliveries()
                .iter()
                .filter(|delivery| delivery.flow == flow);
            let numbers: Vec<u64> = numbers.map(|delivery| delivery.number).collect();
            assert_eq!(numbers, (0..300).collect::<Vec<_>>(), "seed {seed}");
        }
    }
}

#[test]
fn two_runs_with_a_seed_are_the_same() {
    let run = |seed| -> Vec<(Duration, u64, usize)> {
        let mut world = world(seed);
        world.open_tcp(TcpConfig::default(), transfer(200));
        world.open_sctp(transfer(200));
        world.run_until(Duration::from_secs(300));
        let start = world.start;
        let told = |delivery: &Delivery| (delivery.at - start, delivery.number, delivery.bytes);
        world.server().deliveries().iter().map(told).collect()
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn a_paced_load_keeps_its_pace_and_counts_delays_from_when_messages_were_due() {
    let link = LinkConfig {
        delay: Duration::from_millis(30),
        ..LinkConfig::default()
    };
    let sctp = EndpointConfig::default();
    let mut world = World::new(1, link.clone(), link, &sctp, TcpConfig::default());
    let load = Load::Paced {
        message: 200,
        interval: Duration::from_millis(10),
        remaining: Some(500),
        streams: 4,
        unordered: true,
    };
    world.open_sctp(load);
    world.open_tcp(TcpConfig::default(), load);
    world.run_until(Duration::from_secs(20));
    let server = world.server();
    for flow in server.flows() {
        let of_flow = |delivery: &&Delivery| delivery.flow == flow;
        let all: Vec<Delivery> = server
            .deliveries()
            .iter()
            .filter(of_flow)
            .copied()
            .collect();
        assert_eq!(all.len(), 500);
        let last = all.last().unwrap();
        assert_eq!(last.sent, world.start + Duration::from_millis(4990));
        assert_eq!(percentile(&all, 0.5), Some(Duration::from_millis(30)));
        // The first ones wait for the handshake: SCTP's takes two round trips.
        assert!(percentile(&all, 1.0) <= Some(Duration::from_millis(150)));
    }
}

#[test]
fn data_in_both_directions_of_a_connection_comes_through_a_bad_network() {
    for seed in 0..10 {
        let mut world = world(seed);
        let load = Load::Paced {
            message: 500,
            interval: Duration::from_millis(10),
            remaining: Some(1000),
            streams: 1,
            unordered: false,
        };
        world.open_tcp(TcpConfig::default(), load);
        world.run_until(Duration::from_secs(1));
        let now = world.simulation.now();
        let server = world.server;
        let host = world.simulation.host_mut(server);
        let accepted = host.flows().next().expect("it is accepted by now");
        host.set_load(now, accepted, load);
        world.run_until(Duration::from_secs(600));
        let received =
            [world.client, world.server].map(|host| world.simulation.host(host).deliveries().len());
        assert_eq!(received, [1000, 1000], "seed {seed}");
    }
}
