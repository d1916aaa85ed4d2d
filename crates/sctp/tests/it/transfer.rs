//! User data transfer (RFC 9260 section 6), end to end: sizes, order, bundling, acknowledgement.

use std::time::Duration;

use crate::common::{Pair, chunk_types, message, ordered, transfer};
use bytes::Bytes;
use sctp::packet::{Chunk, ChunkType, GapAckBlock, Packet};
use sctp::{EndpointConfig, SendError, SendInfo};

#[test]
fn messages_of_all_sizes_arrive_whole() {
    let mut pair = Pair::new();
    let (client, server) = pair.establish();
    for bytes in [1, 2, 3, 4, 1443, 1444, 1445, 2888, 2889, 100_000, 262_144] {
        pair.client
            .endpoint
            .send(pair.now, client, ordered(1), message(bytes, bytes))
            .unwrap();
        pair.run_for(Duration::from_secs(1));
        let received = pair.server.receive_all(pair.now, server);
        assert_eq!(received.len(), 1, "{bytes}");
        assert_eq!(received[0].payload, message(bytes, bytes));
    }
    let large = pair
        .client
        .endpoint
        .send(pair.now, client, ordered(1), message(0, 262_145));
    assert_eq!(large, Err(SendError::TooLarge));
}

#[test]
fn fragments_fill_packets_to_the_mtu_and_no_further() {
    assert_eq!(packets_of(3 * 1444), [1472; 3]);
}

#[test]
fn fragments_of_a_message_are_of_one_size() {
    assert_eq!(packets_of(4000), [12 + 16 + 1336; 3]);
    assert_eq!(packets_of(1445), [12 + 16 + 724; 2]);
}

/// The sizes of the packets that a message leaves in.
fn packets_of(bytes: usize) -> Vec<usize> {
    let mut pair = Pair::new();
    pair.establish();
    pair.client_sends(ordered(0), message(0, bytes));
    pair.to_server.iter().map(Bytes::len).collect()
}

#[test]
fn a_megabyte_and_more_arrives_in_order() {
    let mut pair = Pair::new();
    pair.establish();
    let received = transfer(&mut pair, 5000, 1000, ordered(3));
    for (number, payload) in received.iter().enumerate() {
        assert_eq!(payload, &message(number, 1000), "{number}");
    }
    let statistics = pair.client.endpoint.statistics();
    assert_eq!(statistics.retransmitted_by_timeout, 0);
    assert_eq!(statistics.retransmitted_fast, 0);
}

#[test]
fn stream_sequence_numbers_go_around() {
    let mut pair = Pair::new();
    pair.establish();
    let received = transfer(&mut pair, 70_000, 2, ordered(0));
    for (number, payload) in received.iter().enumerate() {
        assert_eq!(payload, &message(number, 2), "{number}");
    }
}

#[test]
fn transmission_sequence_numbers_go_around() {
    // The Initial TSN is random: some seed brings it near the end of the circle.
    let config = EndpointConfig::default();
    let initial_tsn = |seed| {
        let mut pair = Pair::seeded(config.clone(), config.clone(), seed);
        pair.connect();
        let init = pair.to_server.pop_front().unwrap();
        match Packet::read(&init).unwrap().chunks().next() {
            Some(Ok(Chunk::Init(init))) => init.initial_tsn.0,
            _ => panic!("an INIT was sent"),
        }
    };
    let near = u32::MAX - 200_000;
    let seed = (0..).find(|seed| initial_tsn(*seed) > near).unwrap();
    let count = (u32::MAX - initial_tsn(seed)) as usize + 1000;
    let mut pair = Pair::seeded(config.clone(), config.clone(), seed);
    pair.establish();
    let received = transfer(&mut pair, count, 2, ordered(0));
    for (number, payload) in received.iter().enumerate() {
        assert_eq!(payload, &message(number, 2), "{number}");
    }
}

#[test]
fn a_loss_holds_up_its_stream_only_and_unordered_messages_not_at_all() {
    let mut pair = Pair::new();
    let (client, server) = pair.establish();
    let unordered = SendInfo {
        unordered: true,
        ..ordered(1)
    };
    for (number, info) in [ordered(1), ordered(1), ordered(2), unordered]
        .into_iter()
        .enumerate()
    {
        pair.client
            .endpoint
            .send(pair.now, client, info, message(number, 1200))
            .unwrap();
    }
    pair.collect();
    assert_eq!(pair.to_server.len(), 4);
    pair.to_server.pop_front();
    while let Some(packet) = pair.to_server.pop_front() {
        pair.give_server(packet);
    }
    let early: Vec<Bytes> = pair
        .server
        .receive_all(pair.now, server)
        .into_iter()
        .map(|message| message.payload)
        .collect();
    assert_eq!(early, [message(2, 1200), message(3, 1200)]);
    pair.run_for(Duration::from_secs(2));
    let late: Vec<Bytes> = pair
        .server
        .receive_all(pair.now, server)
        .into_iter()
        .map(|message| message.payload)
        .collect();
    assert_eq!(late, [message(0, 1200), message(1, 1200)]);
}

#[test]
fn small_messages_share_a_packet() {
    let mut pair = Pair::new();
    let (client, _) = pair.establish();
    for number in 0..30 {
        pair.client
            .endpoint
            .send(pair.now, client, ordered(0), message(number, 100))
            .unwrap();
    }
    pair.collect();
    // 12 chunks of 116 bytes fit into 1460.
    let chunks: Vec<usize> = pair
        .to_server
        .iter()
        .map(|packet| chunk_types(packet).len())
        .collect();
    assert_eq!(chunks, [12, 12, 6]);
}

#[test]
fn small_messages_wait_for_each_other_only_when_told_to() {
    let held_back = EndpointConfig::default().nodelay(false);
    for (config, packets) in [(held_back, 1), (EndpointConfig::default(), 3)] {
        let mut pair = Pair::with(config, EndpointConfig::default());
        pair.establish();
        for number in 0..3 {
            pair.client_sends(ordered(0), message(number, 100));
        }
        assert_eq!(pair.to_server.len(), packets);
        pair.run();
        pair.run_for(Duration::from_secs(1));
        let server = pair.server.association();
        assert_eq!(pair.server.receive_all(pair.now, server).len(), 3);
    }
}

#[test]
fn sacks_are_delayed_but_not_for_long() {
    let mut pair = Pair::new();
    pair.establish();
    pair.client_sends(ordered(0), "first");
    pair.run();
    assert_eq!(
        chunk_types(&pair.server.sent.last().unwrap().1),
        [ChunkType::SACK]
    );
    let sacks = pair.server.sent.len();
    pair.client_sends(ordered(0), "second");
    pair.run();
    assert_eq!(pair.server.sent.len(), sacks, "delayed");
    let begin = pair.now;
    pair.advance();
    assert_eq!(pair.now - begin, Duration::from_millis(200));
    assert_eq!(pair.server.sent.len(), sacks + 1);
    pair.run();
    for text in ["third", "fourth"] {
        pair.client_sends(ordered(0), text);
    }
    pair.run();
    assert_eq!(pair.server.sent.len(), sacks + 2, "every second packet");
    let immediate = SendInfo {
        sack_immediately: true,
        ..ordered(0)
    };
    pair.client_sends(immediate, "fifth");
    pair.run();
    assert_eq!(pair.server.sent.len(), sacks + 3, "asked for");
}

#[test]
fn a_sack_rides_on_data_that_goes_the_other_way() {
    let mut pair = Pair::new();
    let (_, server) = pair.establish();
    for text in ["first", "second"] {
        pair.client_sends(ordered(0), text);
        pair.run();
    }
    pair.server
        .endpoint
        .send(pair.now, server, ordered(0), Bytes::from_static(b"answer"))
        .unwrap();
    pair.collect();
    let packet = pair.to_client.pop_front().unwrap();
    assert_eq!(chunk_types(&packet), [ChunkType::SACK, ChunkType::DATA]);
}

#[test]
fn send_refuses_what_cannot_be_sent() {
    let mut pair = Pair::new();
    let (client, _) = pair.establish();
    let mut send = |info, payload| pair.client.endpoint.send(pair.now, client, info, payload);
    assert_eq!(send(ordered(0), Bytes::new()), Err(SendError::Empty));
    assert_eq!(
        send(ordered(10), message(0, 1)),
        Err(SendError::InvalidStream)
    );
    pair.client.endpoint.shutdown(pair.now, client).unwrap();
    assert_eq!(
        pair.client
            .endpoint
            .send(pair.now, client, ordered(0), message(0, 1)),
        Err(SendError::ShuttingDown)
    );
    pair.run();
    assert_eq!(
        pair.client
            .endpoint
            .send(pair.now, client, ordered(0), message(0, 1)),
        Err(SendError::UnknownAssociation)
    );
}

#[test]
fn duplicates_are_acknowledged_at_once_and_delivered_once() {
    let mut pair = Pair::new();
    let (_, server) = pair.establish();
    pair.client_sends(ordered(0), "first");
    pair.run();
    pair.client_sends(ordered(0), "second");
    let packet = pair.to_server.pop_front().unwrap();
    pair.give_server(packet.clone());
    assert!(pair.to_client.is_empty());
    pair.give_server(packet);
    let sack = pair.to_client.pop_front().unwrap();
    let Some(Ok(Chunk::Sack(sack))) = Packet::read(&sack).unwrap().chunks().next() else {
        panic!("a SACK was sent");
    };
    assert_eq!(sack.duplicate_tsns.len(), 1);
    assert_eq!(pair.server.receive_all(pair.now, server).len(), 2);
    assert_eq!(pair.server.endpoint.statistics().duplicates_received, 1);
}

#[test]
fn gaps_are_reported_at_once() {
    let mut pair = Pair::new();
    let (client, _) = pair.establish();
    pair.client_sends(ordered(0), "first");
    pair.run();
    for number in 0..3 {
        pair.client
            .endpoint
            .send(pair.now, client, ordered(0), message(number, 1400))
            .unwrap();
    }
    pair.collect();
    pair.to_server.pop_front();
    let packet = pair.to_server.pop_front().unwrap();
    pair.give_server(packet);
    let sack = pair.to_client.pop_front().unwrap();
    let Some(Ok(Chunk::Sack(sack))) = Packet::read(&sack).unwrap().chunks().next() else {
        panic!("a SACK was sent");
    };
    let gaps: Vec<GapAckBlock> = sack.gap_ack_blocks.iter().collect();
    assert_eq!(gaps, [GapAckBlock { start: 2, end: 2 }]);
}
