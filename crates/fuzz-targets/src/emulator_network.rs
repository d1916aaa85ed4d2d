//! Sends arbitrary packets into a network in a box, and changes it meanwhile: nothing breaks, all that is taken
//! comes to an end, and no more is under way than may be.

use std::time::{Duration, Instant};

use emulator::{
    Direction, End, Framing, LinkBetween, Network, NetworkConfig, Protocol, Rule, RuleId,
    StaticRoute,
};
use etherparse::checksum::Sum16BitWords;
use link::{Bottleneck, Jitter, LinkConfig};

const MOST_PACKETS: usize = 50;

/// Feeds the target an input.
pub fn run(input: &[u8]) {
    let start = Instant::now();
    let mut network = Network::new(&config(), 1, start).expect("the network can be");
    let interfaces = network.interfaces().to_vec();
    let mut now = start;
    let mut rest = input;
    while let Some(([what, length], after)) = rest.split_first_chunk::<2>() {
        let (octets, after) = after.split_at(usize::from(*length).min(after.len()));
        rest = after;
        now += Duration::from_micros(u64::from(*length) * 10);
        match what % 8 {
            0 => drop(network.cut("middle")),
            1 => drop(network.heal("middle")),
            2 => drop(network.add_rule(rule(octets))),
            3 => drop(network.delete_rule(RuleId(u64::from(*length)))),
            4 => drop(network.set_link("middle", Some(Direction::Forward), rough())),
            _ => {
                let from = &interfaces[usize::from(*what / 8) % interfaces.len()];
                let mut packet = octets.to_vec();
                if what & 0x80 != 0 {
                    mend(&mut packet);
                }
                network.handle_packet(now, from.id, &packet);
            }
        }
        assert!(network.snapshot(now).under_way_packets <= MOST_PACKETS);
        while let Some(transmit) = network.poll_transmit() {
            assert!(transmit.due <= now);
        }
    }
    network.handle_timeout(now + Duration::from_secs(3600));
    assert_eq!(network.next_timeout(), None);
    assert_eq!(network.snapshot(now).under_way_bytes, 0);
}

/// Makes a header of IPv4 whole, so that routers look further.
fn mend(packet: &mut [u8]) {
    if packet.len() < 20 {
        return;
    }
    packet[0] = 0x45;
    let length = (packet.len() as u16).to_be_bytes();
    packet[2..4].copy_from_slice(&length);
    packet[10..12].fill(0);
    let sum = Sum16BitWords::new().add_slice(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.ones_complement().to_ne_bytes());
}

fn rule(octets: &[u8]) -> Rule {
    let octet = |at: usize| octets.get(at).copied();
    Rule {
        protocol: octet(0).map(Protocol),
        source_ports: octet(1).map(|port| (0, u16::from(port) * 256)),
        link: octet(2).map(|_| "middle".to_owned()),
        config: rough(),
        ..Rule::default()
    }
}

fn rough() -> LinkConfig {
    LinkConfig {
        bottleneck: Some(Bottleneck {
            queue_packets: 5,
            ..Bottleneck::new(1_000_000)
        }),
        loss: 0.1.into(),
        corrupt: 0.2.into(),
        duplicate: 0.2.into(),
        delay: Duration::from_millis(2),
        jitter: Jitter {
            reorders: true,
            ..Duration::from_millis(1).into()
        },
        ..LinkConfig::default()
    }
}

fn config() -> NetworkConfig {
    let end = |node: &str, interface: &str, addresses: [&str; 2]| {
        let addresses = addresses.map(|text| text.parse().expect("an address"));
        End::new(node, interface, addresses)
    };
    let mut middle = LinkBetween::new(
        "middle",
        [
            end("first", "middle", ["10.1.0.1/24", "fd00:1::1/64"]),
            end("second", "middle", ["10.1.0.2/24", "fd00:1::2/64"]),
        ],
    )
    .with(rough());
    middle.mtu = 100;
    let wire = ["a", "b"].map(|host| End {
        framing: Framing::Ethernet,
        ..End::new(host, "wire", [])
    });
    let mut config = NetworkConfig {
        hosts: vec!["a".to_owned(), "b".to_owned()],
        routers: vec!["first".to_owned(), "second".to_owned()],
        links: vec![
            LinkBetween::new(
                "left",
                [
                    end("a", "eth0", ["10.0.0.1/24", "fd00:0::1/64"]),
                    end("first", "left", ["10.0.0.2/24", "fd00:0::2/64"]),
                ],
            ),
            middle,
            LinkBetween::new(
                "right",
                [
                    end("second", "right", ["10.2.0.1/24", "fd00:2::1/64"]),
                    end("b", "eth0", ["10.2.0.2/24", "fd00:2::2/64"]),
                ],
            ),
            LinkBetween::new("wire", wire).with(rough()),
        ],
        routes: vec![StaticRoute {
            router: "first".to_owned(),
            destination: "0.0.0.0/0".parse().expect("a network"),
            link: "middle".to_owned(),
        }],
        ..NetworkConfig::default()
    };
    config.limits.packets = MOST_PACKETS;
    config
}
