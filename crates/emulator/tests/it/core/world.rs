//! A network on a virtual clock, and packets for it.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use emulator::{End, InterfaceId, LinkBetween, Network, NetworkConfig};
use etherparse::{IpNumber, PacketBuilder, SlicedPacket, TransportSlice};
use link::LinkConfig;

pub(crate) struct World {
    pub(crate) network: Network,
    pub(crate) start: Instant,
    pub(crate) now: Instant,
}

/// What a host has received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Received {
    /// Since the start.
    pub(crate) at: Duration,
    pub(crate) host: String,
    pub(crate) octets: Vec<u8>,
}

impl World {
    pub(crate) fn new(config: &NetworkConfig) -> World {
        World::seeded(config, 1)
    }

    pub(crate) fn seeded(config: &NetworkConfig, seed: u64) -> World {
        let start = Instant::now();
        World {
            network: Network::new(config, seed, start).unwrap(),
            start,
            now: start,
        }
    }

    /// The only interface of a host.
    pub(crate) fn interface(&self, host: &str) -> InterfaceId {
        let mut interfaces = self.network.interfaces().iter();
        interfaces.find(|one| one.host == host).unwrap().id
    }

    pub(crate) fn send(&mut self, host: &str, octets: &[u8]) {
        let interface = self.interface(host);
        self.network.handle_packet(self.now, interface, octets);
    }

    /// Lets time pass; gives what the hosts received.
    pub(crate) fn pass(&mut self, time: Duration) -> Vec<Received> {
        let until = self.now + time;
        let mut received = self.received();
        while let Some(next) = self.network.next_timeout().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            self.network.handle_timeout(self.now);
            received.extend(self.received());
        }
        self.now = until;
        self.network.handle_timeout(until);
        received
    }

    /// Sends a packet; gives what the hosts received within a minute.
    pub(crate) fn exchange(&mut self, host: &str, octets: &[u8]) -> Vec<Received> {
        self.send(host, octets);
        self.pass(Duration::from_secs(60))
    }

    fn received(&mut self) -> Vec<Received> {
        let mut received = Vec::new();
        while let Some(transmit) = self.network.poll_transmit() {
            let interface = &self.network.interfaces()[transmit.interface.0];
            received.push(Received {
                at: transmit.due - self.start,
                host: interface.host.clone(),
                octets: transmit.octets,
            });
        }
        received
    }
}

pub(crate) fn end(node: &str, interface: &str, addresses: &[&str]) -> End {
    let addresses = addresses.iter().map(|text| text.parse().unwrap());
    End::new(node, interface, addresses)
}

pub(crate) fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Two hosts with so many routers between them: `a`, `r1`, `r2` …, `b`, joined by `link0`, `link1` …. The link
/// number n has the networks 10.n.0.0/24 and fd00:n::/64, with .1 at its first end and .2 at its second.
pub(crate) fn chain(routers: usize, link: LinkConfig) -> NetworkConfig {
    let mut nodes = vec!["a".to_owned()];
    nodes.extend((1..=routers).map(|number| format!("r{number}")));
    nodes.push("b".to_owned());
    let links = nodes.windows(2).enumerate().map(|(number, ends)| {
        let address = |last| {
            [
                format!("10.{number}.0.{last}/24"),
                format!("fd00:{number}::{last}/64"),
            ]
        };
        let [first, second] = [address(1), address(2)];
        let ends = [
            end(&ends[0], "right", &[&first[0], &first[1]]),
            end(&ends[1], "left", &[&second[0], &second[1]]),
        ];
        LinkBetween::new(format!("link{number}"), ends).with(link.clone())
    });
    NetworkConfig {
        hosts: names(&["a", "b"]),
        routers: nodes[1..=routers].to_vec(),
        links: links.collect(),
        ..NetworkConfig::default()
    }
}

/// A UDP packet.
pub(crate) fn udp(source: &str, destination: &str, ttl: u8, payload: &[u8]) -> Vec<u8> {
    udp_ports(source, destination, ttl, [4000, 5000], payload)
}

pub(crate) fn udp_ports(
    source: &str,
    destination: &str,
    ttl: u8,
    [from, to]: [u16; 2],
    payload: &[u8],
) -> Vec<u8> {
    let builder = match (source.parse().unwrap(), destination.parse().unwrap()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            PacketBuilder::ipv4(source.octets(), destination.octets(), ttl)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            PacketBuilder::ipv6(source.octets(), destination.octets(), ttl)
        }
        _ => panic!("two versions of IP"),
    };
    let mut octets = Vec::new();
    builder.udp(from, to).write(&mut octets, payload).unwrap();
    may_be_fragmented(&mut octets);
    octets
}

/// Takes away the bit that forbids fragments, which the builder sets in IPv4.
fn may_be_fragmented(packet: &mut [u8]) {
    if packet[0] >> 4 == 4 {
        packet[6] &= !0x40;
        write_checksum(packet);
    }
}

/// Writes the checksum of a header of IPv4.
pub(crate) fn write_checksum(packet: &mut [u8]) {
    let length = usize::from(packet[0] & 0x0f) * 4;
    packet[10..12].fill(0);
    let checksum = !sum(&packet[..length], 0) as u16;
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
}

/// A packet of any protocol.
pub(crate) fn raw(source: &str, destination: &str, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let (IpAddr::V4(source), IpAddr::V4(destination)) =
        (source.parse().unwrap(), destination.parse().unwrap())
    else {
        panic!("for IPv4");
    };
    let mut octets = Vec::new();
    PacketBuilder::ipv4(source.octets(), destination.octets(), 64)
        .write(&mut octets, IpNumber(protocol), payload)
        .unwrap();
    may_be_fragmented(&mut octets);
    octets
}

/// An echo request.
pub(crate) fn ping(source: &str, destination: &str, ttl: u8, payload: &[u8]) -> Vec<u8> {
    let mut octets = Vec::new();
    match (source.parse().unwrap(), destination.parse().unwrap()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            PacketBuilder::ipv4(source.octets(), destination.octets(), ttl)
                .icmpv4_echo_request(7, 8)
                .write(&mut octets, payload)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            PacketBuilder::ipv6(source.octets(), destination.octets(), ttl)
                .icmpv6_echo_request(7, 8)
                .write(&mut octets, payload)
        }
        _ => panic!("two versions of IP"),
    }
    .unwrap();
    octets
}

/// An ICMP message as a host sees it, its checksums checked by a reader that is not ours.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Icmp {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) kind: u8,
    pub(crate) code: u8,
    /// The second word.
    pub(crate) rest: u32,
    /// What it quotes.
    pub(crate) quoted: Vec<u8>,
}

impl Icmp {
    pub(crate) fn read(octets: &[u8]) -> Icmp {
        let packet = SlicedPacket::from_ip(octets).unwrap();
        let (source, destination): (IpAddr, IpAddr) = match packet.net.as_ref().unwrap() {
            etherparse::NetSlice::Ipv4(ip) => {
                let header = ip.header().to_header();
                assert_eq!(header.calc_header_checksum(), header.header_checksum);
                let header = ip.header();
                (
                    header.source_addr().into(),
                    header.destination_addr().into(),
                )
            }
            etherparse::NetSlice::Ipv6(ip) => {
                let header = ip.header();
                (
                    header.source_addr().into(),
                    header.destination_addr().into(),
                )
            }
            other => panic!("{other:?}"),
        };
        let message = match packet.transport.unwrap() {
            TransportSlice::Icmpv4(message) => {
                let rest = message.slice().to_vec();
                assert_eq!(sum(&rest, 0), 0xffff, "the checksum of ICMP");
                rest
            }
            TransportSlice::Icmpv6(message) => {
                let (IpAddr::V6(source), IpAddr::V6(destination)) = (source, destination) else {
                    panic!("ICMPv6 over IPv4");
                };
                assert!(message.is_checksum_valid(source.octets(), destination.octets()));
                message.slice().to_vec()
            }
            other => panic!("{other:?}"),
        };
        Icmp {
            source,
            destination,
            kind: message[0],
            code: message[1],
            rest: u32::from_be_bytes(message[4..8].try_into().unwrap()),
            quoted: message[8..].to_vec(),
        }
    }
}

/// The sum of 16-bit words, in ones' complement.
pub(crate) fn sum(octets: &[u8], mut sum: u32) -> u32 {
    for pair in octets.chunks(2) {
        sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}
