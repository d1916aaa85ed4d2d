//! Messages that are not whole take room that nobody can give back (RFC 9260 section 6.9): however
//! many peers there are, whatever they send and whatever the limits are, none that is honest waits for
//! ever. Its messages arrive, or its association is given up and both users hear of it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use crate::common::{Host, SERVER_PORT, message, ordered};
use bytes::Bytes;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sctp::packet::{Chunk, Packet};
use sctp::{AssociationId, EndpointConfig, Event, LostCause, SendError, SendInfo};

/// One way.
const DELAY: Duration = Duration::from_millis(30);

/// One peer of the server.
struct Peer {
    host: Host,
    association: AssociationId,
    unsent: VecDeque<(SendInfo, Bytes)>,
    /// Its packets with DATA do not arrive from then on: it holds what it has, and answers.
    silent_from: Option<Instant>,
    /// When its link has sent what waits.
    link_free: Instant,
    /// By the server: the association, the parts of messages by their numbers, whole messages.
    accepted: Option<AssociationId>,
    parts: BTreeMap<u32, Vec<u8>>,
    whole: usize,
    lost: Option<LostCause>,
    /// The most that the server had of it, in bytes, and since when.
    progress: (usize, Instant),
}

/// A packet on its way: arrival, order, peer, whether to the server.
type Travelling = (Instant, u64, usize, bool, Bytes);

/// A server, and peers that send to it.
struct World {
    now: Instant,
    start: Instant,
    server: Host,
    peers: Vec<Peer>,
    /// Of each message its bytes; the numbers are the PPIDs.
    sizes: Vec<usize>,
    network: BinaryHeap<Reverse<Travelling>>,
    sent: u64,
    bytes_per_second: usize,
    loss: f64,
    rng: ChaCha12Rng,
}

impl World {
    fn new(server: EndpointConfig, bytes_per_second: usize, loss: f64, seed: u64) -> World {
        let now = Instant::now();
        World {
            now,
            start: now,
            server: Host::new(SERVER_PORT, [192, 0, 2, 1], server, 1),
            peers: Vec::new(),
            sizes: Vec::new(),
            network: BinaryHeap::new(),
            sent: 0,
            bytes_per_second,
            loss,
            rng: ChaCha12Rng::seed_from_u64(seed),
        }
    }

    /// A peer that sends messages of these sizes.
    fn add_peer(&mut self, config: EndpointConfig, messages: &[(SendInfo, usize)]) -> usize {
        let index = self.peers.len();
        let seed = 100 + index as u64;
        let mut host = Host::new(1000, [192, 0, 2, 2 + index as u8], config, seed);
        let to = self.server.path();
        let association = host.endpoint.connect(self.now, to, SERVER_PORT).unwrap();
        let unsent = messages.iter().map(|(info, size)| {
            let ppid = self.sizes.len() as u32;
            self.sizes.push(*size);
            let info = SendInfo { ppid, ..*info };
            (info, message(ppid as usize, *size))
        });
        self.peers.push(Peer {
            host,
            association,
            unsent: unsent.collect(),
            silent_from: None,
            link_free: self.now,
            accepted: None,
            parts: BTreeMap::new(),
            whole: 0,
            lost: None,
            progress: (0, self.now),
        });
        index
    }

    /// What both users and both engines do at this time.
    fn work(&mut self) {
        for peer in &mut self.peers {
            while let Some((info, payload)) = peer.unsent.front() {
                let endpoint = &mut peer.host.endpoint;
                match endpoint.send(self.now, peer.association, *info, payload.clone()) {
                    Ok(()) => peer.unsent.pop_front(),
                    Err(SendError::BufferFull | SendError::UnknownAssociation) => break,
                    Err(error) => panic!("{error}"),
                };
            }
        }
        for index in 0..self.peers.len() {
            let peer = &mut self.peers[index];
            for packet in peer.host.take_packets(self.now) {
                let is_silent = peer.silent_from.is_some_and(|from| from <= self.now);
                if is_silent && has_data(&packet) {
                    continue;
                }
                let takes = packet.len() as f64 / self.bytes_per_second as f64;
                peer.link_free = peer.link_free.max(self.now) + Duration::from_secs_f64(takes);
                let arrival = peer.link_free + DELAY;
                if !self.rng.random_bool(self.loss) {
                    self.sent += 1;
                    let entry = (arrival, self.sent, index, true, packet);
                    self.network.push(Reverse(entry));
                }
            }
        }
        self.serve();
        while let Some(transmit) = self.server.endpoint.poll_transmit(self.now) {
            let to = transmit.path.remote;
            let index = self.peers.iter().position(|peer| peer.host.address == to);
            if !self.rng.random_bool(self.loss) {
                self.sent += 1;
                let arrival = self.now + DELAY;
                let entry = (arrival, self.sent, index.unwrap(), false, transmit.packet);
                self.network.push(Reverse(entry));
            }
        }
    }

    /// The server's user receives all that there is.
    fn serve(&mut self) {
        while let Some(event) = self.server.endpoint.poll_event() {
            match event {
                Event::CommunicationUp { id, peer, .. } => {
                    let mut peers = self.peers.iter_mut();
                    let peer = peers.find(|known| known.host.address == peer.remote);
                    peer.unwrap().accepted = Some(id);
                }
                Event::CommunicationLost { id, cause, .. } => {
                    let mut peers = self.peers.iter_mut();
                    let peer = peers.find(|known| known.accepted == Some(id));
                    peer.unwrap().lost = Some(cause);
                }
                _ => {}
            }
        }
        for peer in &mut self.peers {
            let Some(id) = peer.accepted else { continue };
            for part in self.server.receive_all(self.now, id) {
                let number = part.ppid;
                let begun = peer.parts.entry(number).or_default();
                begun.extend_from_slice(&part.payload);
                if part.end_of_record {
                    let size = self.sizes[number as usize];
                    assert_eq!(begun[..], message(number as usize, size));
                    peer.whole += 1;
                }
            }
            let received: usize = peer.parts.values().map(Vec::len).sum();
            let status = self.server.endpoint.status(id);
            let held = status.map_or(0, |status| status.receive_buffer_bytes);
            if received + held > peer.progress.0 {
                peer.progress = (received + held, self.now);
            }
        }
    }

    /// Goes on to the next thing that happens.
    fn step(&mut self) {
        self.work();
        let hosts = self.peers.iter().map(|peer| &peer.host);
        let timeouts = hosts.chain([&self.server]);
        let arrival = self.network.peek().map(|Reverse(entry)| entry.0);
        let next = timeouts
            .filter_map(|host| host.endpoint.next_timeout())
            .chain(arrival)
            .min();
        self.now = self.now.max(next.expect("HEARTBEATs go on"));
        while let Some(Reverse((arrival, ..))) = self.network.peek()
            && *arrival <= self.now
            && let Some(Reverse((_, _, index, to_server, packet))) = self.network.pop()
        {
            let peer = &mut self.peers[index];
            if to_server {
                let from = peer.host.path();
                self.server.endpoint.handle_packet(self.now, from, packet);
                self.serve();
            } else {
                let from = self.server.path();
                peer.host.endpoint.handle_packet(self.now, from, packet);
            }
        }
        self.server.endpoint.handle_timeout(self.now);
        for peer in &mut self.peers {
            peer.host.endpoint.handle_timeout(self.now);
        }
    }

    /// Runs until every honest peer is served or given up, none of which waits longer than `patience`
    /// without progress.
    fn run(&mut self, patience: Duration) {
        loop {
            self.step();
            let mut waits = false;
            for (index, peer) in self.peers.iter().enumerate() {
                let all = peer.whole == peer.parts.len() && peer.unsent.is_empty();
                let is_served = all
                    && peer
                        .host
                        .endpoint
                        .status(peer.association)
                        .is_none_or(|status| {
                            status.unsent_messages == 0 && status.unacknowledged_chunks == 0
                        });
                if peer.silent_from.is_some() || peer.lost.is_some() || is_served {
                    continue;
                }
                waits = true;
                let waited = self.now - peer.progress.1;
                assert!(waited <= patience, "peer {index} has waited {waited:?}");
            }
            if !waits {
                return;
            }
        }
    }

    fn served(&self) -> usize {
        let honest = self.peers.iter().filter(|peer| peer.silent_from.is_none());
        honest.filter(|peer| peer.lost.is_none()).count()
    }

    fn took(&self) -> Duration {
        self.now - self.start
    }
}

fn has_data(packet: &[u8]) -> bool {
    let parsed = Packet::read(packet).unwrap();
    parsed
        .chunks()
        .any(|chunk| matches!(chunk, Ok(Chunk::Data(_))))
}

fn room_for(max_received_bytes: usize) -> EndpointConfig {
    EndpointConfig::default().max_received_bytes(max_received_bytes)
}

#[test]
fn peers_whose_messages_wait_for_each_others_room_do_not_wait_for_ever() {
    let mut world = World::new(room_for(1_000_000), 50_000, 0.0, 1);
    for _ in 0..8 {
        world.add_peer(EndpointConfig::default(), &[(ordered(0), 200_000)]);
    }
    world.run(Duration::from_secs(60));
    assert!((4..8).contains(&world.served()), "{}", world.served());
    assert!(world.took() < Duration::from_secs(60), "{:?}", world.took());
    let lost = world.peers.iter().filter_map(|peer| peer.lost.as_ref());
    for cause in lost {
        assert_eq!(*cause, LostCause::OutOfResource);
    }
}

#[test]
fn in_parts_all_of_them_go_on() {
    let config = room_for(1_000_000).partial_delivery_point(1 << 20);
    let mut world = World::new(config, 50_000, 0.0, 1);
    for _ in 0..8 {
        world.add_peer(EndpointConfig::default(), &[(ordered(0), 200_000)]);
    }
    world.run(Duration::from_secs(60));
    assert_eq!(world.served(), 8);
    assert!(world.took() < Duration::from_secs(60), "{:?}", world.took());
}

/// What is left of the room is too small for a chunk, but not nothing.
#[test]
fn a_sliver_of_window_does_not_keep_a_part_back() {
    for max_received_bytes in [2000, 3001, 10_001, 10_700] {
        let config = room_for(max_received_bytes)
            .guaranteed_receive_bytes(0)
            .partial_delivery_point(1 << 20);
        let mut world = World::new(config, 1_000_000, 0.0, 1);
        world.add_peer(EndpointConfig::default(), &[(ordered(0), 200_000)]);
        world.run(Duration::from_secs(2));
        assert_eq!(world.served(), 1);
        assert!(world.took() < Duration::from_secs(60), "{:?}", world.took());
    }
}

#[test]
fn a_message_of_more_fragments_than_may_be_held_arrives() {
    for max_received_messages in [1, 2, 100] {
        let config = EndpointConfig::default().max_received_messages(max_received_messages);
        let mut world = World::new(config, 1_000_000, 0.0, 1);
        world.add_peer(EndpointConfig::default(), &[(ordered(0), 250_000)]);
        world.run(Duration::from_secs(2));
        assert_eq!(world.served(), 1);
        assert!(world.took() < Duration::from_secs(5), "{:?}", world.took());
    }
}

/// Those that hold most are given up, so that the others are served.
#[test]
fn peers_that_fall_silent_do_not_keep_the_room() {
    let patient = EndpointConfig::default().association_max_retrans(1000);
    let mut world = World::new(room_for(500_000), 50_000, 0.0, 1);
    for _ in 0..5 {
        let silent = world.add_peer(patient.clone(), &[(ordered(0), 250_000)]);
        world.peers[silent].silent_from = Some(world.now + Duration::from_secs(2));
    }
    while world.took() < Duration::from_secs(10) {
        world.step();
    }
    for _ in 0..2 {
        world.add_peer(EndpointConfig::default(), &[(ordered(0), 50_000); 10]);
    }
    world.run(Duration::from_secs(60));
    assert_eq!(world.served(), 2);
}

/// All together hold more than `max_received_bytes`, each within what it is guaranteed. Whoever wants
/// more than that does not take it from them.
#[test]
fn what_is_guaranteed_is_not_taken_for_one_that_wants_more() {
    let config = room_for(50_000).max_message_size(20_000);
    let mut world = World::new(config, 50_000, 0.0, 1);
    for _ in 0..20 {
        let modest = world.add_peer(EndpointConfig::default(), &[(ordered(0), 20_000)]);
        world.peers[modest].silent_from = Some(world.now + Duration::from_millis(150));
    }
    while world.took() < Duration::from_secs(10) {
        world.step();
    }
    let held: usize = world.peers.iter().map(|peer| peer.progress.0).sum();
    assert!(held > 60_000, "{held}");
    let greedy = world.add_peer(EndpointConfig::default(), &[(ordered(0), 20_000)]);
    world.run(Duration::from_secs(10));
    assert_eq!(world.peers[greedy].lost, Some(LostCause::OutOfResource));
    for peer in &world.peers[..greedy] {
        assert_eq!(peer.lost, None);
    }
}

/// What no honest peer can bring about, a user can: by a smaller window in the middle of a message.
#[test]
fn an_association_that_can_never_go_on_ends() {
    let mut world = World::new(EndpointConfig::default(), 50_000, 0.0, 1);
    world.add_peer(EndpointConfig::default(), &[(ordered(0), 200_000)]);
    while world.peers[0].progress.0 < 100_000 {
        world.step();
    }
    let id = world.peers[0].accepted.unwrap();
    let small = EndpointConfig::default().a_rwnd(20_000);
    let now = world.now;
    world
        .server
        .endpoint
        .configure(now, id, small.association)
        .unwrap();
    world.run(Duration::from_secs(10));
    assert_eq!(world.peers[0].lost, Some(LostCause::OutOfResource));
}

/// Peers, messages, streams and limits at random.
fn play(seed: u64) {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let largest = [1500, 20_000, 100_000][rng.random_range(0..3)];
    let mut config = EndpointConfig::default()
        .max_message_size(largest)
        .max_received_bytes(largest + rng.random_range(0..2 * largest))
        .max_received_messages([1, 3, 30, 1 << 15][rng.random_range(0..4)])
        .guaranteed_receive_bytes([0, 1000, 8192][rng.random_range(0..3)])
        .a_rwnd((largest + rng.random_range(0..largest)) as u32)
        .fragment_interleave(rng.random());
    if rng.random() {
        config.association.partial_delivery_point =
            rng.random_range(0..=config.association.a_rwnd as usize);
        config.max_received_bytes = rng.random_range(1500..2 * largest);
    }
    let rate = [20_000, 200_000, 2_000_000][rng.random_range(0..3)];
    let loss = [0.0, 0.01, 0.05][rng.random_range(0..3)];
    let mut world = World::new(config, rate, loss, seed);
    for _ in 0..rng.random_range(1..10) {
        let messages: Vec<_> = (0..rng.random_range(1..6))
            .map(|_| {
                let info = SendInfo {
                    stream: rng.random_range(0..3),
                    unordered: rng.random_ratio(1, 4),
                    ..SendInfo::default()
                };
                (info, rng.random_range(1..=largest))
            })
            .collect();
        let patient = EndpointConfig::default()
            .association_max_retrans(1000)
            .mtu([576, 1500][rng.random_range(0..2)]);
        let peer = world.add_peer(patient, &messages);
        if rng.random_ratio(1, 3) {
            let from = Duration::from_millis(rng.random_range(100..3000));
            world.peers[peer].silent_from = Some(world.now + from);
        }
    }
    // Where packets are lost, the one that makes room may be lost a few times in a row.
    let rto_max = EndpointConfig::default().association.path.rto_max;
    let patience = if loss == 0.0 { rto_max } else { 4 * rto_max };
    world.run(patience + Duration::from_secs(2));
    for peer in &world.peers {
        if peer.silent_from.is_none()
            && let Some(cause) = &peer.lost
        {
            assert_eq!(*cause, LostCause::OutOfResource);
        }
    }
}

#[test]
fn whatever_peers_send_and_whatever_the_limits_are_every_honest_one_goes_on() {
    for seed in 0..200 {
        let result = std::panic::catch_unwind(|| play(seed));
        assert!(result.is_ok(), "seed {seed}");
    }
}
