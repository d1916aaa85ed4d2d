//! Two simulated hosts, the networks between them, and what both are made of: the stage of the
//! experiments that look at one association or connection closely.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use link::{Bottleneck, Link, LinkConfig};
use sctp::EndpointConfig;
use sim::{HostId, LinkId, Simulation};
use sim_transport::{Delivery, FlowId, Load, TcpConfig, TransportHost};

use crate::context::Context;

/// Ethernet's.
pub(crate) const MTU: usize = 1500;

/// Where the hosts listen.
pub(crate) const PORT: u16 = 5060;

/// A network between two hosts, the same in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct NetworkConfig {
    /// Bits a second of IP packets; without limit when there is none.
    pub(crate) rate: Option<f64>,
    /// Bytes that may wait for their turn.
    pub(crate) queue: usize,
    /// Probability that a packet is lost.
    pub(crate) loss: f64,
    /// Time that each packet takes.
    pub(crate) delay: Duration,
}

/// A client and a server with an address on each network. The server accepts associations and connections.
pub(crate) struct Pair {
    pub(crate) simulation: Simulation<TransportHost>,
    pub(crate) start: Instant,
    pub(crate) client: HostId,
    pub(crate) server: HostId,
    /// The links of each network, there and back.
    pub(crate) links: Vec<[LinkId; 2]>,
    tcp: TcpConfig,
}

impl Pair {
    /// Hosts that know nothing of each other yet. All randomness follows from the context and
    /// `number`.
    pub(crate) fn new(
        context: &Context,
        number: u64,
        networks: &[NetworkConfig],
        sctp: &EndpointConfig,
        tcp: TcpConfig,
    ) -> Pair {
        let links: Vec<LinkConfig> = networks.iter().map(NetworkConfig::config).collect();
        Pair::with_links(context, number, &links, sctp, tcp)
    }

    /// The same on networks that are more than rate, loss and delay.
    pub(crate) fn with_links(
        context: &Context,
        number: u64,
        networks: &[LinkConfig],
        sctp: &EndpointConfig,
        tcp: TcpConfig,
    ) -> Pair {
        let start = Instant::now();
        let mut simulation = Simulation::new(start);
        let mut streams = number << 16..;
        let mut rng = || context.rng(streams.next().unwrap_or_default());
        let mut host = |side: u8| {
            let addresses: Vec<IpAddr> = (0..)
                .zip(networks)
                .map(|(network, _)| address(network, side))
                .collect();
            let mut host = TransportHost::new(start, addresses.clone(), MTU, rng());
            host.add_sctp(PORT, sctp.clone());
            host.listen_tcp(PORT, tcp);
            simulation.add_host(host, &addresses)
        };
        let (client, server) = (host(1), host(2));
        let links = (0..).zip(networks).map(|(index, network)| {
            [(1, 2), (2, 1)].map(|(from, to)| {
                let link = Link::new(network.clone(), rng());
                simulation.connect(address(index, from), address(index, to), link)
            })
        });
        let links = links.collect();
        Pair {
            simulation,
            start,
            client,
            server,
            links,
            tcp,
        }
    }

    pub(crate) fn client(&mut self) -> &mut TransportHost {
        self.simulation.host_mut(self.client)
    }

    pub(crate) fn server(&self) -> &TransportHost {
        self.simulation.host(self.server)
    }

    /// The client opens a connection.
    pub(crate) fn open_tcp(&mut self, load: Load) -> FlowId {
        let (now, tcp) = (self.simulation.now(), self.tcp);
        let client = self.client();
        let flow = client.open_tcp(SocketAddr::new(address(0, 2), PORT), tcp);
        client.set_load(now, flow, load);
        flow
    }

    /// The client opens the association.
    ///
    /// # Errors
    ///
    /// When there is one already.
    pub(crate) fn open_sctp(&mut self, load: Load) -> anyhow::Result<FlowId> {
        let now = self.simulation.now();
        let client = self.client();
        let flow = client.open_sctp(now, PORT, &[address(0, 2)], PORT)?;
        client.set_load(now, flow, load);
        Ok(flow)
    }

    /// Runs until so long after the beginning.
    ///
    /// # Errors
    ///
    /// When the hosts never rest.
    pub(crate) fn run_until(&mut self, after: Duration) -> anyhow::Result<()> {
        self.simulation.run(self.start + after, |_| false)?;
        Ok(())
    }

    /// Runs until the server has so many messages, and says when the last of them came, since the
    /// beginning.
    ///
    /// # Errors
    ///
    /// When it has not within `most`.
    pub(crate) fn run_until_received(
        &mut self,
        messages: usize,
        most: Duration,
    ) -> anyhow::Result<Duration> {
        let server = self.server;
        self.simulation.run(self.start + most, |simulation| {
            simulation.host(server).deliveries().len() >= messages
        })?;
        let last = self.server().deliveries().get(messages.saturating_sub(1));
        let last = last.with_context(|| {
            let had = self.server().deliveries().len();
            format!("{had} of {messages} messages came within {most:?}")
        })?;
        Ok(last.at - self.start)
    }

    /// What the server has received.
    pub(crate) fn deliveries(&self) -> &[Delivery] {
        self.server().deliveries()
    }
}

impl NetworkConfig {
    fn config(&self) -> LinkConfig {
        LinkConfig {
            bottleneck: self.rate.map(|rate| Bottleneck {
                queue_packets: usize::MAX,
                queue_bytes: self.queue,
                ..Bottleneck::new(rate as u64)
            }),
            loss: self.loss.into(),
            delay: self.delay,
            ..LinkConfig::default()
        }
    }
}

/// The address of a side on a network.
pub(crate) fn address(network: u8, side: u8) -> IpAddr {
    Ipv4Addr::new(10, network, 0, side).into()
}
