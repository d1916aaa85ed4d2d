//! How associations end (RFC 9260 section 9), and packets that belong to none (sections 8.4
//! and 8.5).

use std::time::Duration;

use crate::common::{
    self, CLIENT_PORT, Pair, SERVER_PORT, altered, chunk_types, message, ordered, packet, tag,
    to_server,
};
use bytes::Bytes;
use sctp::packet::{
    Abort, Cause, CauseBuffer, Chunk, ChunkType, CookieEcho, Data, GapAckBlock, Init,
    OperationError, Packet, PacketWriter, Parameters, Shutdown, ShutdownComplete, Tsn,
};
use sctp::{
    AbortError, AssociationState, EndpointConfig, Event, LostCause, PathAddress, ShutdownError,
    answer_out_of_the_blue,
};

fn state(host: &common::Host, id: sctp::AssociationId) -> Option<AssociationState> {
    host.endpoint.status(id).map(|status| status.state)
}

/// Both sides said that the association ended in good order, and keep nothing of it.
fn assert_shut_down(pair: &Pair) {
    for host in [&pair.client, &pair.server] {
        assert!(host.is_shut_down(), "{:?}", host.events);
        assert_eq!(host.endpoint.association_count(), 0);
        assert_eq!(host.endpoint.next_timeout(), None);
    }
}

#[test]
fn three_packets_end_an_association() {
    let mut pair = Pair::new();
    let (client, _) = pair.establish();
    let marks = (pair.client.sent.len(), pair.server.sent.len());
    pair.client.endpoint.shutdown(pair.now, client).unwrap();
    pair.run();
    assert_shut_down(&pair);
    let types = |sent: &[(_, Bytes)]| -> Vec<_> {
        sent.iter().map(|(_, packet)| chunk_types(packet)).collect()
    };
    assert_eq!(
        types(&pair.client.sent[marks.0..]),
        [
            vec![ChunkType::SHUTDOWN],
            vec![ChunkType::SHUTDOWN_COMPLETE]
        ]
    );
    assert_eq!(
        types(&pair.server.sent[marks.1..]),
        [vec![ChunkType::SHUTDOWN_ACK]]
    );
    assert!(
        pair.server
            .events
            .iter()
            .any(|event| matches!(event, Event::PeerShutdown { .. }))
    );
    assert_eq!(
        pair.client.endpoint.shutdown(pair.now, client),
        Err(ShutdownError::UnknownAssociation)
    );
}

#[test]
fn what_is_queued_on_either_side_is_delivered_first() {
    let mut pair = Pair::new();
    let (client, server) = pair.establish();
    for _ in 0..100 {
        pair.client
            .endpoint
            .send(pair.now, client, ordered(0), Bytes::from(vec![1; 1000]))
            .unwrap();
        pair.server
            .endpoint
            .send(pair.now, server, ordered(0), Bytes::from(vec![2; 1000]))
            .unwrap();
    }
    pair.client.endpoint.shutdown(pair.now, client).unwrap();
    pair.run_for(Duration::from_secs(5));
    assert!(pair.client.is_shut_down() && pair.server.is_shut_down());
    assert_eq!(pair.client.receive_all(pair.now, client).len(), 100);
    assert_eq!(pair.server.receive_all(pair.now, server).len(), 100);
    assert_shut_down(&pair);
}

#[test]
fn both_sides_may_shut_down_at_the_same_time() {
    let mut pair = Pair::new();
    let (client, server) = pair.establish();
    pair.client.endpoint.shutdown(pair.now, client).unwrap();
    pair.server.endpoint.shutdown(pair.now, server).unwrap();
    pair.run_for(Duration::from_secs(5));
    assert_shut_down(&pair);
}

#[test]
fn each_lost_packet_of_a_shutdown_is_made_up_for() {
    for lost in 0..3 {
        let mut pair = Pair::new();
        let (client, _) = pair.establish();
        pair.client.endpoint.shutdown(pair.now, client).unwrap();
        pair.collect();
        for step in 0..3 {
            if step == lost {
                pair.lose_all();
            }
            if let Some(packet) = pair.to_server.pop_front() {
                pair.give_server(packet);
            } else if let Some(packet) = pair.to_client.pop_front() {
                pair.give_client(packet);
            }
        }
        pair.run_for(Duration::from_secs(5));
        assert_shut_down(&pair);
    }
}

#[test]
fn a_shutdown_before_the_association_is_up_waits_for_it() {
    let mut pair = Pair::new();
    let client = pair.connect();
    pair.client
        .endpoint
        .send(pair.now, client, ordered(0), Bytes::from_static(b"hello"))
        .unwrap();
    pair.client.endpoint.shutdown(pair.now, client).unwrap();
    pair.run_for(Duration::from_secs(5));
    assert!(pair.client.is_shut_down() && pair.server.is_shut_down());
    let server = pair.server.association();
    assert_eq!(pair.server.receive_all(pair.now, server).len(), 1);
}

#[test]
fn a_shutdown_that_nobody_answers_ends_after_association_max_retrans() {
    let mut pair = Pair::new();
    let (client, _) = pair.establish();
    let mark = pair.client.sent.len();
    let begin = pair.now;
    pair.client.endpoint.shutdown(pair.now, client).unwrap();
    pair.run_for_without_delivery(Duration::from_secs(1000));
    let times: Vec<u64> = pair.client.sent[mark..]
        .iter()
        .filter(|(_, packet)| chunk_types(packet) == [ChunkType::SHUTDOWN])
        .map(|(time, _)| (*time - begin).as_secs())
        .collect();
    // T5-shutdown-guard, 300 seconds, is earlier than the eleventh retransmission.
    assert_eq!(times, [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]);
    assert_eq!(
        chunk_types(&pair.client.sent.last().unwrap().1),
        [ChunkType::ABORT]
    );
    assert!(matches!(
        pair.client.events.last(),
        Some(Event::CommunicationLost {
            cause: LostCause::ShutdownTimedOut,
            ..
        })
    ));
    let patient = EndpointConfig::default().association_max_retrans(3);
    let mut pair = Pair::with(patient, EndpointConfig::default());
    let (client, _) = pair.establish();
    pair.client.endpoint.shutdown(pair.now, client).unwrap();
    pair.run_for_without_delivery(Duration::from_secs(1000));
    assert!(matches!(
        pair.client.events.last(),
        Some(Event::CommunicationLost {
            cause: LostCause::TimedOut,
            ..
        })
    ));
}

#[test]
fn data_that_comes_after_our_shutdown_is_answered_with_shutdown_and_sack() {
    let mut pair = Pair::new();
    let (client, server) = pair.establish();
    for _ in 0..3 {
        pair.server
            .endpoint
            .send(pair.now, server, ordered(0), Bytes::from(vec![1; 1400]))
            .unwrap();
    }
    pair.collect();
    pair.client.endpoint.shutdown(pair.now, client).unwrap();
    pair.collect();
    assert_eq!(
        state(&pair.client, client),
        Some(AssociationState::ShutdownSent)
    );
    pair.to_server.clear();
    let first = pair.to_client.pop_front().unwrap();
    pair.give_client(first);
    let answer = pair.to_server.pop_front().unwrap();
    assert_eq!(chunk_types(&answer), [ChunkType::SACK, ChunkType::SHUTDOWN]);
    pair.to_client.pop_front();
    let third = pair.to_client.pop_front().unwrap();
    pair.give_client(third);
    let answer = pair.to_server.pop_front().unwrap();
    assert_eq!(chunk_types(&answer), [ChunkType::SACK, ChunkType::SHUTDOWN]);
    pair.give_server(answer);
    pair.run_for(Duration::from_secs(10));
    assert_eq!(pair.client.receive_all(pair.now, client).len(), 3);
    assert_shut_down(&pair);
}

/// A SHUTDOWN says nothing of the window: the peer would take the silence about its data for errors.
#[test]
fn a_full_receiver_tells_its_window_after_its_shutdown() {
    let full = EndpointConfig::default()
        .a_rwnd(10_000)
        .max_message_size(10_000);
    let impatient = EndpointConfig::default().association_max_retrans(4);
    let mut pair = Pair::with(full, impatient);
    let (client, server) = pair.establish();
    for number in 0..600 {
        pair.server
            .endpoint
            .send(pair.now, server, ordered(0), message(number, 1000))
            .unwrap();
    }
    pair.client.endpoint.shutdown(pair.now, client).unwrap();
    // The reader sleeps for much longer than five unanswered retransmissions take.
    pair.run_for(Duration::from_secs(120));
    let mut received = 0;
    while received < 600 {
        for news in pair.client.receive_all(pair.now, client) {
            assert_eq!(news.payload, message(received, 1000));
            received += 1;
        }
        pair.run_for(Duration::from_secs(1));
        assert!(
            pair.now - pair.start < Duration::from_secs(290),
            "{received}"
        );
    }
    assert_shut_down(&pair);
}

#[test]
fn an_abort_ends_both_sides_and_says_why() {
    let mut pair = Pair::new();
    let (client, server) = pair.establish();
    pair.client_sends(ordered(0), "never acknowledged");
    pair.lose_all();
    pair.client
        .endpoint
        .abort(pair.now, client, b"had enough")
        .unwrap();
    pair.run();
    assert!(matches!(
        pair.client.events.last(),
        Some(Event::CommunicationLost {
            cause: LostCause::AbortedLocally,
            unsent: 0,
            unacknowledged: 1,
            ..
        })
    ));
    let Some(Event::CommunicationLost {
        id,
        cause: LostCause::AbortedByPeer { causes },
        ..
    }) = pair.server.events.last()
    else {
        panic!("the server lost its association");
    };
    assert_eq!(*id, server);
    let cause = sctp::packet::Causes::new(causes).iter().next();
    assert_eq!(cause, Some(Ok(Cause::UserInitiatedAbort(b"had enough"))));
    assert_eq!(
        pair.client.endpoint.abort(pair.now, client, b""),
        Err(AbortError::UnknownAssociation)
    );
    assert_eq!(pair.server.endpoint.association_count(), 0);
}

#[test]
fn what_was_received_can_be_pulled_after_the_end() {
    let mut pair = Pair::new();
    let (client, server) = pair.establish();
    pair.client_sends(ordered(0), "last words");
    pair.run();
    pair.client.endpoint.abort(pair.now, client, b"").unwrap();
    pair.run();
    assert_eq!(pair.server.endpoint.association_count(), 1);
    assert_eq!(state(&pair.server, server), Some(AssociationState::Closed));
    assert_eq!(pair.server.receive_all(pair.now, server).len(), 1);
    assert_eq!(pair.server.endpoint.association_count(), 0);
}

#[test]
fn an_abort_is_accepted_with_the_right_tag_only() {
    for (reflected, tag_of_client, accepted) in [
        (false, false, true),
        (true, true, true),
        (true, false, false),
        (false, true, false),
    ] {
        let mut pair = Pair::new();
        pair.establish();
        let to_the_server = tag(&pair.client.sent.last().unwrap().1);
        let to_the_client = tag(&pair.server.sent.last().unwrap().1);
        let tag = if tag_of_client {
            to_the_client
        } else {
            to_the_server
        };
        let abort = Chunk::Abort(Abort {
            tag_reflected: reflected,
            ..Abort::default()
        });
        pair.give_server(to_server(tag, &[abort]));
        assert!(pair.to_client.is_empty(), "an ABORT is never answered");
        let gone = pair.server.endpoint.association_count() == 0;
        assert_eq!(gone, accepted, "{reflected} {tag_of_client}");
    }
}

#[test]
fn a_shutdown_complete_counts_in_one_state_and_with_the_right_tag_only() {
    let complete = |tag_reflected| Chunk::ShutdownComplete(ShutdownComplete { tag_reflected });
    let mut pair = Pair::new();
    let (client, server) = pair.establish();
    let to_the_server = tag(&pair.client.sent.last().unwrap().1);
    let to_the_client = tag(&pair.server.sent.last().unwrap().1);
    pair.give_server(to_server(to_the_server, &[complete(false)]));
    assert_eq!(
        state(&pair.server, server),
        Some(AssociationState::Established)
    );
    for (tag, reflected, accepted) in [
        (to_the_client, false, false),
        (to_the_server, true, false),
        (to_the_client, true, true),
    ] {
        if state(&pair.client, client).is_some() {
            pair.client.endpoint.shutdown(pair.now, client).unwrap();
            pair.collect();
            if let Some(shutdown) = pair.to_server.pop_front() {
                pair.give_server(shutdown);
            }
            pair.lose_all();
        }
        pair.give_server(to_server(tag, &[complete(reflected)]));
        let gone = pair.server.endpoint.association_count() == 0;
        assert_eq!(gone, accepted, "{reflected}");
    }
}

#[test]
fn packets_with_a_wrong_tag_are_dropped_silently() {
    let mut pair = Pair::new();
    let (_, server) = pair.establish();
    pair.client_sends(ordered(0), "hello");
    let sound = pair.to_server.pop_front().unwrap();
    for bit in 0..32 {
        pair.give_server(altered(&sound, |bytes| {
            bytes[4 + bit / 8] ^= 1 << (bit % 8)
        }));
    }
    assert!(pair.to_client.is_empty());
    assert_eq!(pair.server.endpoint.statistics().drops.verification_tag, 32);
    assert!(pair.server.receive_all(pair.now, server).is_empty());
}

#[test]
fn a_packet_from_an_address_that_is_not_the_associations_is_dropped_silently() {
    let mut pair = Pair::new();
    pair.establish();
    pair.client_sends(ordered(0), "hello");
    let sound = pair.to_server.pop_front().unwrap();
    let elsewhere = PathAddress {
        remote: [203, 0, 113, 9].into(),
        ..pair.client.path()
    };
    pair.server
        .endpoint
        .handle_packet(pair.now, elsewhere, sound);
    pair.collect();
    assert!(pair.to_client.is_empty());
    assert_eq!(pair.server.endpoint.statistics().drops.unknown_path, 1);
}

/// An answer's chunk, its tag and its T bit.
type Answer = (ChunkType, u32, bool);

/// What section 8.4 answers, rule by rule: the packets and their answers.
fn out_of_the_blue() -> Vec<(Bytes, Option<Answer>)> {
    const TAG: u32 = 0xdead_beef;
    let data = Chunk::Data(Data {
        beginning: true,
        ending: true,
        user_data: b"hello",
        ..Data::default()
    });
    let shutdown = Chunk::Shutdown(Shutdown {
        cumulative_tsn_ack: Tsn(1),
    });
    let complete = Chunk::ShutdownComplete(ShutdownComplete::default());
    let mut stale = CauseBuffer::new();
    stale.push(&Cause::StaleCookie { staleness: 1 }).unwrap();
    let stale = Chunk::Error(OperationError {
        causes: stale.causes(),
    });
    let mut other = CauseBuffer::new();
    other.push(&Cause::OutOfResource).unwrap();
    let other = Chunk::Error(OperationError {
        causes: other.causes(),
    });
    let abort = Chunk::Abort(Abort::default());
    let cookie_echo = Chunk::CookieEcho(CookieEcho {
        cookie: b"not one of ours",
    });
    let blue = |chunks: &[Chunk<'_>]| to_server(TAG, chunks);
    vec![
        (blue(&[data, abort]), None),
        (blue(&[cookie_echo]), None),
        (
            blue(&[Chunk::ShutdownAck]),
            Some((ChunkType::SHUTDOWN_COMPLETE, TAG, true)),
        ),
        (
            blue(&[data, Chunk::ShutdownAck]),
            Some((ChunkType::SHUTDOWN_COMPLETE, TAG, true)),
        ),
        (blue(&[complete]), None),
        (blue(&[stale]), None),
        (blue(&[Chunk::CookieAck]), None),
        (blue(&[other]), Some((ChunkType::ABORT, TAG, true))),
        (blue(&[data]), Some((ChunkType::ABORT, TAG, true))),
        (blue(&[shutdown]), Some((ChunkType::ABORT, TAG, true))),
        (to_server(0, &[data]), None),
    ]
}

fn describe(answer: &[u8]) -> Answer {
    let parsed = Packet::read(answer).unwrap();
    assert!(parsed.has_valid_checksum());
    assert_eq!(parsed.header().source_port, SERVER_PORT);
    assert_eq!(parsed.header().destination_port, CLIENT_PORT);
    let chunk = parsed.chunks().next().unwrap().unwrap();
    let reflected = match chunk {
        Chunk::Abort(abort) => abort.tag_reflected,
        Chunk::ShutdownComplete(complete) => complete.tag_reflected,
        _ => panic!("{chunk:?}"),
    };
    (
        chunk.chunk_type(),
        parsed.header().verification_tag,
        reflected,
    )
}

#[test]
fn packets_out_of_the_blue_are_answered_as_section_8_4_says() {
    for (packet, expected) in out_of_the_blue() {
        let mut pair = Pair::new();
        pair.give_server(packet.clone());
        let answer = pair.to_client.pop_front();
        assert_eq!(answer.as_deref().map(describe), expected, "{packet:?}");
        assert!(pair.to_client.is_empty());
        let from = pair.client.path();
        let answer = answer_out_of_the_blue(from, &packet);
        assert_eq!(
            answer.map(|transmit| describe(&transmit.packet)),
            expected,
            "{packet:?}"
        );
        let multicast = PathAddress {
            remote: [224, 0, 0, 1].into(),
            ..from
        };
        assert_eq!(answer_out_of_the_blue(multicast, &packet), None);
        pair.server
            .endpoint
            .handle_packet(pair.now, multicast, packet);
        assert!(pair.server.endpoint.poll_transmit(pair.now).is_none());
    }
}

#[test]
fn an_init_to_a_port_that_nobody_has_is_refused() {
    let init = |initiate_tag| {
        let chunk = Chunk::Init(Init {
            initiate_tag,
            a_rwnd: 5000,
            outbound_streams: 1,
            inbound_streams: 1,
            initial_tsn: Tsn(5),
            parameters: Parameters::default(),
        });
        packet(CLIENT_PORT, SERVER_PORT, 0, &[chunk])
    };
    let from = Pair::new().client.path();
    let answer = answer_out_of_the_blue(from, &init(77)).unwrap();
    assert_eq!(describe(&answer.packet), (ChunkType::ABORT, 77, false));
    assert_eq!(answer.path, from);
    assert_eq!(answer_out_of_the_blue(from, &init(0)), None);
}

#[test]
fn answers_out_of_the_blue_are_bounded() {
    let small = EndpointConfig::default().max_pending_replies(10);
    let mut pair = Pair::with(EndpointConfig::default(), small);
    let from = pair.client.path();
    let blue = to_server(5, &[Chunk::ShutdownAck]);
    for _ in 0..100 {
        pair.server
            .endpoint
            .handle_packet(pair.now, from, blue.clone());
    }
    pair.collect();
    assert_eq!(pair.to_client.len(), 10);
}

#[test]
fn an_init_while_shutdown_ack_is_out_repeats_it() {
    let mut pair = Pair::new();
    let (client, _) = pair.establish();
    pair.client.endpoint.shutdown(pair.now, client).unwrap();
    pair.collect();
    let shutdown = pair.to_server.pop_front().unwrap();
    pair.give_server(shutdown);
    pair.lose_all();
    // The client has restarted meanwhile and asks for an association.
    pair.client = common::Host::new(CLIENT_PORT, [192, 0, 2, 1], EndpointConfig::default(), 99);
    pair.connect();
    let init = pair.to_server.pop_front().unwrap();
    pair.give_server(init);
    let answer = pair.to_client.pop_front().unwrap();
    assert_eq!(chunk_types(&answer), [ChunkType::SHUTDOWN_ACK]);
    pair.give_client(answer);
    let complete = pair.to_server.pop_front().unwrap();
    assert_eq!(chunk_types(&complete), [ChunkType::SHUTDOWN_COMPLETE]);
    pair.give_server(complete);
    assert!(pair.server.is_shut_down());
    // The INIT is sent again by its timer, and now it succeeds.
    pair.run_for(Duration::from_secs(2));
    pair.client.association();
    assert_eq!(pair.server.endpoint.association_count(), 1);
}

#[test]
fn a_cookie_echo_while_shutdown_ack_is_out_is_refused() {
    let mut pair = Pair::new();
    let (client, _) = pair.establish();
    // A restarted client got its INIT ACK just before the shutdown.
    let mut restarted =
        common::Host::new(CLIENT_PORT, [192, 0, 2, 1], EndpointConfig::default(), 99);
    let to = pair.server.path();
    restarted
        .endpoint
        .connect(pair.now, to, SERVER_PORT)
        .unwrap();
    let init = restarted.take_packets(pair.now).remove(0);
    pair.give_server(init);
    let init_ack = pair.to_client.pop_front().unwrap();
    restarted.endpoint.handle_packet(pair.now, to, init_ack);
    let cookie_echo = restarted.take_packets(pair.now).remove(0);
    pair.client.endpoint.shutdown(pair.now, client).unwrap();
    pair.collect();
    let shutdown = pair.to_server.pop_front().unwrap();
    pair.give_server(shutdown);
    pair.lose_all();
    pair.give_server(cookie_echo);
    let answer = pair.to_client.pop_front().unwrap();
    assert_eq!(
        chunk_types(&answer),
        [ChunkType::ERROR, ChunkType::SHUTDOWN_ACK]
    );
    assert!(
        !pair
            .server
            .events
            .iter()
            .any(|event| matches!(event, Event::Restart { .. }))
    );
}

#[test]
fn an_abort_of_a_peer_that_has_finished_is_the_end_in_good_order() {
    let mut pair = Pair::new();
    let (client, server) = pair.establish();
    pair.client.endpoint.shutdown(pair.now, client).unwrap();
    pair.collect();
    let shutdown = pair.to_server.pop_front().unwrap();
    pair.give_server(shutdown);
    let shutdown_ack = pair.to_client.pop_front().unwrap();
    pair.give_client(shutdown_ack);
    pair.lose_all();
    // Something late of the server's meets a client that has forgotten it.
    let to_the_client = tag(&pair.server.sent.last().unwrap().1);
    let late = common::to_client(to_the_client, &[Chunk::Heartbeat(Default::default())]);
    pair.give_client(late);
    let abort = pair.to_server.pop_front().unwrap();
    let Some(Ok(Chunk::Abort(answer))) = Packet::read(&abort).unwrap().chunks().next() else {
        panic!("an ABORT was sent");
    };
    assert!(answer.tag_reflected);
    pair.give_server(abort);
    assert!(matches!(
        pair.server.events.last(),
        Some(Event::ShutdownComplete { id }) if *id == server
    ));
}

#[test]
fn no_heartbeats_go_to_a_peer_that_shuts_down() {
    let mut pair = Pair::new();
    let (client, server) = pair.establish();
    pair.server
        .endpoint
        .send(
            pair.now,
            server,
            ordered(0),
            Bytes::from_static(b"still to be delivered"),
        )
        .unwrap();
    pair.collect();
    pair.to_client.clear();
    pair.client.endpoint.shutdown(pair.now, client).unwrap();
    pair.collect();
    let shutdown = pair.to_server.pop_front().unwrap();
    pair.give_server(shutdown);
    assert_eq!(
        state(&pair.server, server),
        Some(AssociationState::ShutdownReceived)
    );
    pair.run_for_without_delivery(Duration::from_secs(200));
    assert!(
        !pair
            .server
            .sent
            .iter()
            .any(|(_, packet)| chunk_types(packet).contains(&ChunkType::HEARTBEAT))
    );
}

/// Lets time pass, with `answer` each 900 ms from the peer, until the server's association is
/// gone: how long that takes, and why it is.
fn time_to_the_end(pair: &mut Pair, answer: &Bytes) -> (Duration, LostCause) {
    let begin = pair.now;
    while pair.server.endpoint.association_count() > 0 {
        pair.run_for_without_delivery(Duration::from_millis(900));
        pair.give_server(answer.clone());
        pair.lose_all();
        assert!(pair.now - begin < Duration::from_secs(3600), "for ever");
    }
    let Some(Event::CommunicationLost { cause, .. }) = pair.server.events.last() else {
        panic!("the server lost its association");
    };
    (pair.now - begin, cause.clone())
}

#[test]
fn a_peer_that_repeats_its_shutdown_for_ever_does_not_keep_the_association() {
    let mut pair = Pair::new();
    let (client, _) = pair.establish();
    pair.client.endpoint.shutdown(pair.now, client).unwrap();
    pair.collect();
    let shutdown = pair.to_server.pop_front().unwrap();
    pair.give_server(shutdown.clone());
    let server = pair.server.association();
    assert_eq!(
        state(&pair.server, server),
        Some(AssociationState::ShutdownAckSent)
    );
    // The client is silent but for the SHUTDOWN that it repeats.
    pair.client.endpoint.abort(pair.now, client, b"").unwrap();
    pair.lose_all();
    let (time, cause) = time_to_the_end(&mut pair, &shutdown);
    // T2 has expired once more than Association.Max.Retrans times.
    assert_eq!(cause, LostCause::TimedOut);
    let expected = Duration::from_secs(1 + 2 + 4 + 8 + 16 + 32 + 5 * 60);
    assert!(time >= expected && time < expected + Duration::from_secs(2));
}

#[test]
fn a_peer_that_never_acknowledges_for_good_does_not_keep_an_association_that_is_to_end() {
    for gap in [(1, 1), (2, 2)] {
        let mut pair = Pair::new();
        let (client, server) = pair.establish();
        for _ in 0..2 {
            pair.server
                .endpoint
                .send(pair.now, server, ordered(0), Bytes::from_static(b"x"))
                .unwrap();
        }
        pair.collect();
        let packets: Vec<Bytes> = pair.to_client.drain(..).collect();
        let first = common::data_of(&packets)[0].0;
        let server_tag = tag(&pair.client.sent.last().unwrap().1);
        pair.client.endpoint.abort(pair.now, client, b"").unwrap();
        pair.lose_all();
        pair.server.endpoint.shutdown(pair.now, server).unwrap();
        let mut buffer = bytes::BytesMut::new();
        let mut writer = PacketWriter::new(&mut buffer, CLIENT_PORT, SERVER_PORT, server_tag, 1000);
        let gaps = [gap].map(|(start, end)| GapAckBlock { start, end });
        // A window that is closed, so that what is lost is no error.
        writer
            .sack(first.previous(), 0, 0, gaps.into_iter(), [].into_iter())
            .unwrap();
        let sack = writer.finish();
        pair.give_server(sack.clone());
        let (time, cause) = time_to_the_end(&mut pair, &sack);
        // (Association.Max.Retrans + 1) times RTO.Max.
        assert_eq!(cause, LostCause::ShutdownTimedOut);
        let expected = Duration::from_secs(11 * 60);
        assert!(time >= expected && time < expected + Duration::from_secs(2));
    }
}
