//! Two hosts with an address in each of several networks that can be cut, on a clock that goes from
//! event to event.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sctp::packet::ChunkType;
use sctp::{
    AssociationId, AssociationStatus, Connect, Endpoint, EndpointConfig, Event, PathAddress,
    PathChange, PathState, PathStatus, SendError, SendInfo,
};

use crate::common::{CLIENT_PORT, SERVER_PORT, chunk_types, message};

pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;

/// How long a packet takes.
pub(crate) const DELAY: Duration = Duration::from_millis(10);

/// A host.
pub(crate) struct Host {
    pub(crate) endpoint: Endpoint,
    pub(crate) events: Vec<(Instant, Event)>,
}

/// A packet as it left.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) time: Instant,
    pub(crate) from: usize,
    /// The network that it went through.
    pub(crate) network: u8,
    /// The address that it came from.
    pub(crate) source: IpAddr,
    pub(crate) packet: Bytes,
}

impl Sent {
    pub(crate) fn has(&self, chunk_type: ChunkType) -> bool {
        chunk_types(&self.packet).contains(&chunk_type)
    }
}

pub(crate) struct Network {
    pub(crate) now: Instant,
    pub(crate) start: Instant,
    pub(crate) hosts: [Host; 2],
    pub(crate) sent: Vec<Sent>,
    is_up: [bool; 4],
    /// The largest SCTP packet that a network carries, in bytes; larger ones it drops, unless it
    /// may fragment them.
    carries: [usize; 4],
    /// Of each packet, the probability to be lost.
    pub(crate) loss: f64,
    /// Of each packet, the probability to arrive twice.
    pub(crate) duplicates: f64,
    /// How much later than others a packet may arrive.
    pub(crate) jitter: Duration,
    /// Addresses that hosts have lost: nothing comes from there or arrives there.
    pub(crate) lost_addresses: BTreeSet<IpAddr>,
    pub(crate) rng: ChaCha12Rng,
    on_the_way: BTreeMap<(Instant, u64), (usize, PathAddress, Bytes)>,
    count: u64,
}

/// The address of a host in a network.
pub(crate) fn address(host: usize, network: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, network, host as u8 + 1).into()
}

/// How a host is reached in a network.
pub(crate) fn path(host: usize, network: u8) -> PathAddress {
    PathAddress {
        local: None,
        remote: address(host, network),
        encapsulation_port: None,
    }
}

/// Settings without probes of the path MTU, which are tested elsewhere.
pub(crate) fn plain() -> EndpointConfig {
    EndpointConfig::default().path_mtu_discovery(false)
}

impl Network {
    /// Both hosts tell their addresses in that many networks.
    pub(crate) fn new(networks: u8) -> Network {
        Network::with(networks, plain(), plain())
    }

    pub(crate) fn with(networks: u8, client: EndpointConfig, server: EndpointConfig) -> Network {
        let start = Instant::now();
        let host = |host: usize, port, config| {
            let seed = ChaCha12Rng::seed_from_u64(host as u64 + 7).get_seed();
            let mut endpoint = Endpoint::new(port, config, seed);
            endpoint.set_local_addresses((0..networks).map(|net| address(host, net)).collect());
            Host {
                endpoint,
                events: Vec::new(),
            }
        };
        Network {
            now: start,
            start,
            hosts: [
                host(CLIENT, CLIENT_PORT, client),
                host(SERVER, SERVER_PORT, server),
            ],
            sent: Vec::new(),
            is_up: [true; 4],
            carries: [usize::MAX; 4],
            loss: 0.0,
            duplicates: 0.0,
            jitter: Duration::ZERO,
            lost_addresses: BTreeSet::new(),
            rng: ChaCha12Rng::seed_from_u64(1),
            on_the_way: BTreeMap::new(),
            count: 0,
        }
    }

    pub(crate) fn cut(&mut self, network: u8) {
        self.is_up[usize::from(network)] = false;
    }

    pub(crate) fn mend(&mut self, network: u8) {
        self.is_up[usize::from(network)] = true;
    }

    /// From now on a network carries no larger packets than that.
    pub(crate) fn narrow(&mut self, network: u8, bytes: usize) {
        self.carries[usize::from(network)] = bytes;
    }

    /// Connects the client to the server's address in network 0.
    pub(crate) fn connect(&mut self) -> AssociationId {
        self.connect_to(&[0])
    }

    /// Connects the client to the server's addresses in some networks.
    pub(crate) fn connect_to(&mut self, networks: &[u8]) -> AssociationId {
        let connect = Connect {
            peer: networks.iter().map(|net| path(SERVER, *net)).collect(),
            port: SERVER_PORT,
            config: None,
        };
        let now = self.now;
        let id = self.hosts[CLIENT].endpoint.connect_with(now, connect);
        self.collect();
        id.expect("nothing speaks against it")
    }

    /// An association all of whose addresses are verified.
    pub(crate) fn establish(&mut self) -> (AssociationId, AssociationId) {
        self.connect();
        self.run_for(Duration::from_secs(10));
        for host in [CLIENT, SERVER] {
            let status = self.status(host);
            let are_active = |path: &PathStatus| path.state == PathState::Active;
            assert!(status.paths.iter().all(are_active), "{status:?}");
        }
        (self.id(CLIENT), self.id(SERVER))
    }

    /// The latest association that came up.
    pub(crate) fn id(&self, host: usize) -> AssociationId {
        let id = self.hosts[host].events.iter().rev().find_map(|(_, event)| {
            if let Event::CommunicationUp { id, .. } = event {
                Some(*id)
            } else {
                None
            }
        });
        id.expect("an association came up")
    }

    pub(crate) fn status(&self, host: usize) -> AssociationStatus {
        let status = self.hosts[host].endpoint.status(self.id(host));
        status.expect("it is still there")
    }

    /// What the host says of its path in a network.
    pub(crate) fn path(&self, host: usize, network: u8) -> PathStatus {
        let remote = address(1 - host, network);
        let mut paths = self.status(host).paths;
        paths.retain(|path| path.address.remote == remote);
        paths.pop().expect("there is this path")
    }

    /// What the host was told of its paths since `begin`: seconds after it, network, what.
    pub(crate) fn path_changes(&self, host: usize, begin: Instant) -> Vec<(f64, u8, PathChange)> {
        self.hosts[host]
            .events
            .iter()
            .filter(|(time, _)| *time >= begin)
            .filter_map(|(time, event)| match event {
                Event::PathStateChanged { path, change, .. } => Some((
                    (*time - begin).as_secs_f64(),
                    network_of(path.remote),
                    *change,
                )),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn send(&mut self, host: usize, info: SendInfo, payload: Bytes) {
        let (now, id) = (self.now, self.id(host));
        let sent = self.hosts[host].endpoint.send(now, id, info, payload);
        sent.expect("there is room");
        self.collect();
    }

    /// The packets with chunks of a type that a host sent since `begin`: milliseconds after it, and
    /// network.
    pub(crate) fn sent_with(
        &self,
        host: usize,
        chunk_type: ChunkType,
        begin: Instant,
    ) -> Vec<(u128, u8)> {
        self.sent
            .iter()
            .filter(|sent| sent.from == host && sent.time >= begin && sent.has(chunk_type))
            .map(|sent| ((sent.time - begin).as_millis(), sent.network))
            .collect()
    }

    /// Gives a host a packet from anywhere.
    pub(crate) fn give(&mut self, host: usize, from: PathAddress, packet: Bytes) {
        let now = self.now;
        self.hosts[host].endpoint.handle_packet(now, from, packet);
        self.collect();
    }

    /// Puts what both want to send on its way.
    pub(crate) fn collect(&mut self) {
        for host in [CLIENT, SERVER] {
            while let Some(transmit) = self.hosts[host].endpoint.poll_transmit(self.now) {
                let network = network_of(transmit.path.remote);
                let source = transmit
                    .path
                    .local
                    .unwrap_or_else(|| self.source_of(host, network));
                self.sent.push(Sent {
                    time: self.now,
                    from: host,
                    network,
                    source,
                    packet: transmit.packet.clone(),
                });
                let is_known = transmit.path.remote == address(1 - host, network)
                    && !self.lost_addresses.contains(&transmit.path.remote)
                    && !self.lost_addresses.contains(&source);
                let fits = transmit.packet.len() <= self.carries[usize::from(network)];
                let passes = self.is_up[usize::from(network)] && (fits || transmit.may_fragment);
                let is_lost = self.loss > 0.0 && self.rng.random_bool(self.loss);
                if is_known && passes && !is_lost {
                    let from = PathAddress {
                        local: Some(transmit.path.remote),
                        remote: source,
                        encapsulation_port: transmit.path.encapsulation_port,
                    };
                    let is_doubled = self.duplicates > 0.0 && self.rng.random_bool(self.duplicates);
                    for _ in 0..=u8::from(is_doubled) {
                        let jitter = self.jitter.mul_f64(self.rng.random());
                        self.count += 1;
                        let arrival = (self.now + DELAY + jitter, self.count);
                        self.on_the_way
                            .insert(arrival, (1 - host, from, transmit.packet.clone()));
                    }
                }
            }
            while let Some(event) = self.hosts[host].endpoint.poll_event() {
                self.hosts[host].events.push((self.now, event));
            }
        }
    }

    /// The address that the host itself chooses for packets into a network: the one that it has there, or
    /// else, when its addresses change, another one that it has.
    fn source_of(&self, host: usize, network: u8) -> IpAddr {
        let there = address(host, network);
        let endpoint = &self.hosts[host].endpoint;
        let ids = self.hosts[host].events.iter().rev();
        let id = ids.filter_map(|(_, event)| match event {
            Event::CommunicationUp { id, .. } => Some(*id),
            _ => None,
        });
        id.filter_map(|id| endpoint.status(id))
            .find(|status| status.extensions.address_reconfiguration)
            .and_then(|status| {
                let ours = status.local_addresses.into_iter();
                let has = |ours: &IpAddr| !self.lost_addresses.contains(ours);
                ours.filter(has).min_by_key(|ours| *ours != there)
            })
            .unwrap_or(there)
    }

    /// Moves the clock by `duration`, doing what is due on the way.
    pub(crate) fn run_for(&mut self, duration: Duration) {
        let end = self.now + duration;
        self.collect();
        while let Some(next) = self.next_event().filter(|next| *next <= end) {
            self.step(next);
        }
        self.now = end;
    }

    /// When something happens next.
    pub(crate) fn next_event(&self) -> Option<Instant> {
        let timeouts = self.hosts.iter().map(|host| host.endpoint.next_timeout());
        let arrival = self.on_the_way.keys().next().map(|(time, _)| *time);
        timeouts.chain([arrival]).flatten().min()
    }

    /// Moves the clock to `next`, and does what is due then.
    pub(crate) fn step(&mut self, next: Instant) {
        self.now = self.now.max(next);
        while let Some(entry) = self.on_the_way.first_entry()
            && entry.key().0 <= self.now
        {
            let (host, from, packet) = entry.remove();
            self.give(host, from, packet);
        }
        for host in &mut self.hosts {
            host.endpoint.handle_timeout(self.now);
        }
        self.collect();
    }

    /// Sends messages from the client whenever there is room, until the server has all of them, in
    /// order and unchanged. `at` is done when that many have arrived.
    pub(crate) fn transfer(
        &mut self,
        count: usize,
        bytes: usize,
        at: usize,
        action: impl FnOnce(&mut Network),
    ) {
        let mut action = Some(action);
        self.transfer_while(count, bytes, |network, received| {
            if received >= at
                && let Some(action) = action.take()
            {
                action(network);
            }
        });
    }

    /// The same; `each` is done after each event and hears how many have arrived.
    pub(crate) fn transfer_while(
        &mut self,
        count: usize,
        bytes: usize,
        mut each: impl FnMut(&mut Network, usize),
    ) {
        let (mut next, mut received) = (0, 0);
        // With I-DATA a full buffer has a message delivered in parts (RFC 8260 section 4.3.1).
        let mut parts = Vec::new();
        let info = SendInfo::default();
        let (client, server) = (self.id(CLIENT), self.id(SERVER));
        let begin = self.now;
        while received < count {
            while next < count {
                let payload = message(next, bytes);
                let endpoint = &mut self.hosts[CLIENT].endpoint;
                match endpoint.send(self.now, client, info, payload) {
                    Ok(()) => next += 1,
                    Err(SendError::BufferFull) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            self.collect();
            let event = self.next_event().expect("something is waited for");
            self.step(event);
            while let Some(arrived) = self.hosts[SERVER].endpoint.receive(self.now, server) {
                parts.extend_from_slice(&arrived.payload);
                if arrived.end_of_record {
                    assert_eq!(parts, message(received, bytes));
                    parts.clear();
                    received += 1;
                }
            }
            self.collect();
            each(self, received);
            assert!(
                self.now - begin < Duration::from_secs(3600),
                "it never ends"
            );
        }
    }
}

pub(crate) fn network_of(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(address) => address.octets()[2],
        IpAddr::V6(_) => panic!("there are IPv4 addresses only"),
    }
}
