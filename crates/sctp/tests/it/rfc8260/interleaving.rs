//! Section 2: I-DATA between two endpoints.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use sctp::packet::{Chunk, ChunkType, Fragment, IData, Packet};
use sctp::{
    EndpointConfig, Event, PrPolicy, ReConfigurationPolicy, ReceivedMessage, SendInfo, StreamReset,
    StreamScheduler,
};

use super::{connected, interleaving, partially_reliable};
use crate::common::{CLIENT_PORT, Host, Pair, message, ordered, transfer};
use crate::rfc9260::scripted::{chunks, types};

/// The I-DATA chunks in packets.
fn i_data(packets: &[Bytes]) -> Vec<IData<'_>> {
    let chunks = packets.iter().flat_map(chunks);
    chunks
        .filter_map(|chunk| match chunk {
            Chunk::IData(data) => Some(data),
            _ => None,
        })
        .collect()
}

/// What the client has put on the wire.
fn sent(pair: &Pair) -> Vec<Bytes> {
    pair.client
        .sent
        .iter()
        .map(|(_, packet)| packet.clone())
        .collect()
}

fn has(packets: &[Bytes], chunk_type: ChunkType) -> bool {
    types(packets).concat().contains(&chunk_type)
}

#[test]
fn i_data_is_used_where_both_sides_offer_it_and_data_elsewhere() {
    let without = EndpointConfig::default();
    for (client, server, agreed) in [
        (interleaving(), interleaving(), true),
        (interleaving(), without.clone(), false),
        (without.clone(), interleaving(), false),
        (without.clone(), without, false),
    ] {
        let mut pair = Pair::with(client, server);
        let (id, server) = pair.establish();
        let received = transfer(&mut pair, 5, 5000, ordered(1));
        assert_eq!(received.len(), 5);
        let packets = sent(&pair);
        assert_eq!(has(&packets, ChunkType::I_DATA), agreed);
        assert_eq!(has(&packets, ChunkType::DATA), !agreed);
        for status in [
            pair.client.endpoint.status(id),
            pair.server.endpoint.status(server),
        ] {
            assert_eq!(status.unwrap().extensions.interleaving, agreed);
        }
    }
}

#[test]
fn fragments_are_numbered_and_the_first_has_the_ppid() {
    let config = interleaving().stream_scheduler(StreamScheduler::RoundRobin);
    let mut pair = Pair::with(config.clone(), config);
    pair.establish();
    for (unordered, bytes) in [(false, 3000), (true, 10), (false, 10), (true, 3000)] {
        let info = SendInfo {
            ppid: 77,
            unordered,
            ..ordered(2)
        };
        pair.client_sends(info, message(0, bytes));
    }
    pair.run();
    let packets = sent(&pair);
    let seen: Vec<_> = i_data(&packets)
        .iter()
        .map(|data| {
            let number = match data.fragment {
                Fragment::First { ppid } => {
                    assert_eq!(ppid, 77);
                    0
                }
                Fragment::Later { fsn } => fsn,
            };
            assert_eq!(data.stream, 2);
            (data.unordered, data.mid.0, number, data.ending)
        })
        .collect();
    assert_eq!(
        seen,
        [
            (false, 0, 0, false),
            (false, 0, 1, false),
            (false, 0, 2, true),
            // Unordered messages are counted by themselves.
            (true, 0, 0, true),
            (false, 1, 0, true),
            (true, 1, 0, false),
            (true, 1, 1, false),
            (true, 1, 2, true),
        ]
    );
}

#[test]
fn chunks_fill_packets_to_the_mtu_and_no_further() {
    let mut pair = Pair::with(interleaving().mtu(1000), interleaving());
    pair.establish();
    transfer(&mut pair, 3, 9400, ordered(0));
    let largest = sent(&pair).iter().map(Bytes::len).max().unwrap();
    // IPv4 and UDP headers take 28 bytes, the common header 12 and that of I-DATA 20.
    assert_eq!(largest, 972);
}

#[test]
fn what_is_lost_is_sent_again_as_it_was() {
    let mut pair = Pair::with(interleaving(), interleaving());
    let (_, server) = pair.establish();
    pair.client_sends(ordered(3), message(1, 4000));
    let first: Vec<Bytes> = pair.to_server.drain(..).collect();
    assert!(pair.advance());
    pair.run();
    let received = pair.server.receive_all(pair.now, server);
    assert_eq!(received[0].payload, message(1, 4000));
    let packets = sent(&pair);
    let second: Vec<_> = i_data(&packets)
        .into_iter()
        .skip(i_data(&first).len())
        .collect();
    for lost in i_data(&first) {
        let again = IData {
            immediate: true,
            ..lost
        };
        assert!(second.contains(&again), "{lost:?}");
    }
}

/// Puts the parts of messages together, by stream.
fn whole(received: Vec<ReceivedMessage>) -> Vec<(u16, Vec<u8>)> {
    let mut begun: BTreeMap<u16, Vec<u8>> = BTreeMap::new();
    let mut whole = Vec::new();
    for part in received {
        let message = begun.entry(part.stream).or_default();
        message.extend_from_slice(&part.payload);
        if part.end_of_record {
            whole.push((part.stream, std::mem::take(message)));
        }
    }
    assert!(begun.values().all(Vec::is_empty));
    whole
}

/// Ten messages of 256 KiB arrive at a time, and there is room for four: without partial delivery none
/// of them would ever end.
#[test]
fn large_messages_of_many_streams_get_through_a_smaller_window() {
    const BYTES: usize = 1 << 18;
    let config = interleaving()
        .stream_scheduler(StreamScheduler::RoundRobin)
        .send_buffer(1 << 23)
        .max_message_size(BYTES);
    let mut pair = Pair::with(config.clone(), config);
    let (_, server) = pair.establish();
    for stream in 0..10 {
        pair.client_sends(ordered(stream), message(stream.into(), BYTES));
    }
    let mut received = Vec::new();
    for _ in 0..100_000 {
        pair.run();
        received.extend(pair.server.receive_all(pair.now, server));
        if received.iter().filter(|part| part.end_of_record).count() == 10 {
            break;
        }
        pair.collect();
        if pair.to_client.is_empty() && pair.to_server.is_empty() {
            assert!(pair.advance());
        }
    }
    let parts = received.len();
    assert!(parts > 10, "there was no room for them whole");
    let mut whole = whole(received);
    whole.sort();
    for (stream, payload) in whole {
        assert_eq!(payload, message(stream.into(), BYTES));
    }
}

/// Where there is room, messages arrive whole.
#[test]
fn interleaved_messages_arrive_whole_where_there_is_room() {
    let config = interleaving().stream_scheduler(StreamScheduler::RoundRobin);
    let mut pair = Pair::with(config.clone(), config);
    let (_, server) = pair.establish();
    for stream in 0..10 {
        pair.client_sends(ordered(stream), message(stream.into(), 50_000));
    }
    pair.run();
    let received = pair.server.receive_all(pair.now, server);
    assert_eq!(received.len(), 10);
    for one in received {
        assert_eq!(one.payload, message(one.stream.into(), 50_000));
    }
}

/// RFC 6458 section 8.1.20, level 2.
#[test]
fn parts_of_messages_of_several_streams_come_by_turns_and_one_stream_has_one_at_a_time() {
    let config = interleaving()
        .stream_scheduler(StreamScheduler::RoundRobin)
        .partial_delivery_point(5000);
    let mut pair = Pair::with(config.clone(), config);
    let (_, server) = pair.establish();
    for stream in [1, 2] {
        pair.client_sends(ordered(stream), message(stream.into(), 60_000));
        let unordered = SendInfo {
            unordered: true,
            ..ordered(stream)
        };
        pair.client_sends(unordered, message(stream.into(), 60_000));
    }
    let mut received = Vec::new();
    for _ in 0..10_000 {
        pair.collect();
        if let Some(packet) = pair.to_server.pop_front() {
            pair.give_server(packet);
        } else if let Some(packet) = pair.to_client.pop_front() {
            pair.give_client(packet);
        } else {
            break;
        }
        received.extend(pair.server.receive_all(pair.now, server));
    }
    let order: Vec<u16> = received.iter().map(|part| part.stream).collect();
    let changes = order.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(changes > 10, "{order:?}");
    for (stream, payload) in whole(received) {
        assert_eq!(payload, message(stream.into(), 60_000));
    }
}

#[test]
fn a_restart_begins_anew_with_what_is_agreed_on_then() {
    let mut pair = Pair::with(interleaving(), interleaving());
    pair.establish();
    assert_eq!(transfer(&mut pair, 3, 5000, ordered(1)).len(), 3);
    pair.client = Host::new(CLIENT_PORT, [192, 0, 2, 1], EndpointConfig::default(), 99);
    pair.establish();
    let received = transfer(&mut pair, 3, 5000, ordered(1));
    assert_eq!(received.len(), 3);
    let packets = sent(&pair);
    assert!(has(&packets, ChunkType::DATA) && !has(&packets, ChunkType::I_DATA));
}

/// Section 2.3.1.
#[test]
fn abandoned_messages_are_skipped_by_i_forward_tsn() {
    let config = partially_reliable();
    let mut pair = Pair::with(config.clone(), config);
    let (_, server) = pair.establish();
    for unordered in [false, true] {
        let info = SendInfo {
            unordered,
            pr_policy: Some(PrPolicy::LimitedRetransmissions(0)),
            ..ordered(4)
        };
        pair.client_sends(info, message(1, 4000));
    }
    pair.lose_all();
    pair.client_sends(ordered(4), message(2, 50));
    pair.lose_all();
    for _ in 0..20 {
        pair.advance();
        pair.run();
    }
    let received = pair.server.receive_all(pair.now, server);
    let payloads: Vec<_> = received.iter().map(|one| one.payload.clone()).collect();
    assert_eq!(payloads, [message(2, 50)]);
    let packets = sent(&pair);
    assert!(!has(&packets, ChunkType::FORWARD_TSN));
    let skipped: Vec<_> = packets
        .iter()
        .flat_map(chunks)
        .filter_map(|chunk| match chunk {
            Chunk::IForwardTsn(chunk) => Some(chunk.skipped.iter().collect::<Vec<_>>()),
            _ => None,
        })
        .next_back()
        .expect("it was sent");
    let seen: Vec<_> = skipped
        .iter()
        .map(|one| (one.stream, one.unordered, one.mid.0))
        .collect();
    assert_eq!(seen, [(4, false, 0), (4, true, 0)]);
    let failed = pair
        .client
        .events
        .iter()
        .filter(|event| matches!(event, Event::SendFailed { .. }));
    assert_eq!(failed.count(), 2);
}

/// Section 3.3, for what is sent again, too.
#[test]
fn a_packet_of_round_robin_per_packet_has_chunks_of_one_stream() {
    for config in [interleaving(), EndpointConfig::default()] {
        let config = config.stream_scheduler(StreamScheduler::RoundRobinPerPacket);
        let mut pair = Pair::with(config.clone(), config);
        let (id, server) = pair.establish();
        for number in 0..30 {
            let info = ordered(number % 3);
            let payload = message(number.into(), 300);
            let sent = pair.client.endpoint.send(pair.now, id, info, payload);
            assert_eq!(sent, Ok(()));
        }
        pair.collect();
        pair.lose_all();
        pair.run_for(Duration::from_secs(20));
        assert_eq!(pair.server.receive_all(pair.now, server).len(), 30);
        let mut bundled = 0;
        for packet in sent(&pair) {
            let streams: Vec<u16> = Packet::read(&packet)
                .unwrap()
                .chunks()
                .filter_map(|chunk| match chunk {
                    Ok(Chunk::Data(data)) => Some(data.stream),
                    Ok(Chunk::IData(data)) => Some(data.stream),
                    _ => None,
                })
                .collect();
            bundled += usize::from(streams.len() > 1);
            assert!(
                streams.windows(2).all(|two| two[0] == two[1]),
                "{streams:?}"
            );
        }
        assert!(bundled > 3);
    }
}

/// Section 4.1.
#[test]
fn the_user_sees_the_low_16_bits_of_the_mid() {
    let mut scripted = connected(interleaving(), &[ChunkType::I_DATA]);
    for (number, mid) in (0..65_540).enumerate() {
        let payload = [1];
        scripted.give(&[Chunk::IData(super::message(number as u32, mid, &payload))]);
        scripted.take();
        let received = scripted.receive();
        assert_eq!(received[0].ssn, mid as u16);
    }
}

/// Section 2.3.2.
#[test]
fn a_stream_reset_begins_anew_with_both_counters() {
    let config = EndpointConfig::default()
        .extensions("idata,reconf".parse().expect("their names"))
        .re_configuration_policy(ReConfigurationPolicy::GRANT_ALL);
    let mut pair = Pair::with(config.clone(), config);
    let (id, server) = pair.establish();
    for round in 0..2 {
        for (unordered, count) in [(false, 3), (true, 2)] {
            for number in 0..count {
                let info = SendInfo {
                    unordered,
                    ..ordered(1)
                };
                pair.client_sends(info, message(number, 2000));
            }
        }
        pair.run_for(Duration::from_secs(1));
        assert_eq!(pair.server.receive_all(pair.now, server).len(), 5);
        let packets = sent(&pair);
        let numbers: Vec<_> = i_data(&packets)
            .iter()
            .filter(|data| data.ending)
            .map(|data| (data.unordered, data.mid.0))
            .skip(5 * round)
            .collect();
        let expected = [(false, 0), (false, 1), (false, 2), (true, 0), (true, 1)];
        assert_eq!(numbers, expected);
        let reset = StreamReset {
            outgoing: Some(vec![1]),
            incoming: None,
        };
        let endpoint = &mut pair.client.endpoint;
        endpoint.reset_streams(pair.now, id, reset).unwrap();
        pair.run_for(Duration::from_secs(1));
    }
}
