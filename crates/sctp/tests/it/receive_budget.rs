//! The bound on the received data that all associations of an endpoint hold together
//! (RFC 9260 section 6.2): nobody can keep it from the others.

use std::time::Duration;

use crate::common::{Pair, SERVER_PORT, message, ordered, packet};
use bytes::Bytes;
use sctp::packet::{Chunk, CookieEcho, Data, Init, Packet, Parameter, Parameters, Sack, Ssn, Tsn};
use sctp::{AssociationId, EndpointConfig};

fn server(max_received_bytes: usize) -> EndpointConfig {
    EndpointConfig::default()
        .max_received_bytes(max_received_bytes)
        .guaranteed_receive_bytes(0)
}

/// Sets up an association from the SCTP port `port` by hand: the tag with which to write to the
/// server. The first TSN is 1.
fn associate(pair: &mut Pair, port: u16) -> (u32, AssociationId) {
    let init = Chunk::Init(Init {
        initiate_tag: 5,
        a_rwnd: 100_000,
        outbound_streams: 1,
        inbound_streams: 1,
        initial_tsn: Tsn(1),
        parameters: Parameters::new(&[]),
    });
    pair.to_client.clear();
    pair.give_server(packet(port, SERVER_PORT, 0, &[init]));
    let answer = pair.to_client.pop_front().expect("an INIT ACK");
    let Some(Ok(Chunk::InitAck(init))) = Packet::read(&answer).unwrap().chunks().next() else {
        panic!("an INIT ACK was sent");
    };
    let cookie = init
        .parameters
        .iter()
        .find_map(|parameter| match parameter {
            Ok(Parameter::StateCookie(cookie)) => Some(cookie),
            _ => None,
        });
    let echo = Chunk::CookieEcho(CookieEcho {
        cookie: cookie.expect("a cookie"),
    });
    pair.give_server(packet(port, SERVER_PORT, init.initiate_tag, &[echo]));
    pair.to_client.clear();
    (init.initiate_tag, pair.server.association())
}

/// A DATA chunk of the association of `port`: a message by itself, to be acknowledged at once.
fn give_data(pair: &mut Pair, port: u16, tag: u32, tsn: u32, payload: &[u8]) {
    let data = Chunk::Data(Data {
        immediate: true,
        beginning: true,
        ending: true,
        tsn: Tsn(tsn),
        ssn: Ssn(tsn as u16 - 1),
        user_data: payload,
        ..Data::default()
    });
    pair.give_server(packet(port, SERVER_PORT, tag, &[data]));
}

fn with_last_sack<R>(pair: &Pair, read: impl Fn(Sack<'_>) -> R) -> R {
    let last: &Bytes = pair.to_client.back().expect("a packet");
    match Packet::read(last).unwrap().chunks().next() {
        Some(Ok(Chunk::Sack(sack))) => read(sack),
        other => panic!("{other:?} instead of a SACK"),
    }
}

#[test]
fn peers_that_never_send_what_is_missing_do_not_keep_the_room_from_others() {
    let mut pair = Pair::with(EndpointConfig::default(), server(200_000));
    let payload = vec![7; 10_000];
    let mut hostile = Vec::new();
    for port in 100..110 {
        let (tag, id) = associate(&mut pair, port);
        // All but the first one.
        for tsn in 2..10 {
            give_data(&mut pair, port, tag, tsn, &payload);
        }
        hostile.push(id);
    }
    let held = |pair: &Pair, id| {
        let status = pair.server.endpoint.status(id);
        status.map_or(0, |status| status.receive_buffer_bytes)
    };
    let all_held = |pair: &Pair| -> usize { hostile.iter().map(|id| held(pair, *id)).sum() };
    assert!(all_held(&pair) > 50_000 && all_held(&pair) <= 200_000);

    let (tag, honest) = associate(&mut pair, 99);
    let acknowledged = |pair: &Pair| with_last_sack(pair, |sack| sack.cumulative_tsn_ack);
    for tsn in 1..=5 {
        give_data(&mut pair, 99, tag, tsn, &payload);
        assert_eq!(acknowledged(&pair), Tsn(tsn));
        assert!(all_held(&pair) + held(&pair, honest) <= 200_000);
    }
    assert_eq!(pair.server.receive_all(pair.now, honest).len(), 5);
    for tsn in 6..=20 {
        give_data(&mut pair, 99, tag, tsn, &payload);
        assert_eq!(acknowledged(&pair), Tsn(tsn));
        assert_eq!(pair.server.receive_all(pair.now, honest).len(), 1);
    }
    assert!(pair.server.endpoint.statistics().drops.data_reneged > 0);
}

#[test]
fn what_was_taken_back_arrives_whole_in_order_and_once_when_it_is_sent_again() {
    let mut pair = Pair::with(EndpointConfig::default(), server(4000));
    let (client, server) = pair.establish();
    for number in 0..30 {
        pair.client
            .endpoint
            .send(pair.now, client, ordered(0), message(number, 1000))
            .unwrap();
    }
    pair.collect();
    pair.to_server.pop_front().expect("the first one is lost");
    let mut received = Vec::new();
    for _ in 0..1000 {
        pair.run();
        received.extend(pair.server.receive_all(pair.now, server));
        pair.collect();
        if received.len() < 30 && pair.to_server.is_empty() && pair.to_client.is_empty() {
            assert!(pair.advance());
        }
    }
    assert!(pair.server.endpoint.statistics().drops.data_reneged > 0);
    assert_eq!(received.len(), 30);
    for (number, received) in received.iter().enumerate() {
        assert_eq!(received.payload, message(number, 1000));
    }
    assert!(pair.now - pair.start < Duration::from_secs(60));
}

#[test]
fn fragments_out_of_order_are_taken_back_too() {
    let mut pair = Pair::with(EndpointConfig::default(), server(10_000));
    let (tag, _) = associate(&mut pair, 100);
    let payload = vec![7; 1000];
    let fragment = |tsn: u32| {
        Chunk::Data(Data {
            beginning: tsn == 1,
            ending: tsn == 9,
            tsn: Tsn(tsn),
            user_data: &payload,
            ..Data::default()
        })
    };
    for tsn in 2..10 {
        let packet = packet(100, SERVER_PORT, tag, &[fragment(tsn)]);
        pair.give_server(packet);
    }
    assert_eq!(with_last_sack(&pair, |sack| sack.gap_ack_blocks.len()), 1);
    let (other_tag, other) = associate(&mut pair, 101);
    for tsn in 1..=3 {
        give_data(&mut pair, 101, other_tag, tsn, &payload);
    }
    assert_eq!(pair.server.receive_all(pair.now, other).len(), 3);
    assert_eq!(pair.server.endpoint.statistics().drops.data_reneged, 8);
    for tsn in 1..10 {
        let packet = packet(100, SERVER_PORT, tag, &[fragment(tsn)]);
        pair.give_server(packet);
    }
    let whole = pair.server.events.iter().find_map(|event| match event {
        sctp::Event::Readable { id } if *id != other => Some(*id),
        _ => None,
    });
    let messages = pair
        .server
        .receive_all(pair.now, whole.expect("it is whole"));
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].payload.len(), 9000);
}

#[test]
fn no_larger_window_is_advertised_than_the_room_that_is_left() {
    let mut pair = Pair::with(EndpointConfig::default(), server(20_000));
    let (tag, id) = associate(&mut pair, 100);
    give_data(&mut pair, 100, tag, 1, &[7; 4000]);
    assert_eq!(with_last_sack(&pair, |sack| sack.a_rwnd), 16_000);
    for tsn in 2..=5 {
        give_data(&mut pair, 100, tag, tsn, &[7; 3900]);
    }
    assert_eq!(
        with_last_sack(&pair, |sack| sack.a_rwnd),
        400,
        "the end stays"
    );
    assert_eq!(pair.server.receive_all(pair.now, id).len(), 5);
    give_data(&mut pair, 100, tag, 6, &[7; 1000]);
    assert_eq!(with_last_sack(&pair, |sack| sack.a_rwnd), 19_000);
}

/// In-order data that nobody reads cannot be taken back: it must not fill all the room.
#[test]
fn users_that_do_not_read_do_not_keep_the_room_from_others() {
    let config = server(1_000_000).guaranteed_receive_bytes(8000);
    let mut pair = Pair::with(EndpointConfig::default(), config);
    let payload = vec![7; 1000];
    let mut slow = Vec::new();
    for port in 100..110 {
        let (tag, id) = associate(&mut pair, port);
        for tsn in 1..=1000 {
            give_data(&mut pair, port, tag, tsn, &payload);
            pair.to_client.drain(..pair.to_client.len() - 1);
        }
        slow.push(id);
    }
    let held = |pair: &Pair, id| {
        let status = pair.server.endpoint.status(id);
        status.map_or(0, |status| status.receive_buffer_bytes)
    };
    let all: usize = slow.iter().map(|id| held(&pair, *id)).sum();
    assert!((1_000_000..=1_000_000 + 10 * 8000).contains(&all), "{all}");
    assert!(pair.server.endpoint.statistics().drops.data_no_room > 0);
    let (tag, quick) = associate(&mut pair, 99);
    for tsn in 1..=100 {
        give_data(&mut pair, 99, tag, tsn, &payload[..100]);
        assert_eq!(
            with_last_sack(&pair, |sack| sack.cumulative_tsn_ack),
            Tsn(tsn)
        );
        assert_eq!(pair.server.receive_all(pair.now, quick).len(), 1);
    }
}
