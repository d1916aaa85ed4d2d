//! Links that carry less, or more, than the hosts think.

use crate::engines::host::{Entry, Message};
use crate::engines::world::{Network, World};
use bytes::Bytes;
use sctp::{EndpointConfig, SendInfo};
use sim::{Fate, Mtu, Stop};
use std::time::Duration;

const DELAY: Duration = Duration::from_millis(10);
const IP_HEADER: usize = 20;
const MESSAGE: usize = 64 * 1024;

/// The search is over: each size that is too large costs three probes with 15 seconds each, and
/// there are no more than ten steps from 1200 to 1500. Before PMTU_RAISE_TIMER nothing larger is
/// tried again.
const SEARCHED: Duration = Duration::from_secs(450);

/// Messages of 64 KiB get through a link whose MTU is smaller than that of the hosts, whether it
/// says so (ICMP) or not (RFC 8899), and the sender learns what the path carries.
#[test]
fn large_messages_get_through_a_small_mtu() {
    for tells_sender in [true, false] {
        for mtu in [1280, 1400, 1499] {
            let mut world = associated(mtu, tells_sender);
            let what = format!("MTU {mtu}, told: {tells_sender}");
            send(&mut world, 0..10);
            keep_busy(&mut world, SEARCHED);
            let count = world.server().received().count() as u32;
            assert!(count > 10, "{what}: {count} messages");
            let numbers = world.server().received().map(|(_, message)| message.ppid);
            assert!(numbers.eq(0..count), "{what}");

            let learnt = learnt_mtu(&world) + IP_HEADER;
            assert!(learnt <= mtu, "{what}: {learnt}");
            // RFC 8899 does not ask for the last byte.
            assert!(learnt + 64 > mtu, "{what}: {learnt}");

            // From now on nothing is too big.
            let before = too_big(&world);
            keep_busy(&mut world, SEARCHED + Duration::from_secs(100));
            assert!(world.server().received().count() as u32 > count, "{what}");
            assert_eq!(too_big(&world), before, "{what}");
        }
    }
}

/// A route that changes to one with a smaller MTU, while nothing tells.
#[test]
fn a_path_that_becomes_a_black_hole_for_large_packets_is_noticed() {
    let mut world = associated(1500, false);
    send(&mut world, 0..10);
    world.run_until(Duration::from_secs(60));
    assert_eq!(learnt_mtu(&world) + IP_HEADER, 1500);
    set_mtu(&mut world, 1300);
    send(&mut world, 10..20);
    keep_busy(&mut world, Duration::from_secs(60) + SEARCHED);
    assert!(world.server().received().count() > 20);
    let learnt = learnt_mtu(&world) + IP_HEADER;
    assert!(learnt <= 1300 && learnt + 64 > 1300, "{learnt}");
}

#[test]
fn a_larger_mtu_is_found_after_a_while() {
    let mut world = associated(1280, true);
    send(&mut world, 0..10);
    world.run_until(Duration::from_secs(60));
    assert!(learnt_mtu(&world) + IP_HEADER <= 1280);
    set_mtu(&mut world, 1500);
    let raise = EndpointConfig::default().association.path.pmtu_raise_timer;
    // A few probes, each answered within a round trip or timed out.
    let after = world.simulation.now() - world.start + raise + Duration::from_secs(120);
    keep_busy(&mut world, after);
    let learnt = learnt_mtu(&world) + IP_HEADER;
    assert!(learnt + 64 > 1500, "{learnt}");
}

/// A client and a server whose own MTU is 1500 bytes.
fn associated(mtu: usize, tells_sender: bool) -> World {
    let network = Network {
        mtu: Some(Mtu {
            bytes: mtu,
            tells_sender,
        }),
        ..Network::of_delay(DELAY)
    };
    let mut world = World::new(3, &[network], &EndpointConfig::default());
    world.connect();
    assert_eq!(world.run_until(Duration::from_secs(1)), Stop::TimeUp);
    world
}

fn set_mtu(world: &mut World, bytes: usize) {
    for link in world.links[0].clone() {
        let mtu = Mtu {
            bytes,
            tells_sender: false,
        };
        world.simulation.network_mut().set_mtu(link, Some(mtu));
    }
}

fn send(world: &mut World, numbers: std::ops::Range<u32>) {
    let (now, client) = (world.simulation.now(), world.client);
    for ppid in numbers {
        let message = Message {
            info: SendInfo {
                ppid,
                ..SendInfo::default()
            },
            payload: Bytes::from_static(&[b'x'; MESSAGE]),
        };
        world.simulation.host_mut(client).send(now, message);
    }
}

/// There is something to say now and then, so that the path is in use.
fn keep_busy(world: &mut World, until: Duration) {
    while world.simulation.now() - world.start < until {
        let sent = world.client().log().iter();
        let sent = sent.filter(|(_, entry)| matches!(entry, Entry::Sent(..)));
        let number = sent.count() as u32;
        send(world, number..number + 1);
        let now = world.simulation.now() - world.start;
        world.run_until(now + Duration::from_secs(5));
    }
}

/// What the client takes the path to carry, from the SCTP common header on.
fn learnt_mtu(world: &World) -> usize {
    world.client().status().expect("it is up").paths[0].mtu
}

fn too_big(world: &World) -> usize {
    let trace = world.simulation.trace().iter();
    trace
        .filter(|sent| matches!(sent.fate, Fate::TooBig { .. }))
        .count()
}
