//! Hosts that die and live again, and hosts that call each other at the same time.

use crate::engines::host::{EngineHost, Entry, Message};
use crate::engines::world::{Network, World};
use bytes::Bytes;
use sctp::{AssociationState, EndpointConfig, Event, LostCause, PathState, SendInfo};
use std::time::Duration;

const DELAY: Duration = Duration::from_millis(10);

/// Who restarts, and over how many networks they speak.
#[test]
fn a_host_that_restarts_and_calls_again_is_taken_for_the_one_it_was() {
    for (who, networks) in [(0, 1), (1, 1), (0, 2), (1, 2)] {
        let mut world = associated(networks, EndpointConfig::default());
        let hosts = [world.client, world.server];
        let (restarted, other) = (hosts[who], hosts[1 - who]);
        if networks == 1 {
            // Something of the old times is still on its way. From an address that the host does
            // not know in its new life, it would be answered with ABORT.
            speak(&mut world, 1 - who, 0..20);
        }
        let now = world.simulation.now();
        let rng = world.generator(1);
        world.simulation.host_mut(restarted).restart(now, rng);
        let place = world.simulation.host(other).place().clone();
        world.simulation.host_mut(restarted).connect(now, &place, 1);
        world.run_until(Duration::from_secs(3));

        let is_restart = |event: &Event| matches!(event, Event::Restart { .. });
        let told = |world: &World, what: fn(&Event) -> bool| {
            let events = world.simulation.host(other).events();
            events.filter(|(_, event)| what(event)).count()
        };
        assert_eq!(told(&world, is_restart), 1);
        assert_eq!(
            told(&world, |event| matches!(
                event,
                Event::CommunicationLost { .. }
            )),
            0
        );
        for host in hosts {
            let host = world.simulation.host(host);
            assert_eq!(host.endpoint().association_count(), 1);
            let status = host.status().expect("it is up");
            assert_eq!(status.state, AssociationState::Established);
            let mut paths = status.paths.iter();
            assert!(paths.all(|path| path.state == PathState::Active));
            assert_eq!(status.paths.len(), networks);
        }

        // It is as good as new in both directions.
        speak(&mut world, 0, 100..120);
        speak(&mut world, 1, 200..220);
        world.run_until(Duration::from_secs(5));
        let after_restart = |host: &EngineHost| {
            let entries = host.log().iter().rev();
            let numbers = entries.map_while(|(_, entry)| match entry {
                Entry::Received(_, message) => Some(Some((message.ppid, message.ssn))),
                Entry::Event(Event::Restart { .. } | Event::CommunicationUp { .. }) => None,
                _ => Some(None),
            });
            let mut numbers: Vec<_> = numbers.flatten().collect();
            numbers.reverse();
            numbers
        };
        let expected = |from: u32| {
            (0..20)
                .map(move |n| (from + n, n as u16))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            after_restart(world.server()),
            expected(100),
            "{who} {networks}"
        );
        assert_eq!(
            after_restart(world.client()),
            expected(200),
            "{who} {networks}"
        );
        finish(&mut world);
    }
}

/// It answers what it does not know with ABORT.
#[test]
fn a_host_that_restarts_and_is_silent_ends_the_association() {
    let mut world = associated(2, EndpointConfig::default());
    let now = world.simulation.now();
    let (server, rng) = (world.server, world.generator(1));
    world.simulation.host_mut(server).restart(now, rng);
    speak(&mut world, 0, 0..1);
    world.run_until(Duration::from_secs(3));
    let ends: Vec<&LostCause> = lost(world.client()).collect();
    assert!(
        matches!(ends[..], [LostCause::AbortedByPeer { .. }]),
        "{ends:?}"
    );
    assert_eq!(world.client().endpoint().association_count(), 0);
    assert_eq!(world.server().endpoint().association_count(), 0);
}

/// With nothing to say, a HEARTBEAT finds out.
#[test]
fn a_restart_is_found_by_heartbeats() {
    let config = EndpointConfig::default();
    let latest = config.association.path.hb_interval
        + config.association.path.rto_min.mul_f64(1.5)
        + 4 * DELAY;
    let mut world = associated(1, config);
    let begin = world.simulation.now() - world.start;
    let now = world.simulation.now();
    let (server, rng) = (world.server, world.generator(1));
    world.simulation.host_mut(server).restart(now, rng);
    world.run_until(begin + latest);
    assert_eq!(lost(world.client()).count(), 1);
}

/// Whatever the time between the two calls, and whichever packet is lost: one association, and
/// each side hears of it once.
#[test]
fn hosts_that_call_each_other_have_one_association() {
    for networks in [1, 2] {
        for gap in 0..=50 {
            // The packet that is lost, if there are so many before it is up.
            for lost in 0..=8 {
                let gap = Duration::from_millis(gap);
                let world = call_each_other(networks, gap, lost);
                check_one_association(world, networks, &format!("{networks} {gap:?} {lost}"));
            }
        }
    }
}

/// Both call at the same moment, or one of them `gap` later. The `lost`-th datagram on the first
/// network, counted from 1, is lost.
fn call_each_other(networks: usize, gap: Duration, lost: usize) -> World {
    let network = Network::of_delay(DELAY);
    let mut world = World::new(7, &vec![network; networks], &EndpointConfig::default());
    let places =
        [world.client, world.server].map(|host| world.simulation.host(host).place().clone());
    for (host, place, after) in [
        (world.client, places[1].clone(), Duration::ZERO),
        (world.server, places[0].clone(), gap),
    ] {
        world.at(after, move |simulation| {
            let now = simulation.now();
            simulation.host_mut(host).connect(now, &place, 1);
        });
    }
    let links = world.links[0].clone();
    let cut = |world: &mut World, up| {
        for &link in &links {
            world.simulation.network_mut().link_mut(link).set_up(up);
        }
    };
    let end = world.start + Duration::from_secs(1);
    if lost > 0 {
        let stop_before = move |sent: usize| {
            move |simulation: &sim::Simulation<EngineHost>| simulation.trace().len() >= sent
        };
        // The links are down while the packet is sent, and with it what leaves at that moment.
        let _ = world.simulation.run(end, stop_before(lost - 1));
        cut(&mut world, false);
        let _ = world.simulation.run(end, stop_before(lost));
        cut(&mut world, true);
    }
    world.run_until(Duration::from_secs(20));
    world
}

#[track_caller]
fn check_one_association(mut world: World, networks: usize, what: &str) {
    speak(&mut world, 0, 0..5);
    speak(&mut world, 1, 0..5);
    world.run_until(Duration::from_secs(25));
    for host in [world.client(), world.server()] {
        assert_eq!(host.endpoint().association_count(), 1, "{what}");
        let status = host.status().expect("it is up");
        assert_eq!(status.state, AssociationState::Established, "{what}");
        assert_eq!(status.paths.len(), networks, "{what}");
        let ups = host.events().filter(|(_, event)| {
            assert!(
                matches!(
                    event,
                    Event::CommunicationUp { .. } | Event::PathStateChanged { .. }
                ),
                "{what}: {event:?}"
            );
            matches!(event, Event::CommunicationUp { .. })
        });
        assert_eq!(ups.count(), 1, "{what}");
        let received = host.received().map(|(_, message)| message.ppid);
        assert!(received.eq(0..5), "{what}");
    }
    finish(&mut world);
}

/// Two hosts with an association that all paths of are confirmed.
fn associated(networks: usize, config: EndpointConfig) -> World {
    let network = Network::of_delay(DELAY);
    let mut world = World::new(7, &vec![network; networks], &config);
    world.connect();
    world.run_until(Duration::from_secs(2));
    world
}

/// The client (0) or the server (1) sends messages with these numbers.
fn speak(world: &mut World, who: usize, numbers: std::ops::Range<u32>) {
    let now = world.simulation.now();
    let host = [world.client, world.server][who];
    for ppid in numbers {
        let message = Message {
            info: SendInfo {
                ppid,
                ..SendInfo::default()
            },
            payload: Bytes::from_static(&[b'x'; 1000]),
        };
        world.simulation.host_mut(host).send(now, message);
    }
}

fn lost(host: &EngineHost) -> impl Iterator<Item = &LostCause> {
    host.events().filter_map(|(_, event)| match event {
        Event::CommunicationLost { cause, .. } => Some(cause),
        _ => None,
    })
}

/// Ends in good order, and nothing is left.
#[track_caller]
fn finish(world: &mut World) {
    let (now, client) = (world.simulation.now(), world.client);
    world.simulation.host_mut(client).shutdown(now);
    let end = now - world.start + Duration::from_secs(60);
    assert_eq!(world.run_until(end), sim::Stop::Idle);
    for host in [world.client(), world.server()] {
        assert_eq!(host.endpoint().association_count(), 0);
        let mut events = host.events();
        assert!(events.any(|(_, event)| matches!(event, Event::ShutdownComplete { .. })));
    }
}
