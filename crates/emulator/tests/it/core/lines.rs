//! What links do to packets.

use std::time::Duration;

use emulator::{Direction, Framing};
use etherparse::{NetSlice, SlicedPacket};
use link::{Bottleneck, LinkConfig, Management, Red, Schedule, Unit};

use crate::core::world::{World, chain, sum, udp, write_checksum};

const MILLISECOND: Duration = Duration::from_millis(1);

fn packet(payload: &[u8]) -> Vec<u8> {
    udp("10.0.0.1", "10.1.0.2", 64, payload)
}

fn slow(bits_per_second: u64) -> LinkConfig {
    LinkConfig {
        bottleneck: Some(Bottleneck::new(bits_per_second)),
        ..LinkConfig::default()
    }
}

fn late(delay: Duration) -> LinkConfig {
    LinkConfig {
        delay,
        ..LinkConfig::default()
    }
}

#[test]
fn delays_of_links_add_up_to_the_nanosecond() {
    let mut world = World::new(&chain(1, late(7 * MILLISECOND)));
    world.pass(Duration::from_nanos(12_345));
    let received = world.exchange("a", &packet(b"x"));
    assert_eq!(
        received[0].at,
        14 * MILLISECOND + Duration::from_nanos(12_345)
    );
}

#[test]
fn each_direction_is_a_link_of_its_own() {
    let mut config = chain(0, LinkConfig::default());
    config.links[0].forward = late(30 * MILLISECOND);
    config.links[0].backward = late(10 * MILLISECOND);
    let mut world = World::new(&config);
    let there = udp("10.0.0.1", "10.0.0.2", 64, b"");
    let back = udp("10.0.0.2", "10.0.0.1", 64, b"");
    let at = world.exchange("a", &there)[0].at;
    assert_eq!(at, 30 * MILLISECOND);
    let start = world.now - world.start;
    assert_eq!(world.exchange("b", &back)[0].at - start, 10 * MILLISECOND);
    let faster = late(MILLISECOND);
    world
        .network
        .set_link("link0", Some(Direction::Forward), faster)
        .unwrap();
    let start = world.now - world.start;
    assert_eq!(world.exchange("a", &there)[0].at - start, MILLISECOND);
    let start = world.now - world.start;
    assert_eq!(world.exchange("b", &back)[0].at - start, 10 * MILLISECOND);
}

#[test]
fn a_rate_is_kept_to_the_bit() {
    let mut config = chain(1, LinkConfig::default());
    config.links[1].forward = slow(1_000_000);
    let mut world = World::new(&config);
    let octets = packet(&[0; 972]);
    assert_eq!(octets.len(), 1000);
    for _ in 0..100 {
        world.send("a", &octets);
    }
    let received = world.pass(Duration::from_secs(10));
    let times: Vec<_> = received.iter().map(|one| one.at).collect();
    let expected: Vec<_> = (1..=100).map(|number| number * 8 * MILLISECOND).collect();
    assert_eq!(times, expected);
}

/// A driver that is late hands packets out late, but the rate stays what it is.
#[test]
fn a_late_driver_changes_no_rate() {
    let mut config = chain(1, LinkConfig::default());
    config.links[0].forward = late(3 * MILLISECOND);
    config.links[1].forward = slow(1_000_000);
    let mut world = World::new(&config);
    for _ in 0..100 {
        world.send("a", &packet(&[0; 972]));
    }
    let mut dues = Vec::new();
    for turn in 1..=30 {
        world
            .network
            .handle_timeout(world.start + turn * 50 * MILLISECOND);
        while let Some(transmit) = world.network.poll_transmit() {
            dues.push(transmit.due - world.start);
        }
    }
    let expected: Vec<_> = (1..=100)
        .map(|number| (3 + number * 8) * MILLISECOND)
        .collect();
    assert_eq!(dues, expected);
}

#[test]
fn a_cut_link_takes_nothing_and_keeps_what_it_has() {
    let mut world = World::new(&chain(1, late(10 * MILLISECOND)));
    world.send("a", &packet(b"before"));
    world.pass(15 * MILLISECOND);
    world.network.cut("link1").unwrap();
    world.send("a", &packet(b"during"));
    let received = world.pass(Duration::from_secs(1));
    assert_eq!(received.len(), 1);
    assert!(received[0].octets.ends_with(b"before"));
    world.network.heal("link1").unwrap();
    let received = world.exchange("a", &packet(b"after"));
    assert!(received[0].octets.ends_with(b"after"));
    let snapshot = world.network.snapshot(world.now);
    assert_eq!(snapshot.links[1].forward.link.down_packets, 1);
    assert_eq!(snapshot.links[1].forward.delivered_packets, 2);
    assert!(snapshot.links[1].forward.is_up);
}

#[test]
fn there_is_no_link_of_that_name() {
    let mut world = World::new(&chain(1, LinkConfig::default()));
    let errors = [
        world.network.cut("link7").unwrap_err(),
        world.network.heal("link7").unwrap_err(),
        world
            .network
            .set_link("link7", None, LinkConfig::default())
            .unwrap_err(),
    ];
    for error in errors {
        assert_eq!(
            error.to_string(),
            "there is no link link7; there are: link0, link1"
        );
    }
}

#[test]
fn what_a_link_does_is_counted() {
    let mut config = chain(0, LinkConfig::default());
    config.links[0].forward = LinkConfig {
        delay: 5 * MILLISECOND,
        loss: 0.25.into(),
        duplicate: 0.25.into(),
        ..LinkConfig::default()
    };
    let mut world = World::new(&config);
    let octets = udp("10.0.0.1", "10.0.0.2", 64, &[0; 72]);
    for _ in 0..1000 {
        world.send("a", &octets);
    }
    let received = world.pass(Duration::from_secs(1));
    let line = &world.network.snapshot(world.now).links[0].forward;
    assert_eq!(line.link.offered_packets, 1000);
    assert_eq!(line.link.offered_bytes, 100_000);
    assert_eq!(line.delivered_packets, received.len() as u64);
    assert_eq!(
        line.delivered_packets,
        1000 - line.link.lost_packets + line.link.duplicated_packets
    );
    assert_eq!(line.delivered_bytes, line.delivered_packets * 100);
    assert!((150..350).contains(&line.link.lost_packets));
    assert_eq!(line.delay.count, line.delivered_packets);
    let total = line.delay.total / line.delay.count as f64;
    assert!((total - 5000.0).abs() < 1e-6, "{total}");
    assert!((line.delay.p99.unwrap() / 5000.0 - 1.0).abs() < 0.01);
}

#[test]
fn one_seed_is_one_fate_whatever_other_links_do() {
    let lossy = LinkConfig {
        loss: 0.5.into(),
        ..LinkConfig::default()
    };
    let fate = |seed, before: LinkConfig| {
        let mut config = chain(1, LinkConfig::default());
        config.links[0].backward = before;
        config.links[1].forward = lossy.clone();
        let mut world = World::seeded(&config, seed);
        (0..64)
            .map(|_| world.exchange("a", &packet(b"x")).len())
            .collect::<Vec<_>>()
    };
    assert_eq!(fate(1, LinkConfig::default()), fate(1, lossy.clone()));
    assert_ne!(
        fate(1, LinkConfig::default()),
        fate(2, LinkConfig::default())
    );
}

#[test]
fn no_more_is_under_way_than_may_be() {
    let mut config = chain(0, late(Duration::from_secs(1)));
    config.limits.packets = 10;
    let mut world = World::new(&config);
    let octets = udp("10.0.0.1", "10.0.0.2", 64, &[0; 72]);
    for _ in 0..25 {
        world.send("a", &octets);
    }
    let snapshot = world.network.snapshot(world.now);
    assert_eq!(
        (snapshot.under_way_packets, snapshot.under_way_bytes),
        (10, 1000)
    );
    assert_eq!(snapshot.refused_packets, 15);
    assert_eq!(world.pass(Duration::from_secs(2)).len(), 10);
    config.limits.packets = 100;
    config.limits.bytes = 1250;
    let mut world = World::new(&config);
    for _ in 0..25 {
        world.send("a", &octets);
    }
    assert_eq!(world.pass(Duration::from_secs(2)).len(), 12);
}

/// Two machines on one wire: whole frames pass, whatever they hold.
#[test]
fn frames_of_ethernet_pass_as_they_are() {
    let mut config = chain(0, late(MILLISECOND));
    for end in &mut config.links[0].ends {
        end.framing = Framing::Ethernet;
    }
    let mut world = World::new(&config);
    let mut frame = vec![0xff; 12];
    frame.extend_from_slice(&[0x08, 0x06]);
    frame.extend_from_slice(&[1; 28]);
    let received = world.exchange("a", &frame);
    assert_eq!(received[0].octets, frame, "ARP");
    // The MTU is that of what the frame holds.
    let mut frame = vec![0xaa; 12];
    frame.extend_from_slice(&[0x08, 0x00]);
    frame.extend_from_slice(&udp("10.0.0.1", "10.0.0.2", 64, &[9; 1472]));
    assert_eq!(world.exchange("b", &frame)[0].octets, frame);
    frame.push(0);
    assert!(world.exchange("b", &frame).is_empty());
    for short in 0..14 {
        assert_eq!(world.exchange("a", &frame[..short]).len(), 1);
    }
}

/// Whatever bit flips, in the header or behind it, some checksum tells.
#[test]
fn flipped_bits_are_found_by_checksums() {
    let mut config = chain(1, LinkConfig::default());
    config.links[0].forward.corrupt = 1.0.into();
    let mut world = World::new(&config);
    let octets = packet(&[0xa5; 100]);
    let mut in_header = 0;
    for _ in 0..500 {
        let Some(one) = world.exchange("a", &octets).pop() else {
            in_header += 1;
            continue;
        };
        // As the receiver does it: addresses, protocol, length, and UDP itself (RFC 768).
        let udp = &one.octets[20..];
        let pseudo_header = sum(&one.octets[12..20], 17 + udp.len() as u32);
        let is_whole = u16::from_be_bytes([udp[4], udp[5]]) as usize == udp.len();
        assert!(!is_whole || sum(udp, pseudo_header) != 0xffff, "{udp:?}");
    }
    let snapshot = world.network.snapshot(world.now);
    assert_eq!(snapshot.routers[0].statistics.malformed_packets, in_header);
    assert_eq!(snapshot.links[0].forward.link.altered_packets, 500);
    // 160 of 1,024 bits.
    assert!((40..120).contains(&in_header), "{in_header}");
}

/// A queue that marks instead of dropping sets CE, and the checksum with it.
#[test]
fn congestion_is_marked_in_the_header() {
    for (source, destination) in [("10.0.0.1", "10.0.0.2"), ("fd00:0::1", "fd00:0::2")] {
        let mut config = chain(0, LinkConfig::default());
        config.links[0].forward.bottleneck = Some(Bottleneck {
            management: Management::Red(Red {
                probability: 1.0,
                weight: 1.0,
                ..Red::new(2, 40, Unit::Packets)
            }),
            ecn: true,
            ..Bottleneck::new(1_000_000)
        });
        let mut world = World::new(&config);
        for ecn in [0b00, 0b01, 0b10, 0b11] {
            for _ in 0..20 {
                let mut octets = udp(source, destination, 64, &[ecn; 900]);
                if octets[0] >> 4 == 4 {
                    octets[1] |= ecn;
                    write_checksum(&mut octets);
                } else {
                    octets[1] |= ecn << 4;
                }
                world.send("a", &octets);
            }
            let received = world.pass(Duration::from_secs(60));
            let mut marked = 0;
            for one in &received {
                let packet = SlicedPacket::from_ip(&one.octets).unwrap();
                let is_marked = match packet.net.unwrap() {
                    NetSlice::Ipv4(ip) => {
                        let header = ip.header().to_header();
                        assert_eq!(header.header_checksum, header.calc_header_checksum());
                        header.ecn.value() == 0b11
                    }
                    NetSlice::Ipv6(ip) => ip.header().traffic_class() & 0b11 == 0b11,
                    other => panic!("{other:?}"),
                };
                marked += usize::from(is_marked);
            }
            match ecn {
                0b00 => assert!(marked == 0 && received.len() < 20, "{}", received.len()),
                0b11 => assert_eq!((marked, received.len()), (20, 20)),
                _ => assert!(marked > 0 && received.len() == 20, "{ecn}: {marked}"),
            }
        }
    }
}

#[test]
fn a_schedule_cuts_and_heals_by_itself() {
    let mut config = chain(0, LinkConfig::default());
    let second = Duration::from_secs(1);
    let schedule = Schedule::new().down(2 * second, 4 * second);
    config.links[0].schedules = [schedule, Schedule::new()];
    let mut world = World::new(&config);
    let octets = udp("10.0.0.1", "10.0.0.2", 64, b"");
    let mut arrived = Vec::new();
    for number in 0..6 {
        world.send("a", &octets);
        if !world.pass(second).is_empty() {
            arrived.push(number);
        }
    }
    assert_eq!(arrived, [0, 1, 4, 5]);
}
