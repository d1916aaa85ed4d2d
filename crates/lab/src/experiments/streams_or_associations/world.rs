//! A client and a server with as many addresses as there are associations: between two addresses and
//! ports there is one at most.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use anyhow::ensure;
use bytes::Bytes;
use link::{Bottleneck, Link, LinkConfig};
use rand::RngExt;
use rand_chacha::ChaCha12Rng;
use sctp::{
    AssociationId, Connect, Endpoint, EndpointConfig, Event, PathAddress, SendError, SendInfo,
};
use sim::{Datagram, Host, HostId, Simulation};
use sim_transport::{path_of, sctp_datagram};

use crate::context::Context;
use crate::pair::MTU;

/// Bits a second.
pub(super) const RATE: f64 = 100e6;
/// Each way.
pub(super) const DELAY: Duration = Duration::from_micros(500);

const CLIENT_PORT: u16 = 40_000;
const SERVER_PORT: u16 = 5060;

/// What there are many of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Case {
    Associations,
    Streams,
}

/// What came of it.
pub(super) struct Measured {
    /// Until the last association was up at the client.
    pub(super) setup: Duration,
    pub(super) setup_packets: u64,
    pub(super) setup_bytes: u64,
    /// At the server, once they were up.
    pub(super) associations: usize,
    pub(super) transfers: Vec<Transfer>,
}

/// Messages, and what it took to bring them.
pub(super) struct Transfer {
    pub(super) messages: u64,
    /// Until the last was received.
    pub(super) time: Duration,
    pub(super) packets: u64,
}

pub(super) fn measure(
    context: &Context,
    case: Case,
    count: u32,
    message: usize,
) -> anyhow::Result<Measured> {
    let (associations, streams) = match case {
        Case::Associations => (count, 1),
        Case::Streams => (1, u16::try_from(count)?),
    };
    let mut world = World::new(context, associations, streams);
    let start = world.simulation.now();
    world.run(|client, _| client.is_set_up())?;
    let (setup_packets, setup_bytes) = world.sent();
    let mut measured = Measured {
        setup: world.simulation.now() - start,
        setup_packets,
        setup_bytes,
        associations: world.server().endpoint.association_count(),
        transfers: Vec::new(),
    };
    let rounds: &[u64] = match case {
        Case::Associations => &[1],
        Case::Streams => &[1, 2],
    };
    for round in rounds {
        let messages = u64::from(count) * round;
        let (packets_before, _) = world.sent();
        let begin = world.simulation.now();
        world.server_mut().received = 0;
        let client = world.simulation.host_mut(world.client);
        client.queue = (0..messages).collect();
        client.message = vec![0; message].into();
        client.streams = streams;
        client.send(begin);
        world.run(|_, server| server.received >= messages)?;
        measured.transfers.push(Transfer {
            messages,
            time: world.simulation.now() - begin,
            packets: world.sent().0 - packets_before,
        });
        // The acknowledgements of these messages are not to be counted with the next ones.
        let rest = world.simulation.now() + Duration::from_secs(2);
        world.simulation.run(rest, |_| false)?;
    }
    Ok(measured)
}

struct World {
    simulation: Simulation<ScaleHost>,
    client: HostId,
    server: HostId,
}

impl World {
    fn new(context: &Context, associations: u32, streams: u16) -> World {
        let start = Instant::now();
        let mut simulation = Simulation::new(start);
        let config = EndpointConfig::default()
            .mtu(MTU)
            .path_mtu_discovery(false)
            // Set-up and transfers alone are looked at.
            .heartbeats(false)
            .outbound_streams(streams)
            .max_inbound_streams(streams);
        let link = LinkConfig {
            bottleneck: Some(Bottleneck {
                queue_packets: usize::MAX,
                ..Bottleneck::new(RATE as u64)
            }),
            delay: DELAY,
            ..LinkConfig::default()
        };
        let network = simulation.network_mut();
        let links =
            [0, 1].map(|number| network.add_link(Link::new(link.clone(), context.rng(number))));
        let mut host = |side: u8, port, unopened: VecDeque<u32>| {
            let addresses: Vec<IpAddr> = (0..associations)
                .map(|number| address(side, number))
                .collect();
            let host = ScaleHost::new(
                port,
                config.clone(),
                context.rng(1 + u64::from(side)),
                unopened,
            );
            simulation.add_host(host, &addresses)
        };
        let client = host(1, CLIENT_PORT, (0..associations).collect());
        let server = host(2, SERVER_PORT, VecDeque::new());
        let network = simulation.network_mut();
        for number in 0..associations {
            let [near, far] = [1, 2].map(|side| address(side, number));
            network.add_route(near, far, links[0]);
            network.add_route(far, near, links[1]);
        }
        simulation.host_mut(client).open_next(start);
        World {
            simulation,
            client,
            server,
        }
    }

    fn server(&self) -> &ScaleHost {
        self.simulation.host(self.server)
    }

    fn server_mut(&mut self) -> &mut ScaleHost {
        self.simulation.host_mut(self.server)
    }

    fn run(&mut self, done: impl Fn(&ScaleHost, &ScaleHost) -> bool) -> anyhow::Result<()> {
        let (client, server) = (self.client, self.server);
        let deadline = self.simulation.now() + TIMEOUT;
        let is_done = |simulation: &Simulation<ScaleHost>| {
            done(simulation.host(client), simulation.host(server))
        };
        self.simulation.run(deadline, is_done)?;
        ensure!(
            is_done(&self.simulation),
            "it is not done after {TIMEOUT:?}"
        );
        Ok(())
    }

    /// Packets and bytes sent so far, in both directions.
    fn sent(&self) -> (u64, u64) {
        let hosts = [self.client, self.server].map(|host| self.simulation.host(host));
        hosts.iter().fold((0, 0), |(packets, bytes), host| {
            (packets + host.packets, bytes + host.bytes)
        })
    }
}

const TIMEOUT: Duration = Duration::from_secs(3600);

/// An endpoint that opens associations one after the other, and then sends on all of them.
struct ScaleHost {
    endpoint: Endpoint,
    /// Numbers of the addresses between which an association is still to be opened.
    unopened: VecDeque<u32>,
    opening: bool,
    associations: Vec<AssociationId>,
    /// Numbers of the messages that are still to be sent.
    queue: VecDeque<u64>,
    message: Bytes,
    streams: u16,
    received: u64,
    packets: u64,
    bytes: u64,
}

impl ScaleHost {
    fn new(
        port: u16,
        config: EndpointConfig,
        mut rng: ChaCha12Rng,
        unopened: VecDeque<u32>,
    ) -> ScaleHost {
        ScaleHost {
            endpoint: Endpoint::new(port, config, rng.random()),
            unopened,
            opening: false,
            associations: Vec::new(),
            queue: VecDeque::new(),
            message: Bytes::new(),
            streams: 1,
            received: 0,
            packets: 0,
            bytes: 0,
        }
    }

    fn is_set_up(&self) -> bool {
        self.unopened.is_empty() && !self.opening
    }

    fn open_next(&mut self, now: Instant) {
        let Some(number) = self.unopened.pop_front() else {
            self.opening = false;
            return;
        };
        self.opening = true;
        let connect = Connect {
            peer: vec![PathAddress {
                local: Some(address(1, number)),
                remote: address(2, number),
                encapsulation_port: None,
            }],
            port: SERVER_PORT,
            config: None,
        };
        // It fails for a peer with whom there is an association already: each has an address of
        // its own here.
        let _ = self.endpoint.connect_with(now, connect);
    }

    fn send(&mut self, now: Instant) {
        let many = self.associations.len() as u64;
        while let Some(&number) = self.queue.front() {
            let info = SendInfo {
                stream: (number / many.max(1) % u64::from(self.streams)) as u16,
                ..SendInfo::default()
            };
            let Some(&id) = self.associations.get((number % many.max(1)) as usize) else {
                return;
            };
            let message = self.message.clone();
            if let Err(SendError::BufferFull) = self.endpoint.send(now, id, info, message) {
                return;
            }
            self.queue.pop_front();
        }
    }

    fn act(&mut self, now: Instant) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::CommunicationUp { id, incoming, .. } => {
                    self.associations.push(id);
                    if !incoming {
                        self.open_next(now);
                    }
                }
                Event::Readable { id } => {
                    while self.endpoint.receive(now, id).is_some() {
                        self.received += 1;
                    }
                }
                Event::Writable { .. } => self.send(now),
                _ => {}
            }
        }
    }
}

impl Host for ScaleHost {
    type Payload = Bytes;

    fn handle_datagram(&mut self, now: Instant, datagram: Datagram<Bytes>) {
        let from = path_of(&datagram);
        self.endpoint.handle_packet(now, from, datagram.payload);
        self.act(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.endpoint.handle_timeout(now);
        self.act(now);
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.endpoint.next_timeout()
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram<Bytes>> {
        let transmit = self.endpoint.poll_transmit(now)?;
        // Every packet of these associations has its path.
        let datagram = sctp_datagram(transmit, |_| address(1, 0), |packet| packet);
        self.packets += 1;
        self.bytes += datagram.bytes as u64;
        Some(datagram)
    }
}

/// The address of a side in an association of that number.
fn address(side: u8, number: u32) -> IpAddr {
    Ipv4Addr::from_bits(u32::from_be_bytes([10, side, 0, 0]) + number).into()
}
