//! Where packets go.

use std::time::Duration;

use emulator::{ConfigError, LinkBetween, NetworkConfig, StaticRoute};
use link::LinkConfig;

use crate::core::world::{Icmp, World, chain, end, names, ping, udp};

#[test]
fn routers_show_themselves_to_a_traceroute() {
    for (source, destination, routers) in [
        ("10.0.0.1", "10.3.0.2", ["10.0.0.2", "10.1.0.2", "10.2.0.2"]),
        (
            "fd00:0::1",
            "fd00:3::2",
            ["fd00:0::2", "fd00:1::2", "fd00:2::2"],
        ),
    ] {
        let mut world = World::new(&chain(3, LinkConfig::default()));
        for (passed, router) in routers.iter().enumerate() {
            let probe = udp(source, destination, passed as u8 + 1, &[7; 64]);
            let received = world.exchange("a", &probe);
            assert_eq!(received.len(), 1);
            assert_eq!(received[0].host, "a");
            let error = Icmp::read(&received[0].octets);
            assert_eq!(error.source, router.parse::<std::net::IpAddr>().unwrap());
            assert_eq!(
                error.destination,
                source.parse::<std::net::IpAddr>().unwrap()
            );
            let expected = if error.source.is_ipv4() {
                (11, 0)
            } else {
                (3, 0)
            };
            assert_eq!((error.kind, error.code), expected);
            // It shows the packet as the router had it: each one before has taken one off.
            let quoted = udp(source, destination, 1, &[7; 64]);
            assert_eq!(error.quoted, quoted);
        }
        let probe = udp(source, destination, 4, &[7; 64]);
        let received = world.exchange("a", &probe);
        assert_eq!(received.len(), 1);
        assert_eq!(received[0].host, "b");
        assert_eq!(received[0].octets, udp(source, destination, 1, &[7; 64]));
    }
}

#[test]
fn what_is_sent_comes_out_as_it_was_but_for_its_time_to_live() {
    let mut world = World::new(&chain(2, LinkConfig::default()));
    let received = world.exchange("a", &udp("10.0.0.1", "10.2.0.2", 64, b"hello"));
    assert_eq!(
        received[0].octets,
        udp("10.0.0.1", "10.2.0.2", 62, b"hello")
    );
    assert_eq!(received[0].at, Duration::ZERO);
    let received = world.exchange("b", &udp("fd00:2::2", "fd00:0::1", 64, b"hello"));
    assert_eq!(received[0].host, "a");
    assert_eq!(
        received[0].octets,
        udp("fd00:2::2", "fd00:0::1", 62, b"hello")
    );
}

#[test]
fn hosts_on_one_link_meet_no_router() {
    let mut world = World::new(&chain(0, LinkConfig::default()));
    let packet = udp("10.0.0.1", "10.0.0.2", 1, b"near");
    let received = world.exchange("a", &packet);
    assert_eq!((received.len(), &received[0].octets), (1, &packet));
}

#[test]
fn routers_answer_pings_at_all_their_addresses() {
    let mut world = World::new(&chain(2, LinkConfig::default()));
    for router in ["10.0.0.2", "10.1.0.1", "10.1.0.2", "10.2.0.1"] {
        let received = world.exchange("a", &ping("10.0.0.1", router, 64, b"echo"));
        let reply = Icmp::read(&received[0].octets);
        assert_eq!(reply.source, router.parse::<std::net::IpAddr>().unwrap());
        assert_eq!((reply.kind, reply.rest), (0, 7 << 16 | 8));
        assert_eq!(reply.quoted, b"echo");
    }
    let received = world.exchange("b", &ping("fd00:2::2", "fd00:0::2", 64, b"echo"));
    let reply = Icmp::read(&received[0].octets);
    assert_eq!((reply.kind, &reply.quoted[..]), (129, &b"echo"[..]));
}

/// Two hosts with two paths between them, and a link between the routers if that is asked for.
fn multihomed(is_crossed: bool) -> NetworkConfig {
    let mut links = vec![
        LinkBetween::new(
            "upper-a",
            [
                end("a", "eth0", &["10.1.0.2/24"]),
                end("upper", "a", &["10.1.0.1/24"]),
            ],
        ),
        LinkBetween::new(
            "upper-b",
            [
                end("upper", "b", &["10.2.0.1/24"]),
                end("b", "eth0", &["10.2.0.2/24"]),
            ],
        ),
        LinkBetween::new(
            "lower-a",
            [
                end("a", "eth1", &["10.3.0.2/24"]),
                end("lower", "a", &["10.3.0.1/24"]),
            ],
        ),
        LinkBetween::new(
            "lower-b",
            [
                end("lower", "b", &["10.4.0.1/24"]),
                end("b", "eth1", &["10.4.0.2/24"]),
            ],
        ),
    ];
    if is_crossed {
        links.push(LinkBetween::new(
            "cross",
            [
                end("upper", "cross", &["10.9.0.1/24"]),
                end("lower", "cross", &["10.9.0.2/24"]),
            ],
        ));
    }
    NetworkConfig {
        hosts: names(&["a", "b"]),
        routers: names(&["upper", "lower"]),
        links,
        ..NetworkConfig::default()
    }
}

#[test]
fn the_paths_of_hosts_with_two_interfaces_have_nothing_in_common() {
    let mut world = World::new(&multihomed(false));
    let interfaces: Vec<_> = world.network.interfaces().to_vec();
    let names: Vec<_> = interfaces
        .iter()
        .map(|one| (one.host.as_str(), one.name.as_str(), one.link.as_str()))
        .collect();
    assert_eq!(
        names,
        [
            ("a", "eth0", "upper-a"),
            ("b", "eth0", "upper-b"),
            ("a", "eth1", "lower-a"),
            ("b", "eth1", "lower-b"),
        ]
    );
    world.network.cut("upper-b").unwrap();
    let mut send = |number: usize, source, destination| {
        let packet = udp(source, destination, 64, b"path");
        world
            .network
            .handle_packet(world.now, interfaces[number].id, &packet);
        let received = world.pass(Duration::from_secs(1));
        received.into_iter().map(|one| one.host).collect::<Vec<_>>()
    };
    assert!(send(0, "10.1.0.2", "10.2.0.2").is_empty(), "the cut path");
    assert_eq!(send(2, "10.3.0.2", "10.4.0.2"), ["b"], "the other path");
    // The lower path knows nothing of the upper one: its router says so.
    assert_eq!(send(2, "10.3.0.2", "10.2.0.2"), ["a"]);
}

#[test]
fn an_address_is_reached_over_its_own_interface_alone() {
    let mut world = World::new(&multihomed(true));
    // From the lower router over the upper one to the interface that has the address.
    let interface = world.network.interfaces()[2].id;
    let packet = udp("10.3.0.2", "10.2.0.2", 64, b"over");
    world.network.handle_packet(world.now, interface, &packet);
    let transmit = world.network.poll_transmit().unwrap();
    let arrived = &world.network.interfaces()[transmit.interface.0];
    assert_eq!(
        (arrived.host.as_str(), arrived.name.as_str()),
        ("b", "eth0")
    );
    assert_eq!(transmit.octets[8], 62, "two routers");
}

#[test]
fn of_several_ways_the_shortest_is_taken() {
    let mut config = chain(3, LinkConfig::default());
    config.links.push(LinkBetween::new(
        "short",
        [
            end("r1", "short", &["10.8.0.1/24"]),
            end("r3", "short", &["10.8.0.2/24"]),
        ],
    ));
    let mut world = World::new(&config);
    let received = world.exchange("a", &udp("10.0.0.1", "10.3.0.2", 64, b""));
    assert_eq!(received[0].octets[8], 62, "two routers, not three");
}

#[test]
fn a_host_passes_nothing_on() {
    // The only way from a to c would be through b.
    let config = NetworkConfig {
        hosts: names(&["a", "b", "c"]),
        routers: names(&["left", "right"]),
        links: vec![
            LinkBetween::new(
                "1",
                [
                    end("a", "0", &["10.1.0.2/24"]),
                    end("left", "0", &["10.1.0.1/24"]),
                ],
            ),
            LinkBetween::new(
                "2",
                [
                    end("left", "1", &["10.2.0.1/24"]),
                    end("b", "0", &["10.2.0.2/24"]),
                ],
            ),
            LinkBetween::new(
                "3",
                [
                    end("b", "1", &["10.3.0.2/24"]),
                    end("right", "0", &["10.3.0.1/24"]),
                ],
            ),
            LinkBetween::new(
                "4",
                [
                    end("right", "1", &["10.4.0.1/24"]),
                    end("c", "0", &["10.4.0.2/24"]),
                ],
            ),
        ],
        ..NetworkConfig::default()
    };
    let mut world = World::new(&config);
    let received = world.exchange("a", &udp("10.1.0.2", "10.4.0.2", 64, b""));
    let error = Icmp::read(&received[0].octets);
    assert_eq!(
        (received[0].host.as_str(), error.kind, error.code),
        ("a", 3, 0)
    );
}

#[test]
fn a_route_with_a_longer_prefix_wins() {
    let mut config = chain(1, LinkConfig::default());
    config.hosts.push("c".to_owned());
    config.links.push(LinkBetween::new(
        "other",
        [
            end("r1", "other", &["10.7.0.1/24"]),
            end("c", "eth0", &["10.7.0.2/24"]),
        ],
    ));
    let route = |destination: &str, link: &str| StaticRoute {
        router: "r1".to_owned(),
        destination: destination.parse().unwrap(),
        link: link.to_owned(),
    };
    config.routes = vec![
        route("192.0.2.0/24", "link1"),
        route("192.0.2.128/25", "other"),
    ];
    let mut world = World::new(&config);
    let mut host = |destination| {
        let received = world.exchange("a", &udp("10.0.0.1", destination, 64, b""));
        received[0].host.clone()
    };
    assert_eq!(host("192.0.2.5"), "b");
    assert_eq!(host("192.0.2.200"), "c");
    assert_eq!(host("198.51.100.1"), "a", "an error comes back");
}

#[test]
fn a_configuration_that_contradicts_itself_is_refused() {
    type Change = fn(&mut NetworkConfig);
    let cases: [(Change, &str); 10] = [
        (
            |config| config.hosts.push("r1".to_owned()),
            "two nodes called r1",
        ),
        (
            |config| config.links[1].name = "link0".to_owned(),
            "two links called link0",
        ),
        (
            |config| config.links[0].ends[0].node = "x".to_owned(),
            "ends at x, which does not exist",
        ),
        (
            |config| config.links[0].ends[1].node = "a".to_owned(),
            "same node",
        ),
        (
            |config| config.links[0].ends[1].interface = "right".to_owned(),
            "r1 has two interfaces called right",
        ),
        (|config| config.links[0].mtu = 67, "67"),
        (
            |config| config.links[1].ends[0].addresses = config.links[0].ends[0].addresses.clone(),
            "10.0.0.1 is at two",
        ),
        (
            |config| config.links[0].ends[0].framing = emulator::Framing::Ethernet,
            "Ethernet",
        ),
        (
            |config| {
                config.routes = vec![StaticRoute {
                    router: "a".to_owned(),
                    destination: "0.0.0.0/0".parse().unwrap(),
                    link: "link0".to_owned(),
                }]
            },
            "the router a, which does not exist",
        ),
        (
            |config| {
                config.routes = vec![StaticRoute {
                    router: "r1".to_owned(),
                    destination: "0.0.0.0/0".parse().unwrap(),
                    link: "link9".to_owned(),
                }]
            },
            "not a link of r1",
        ),
    ];
    for (change, expected) in cases {
        let mut config = chain(1, LinkConfig::default());
        change(&mut config);
        let error: ConfigError = emulator::Network::new(&config, 1, std::time::Instant::now())
            .err()
            .unwrap_or_else(|| panic!("{expected} was accepted"));
        let text = error.to_string();
        assert!(text.contains(expected), "{text:?} has no {expected:?}");
    }
}
