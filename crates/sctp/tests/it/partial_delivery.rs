//! Messages delivered in parts (RFC 9260 sections 6.9 and 11.1.7; RFC 6458 sections 6.1.7, 8.1.20
//! and 8.1.21).

use crate::common::{Pair, message, ordered};
use bytes::Bytes;
use sctp::packet::{Chunk, Packet};
use sctp::{AssociationId, EndpointConfig, Event, ReceivedMessage, SendError, SendInfo};

const A_RWND: u32 = 100_000;

fn sender() -> EndpointConfig {
    EndpointConfig::default()
        .send_buffer(1 << 23)
        .max_message_size(usize::MAX)
        .partial_delivery_point(0)
}

fn receiver(partial_delivery_point: usize) -> EndpointConfig {
    EndpointConfig::default()
        .a_rwnd(A_RWND)
        .max_message_size(usize::MAX)
        .partial_delivery_point(partial_delivery_point)
}

fn send(pair: &mut Pair, info: SendInfo, payload: Bytes) {
    let client = pair.client.association();
    let endpoint = &mut pair.client.endpoint;
    endpoint.send(pair.now, client, info, payload).unwrap();
}

/// Lets the two work, and the server's user read whatever comes, until `count` messages ended.
fn receive(pair: &mut Pair, count: usize) -> Vec<ReceivedMessage> {
    let server = pair.server.association();
    let mut received = Vec::new();
    for _ in 0..100_000 {
        pair.run();
        received.extend(pair.server.receive_all(pair.now, server));
        if ends(&received) == count {
            return received;
        }
        pair.collect();
        if pair.to_client.is_empty() && pair.to_server.is_empty() {
            assert!(pair.advance());
        }
    }
    panic!("it never ends");
}

fn ends(received: &[ReceivedMessage]) -> usize {
    received.iter().filter(|part| part.end_of_record).count()
}

fn joined<'a>(parts: impl IntoIterator<Item = &'a ReceivedMessage>) -> Vec<u8> {
    let parts = parts.into_iter();
    parts.flat_map(|part| part.payload.to_vec()).collect()
}

fn held(pair: &Pair, server: AssociationId) -> usize {
    let status = pair.server.endpoint.status(server);
    status.expect("it is up").receive_buffer_bytes
}

#[test]
fn a_message_many_times_the_window_arrives_in_parts() {
    let mut pair = Pair::with(sender(), receiver(30_000));
    pair.establish();
    let large = message(1, 5_000_000);
    send(&mut pair, ordered(3), large.clone());
    send(&mut pair, ordered(3), message(2, 10));
    let received = receive(&mut pair, 2);
    assert!(received[0].payload.len() > 30_000, "not before the point");
    let (last, parts) = received.split_last().unwrap();
    assert_eq!(joined(parts), large);
    assert_eq!(last.payload, message(2, 10));
    assert!(parts.iter().all(|part| part.stream == 3 && part.ssn == 0));
    assert_eq!(ends(parts), 1);
    assert!(parts.last().unwrap().end_of_record);
}

#[test]
fn a_message_up_to_the_point_arrives_whole() {
    let mut pair = Pair::with(sender(), receiver(30_000));
    pair.establish();
    send(&mut pair, ordered(0), message(1, 30_000));
    let received = receive(&mut pair, 1);
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].payload, message(1, 30_000));
}

#[test]
fn a_message_below_the_point_arrives_in_parts_when_there_is_no_room_for_its_end() {
    let mut pair = Pair::with(sender(), receiver(A_RWND as usize));
    let (_, server) = pair.establish();
    send(&mut pair, ordered(0), message(1, 90_000));
    let small = receive(&mut pair, 1);
    assert_eq!(small.len(), 1, "there is");
    // What nobody reads takes the room.
    send(&mut pair, ordered(1), message(2, 60_000));
    send(&mut pair, ordered(0), message(3, 90_000));
    pair.run_for(std::time::Duration::from_secs(1));
    assert!(held(&pair, server) > 90_000);
    let first = pair.server.endpoint.receive(pair.now, server).unwrap();
    assert_eq!(first.payload, message(2, 60_000));
    let rest = receive(&mut pair, 1);
    assert_eq!(joined(&rest), message(3, 90_000));
    // More than the window.
    send(&mut pair, ordered(0), message(4, 150_000));
    let parts = receive(&mut pair, 1);
    assert!(parts.len() > 1);
    assert_eq!(joined(&parts), message(4, 150_000));
}

/// Delivers everything but the packets that hold the end of a message of stream 0.
fn run_without_the_end(pair: &mut Pair) -> Vec<Bytes> {
    let mut kept = Vec::new();
    pair.collect();
    loop {
        if let Some(packet) = pair.to_server.pop_front() {
            let holds_end = Packet::read(&packet).unwrap().chunks().any(
                |chunk| matches!(chunk, Ok(Chunk::Data(data)) if data.stream == 0 && data.ending),
            );
            if holds_end {
                kept.push(packet);
            } else {
                pair.give_server(packet);
            }
        } else if let Some(packet) = pair.to_client.pop_front() {
            pair.give_client(packet);
        } else {
            return kept;
        }
    }
}

#[test]
fn other_messages_wait_for_the_end_unless_they_may_come_between() {
    for fragment_interleave in [false, true] {
        let config = receiver(5_000).fragment_interleave(fragment_interleave);
        let mut pair = Pair::with(sender(), config);
        let (_, server) = pair.establish();
        send(&mut pair, ordered(0), message(1, 20_000));
        let kept = run_without_the_end(&mut pair);
        let unordered = SendInfo {
            unordered: true,
            ..ordered(0)
        };
        send(&mut pair, ordered(1), message(2, 500));
        send(&mut pair, unordered, message(3, 500));
        // The unordered one ends in one chunk: it is kept, too, and given by hand.
        let others = run_without_the_end(&mut pair);
        for packet in others {
            pair.give_server(packet);
        }
        let begun = pair.server.receive_all(pair.now, server);
        let (parts, between): (Vec<_>, Vec<_>) =
            begun.into_iter().partition(|part| part.stream == 0);
        assert!(parts.iter().all(|part| !part.end_of_record));
        assert_eq!(between.len(), usize::from(fragment_interleave));
        for packet in kept {
            pair.give_server(packet);
        }
        let rest = pair.server.receive_all(pair.now, server);
        assert!(rest[0].end_of_record);
        assert_eq!(joined(parts.iter().chain([&rest[0]])), message(1, 20_000));
        let mut others: Vec<_> = between.iter().chain(&rest[1..]).collect();
        others.sort_by_key(|message| message.unordered);
        assert_eq!(others.len(), 2);
        assert_eq!(others[0].payload, message(2, 500));
        assert_eq!(others[1].payload, message(3, 500));
    }
}

#[test]
fn the_user_hears_of_an_end_that_never_comes() {
    let mut pair = Pair::with(sender(), receiver(5_000));
    let (client, server) = pair.establish();
    send(&mut pair, ordered(0), message(1, 20_000));
    run_without_the_end(&mut pair);
    let endpoint = &mut pair.client.endpoint;
    endpoint.abort(pair.now, client, b"enough").unwrap();
    pair.run();
    let aborted = Event::PartialDeliveryAborted {
        id: server,
        stream: 0,
        unordered: false,
        ssn: 0,
    };
    let position = |wanted: &dyn Fn(&Event) -> bool| pair.server.events.iter().position(wanted);
    let told = position(&|event| *event == aborted).expect("it is told");
    let lost = position(&|event| matches!(event, Event::CommunicationLost { .. }));
    assert!(told < lost.expect("it is lost"));
    let parts = pair.server.receive_all(pair.now, server);
    assert!(!parts.is_empty() && ends(&parts) == 0);
}

#[test]
fn nothing_is_told_of_a_message_that_was_not_begun() {
    let mut pair = Pair::with(sender(), receiver(50_000));
    let (client, _) = pair.establish();
    send(&mut pair, ordered(0), message(1, 20_000));
    run_without_the_end(&mut pair);
    let endpoint = &mut pair.client.endpoint;
    endpoint.abort(pair.now, client, b"enough").unwrap();
    pair.run();
    assert!(
        !pair
            .server
            .events
            .iter()
            .any(|event| matches!(event, Event::PartialDeliveryAborted { .. }))
    );
}

#[test]
fn without_it_messages_are_whole_and_bounded_by_the_window() {
    let config = EndpointConfig::default()
        .a_rwnd(A_RWND)
        .max_message_size(usize::MAX);
    let mut pair = Pair::with(config.clone(), config);
    let (client, _) = pair.establish();
    let too_large = pair.client.endpoint.send(
        pair.now,
        client,
        ordered(0),
        message(1, A_RWND as usize + 1),
    );
    assert_eq!(too_large, Err(SendError::TooLarge));
    send(&mut pair, ordered(0), message(1, A_RWND as usize));
    let received = receive(&mut pair, 1);
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].payload, message(1, A_RWND as usize));
}
