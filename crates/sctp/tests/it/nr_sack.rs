//! NR-SACK (draft-natarajan-tsvwg-sctp-nrsack): what `docs/extensions.md` names as tests, with a
//! peer whose packets the test writes.

use std::time::Duration;

use bytes::Bytes;
use sctp::packet::{
    Chunk, ChunkType, ChunkTypeList, Data, GapAckBlock, Init, NrSack, Parameter, ParameterBuffer,
    ReConfig, SequenceNumber, Ssn,
};
use sctp::{EndpointConfig, Event, ReConfigurationPolicy, SendInfo};

use crate::common::{Pair, message as payload, ordered, transfer};
use crate::rfc9260::scripted::{
    self, PEER_TSN, Scripted, chunks, data_in, message, packet_of, quiet, types,
};

const NR_SACK: u8 = 16;
const RE_CONFIG: u8 = 130;

fn config() -> EndpointConfig {
    quiet().extensions("nrsack".parse().expect("its name"))
}

/// An association with a peer that has the extension.
fn accepted(config: EndpointConfig) -> Scripted {
    accepted_with(config, &[NR_SACK])
}

/// An association with a peer that knows these chunks.
fn accepted_with(config: EndpointConfig, types: &[u8]) -> Scripted {
    let mut parameters = ParameterBuffer::new();
    parameters
        .push(&Parameter::SupportedExtensions(ChunkTypeList::new(types)))
        .expect("it is short");
    Scripted::accepted_with(
        config,
        Init {
            parameters: parameters.parameters(),
            ..scripted::init()
        },
    )
}

/// What an NR-SACK says: how many of the peer's TSNs it acknowledges, and the blocks of both kinds.
type Told = (u32, Vec<(u16, u16)>, Vec<(u16, u16)>);

/// The only NR-SACK in packets.
fn nr_sack_in(packets: &[Bytes]) -> Told {
    let mut found = packets
        .iter()
        .flat_map(chunks)
        .filter_map(|chunk| match chunk {
            Chunk::NrSack(nr_sack) => Some(nr_sack),
            Chunk::Sack(_) => panic!("a SACK"),
            _ => None,
        });
    let NrSack {
        cumulative_tsn_ack,
        gap_ack_blocks,
        nr_gap_ack_blocks,
        ..
    } = found.next().expect("an NR-SACK");
    assert!(found.next().is_none());
    let ends = |block: GapAckBlock| (block.start, block.end);
    (
        cumulative_tsn_ack.next().distance_from(PEER_TSN),
        gap_ack_blocks.iter().map(ends).collect(),
        nr_gap_ack_blocks.iter().map(ends).collect(),
    )
}

/// Gives an NR-SACK: of the chunks before number `below`, and of these beyond it by their offsets.
fn give_nr_sack(peer: &mut Scripted, below: u32, gaps: &[(u16, u16)], kept: &[(u16, u16)]) {
    let blocks = |ends: &[(u16, u16)]| -> Vec<GapAckBlock> {
        ends.iter()
            .map(|&(start, end)| GapAckBlock { start, end })
            .collect()
    };
    let cumulative = (peer.tsn + below).previous();
    let packet = packet_of(peer.tag, |writer| {
        let (gaps, kept) = (blocks(gaps), blocks(kept));
        writer
            .nr_sack(
                cumulative,
                100_000,
                0,
                gaps.into_iter(),
                kept.into_iter(),
                [].into_iter(),
            )
            .expect("it fits");
    });
    peer.give_packet(packet);
}

/// Gives the peer's chunk with that number.
fn give<'a>(peer: &mut Scripted, number: u32, change: impl FnOnce(&mut Data<'a>)) {
    let mut data = message(number, b"some data");
    change(&mut data);
    peer.give(&[Chunk::Data(data)]);
}

#[test]
fn what_was_delivered_is_told_as_kept() {
    let mut peer = accepted(config());
    give(&mut peer, 0, |_| {});
    assert_eq!(nr_sack_in(&peer.take()), (1, vec![], vec![]));
    // Number 1 is missing. 2 waits for it; 3 is unordered; 4 is on another stream, and so is 5; 6 and 7 are
    // fragments.
    give(&mut peer, 2, |data| data.ssn = Ssn(2));
    assert_eq!(nr_sack_in(&peer.take()), (1, vec![(2, 2)], vec![]));
    give(&mut peer, 3, |data| data.unordered = true);
    assert_eq!(nr_sack_in(&peer.take()), (1, vec![(2, 2)], vec![(3, 3)]));
    for (number, ssn) in [(4, 0), (5, 1)] {
        give(&mut peer, number, |data| {
            data.stream = 1;
            data.ssn = Ssn(ssn);
        });
    }
    for number in [6, 7] {
        give(&mut peer, number, |data| {
            data.stream = 2;
            data.ssn = Ssn(0);
            data.beginning = number == 6;
            data.ending = false;
        });
    }
    let told = nr_sack_in(&peer.take());
    assert_eq!(told, (1, vec![(2, 2), (6, 7)], vec![(3, 5)]));
    give(&mut peer, 1, |data| data.ssn = Ssn(1));
    assert_eq!(nr_sack_in(&peer.take()), (8, vec![], vec![]));
}

#[test]
fn what_had_to_wait_is_told_as_kept_when_its_turn_comes() {
    let mut peer = accepted(config());
    // Numbers 0 and 3 are missing; 2 waits for 1 on its stream.
    for (number, ssn) in [(2, 1), (4, 2)] {
        give(&mut peer, number, |data| data.ssn = Ssn(ssn));
    }
    let told = nr_sack_in(&peer.take());
    assert_eq!(told, (0, vec![(3, 3), (5, 5)], vec![]));
    give(&mut peer, 1, |data| data.ssn = Ssn(0));
    let told = nr_sack_in(&peer.take());
    assert_eq!(told, (0, vec![], vec![(2, 3), (5, 5)]));
    // A message of two chunks that is whole.
    for number in [7, 8] {
        give(&mut peer, number, |data| {
            data.ssn = Ssn(3);
            data.beginning = number == 7;
            data.ending = number == 8;
        });
    }
    let told = nr_sack_in(&peer.take());
    assert_eq!(told, (0, vec![], vec![(2, 3), (5, 5), (8, 9)]));
}

#[test]
fn what_is_thrown_away_is_told_as_kept() {
    let mut peer = accepted(config());
    give(&mut peer, 1, |data| data.stream = 999);
    assert_eq!(nr_sack_in(&peer.take()), (0, vec![], vec![(2, 2)]));
}

#[test]
fn the_send_buffer_is_freed_at_once() {
    let mut peer = accepted(config().send_buffer(4000));
    for stream in 0..4 {
        peer.send(stream, &[7; 1000]);
    }
    peer.take();
    let (now, id) = (peer.now, peer.id());
    let more = |peer: &mut Scripted| {
        peer.endpoint
            .send(now, id, SendInfo::default(), vec![8; 1000].into())
    };
    assert!(more(&mut peer).is_err());
    give_nr_sack(&mut peer, 0, &[(2, 2)], &[(3, 4)]);
    let status = peer.status();
    assert_eq!(status.send_buffer_bytes, 2000);
    assert_eq!(status.unacknowledged_chunks, 4);
    give_nr_sack(&mut peer, 0, &[], &[(2, 4)]);
    assert_eq!(peer.status().send_buffer_bytes, 1000);
    let told = peer.events.iter();
    let writable = told.filter(|event| matches!(event, Event::Writable { .. }));
    assert_eq!(writable.count(), 1);
    assert!(more(&mut peer).is_ok());
    give_nr_sack(&mut peer, 4, &[], &[]);
    assert_eq!(peer.status().unacknowledged_chunks, 0);
    assert_eq!(peer.status().outstanding_bytes, 0);
}

#[test]
fn what_the_peer_keeps_is_never_sent_again() {
    let mut peer = accepted(config());
    for stream in 0..4 {
        peer.send(stream, b"some data");
    }
    peer.take();
    give_nr_sack(&mut peer, 0, &[(2, 2)], &[(3, 4)]);
    // It takes back all, which it must not.
    for _ in 0..5 {
        give_nr_sack(&mut peer, 0, &[], &[]);
    }
    let packets = peer.pass(Duration::from_secs(1));
    assert_eq!(data_in(&packets, peer.tsn), [0, 1]);
    let id = peer.id();
    peer.endpoint.abort(peer.now, id, b"bye").expect("it is up");
    peer.take();
    let failed: Vec<u16> = peer
        .events
        .iter()
        .filter_map(|event| match event {
            Event::SendFailed { info, .. } => Some(info.stream),
            _ => None,
        })
        .collect();
    assert_eq!(failed, [0, 1]);
}

#[test]
fn blocks_count_for_losses_whatever_their_kind() {
    let mut peer = accepted(config());
    for stream in 0..5 {
        peer.send(stream, b"some data");
    }
    peer.take();
    for (gaps, kept) in [
        (&[(2, 2)][..], &[][..]),
        (&[(3, 3)], &[(2, 2)]),
        (&[], &[(2, 4)]),
    ] {
        give_nr_sack(&mut peer, 0, gaps, kept);
    }
    assert_eq!(data_in(&peer.take(), peer.tsn), [0]);
}

#[test]
fn one_that_acknowledges_what_was_never_sent_ends_the_association() {
    for (gaps, kept) in [(&[][..], &[(2, 9)][..]), (&[(2, 9)], &[])] {
        let mut peer = accepted(config());
        for _ in 0..3 {
            peer.send(0, b"some data");
        }
        peer.take();
        give_nr_sack(&mut peer, 0, gaps, kept);
        assert_eq!(types(&peer.take()), [[ChunkType::ABORT]]);
    }
}

#[test]
fn the_second_acknowledgement_of_a_packet_is_ignored() {
    let mut peer = accepted(config());
    peer.send(0, b"some data");
    peer.take();
    let cumulative = peer.tsn;
    let packet = packet_of(peer.tag, |writer| {
        for cumulative in [cumulative.previous(), cumulative] {
            writer
                .nr_sack(
                    cumulative,
                    1000,
                    0,
                    [].into_iter(),
                    [].into_iter(),
                    [].into_iter(),
                )
                .expect("it fits");
        }
    });
    let before = peer.endpoint.statistics().drops.chunks;
    peer.give_packet(packet);
    assert_eq!(peer.endpoint.statistics().drops.chunks, before + 1);
    assert_eq!(peer.status().unacknowledged_chunks, 1);
}

#[test]
fn it_is_used_where_both_sides_offer_it() {
    for (peer, agreed) in [
        (accepted(config()), true),
        (Scripted::accepted(config()), false),
        (accepted(quiet()), false),
    ] {
        let mut peer = peer;
        assert_eq!(peer.status().extensions.nr_sack, agreed);
        give(&mut peer, 0, |_| {});
        let expected = if agreed {
            ChunkType::NR_SACK
        } else {
            ChunkType::SACK
        };
        assert_eq!(types(&peer.take()), [[expected]]);
        peer.send(0, b"some data");
        peer.take();
        give_nr_sack(&mut peer, 1, &[], &[]);
        let left = peer.status().unacknowledged_chunks;
        assert_eq!(left == 0, agreed, "an unknown chunk otherwise");
        // A SACK is taken in any case.
        peer.give_sack(1, &[], 1000);
        assert_eq!(peer.status().unacknowledged_chunks, 0);
    }
}

#[test]
fn data_gets_through_losses() {
    let config = EndpointConfig::default().extensions("nrsack".parse().expect("its name"));
    let mut pair = Pair::with(config.clone(), config);
    pair.establish();
    let expected: Vec<Bytes> = (0..300).map(|number| payload(number, 3000)).collect();
    assert_eq!(transfer(&mut pair, 300, 3000, ordered(1)), expected);
    let nr_sacks = pair
        .server
        .sent
        .iter()
        .flat_map(|(_, packet)| chunks(packet))
        .filter(|chunk| matches!(chunk, Chunk::NrSack(_)))
        .count();
    assert!(nr_sacks > 100);
}

#[test]
fn nr_sacks_go_on_after_all_numbers_have_begun_anew() {
    let config = quiet()
        .extensions("nrsack,reconf".parse().expect("their names"))
        .re_configuration_policy(ReConfigurationPolicy::GRANT_ALL);
    let mut peer = accepted_with(config, &[NR_SACK, RE_CONFIG]);
    give(&mut peer, 0, |_| {});
    peer.take();
    let mut request = ParameterBuffer::new();
    request
        .push(&Parameter::SsnTsnResetRequest {
            request_sequence_number: SequenceNumber(PEER_TSN.0),
        })
        .expect("it is short");
    let parameters = request.parameters();
    peer.give(&[Chunk::ReConfig(ReConfig { parameters })]);
    // RFC 6525 section 5.2.4.
    let moved = 1 + (1 << 31);
    assert_eq!(nr_sack_in(&peer.take()), (moved, vec![], vec![]));
    give(&mut peer, moved + 1, |data| data.unordered = true);
    assert_eq!(nr_sack_in(&peer.take()), (moved, vec![], vec![(2, 2)]));
    give(&mut peer, moved, |_| {});
    assert_eq!(nr_sack_in(&peer.take()), (moved + 2, vec![], vec![]));
}
