//! Association set-up (RFC 9260 section 5).

use std::time::Duration;

use crate::common::{self, Pair, altered, chunk_types, ordered, tag, to_client, to_server};
use bytes::Bytes;
use sctp::packet::{
    Cause, Chunk, ChunkType, Init, Packet, Parameter, ParameterBuffer, Parameters, Tsn,
};
use sctp::{AssociationState, CannotStartCause, ConnectError, EndpointConfig, Event, PathAddress};

#[test]
fn four_packets_bring_an_association_up() {
    let mut pair = Pair::new();
    let id = pair.connect();
    pair.run();
    let types = |sent: &[(_, Bytes)]| -> Vec<_> {
        sent.iter().map(|(_, packet)| chunk_types(packet)).collect()
    };
    assert_eq!(
        types(&pair.client.sent),
        [vec![ChunkType::INIT], vec![ChunkType::COOKIE_ECHO]]
    );
    assert_eq!(
        types(&pair.server.sent),
        [vec![ChunkType::INIT_ACK], vec![ChunkType::COOKIE_ACK]]
    );
    assert!(matches!(
        pair.client.events[..],
        [Event::CommunicationUp { id: up, incoming: false, peer_port: common::SERVER_PORT, .. }] if up == id
    ));
    assert!(matches!(
        pair.server.events[..],
        [Event::CommunicationUp {
            incoming: true,
            peer_port: common::CLIENT_PORT,
            ..
        }]
    ));
}

#[test]
fn nothing_is_kept_for_an_init() {
    let mut pair = Pair::new();
    pair.connect();
    let init = pair.to_server.pop_front().unwrap();
    for _ in 0..1000 {
        pair.give_server(init.clone());
    }
    assert_eq!(pair.server.endpoint.association_count(), 0);
    assert_eq!(pair.server.endpoint.next_timeout(), None);
    assert_eq!(pair.to_client.len(), 1000);
}

#[test]
fn streams_are_as_many_as_both_sides_want() {
    let client = EndpointConfig::default()
        .outbound_streams(7)
        .max_inbound_streams(3);
    let server = EndpointConfig::default()
        .outbound_streams(100)
        .max_inbound_streams(5);
    let mut pair = Pair::with(client, server);
    let (client, server) = pair.establish();
    let client = pair.client.endpoint.status(client).unwrap();
    let server = pair.server.endpoint.status(server).unwrap();
    assert_eq!((client.outbound_streams, client.inbound_streams), (5, 3));
    assert_eq!((server.outbound_streams, server.inbound_streams), (3, 5));
}

#[test]
fn messages_for_streams_that_the_peer_refuses_come_back() {
    let server = EndpointConfig::default().max_inbound_streams(2);
    let mut pair = Pair::with(EndpointConfig::default(), server);
    let id = pair.connect();
    let send = |pair: &mut Pair, stream| {
        pair.client
            .endpoint
            .send(pair.now, id, ordered(stream), Bytes::from_static(b"x"))
            .unwrap();
    };
    send(&mut pair, 1);
    send(&mut pair, 2);
    pair.run();
    let failed: Vec<u16> = pair
        .client
        .events
        .iter()
        .filter_map(|event| match event {
            Event::SendFailed { info, .. } => Some(info.stream),
            _ => None,
        })
        .collect();
    assert_eq!(failed, [2]);
    let server = pair.server.association();
    assert_eq!(pair.server.receive_all(pair.now, server).len(), 1);
}

#[test]
fn data_goes_with_the_cookie_echo() {
    let mut pair = Pair::new();
    let id = pair.connect();
    for text in ["one", "two"] {
        pair.client
            .endpoint
            .send(
                pair.now,
                id,
                ordered(0),
                Bytes::from_static(text.as_bytes()),
            )
            .unwrap();
    }
    pair.run();
    assert_eq!(
        chunk_types(&pair.client.sent[1].1),
        [ChunkType::COOKIE_ECHO, ChunkType::DATA, ChunkType::DATA]
    );
    assert_eq!(
        chunk_types(&pair.server.sent[1].1),
        [ChunkType::COOKIE_ACK, ChunkType::SACK]
    );
    let server = pair.server.association();
    let received = pair.server.receive_all(pair.now, server);
    let payloads: Vec<_> = received
        .iter()
        .map(|message| &message.payload[..])
        .collect();
    assert_eq!(payloads, [b"one", b"two"]);
    assert_eq!(pair.now, pair.start);
}

#[test]
fn each_lost_packet_of_the_handshake_is_made_up_for() {
    for lost in 0..4 {
        let mut pair = Pair::new();
        let id = pair.connect();
        pair.client
            .endpoint
            .send(pair.now, id, ordered(0), Bytes::from_static(b"hello"))
            .unwrap();
        let mut count = 0;
        while pair.client.events.is_empty() {
            let next = pair
                .to_server
                .pop_front()
                .map(|packet| (true, packet))
                .or_else(|| pair.to_client.pop_front().map(|packet| (false, packet)));
            match next {
                Some(_) if count == lost => {}
                Some((true, packet)) => pair.give_server(packet),
                Some((false, packet)) => pair.give_client(packet),
                None => {
                    assert!(pair.advance());
                    continue;
                }
            }
            count += 1;
        }
        assert_eq!(pair.now - pair.start, Duration::from_secs(1), "lost {lost}");
        pair.run_for(Duration::from_secs(1));
        let server = pair.server.association();
        let received = pair.server.receive_all(pair.now, server);
        assert_eq!(received.len(), 1, "lost {lost}");
        assert_eq!(received[0].payload, "hello");
        let ups = pair
            .server
            .events
            .iter()
            .filter(|event| matches!(event, Event::CommunicationUp { .. }))
            .count();
        assert_eq!(ups, 1, "lost {lost}");
    }
}

#[test]
fn init_backs_off_and_gives_up_after_max_init_retransmits() {
    let mut pair = Pair::new();
    let id = pair.connect();
    pair.run_for_without_delivery(Duration::from_secs(1000));
    let times: Vec<u64> = pair
        .client
        .sent
        .iter()
        .map(|(time, packet)| {
            assert_eq!(chunk_types(packet), [ChunkType::INIT]);
            (*time - pair.start).as_secs()
        })
        .collect();
    assert_eq!(times, [0, 1, 3, 7, 15, 31, 63, 123, 183]);
    assert_eq!(
        pair.client.events,
        [Event::CannotStart {
            id,
            cause: CannotStartCause::TimedOut
        }]
    );
    assert_eq!(pair.client.endpoint.association_count(), 0);
    assert!(
        pair.client.sent.windows(2).all(|two| two[0].1 == two[1].1),
        "the same INIT each time"
    );
}

/// Rule C1 of section 6.3.1: the back-off of T1 is over when the peer answers.
#[test]
fn lost_inits_do_not_slow_down_what_follows() {
    let mut pair = Pair::new();
    let id = pair.connect();
    for _ in 0..3 {
        pair.to_server.clear();
        assert!(pair.advance());
    }
    assert_eq!(pair.now - pair.start, Duration::from_secs(7));
    let init = pair.to_server.pop_front().unwrap();
    pair.give_server(init);
    let init_ack = pair.to_client.pop_front().unwrap();
    pair.give_client(init_ack);
    // The COOKIE ECHO is lost as well: nothing of the set-up can be measured.
    pair.to_server.clear();
    assert!(pair.advance());
    assert_eq!(pair.now - pair.start, Duration::from_secs(8));
    pair.run_for(Duration::ZERO);
    let status = pair.client.endpoint.status(id).unwrap();
    assert_eq!(status.state, AssociationState::Established);
    assert_eq!(status.paths[0].rto, Duration::from_secs(1));
}

#[test]
fn an_altered_cookie_is_dropped_silently() {
    let mut pair = Pair::new();
    pair.connect();
    let init = pair.to_server.pop_front().unwrap();
    pair.give_server(init);
    let init_ack = pair.to_client.pop_front().unwrap();
    pair.give_client(init_ack);
    let cookie_echo = pair.to_server.pop_front().unwrap();
    let end = 12 + usize::from(u16::from_be_bytes([cookie_echo[14], cookie_echo[15]]));
    for index in 16..end {
        pair.give_server(altered(&cookie_echo, |bytes| bytes[index] ^= 0x10));
    }
    assert!(pair.to_client.is_empty());
    assert_eq!(pair.server.endpoint.association_count(), 0);
    let drops = pair.server.endpoint.statistics().drops;
    assert_eq!(drops.cookie_not_authentic, end as u64 - 16);
    pair.give_server(cookie_echo);
    assert_eq!(pair.server.endpoint.association_count(), 1);
}

#[test]
fn a_cookie_from_elsewhere_is_dropped_silently() {
    let mut pair = Pair::new();
    pair.connect();
    let init = pair.to_server.pop_front().unwrap();
    pair.give_server(init);
    let init_ack = pair.to_client.pop_front().unwrap();
    pair.give_client(init_ack);
    let cookie_echo = pair.to_server.pop_front().unwrap();
    let elsewhere = PathAddress {
        remote: [192, 0, 2, 77].into(),
        ..pair.client.path()
    };
    pair.server
        .endpoint
        .handle_packet(pair.now, elsewhere, cookie_echo.clone());
    pair.give_server(altered(&cookie_echo, |bytes| bytes[7] ^= 1));
    assert!(pair.to_client.is_empty());
    assert_eq!(pair.server.endpoint.association_count(), 0);
}

#[test]
fn a_stale_cookie_is_answered_with_an_error_and_a_new_attempt_succeeds() {
    let mut pair = Pair::new();
    pair.connect();
    let init = pair.to_server.pop_front().unwrap();
    pair.give_server(init);
    let init_ack = pair.to_client.pop_front().unwrap();
    pair.give_client(init_ack);
    let cookie_echo = pair.to_server.pop_front().unwrap();
    pair.now += Duration::from_secs(60) + Duration::from_millis(5);
    pair.give_server(cookie_echo);
    assert_eq!(pair.server.endpoint.association_count(), 0);
    let error = pair.to_client.front().unwrap();
    let Some(Ok(Chunk::Error(error))) = Packet::read(error).unwrap().chunks().next() else {
        panic!("an ERROR was sent");
    };
    assert_eq!(
        error.causes.iter().next(),
        Some(Ok(Cause::StaleCookie { staleness: 5000 }))
    );
    pair.run();
    let init = &pair.client.sent[2].1;
    let Some(Ok(Chunk::Init(init))) = Packet::read(init).unwrap().chunks().next() else {
        panic!("another INIT was sent");
    };
    assert!(matches!(
        init.parameters.iter().next(),
        Some(Ok(Parameter::CookiePreservative { .. }))
    ));
    pair.client.association();
}

#[test]
fn what_left_with_a_stale_cookie_is_given_back_when_its_stream_is_gone() {
    let mut pair = Pair::new();
    let client = pair.connect();
    // No piece of it fits beside the cookie.
    let large = common::message(1, 5600);
    for (stream, payload) in [
        (9, Bytes::from_static(b"small")),
        (9, large.clone()),
        (1, Bytes::from_static(b"stays")),
    ] {
        pair.client
            .endpoint
            .send(pair.now, client, ordered(stream), payload)
            .unwrap();
    }
    let init = pair.to_server.pop_front().unwrap();
    pair.give_server(init);
    let init_ack = pair.to_client.pop_front().unwrap();
    pair.give_client(init_ack);
    let cookie_echo = pair.to_server.pop_front().unwrap();
    assert_eq!(
        chunk_types(&cookie_echo),
        [ChunkType::COOKIE_ECHO, ChunkType::DATA]
    );
    pair.now += Duration::from_secs(61);
    pair.give_server(cookie_echo);
    let error = pair.to_client.pop_front().unwrap();
    assert_eq!(chunk_types(&error), [ChunkType::ERROR]);
    // The server is replaced by one with fewer streams.
    let two_streams = EndpointConfig::default().max_inbound_streams(2);
    pair.server = common::Host::new(common::SERVER_PORT, [192, 0, 2, 2], two_streams, 77);
    let mark = pair.client.sent.len();
    pair.give_client(error);
    pair.run();
    let failed: Vec<_> = pair
        .client
        .events
        .iter()
        .filter_map(|event| match event {
            Event::SendFailed { info, payload, .. } => Some((info.stream, payload.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(failed, [(9, Bytes::from_static(b"small")), (9, large)]);
    let server = pair.server.association();
    let received = pair.server.receive_all(pair.now, server);
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].payload, "stays");
    let sent: Vec<Bytes> = pair.client.sent[mark..]
        .iter()
        .map(|(_, packet)| packet.clone())
        .collect();
    assert_eq!(common::data_of(&sent).len(), 1);
    pair.run_for(Duration::from_secs(1));
    let status = pair.client.endpoint.status(client).unwrap();
    assert_eq!((status.send_buffer_bytes, status.outstanding_bytes), (0, 0));
}

#[test]
fn a_repeated_cookie_echo_is_acknowledged_again_and_changes_nothing() {
    let mut pair = Pair::new();
    pair.establish();
    let cookie_echo = pair.client.sent[1].1.clone();
    // Its life is over, but it is that of the very association (section 5.2.4, step 3).
    pair.now += Duration::from_secs(61);
    pair.give_server(cookie_echo);
    let answer = pair.to_client.pop_front().unwrap();
    assert_eq!(chunk_types(&answer), [ChunkType::COOKIE_ACK]);
    pair.give_client(answer);
    assert_eq!(pair.server.events.len(), 1);
    assert_eq!(pair.client.events.len(), 1);
}

#[test]
fn a_cookie_replayed_after_the_end_raises_nothing_from_the_dead() {
    let mut pair = Pair::new();
    let (client, _) = pair.establish();
    let cookie_echo = pair.client.sent[1].1.clone();
    pair.client.endpoint.shutdown(pair.now, client).unwrap();
    pair.run();
    assert_eq!(pair.server.endpoint.association_count(), 0);
    pair.give_server(cookie_echo.clone());
    assert_eq!(pair.server.endpoint.association_count(), 0);
    let answer = pair.to_client.pop_front().unwrap();
    assert_eq!(chunk_types(&answer), [ChunkType::ABORT]);
    let events = pair.client.events.len();
    pair.give_client(answer);
    assert_eq!(pair.client.events.len(), events, "nobody is harmed by it");
    pair.now += Duration::from_secs(121);
    pair.give_server(cookie_echo);
    assert_eq!(pair.server.endpoint.association_count(), 0, "stale by now");
}

#[test]
fn tags_that_are_forgotten_before_their_time_are_counted() {
    let config = EndpointConfig::default().max_remembered_tags(1);
    let mut pair = Pair::with(EndpointConfig::default(), config);
    for forgotten in 0..3 {
        let (client, _) = pair.establish();
        pair.client.endpoint.shutdown(pair.now, client).unwrap();
        pair.run();
        let drops = pair.server.endpoint.statistics().drops;
        assert_eq!(drops.forgotten_tags, forgotten);
    }
}

#[test]
fn a_client_whose_abort_was_lost_learns_of_it_when_it_repeats_its_cookie() {
    let mut pair = Pair::new();
    let client = pair.connect();
    for _ in 0..2 {
        let packet = pair.to_server.pop_front().unwrap();
        pair.give_server(packet);
        if let Some(packet) = pair.to_client.pop_front()
            && pair.server.events.is_empty()
        {
            pair.give_client(packet);
        }
    }
    let server = pair.server.association();
    pair.server
        .endpoint
        .abort(pair.now, server, b"not accepted")
        .unwrap();
    pair.collect();
    pair.lose_all();
    assert!(pair.client.events.is_empty());
    pair.advance();
    pair.run();
    assert!(pair.now - pair.start < Duration::from_secs(2));
    assert!(matches!(
        pair.client.events[..],
        [Event::CannotStart {
            id,
            cause: CannotStartCause::Refused { .. },
        }] if id == client
    ));
}

#[test]
fn an_init_with_impossible_values_is_refused() {
    let sound = Init {
        initiate_tag: 77,
        a_rwnd: 1500,
        outbound_streams: 1,
        inbound_streams: 1,
        initial_tsn: Tsn(5),
        parameters: Parameters::default(),
    };
    for (wrong, answered) in [
        (
            Init {
                a_rwnd: 1499,
                ..sound
            },
            true,
        ),
        (
            Init {
                outbound_streams: 0,
                ..sound
            },
            true,
        ),
        (
            Init {
                inbound_streams: 0,
                ..sound
            },
            true,
        ),
        (
            Init {
                initiate_tag: 0,
                ..sound
            },
            false,
        ),
    ] {
        let mut pair = Pair::new();
        pair.give_server(to_server(0, &[Chunk::Init(wrong)]));
        let Some(answer) = pair.to_client.pop_front() else {
            assert!(!answered);
            continue;
        };
        assert!(answered);
        assert_eq!(tag(&answer), 77);
        let Some(Ok(Chunk::Abort(abort))) = Packet::read(&answer).unwrap().chunks().next() else {
            panic!("an ABORT was sent");
        };
        assert!(!abort.tag_reflected);
        assert_eq!(
            abort.causes.iter().next(),
            Some(Ok(Cause::InvalidMandatoryParameter))
        );
    }
}

#[test]
fn a_host_name_in_an_init_is_refused() {
    let mut pair = Pair::new();
    let mut parameters = ParameterBuffer::new();
    parameters
        .push(&Parameter::HostNameAddress(b"host.example\0"))
        .unwrap();
    let init = Init {
        initiate_tag: 77,
        a_rwnd: 5000,
        outbound_streams: 1,
        inbound_streams: 1,
        initial_tsn: Tsn(5),
        parameters: parameters.parameters(),
    };
    pair.give_server(to_server(0, &[Chunk::Init(init)]));
    let answer = pair.to_client.pop_front().unwrap();
    let Some(Ok(Chunk::Abort(abort))) = Packet::read(&answer).unwrap().chunks().next() else {
        panic!("an ABORT was sent");
    };
    assert!(matches!(
        abort.causes.iter().next(),
        Some(Ok(Cause::UnresolvableAddress(_)))
    ));
}

#[test]
fn unrecognized_parameters_of_an_init_come_back_in_the_init_ack() {
    let mut pair = Pair::new();
    pair.connect();
    let init = pair.to_server.pop_front().unwrap();
    let mut longer = init.to_vec();
    longer.extend_from_slice(&[0xc0, 0x01, 0, 6, 1, 2, 0, 0, 0x80, 0x02, 0, 4]);
    let longer = altered(&longer, |bytes| bytes[15] += 12);
    pair.give_server(longer);
    let init_ack = pair.to_client.pop_front().unwrap();
    let Some(Ok(Chunk::InitAck(ack))) = Packet::read(&init_ack).unwrap().chunks().next() else {
        panic!("an INIT ACK was sent");
    };
    let reported: Vec<_> = ack
        .parameters
        .iter()
        .filter_map(|parameter| match parameter {
            Ok(Parameter::UnrecognizedParameter(bytes)) => Some(bytes),
            _ => None,
        })
        .collect();
    assert_eq!(reported, [&[0xc0, 0x01, 0, 6, 1, 2]]);
}

#[test]
fn unrecognized_parameters_of_an_init_ack_come_back_with_the_cookie_echo() {
    let mut pair = Pair::new();
    pair.connect();
    let init = pair.to_server.pop_front().unwrap();
    pair.give_server(init);
    let init_ack = pair.to_client.pop_front().unwrap();
    let mut longer = init_ack.to_vec();
    longer.extend_from_slice(&[0xc0, 0x01, 0, 4]);
    let length = longer.len() as u8 - 12;
    pair.give_client(altered(&longer, |bytes| bytes[15] = length));
    let cookie_echo = pair.to_server.pop_front().unwrap();
    assert_eq!(
        chunk_types(&cookie_echo),
        [ChunkType::COOKIE_ECHO, ChunkType::ERROR]
    );
    pair.give_server(cookie_echo);
    pair.run();
    pair.client.association();
}

#[test]
fn an_init_ack_that_makes_no_association_is_refused() {
    let parameters = ParameterBuffer::new();
    let mut cookie = ParameterBuffer::new();
    cookie.push(&Parameter::StateCookie(b"cookie")).unwrap();
    let sound = Init {
        initiate_tag: 77,
        a_rwnd: 5000,
        outbound_streams: 1,
        inbound_streams: 1,
        initial_tsn: Tsn(5),
        parameters: cookie.parameters(),
    };
    for (wrong, ends) in [
        (
            Init {
                parameters: parameters.parameters(),
                ..sound
            },
            true,
        ),
        (
            Init {
                outbound_streams: 0,
                ..sound
            },
            true,
        ),
        (
            Init {
                initiate_tag: 0,
                ..sound
            },
            true,
        ),
        (Init { a_rwnd: 1, ..sound }, false),
    ] {
        let mut pair = Pair::new();
        pair.connect();
        let init = pair.to_server.pop_front().unwrap();
        let Some(Ok(Chunk::Init(init))) = Packet::read(&init).unwrap().chunks().next() else {
            panic!("an INIT was sent");
        };
        pair.give_client(to_client(init.initiate_tag, &[Chunk::InitAck(wrong)]));
        let answer = pair.to_server.pop_front().unwrap();
        assert_eq!(chunk_types(&answer), [ChunkType::ABORT]);
        let expected = if wrong.initiate_tag == 0 {
            init.initiate_tag
        } else {
            77
        };
        assert_eq!(tag(&answer), expected);
        assert_eq!(pair.client.endpoint.association_count() == 0, ends);
    }
}

#[test]
fn an_abort_refuses_a_connect() {
    let mut pair = Pair::new();
    pair.connect();
    let init = pair.to_server.pop_front().unwrap();
    let Some(Ok(Chunk::Init(init))) = Packet::read(&init).unwrap().chunks().next() else {
        panic!("an INIT was sent");
    };
    pair.give_client(to_client(
        init.initiate_tag,
        &[Chunk::Abort(Default::default())],
    ));
    assert!(matches!(
        pair.client.events[..],
        [Event::CannotStart {
            cause: CannotStartCause::Refused { .. },
            ..
        }]
    ));
}

#[test]
fn there_are_no_more_associations_than_the_bound() {
    let bounded = EndpointConfig::default().max_associations(0);
    let mut pair = Pair::with(EndpointConfig::default(), bounded);
    pair.connect();
    pair.run();
    assert!(matches!(
        pair.client.events[..],
        [Event::CannotStart {
            cause: CannotStartCause::Refused { .. },
            ..
        }]
    ));
    let to = pair.client.path();
    assert_eq!(
        pair.server.endpoint.connect(pair.now, to, 5),
        Err(ConnectError::TooManyAssociations)
    );
}

#[test]
fn a_peer_has_one_association() {
    let mut pair = Pair::new();
    pair.establish();
    let to = pair.server.path();
    let again = pair
        .client
        .endpoint
        .connect(pair.now, to, common::SERVER_PORT);
    assert_eq!(again, Err(ConnectError::AlreadyAssociated));
}

#[test]
fn weights_that_are_no_numbers_measure_round_trips_all_the_same() {
    for weight in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 2.0] {
        let config = EndpointConfig::default().rto_alpha(weight).rto_beta(weight);
        let mut pair = Pair::with(config.clone(), config);
        let (client, _) = pair.establish();
        for _ in 0..3 {
            pair.client_sends(ordered(0), "one more measurement");
            pair.run_for(Duration::from_millis(300));
        }
        let status = pair.client.endpoint.status(client).unwrap();
        assert!(status.paths[0].srtt.is_some());
    }
}
