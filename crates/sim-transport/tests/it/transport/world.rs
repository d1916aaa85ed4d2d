//! Two hosts and the links between them.

use link::{Link, LinkConfig};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sctp::{AssociationStatistics, AssociationStatus, EndpointConfig};
use sim::{HostId, Simulation, Stalled};
use sim_transport::{FlowId, Load, TcpConfig, TransportHost};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

pub(crate) const PORT: u16 = 5060;

pub(crate) struct World {
    pub(crate) simulation: Simulation<TransportHost>,
    pub(crate) start: Instant,
    pub(crate) client: HostId,
    pub(crate) server: HostId,
}

impl World {
    /// The server accepts over both transports.
    pub(crate) fn new(
        seed: u64,
        there: LinkConfig,
        back: LinkConfig,
        sctp: &EndpointConfig,
        tcp: TcpConfig,
    ) -> World {
        let start = Instant::now();
        let mut simulation = Simulation::new(start);
        let mut host = |number: u8| {
            let address = address(number);
            let mut host = TransportHost::new(start, vec![address], 1500, rng(seed, number));
            host.add_sctp(PORT, sctp.clone());
            host.listen_tcp(PORT, tcp);
            simulation.add_host(host, &[address])
        };
        let (client, server) = (host(1), host(2));
        let ends = [
            (address(1), address(2), there),
            (address(2), address(1), back),
        ];
        let mut number = 2;
        for (from, to, config) in ends {
            number += 1;
            simulation.connect(from, to, Link::new(config, rng(seed, number)));
        }
        World {
            simulation,
            start,
            client,
            server,
        }
    }

    pub(crate) fn client(&mut self) -> &mut TransportHost {
        self.simulation.host_mut(self.client)
    }

    pub(crate) fn server(&self) -> &TransportHost {
        self.simulation.host(self.server)
    }

    pub(crate) fn open_tcp(&mut self, config: TcpConfig, load: Load) -> FlowId {
        let now = self.simulation.now();
        let flow = self
            .client()
            .open_tcp(SocketAddr::new(address(2), PORT), config);
        self.client().set_load(now, flow, load);
        flow
    }

    pub(crate) fn open_sctp(&mut self, load: Load) -> FlowId {
        let now = self.simulation.now();
        let client = self.client();
        let flow = client.open_sctp(now, PORT, &[address(2)], PORT).unwrap();
        client.set_load(now, flow, load);
        flow
    }

    /// The state of the association of a flow of the client.
    pub(crate) fn status(&self, flow: FlowId) -> AssociationStatus {
        let client = self.simulation.host(self.client);
        client.sctp_status(flow).expect("an association")
    }

    /// The counters of the association of a flow of the client.
    pub(crate) fn statistics(&self, flow: FlowId) -> AssociationStatistics {
        let client = self.simulation.host(self.client);
        let (port, id) = client.association(flow).expect("an association");
        let endpoint = client.endpoint(port).expect("an endpoint");
        endpoint.association_statistics(id).expect("its counters")
    }

    /// Packets that the link to the server had no room for.
    pub(crate) fn dropped(&self) -> u64 {
        let network = self.simulation.network();
        let statistics = network.link_statistics(address(1), address(2));
        statistics.expect("a link").queue_full_packets
    }

    /// Runs until so long after the beginning.
    pub(crate) fn run_until(&mut self, after: Duration) {
        let stopped: Result<_, Stalled> = self.simulation.run(self.start + after, |_| false);
        stopped.expect("hosts that come to rest");
    }

    pub(crate) fn at(&self, after: Duration) -> Instant {
        self.start + after
    }
}

pub(crate) fn address(number: u8) -> IpAddr {
    [10, 0, 0, number].into()
}

fn rng(seed: u64, stream: u8) -> ChaCha12Rng {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    rng.set_stream(stream.into());
    rng
}
