//! One endpoint under test, and a peer whose every packet the test writes itself.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sctp::packet::{
    Chunk, ChunkType, CookieEcho, Data, GapAckBlock, Init, Packet, PacketWriter, Parameter,
    ParameterBuffer, Parameters, Shutdown, Ssn, Tsn,
};
use sctp::{
    AssociationId, AssociationState, AssociationStatus, Endpoint, EndpointConfig, Event,
    PathAddress, PathState, ReceivedMessage, SendInfo, Transmit,
};

/// The SCTP port of the endpoint under test.
pub(crate) const LOCAL_PORT: u16 = 5001;
/// The SCTP port of the peer.
pub(crate) const PEER_PORT: u16 = 6001;
/// The peer's Initiate Tag.
pub(crate) const PEER_TAG: u32 = 0x0bad_cafe;
/// The peer's Initial TSN: so that all numbers wrap around soon.
pub(crate) const PEER_TSN: Tsn = Tsn(0xffff_fffd);
/// The cookie in the peer's INIT ACK.
pub(crate) const COOKIE: &[u8] = b"the peer's cookie";

/// The endpoint and what is known of its association.
pub(crate) struct Scripted {
    pub(crate) now: Instant,
    pub(crate) endpoint: Endpoint,
    pub(crate) events: Vec<Event>,
    /// The endpoint's verification tag.
    pub(crate) tag: u32,
    /// The endpoint's Initial TSN.
    pub(crate) tsn: Tsn,
    id: Option<AssociationId>,
}

/// Settings with which the endpoint says nothing of its own accord.
pub(crate) fn quiet() -> EndpointConfig {
    EndpointConfig::default()
        .heartbeats(false)
        .path_mtu_discovery(false)
}

/// Where the peer is.
pub(crate) fn peer() -> PathAddress {
    at([192, 0, 2, 9])
}

/// Somebody at that address.
pub(crate) fn at(address: [u8; 4]) -> PathAddress {
    PathAddress {
        local: None,
        remote: address.into(),
        encapsulation_port: None,
    }
}

/// A packet to the endpoint under test.
pub(crate) fn packet(tag: u32, chunks: &[Chunk<'_>]) -> Bytes {
    packet_of(tag, |writer| {
        for chunk in chunks {
            writer.chunk(chunk).expect("it fits");
        }
    })
}

/// A packet to the endpoint under test, written by `write`.
pub(crate) fn packet_of(tag: u32, write: impl FnOnce(&mut PacketWriter<'_>)) -> Bytes {
    let mut buffer = BytesMut::new();
    let mut writer = PacketWriter::new(&mut buffer, PEER_PORT, LOCAL_PORT, tag, 65_535);
    write(&mut writer);
    writer.finish()
}

/// A packet whose chunks are given as bytes, with a checksum that is right.
pub(crate) fn raw(tag: u32, chunks: &[u8]) -> Bytes {
    let mut bytes = packet(tag, &[]).to_vec();
    bytes.extend_from_slice(chunks);
    sctp::packet::checksum::fill(&mut bytes);
    bytes.into()
}

/// The bytes of chunks as they lie in a packet.
pub(crate) fn bytes_of(chunks: &[Chunk<'_>]) -> Vec<u8> {
    packet(0, chunks)[12..].to_vec()
}

/// An INIT of the peer, or its INIT ACK, without parameters.
pub(crate) fn init() -> Init<'static> {
    Init {
        initiate_tag: PEER_TAG,
        a_rwnd: 100_000,
        outbound_streams: 10,
        inbound_streams: 10,
        initial_tsn: PEER_TSN,
        parameters: Parameters::default(),
    }
}

/// The parameters of the peer's INIT ACK.
pub(crate) fn cookie_parameter() -> ParameterBuffer {
    let mut parameters = ParameterBuffer::new();
    parameters
        .push(&Parameter::StateCookie(COOKIE))
        .expect("it is short");
    parameters
}

/// A whole message in a DATA chunk of the peer: the one with that number, counted from 0, all of
/// them on one stream.
pub(crate) fn message(number: u32, user_data: &[u8]) -> Data<'_> {
    Data {
        beginning: true,
        ending: true,
        tsn: PEER_TSN + number,
        ssn: Ssn(number as u16),
        user_data,
        ..Data::default()
    }
}

/// The chunks of a packet.
pub(crate) fn chunks(packet: &Bytes) -> Vec<Chunk<'_>> {
    Packet::read(packet)
        .expect("a packet")
        .chunks()
        .map(|chunk| chunk.expect("a sound chunk"))
        .collect()
}

/// The types of the chunks of packets, packet by packet.
pub(crate) fn types(packets: &[Bytes]) -> Vec<Vec<ChunkType>> {
    packets
        .iter()
        .map(|packet| chunks(packet).iter().map(Chunk::chunk_type).collect())
        .collect()
}

/// The DATA chunks in packets, by their TSNs' distance from `first`.
pub(crate) fn data_in(packets: &[Bytes], first: Tsn) -> Vec<u32> {
    packets
        .iter()
        .flat_map(chunks)
        .filter_map(|chunk| match chunk {
            Chunk::Data(data) => Some(data.tsn.distance_from(first)),
            _ => None,
        })
        .collect()
}

/// Appends an address parameter.
pub(crate) fn push_address(parameters: &mut ParameterBuffer, address: PathAddress) {
    let parameter = match address.remote {
        IpAddr::V4(address) => Parameter::Ipv4Address(address),
        IpAddr::V6(address) => Parameter::Ipv6Address(address),
    };
    parameters.push(&parameter).expect("it is short");
}

fn packets(transmits: impl IntoIterator<Item = Transmit>) -> Vec<Bytes> {
    let packets = transmits.into_iter().map(|transmit| transmit.packet);
    packets.collect()
}

/// The only SACK in packets: its Cumulative TSN Ack, a_rwnd, Gap Ack Blocks and duplicates.
pub(crate) fn sack_in(packets: &[Bytes]) -> (Tsn, u32, Vec<(u16, u16)>, Vec<Tsn>) {
    let mut sacks = packets
        .iter()
        .flat_map(chunks)
        .filter_map(|chunk| match chunk {
            Chunk::Sack(sack) => Some(sack),
            _ => None,
        });
    let sack = sacks.next().expect("a SACK");
    assert!(sacks.next().is_none(), "one SACK");
    (
        sack.cumulative_tsn_ack,
        sack.a_rwnd,
        sack.gap_ack_blocks
            .iter()
            .map(|block| (block.start, block.end))
            .collect(),
        sack.duplicate_tsns.iter().collect(),
    )
}

impl Scripted {
    /// No association.
    pub(crate) fn alone(config: EndpointConfig) -> Scripted {
        Scripted {
            now: Instant::now(),
            endpoint: Endpoint::new(
                LOCAL_PORT,
                config,
                ChaCha12Rng::seed_from_u64(9260).get_seed(),
            ),
            events: Vec::new(),
            tag: 0,
            tsn: Tsn(0),
            id: None,
        }
    }

    /// COOKIE-WAIT; the INIT has been taken.
    pub(crate) fn cookie_wait(config: EndpointConfig) -> Scripted {
        let mut scripted = Scripted::alone(config);
        let id = scripted
            .endpoint
            .connect(scripted.now, peer(), PEER_PORT)
            .expect("nothing speaks against it");
        scripted.id = Some(id);
        let packets = scripted.take();
        let Some(Chunk::Init(init)) = packets.first().and_then(|packet| chunks(packet).pop())
        else {
            panic!("an INIT was sent");
        };
        scripted.tag = init.initiate_tag;
        scripted.tsn = init.initial_tsn;
        scripted
    }

    /// COOKIE-ECHOED; the COOKIE ECHO has been taken.
    pub(crate) fn cookie_echoed(config: EndpointConfig) -> Scripted {
        let mut scripted = Scripted::cookie_wait(config);
        scripted.give_init_ack(init());
        assert_eq!(types(&scripted.take()), [[ChunkType::COOKIE_ECHO]]);
        scripted
    }

    /// ESTABLISHED by the endpoint's own wish.
    pub(crate) fn connected(config: EndpointConfig) -> Scripted {
        let mut scripted = Scripted::cookie_echoed(config);
        scripted.give(&[Chunk::CookieAck]);
        assert!(scripted.take().is_empty());
        assert_eq!(scripted.state(), AssociationState::Established);
        scripted
    }

    /// ESTABLISHED by the peer's wish; the COOKIE ACK has been taken.
    pub(crate) fn accepted(config: EndpointConfig) -> Scripted {
        Scripted::accepted_with(config, init())
    }

    /// The same with this INIT.
    pub(crate) fn accepted_with(config: EndpointConfig, init: Init<'_>) -> Scripted {
        let mut scripted = Scripted::alone(config);
        let cookie = scripted.cookie_for(init);
        scripted.echo(&cookie, &[]);
        assert_eq!(types(&scripted.take()), [[ChunkType::COOKIE_ACK]]);
        scripted
    }

    /// In that state.
    pub(crate) fn in_state(state: AssociationState) -> Scripted {
        let mut scripted = match state {
            AssociationState::Closed => return Scripted::alone(quiet()),
            AssociationState::CookieWait => return Scripted::cookie_wait(quiet()),
            AssociationState::CookieEchoed => return Scripted::cookie_echoed(quiet()),
            _ => Scripted::connected(quiet()),
        };
        let id = scripted.id();
        let now = scripted.now;
        match state {
            AssociationState::ShutdownPending => {
                scripted.send(0, b"outstanding");
                scripted.endpoint.shutdown(now, id).expect("it is there");
            }
            AssociationState::ShutdownSent => {
                scripted.endpoint.shutdown(now, id).expect("it is there");
            }
            AssociationState::ShutdownReceived => {
                scripted.send(0, b"outstanding");
                scripted.give_shutdown();
            }
            AssociationState::ShutdownAckSent => scripted.give_shutdown(),
            _ => {}
        }
        scripted.take();
        assert_eq!(scripted.state(), state);
        scripted
    }

    /// The association's name.
    pub(crate) fn id(&self) -> AssociationId {
        self.id.expect("there is an association")
    }

    /// Its state; Closed when it is not there.
    pub(crate) fn state(&self) -> AssociationState {
        self.id
            .and_then(|id| self.endpoint.status(id))
            .map_or(AssociationState::Closed, |status| status.state)
    }

    /// A snapshot of it.
    pub(crate) fn status(&self) -> AssociationStatus {
        self.endpoint.status(self.id()).expect("it is there")
    }

    /// Sends a message on a stream.
    pub(crate) fn send(&mut self, stream: u16, payload: &[u8]) {
        let info = SendInfo {
            stream,
            ..SendInfo::default()
        };
        self.endpoint
            .send(self.now, self.id(), info, Bytes::copy_from_slice(payload))
            .expect("there is room");
    }

    /// What can be received.
    pub(crate) fn receive(&mut self) -> Vec<ReceivedMessage> {
        let id = self.id();
        std::iter::from_fn(|| self.endpoint.receive(self.now, id)).collect()
    }

    /// Gives a packet with the right verification tag.
    pub(crate) fn give(&mut self, chunks: &[Chunk<'_>]) {
        self.give_packet(packet(self.tag, chunks));
    }

    /// Gives a packet whose chunks are bytes, with the right verification tag and checksum.
    pub(crate) fn give_raw(&mut self, chunks: &[u8]) {
        self.give_packet(raw(self.tag, chunks));
    }

    /// Gives a packet from where the peer is.
    pub(crate) fn give_packet(&mut self, packet: Bytes) {
        self.give_from(peer(), packet);
    }

    /// Gives a packet from elsewhere.
    pub(crate) fn give_from(&mut self, from: PathAddress, packet: Bytes) {
        self.endpoint.handle_packet(self.now, from, packet);
        self.collect_events();
    }

    /// Gives an INIT ACK with a cookie.
    pub(crate) fn give_init_ack(&mut self, init: Init<'_>) {
        let parameters = cookie_parameter();
        self.give(&[Chunk::InitAck(Init {
            parameters: parameters.parameters(),
            ..init
        })]);
    }

    /// Gives a SHUTDOWN that acknowledges nothing.
    pub(crate) fn give_shutdown(&mut self) {
        self.give(&[Chunk::Shutdown(Shutdown {
            cumulative_tsn_ack: self.tsn.previous(),
        })]);
    }

    /// Gives a SACK: of all chunks before the one with that number, and of these beyond it, by
    /// their numbers, ends included.
    pub(crate) fn give_sack(&mut self, below: u32, beyond: &[(u32, u32)], a_rwnd: u32) {
        let cumulative = (self.tsn + below).previous();
        let gaps: Vec<_> = beyond
            .iter()
            .map(|(first, last)| GapAckBlock {
                start: (first + 1 - below) as u16,
                end: (last + 1 - below) as u16,
            })
            .collect();
        let packet = packet_of(self.tag, |writer| {
            writer
                .sack(cumulative, a_rwnd, 0, gaps.into_iter(), [].into_iter())
                .expect("it fits");
        });
        self.give_packet(packet);
    }

    /// Gives an INIT and takes the cookie out of the INIT ACK.
    pub(crate) fn cookie_for(&mut self, init: Init<'_>) -> Vec<u8> {
        self.give_packet(packet(0, &[Chunk::Init(init)]));
        let packets = self.take();
        let [Chunk::InitAck(answer)] = chunks(packets.first().expect("an answer"))[..] else {
            panic!("an INIT ACK was sent");
        };
        self.tag = answer.initiate_tag;
        self.tsn = answer.initial_tsn;
        answer
            .parameters
            .iter()
            .find_map(|parameter| match parameter {
                Ok(Parameter::StateCookie(cookie)) => Some(cookie.to_vec()),
                _ => None,
            })
            .expect("a cookie")
    }

    /// Gives a COOKIE ECHO with more chunks behind it.
    pub(crate) fn echo(&mut self, cookie: &[u8], more: &[Chunk<'_>]) {
        let mut all = vec![Chunk::CookieEcho(CookieEcho { cookie })];
        all.extend_from_slice(more);
        self.give(&all);
    }

    /// What it wants to send, and where to.
    pub(crate) fn transmits(&mut self) -> Vec<Transmit> {
        let transmits = std::iter::from_fn(|| self.endpoint.poll_transmit(self.now)).collect();
        self.collect_events();
        transmits
    }

    /// What it wants to send.
    pub(crate) fn take(&mut self) -> Vec<Bytes> {
        packets(self.transmits())
    }

    /// Lets time go by, doing what is due; gives what was sent in that time, when, and where to.
    pub(crate) fn watch(&mut self, duration: Duration) -> Vec<(Instant, Transmit)> {
        let end = self.now + duration;
        let mut seen = Vec::new();
        loop {
            let now = self.now;
            seen.extend(self.transmits().into_iter().map(|transmit| (now, transmit)));
            match self.endpoint.next_timeout().filter(|next| *next <= end) {
                Some(next) => self.now = self.now.max(next),
                None => break,
            }
            self.endpoint.handle_timeout(self.now);
        }
        self.now = end;
        seen
    }

    /// The same, without when and where to.
    pub(crate) fn pass(&mut self, duration: Duration) -> Vec<Bytes> {
        let seen = self.watch(duration);
        packets(seen.into_iter().map(|(_, transmit)| transmit))
    }

    /// An association with a peer of several addresses, all of them confirmed. HEARTBEATs to idle
    /// paths are rare.
    pub(crate) fn multi_homed(config: EndpointConfig, addresses: &[PathAddress]) -> Scripted {
        let mut scripted = Scripted::cookie_wait(
            config
                .heartbeats(true)
                .hb_interval(Duration::from_secs(3600)),
        );
        let mut parameters = cookie_parameter();
        for address in addresses {
            push_address(&mut parameters, *address);
        }
        scripted.give(&[Chunk::InitAck(Init {
            parameters: parameters.parameters(),
            ..init()
        })]);
        scripted.give(&[Chunk::CookieAck]);
        for _ in 0..100 {
            scripted.answer_heartbeats(Duration::from_millis(200));
        }
        let is_usable = |path: &sctp::PathStatus| path.state == PathState::Active;
        assert!(scripted.status().paths.iter().all(is_usable));
        scripted
    }

    /// Lets time go by, and answers HEARTBEATs from where they went to; gives all other packets.
    pub(crate) fn answer_heartbeats(&mut self, duration: Duration) -> Vec<Transmit> {
        let mut others = Vec::new();
        for (_, transmit) in self.watch(duration) {
            if !self.answer_heartbeat(&transmit) {
                others.push(transmit);
            }
        }
        others
    }

    /// Answers the HEARTBEATs in a packet from where they went to; tells whether there was one.
    pub(crate) fn answer_heartbeat(&mut self, transmit: &Transmit) -> bool {
        let mut answered = false;
        for chunk in chunks(&transmit.packet) {
            if let Chunk::Heartbeat(heartbeat) = chunk {
                let answer = packet(self.tag, &[Chunk::HeartbeatAck(heartbeat)]);
                self.give_from(transmit.path, answer);
                answered = true;
            }
        }
        answered
    }

    /// The state of the path to an address.
    pub(crate) fn path(&self, address: PathAddress) -> sctp::PathStatus {
        let paths = self.status().paths;
        let mut found = paths
            .into_iter()
            .filter(|path| path.address.remote == address.remote);
        found.next().expect("there is such a path")
    }

    fn collect_events(&mut self) {
        while let Some(event) = self.endpoint.poll_event() {
            if let Event::CommunicationUp { id, .. } = &event {
                self.id = Some(*id);
            }
            self.events.push(event);
        }
    }
}
