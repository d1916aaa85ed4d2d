//! Two hosts, or many, and the networks that both are on.

use crate::engines::host::{EngineHost, Place};
use bytes::Bytes;
use link::{Link, LinkConfig};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sctp::EndpointConfig;
use sim::{HostId, LinkId, Mtu, Simulation, Stop, write_capture};
use std::fs::File;
use std::io::{self, BufWriter};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::{Duration, Instant};
use tap::UdpPorts;

pub(crate) const CLIENT_PORT: u16 = 40_000;
pub(crate) const SERVER_PORT: u16 = 5060;

/// What a datagram of the simulation carries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SctpPacket {
    pub(crate) udp: Option<UdpPorts>,
    pub(crate) packet: Bytes,
}

/// One network that both hosts are on: a link in each direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Network {
    pub(crate) there: LinkConfig,
    pub(crate) back: LinkConfig,
    pub(crate) mtu: Option<Mtu>,
    pub(crate) is_ipv6: bool,
}

impl Network {
    /// Links that do nothing but delay, for that time in each direction.
    pub(crate) fn of_delay(delay: Duration) -> Network {
        let link = LinkConfig {
            delay,
            ..LinkConfig::default()
        };
        Network {
            there: link.clone(),
            back: link,
            ..Network::default()
        }
    }
}

/// What a world is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout<'a> {
    pub(crate) networks: &'a [Network],
    /// The UDP ports of client and server, in place of raw SCTP.
    pub(crate) udp_ports: [Option<u16>; 2],
    pub(crate) configs: [&'a EndpointConfig; 2],
    /// Further addresses of each host on each network, of which its engine is not told.
    pub(crate) spare_addresses: u16,
    /// Whether packets get from an address on one network to one on another, of the same family.
    pub(crate) is_routed: bool,
}

/// A client and a server with addresses on every network.
pub(crate) struct World {
    pub(crate) simulation: Simulation<EngineHost>,
    pub(crate) start: Instant,
    pub(crate) client: HostId,
    pub(crate) server: HostId,
    /// The links that begin or end on each network; first those between its first two addresses, there
    /// and back.
    pub(crate) links: Vec<Vec<LinkId>>,
    seed: u64,
}

impl World {
    /// Hosts that know nothing of each other yet; everything is recorded.
    pub(crate) fn new(seed: u64, networks: &[Network], config: &EndpointConfig) -> World {
        let layout = Layout {
            networks,
            udp_ports: [None; 2],
            configs: [config; 2],
            spare_addresses: 0,
            is_routed: false,
        };
        World::of(seed, layout, Instant::now())
    }

    /// The same of any layout, and with a beginning of time.
    pub(crate) fn of(seed: u64, layout: Layout<'_>, start: Instant) -> World {
        let mut simulation = Simulation::new(start);
        simulation.record();
        let mut streams = 1..;
        let mut rng = || generator(seed, streams.next().unwrap_or_default());
        let links = connect_all(&mut simulation, layout, &mut rng);
        let mut host = |side: usize, sctp_port| {
            let networks = layout.networks.iter().enumerate();
            let addresses = networks.map(|(index, network)| {
                let own = addresses_of(side, index, network.is_ipv6, layout.spare_addresses);
                own.collect::<Vec<_>>()
            });
            let addresses: Vec<Vec<IpAddr>> = addresses.collect();
            let place = Place {
                addresses: addresses.iter().map(|own| own[0]).collect(),
                udp_port: layout.udp_ports[side],
                sctp_port,
            };
            let host = EngineHost::new(place, layout.configs[side].clone(), rng());
            simulation.add_host(host, &addresses.concat())
        };
        let client = host(0, CLIENT_PORT);
        let server = host(1, SERVER_PORT);
        World {
            simulation,
            start,
            client,
            server,
            links,
            seed,
        }
    }

    /// The client opens an association with the server, of which it knows the first address.
    pub(crate) fn connect(&mut self) {
        let server = self.server().place().clone();
        let now = self.simulation.now();
        self.simulation
            .host_mut(self.client)
            .connect(now, &server, 1);
    }

    pub(crate) fn client(&self) -> &EngineHost {
        self.simulation.host(self.client)
    }

    pub(crate) fn server(&self) -> &EngineHost {
        self.simulation.host(self.server)
    }

    /// Plans something for a time after the beginning.
    pub(crate) fn at(
        &mut self,
        after: Duration,
        plan: impl FnOnce(&mut Simulation<EngineHost>) + 'static,
    ) {
        self.simulation.at(self.start + after, plan);
    }

    /// Plans to cut or mend a network in both directions.
    pub(crate) fn set_up_at(&mut self, after: Duration, network: usize, up: bool) {
        let links = self.links[network].clone();
        self.at(after, move |simulation| {
            for link in links {
                simulation.network_mut().link_mut(link).set_up(up);
            }
        });
    }

    /// Runs until a time after the beginning, at which the clock then stands; says whether anything
    /// can happen after it.
    pub(crate) fn run_until(&mut self, after: Duration) -> Stop {
        self.at(after, |_| {});
        let stop = self.simulation.run(self.start + after, |_| false);
        stop.expect("hosts that come to rest")
    }

    /// A generator that nothing else uses; the same for the same number.
    pub(crate) fn generator(&self, number: u64) -> ChaCha12Rng {
        generator(self.seed, u64::from(u32::MAX) + number)
    }

    pub(crate) fn write_capture(&self, path: &Path) -> io::Result<()> {
        let file = BufWriter::new(File::create(path)?);
        write_capture(self.simulation.trace(), self.start, file, |payload| {
            (payload.udp, &payload.packet)
        })
    }
}

/// Lays the links of a layout: which begin or end on each network.
fn connect_all(
    simulation: &mut Simulation<EngineHost>,
    layout: Layout<'_>,
    rng: &mut impl FnMut() -> ChaCha12Rng,
) -> Vec<Vec<LinkId>> {
    let mut links = vec![Vec::new(); layout.networks.len()];
    let networks = || layout.networks.iter().enumerate();
    let pairs = networks().flat_map(|from| networks().map(move |to| (from, to)));
    for ((index, network), (other, other_network)) in pairs {
        let is_connected = layout.is_routed && network.is_ipv6 == other_network.is_ipv6;
        if index != other && !is_connected {
            continue;
        }
        for client in addresses_of(0, index, network.is_ipv6, layout.spare_addresses) {
            for server in addresses_of(1, other, network.is_ipv6, layout.spare_addresses) {
                let ends = [
                    (client, server, &network.there),
                    (server, client, &network.back),
                ];
                for (from, to, config) in ends {
                    let link = simulation.connect(from, to, Link::new(config.clone(), rng()));
                    simulation.network_mut().set_mtu(link, network.mtu);
                    links[index].push(link);
                    if other != index {
                        links[other].push(link);
                    }
                }
            }
        }
    }
    links
}

/// The addresses of the client (0) or the server (1) on a network, the spare ones last.
pub(crate) fn addresses_of(
    side: usize,
    network: usize,
    is_ipv6: bool,
    spare: u16,
) -> impl Iterator<Item = IpAddr> {
    (0..=spare).map(move |number| address(is_ipv6, network, 1 + side as u16 + 2 * number))
}

/// The address of a host on a network.
pub(crate) fn address(is_ipv6: bool, network: usize, host: u16) -> IpAddr {
    if is_ipv6 {
        Ipv6Addr::new(0xfd00, network as u16, 0, 0, 0, 0, 0, host).into()
    } else {
        let [high, low] = host.to_be_bytes();
        Ipv4Addr::new(10, network as u8, high, low).into()
    }
}

/// A stream of random numbers that no other part of the run uses.
pub(crate) fn generator(seed: u64, stream: u64) -> ChaCha12Rng {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    rng
}
