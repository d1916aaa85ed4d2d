//! An engine, its user, and what one on the wire learns from its packets.

use bytes::Bytes;
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sctp::packet::{Chunk, Packet, Parameter};
use sctp::{AssociationId, Endpoint, EndpointConfig, Event, Transmit};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

/// Bounds that a game can reach.
pub(crate) const A_RWND: u32 = 20_000;
const SEND_BUFFER: usize = 20_000;
const MAX_ASSOCIATIONS: usize = 4;
const MAX_PEER_ADDRESSES: usize = 4;
const MAX_PENDING_REPLIES: usize = 16;

/// Packets in answer to one input, of a sender whose window is open as far as it goes.
const MOST_PACKETS_AT_ONCE: usize = 1000;

/// What is kept of what was seen on the wire.
const MOST_REMEMBERED: usize = 8;

/// The settings of all games.
pub(crate) fn config() -> EndpointConfig {
    EndpointConfig::default()
        .a_rwnd(A_RWND)
        .send_buffer(SEND_BUFFER)
        .max_message_size(5000)
        .max_received_messages(200)
        .max_gap_ack_blocks(20)
        .max_associations(MAX_ASSOCIATIONS)
        .max_peer_addresses(MAX_PEER_ADDRESSES)
        .max_pending_replies(MAX_PENDING_REPLIES)
        .max_remembered_tags(8)
}

/// An endpoint with an ear on what it sends and says.
pub(crate) struct Engine {
    pub(crate) endpoint: Endpoint,
    /// The association that its user means.
    pub(crate) association: Option<AssociationId>,
    pub(crate) numbers: Numbers,
}

/// What one on the wire knows of an engine.
#[derive(Default)]
pub(crate) struct Numbers {
    /// The verification tag of packets to it; 0 before it has told any.
    pub(crate) tag: u32,
    /// The first TSN that it misses.
    pub(crate) expected_tsn: u32,
    /// The last TSN that it sent.
    pub(crate) last_tsn_sent: u32,
    /// The values of its last HEARTBEATs.
    pub(crate) heartbeats: Vec<Bytes>,
    /// The cookies that it gave out last.
    pub(crate) cookies: Vec<Bytes>,
}

impl Engine {
    pub(crate) fn new(port: u16, config: EndpointConfig, addresses: Vec<IpAddr>) -> Engine {
        let seed = ChaCha12Rng::seed_from_u64(port.into()).get_seed();
        let mut endpoint = Endpoint::new(port, config, seed);
        endpoint.set_local_addresses(addresses);
        Engine {
            endpoint,
            association: None,
            numbers: Numbers::default(),
        }
    }

    /// Takes out what the engine has to send and to say, and looks at both and at its bounds.
    pub(crate) fn drain(&mut self, now: Instant) -> Vec<Transmit> {
        let mut sent = Vec::new();
        while let Some(transmit) = self.endpoint.poll_transmit(now) {
            let config = &self.endpoint.config().association;
            let may_lack_checksum = config.alternate_error_detection.is_some();
            self.numbers.learn(&transmit.packet, may_lack_checksum);
            sent.push(transmit);
            assert!(sent.len() <= MOST_PACKETS_AT_ONCE, "a flood");
        }
        let mut events = 0;
        while let Some(event) = self.endpoint.poll_event() {
            if let Event::CommunicationUp { id, .. } = event {
                self.association = Some(id);
            }
            events += 1;
            assert!(events <= MOST_PACKETS_AT_ONCE, "a flood of events");
        }
        self.look_at_bounds();
        sent
    }

    /// Lets what is due happen, as often as it wants to.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        for _ in 0..10 {
            self.endpoint.handle_timeout(now);
            if self.endpoint.next_timeout().is_none_or(|next| next > now) {
                return;
            }
        }
        panic!("what was due is not done");
    }

    /// Ends everything, and nothing may be left.
    pub(crate) fn end(&mut self, now: Instant, ids: impl IntoIterator<Item = AssociationId>) {
        for id in ids {
            // It may have ended long ago.
            let _ = self.endpoint.abort(now, id, b"");
        }
        self.drain(now);
    }

    fn look_at_bounds(&self) {
        assert!(self.endpoint.association_count() <= MAX_ASSOCIATIONS);
        if let Some(status) = self.association.and_then(|id| self.endpoint.status(id)) {
            assert!(status.send_buffer_bytes <= SEND_BUFFER);
            // What fills a gap is taken in although the window is closed, to twice its size.
            assert!(status.receive_buffer_bytes <= 2 * A_RWND as usize + 1500);
            assert!(
                status.paths.len() <= MAX_PEER_ADDRESSES,
                "{}",
                status.paths.len()
            );
            let outstanding: usize = status.paths.iter().map(|path| path.outstanding_bytes).sum();
            assert_eq!(outstanding, status.outstanding_bytes, "on its paths");
            assert!(status.paths.iter().all(|path| path.cwnd > 0));
        }
    }
}

impl Numbers {
    /// Looks at a packet of the engine, which must be sound. It may be one without a checksum (RFC 9653) where the
    /// engine offers that.
    fn learn(&mut self, packet: &[u8], may_lack_checksum: bool) {
        let lacks_checksum = may_lack_checksum && packet.get(8..12) == Some(&[0; 4]);
        let packet = Packet::read(packet).expect("a common header");
        match lacks_checksum {
            true => packet.check_without_checksum(),
            false => packet.check(),
        }
        .expect("a sound packet");
        for chunk in packet.chunks() {
            match chunk.expect("a sound chunk") {
                Chunk::Init(init) => {
                    self.tag = init.initiate_tag;
                    self.last_tsn_sent = init.initial_tsn.0.wrapping_sub(1);
                }
                Chunk::InitAck(init) => {
                    self.tag = init.initiate_tag;
                    self.last_tsn_sent = init.initial_tsn.0.wrapping_sub(1);
                    let parameters = init
                        .parameters
                        .iter()
                        .map(|parameter| parameter.expect("a sound parameter"));
                    for parameter in parameters {
                        if let Parameter::StateCookie(cookie) = parameter {
                            remember(&mut self.cookies, cookie);
                        }
                    }
                }
                Chunk::Data(data) => self.last_tsn_sent = data.tsn.0,
                Chunk::Sack(sack) => self.expected_tsn = sack.cumulative_tsn_ack.0.wrapping_add(1),
                Chunk::Heartbeat(heartbeat) => {
                    remember(&mut self.heartbeats, heartbeat.parameters.as_bytes());
                }
                _ => {}
            }
        }
    }
}

/// The address of a host, counted from 0, on one of two networks.
pub(crate) fn address(network: u8, host: u8) -> IpAddr {
    Ipv4Addr::new(10, network & 1, 0, 1 + host).into()
}

fn remember(list: &mut Vec<Bytes>, value: &[u8]) {
    if list.len() >= MOST_REMEMBERED {
        list.remove(0);
    }
    list.push(Bytes::copy_from_slice(value));
}
