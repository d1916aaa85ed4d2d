//! What was accepted to be sent is delivered or reported, however long readers sleep and whoever ends
//! the association.

use crate::engines::host::{EngineHost, Message};
use crate::engines::promises;
use crate::engines::scenario::Scenario;
use crate::engines::seeds;
use crate::engines::world::{Network, World};
use bytes::Bytes;
use link::{Bottleneck, LinkConfig};
use sctp::{AssociationState, EndpointConfig, Event, SendInfo};
use std::time::Duration;

const SEEDS: u64 = 1000;

/// Under random limits, losses, shutdowns and aborts of either side, restarts and sleeping readers.
#[test]
fn whatever_is_accepted_is_delivered_or_reported() {
    seeds::check(
        "engines::ends::whatever_is_accepted_is_delivered_or_reported",
        SEEDS,
        Scenario::of_ends,
        promises::check,
    );
}

/// A reader sleeps for a day and the network loses packets in both directions: as long as the peer
/// answers now and then, the association lasts, and everything arrives in the end.
#[test]
fn a_closed_window_and_loss_do_not_end_an_association() {
    for (networks, loss) in [(1, 0.05), (1, 0.1), (1, 0.2), (2, 0.1)] {
        let network = lossy(loss);
        let config = EndpointConfig::default()
            .a_rwnd(20_000)
            .max_message_size(20_000);
        let mut world = World::new(1, &vec![network; networks], &config);
        world.connect();
        world.run_until(Duration::from_secs(60));
        let (now, server) = (world.simulation.now(), world.server);
        world.simulation.host_mut(server).set_reading(now, false);
        send(&mut world, 100);
        world.run_until(Duration::from_secs(24 * 3600));
        let status = world.client().status().expect("it is there");
        assert_eq!(status.state, AssociationState::Established);
        assert!(status.unsent_messages > 0);

        let now = world.simulation.now();
        world.simulation.host_mut(server).set_reading(now, true);
        world.run_until(Duration::from_secs(25 * 3600));
        assert_eq!(world.server().received().count(), 100);
        assert_eq!(failed(world.client()), 0);
    }
}

/// A shutdown with 800 kB to be delivered first at 50 kB a second takes longer than five times
/// RTO.Max, and longer than Association.Max.Retrans attempts.
#[test]
fn a_shutdown_waits_for_what_a_slow_network_carries() {
    let slow = LinkConfig {
        bottleneck: Some(Bottleneck {
            queue_packets: 30,
            ..Bottleneck::new(400_000)
        }),
        delay: Duration::from_millis(20),
        ..LinkConfig::default()
    };
    let network = Network {
        there: slow.clone(),
        back: slow,
        ..Network::default()
    };
    let config = EndpointConfig::default().rto_max(Duration::from_secs(1));
    let mut world = World::new(1, &[network], &config);
    world.connect();
    send(&mut world, 800);
    world.run_until(Duration::from_secs(1));
    let (now, client) = (world.simulation.now(), world.client);
    world.simulation.host_mut(client).shutdown(now);
    world.run_until(Duration::from_secs(120));
    assert_eq!(world.server().received().count(), 800);
    assert_eq!(failed(world.client()), 0);
    for host in [world.client(), world.server()] {
        let mut events = host.events();
        assert!(events.any(|(_, event)| matches!(event, Event::ShutdownComplete { .. })));
    }
}

fn lossy(loss: f64) -> Network {
    let link = LinkConfig {
        loss: loss.into(),
        delay: Duration::from_millis(20),
        ..LinkConfig::default()
    };
    Network {
        there: link.clone(),
        back: link,
        ..Network::default()
    }
}

/// The client sends that many messages of 1000 bytes.
fn send(world: &mut World, count: u32) {
    let (now, client) = (world.simulation.now(), world.client);
    for ppid in 0..count {
        let message = Message {
            info: SendInfo {
                ppid,
                ..SendInfo::default()
            },
            payload: Bytes::from_static(&[b'x'; 1000]),
        };
        world.simulation.host_mut(client).send(now, message);
    }
}

fn failed(host: &EngineHost) -> usize {
    let events = host.events();
    events
        .filter(|(_, event)| matches!(event, Event::SendFailed { .. }))
        .count()
}
