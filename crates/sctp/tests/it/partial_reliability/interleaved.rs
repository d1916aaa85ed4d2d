//! Partial reliability where messages are interleaved (RFC 8260 section 2.3.1): I-FORWARD-TSN.

use std::time::Duration;

use bytes::Bytes;
use sctp::packet::{
    Chunk, ChunkType, ChunkTypeList, Fragment, IData, IForwardTsn, Init, Mid, Parameter,
    ParameterBuffer, SkippedMid, SkippedSsn, Tsn,
};
use sctp::{EndpointConfig, Event, PrPolicy, SendInfo, StreamScheduler};

use super::{failed, info, send};
use crate::rfc9260::scripted::{
    self, PEER_TSN, Scripted, chunks, packet_of, quiet, sack_in, types,
};

const ONCE: PrPolicy = PrPolicy::LimitedRetransmissions(0);
const RTO: Duration = Duration::from_secs(1);
const FORWARD_TSN: u8 = 192;
const I_DATA: u8 = 64;
const I_FORWARD_TSN: u8 = 194;

fn config() -> EndpointConfig {
    quiet().extensions("pr,idata".parse().expect("their names"))
}

/// An association with a peer that understands these chunks.
fn accepted_with(config: EndpointConfig, chunk_types: &[u8]) -> Scripted {
    let mut parameters = ParameterBuffer::new();
    parameters
        .push(&Parameter::SupportedExtensions(ChunkTypeList::new(
            chunk_types,
        )))
        .expect("it is short");
    Scripted::accepted_with(
        config,
        Init {
            parameters: parameters.parameters(),
            ..scripted::init()
        },
    )
}

/// An association with a peer that has both extensions.
pub(super) fn accepted(config: EndpointConfig) -> Scripted {
    accepted_with(config, &[FORWARD_TSN, I_DATA, I_FORWARD_TSN])
}

/// How many TSNs an I-FORWARD-TSN covers, and what it skips: stream, U bit and MID.
type Told = (u32, Vec<(u16, bool, u32)>);

/// The I-FORWARD-TSNs in packets; TSNs are counted from `first` on.
fn told(packets: &[Bytes], first: Tsn) -> Vec<Told> {
    let chunks = packets.iter().flat_map(chunks);
    chunks
        .filter_map(|chunk| match chunk {
            Chunk::ForwardTsn(_) => panic!("a FORWARD-TSN"),
            Chunk::IForwardTsn(IForwardTsn {
                new_cumulative_tsn,
                skipped,
            }) => Some((
                new_cumulative_tsn.next().distance_from(first),
                skipped
                    .iter()
                    .map(|entry| (entry.stream, entry.unordered, entry.mid.0))
                    .collect(),
            )),
            _ => None,
        })
        .collect()
}

/// Gives an I-FORWARD-TSN that covers so many of the peer's TSNs.
fn forward(peer: &mut Scripted, count: u32, skipped: &[(u16, bool, u32)]) {
    let entries = skipped.iter().map(|&(stream, unordered, mid)| SkippedMid {
        stream,
        unordered,
        mid: Mid(mid),
    });
    let packet = packet_of(peer.tag, |writer| {
        writer
            .i_forward_tsn((PEER_TSN + count).previous(), entries)
            .expect("it fits");
    });
    peer.give_packet(packet);
}

/// Gives the peer's chunk with that number: fragment `fsn` of the message `mid`.
fn give(peer: &mut Scripted, number: u32, unordered: bool, mid: u32, fsn: u32, ending: bool) {
    let user_data = format!("<{number}>");
    peer.give(&[Chunk::IData(IData {
        immediate: false,
        unordered,
        ending,
        tsn: PEER_TSN + number,
        stream: 1,
        mid: Mid(mid),
        fragment: match fsn {
            0 => Fragment::First { ppid: 0 },
            fsn => Fragment::Later { fsn },
        },
        user_data: user_data.as_bytes(),
    })]);
}

fn received(peer: &mut Scripted) -> Vec<Bytes> {
    let messages = peer.receive().into_iter();
    messages.map(|message| message.payload).collect()
}

#[test]
fn both_kinds_of_messages_are_told() {
    let mut peer = accepted(config());
    let first = peer.tsn;
    let unordered = |stream| SendInfo {
        unordered: true,
        ..info(stream, ONCE)
    };
    for info in [
        info(3, ONCE),
        unordered(3),
        unordered(3),
        info(5, ONCE),
        info(3, ONCE),
    ] {
        send(&mut peer, info, "a");
    }
    peer.take();
    let packets = peer.pass(RTO);
    assert_eq!(
        told(&packets, first),
        [(5, vec![(3, false, 1), (3, true, 1), (5, false, 0)])]
    );
    assert_eq!(failed(&peer).len(), 5);
}

#[test]
fn a_message_whose_fragments_alternate_with_others_is_abandoned_whole() {
    let mut peer = accepted(config().stream_scheduler(StreamScheduler::RoundRobin));
    let first = peer.tsn;
    send(&mut peer, info(1, ONCE), vec![1; 4000]);
    send(&mut peer, info(2, PrPolicy::Reliable), vec![2; 4000]);
    let packets = peer.take();
    let streams: Vec<u16> = packets
        .iter()
        .flat_map(chunks)
        .filter_map(|chunk| match chunk {
            Chunk::IData(data) => Some(data.stream),
            _ => None,
        })
        .collect();
    let leading = streams.iter().take_while(|stream| **stream == 1).count();
    assert!(streams[leading..].contains(&1), "{streams:?}");
    let packets = peer.pass(RTO);
    assert_eq!(failed(&peer), [(1, 4000, true)]);
    assert_eq!(
        told(&packets, first),
        [(leading as u32, vec![(1, false, 0)])]
    );
    assert!(peer.status().send_buffer_bytes == 4000, "the other one");
}

#[test]
fn messages_of_either_kind_are_skipped() {
    let mut peer = accepted(config());
    // Unordered message 0 lacks its end, ordered message 0 is missing, and 1 waits for it.
    give(&mut peer, 0, true, 0, 0, false);
    give(&mut peer, 3, false, 1, 0, true);
    assert_eq!(received(&mut peer).len(), 0);
    forward(&mut peer, 3, &[(1, true, 0), (1, false, 0)]);
    assert_eq!(received(&mut peer), [&b"<3>"[..]]);
    assert_eq!(peer.status().receive_buffer_bytes, 0);
    give(&mut peer, 4, true, 1, 0, true);
    give(&mut peer, 5, false, 2, 0, true);
    assert_eq!(received(&mut peer), [&b"<4>"[..], b"<5>"]);
}

#[test]
fn what_comes_later_of_a_skipped_message_is_thrown_away() {
    for unordered in [false, true] {
        let mut peer = accepted(config());
        // Of message 0, the fragments 0 to 2 are the numbers 0, 2 and 4; another message is between.
        forward(&mut peer, 1, &[(1, unordered, 0)]);
        give(&mut peer, 4, unordered, 0, 2, true);
        give(&mut peer, 2, unordered, 0, 1, false);
        give(&mut peer, 1, !unordered, 0, 0, true);
        give(&mut peer, 3, !unordered, 1, 0, true);
        assert_eq!(received(&mut peer), [&b"<1>"[..], b"<3>"]);
        // All is acknowledged, so the peer will not name the message again.
        let (cumulative, _, gaps, _) = sack_in(&peer.take());
        assert_eq!((cumulative, gaps.len()), (PEER_TSN + 4, 0));
        assert_eq!(peer.status().receive_buffer_bytes, 0);
        give(&mut peer, 5, unordered, 1, 0, true);
        assert_eq!(received(&mut peer), [&b"<5>"[..]]);
    }
}

#[test]
fn deliveries_in_parts_are_aborted() {
    let mut peer = accepted(config().partial_delivery_point(1).fragment_interleave(true));
    give(&mut peer, 0, false, 0, 0, false);
    assert_eq!(received(&mut peer), [&b"<0>"[..]]);
    give(&mut peer, 2, false, 1, 0, true);
    peer.events.clear();
    forward(&mut peer, 2, &[(1, false, 0)]);
    let aborted = peer
        .events
        .iter()
        .filter(|event| matches!(event, Event::PartialDeliveryAborted { stream: 1, .. }));
    assert_eq!(aborted.count(), 1);
    assert_eq!(received(&mut peer), [&b"<2>"[..]]);
}

#[test]
fn the_chunk_of_the_other_kind_ends_the_association() {
    let mut peer = accepted(config());
    let packet = packet_of(peer.tag, |writer| {
        let none: [SkippedSsn; 0] = [];
        writer
            .forward_tsn(PEER_TSN + 3, none.into_iter())
            .expect("it fits");
    });
    peer.give_packet(packet);
    assert_eq!(types(&peer.take()), [[ChunkType::ABORT]]);

    let mut peer = super::accepted(super::config());
    forward(&mut peer, 3, &[]);
    assert_eq!(types(&peer.take()), [[ChunkType::ABORT]]);
}

#[test]
fn a_peer_without_i_forward_tsn_gets_all_interleaved_messages() {
    let mut peer = accepted_with(config(), &[FORWARD_TSN, I_DATA]);
    let extensions = peer.status().extensions;
    assert!(extensions.interleaving && !extensions.partial_reliability);
    send(&mut peer, info(0, ONCE), "a");
    peer.take();
    let packets = peer.pass(RTO);
    assert_eq!(types(&packets), [[ChunkType::I_DATA]]);
    // It may skip where DATA is used.
    let peer = accepted_with(
        quiet().extensions("pr".parse().expect("its name")),
        &[FORWARD_TSN, I_DATA],
    );
    assert!(peer.status().extensions.partial_reliability);
}

/// As Linux does.
#[test]
fn a_peer_without_i_forward_tsn_may_send_it_where_we_offer_it() {
    let listed = [FORWARD_TSN, I_DATA];
    let mut peer = accepted_with(config(), &listed);
    assert!(!peer.status().extensions.partial_reliability);
    give(&mut peer, 1, false, 1, 0, true);
    forward(&mut peer, 1, &[(1, false, 0)]);
    assert_eq!(received(&mut peer), [&b"<1>"[..]]);
    assert_eq!(sack_in(&peer.take()).0, PEER_TSN + 1);
    // Where we do not, it is none that we know.
    let alone = quiet().extensions("idata".parse().expect("its name"));
    let mut peer = accepted_with(alone, &listed);
    give(&mut peer, 1, false, 1, 0, true);
    peer.take();
    forward(&mut peer, 1, &[(1, false, 0)]);
    assert_eq!(received(&mut peer).len(), 0);
    assert_eq!(types(&peer.take()), [[ChunkType::ERROR]]);
}

#[test]
fn of_several_in_a_packet_the_first_one_counts() {
    let mut peer = accepted(config());
    let packet = packet_of(peer.tag, |writer| {
        for count in 0..3 {
            let entries = std::iter::empty();
            let written = writer.i_forward_tsn(PEER_TSN + count, entries);
            written.expect("it fits");
        }
    });
    peer.give_packet(packet);
    assert_eq!(sack_in(&peer.take()).0, PEER_TSN);
    assert_eq!(peer.endpoint.statistics().drops.chunks, 2);
}
