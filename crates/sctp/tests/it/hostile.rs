//! Hostile packets: whatever arrives, nothing panics, nothing hangs, and what is held stays within
//! its bounds.

use std::time::Duration;

use crate::common::{self, Pair, altered, ordered, tag, to_client, to_server};
use bytes::Bytes;
use proptest::prelude::*;
use sctp::packet::{
    CauseBuffer, Chunk, ChunkType, CookieEcho, Data, GapAckBlock, Heartbeat, OperationError,
    Packet, PacketWriter, Parameters, Ssn, Tsn,
};
use sctp::{EndpointConfig, Event, LostCause, SendInfo};

/// What an adversary with the right verification tag does to a packet on its way.
#[derive(Debug, Clone)]
enum Mutation {
    None,
    Drop,
    Duplicate,
    /// Changes bytes after the common header, and makes the checksum right again.
    Change(Vec<(prop::sample::Index, u8)>),
    /// Cuts the packet off.
    Truncate(prop::sample::Index),
    /// Repeats what is after the common header.
    Repeat(u8),
    /// Appends bytes.
    Append(Vec<u8>),
    /// Sends a packet from before instead.
    Replay(prop::sample::Index),
}

#[derive(Debug, Clone)]
enum Step {
    ToServer(Mutation),
    ToClient(Mutation),
    Send {
        stream: u16,
        bytes: usize,
        unordered: bool,
        client: bool,
    },
    Receive,
    Time(u32),
    Shutdown(bool),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        8 => Just(Mutation::None),
        1 => Just(Mutation::Drop),
        1 => Just(Mutation::Duplicate),
        4 => prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)
            .prop_map(Mutation::Change),
        1 => any::<prop::sample::Index>().prop_map(Mutation::Truncate),
        1 => (1u8..5).prop_map(Mutation::Repeat),
        1 => prop::collection::vec(any::<u8>(), 1..40).prop_map(Mutation::Append),
        1 => any::<prop::sample::Index>().prop_map(Mutation::Replay),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => mutation().prop_map(Step::ToServer),
        6 => mutation().prop_map(Step::ToClient),
        4 => (0u16..12, 1usize..6000, any::<bool>(), any::<bool>()).prop_map(
            |(stream, bytes, unordered, client)| Step::Send { stream, bytes, unordered, client }
        ),
        2 => Just(Step::Receive),
        2 => (0u32..3_000).prop_map(Step::Time),
        1 => any::<bool>().prop_map(Step::Shutdown),
    ]
}

fn mutate(packet: Bytes, mutation: &Mutation, history: &[Bytes]) -> Vec<Bytes> {
    match mutation {
        Mutation::None => vec![packet],
        Mutation::Drop => vec![],
        Mutation::Duplicate => vec![packet.clone(), packet],
        Mutation::Change(changes) => vec![altered(&packet, |bytes| {
            for (index, value) in changes {
                let position = 12 + index.index(bytes.len() - 12);
                bytes[position] = *value;
            }
        })],
        Mutation::Truncate(index) => {
            let end = 12 + (index.index(packet.len() - 12) & !3);
            vec![altered(&packet[..end], |_| {})]
        }
        Mutation::Repeat(times) => {
            let mut bytes = packet.to_vec();
            for _ in 0..*times {
                bytes.extend_from_slice(&packet[12..]);
            }
            vec![altered(&bytes, |_| {})]
        }
        Mutation::Append(more) => {
            let mut bytes = packet.to_vec();
            bytes.extend_from_slice(more);
            vec![altered(&bytes, |_| {})]
        }
        Mutation::Replay(index) => history
            .get(index.index(history.len().max(1)))
            .cloned()
            .into_iter()
            .collect(),
    }
}

fn bounded() -> EndpointConfig {
    EndpointConfig::default()
        .a_rwnd(20_000)
        .max_message_size(10_000)
        .send_buffer(50_000)
        .max_associations(4)
        .max_pending_replies(16)
}

fn assert_within_bounds(pair: &Pair) {
    for host in [&pair.client, &pair.server] {
        assert!(host.endpoint.association_count() <= 4);
        for event in &host.events {
            let Event::CommunicationUp { id, .. } = event else {
                continue;
            };
            let Some(status) = host.endpoint.status(*id) else {
                continue;
            };
            assert!(status.receive_buffer_bytes <= 2 * 20_000 + 65_536);
            assert!(status.send_buffer_bytes <= 50_000);
        }
    }
}

fn play(steps: Vec<Step>, from_the_start: bool) {
    let mut pair = Pair::with(bounded(), bounded());
    pair.connect();
    if !from_the_start {
        pair.run();
    }
    let mut history = Vec::new();
    for step in steps {
        match step {
            Step::ToServer(mutation) => {
                if let Some(packet) = pair.to_server.pop_front() {
                    history.push(packet.clone());
                    for packet in mutate(packet, &mutation, &history) {
                        pair.give_server(packet);
                    }
                }
            }
            Step::ToClient(mutation) => {
                if let Some(packet) = pair.to_client.pop_front() {
                    history.push(packet.clone());
                    for packet in mutate(packet, &mutation, &history) {
                        pair.give_client(packet);
                    }
                }
            }
            Step::Send {
                stream,
                bytes,
                unordered,
                client,
            } => {
                let host = if client {
                    &mut pair.client
                } else {
                    &mut pair.server
                };
                let up = host.events.iter().rev().find_map(|event| match event {
                    Event::CommunicationUp { id, .. } => Some(*id),
                    _ => None,
                });
                if let Some(id) = up {
                    let info = SendInfo {
                        stream,
                        unordered,
                        ..SendInfo::default()
                    };
                    let _ = host
                        .endpoint
                        .send(pair.now, id, info, vec![1; bytes].into());
                }
                pair.collect();
            }
            Step::Receive => {
                for host in [&mut pair.client, &mut pair.server] {
                    let ids: Vec<_> = host
                        .events
                        .iter()
                        .filter_map(|event| match event {
                            Event::Readable { id } => Some(*id),
                            _ => None,
                        })
                        .collect();
                    for id in ids {
                        host.receive_all(pair.now, id);
                    }
                }
                pair.collect();
            }
            Step::Time(milliseconds) => {
                pair.now += Duration::from_millis(milliseconds.into());
                pair.client.endpoint.handle_timeout(pair.now);
                pair.server.endpoint.handle_timeout(pair.now);
                pair.collect();
            }
            Step::Shutdown(client) => {
                let host = if client {
                    &mut pair.client
                } else {
                    &mut pair.server
                };
                let up = host.events.iter().rev().find_map(|event| match event {
                    Event::CommunicationUp { id, .. } => Some(*id),
                    _ => None,
                });
                if let Some(id) = up {
                    let _ = host.endpoint.shutdown(pair.now, id);
                }
                pair.collect();
            }
        }
        assert_within_bounds(&pair);
    }
    // Left alone, the two come to rest, whatever they were told.
    for _ in 0..3000 {
        let packets = pair.to_server.len() + pair.to_client.len();
        if packets == 0 {
            break;
        }
        while let Some(packet) = pair.to_server.pop_front() {
            pair.give_server(packet);
        }
        while let Some(packet) = pair.to_client.pop_front() {
            pair.give_client(packet);
        }
    }
    assert!(pair.to_server.is_empty() && pair.to_client.is_empty());
}

proptest! {
    #[test]
    fn a_live_pair_survives_an_adversary_between_it(
        steps in prop::collection::vec(step(), 1..120),
        from_the_start in prop::bool::weighted(0.3),
    ) {
        play(steps, from_the_start);
    }

    #[test]
    fn arbitrary_bytes_do_nothing_bad(
        packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 1..20),
        right_tag: bool,
    ) {
        let mut pair = Pair::with(bounded(), bounded());
        pair.establish();
        let tag = tag(&pair.client.sent.last().unwrap().1);
        for bytes in packets {
            let mut packet = to_server(if right_tag { tag } else { 0 }, &[]).to_vec();
            packet.extend_from_slice(&bytes);
            pair.give_server(altered(&packet, |_| {}));
            pair.give_server(bytes.into());
            assert_within_bounds(&pair);
        }
    }
}

/// A server with an association, and the tag and TSN with which to write to it.
fn victim(config: EndpointConfig) -> (Pair, u32, Tsn) {
    let mut pair = Pair::with(EndpointConfig::default(), config);
    pair.establish();
    pair.client_sends(ordered(0), "mark");
    let packet = pair.to_server.front().unwrap().clone();
    let Some(Ok(Chunk::Data(data))) = Packet::read(&packet).unwrap().chunks().next() else {
        panic!("a DATA chunk was sent");
    };
    let tsn = data.tsn.next();
    pair.run();
    let server = pair.server.association();
    pair.server.receive_all(pair.now, server);
    pair.run();
    (pair, tag(&packet), tsn)
}

fn data(tsn: Tsn, ssn: u16, user_data: &[u8]) -> Chunk<'_> {
    Chunk::Data(Data {
        beginning: true,
        ending: true,
        tsn,
        ssn: Ssn(ssn),
        user_data,
        ..Data::default()
    })
}

#[test]
fn a_flood_beyond_the_window_is_dropped() {
    let (mut pair, tag, first) = victim(bounded());
    let payload = vec![1; 1400];
    for number in 0..1000 {
        let chunk = data(first + number, number as u16 + 1, &payload);
        pair.give_server(to_server(tag, &[chunk]));
    }
    assert_within_bounds(&pair);
    assert!(pair.server.endpoint.statistics().drops.data_no_room > 900);
}

#[test]
fn a_flood_of_scattered_tsns_is_dropped() {
    let config = EndpointConfig::default().max_gap_ack_blocks(50);
    let (mut pair, tag, first) = victim(config);
    for number in 1..1000 {
        pair.give_server(to_server(tag, &[data(first + 2 * number, 9, b"x")]));
        let far = first + 40_000 + number;
        pair.give_server(to_server(tag, &[data(far, 9, b"x")]));
        if pair.server.endpoint.association_count() == 0 {
            break;
        }
    }
    let drops = pair.server.endpoint.statistics().drops;
    assert!(drops.data_out_of_reach > 0);
    for packet in &pair.to_client {
        if let Some(Ok(Chunk::Sack(sack))) = Packet::read(packet).unwrap().chunks().next() {
            assert!(sack.gap_ack_blocks.len() <= 50);
        }
    }
}

#[test]
fn tiny_messages_are_bounded_by_number() {
    let config = EndpointConfig::default().max_received_messages(100);
    let (mut pair, tag, first) = victim(config);
    for number in 0..500 {
        let chunk = data(first + number, number as u16 + 1, b"x");
        pair.give_server(to_server(tag, &[chunk]));
    }
    let server = pair.server.association();
    let status = pair.server.endpoint.status(server).unwrap();
    assert_eq!(status.receive_buffer_bytes, 100);
    let last = pair.to_client.back().unwrap();
    let Some(Ok(Chunk::Sack(sack))) = Packet::read(last).unwrap().chunks().next() else {
        panic!("a SACK was sent");
    };
    assert_eq!(sack.a_rwnd, 0);
}

#[test]
fn all_associations_together_are_bounded() {
    let config = EndpointConfig::default()
        .max_received_bytes(5000)
        .guaranteed_receive_bytes(0);
    let (mut pair, tag, first) = victim(config);
    let payload = vec![1; 1000];
    for number in 0..10 {
        let chunk = data(first + number, number as u16 + 1, &payload);
        pair.give_server(to_server(tag, &[chunk]));
    }
    let server = pair.server.association();
    let held = |pair: &Pair| {
        let status = pair.server.endpoint.status(server).unwrap();
        status.receive_buffer_bytes
    };
    assert_eq!(held(&pair), 5000);
    assert_eq!(pair.server.receive_all(pair.now, server).len(), 5);
    for number in 5..10 {
        let chunk = data(first + number, number as u16 + 1, &payload);
        pair.give_server(to_server(tag, &[chunk]));
    }
    assert_eq!(held(&pair), 5000, "room again");
}

#[test]
fn a_packet_full_of_heartbeats_gets_few_answers() {
    let (mut pair, tag, _) = victim(bounded().max_pending_heartbeat_acks(5));
    let info = [0, 1, 0, 8, 1, 2, 3, 4];
    let heartbeat = Chunk::Heartbeat(Heartbeat {
        parameters: Parameters::new(&info),
    });
    pair.give_server(to_server(tag, &[heartbeat; 100]));
    let answers: usize = pair
        .to_client
        .iter()
        .map(|packet| common::chunk_types(packet).len())
        .sum();
    assert_eq!(answers, 5);
    assert_eq!(pair.server.endpoint.statistics().drops.answers, 95);
}

#[test]
fn a_packet_full_of_large_heartbeats_gets_one_packet_in_answer() {
    let (mut pair, tag, _) = victim(bounded());
    let mut info = vec![7; 700];
    info[..4].copy_from_slice(&[0, 1, 2, 188]);
    let heartbeat = Chunk::Heartbeat(Heartbeat {
        parameters: Parameters::new(&info),
    });
    pair.give_server(to_server(tag, &[heartbeat; 80]));
    assert_eq!(pair.to_client.len(), 1);
    assert_eq!(common::chunk_types(&pair.to_client[0]).len(), 2);
    assert_eq!(pair.server.endpoint.statistics().drops.answers, 78);
}

#[test]
fn a_packet_full_of_shutdown_acks_gets_one_answer_while_an_association_is_set_up() {
    let mut pair = Pair::new();
    pair.connect();
    let Some(Ok(Chunk::Init(init))) = Packet::read(&pair.to_server[0]).unwrap().chunks().next()
    else {
        panic!("an INIT was sent");
    };
    let tag = init.initiate_tag;
    pair.lose_all();
    pair.give_client(to_client(tag, &[Chunk::ShutdownAck; 365]));
    assert_eq!(pair.to_server.len(), 1, "in COOKIE-WAIT");
    assert_eq!(
        common::chunk_types(&pair.to_server[0]),
        [ChunkType::SHUTDOWN_COMPLETE]
    );
}

#[test]
fn thousands_of_error_causes_are_one_event() {
    let (mut pair, tag, _) = victim(bounded());
    let mut causes = CauseBuffer::new();
    for _ in 0..5000 {
        causes.push(&sctp::packet::Cause::OutOfResource).unwrap();
    }
    let error = Chunk::Error(OperationError {
        causes: causes.causes(),
    });
    let before = pair.server.events.len();
    pair.give_server(to_server(tag, &[error, error]));
    assert_eq!(pair.server.events.len(), before + 1);
}

#[test]
fn a_flood_of_duplicates_is_reported_within_bounds() {
    let (mut pair, tag, first) = victim(bounded());
    let chunk = data(first, 1, b"again");
    pair.give_server(to_server(tag, &[chunk; 1000]));
    let sack = pair.to_client.back().unwrap();
    assert!(sack.len() <= 1472);
    assert_eq!(pair.server.endpoint.statistics().duplicates_received, 999);
}

#[test]
fn a_packet_full_of_sacks_counts_as_one() {
    let mut pair = Pair::new();
    let (client, _) = pair.establish();
    for _ in 0..3 {
        pair.client_sends(ordered(0), vec![1; 1200]);
    }
    let first = common::data_of(&pair.to_server.drain(..).collect::<Vec<_>>())[0].0;
    let to_client = tag(&pair.server.sent.last().unwrap().1);
    let mut buffer = bytes::BytesMut::new();
    let mut writer = PacketWriter::new(
        &mut buffer,
        common::SERVER_PORT,
        common::CLIENT_PORT,
        to_client,
        65_500,
    );
    // The top chunk is acknowledged and taken back, again and again.
    let mut sacks = 0;
    loop {
        let gap = GapAckBlock { start: 3, end: 3 };
        let gaps = [gap].into_iter().take((sacks + 1) % 2);
        let gaps = gaps.collect::<Vec<_>>().into_iter();
        if writer
            .sack(first.previous(), 10_000, 0, gaps, [].into_iter())
            .is_err()
        {
            break;
        }
        sacks += 1;
    }
    assert!(sacks > 3000);
    pair.give_client(writer.finish());
    let endpoint = &pair.client.endpoint;
    assert_eq!(endpoint.statistics().drops.chunks, sacks as u64 - 1);
    assert_eq!(endpoint.status(client).unwrap().outstanding_bytes, 2 * 1216);
}

#[test]
fn gap_blocks_in_any_order_are_understood() {
    let mut pair = Pair::new();
    pair.establish();
    for _ in 0..3 {
        pair.client_sends(ordered(0), vec![1; 1200]);
    }
    let packets: Vec<Bytes> = pair.to_server.drain(..).collect();
    let Some(Ok(Chunk::Data(first))) = Packet::read(&packets[0]).unwrap().chunks().next() else {
        panic!("a DATA chunk was sent");
    };
    let to_client = tag(&pair.server.sent.last().unwrap().1);
    let mut buffer = bytes::BytesMut::new();
    let mut writer = PacketWriter::new(
        &mut buffer,
        common::SERVER_PORT,
        common::CLIENT_PORT,
        to_client,
        1000,
    );
    let gaps =
        [(3, 3), (0, 0), (2, 1), (2, 3), (1, 2)].map(|(start, end)| GapAckBlock { start, end });
    writer
        .sack(
            first.tsn.previous(),
            10_000,
            0,
            gaps.into_iter(),
            [].into_iter(),
        )
        .unwrap();
    pair.give_client(writer.finish());
    let client = pair.client.association();
    let status = pair.client.endpoint.status(client).unwrap();
    assert_eq!(status.outstanding_bytes, 1216, "the first one is missing");
    assert_eq!(status.send_buffer_bytes, 3600, "not acknowledged for good");
}

#[test]
fn fragments_that_never_make_a_message_end_the_association() {
    let (mut pair, tag, first) = victim(bounded());
    let middle = Chunk::Data(Data {
        tsn: first,
        ssn: Ssn(1),
        user_data: b"neither beginning nor end",
        ..Data::default()
    });
    pair.give_server(to_server(tag, &[middle]));
    assert!(matches!(
        pair.server.events.last(),
        Some(Event::CommunicationLost {
            cause: LostCause::ProtocolViolation { .. },
            ..
        })
    ));
}

#[test]
fn a_cookie_echo_of_any_size_is_harmless() {
    let mut pair = Pair::new();
    // The server has made a cookie before, so it has a key.
    pair.connect();
    pair.run();
    for length in 0..200 {
        let cookie = vec![0; length];
        let echo = Chunk::CookieEcho(CookieEcho { cookie: &cookie });
        pair.give_server(to_server(1, &[echo]));
    }
    assert_eq!(pair.server.endpoint.association_count(), 1);
    assert!(pair.to_client.is_empty());
}
