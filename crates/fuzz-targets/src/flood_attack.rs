//! Hands an attacker whatever a target may answer, and what an engine of ours answers with bits turned:
//! it sends nothing but what it counts, whole SCTP packets to the port that it attacks.

use std::net::Ipv4Addr;
use std::time::Instant;

use bytes::Bytes;
use flood::{Attack, Attempt, Counts, Kind};
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::SeedableRng;
use sctp::packet::Packet;
use sctp::{Endpoint, EndpointConfig, PathAddress};

const PORT: u16 = 5060;
const SOURCES: usize = 4;

/// Feeds the target an input.
pub fn run(input: &[u8]) {
    let Some((&choice, mut input)) = input.split_first() else {
        return;
    };
    let kind = [Kind::Init, Kind::Cookie, Kind::Replay][usize::from(choice % 3)];
    let rng = ChaCha12Rng::seed_from_u64;
    let mut attack = Attack::new(kind, PORT, SOURCES, rng(1));
    let mut target = Endpoint::new(PORT, EndpointConfig::default(), rng(2).get_seed());
    let now = Instant::now();
    let mut sent = 0;
    // The last packet of the target.
    let mut answer = Bytes::new();
    while let Some(([what, length], rest)) = input.split_first_chunk::<2>() {
        let (octets, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        input = rest;
        let came_to = usize::from(what >> 4);
        let is_next = what % 4 == 0;
        let attempt = match what % 4 {
            0 => attack.next_attempt(),
            // What the target says, with bits turned where there are octets.
            1 | 2 => {
                let mut packet = answer.to_vec();
                for place in octets {
                    if let Some(octet) = packet.get_mut(usize::from(*place)) {
                        *octet ^= place.rotate_left(3);
                    }
                }
                attack.handle_packet(came_to, &packet)
            }
            _ => attack.handle_packet(came_to, octets),
        };
        let Some(Attempt { source, packet }) = attempt else {
            continue;
        };
        sent += 1;
        if !is_next {
            assert_eq!(source, came_to, "answered from another address");
        } else if kind != Kind::Replay {
            assert!(source < SOURCES, "an address that is none of ours");
        }
        let read = Packet::read(&packet).expect("a whole packet");
        assert_eq!(read.header().destination_port, PORT);
        assert_eq!(read.chunks().filter_map(Result::ok).count(), 1);
        let from = PathAddress {
            local: None,
            remote: Ipv4Addr::from_bits(0x0a00_0001 + source as u32).into(),
            encapsulation_port: None,
        };
        target.handle_packet(now, from, packet);
        while let Some(transmit) = target.poll_transmit(now) {
            answer = transmit.packet;
        }
        while target.poll_event().is_some() {}
    }
    let Counts {
        inits,
        cookies,
        replayed,
        altered,
        moved,
        endings,
        ..
    } = *attack.counts();
    assert_eq!(sent, inits + cookies + replayed + altered + moved + endings);
}
