//! Set-up with a peer that is known already (RFC 9260 section 5.2): collision and restart, and who is the same peer.

use std::time::Duration;

use crate::common::{self, Pair, altered, chunk_types, ordered, tag, to_server};
use bytes::Bytes;
use sctp::packet::{Chunk, ChunkType, Init, Parameters, Tsn};
use sctp::{AssociationState, EndpointConfig, Event, PathAddress};

#[test]
fn both_sides_may_open_at_the_same_time() {
    // However the packets meet, one association comes of it.
    for order in 0..32 {
        let mut pair = Pair::new();
        let to_server = pair.server.path();
        let to_client = pair.client.path();
        let client = pair
            .client
            .endpoint
            .connect(pair.now, to_server, common::SERVER_PORT)
            .unwrap();
        let server = pair
            .server
            .endpoint
            .connect(pair.now, to_client, common::CLIENT_PORT)
            .unwrap();
        for (host, id) in [(&mut pair.client, client), (&mut pair.server, server)] {
            host.endpoint
                .send(pair.now, id, ordered(0), Bytes::from_static(b"hello"))
                .unwrap();
        }
        pair.collect();
        for step in 0..100 {
            let server_first = order >> (step % 5) & 1 == 0;
            if server_first && let Some(packet) = pair.to_server.pop_front() {
                pair.give_server(packet);
            } else if let Some(packet) = pair.to_client.pop_front() {
                pair.give_client(packet);
            } else if let Some(packet) = pair.to_server.pop_front() {
                pair.give_server(packet);
            }
        }
        pair.run_for(Duration::from_secs(10));
        for (host, id) in [(&mut pair.client, client), (&mut pair.server, server)] {
            assert_eq!(host.association(), id, "order {order}");
            assert_eq!(host.endpoint.association_count(), 1);
            let ups = host
                .events
                .iter()
                .filter(|event| matches!(event, Event::CommunicationUp { .. }))
                .count();
            assert_eq!(ups, 1);
            let received = host.receive_all(pair.now, id);
            assert_eq!(received.len(), 1, "order {order}");
        }
    }
}

#[test]
fn a_restarted_peer_gets_its_association_anew() {
    let mut pair = Pair::new();
    let (_, server) = pair.establish();
    pair.client_sends(ordered(0), "before");
    pair.run();
    let old_tag = tag(&pair.server.sent.last().unwrap().1);
    // The client loses its memory and asks again from the same address and ports.
    pair.client = common::Host::new(
        common::CLIENT_PORT,
        [192, 0, 2, 1],
        EndpointConfig::default(),
        99,
    );
    pair.connect();
    pair.run();
    assert_eq!(pair.server.endpoint.association_count(), 1);
    assert!(
        pair.server
            .events
            .iter()
            .any(|event| matches!(event, Event::Restart { id, .. } if *id == server))
    );
    pair.client_sends(ordered(0), "after");
    pair.run();
    let received = pair.server.receive_all(pair.now, server);
    let payloads: Vec<_> = received
        .iter()
        .map(|message| &message.payload[..])
        .collect();
    assert_eq!(payloads, [&b"before"[..], b"after"]);
    assert_ne!(tag(&pair.server.sent.last().unwrap().1), old_tag);
}

#[test]
fn an_init_alone_does_not_touch_an_association() {
    let mut pair = Pair::new();
    let (client, server) = pair.establish();
    let init = Chunk::Init(Init {
        initiate_tag: 77,
        a_rwnd: 5000,
        outbound_streams: 1,
        inbound_streams: 1,
        initial_tsn: Tsn(5),
        parameters: Parameters::default(),
    });
    pair.give_server(to_server(0, &[init]));
    let answer = pair.to_client.pop_front().unwrap();
    assert_eq!(chunk_types(&answer), [ChunkType::INIT_ACK]);
    assert_eq!(tag(&answer), 77);
    pair.client_sends(ordered(0), "still here");
    pair.run();
    assert_eq!(pair.server.receive_all(pair.now, server).len(), 1);
    let state = pair.client.endpoint.status(client).unwrap().state;
    assert_eq!(state, AssociationState::Established);
}

#[test]
fn peers_behind_one_address_do_not_destroy_each_other() {
    let mut pair = Pair::new();
    let (_, first) = pair.establish();
    // Another program behind the same address, with the same SCTP port.
    let mut other = common::Host::new(
        common::CLIENT_PORT,
        [192, 0, 2, 1],
        EndpointConfig::default(),
        50,
    );
    let from = PathAddress {
        encapsulation_port: Some(40_000),
        ..pair.client.path()
    };
    let to = pair.server.path();
    other
        .endpoint
        .connect(pair.now, to, common::SERVER_PORT)
        .unwrap();
    for _ in 0..4 {
        for packet in other.take_packets(pair.now) {
            pair.server.endpoint.handle_packet(pair.now, from, packet);
        }
        while let Some(transmit) = pair.server.endpoint.poll_transmit(pair.now) {
            assert_eq!(transmit.path.encapsulation_port, Some(40_000));
            other.endpoint.handle_packet(pair.now, to, transmit.packet);
        }
    }
    pair.collect();
    assert_eq!(pair.server.endpoint.association_count(), 2);
    assert!(
        !pair
            .server
            .events
            .iter()
            .any(|event| matches!(event, Event::Restart { .. }))
    );
    pair.client_sends(ordered(0), "unharmed");
    pair.run();
    assert_eq!(pair.server.receive_all(pair.now, first).len(), 1);
}

#[test]
fn the_encapsulation_port_of_a_peer_is_learnt_after_the_tag_check() {
    let mut pair = Pair::new();
    let (_, server) = pair.establish();
    pair.client_sends(ordered(0), "hello");
    let packet = pair.to_server.pop_front().unwrap();
    let moved = PathAddress {
        encapsulation_port: Some(12_345),
        ..pair.client.path()
    };
    let forged = altered(&packet, |bytes| bytes[4] ^= 1);
    pair.server.endpoint.handle_packet(pair.now, moved, forged);
    let path = |pair: &Pair| pair.server.endpoint.status(server).unwrap().paths[0].address;
    assert_eq!(path(&pair).encapsulation_port, Some(9899));
    pair.server.endpoint.handle_packet(pair.now, moved, packet);
    assert_eq!(path(&pair).encapsulation_port, Some(12_345));
    let raw = PathAddress {
        encapsulation_port: None,
        ..moved
    };
    pair.client_sends(ordered(0), "raw");
    let packet = pair.to_server.pop_front().unwrap();
    pair.server.endpoint.handle_packet(pair.now, raw, packet);
    assert_eq!(path(&pair).encapsulation_port, None);
    let status = pair.server.endpoint.status(server).unwrap();
    assert_eq!(status.paths[0].mtu, 1480);
}
