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

/// A client and a server with an address each on every network.
pub(crate) struct World {
    pub(crate) simulation: Simulation<EngineHost>,
    pub(crate) start: Instant,
    pub(crate) client: HostId,
    pub(crate) server: HostId,
    /// The links of each network, there and back.
    pub(crate) links: Vec<[LinkId; 2]>,
    seed: u64,
}

impl World {
    /// Hosts that know nothing of each other yet; everything is recorded.
    pub(crate) fn new(seed: u64, networks: &[Network], config: &EndpointConfig) -> World {
        let udp_ports = [None; 2];
        World::with_udp(seed, networks, config, udp_ports, Instant::now())
    }

    /// The same for hosts that speak over UDP, and with a beginning of time.
    pub(crate) fn with_udp(
        seed: u64,
        networks: &[Network],
        config: &EndpointConfig,
        udp_ports: [Option<u16>; 2],
        start: Instant,
    ) -> World {
        let mut simulation = Simulation::new(start);
        simulation.record();
        let mut streams = 1..;
        let mut rng = || generator(seed, streams.next().unwrap_or_default());
        let links = networks.iter().enumerate().map(|(number, network)| {
            let [client, server] = [1, 2].map(|host| address(network.is_ipv6, number, host));
            let ends = [
                (client, server, &network.there),
                (server, client, &network.back),
            ];
            ends.map(|(from, to, config)| {
                let link = simulation.connect(from, to, Link::new(config.clone(), rng()));
                simulation.network_mut().set_mtu(link, network.mtu);
                link
            })
        });
        let links = links.collect();
        let mut host = |number, udp_port, sctp_port| {
            let addresses = networks.iter().enumerate();
            let addresses: Vec<IpAddr> = addresses
                .map(|(index, network)| address(network.is_ipv6, index, number))
                .collect();
            let place = Place {
                addresses: addresses.clone(),
                udp_port,
                sctp_port,
            };
            let host = EngineHost::new(place, config.clone(), rng());
            simulation.add_host(host, &addresses)
        };
        let client = host(1, udp_ports[0], CLIENT_PORT);
        let server = host(2, udp_ports[1], SERVER_PORT);
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
        let links = self.links[network];
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
