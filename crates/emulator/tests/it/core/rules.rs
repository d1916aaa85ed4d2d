//! Rules: what happens to which packets.

use std::time::Duration;

use emulator::{ChangeError, Protocol, Rule, RuleId};
use link::{Bottleneck, LinkConfig};

use crate::core::world::{World, chain, raw, udp_ports};

/// A rule that delays so long shows by its time which one it was.
fn delaying(seconds: u64) -> Rule {
    Rule {
        config: LinkConfig {
            delay: Duration::from_secs(seconds),
            ..LinkConfig::default()
        },
        ..Rule::default()
    }
}

fn world() -> World {
    World::new(&chain(1, LinkConfig::default()))
}

/// How many seconds a packet from a to b takes.
fn seconds(world: &mut World, octets: &[u8]) -> u64 {
    let start = world.now - world.start;
    let received = world.exchange("a", octets);
    assert_eq!(received.len(), 1);
    (received[0].at - start).as_secs()
}

fn udp(ports: [u16; 2]) -> Vec<u8> {
    udp_ports("10.0.0.1", "10.1.0.2", 64, ports, b"rule")
}

#[test]
fn the_first_rule_that_matches_acts_alone() {
    let mut world = world();
    let add = |world: &mut World, seconds, change: fn(&mut Rule)| {
        let mut rule = delaying(seconds);
        change(&mut rule);
        world.network.add_rule(rule).unwrap()
    };
    add(&mut world, 1, |rule| {
        rule.destination = Some("192.0.2.0/24".parse().unwrap())
    });
    add(&mut world, 2, |rule| {
        rule.protocol = Some(Protocol::UDP);
        rule.destination_ports = Some((5060, 5061));
    });
    add(&mut world, 3, |rule| rule.source_ports = Some((7000, 7000)));
    add(&mut world, 4, |rule| {
        rule.source = Some("10.0.0.1/32".parse().unwrap());
        rule.destination = Some("10.1.0.0/16".parse().unwrap());
        rule.protocol = Some(Protocol::UDP);
    });
    add(&mut world, 5, |rule| rule.protocol = Some(Protocol::SCTP));
    assert_eq!(seconds(&mut world, &udp([7000, 5060])), 2);
    assert_eq!(seconds(&mut world, &udp([7000, 5061])), 2);
    assert_eq!(seconds(&mut world, &udp([7000, 5062])), 3);
    assert_eq!(seconds(&mut world, &udp([7001, 5059])), 4);
    let sctp = raw("10.0.0.1", "10.1.0.2", 132, &[0x1b, 0x58, 0, 1, 0, 0, 0, 0]);
    assert_eq!(
        seconds(&mut world, &sctp),
        3,
        "source port 7000 of whatever has ports"
    );
    let sctp = raw("10.0.0.1", "10.1.0.2", 132, &[0, 1, 0, 1, 0, 0, 0, 0]);
    assert_eq!(seconds(&mut world, &sctp), 5);
    assert_eq!(
        seconds(&mut world, &raw("10.0.0.1", "10.1.0.2", 47, b"")),
        0
    );
    let counts: Vec<u64> = world
        .network
        .snapshot(world.now)
        .rules
        .iter()
        .map(|rule| rule.line.delivered_packets)
        .collect();
    assert_eq!(counts, [0, 2, 2, 1, 1]);
}

#[test]
fn rules_act_in_one_direction_unless_they_say_nothing_of_it() {
    let mut world = world();
    world
        .network
        .add_rule(Rule {
            destination: Some("10.1.0.2/32".parse().unwrap()),
            ..delaying(2)
        })
        .unwrap();
    let there = udp_ports("10.0.0.1", "10.1.0.2", 64, [1, 2], b"");
    assert_eq!(seconds(&mut world, &there), 2);
    let start = world.now - world.start;
    let back = udp_ports("10.1.0.2", "10.0.0.1", 64, [2, 1], b"");
    assert_eq!(world.exchange("b", &back)[0].at, start);
}

#[test]
fn a_rule_of_a_link_acts_there_beside_the_link_itself() {
    let mut config = chain(2, LinkConfig::default());
    config.links[1].forward.delay = Duration::from_secs(10);
    let mut world = World::new(&config);
    world
        .network
        .add_rule(Rule {
            link: Some("link1".to_owned()),
            protocol: Some(Protocol::UDP),
            ..delaying(1)
        })
        .unwrap();
    // One where packets come in, which acts once.
    world.network.add_rule(delaying(3)).unwrap();
    let octets = udp_ports("10.0.0.1", "10.2.0.2", 64, [1, 2], b"");
    assert_eq!(seconds(&mut world, &octets), 14);
    let octets = raw("10.0.0.1", "10.2.0.2", 47, b"");
    assert_eq!(seconds(&mut world, &octets), 13);
}

#[test]
fn packets_of_a_rule_share_its_queue() {
    let mut world = world();
    world
        .network
        .add_rule(Rule {
            config: LinkConfig {
                // A second for 100 bytes.
                bottleneck: Some(Bottleneck {
                    queue_packets: 3,
                    ..Bottleneck::new(800)
                }),
                ..LinkConfig::default()
            },
            ..Rule::default()
        })
        .unwrap();
    for source in [1, 2, 3, 4] {
        world.send(
            "a",
            &udp_ports("10.0.0.1", "10.1.0.2", 64, [source, 9], &[0; 72]),
        );
    }
    let received = world.pass(Duration::from_secs(60));
    let times: Vec<_> = received.iter().map(|one| one.at.as_secs()).collect();
    assert_eq!(times, [1, 2, 3]);
    let line = &world.network.snapshot(world.now).rules[0].line;
    assert_eq!(line.link.queue_full_packets, 1);
}

#[test]
fn rules_can_be_changed_and_deleted_while_packets_are_on_their_way() {
    let mut world = world();
    let first = world.network.add_rule(delaying(5)).unwrap();
    let second = world.network.add_rule(delaying(9)).unwrap();
    world.send("a", &udp([1, 2]));
    world.network.change_rule(first, delaying(6)).unwrap();
    world.pass(Duration::from_millis(10));
    world.send("a", &udp([3, 4]));
    world.network.delete_rule(first).unwrap();
    let times = |received: Vec<crate::core::world::Received>| {
        let times = received.iter().map(|one| one.at.as_millis());
        times.collect::<Vec<_>>()
    };
    assert_eq!(times(world.pass(Duration::from_secs(60))), [5000, 6010]);
    assert_eq!(world.network.rules(), [(second, delaying(9))]);
    let third = world.network.insert_rule(0, delaying(2)).unwrap();
    assert_eq!(third, RuleId(3), "no number is given twice");
    assert_eq!(seconds(&mut world, &udp([1, 2])), 2);
    let gone = ChangeError::NoRule(first);
    assert_eq!(world.network.delete_rule(first), Err(gone.clone()));
    assert_eq!(world.network.change_rule(first, delaying(1)), Err(gone));
}

#[test]
fn rules_that_cannot_be_are_refused() {
    let mut config = chain(1, LinkConfig::default());
    config.limits.rules = 1;
    let mut world = World::new(&config);
    let network = &mut world.network;
    let with = |change: fn(&mut Rule)| {
        let mut rule = Rule::default();
        change(&mut rule);
        rule
    };
    let ports = with(|rule| {
        rule.protocol = Some(Protocol::ICMP);
        rule.source_ports = Some((1, 2));
    });
    assert_eq!(network.add_rule(ports), Err(ChangeError::NoPorts));
    let versions = with(|rule| {
        rule.source = Some("10.0.0.0/8".parse().unwrap());
        rule.destination = Some("::/0".parse().unwrap());
    });
    assert_eq!(network.add_rule(versions), Err(ChangeError::TwoVersions));
    let link = with(|rule| rule.link = Some("nowhere".to_owned()));
    assert!(matches!(
        network.add_rule(link),
        Err(ChangeError::NoLink { .. })
    ));
    network.add_rule(Rule::default()).unwrap();
    assert_eq!(
        network.add_rule(Rule::default()),
        Err(ChangeError::TooManyRules(1))
    );
}

/// The chances of a rule depend on the seed and its number alone.
#[test]
fn a_rule_has_chances_of_its_own() {
    let lossy = |loss: f64| LinkConfig {
        loss: loss.into(),
        ..LinkConfig::default()
    };
    let fate = |links| {
        let mut config = chain(links, LinkConfig::default());
        config.rules = vec![Rule {
            config: lossy(0.5),
            ..Rule::default()
        }];
        let mut world = World::seeded(&config, 5);
        let octets = udp_ports("10.0.0.1", &format!("10.{links}.0.2"), 64, [1, 2], b"");
        (0..64)
            .map(|_| world.exchange("a", &octets).len())
            .collect::<Vec<_>>()
    };
    assert_eq!(fate(1), fate(3));
    let lost = fate(1).iter().filter(|count| **count == 0).count();
    assert!((16..48).contains(&lost));
}

#[test]
fn protocols_are_read_by_name_and_number() {
    for (text, number) in [
        ("udp", 17),
        ("TCP", 6),
        ("sctp", 132),
        ("icmp", 1),
        ("icmpv6", 58),
        ("47", 47),
    ] {
        assert_eq!(text.parse(), Ok(Protocol(number)));
    }
    assert_eq!(Protocol::SCTP.to_string(), "sctp");
    assert_eq!(Protocol(47).to_string(), "47");
    assert!("256".parse::<Protocol>().is_err());
}
