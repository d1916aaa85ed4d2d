//! Two SCTP engines with an association between them, while somebody who knows the verification
//! tags puts arbitrary chunks between their packets: nothing may panic, run without end, answer
//! with floods, or hold more than its configuration allows.
#![no_main]

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::SeedableRng;
use sctp::packet::{CommonHeader, Packet, checksum};
use sctp::{AssociationId, Endpoint, EndpointConfig, Event, PathAddress, SendInfo, Transmit};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

const PORTS: [u16; 2] = [40_000, 5060];
const A_RWND: u32 = 20_000;
const SEND_BUFFER: usize = 20_000;

/// Packets in answer to one input, of a sender whose window is open as far as it goes.
const MOST_PACKETS_AT_ONCE: usize = 1000;

/// Packets that wait on one direction of the link; what comes beyond them is lost.
const LINK_CAPACITY: usize = 64;

fuzz_target!(|input: &[u8]| {
    let mut pair = Pair::new();
    pair.connect();
    let mut input = Input(input);
    while let Some(action) = input.byte() {
        let side = usize::from(action & 1);
        match action >> 1 & 7 {
            0 | 1 => pair.inject(side, &mut input),
            2 | 3 => pair.deliver(side, usize::from(action >> 4)),
            4 => pair.pass(input.byte().unwrap_or_default()),
            5 => pair.send(side, &mut input),
            6 => pair.receive(side),
            _ if action >> 4 == 0 => pair.shut_down(side),
            _ => pair.lose(side),
        }
        pair.settle();
    }
});

/// The fuzzer's bytes, taken off the front.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// As many bytes as the next byte says, or as there are.
    fn bytes(&mut self) -> &'a [u8] {
        let wanted = usize::from(self.byte().unwrap_or_default());
        let (taken, rest) = self.0.split_at(wanted.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

struct Side {
    endpoint: Endpoint,
    association: Option<AssociationId>,
    /// Packets on their way to this side.
    arriving: VecDeque<Bytes>,
    /// The tag of the last packet to this side.
    tag: u32,
}

struct Pair {
    now: Instant,
    sides: [Side; 2],
}

impl Pair {
    fn new() -> Pair {
        let config = EndpointConfig {
            a_rwnd: A_RWND,
            send_buffer: SEND_BUFFER,
            max_message_size: 5000,
            max_associations: 4,
            ..EndpointConfig::default()
        };
        Pair {
            now: Instant::now(),
            sides: PORTS.map(|port| Side {
                endpoint: Endpoint::new(
                    port,
                    config.clone(),
                    ChaCha12Rng::seed_from_u64(port.into()),
                ),
                association: None,
                arriving: VecDeque::new(),
                tag: 0,
            }),
        }
    }

    /// Most inputs should begin with an association.
    fn connect(&mut self) {
        let client = &mut self.sides[0];
        let id = client.endpoint.connect(self.now, path(0), PORTS[1]);
        client.association = Some(id.expect("the first association"));
        self.settle();
        for side in [1, 0, 1, 0] {
            self.deliver(side, 0);
            self.settle();
        }
    }

    /// Chunks from nowhere arrive, with everything around them right.
    fn inject(&mut self, side: usize, input: &mut Input<'_>) {
        let chunks = input.bytes();
        // An INIT has no tag.
        let tag = if chunks.first() == Some(&1) {
            0
        } else {
            self.sides[side].tag
        };
        let mut packet = BytesMut::with_capacity(CommonHeader::LENGTH + chunks.len());
        packet.extend_from_slice(&PORTS[1 - side].to_be_bytes());
        packet.extend_from_slice(&PORTS[side].to_be_bytes());
        packet.extend_from_slice(&tag.to_be_bytes());
        packet.extend_from_slice(&[0; 4]);
        packet.extend_from_slice(chunks);
        checksum::fill(&mut packet);
        self.arrive(side, packet.freeze());
    }

    /// A packet that is on its way arrives.
    fn deliver(&mut self, side: usize, which: usize) {
        let arriving = &mut self.sides[side].arriving;
        if let Some(packet) = arriving.remove(which.min(arriving.len().saturating_sub(1))) {
            self.arrive(side, packet);
        }
    }

    fn arrive(&mut self, side: usize, packet: Bytes) {
        let endpoint = &mut self.sides[side].endpoint;
        endpoint.handle_packet(self.now, path(side), packet);
    }

    /// A packet that is on its way is lost.
    fn lose(&mut self, side: usize) {
        self.sides[side].arriving.pop_front();
    }

    /// Time passes, from a millisecond to a minute.
    fn pass(&mut self, steps: u8) {
        self.now += Duration::from_millis(u64::from(steps).pow(2));
        for side in &mut self.sides {
            side.endpoint.handle_timeout(self.now);
            let next = side.endpoint.next_timeout();
            assert!(
                next.is_none_or(|next| next > self.now),
                "what was due is done"
            );
        }
    }

    fn send(&mut self, side: usize, input: &mut Input<'_>) {
        let [stream, copies] = [input.byte(), input.byte()].map(Option::unwrap_or_default);
        let info = SendInfo {
            stream: u16::from(stream & 0x0f),
            unordered: stream & 0x80 != 0,
            ..SendInfo::default()
        };
        let side = &mut self.sides[side];
        if let Some(id) = side.association {
            let payload = vec![stream; usize::from(copies) * 20].into();
            let _ = side.endpoint.send(self.now, id, info, payload);
        }
    }

    fn receive(&mut self, side: usize) {
        let side = &mut self.sides[side];
        if let Some(id) = side.association {
            let _ = side.endpoint.receive(self.now, id);
        }
    }

    fn shut_down(&mut self, side: usize) {
        let side = &mut self.sides[side];
        if let Some(id) = side.association {
            let _ = side.endpoint.shutdown(self.now, id);
        }
    }

    /// Takes out of the engines what they have to say, and looks at their bounds.
    fn settle(&mut self) {
        for from in [0, 1] {
            let mut sent = Vec::new();
            let side = &mut self.sides[from];
            while let Some(Transmit {
                path: to, packet, ..
            }) = side.endpoint.poll_transmit(self.now)
            {
                assert_eq!(to, path(from));
                sent.push(packet);
                assert!(sent.len() <= MOST_PACKETS_AT_ONCE, "a flood");
            }
            while let Some(event) = side.endpoint.poll_event() {
                if let Event::CommunicationUp { id, .. } = event {
                    side.association = Some(id);
                }
            }
            side.look_at_bounds();
            for packet in sent {
                let header = Packet::read(&packet).expect("a packet").header();
                let other = &mut self.sides[1 - from];
                if header.verification_tag != 0 {
                    other.tag = header.verification_tag;
                }
                if other.arriving.len() < LINK_CAPACITY {
                    other.arriving.push_back(packet);
                }
            }
        }
    }
}

impl Side {
    fn look_at_bounds(&self) {
        assert!(self.endpoint.association_count() <= 4);
        let status = self.association.and_then(|id| self.endpoint.status(id));
        if let Some(status) = status {
            assert!(status.send_buffer_bytes <= SEND_BUFFER);
            // What fills a gap is taken in although the window is closed, to twice its size.
            assert!(status.receive_buffer_bytes <= 2 * A_RWND as usize + 1500);
        }
    }
}

/// The path to the other side.
fn path(side: usize) -> PathAddress {
    let address = |side: usize| IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1 + side as u8));
    PathAddress {
        local: Some(address(side)),
        remote: address(1 - side),
        encapsulation_port: None,
    }
}
