//! Two hosts joined by several links of different rates, delays and losses, on a virtual clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sctp::{
    AssociationId, Connect, Endpoint, EndpointConfig, Event, PathAddress, SendError, SendInfo,
};

use crate::common::{CLIENT_PORT, SERVER_PORT, message};
use crate::multihoming::network::{CLIENT, SERVER, address, network_of};

const IPV4_HEADER: usize = 20;

/// A link, the same in both directions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkSpec {
    pub(crate) bits_per_second: f64,
    /// One way.
    pub(crate) delay: Duration,
    /// How long packets may wait.
    pub(crate) queue: Duration,
    /// Of each packet with data, the probability to be lost.
    pub(crate) loss: f64,
}

impl LinkSpec {
    pub(crate) fn new(megabits: f64, delay_ms: f64) -> LinkSpec {
        LinkSpec {
            bits_per_second: megabits * 1e6,
            delay: Duration::from_secs_f64(delay_ms / 1e3),
            queue: Duration::from_millis(200),
            loss: 0.0,
        }
    }

    pub(crate) fn losing(self, loss: f64) -> LinkSpec {
        LinkSpec { loss, ..self }
    }
}

struct Arrival {
    host: usize,
    from: PathAddress,
    packet: Bytes,
}

/// Hosts and links.
pub(crate) struct Links {
    pub(crate) now: Instant,
    pub(crate) hosts: [Endpoint; 2],
    pub(crate) specs: Vec<LinkSpec>,
    /// Until when each link is busy, by host and link.
    busy: [Vec<Instant>; 2],
    on_the_way: BinaryHeap<Reverse<(Instant, u64)>>,
    packets: std::collections::HashMap<u64, Arrival>,
    count: u64,
    rng: ChaCha12Rng,
    ids: [Option<AssociationId>; 2],
    /// Bytes that the client sent on each link.
    pub(crate) sent: Vec<usize>,
    /// Packets of the client that no link carried.
    pub(crate) dropped: u64,
    pub(crate) is_up: Vec<bool>,
}

impl Links {
    /// The settings are those of client and server.
    pub(crate) fn new(specs: &[LinkSpec], config: EndpointConfig, seed: u64) -> Links {
        Links::with(specs, [config.clone(), config], seed)
    }

    pub(crate) fn with(specs: &[LinkSpec], configs: [EndpointConfig; 2], seed: u64) -> Links {
        let now = Instant::now();
        let networks = specs.len() as u8;
        let mut side = 0;
        let hosts = configs.map(|config| {
            let port = [CLIENT_PORT, SERVER_PORT][side];
            let key = ChaCha12Rng::seed_from_u64(seed * 2 + side as u64).get_seed();
            let mut endpoint = Endpoint::new(port, config, key);
            endpoint.set_local_addresses((0..networks).map(|net| address(side, net)).collect());
            side += 1;
            endpoint
        });
        let mut links = Links {
            now,
            hosts,
            specs: specs.to_vec(),
            busy: [vec![now; specs.len()], vec![now; specs.len()]],
            on_the_way: BinaryHeap::new(),
            packets: std::collections::HashMap::new(),
            count: 0,
            rng: ChaCha12Rng::seed_from_u64(seed + 1000),
            ids: [None; 2],
            sent: vec![0; specs.len()],
            dropped: 0,
            is_up: vec![true; specs.len()],
        };
        links.connect();
        links
    }

    fn connect(&mut self) {
        let losses: Vec<f64> = self.specs.iter().map(|spec| spec.loss).collect();
        for spec in &mut self.specs {
            spec.loss = 0.0;
        }
        let connect = Connect {
            peer: (0..self.specs.len() as u8)
                .map(|net| PathAddress {
                    local: None,
                    remote: address(SERVER, net),
                    encapsulation_port: None,
                })
                .collect(),
            port: SERVER_PORT,
            config: None,
        };
        let now = self.now;
        self.hosts[CLIENT]
            .connect_with(now, connect)
            .expect("nothing speaks against it");
        self.run_for(Duration::from_secs(20));
        for (spec, loss) in self.specs.iter_mut().zip(losses) {
            spec.loss = loss;
        }
    }

    pub(crate) fn id(&self, host: usize) -> AssociationId {
        self.ids[host].expect("the association is up")
    }

    pub(crate) fn collect(&mut self) {
        for host in [CLIENT, SERVER] {
            while let Some(transmit) = self.hosts[host].poll_transmit(self.now) {
                self.carry(host, transmit.path, transmit.packet);
            }
            while let Some(event) = self.hosts[host].poll_event() {
                match event {
                    Event::CommunicationUp { id, .. } => self.ids[host] = Some(id),
                    Event::CommunicationLost { cause, .. } => panic!("lost: {cause:?}"),
                    _ => {}
                }
            }
        }
    }

    fn carry(&mut self, host: usize, path: PathAddress, packet: Bytes) {
        let net = usize::from(network_of(path.remote));
        let spec = self.specs[net];
        let size = packet.len() + IPV4_HEADER;
        if host == CLIENT {
            self.sent[net] += size;
        }
        let busy = &mut self.busy[host][net];
        let start = (*busy).max(self.now);
        let has_room = start - self.now <= spec.queue && self.is_up[net];
        if has_room {
            *busy = start + Duration::from_secs_f64(size as f64 * 8.0 / spec.bits_per_second);
        }
        let leaves = *busy;
        if !has_room || spec.loss > 0.0 && self.rng.random_bool(spec.loss) {
            self.dropped += u64::from(host == CLIENT);
            return;
        }
        self.count += 1;
        let from = PathAddress {
            local: Some(path.remote),
            remote: self.source(host, net),
            encapsulation_port: None,
        };
        self.on_the_way
            .push(Reverse((leaves + spec.delay, self.count)));
        let arrival = Arrival {
            host: 1 - host,
            from,
            packet,
        };
        self.packets.insert(self.count, arrival);
    }

    fn source(&self, host: usize, net: usize) -> IpAddr {
        address(host, net as u8)
    }

    fn next_event(&self) -> Option<Instant> {
        let timeouts = self.hosts.iter().map(Endpoint::next_timeout);
        let arrival = self.on_the_way.peek().map(|Reverse((time, _))| *time);
        timeouts.chain([arrival]).flatten().min()
    }

    /// Does what is due next.
    pub(crate) fn step(&mut self) {
        let next = self.next_event().expect("something is waited for");
        self.advance(next);
    }

    /// Does what is due next, but for what comes after `end`.
    pub(crate) fn step_until(&mut self, end: Instant) {
        let next = self.next_event().map_or(end, |next| next.min(end));
        self.advance(next);
    }

    fn advance(&mut self, next: Instant) {
        self.now = self.now.max(next);
        while let Some(Reverse((time, number))) = self.on_the_way.peek().copied()
            && time <= self.now
        {
            self.on_the_way.pop();
            let arrival = self.packets.remove(&number).expect("it was sent");
            self.hosts[arrival.host].handle_packet(self.now, arrival.from, arrival.packet);
            self.collect();
        }
        for host in &mut self.hosts {
            host.handle_timeout(self.now);
        }
        self.collect();
    }

    pub(crate) fn run_for(&mut self, duration: Duration) {
        let end = self.now + duration;
        self.collect();
        while self.next_event().is_some_and(|next| next <= end) {
            self.step();
        }
        self.now = end;
    }

    /// The client sends messages of so many bytes as fast as it can, for so long; Mbit/s of user data that the
    /// server's user gets after the first `skip`.
    pub(crate) fn goodput(
        &mut self,
        bytes: usize,
        unordered: bool,
        skip: Duration,
        duration: Duration,
    ) -> f64 {
        let [client, server] = [CLIENT, SERVER].map(|host| self.id(host));
        let info = SendInfo {
            unordered,
            ..SendInfo::default()
        };
        let payload = message(0, bytes);
        let begin = self.now + skip;
        let end = begin + duration;
        let mut received = 0;
        while self.now < end {
            loop {
                let sent = self.hosts[CLIENT].send(self.now, client, info, payload.clone());
                match sent {
                    Ok(()) => {}
                    Err(SendError::BufferFull) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            self.collect();
            self.step();
            while let Some(message) = self.hosts[SERVER].receive(self.now, server) {
                if self.now >= begin {
                    received += message.payload.len();
                }
            }
            self.collect();
        }
        received as f64 * 8.0 / duration.as_secs_f64() / 1e6
    }
}
