//! Loss: retransmission, timers, and the end of patience (RFC 9260 sections 6.3, 7.2 and 8).

use std::time::Duration;

use crate::common::{self, Pair, chunk_types, data_of, message, ordered, tag, to_client, transfer};
use sctp::packet::{Chunk, ChunkType, Packet};
use sctp::{EndpointConfig, Event, LostCause, PathState};

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
    assert_eq!(statistics.t3_expiries, 1);
    assert_eq!(statistics.t3_waited, Duration::from_secs(1));
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
        .filter(|(_, packet)| chunk_types(packet).contains(&ChunkType::DATA))
        .map(|(time, _)| (*time - begin).as_secs())
        .collect();
    assert_eq!(times, [0, 1, 3, 7, 15, 31, 63, 123, 183, 243, 303]);
    let statistics = pair.client.endpoint.statistics();
    // The last of them, 60 s after the last packet, was the one too many.
    assert_eq!(statistics.t3_expiries, 11);
    assert_eq!(statistics.t3_waited, Duration::from_secs(363));
    let news: Vec<&Event> = pair.client.events[1..].iter().collect();
    assert!(matches!(
        news[..],
        [
            Event::PathStateChanged {
                state: PathState::PotentiallyFailed,
                ..
            },
            Event::PathStateChanged {
                state: PathState::Inactive,
                ..
            },
            Event::SendFailed { was_sent: true, .. },
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

#[test]
fn a_heartbeat_beside_a_retransmission_ends_the_back_off() {
    let mut pair = Pair::new();
    let (client, _) = pair.establish();
    pair.client_sends(ordered(0), message(0, 600));
    pair.run_for_without_delivery(Duration::from_secs(6));
    let status = pair.client.endpoint.status(client).unwrap();
    assert_eq!(status.paths[0].rto, Duration::from_secs(4));
    let errors = status.paths[0].error_count;
    assert_eq!(errors, 2, "the lost HEARTBEATs are no errors of their own");
    while pair.to_server.is_empty() {
        assert!(pair.advance());
    }
    let packet = pair.to_server.pop_front().unwrap();
    assert_eq!(
        chunk_types(&packet),
        [ChunkType::HEARTBEAT, ChunkType::DATA]
    );
    pair.give_server(packet);
    let answer = pair.to_client.pop_front().unwrap();
    assert_eq!(
        chunk_types(&answer),
        [ChunkType::HEARTBEAT_ACK, ChunkType::SACK]
    );
    assert!(pair.to_client.is_empty());
    pair.give_client(answer);
    let status = pair.client.endpoint.status(client).unwrap();
    assert_eq!(status.paths[0].rto, Duration::from_secs(1));
    assert_eq!(status.paths[0].error_count, 0);
    // It goes with the first packet alone.
    pair.client_sends(ordered(0), message(1, 600));
    let packet = pair.to_server.pop_front().unwrap();
    assert_eq!(chunk_types(&packet), [ChunkType::DATA]);
}

#[test]
fn a_heartbeat_beside_a_retransmission_costs_no_packet() {
    let disabled = EndpointConfig::default().heartbeats(false);
    // One chunk fills its packet; and who wants no heartbeats gets none.
    for (config, bytes) in [(EndpointConfig::default(), 1440), (disabled, 600)] {
        let mut pair = Pair::with(config, EndpointConfig::default());
        pair.establish();
        let mark = pair.client.sent.len();
        pair.client_sends(ordered(0), message(0, bytes));
        pair.client_sends(ordered(0), message(1, bytes));
        pair.run_for_without_delivery(Duration::from_secs(1));
        pair.run_for(Duration::from_secs(10));
        for (_, packet) in &pair.client.sent[mark..] {
            assert!(!chunk_types(packet).contains(&ChunkType::HEARTBEAT));
        }
    }
}

#[test]
fn a_sack_rides_on_a_retransmission_and_asks_for_one_at_once() {
    let mut pair = Pair::new();
    let (_, server) = pair.establish();
    // From the second on, packets are acknowledged with delay.
    pair.client_sends(ordered(0), "first");
    pair.run();
    pair.server
        .endpoint
        .send(pair.now, server, ordered(0), message(0, 600))
        .unwrap();
    pair.collect();
    pair.lose_all();
    pair.run_for_without_delivery(Duration::from_millis(900));
    pair.client_sends(ordered(0), "second");
    let packet = pair.to_server.pop_front().unwrap();
    pair.give_server(packet);
    assert!(pair.to_client.is_empty(), "the SACK is delayed");
    while pair.to_client.is_empty() {
        assert!(pair.advance());
    }
    let packet = pair.to_client.pop_front().unwrap();
    assert_eq!(
        chunk_types(&packet),
        [ChunkType::SACK, ChunkType::HEARTBEAT, ChunkType::DATA]
    );
    let asks = Packet::read(&packet)
        .unwrap()
        .chunks()
        .any(|chunk| matches!(chunk, Ok(Chunk::Data(data)) if data.immediate));
    assert!(asks);
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
