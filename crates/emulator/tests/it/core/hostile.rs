//! Whatever hosts send, a network neither breaks nor sends nonsense.

use std::time::Duration;

use emulator::{Framing, NetworkConfig};
use etherparse::SlicedPacket;
use link::{Bottleneck, Jitter, LinkConfig};
use proptest::prelude::*;

use crate::core::world::{World, chain, ping, raw, udp};

/// A chain with everything that links do. Bits flip before the last router only: what flips behind it, nobody but the
/// receiver's checksum could find.
fn rough() -> NetworkConfig {
    let mut config = chain(
        2,
        LinkConfig {
            bottleneck: Some(Bottleneck {
                queue_packets: 10,
                ..Bottleneck::new(10_000_000)
            }),
            loss: 0.05.into(),
            corrupt: 0.05.into(),
            delay: Duration::from_millis(3),
            jitter: Jitter {
                reorders: true,
                ..Duration::from_millis(2).into()
            },
            duplicate: 0.1.into(),
            ..LinkConfig::default()
        },
    );
    config.links[1].mtu = 600;
    let [first, .., last] = &mut config.links[..] else {
        unreachable!("a chain of three");
    };
    for last_hop in [&mut first.backward, &mut last.forward] {
        last_hop.corrupt = 0.0.into();
    }
    config
}

/// Packets of hosts, and what may become of them.
fn packet() -> impl Strategy<Value = Vec<u8>> {
    let destination = prop_oneof![
        Just("10.2.0.2"),
        Just("10.1.0.2"),
        Just("10.0.0.2"),
        Just("10.0.0.1"),
        Just("192.0.2.1"),
        Just("224.0.0.5"),
    ];
    let destination_v6 = prop_oneof![
        Just("fd00:2::2"),
        Just("fd00:1::2"),
        Just("fd00:0::2"),
        Just("2001:db8::1"),
        Just("ff02::1"),
    ];
    let payload = proptest::collection::vec(any::<u8>(), 0..1400);
    let whole =
        prop_oneof![
            (destination.clone(), any::<u8>(), payload.clone())
                .prop_map(|(to, ttl, payload)| udp("10.0.0.1", to, ttl, &payload)),
            (destination_v6.clone(), any::<u8>(), payload.clone())
                .prop_map(|(to, ttl, payload)| udp("fd00:0::1", to, ttl, &payload)),
            (destination.clone(), any::<u8>(), payload.clone())
                .prop_map(|(to, ttl, payload)| ping("10.0.0.1", to, ttl, &payload)),
            (destination_v6, any::<u8>(), payload.clone()).prop_map(|(to, ttl, payload)| ping(
                "fd00:0::1",
                to,
                ttl,
                &payload
            )),
            (destination, any::<u8>(), payload.clone())
                .prop_map(|(to, protocol, payload)| raw("10.0.0.1", to, protocol, &payload)),
        ];
    let change = (any::<prop::sample::Index>(), any::<u8>());
    prop_oneof![
        3 => whole.clone(),
        3 => (whole.clone(), proptest::collection::vec(change, 1..4)).prop_map(|(mut octets, changes)| {
            for (at, value) in changes {
                let at = at.index(octets.len().min(60));
                octets[at] = value;
            }
            octets
        }),
        1 => (whole, any::<prop::sample::Index>()).prop_map(|(mut octets, at)| {
            octets.truncate(at.index(octets.len()));
            octets
        }),
        1 => payload,
    ]
}

proptest! {
    /// All is counted, all that is under way comes to an end, and who sends well receives well.
    #[test]
    fn a_network_takes_whatever_comes(
        packets in proptest::collection::vec((any::<bool>(), packet()), 1..40),
        seed in any::<u64>(),
    ) {
        let mut world = World::seeded(&rough(), seed);
        let mut received = Vec::new();
        for (is_a, packet) in &packets {
            world.send(if *is_a { "a" } else { "b" }, packet);
            received.extend(world.pass(Duration::from_micros(200)));
        }
        received.extend(world.pass(Duration::from_secs(3600)));
        let snapshot = world.network.snapshot(world.now);
        prop_assert_eq!(snapshot.under_way_packets, 0);
        prop_assert_eq!(snapshot.under_way_bytes, 0);
        prop_assert_eq!(world.network.next_timeout(), None);
        let last_hops = [&snapshot.links[0].backward, &snapshot.links[2].forward];
        let delivered: u64 = last_hops.iter().map(|line| line.delivered_packets).sum();
        prop_assert_eq!(delivered, received.len() as u64);
        for line in snapshot.links.iter().flat_map(|link| [&link.forward, &link.backward]) {
            let counted = &line.link;
            let came_out = counted.offered_packets + counted.duplicated_packets
                - counted.lost_packets
                - counted.queue_full_packets
                - counted.down_packets;
            prop_assert_eq!(line.delivered_packets, came_out);
        }
        // Every packet has passed a router, and routers pass on nothing that contradicts itself.
        for one in &received {
            let packet = SlicedPacket::from_ip(&one.octets);
            if let Err(error) = packet {
                let about_ip = !matches!(error, etherparse::err::packet::SliceError::Len(_));
                prop_assert!(!about_ip || is_odd_inside(&one.octets), "{error}");
            }
        }
    }

    #[test]
    fn frames_are_taken_whatever_they_are(
        frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..1600), 1..20),
    ) {
        let mut config = chain(0, LinkConfig::default());
        for end in &mut config.links[0].ends {
            end.framing = Framing::Ethernet;
        }
        let mut world = World::new(&config);
        for frame in &frames {
            let received = world.exchange("a", frame);
            if let Some(one) = received.first() {
                prop_assert_eq!(&one.octets, frame);
            }
        }
    }
}

/// Whether what is odd is behind the header of IP, of which routers know nothing.
fn is_odd_inside(octets: &[u8]) -> bool {
    match octets[0] >> 4 {
        4 => octets[0] & 0x0f >= 5,
        6 => octets.len() >= 40,
        _ => false,
    }
}
