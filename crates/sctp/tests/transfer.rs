//! User data transfer (RFC 9260 sections 6 and 7), end to end.

mod common;

use std::time::Duration;

use bytes::Bytes;
use common::{Pair, chunk_types, ordered, packet, tag, to_client};
use sctp::packet::{Cause, Chunk, ChunkType, Data, GapAckBlock, Packet, Ssn, Tsn};
use sctp::{EndpointConfig, Event, LostCause, PathState, SendError, SendInfo};

/// A message of that many bytes that tells itself from others.
fn message(number: usize, bytes: usize) -> Bytes {
    (0..bytes)
        .map(|index| (number * 31 + index * 7) as u8)
        .collect::<Vec<u8>>()
        .into()
}

/// The DATA chunks of packets: TSN and user data.
fn data_of(packets: &[Bytes]) -> Vec<(Tsn, usize)> {
    packets
        .iter()
        .flat_map(|packet| Packet::read(packet).unwrap().chunks())
        .filter_map(|chunk| match chunk {
            Ok(Chunk::Data(data)) => Some((data.tsn, data.user_data.len())),
            _ => None,
        })
        .collect()
}

/// Keeps sending `count` messages from the client, whenever there is room, until all are received.
fn transfer(pair: &mut Pair, count: usize, bytes: usize, info: SendInfo) -> Vec<Bytes> {
    let client = pair.client.association();
    let server = pair.server.association();
    let mut next = 0;
    let mut received = Vec::new();
    for _ in 0..1_000_000 {
        while next < count {
            let sent = pair
                .client
                .endpoint
                .send(pair.now, client, info, message(next, bytes));
            match sent {
                Ok(()) => next += 1,
                Err(SendError::BufferFull) => break,
                Err(error) => panic!("{error}"),
            }
        }
        pair.run();
        let news = pair.server.receive_all(pair.now, server);
        received.extend(news.into_iter().map(|message| message.payload));
        if received.len() == count {
            return received;
        }
        pair.collect();
        if pair.to_client.is_empty() && pair.to_server.is_empty() {
            assert!(pair.advance());
        }
    }
    panic!("it never ends");
}

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
    let mut pair = Pair::new();
    pair.establish();
    pair.client_sends(ordered(0), message(0, 4000));
    let packets: Vec<Bytes> = pair.to_server.iter().cloned().collect();
    let sizes: Vec<usize> = packets.iter().map(Bytes::len).collect();
    assert_eq!(sizes, [1472, 1472, 12 + 16 + 1112]);
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
    let held_back = EndpointConfig {
        nodelay: false,
        ..EndpointConfig::default()
    };
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
fn a_lost_chunk_is_retransmitted_fast_and_once() {
    let mut pair = Pair::new();
    let (client, server) = pair.establish();
    transfer(&mut pair, 40, 1400, ordered(0));
    let cwnd = |pair: &Pair| pair.client.endpoint.status(client).unwrap().paths[0].cwnd;
    let before = cwnd(&pair);
    for number in 0..8 {
        pair.client
            .endpoint
            .send(pair.now, client, ordered(0), message(number, 1400))
            .unwrap();
    }
    pair.collect();
    let first = data_of(pair.to_server.make_contiguous())[0].0;
    pair.to_server.pop_front();
    let mark = pair.client.sent.len();
    let begin = pair.now;
    pair.run();
    assert_eq!(pair.now, begin, "no timer had to expire");
    let again = pair.client.sent[mark..]
        .iter()
        .flat_map(|(_, packet)| data_of(std::slice::from_ref(packet)))
        .filter(|(tsn, _)| *tsn == first)
        .count();
    assert_eq!(again, 1);
    let statistics = pair.client.endpoint.statistics();
    assert_eq!(statistics.retransmitted_fast, 1);
    assert_eq!(statistics.retransmitted_by_timeout, 0);
    let pmdcs = 1460;
    let expected = (before / 2).max(4 * pmdcs);
    assert!(cwnd(&pair) >= expected && cwnd(&pair) <= expected + 8 * pmdcs);
    assert_eq!(pair.server.receive_all(pair.now, server).len(), 8);
}

#[test]
fn a_chunk_that_is_lost_again_after_fast_retransmit_waits_for_t3() {
    let mut pair = Pair::new();
    let (client, server) = pair.establish();
    transfer(&mut pair, 40, 1400, ordered(0));
    for number in 0..12 {
        pair.client
            .endpoint
            .send(pair.now, client, ordered(0), message(number, 1400))
            .unwrap();
    }
    pair.collect();
    let first = data_of(pair.to_server.make_contiguous())[0].0;
    let begin = pair.now;
    let mut lost = 0;
    while lost < 2 || !pair.to_server.is_empty() || !pair.to_client.is_empty() {
        if let Some(packet) = pair.to_server.pop_front() {
            if lost < 2
                && data_of(std::slice::from_ref(&packet))
                    .first()
                    .map(|(tsn, _)| *tsn)
                    == Some(first)
            {
                lost += 1;
            } else {
                pair.give_server(packet);
            }
        } else if let Some(packet) = pair.to_client.pop_front() {
            pair.give_client(packet);
        } else {
            panic!("it was retransmitted fast");
        }
    }
    pair.run_for(Duration::from_millis(999));
    assert!(pair.server.receive_all(pair.now, server).is_empty());
    assert_eq!(pair.now - begin, Duration::from_millis(999));
    pair.run_for(Duration::from_millis(1));
    assert_eq!(pair.server.receive_all(pair.now, server).len(), 12);
    let statistics = pair.client.endpoint.statistics();
    assert_eq!(statistics.retransmitted_fast, 1);
    assert_eq!(statistics.retransmitted_by_timeout, 1);
}

#[test]
fn t3_backs_off_as_section_6_3_3_says_until_the_peer_is_given_up() {
    let mut pair = Pair::new();
    let (client, _) = pair.establish();
    let begin = pair.now;
    let mark = pair.client.sent.len();
    pair.client_sends(ordered(0), "into the void");
    pair.run_for_without_delivery(Duration::from_secs(1000));
    let times: Vec<u64> = pair.client.sent[mark..]
        .iter()
        .filter(|(_, packet)| chunk_types(packet) == [ChunkType::DATA])
        .map(|(time, _)| (*time - begin).as_secs())
        .collect();
    assert_eq!(times, [0, 1, 3, 7, 15, 31, 63, 123, 183, 243, 303]);
    let news: Vec<&Event> = pair.client.events[1..].iter().collect();
    assert!(matches!(
        news[..],
        [
            Event::PathStateChanged {
                state: PathState::Inactive,
                ..
            },
            Event::CommunicationLost {
                cause: LostCause::TimedOut,
                unsent: 0,
                unacknowledged: 1,
                ..
            }
        ]
    ));
    assert!(pair.client.endpoint.status(client).is_none());
    assert_eq!(pair.client.endpoint.next_timeout(), None);
}

#[test]
fn after_a_timeout_one_packet_leaves_until_something_is_acknowledged() {
    let mut pair = Pair::new();
    let (client, _) = pair.establish();
    transfer(&mut pair, 40, 1400, ordered(0));
    for number in 0..4 {
        pair.client
            .endpoint
            .send(pair.now, client, ordered(0), message(number, 1400))
            .unwrap();
    }
    pair.collect();
    pair.lose_all();
    let begin = pair.now;
    while pair.to_server.is_empty() {
        pair.to_client.clear();
        assert!(pair.advance());
    }
    assert_eq!(pair.now - begin, Duration::from_secs(1));
    assert_eq!(pair.to_server.len(), 1);
    let status = pair.client.endpoint.status(client).unwrap();
    assert_eq!(status.paths[0].cwnd, 1460);
    assert_eq!(status.paths[0].error_count, 1);
    pair.run();
    let status = pair.client.endpoint.status(client).unwrap();
    assert_eq!(status.outstanding_bytes, 0);
    assert_eq!(status.paths[0].error_count, 0);
}

#[test]
fn a_full_send_buffer_refuses_and_tells_when_there_is_room() {
    let small = EndpointConfig {
        send_buffer: 10_000,
        ..EndpointConfig::default()
    };
    let mut pair = Pair::with(small, EndpointConfig::default());
    let (client, _) = pair.establish();
    let mut sent = 0;
    let full = loop {
        match pair
            .client
            .endpoint
            .send(pair.now, client, ordered(0), message(0, 1000))
        {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((sent, full), (10, SendError::BufferFull));
    assert_eq!(pair.client.events.len(), 1);
    pair.run();
    assert!(matches!(
        pair.client.events.last(),
        Some(Event::Writable { id }) if *id == client
    ));
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
fn a_closed_window_is_probed_without_end_and_opens_at_once() {
    let small = EndpointConfig {
        a_rwnd: 10_000,
        max_message_size: 10_000,
        ..EndpointConfig::default()
    };
    let mut pair = Pair::with(EndpointConfig::default(), small);
    let (client, server) = pair.establish();
    for number in 0..20 {
        pair.client
            .endpoint
            .send(pair.now, client, ordered(0), message(number, 1000))
            .unwrap();
    }
    pair.run_for(Duration::from_millis(500));
    let held = pair.server.endpoint.status(server).unwrap();
    assert!(held.receive_buffer_bytes >= 9000 && held.receive_buffer_bytes <= 10_000);
    let mark = pair.client.sent.len();
    let begin = pair.now;
    pair.run_for(Duration::from_secs(1000));
    let probes: Vec<Duration> = pair.client.sent[mark..]
        .iter()
        .filter(|(_, packet)| chunk_types(packet).contains(&ChunkType::DATA))
        .map(|(time, _)| *time - begin)
        .collect();
    let pauses: Vec<u64> = probes
        .windows(2)
        .map(|two| (two[1] - two[0]).as_secs())
        .collect();
    assert!(
        pauses.starts_with(&[1, 2, 4, 8, 16, 32, 60, 60]),
        "{pauses:?}"
    );
    let status = pair.client.endpoint.status(client).unwrap();
    assert_eq!(
        status.paths[0].error_count, 0,
        "a peer that answers is there"
    );
    assert_eq!(pair.client.events.len(), 1);

    let mut received = Vec::new();
    let begin = pair.now;
    while received.len() < 20 {
        received.extend(pair.server.receive_all(pair.now, server));
        pair.run();
        let is_drained = pair
            .server
            .endpoint
            .status(server)
            .is_some_and(|status| status.receive_buffer_bytes == 0);
        if received.len() < 20 && is_drained {
            assert!(pair.advance());
        }
        assert!(
            pair.now - begin < Duration::from_secs(1),
            "it opens at once"
        );
    }
    for (number, message_received) in received.iter().enumerate() {
        assert_eq!(message_received.payload, message(number, 1000));
    }
}

#[test]
fn a_window_update_that_is_lost_is_found_out_by_a_probe() {
    let small = EndpointConfig {
        a_rwnd: 5000,
        max_message_size: 5000,
        ..EndpointConfig::default()
    };
    let mut pair = Pair::with(EndpointConfig::default(), small);
    let (client, server) = pair.establish();
    for number in 0..10 {
        pair.client
            .endpoint
            .send(pair.now, client, ordered(0), message(number, 1000))
            .unwrap();
    }
    pair.run_for(Duration::from_millis(300));
    let first = pair.server.receive_all(pair.now, server).len();
    pair.collect();
    assert_eq!(pair.to_client.len(), 1, "the window update");
    pair.lose_all();
    pair.run_for(Duration::from_secs(3));
    let second = pair.server.receive_all(pair.now, server).len();
    assert_eq!((first, second), (5, 5));
}

#[test]
fn a_silly_window_is_not_advertised() {
    let small = EndpointConfig {
        a_rwnd: 6000,
        max_message_size: 6000,
        ..EndpointConfig::default()
    };
    let mut pair = Pair::with(EndpointConfig::default(), small);
    let (client, server) = pair.establish();
    for number in 0..10 {
        pair.client
            .endpoint
            .send(pair.now, client, ordered(0), message(number, 1000))
            .unwrap();
    }
    pair.run_for(Duration::from_millis(300));
    let sacks = pair.server.sent.len();
    // One message makes 1000 bytes of room: less than a quarter of the buffer.
    pair.server.endpoint.receive(pair.now, server).unwrap();
    pair.collect();
    assert_eq!(pair.server.sent.len(), sacks);
    pair.server.endpoint.receive(pair.now, server).unwrap();
    pair.collect();
    assert_eq!(pair.server.sent.len(), sacks + 1);
}

#[test]
fn data_on_a_stream_that_does_not_exist_is_acknowledged_and_reported() {
    let mut pair = Pair::new();
    pair.establish();
    let (tag, tsn) = server_tag_and_next_tsn(&mut pair);
    let data = Chunk::Data(Data {
        beginning: true,
        ending: true,
        tsn,
        stream: 4711,
        ssn: Ssn(0),
        user_data: b"where to?",
        ..Data::default()
    });
    pair.give_server(common::to_server(tag, &[data]));
    let answer = pair.to_client.pop_front().unwrap();
    assert_eq!(chunk_types(&answer), [ChunkType::ERROR]);
    let Some(Ok(Chunk::Error(error))) = Packet::read(&answer).unwrap().chunks().next() else {
        panic!("an ERROR was sent");
    };
    assert_eq!(
        error.causes.iter().next(),
        Some(Ok(Cause::InvalidStreamIdentifier { stream: 4711 }))
    );
    pair.give_client(answer);
    assert!(
        pair.client
            .events
            .iter()
            .any(|event| matches!(event, Event::RemoteError { .. }))
    );
    pair.run_for(Duration::from_millis(200));
    let sack = &pair.server.sent.last().unwrap().1;
    let Some(Ok(Chunk::Sack(sack))) = Packet::read(sack).unwrap().chunks().next() else {
        panic!("a SACK was sent");
    };
    assert_eq!(sack.cumulative_tsn_ack, tsn);
}

#[test]
fn data_without_user_data_ends_the_association() {
    let mut pair = Pair::new();
    pair.establish();
    let (tag, tsn) = server_tag_and_next_tsn(&mut pair);
    let data = Chunk::Data(Data {
        beginning: true,
        ending: true,
        tsn,
        ..Data::default()
    });
    pair.give_server(common::to_server(tag, &[data]));
    let answer = pair.to_client.pop_front().unwrap();
    let Some(Ok(Chunk::Abort(abort))) = Packet::read(&answer).unwrap().chunks().next() else {
        panic!("an ABORT was sent");
    };
    assert_eq!(
        abort.causes.iter().next(),
        Some(Ok(Cause::NoUserData { tsn }))
    );
    assert_eq!(pair.server.endpoint.association_count(), 0);
}

#[test]
fn an_acknowledgement_of_what_was_never_sent_ends_the_association() {
    let blocks: [(u32, &[[u8; 4]]); 2] = [(1, &[]), (0, &[[0, 2, 0, 2]])];
    for (ahead, gaps) in blocks {
        let mut pair = Pair::new();
        pair.establish();
        pair.client_sends(ordered(0), "one");
        let client_tsn = data_of(pair.to_server.make_contiguous())[0].0;
        pair.run();
        let tag = tag(&pair.server.sent.last().unwrap().1);
        let mut bytes = to_client(tag, &[]).to_vec();
        bytes.extend_from_slice(&[3, 0, 0, 16 + 4 * gaps.len() as u8]);
        bytes.extend_from_slice(&(client_tsn + ahead).0.to_be_bytes());
        bytes.extend_from_slice(&50_000u32.to_be_bytes());
        bytes.extend_from_slice(&[0, gaps.len() as u8, 0, 0]);
        bytes.extend(gaps.iter().flatten());
        pair.give_client(common::altered(&bytes, |_| {}));
        assert!(matches!(
            pair.client.events.last(),
            Some(Event::CommunicationLost {
                cause: LostCause::ProtocolViolation { .. },
                ..
            })
        ));
    }
}

#[test]
fn unknown_chunks_are_treated_by_their_highest_bits() {
    for (chunk_type, reported, goes_on) in [
        (0x3f, false, false),
        (0x7f, true, false),
        (0xbf, false, true),
        (0xff, true, true),
    ] {
        let mut pair = Pair::new();
        let (_, server) = pair.establish();
        let (tag, tsn) = server_tag_and_next_tsn(&mut pair);
        let mut bytes = common::to_server(tag, &[]).to_vec();
        bytes.extend_from_slice(&[chunk_type, 0, 0, 5, 1, 0, 0, 0]);
        let data = Chunk::Data(Data {
            beginning: true,
            ending: true,
            tsn,
            ssn: Ssn(1),
            user_data: b"after it",
            ..Data::default()
        });
        bytes.extend_from_slice(&common::to_server(tag, &[data])[12..]);
        pair.give_server(common::altered(&bytes, |_| {}));
        let received = pair.server.receive_all(pair.now, server).len();
        assert_eq!(received, usize::from(goes_on), "{chunk_type}");
        let error = pair
            .to_client
            .iter()
            .any(|packet| chunk_types(packet).contains(&ChunkType::ERROR));
        assert_eq!(error, reported, "{chunk_type}");
    }
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

#[test]
fn a_message_larger_than_the_peer_takes_ends_the_association() {
    let small = EndpointConfig {
        max_message_size: 2000,
        ..EndpointConfig::default()
    };
    let mut pair = Pair::with(EndpointConfig::default(), small);
    pair.establish();
    pair.client_sends(ordered(0), message(0, 5000));
    pair.run();
    assert!(matches!(
        pair.client.events.last(),
        Some(Event::CommunicationLost {
            cause: LostCause::AbortedByPeer { .. },
            ..
        })
    ));
}

#[test]
fn heartbeats_watch_an_idle_path() {
    let mut pair = Pair::new();
    let (client, _) = pair.establish();
    pair.run_for(Duration::from_secs(100));
    let heartbeats = pair
        .client
        .sent
        .iter()
        .filter(|(_, packet)| chunk_types(packet) == [ChunkType::HEARTBEAT])
        .count();
    assert_eq!(heartbeats, 3);
    let status = pair.client.endpoint.status(client).unwrap();
    assert_eq!(status.paths[0].error_count, 0);

    // Then the peer is gone.
    pair.run_for_without_delivery(Duration::from_secs(100));
    let status = pair.client.endpoint.status(client).unwrap();
    assert!(status.paths[0].error_count >= 2);
    pair.run_for(Duration::from_secs(100));
    let status = pair.client.endpoint.status(client).unwrap();
    assert_eq!(status.paths[0].error_count, 0);
    pair.run_for_without_delivery(Duration::from_secs(3600));
    let lost = |host: &common::Host| {
        host.events.iter().any(|event| {
            matches!(
                event,
                Event::CommunicationLost {
                    cause: LostCause::TimedOut,
                    ..
                }
            )
        })
    };
    assert!(lost(&pair.client) && lost(&pair.server));
}

#[test]
fn a_heartbeat_comes_back_as_it_was() {
    let mut pair = Pair::new();
    pair.establish();
    let (tag, _) = server_tag_and_next_tsn(&mut pair);
    let mut bytes = common::to_server(tag, &[]).to_vec();
    // Heartbeat Info of three bytes, and a parameter that nobody knows.
    bytes.extend_from_slice(&[
        4, 0, 0, 20, 0, 1, 0, 7, 9, 8, 7, 0, 0xc0, 9, 0, 8, 1, 2, 3, 4,
    ]);
    pair.give_server(common::altered(&bytes, |_| {}));
    let answer = pair.to_client.pop_front().unwrap();
    assert_eq!(chunk_types(&answer), [ChunkType::HEARTBEAT_ACK]);
    assert_eq!(answer[14..32], bytes[14..32]);
}

#[test]
fn packets_for_other_ports_and_with_wrong_checksums_are_dropped() {
    let mut pair = Pair::new();
    pair.establish();
    let (tag, _) = server_tag_and_next_tsn(&mut pair);
    let sound = common::to_server(tag, &[Chunk::CookieAck]);
    let mut wrong = sound.to_vec();
    wrong[8] ^= 1;
    pair.give_server(wrong.into());
    pair.give_server(packet(common::CLIENT_PORT, 7, tag, &[Chunk::CookieAck]));
    pair.give_server(packet(0, common::SERVER_PORT, tag, &[Chunk::CookieAck]));
    pair.give_server(sound.slice(..11));
    pair.give_server(sound.slice(..12));
    assert!(pair.to_client.is_empty());
    let drops = pair.server.endpoint.statistics().drops;
    assert_eq!((drops.checksum, drops.port, drops.malformed), (2, 2, 1));
}

/// The verification tag of packets to the server, and the TSN that its client would use next
/// after the one message that this sends.
fn server_tag_and_next_tsn(pair: &mut Pair) -> (u32, Tsn) {
    pair.client_sends(ordered(0), "mark");
    let packet = pair.to_server.front().unwrap().clone();
    let tsn = data_of(std::slice::from_ref(&packet))[0].0;
    pair.run();
    let server = pair.server.association();
    pair.server.receive_all(pair.now, server);
    pair.collect();
    pair.run();
    (tag(&packet), tsn.next())
}

#[test]
fn a_chunk_that_the_path_has_become_too_small_for_is_still_retransmitted() {
    let mut pair = Pair::new();
    let (client, server) = pair.establish();
    // The server speaks raw IP for a while: its path has room for eight bytes more.
    let raw = sctp::PathAddress {
        encapsulation_port: None,
        ..pair.server.path()
    };
    let tag = tag(&pair.server.sent.last().unwrap().1);
    let nothing = to_client(tag, &[Chunk::CookieAck]);
    pair.client
        .endpoint
        .handle_packet(pair.now, raw, nothing.clone());
    pair.client_sends(ordered(0), message(0, 1452));
    assert_eq!(pair.to_server.pop_front().unwrap().len(), 1480);
    pair.give_client(nothing);
    assert_eq!(
        pair.client.endpoint.status(client).unwrap().paths[0].mtu,
        1472
    );
    pair.run_for(Duration::from_secs(2));
    assert_eq!(pair.server.receive_all(pair.now, server).len(), 1);
}
