//! What routers tell senders, and when they tell nothing.

use std::net::IpAddr;
use std::time::Duration;

use link::LinkConfig;

use crate::core::world::{Icmp, World, chain, ping, raw, sum, udp, write_checksum};

fn perfect() -> World {
    World::new(&chain(1, LinkConfig::default()))
}

/// What comes back to the sender: type and code.
fn answer(world: &mut World, packet: &[u8]) -> Option<(u8, u8)> {
    let received = world.exchange("a", packet);
    assert!(received.len() <= 1);
    received.first().map(|one| {
        assert_eq!(one.host, "a");
        let error = Icmp::read(&one.octets);
        (error.kind, error.code)
    })
}

#[test]
fn what_has_no_way_is_unreachable() {
    let mut world = perfect();
    let v4 = |destination| udp("10.0.0.1", destination, 64, b"?");
    let v6 = |destination| udp("fd00:0::1", destination, 64, b"?");
    assert_eq!(
        answer(&mut world, &v4("192.0.2.1")),
        Some((3, 0)),
        "network"
    );
    assert_eq!(answer(&mut world, &v4("10.1.0.77")), Some((3, 1)), "host");
    assert_eq!(answer(&mut world, &v4("10.1.0.1")), Some((3, 3)), "port");
    assert_eq!(
        answer(&mut world, &raw("10.0.0.1", "10.1.0.1", 47, b"")),
        Some((3, 2)),
        "protocol"
    );
    assert_eq!(
        answer(&mut world, &v6("2001:db8::1")),
        Some((1, 0)),
        "network"
    );
    assert_eq!(answer(&mut world, &v6("fd00:1::77")), Some((1, 3)), "host");
    assert_eq!(answer(&mut world, &v6("fd00:1::1")), Some((1, 4)), "port");
    let statistics = world.network.snapshot(world.now).routers[0].statistics;
    assert_eq!(statistics.unreachable_packets, 4);
    assert_eq!(statistics.own_packets, 3);
    assert_eq!(statistics.sent_errors, 7);
}

#[test]
fn what_does_not_fit_and_must_not_be_cut_is_too_big() {
    let mut config = chain(1, LinkConfig::default());
    config.links[1].mtu = 1300;
    let mut world = World::new(&config);
    let mut packet = udp("10.0.0.1", "10.1.0.2", 64, &[1; 1400]);
    dont_fragment(&mut packet);
    let received = world.exchange("a", &packet);
    let error = Icmp::read(&received[0].octets);
    assert_eq!((error.kind, error.code, error.rest), (3, 4, 1300));
    assert_eq!(error.source, "10.0.0.2".parse::<IpAddr>().unwrap());
    // As much of it as 576 octets allow (RFC 1812 section 4.3.2.3).
    assert_eq!(received[0].octets.len(), 576);
    let packet = udp("fd00:0::1", "fd00:1::2", 64, &[1; 1400]);
    let received = world.exchange("a", &packet);
    let error = Icmp::read(&received[0].octets);
    assert_eq!((error.kind, error.code, error.rest), (2, 0, 1300));
    assert_eq!(received[0].octets.len(), 1280);
    let statistics = world.network.snapshot(world.now).routers[0].statistics;
    assert_eq!(statistics.too_big_packets, 2);
}

#[test]
fn a_host_cannot_send_more_than_its_link_carries() {
    let mut world = perfect();
    let received = world.exchange("a", &udp("10.0.0.1", "10.1.0.2", 64, &[1; 1500]));
    assert!(received.is_empty());
    let snapshot = world.network.snapshot(world.now);
    assert_eq!(snapshot.links[0].forward.too_long_packets, 1);
}

#[test]
fn there_are_packets_about_which_nothing_is_said() {
    let mut world = perfect();
    let nothing = [
        // An error about an error.
        ("an error", raw("10.0.0.1", "192.0.2.1", 1, &icmp(3, 0))),
        (
            "an unknown message",
            raw("10.0.0.1", "192.0.2.1", 1, &icmp(77, 0)),
        ),
        (
            "a later fragment",
            later_fragment(udp("10.0.0.1", "192.0.2.1", 64, b"12345678")),
        ),
        ("to a group", udp("10.0.0.1", "224.0.0.1", 1, b"")),
        ("to everybody", udp("10.0.0.1", "255.255.255.255", 1, b"")),
        ("to itself", udp("10.0.0.1", "127.0.0.1", 1, b"")),
        ("from nowhere", udp("0.0.0.0", "192.0.2.1", 64, b"")),
        ("from a group", udp("224.0.0.9", "192.0.2.1", 64, b"")),
        ("from itself", udp("127.0.0.1", "192.0.2.1", 64, b"")),
        ("to a group, v6", udp("fd00:0::1", "ff02::1", 1, b"")),
        ("to a neighbour, v6", udp("fd00:0::1", "fe80::1", 64, b"")),
        (
            "from a neighbour, v6",
            udp("fe80::1", "2001:db8::1", 64, b""),
        ),
        ("from nowhere, v6", udp("::", "2001:db8::1", 64, b"")),
    ];
    for (what, packet) in nothing {
        assert_eq!(answer(&mut world, &packet), None, "{what}");
    }
    assert_eq!(
        answer(&mut world, &ping("10.0.0.1", "192.0.2.1", 64, b"")),
        Some((3, 0)),
        "a query is no error"
    );
    let query = ping("fd00:0::1", "2001:db8::1", 64, b"");
    assert_eq!(answer(&mut world, &query), Some((1, 0)));
}

#[test]
fn a_wrong_checksum_of_the_header_is_noticed() {
    let mut world = perfect();
    let mut packet = udp("10.0.0.1", "10.1.0.2", 64, b"x");
    packet[17] ^= 1;
    assert!(world.exchange("a", &packet).is_empty());
    let statistics = world.network.snapshot(world.now).routers[0].statistics;
    assert_eq!(statistics.malformed_packets, 1);
}

#[test]
fn errors_are_limited_and_come_back_with_time() {
    let mut config = chain(1, LinkConfig::default());
    config.limits.errors_per_second = 10;
    let mut world = World::new(&config);
    let packet = udp("10.0.0.1", "192.0.2.1", 64, b"?");
    let burst = |world: &mut World| {
        for _ in 0..50 {
            world.send("a", &packet);
        }
        world.pass(Duration::ZERO).len()
    };
    assert_eq!(burst(&mut world), 10);
    world.pass(Duration::from_millis(550));
    assert_eq!(burst(&mut world), 5);
    world.pass(Duration::from_secs(60));
    assert_eq!(burst(&mut world), 10, "no more is saved up");
    let statistics = world.network.snapshot(world.now).routers[0].statistics;
    assert_eq!(
        (statistics.sent_errors, statistics.unsent_errors),
        (25, 125)
    );
}

#[test]
fn a_router_without_an_address_says_nothing() {
    let mut config = chain(1, LinkConfig::default());
    for end in [(0, 1), (1, 0)] {
        config.links[end.0].ends[end.1].addresses.clear();
    }
    let mut world = World::new(&config);
    assert_eq!(
        answer(&mut world, &udp("10.0.0.1", "192.0.2.1", 64, b"")),
        None
    );
    let received = world.exchange("a", &udp("10.0.0.1", "10.1.0.2", 64, b""));
    assert_eq!(received[0].host, "b", "it passes packets on all the same");
    let statistics = world.network.snapshot(world.now).routers[0].statistics;
    assert_eq!(statistics.unsent_errors, 1);
}

#[test]
fn errors_go_where_routes_lead_even_when_the_sender_lies() {
    let mut world = perfect();
    // It says that it is b: b is told.
    let received = world.exchange("a", &udp("10.1.0.2", "192.0.2.1", 64, b""));
    assert_eq!((received.len(), received[0].host.as_str()), (1, "b"));
    // It says that it is the router: nobody is told.
    let received = world.exchange("a", &udp("10.0.0.2", "192.0.2.1", 64, b""));
    assert!(received.is_empty());
}

fn icmp(kind: u8, code: u8) -> Vec<u8> {
    let mut message = vec![kind, code, 0, 0, 0, 0, 0, 0];
    let checksum = !sum(&message, 0) as u16;
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    message
}

fn dont_fragment(packet: &mut [u8]) {
    packet[6] |= 0x40;
    write_checksum(packet);
}

fn later_fragment(mut packet: Vec<u8>) -> Vec<u8> {
    packet[7] = 10;
    write_checksum(&mut packet);
    packet
}
