//! Flow control: send buffer, receive window, zero window probes (RFC 9260 sections 6.1 and 6.2).

use std::time::Duration;

use crate::common::{Pair, chunk_types, message, ordered, transfer};
use sctp::packet::ChunkType;
use sctp::{EndpointConfig, Event, SendError};

#[test]
fn a_full_send_buffer_refuses_and_tells_when_there_is_room() {
    let small = EndpointConfig::default().send_buffer(10_000);
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
fn a_closed_window_is_probed_without_end_and_opens_at_once() {
    let small = EndpointConfig::default()
        .a_rwnd(10_000)
        .max_message_size(10_000);
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

/// Section 6.1 A: what counts is how many probes in a row get no answer.
#[test]
fn lost_probes_count_until_one_is_answered() {
    let small = EndpointConfig::default()
        .a_rwnd(10_000)
        .max_message_size(10_000);
    let mut pair = Pair::with(EndpointConfig::default(), small);
    let (client, server) = pair.establish();
    for number in 0..20 {
        pair.client
            .endpoint
            .send(pair.now, client, ordered(0), message(number, 1000))
            .unwrap();
    }
    pair.run_for(Duration::from_secs(200));
    let errors = |pair: &Pair| pair.client.endpoint.status(client).unwrap().paths[0].error_count;
    for round in 0..20 {
        pair.run_for_without_delivery(Duration::from_secs(5 * 60));
        assert!((4..=5).contains(&errors(&pair)), "round {round}");
        // So long that the server hears of its HEARTBEATs, too.
        pair.run_for(Duration::from_secs(200));
        assert_eq!(errors(&pair), 0, "round {round}");
    }
    pair.server.receive_all(pair.now, server);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.server.receive_all(pair.now, server).len(), 10);

    // Without any answer the peer is given up as ever.
    pair.client
        .endpoint
        .send(pair.now, client, ordered(0), message(0, 1000))
        .unwrap();
    pair.run_for_without_delivery(Duration::from_secs(3600));
    assert!(pair.client.endpoint.status(client).is_none());
}

#[test]
fn a_window_update_that_is_lost_is_found_out_by_a_probe() {
    let small = EndpointConfig::default()
        .a_rwnd(5000)
        .max_message_size(5000);
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
    let small = EndpointConfig::default()
        .a_rwnd(6000)
        .max_message_size(6000);
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
fn a_pause_costs_half_the_congestion_window_once_an_rto_whatever_else_is_sent() {
    let mut pair = Pair::new();
    let (client, server) = pair.establish();
    transfer(&mut pair, 2000, 1400, ordered(0));
    pair.run_for(Duration::from_millis(300));
    let path = |pair: &Pair| pair.client.endpoint.status(client).unwrap().paths[0].clone();
    let before = path(&pair).cwnd;
    assert!(before > 50_000, "{before}");
    pair.run_for(path(&pair).rto);
    for number in 0..8 {
        let payload = message(number, 10);
        pair.server
            .endpoint
            .send(pair.now, server, ordered(0), payload)
            .unwrap();
        pair.run();
    }
    pair.run_for(Duration::from_millis(250));
    assert_eq!(pair.client.receive_all(pair.now, client).len(), 8);
    assert_eq!(path(&pair).cwnd, before, "SACKs are no data");
    pair.client_sends(ordered(0), message(0, 10));
    assert_eq!(path(&pair).cwnd, before / 2);
    pair.client_sends(ordered(0), message(0, 10));
    assert_eq!(path(&pair).cwnd, before / 2);
}
