//! A peer that sends FORWARD-TSNs and DATA, or I-FORWARD-TSNs and I-DATA, as it pleases: what is held stays bounded, and every byte that
//! is held comes out or is given back.

use bytes::Bytes;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sctp::AssociationState;
use sctp::packet::{Chunk, Data, Fragment, IData, Mid, SkippedMid, SkippedSsn, Ssn, Tsn};

use super::{accepted, config, interleaved};
use crate::rfc9260::scripted::{PEER_TSN, Scripted, packet_of};

/// Some FORWARD-TSN, near `base` mostly.
fn forward_tsn(peer: &Scripted, base: u32, rng: &mut ChaCha12Rng) -> Bytes {
    let point = if rng.random_bool(0.05) {
        rng.next_u32()
    } else {
        (base + rng.random_range(0..30)).saturating_sub(10)
    };
    let is_wild = rng.random_bool(0.005);
    let skipped: Vec<SkippedSsn> = (0..rng.random_range(0..20))
        .map(|_| SkippedSsn {
            stream: rng.random_range(0..12),
            ssn: Ssn(if is_wild {
                rng.next_u32() as u16
            } else {
                (base / 4).saturating_sub(rng.random_range(3..9)) as u16
            }),
        })
        .collect();
    skip(peer, PEER_TSN + point, &skipped)
}

/// A FORWARD-TSN, or, where messages are interleaved, an I-FORWARD-TSN for messages of both kinds.
fn skip(peer: &Scripted, point: Tsn, skipped: &[SkippedSsn]) -> Bytes {
    let both = |skipped: &SkippedSsn| {
        [false, true].map(|unordered| SkippedMid {
            stream: skipped.stream,
            unordered,
            mid: Mid(skipped.ssn.0.into()),
        })
    };
    packet_of(peer.tag, |writer| {
        let written = if peer.status().extensions.interleaving {
            let all: Vec<SkippedMid> = skipped.iter().flat_map(both).collect();
            writer.i_forward_tsn(point, all.into_iter())
        } else {
            writer.forward_tsn(point, skipped.iter().copied())
        };
        written.expect("it fits");
    })
}

/// Some DATA chunk; its bits go together with those of its neighbours, mostly.
fn data(peer: &mut Scripted, base: u32, rng: &mut ChaCha12Rng) {
    let number = (base + rng.random_range(0..60)).saturating_sub(5);
    let message = number / 4;
    let (beginning, ending) = if message.is_multiple_of(3) {
        (true, true)
    } else {
        (number.is_multiple_of(4), number % 4 == 3)
    };
    let user_data = vec![number as u8; rng.random_range(1..300)];
    let chaos = rng.random_bool(0.0005);
    let beginning = beginning ^ chaos;
    let unordered = message.is_multiple_of(3) || message.is_multiple_of(5);
    let (tsn, stream) = (PEER_TSN + number, (message % 7) as u16);
    let chunk = if peer.status().extensions.interleaving {
        let is_whole = beginning && ending;
        Chunk::IData(IData {
            immediate: false,
            unordered,
            ending,
            tsn,
            stream,
            mid: Mid(if is_whole { number } else { message }),
            fragment: if beginning {
                Fragment::First { ppid: 0 }
            } else {
                Fragment::Later { fsn: number % 4 }
            },
            user_data: &user_data,
        })
    } else {
        Chunk::Data(Data {
            beginning,
            ending,
            unordered,
            tsn,
            stream,
            ssn: Ssn(message as u16),
            user_data: &user_data,
            ..Data::default()
        })
    };
    peer.give(&[chunk]);
}

/// Tells whether the association was still up in the end.
fn play(seed: u64) -> bool {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let a_rwnd = 6000;
    let config = config()
        .a_rwnd(a_rwnd)
        .max_received_messages(40)
        .partial_delivery_point(if rng.random_bool(0.5) {
            500
        } else {
            usize::MAX
        })
        .fragment_interleave(rng.random_bool(0.5));
    let mut peer = if seed.is_multiple_of(2) {
        accepted(config)
    } else {
        interleaved::accepted(config.extensions("pr,idata".parse().expect("their names")))
    };
    let mut base = 0;
    for _ in 0..400 {
        if rng.random_bool(0.2) {
            let packet = forward_tsn(&peer, base, &mut rng);
            peer.give_packet(packet);
        } else {
            data(&mut peer, base, &mut rng);
        }
        peer.take();
        base += u32::from(rng.random_bool(0.3));
        if peer.state() == AssociationState::Closed {
            break;
        }
        let status = peer.status();
        assert!(status.receive_buffer_bytes <= 2 * a_rwnd as usize + 300);
        assert!(status.pending_receipt <= 40 + 60);
        if rng.random_bool(0.1) {
            peer.receive();
        }
    }
    peer.receive();
    if peer.state() == AssociationState::Closed {
        return false;
    }
    // All that is left is skipped, whatever number comes next.
    for step in 1..7_u16 {
        let all: Vec<SkippedSsn> = (0..10)
            .map(|stream| SkippedSsn {
                stream,
                ssn: Ssn(step.wrapping_mul(20_000)),
            })
            .collect();
        let packet = skip(&peer, PEER_TSN + (base + 200 * u32::from(step)), &all);
        peer.give_packet(packet);
        peer.receive();
    }
    let status = peer.status();
    assert_eq!(status.receive_buffer_bytes, 0);
    assert_eq!(status.pending_receipt, 0);
    true
}

#[test]
fn whatever_is_skipped_nothing_is_kept_for_ever() {
    let mut survivors = 0;
    for seed in 0..400 {
        println!("seed {seed}");
        survivors += u32::from(play(seed));
    }
    assert!(survivors > 30, "{survivors}");
}
