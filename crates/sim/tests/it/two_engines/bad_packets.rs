//! Packets that are thrown into a live association: each is dropped and counted under its reason,
//! is not answered, and leaves the association as it was.

use crate::two_engines::host::{Close, EngineHost, Message, Plan};
use crate::two_engines::scenario::{CLIENT, CLIENT_PORT, SERVER, SERVER_PORT};
use bytes::{Bytes, BytesMut};
use link::{Link, LinkConfig};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sctp::packet::{Chunk, Data, Packet, PacketWriter, checksum};
use sctp::{AssociationState, DropStatistics, Endpoint, EndpointConfig, SendInfo};
use sim::{Datagram, Host, HostId, Simulation, Stop};
use std::time::{Duration, Instant};

/// Lest the others be dropped for another reason than theirs.
#[test]
fn the_packet_is_sound_when_nothing_is_spoiled() {
    let mut live = Live::new();
    let packet = live.data_packet();
    live.arrive(packet);
    let received = live.simulation.host(live.server).received();
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].payload, FORGED);
}

#[test]
fn wrong_verification_tag() {
    for wrong in [1, u32::MAX, 0x1234_5678] {
        let mut live = Live::new();
        let tag = live.server_tag().wrapping_add(wrong);
        let packet = with_tag(live.data_packet(), tag);
        live.assert_dropped(packet, |drops| drops.verification_tag);
    }
}

#[test]
fn verification_tag_zero() {
    let mut live = Live::new();
    let packet = with_tag(live.data_packet(), 0);
    live.assert_dropped(packet, |drops| drops.verification_tag);
}

#[test]
fn wrong_checksum() {
    let mut live = Live::new();
    let mut packet = live.data_packet();
    packet[10] ^= 1;
    live.assert_dropped(packet, |drops| drops.checksum);
}

#[test]
fn one_wrong_bit_in_user_data() {
    let mut live = Live::new();
    let mut packet = live.data_packet();
    *packet.last_mut().unwrap() ^= 0x80;
    live.assert_dropped(packet, |drops| drops.checksum);
}

#[test]
fn chunk_of_length_zero() {
    let mut live = Live::new();
    let mut packet = live.data_packet();
    packet[14..16].fill(0);
    checksum::fill(&mut packet);
    live.assert_dropped(packet, |drops| drops.malformed);
}

/// What comes before the broken chunk is not taken in either.
#[test]
fn chunk_of_length_zero_after_a_sound_one() {
    let mut live = Live::new();
    let mut packet = live.data_packet();
    packet.extend_from_slice(&[0, 3, 0, 0]);
    checksum::fill(&mut packet);
    live.assert_dropped(packet, |drops| drops.malformed);
}

#[test]
fn chunk_past_the_end() {
    let mut live = Live::new();
    let mut packet = live.data_packet();
    packet[14..16].fill(0xff);
    checksum::fill(&mut packet);
    live.assert_dropped(packet, |drops| drops.malformed);
}

#[test]
fn no_chunk() {
    let mut live = Live::new();
    let mut packet = live.data_packet();
    packet.truncate(12);
    checksum::fill(&mut packet);
    live.assert_dropped(packet, |drops| drops.malformed);
}

#[test]
fn less_than_a_common_header() {
    for length in 0..12 {
        let mut live = Live::new();
        let mut packet = live.data_packet();
        packet.truncate(length);
        live.assert_dropped(packet, |drops| drops.malformed);
    }
}

#[test]
fn noise() {
    let noise = (0..200_u8).map(|n| n.wrapping_mul(151) ^ 0x5a).collect();
    Live::new().assert_dropped(noise, |drops| drops.checksum);
}

#[test]
fn port_of_nobody() {
    let mut live = Live::new();
    let mut packet = live.data_packet();
    packet[2..4].copy_from_slice(&(SERVER_PORT + 1).to_be_bytes());
    checksum::fill(&mut packet);
    live.assert_dropped(packet, |drops| drops.port);
}

/// Two hosts with an association between them that nothing happens on.
struct Live {
    simulation: Simulation<EngineHost>,
    client: HostId,
    server: HostId,
}

impl Live {
    fn new() -> Live {
        let mut simulation = Simulation::new(Instant::now());
        simulation.record();
        let link = |stream| {
            let mut rng = ChaCha12Rng::seed_from_u64(1);
            rng.set_stream(stream);
            let config = LinkConfig {
                delay: Duration::from_millis(10),
                ..LinkConfig::default()
            };
            Link::new(config, rng)
        };
        simulation.connect(CLIENT, SERVER, link(0));
        simulation.connect(SERVER, CLIENT, link(1));
        let [client, server] =
            [(CLIENT, CLIENT_PORT), (SERVER, SERVER_PORT)].map(|(address, port)| {
                let seed = ChaCha12Rng::seed_from_u64(port.into()).get_seed();
                let endpoint = Endpoint::new(port, EndpointConfig::default(), seed);
                let plan = Plan {
                    messages: Vec::new(),
                    expected: 0,
                    close: Close::Never,
                    reading_interval: None,
                };
                simulation.add_host(EngineHost::new(address, endpoint, plan), &[address])
            });
        let now = simulation.now();
        simulation
            .host_mut(client)
            .connect(now, SERVER, SERVER_PORT);
        let mut live = Live {
            simulation,
            client,
            server,
        };
        live.run_for_a_second();
        live
    }

    /// Lets a packet arrive at the server, as if from the client.
    #[track_caller]
    fn assert_dropped(&mut self, packet: Vec<u8>, counter: impl Fn(&DropStatistics) -> u64) {
        let drops = |live: &Live| {
            live.simulation
                .host(live.server)
                .endpoint()
                .statistics()
                .drops
        };
        let before = drops(self);
        let sent_before = self.simulation.trace().len();

        self.arrive(packet);
        self.run_for_a_second();

        let after = drops(self);
        assert_eq!(counter(&after), counter(&before) + 1, "{after:?}");
        assert_eq!(self.simulation.trace().len(), sent_before, "answered");
        self.assert_alive();
    }

    fn arrive(&mut self, packet: Vec<u8>) {
        let now = self.simulation.now();
        let datagram = Datagram {
            source: CLIENT,
            destination: SERVER,
            bytes: packet.len(),
            may_fragment: false,
            payload: packet.into(),
        };
        self.simulation
            .host_mut(self.server)
            .handle_datagram(now, datagram);
    }

    /// The association that there was still carries messages in both directions.
    #[track_caller]
    fn assert_alive(&mut self) {
        for (from, to) in [(self.client, self.server), (self.server, self.client)] {
            let payload = Bytes::from_static(b"still here");
            let now = self.simulation.now();
            let message = Message {
                info: SendInfo::default(),
                payload: payload.clone(),
            };
            self.simulation.host_mut(from).send(now, message);
            self.run_for_a_second();
            let received = self.simulation.host(to).received();
            assert_eq!(received.len(), 1);
            assert_eq!(received[0].payload, payload);
        }
        for id in [self.client, self.server] {
            let host = self.simulation.host(id);
            let status = host.association().and_then(|id| host.endpoint().status(id));
            assert_eq!(status.unwrap().state, AssociationState::Established);
            assert_eq!(host.events().len(), 1, "{:?}", host.events());
        }
    }

    #[track_caller]
    fn run_for_a_second(&mut self) {
        let until = self.simulation.now() + Duration::from_secs(1);
        assert_eq!(self.simulation.run(until, |_| false), Ok(Stop::TimeUp));
    }

    /// The verification tag of packets to the server.
    fn server_tag(&self) -> u32 {
        let last = self.packets_to_server().next_back();
        last.expect("an association").header().verification_tag
    }

    /// A packet from the client to the server as the client would send it next: with one message.
    fn data_packet(&self) -> Vec<u8> {
        let mut first_chunks = self
            .packets_to_server()
            .filter_map(|packet| packet.chunks().next()?.ok());
        let Some(Chunk::Init(init)) = first_chunks.next() else {
            panic!("no INIT");
        };
        let mut buffer = BytesMut::new();
        let tag = self.server_tag();
        let mut writer = PacketWriter::new(&mut buffer, CLIENT_PORT, SERVER_PORT, tag, 1000);
        let data = Data {
            beginning: true,
            ending: true,
            tsn: init.initial_tsn,
            user_data: FORGED,
            ..Data::default()
        };
        writer.data(&data).expect("it fits");
        writer.finish().to_vec()
    }

    fn packets_to_server(&self) -> impl DoubleEndedIterator<Item = Packet<'_>> {
        let sent = self.simulation.trace().iter();
        sent.filter(|sent| sent.datagram.destination == SERVER)
            .map(|sent| Packet::read(&sent.datagram.payload).expect("a packet"))
    }
}

fn with_tag(mut packet: Vec<u8>, verification_tag: u32) -> Vec<u8> {
    packet[4..8].copy_from_slice(&verification_tag.to_be_bytes());
    checksum::fill(&mut packet);
    packet
}

const FORGED: &[u8] = b"what nobody sent";
