//! The receiving side (RFC 3758 section 3.6), with a peer whose packets the test writes.

use std::time::Duration;

use bytes::Bytes;
use sctp::packet::{Chunk, ChunkType, Data, Ssn};
use sctp::{AssociationState, Event};

use super::{accepted, config};
use crate::rfc9260::scripted::{PEER_TSN, Scripted, message, packet_of, sack_in, types};

/// Gives a FORWARD-TSN that covers so many of the peer's TSNs.
fn forward(peer: &mut Scripted, count: u32, skipped: &[(u16, u16)]) {
    let entries = skipped
        .iter()
        .map(|&(stream, ssn)| sctp::packet::SkippedSsn {
            stream,
            ssn: Ssn(ssn),
        });
    let packet = packet_of(peer.tag, |writer| {
        writer
            .forward_tsn((PEER_TSN + count).previous(), entries)
            .expect("it fits");
    });
    peer.give_packet(packet);
}

/// Gives the peer's chunk with that number, which is a fragment with these bits.
fn give_fragment(peer: &mut Scripted, number: u32, ssn: u16, bits: &str) {
    let user_data = format!("<{number}>");
    peer.give(&[Chunk::Data(Data {
        beginning: bits.contains('B'),
        ending: bits.contains('E'),
        tsn: PEER_TSN + number,
        ssn: Ssn(ssn),
        user_data: user_data.as_bytes(),
        ..Data::default()
    })]);
}

fn received(peer: &mut Scripted) -> Vec<Bytes> {
    let messages = peer.receive();
    messages
        .into_iter()
        .map(|message| message.payload)
        .collect()
}

/// How many of the peer's TSNs the SACK in these packets acknowledges, and its Gap Ack Blocks.
fn acknowledged(packets: &[Bytes]) -> (u32, Vec<(u16, u16)>) {
    let (cumulative, _, gaps, _) = sack_in(packets);
    (cumulative.next().distance_from(PEER_TSN), gaps)
}

#[test]
fn the_cumulative_tsn_is_moved_and_moves_further() {
    let mut peer = accepted(config());
    for number in [0, 2, 3, 5] {
        peer.give(&[Chunk::Data(message(number, b"a"))]);
    }
    peer.take();
    // The example of section 3.6: the second is missing, and the fifth.
    forward(&mut peer, 2, &[(0, 1)]);
    assert_eq!(acknowledged(&peer.take()), (4, vec![(2, 2)]));
    assert_eq!(received(&mut peer).len(), 3);
}

#[test]
fn stranded_messages_are_delivered_at_once() {
    let mut peer = accepted(config());
    for number in [1, 3] {
        peer.give(&[Chunk::Data(message(number, &[number as u8]))]);
    }
    assert_eq!(received(&mut peer).len(), 0);
    peer.events.clear();
    forward(&mut peer, 1, &[(0, 0)]);
    assert!(matches!(peer.events[..], [Event::Readable { .. }]));
    assert_eq!(received(&mut peer), [&[1][..]]);
    forward(&mut peer, 3, &[(0, 2)]);
    assert_eq!(received(&mut peer), [&[3][..]]);
    peer.give(&[Chunk::Data(message(4, &[4]))]);
    assert_eq!(received(&mut peer), [&[4][..]]);
}

#[test]
fn one_out_of_date_is_answered_at_once_and_changes_nothing() {
    let mut peer = accepted(config());
    for number in 0..3 {
        peer.give(&[Chunk::Data(message(number, b"a"))]);
    }
    peer.pass(Duration::from_secs(1));
    for count in [3, 2, 0] {
        forward(&mut peer, count, &[(0, 7)]);
        assert_eq!(acknowledged(&peer.take()), (3, vec![]));
    }
    assert_eq!(received(&mut peer).len(), 3);
    peer.give(&[Chunk::Data(message(3, b"b"))]);
    assert_eq!(received(&mut peer).len(), 1, "no number was skipped");
}

#[test]
fn it_is_acknowledged_by_the_rules_of_data() {
    let mut peer = accepted(config());
    peer.give(&[Chunk::Data(message(0, b"a"))]);
    assert_eq!(types(&peer.take()), [[ChunkType::SACK]], "the first DATA");
    forward(&mut peer, 2, &[(0, 1)]);
    assert!(peer.take().is_empty(), "the acknowledgement is delayed");
    let packets = peer.pass(Duration::from_millis(200));
    assert_eq!(acknowledged(&packets), (2, vec![]));
    forward(&mut peer, 3, &[(0, 2)]);
    peer.give(&[Chunk::Data(message(3, b"b"))]);
    assert_eq!(
        acknowledged(&peer.take()),
        (4, vec![]),
        "every second packet"
    );
    peer.give(&[Chunk::Data(message(6, b"c"))]);
    peer.take();
    forward(&mut peer, 5, &[(0, 4)]);
    assert_eq!(
        acknowledged(&peer.take()),
        (5, vec![(2, 2)]),
        "beside a gap"
    );
}

#[test]
fn a_skipped_tsn_that_arrives_is_a_duplicate() {
    let mut peer = accepted(config());
    forward(&mut peer, 1, &[(0, 0)]);
    peer.take();
    peer.give(&[Chunk::Data(message(0, b"late"))]);
    let (_, _, _, duplicates) = sack_in(&peer.take());
    assert_eq!(duplicates, [PEER_TSN]);
    assert!(received(&mut peer).is_empty());
}

#[test]
fn fragments_of_what_is_skipped_are_thrown_away() {
    let mut peer = accepted(config());
    for (number, bits) in [(0, "B"), (2, "E")] {
        give_fragment(&mut peer, number, 0, bits);
    }
    give_fragment(&mut peer, 3, 1, "B");
    assert_eq!(peer.status().receive_buffer_bytes, 9);
    forward(&mut peer, 3, &[(0, 0)]);
    assert_eq!(peer.status().receive_buffer_bytes, 3);
    give_fragment(&mut peer, 4, 1, "E");
    assert_eq!(received(&mut peer), [&b"<3><4>"[..]]);
    assert_eq!(peer.status().receive_buffer_bytes, 0);
    assert_eq!(peer.state(), AssociationState::Established);
}

#[test]
fn a_message_may_be_skipped_in_several_steps() {
    let mut peer = accepted(config());
    give_fragment(&mut peer, 2, 0, "");
    // There was no room for more in the FORWARD-TSN.
    forward(&mut peer, 1, &[(0, 0)]);
    for (number, bits) in [(1, ""), (3, "E")] {
        give_fragment(&mut peer, number, 0, bits);
    }
    assert_eq!(peer.state(), AssociationState::Established);
    assert_eq!(peer.status().receive_buffer_bytes, 0);
    give_fragment(&mut peer, 4, 1, "BE");
    assert_eq!(received(&mut peer), [&b"<4>"[..]]);
}

#[test]
fn a_delivery_in_parts_is_aborted() {
    let mut peer = accepted(config().partial_delivery_point(1));
    give_fragment(&mut peer, 0, 0, "B");
    assert_eq!(received(&mut peer), [&b"<0>"[..]]);
    // Waits for the end of the other.
    give_fragment(&mut peer, 3, 1, "BE");
    peer.events.clear();
    forward(&mut peer, 3, &[(0, 0)]);
    let aborted = peer.events.iter().find_map(|event| match event {
        Event::PartialDeliveryAborted { stream, ssn, .. } => Some((*stream, *ssn)),
        _ => None,
    });
    assert_eq!(aborted, Some((0, 0)));
    assert_eq!(received(&mut peer), [&b"<3>"[..]]);
}

#[test]
fn more_than_was_sent_is_not_skipped() {
    let mut peer = accepted(config().a_rwnd(100_000));
    for far in [100_001, 1 << 30, (1 << 31) - 1] {
        forward(&mut peer, far, &[(0, 5)]);
        assert_eq!(acknowledged(&peer.take()), (0, vec![]));
    }
    let drops = peer.endpoint.statistics().drops;
    assert_eq!(drops.forward_tsn_out_of_reach, 3);
    peer.give(&[Chunk::Data(message(0, b"a"))]);
    assert_eq!(received(&mut peer).len(), 1);
    forward(&mut peer, 100_001, &[(0, 5)]);
    peer.pass(Duration::from_secs(1));
    assert_eq!(peer.endpoint.statistics().drops.forward_tsn_out_of_reach, 3);
}

#[test]
fn streams_that_there_are_not_are_left_alone() {
    let mut peer = accepted(config());
    peer.give(&[Chunk::Data(message(1, b"a"))]);
    forward(&mut peer, 1, &[(10, 0), (0, 0), (0xffff, 0xffff), (0, 0)]);
    assert_eq!(received(&mut peer).len(), 1);
    assert_eq!(peer.state(), AssociationState::Established);
}

#[test]
fn one_cut_short_is_dropped() {
    let mut peer = accepted(config());
    let point = (PEER_TSN + 5).0.to_be_bytes();
    let header = |length: u8| [0xc0, 0, 0, length];
    for malformed in [
        [&header(6)[..], &point[..2], &[0, 0]].concat(),
        [&header(10)[..], &point, &[0, 1, 0, 0]].concat(),
    ] {
        let before = peer.endpoint.statistics().drops.chunks;
        peer.give_raw(&malformed);
        assert_eq!(peer.endpoint.statistics().drops.chunks, before + 1);
        assert!(peer.take().is_empty());
    }
}

#[test]
fn what_is_held_out_of_order_can_still_be_taken_back() {
    let mut peer = accepted(config().a_rwnd(4000).mtu(600));
    let filler = [1; 500];
    for number in 2..12 {
        peer.give(&[Chunk::Data(message(number, &filler))]);
    }
    forward(&mut peer, 1, &[(0, 0)]);
    peer.take();
    peer.give(&[Chunk::Data(message(1, &filler))]);
    let held = received(&mut peer).len();
    assert!(held > 1);
    assert_eq!(peer.status().receive_buffer_bytes, 0);
}

#[test]
fn of_several_in_a_packet_the_first_one_counts() {
    let mut peer = accepted(config());
    let packet = packet_of(peer.tag, |writer| {
        for number in 0..3 {
            writer
                .forward_tsn(PEER_TSN + number, std::iter::empty())
                .expect("it fits");
        }
    });
    peer.give_packet(packet);
    assert_eq!(peer.endpoint.statistics().drops.chunks, 2);
}
