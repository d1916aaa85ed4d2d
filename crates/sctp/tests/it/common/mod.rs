//! Two endpoints, a clock that stands still until it is moved, and the packets between them in the
//! hands of the test.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sctp::packet::{Chunk, ChunkType, Packet, PacketWriter, Tsn};
use sctp::{
    AssociationId, Endpoint, EndpointConfig, Event, PathAddress, ReceivedMessage, SendError,
    SendInfo,
};

/// The SCTP port of the side that opens associations.
pub(crate) const CLIENT_PORT: u16 = 1001;
/// The SCTP port of the side that accepts them.
pub(crate) const SERVER_PORT: u16 = 2002;
/// The encapsulation port of both.
pub(crate) const ENCAPSULATION_PORT: u16 = 9899;

/// One endpoint with what it said.
pub(crate) struct Host {
    pub(crate) endpoint: Endpoint,
    pub(crate) address: IpAddr,
    pub(crate) events: Vec<Event>,
    /// What it put on the wire, with the time, oldest first.
    pub(crate) sent: Vec<(Instant, Bytes)>,
}

/// The two of them.
pub(crate) struct Pair {
    pub(crate) now: Instant,
    pub(crate) start: Instant,
    pub(crate) client: Host,
    pub(crate) server: Host,
    /// Packets on their way.
    pub(crate) to_server: VecDeque<Bytes>,
    pub(crate) to_client: VecDeque<Bytes>,
}

impl Host {
    /// A host that takes its paths to carry what `config` says, so that tests which count packets
    /// need not think of probe packets.
    pub(crate) fn new(port: u16, address: [u8; 4], config: EndpointConfig, seed: u64) -> Host {
        let config = config.path_mtu_discovery(false);
        Host::as_configured(port, address, config, seed)
    }

    /// A host with just these settings.
    pub(crate) fn as_configured(
        port: u16,
        address: [u8; 4],
        config: EndpointConfig,
        seed: u64,
    ) -> Host {
        Host {
            endpoint: Endpoint::new(port, config, ChaCha12Rng::seed_from_u64(seed).get_seed()),
            address: address.into(),
            events: Vec::new(),
            sent: Vec::new(),
        }
    }

    /// The path by which others reach this host.
    pub(crate) fn path(&self) -> PathAddress {
        PathAddress {
            local: None,
            remote: self.address,
            encapsulation_port: Some(ENCAPSULATION_PORT),
        }
    }

    /// Takes all packets that it wants to send now.
    pub(crate) fn take_packets(&mut self, now: Instant) -> Vec<Bytes> {
        let mut packets = Vec::new();
        while let Some(transmit) = self.endpoint.poll_transmit(now) {
            self.sent.push((now, transmit.packet.clone()));
            packets.push(transmit.packet);
        }
        while let Some(event) = self.endpoint.poll_event() {
            self.events.push(event);
        }
        packets
    }

    /// Everything that can be received now.
    pub(crate) fn receive_all(&mut self, now: Instant, id: AssociationId) -> Vec<ReceivedMessage> {
        std::iter::from_fn(|| self.endpoint.receive(now, id)).collect()
    }

    /// The association of the latest `CommunicationUp`.
    pub(crate) fn association(&self) -> AssociationId {
        self.events
            .iter()
            .rev()
            .find_map(|event| match event {
                Event::CommunicationUp { id, .. } => Some(*id),
                _ => None,
            })
            .expect("an association came up")
    }

    /// Whether it said that an association ended in good order.
    pub(crate) fn is_shut_down(&self) -> bool {
        self.events
            .iter()
            .any(|event| matches!(event, Event::ShutdownComplete { .. }))
    }
}

impl Pair {
    pub(crate) fn new() -> Pair {
        Pair::with(EndpointConfig::default(), EndpointConfig::default())
    }

    pub(crate) fn with(client: EndpointConfig, server: EndpointConfig) -> Pair {
        Pair::seeded(client, server, 1)
    }

    pub(crate) fn seeded(client: EndpointConfig, server: EndpointConfig, seed: u64) -> Pair {
        let start = Instant::now();
        Pair {
            now: start,
            start,
            client: Host::new(CLIENT_PORT, [192, 0, 2, 1], client, 2 * seed),
            server: Host::new(SERVER_PORT, [192, 0, 2, 2], server, 2 * seed + 1),
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
        }
    }

    /// Begins an association from the client to the server.
    pub(crate) fn connect(&mut self) -> AssociationId {
        let to = self.server.path();
        let id = self
            .client
            .endpoint
            .connect(self.now, to, SERVER_PORT)
            .expect("nothing speaks against it");
        self.collect();
        id
    }

    /// An association that is up, with nothing on its way: the names on both sides.
    pub(crate) fn establish(&mut self) -> (AssociationId, AssociationId) {
        let id = self.connect();
        self.run();
        assert_eq!(self.client.association(), id);
        (id, self.server.association())
    }

    /// Puts what both want to send on the wire.
    pub(crate) fn collect(&mut self) {
        self.to_server.extend(self.client.take_packets(self.now));
        self.to_client.extend(self.server.take_packets(self.now));
    }

    pub(crate) fn give_server(&mut self, packet: Bytes) {
        let from = self.client.path();
        self.server.endpoint.handle_packet(self.now, from, packet);
        self.collect();
    }

    pub(crate) fn give_client(&mut self, packet: Bytes) {
        let from = self.server.path();
        self.client.endpoint.handle_packet(self.now, from, packet);
        self.collect();
    }

    /// Delivers packets until there are none, without time going by.
    pub(crate) fn run(&mut self) {
        self.collect();
        for _ in 0..100_000 {
            if let Some(packet) = self.to_server.pop_front() {
                self.give_server(packet);
            } else if let Some(packet) = self.to_client.pop_front() {
                self.give_client(packet);
            } else {
                return;
            }
        }
        panic!("the two never stop talking");
    }

    /// Moves the clock to the next deadline of either side, and does what is due.
    pub(crate) fn advance(&mut self) -> bool {
        let next = [
            self.client.endpoint.next_timeout(),
            self.server.endpoint.next_timeout(),
        ]
        .into_iter()
        .flatten()
        .min();
        let Some(next) = next else {
            return false;
        };
        self.now = self.now.max(next);
        self.client.endpoint.handle_timeout(self.now);
        self.server.endpoint.handle_timeout(self.now);
        self.collect();
        true
    }

    /// Moves the clock by `duration`, doing what is due on the way; packets are delivered.
    pub(crate) fn run_for(&mut self, duration: Duration) {
        let end = self.now + duration;
        self.run();
        while [
            self.client.endpoint.next_timeout(),
            self.server.endpoint.next_timeout(),
        ]
        .into_iter()
        .flatten()
        .min()
        .is_some_and(|next| next <= end)
        {
            self.advance();
            self.run();
        }
        self.now = end;
    }

    /// Moves the clock by `duration`, doing what is due on the way; packets are lost.
    pub(crate) fn run_for_without_delivery(&mut self, duration: Duration) {
        let end = self.now + duration;
        self.collect();
        self.lose_all();
        while [
            self.client.endpoint.next_timeout(),
            self.server.endpoint.next_timeout(),
        ]
        .into_iter()
        .flatten()
        .min()
        .is_some_and(|next| next <= end)
        {
            self.advance();
            self.lose_all();
        }
        self.now = end;
    }

    /// Loses what is on its way.
    pub(crate) fn lose_all(&mut self) {
        self.to_client.clear();
        self.to_server.clear();
    }

    pub(crate) fn client_sends(&mut self, info: SendInfo, payload: impl Into<Bytes>) {
        let id = self.client.association();
        self.client
            .endpoint
            .send(self.now, id, info, payload.into())
            .expect("there is room");
        self.collect();
    }
}

/// The types of a packet's chunks, in order.
pub(crate) fn chunk_types(packet: &[u8]) -> Vec<ChunkType> {
    Packet::read(packet)
        .expect("a packet")
        .chunks()
        .map(|chunk| chunk.expect("a sound chunk").chunk_type())
        .collect()
}

/// The verification tag of a packet.
pub(crate) fn tag(packet: &[u8]) -> u32 {
    Packet::read(packet)
        .expect("a packet")
        .header()
        .verification_tag
}

/// A packet from the client's port to the server's.
pub(crate) fn to_server(tag: u32, chunks: &[Chunk<'_>]) -> Bytes {
    packet(CLIENT_PORT, SERVER_PORT, tag, chunks)
}

/// A packet from the server's port to the client's.
pub(crate) fn to_client(tag: u32, chunks: &[Chunk<'_>]) -> Bytes {
    packet(SERVER_PORT, CLIENT_PORT, tag, chunks)
}

/// Any packet.
pub(crate) fn packet(source: u16, destination: u16, tag: u32, chunks: &[Chunk<'_>]) -> Bytes {
    let mut buffer = BytesMut::new();
    let mut writer = PacketWriter::new(&mut buffer, source, destination, tag, 65_535);
    for chunk in chunks {
        writer.chunk(chunk).expect("it fits");
    }
    writer.finish()
}

/// A packet with some of its bytes changed, and a checksum that is right again.
pub(crate) fn altered(packet: &[u8], change: impl FnOnce(&mut [u8])) -> Bytes {
    let mut bytes = packet.to_vec();
    change(&mut bytes);
    sctp::packet::checksum::fill(&mut bytes);
    bytes.into()
}

/// How messages are sent where it does not matter.
pub(crate) fn ordered(stream: u16) -> SendInfo {
    SendInfo {
        stream,
        ..SendInfo::default()
    }
}

/// A message of that many bytes that tells itself from others.
pub(crate) fn message(number: usize, bytes: usize) -> Bytes {
    (0..bytes)
        .map(|index| (number * 31 + index * 7) as u8)
        .collect::<Vec<u8>>()
        .into()
}

/// The DATA chunks of packets: TSN and user data.
pub(crate) fn data_of(packets: &[Bytes]) -> Vec<(Tsn, usize)> {
    packets
        .iter()
        .flat_map(|packet| Packet::read(packet).unwrap().chunks())
        .filter_map(|chunk| match chunk {
            Ok(Chunk::Data(data)) => Some((data.tsn, data.user_data.len())),
            _ => None,
        })
        .collect()
}

/// Keeps sending `count` messages from the client, whenever there is room, until all are received.
pub(crate) fn transfer(pair: &mut Pair, count: usize, bytes: usize, info: SendInfo) -> Vec<Bytes> {
    let client = pair.client.association();
    let server = pair.server.association();
    let mut next = 0;
    let mut received = Vec::new();
    for _ in 0..1_000_000 {
        while next < count {
            let sent = pair
                .client
                .endpoint
                .send(pair.now, client, info, message(next, bytes));
            match sent {
                Ok(()) => next += 1,
                Err(SendError::BufferFull) => break,
                Err(error) => panic!("{error}"),
            }
        }
        pair.run();
        let news = pair.server.receive_all(pair.now, server);
        received.extend(news.into_iter().map(|message| message.payload));
        if received.len() == count {
            return received;
        }
        pair.collect();
        if pair.to_client.is_empty() && pair.to_server.is_empty() {
            assert!(pair.advance());
        }
    }
    panic!("it never ends");
}

/// The verification tag of packets to the server, and the TSN that its client would use next
/// after the one message that this sends.
pub(crate) fn server_tag_and_next_tsn(pair: &mut Pair) -> (u32, Tsn) {
    pair.client_sends(ordered(0), "mark");
    let packet = pair.to_server.front().unwrap().clone();
    let tsn = data_of(std::slice::from_ref(&packet))[0].0;
    pair.run();
    let server = pair.server.association();
    pair.server.receive_all(pair.now, server);
    pair.collect();
    pair.run();
    (tag(&packet), tsn.next())
}
