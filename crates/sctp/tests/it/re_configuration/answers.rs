//! The answers to a scripted peer's requests (RFC 6525 section 5.2).

use sctp::packet::{
    AddStreamsRequest, Cause, Chunk, ChunkType, Data, IncomingSsnResetRequest, Parameter,
    ReConfigResult, SequenceNumber, Ssn, StreamList,
};
use sctp::{
    AssociationState, Event, ReConfigurationOutcome, ReConfigurationPolicy, StreamDirection,
};

use super::{
    FIRST, connected, events, give, granting, outgoing_reset, re_configs, response, results,
};
use crate::rfc9260::scripted::{PEER_TSN, Scripted, chunks, message, types};

const PERFORMED: ReConfigResult = ReConfigResult::SUCCESS_PERFORMED;
const NOTHING_TO_DO: ReConfigResult = ReConfigResult::SUCCESS_NOTHING_TO_DO;
const IN_PROGRESS: ReConfigResult = ReConfigResult::IN_PROGRESS;
const BAD_NUMBER: ReConfigResult = ReConfigResult::ERROR_BAD_SEQUENCE_NUMBER;

fn add_outgoing(number: SequenceNumber, new_streams: u16) -> Parameter<'static> {
    Parameter::AddOutgoingStreamsRequest(AddStreamsRequest {
        request_sequence_number: number,
        new_streams,
    })
}

fn add_incoming(number: SequenceNumber, new_streams: u16) -> Parameter<'static> {
    Parameter::AddIncomingStreamsRequest(AddStreamsRequest {
        request_sequence_number: number,
        new_streams,
    })
}

/// A whole message on a stream.
fn on_stream(number: u32, stream: u16, ssn: u16) -> Data<'static> {
    Data {
        stream,
        ssn: Ssn(ssn),
        ..message(number, b"m")
    }
}

/// Stream and number of what can be received.
fn received(scripted: &mut Scripted) -> Vec<(u16, u16)> {
    let messages = scripted.receive();
    messages
        .iter()
        .map(|message| (message.stream, message.ssn))
        .collect()
}

#[test]
fn a_reset_begins_anew_with_the_listed_streams() {
    let mut scripted = connected(granting());
    for number in 0..4 {
        let data = on_stream(number, (number % 2) as u16, (number / 2) as u16);
        scripted.give(&[Chunk::Data(data)]);
    }
    scripted.take();
    give(
        &mut scripted,
        &[outgoing_reset(FIRST, PEER_TSN + 3, &[[0, 1]])],
    );
    let packets = scripted.take();
    assert_eq!(results(&packets), [PERFORMED]);
    assert_eq!(types(&packets), [[ChunkType::RE_CONFIG, ChunkType::SACK]]);
    let reset = Event::StreamReset {
        id: scripted.id(),
        direction: StreamDirection::Incoming,
        streams: vec![1],
        outcome: ReConfigurationOutcome::Performed,
    };
    assert_eq!(events(&scripted), [&reset]);
    received(&mut scripted);
    scripted.give(&[
        Chunk::Data(on_stream(4, 1, 0)),
        Chunk::Data(on_stream(5, 0, 2)),
    ]);
    assert_eq!(received(&mut scripted), [(1, 0), (0, 2)]);
}

#[test]
fn a_reset_without_a_list_is_one_of_all_streams() {
    let mut scripted = connected(granting());
    for number in 0..3 {
        scripted.give(&[Chunk::Data(on_stream(number, number as u16, 0))]);
    }
    give(&mut scripted, &[outgoing_reset(FIRST, PEER_TSN + 2, &[])]);
    assert_eq!(results(&scripted.take()), [PERFORMED]);
    received(&mut scripted);
    for number in 3..6 {
        scripted.give(&[Chunk::Data(on_stream(number, number as u16 - 3, 0))]);
    }
    assert_eq!(received(&mut scripted), [(0, 0), (1, 0), (2, 0)]);
}

#[test]
fn a_reset_waits_for_the_data_of_before() {
    let mut scripted = connected(granting());
    scripted.give(&[Chunk::Data(on_stream(0, 1, 0))]);
    scripted.take();
    let request = outgoing_reset(FIRST, PEER_TSN + 2, &[[0, 1]]);
    give(&mut scripted, &[request]);
    assert_eq!(results(&scripted.take()), [IN_PROGRESS]);
    // What comes after the reset is held: on its streams, in whatever order.
    let unordered = Data {
        unordered: true,
        ..on_stream(5, 1, 0)
    };
    for data in [
        on_stream(3, 1, 0),
        on_stream(4, 2, 0),
        unordered,
        on_stream(2, 1, 2),
    ] {
        scripted.give(&[Chunk::Data(data)]);
    }
    assert_eq!(received(&mut scripted), [(1, 0), (2, 0)]);
    give(&mut scripted, &[request]);
    assert_eq!(results(&scripted.take()), [IN_PROGRESS], "still");
    assert!(events(&scripted).is_empty());
    scripted.give(&[Chunk::Data(on_stream(1, 1, 1))]);
    assert_eq!(results(&scripted.take()), [PERFORMED], "unasked");
    assert_eq!(received(&mut scripted), [(1, 1), (1, 2), (1, 0), (1, 0)]);
    give(&mut scripted, &[request]);
    assert_eq!(results(&scripted.take()), [PERFORMED]);
    assert_eq!(events(&scripted).len(), 1);
}

#[test]
fn one_reset_waits_at_a_time() {
    let mut scripted = connected(granting());
    give(&mut scripted, &[outgoing_reset(FIRST, PEER_TSN, &[])]);
    assert_eq!(results(&scripted.take()), [IN_PROGRESS]);
    give(
        &mut scripted,
        &[outgoing_reset(FIRST.next(), PEER_TSN, &[])],
    );
    assert_eq!(
        results(&scripted.take()),
        [ReConfigResult::ERROR_REQUEST_ALREADY_IN_PROGRESS]
    );
}

#[test]
fn what_is_held_for_a_reset_is_bounded_and_taken_back() {
    let config = granting().a_rwnd(1500);
    let mut scripted = connected(config);
    give(&mut scripted, &[outgoing_reset(FIRST, PEER_TSN, &[])]);
    let payload = [7; 500];
    for number in 1..20 {
        scripted.give(&[Chunk::Data(Data {
            ssn: Ssn(number as u16 - 1),
            ..message(number, &payload)
        })]);
    }
    assert_eq!(scripted.status().receive_buffer_bytes, 1500);
    scripted.give(&[Chunk::Data(message(0, &payload))]);
    assert_eq!(received(&mut scripted), [(0, 0), (0, 0), (0, 1), (0, 2)]);
}

#[test]
fn a_message_that_waits_for_one_of_before_the_reset_is_not_kept_for_ever() {
    let mut scripted = connected(granting());
    scripted.give(&[
        Chunk::Data(on_stream(0, 1, 5)),
        Chunk::Data(on_stream(1, 2, 5)),
    ]);
    give(
        &mut scripted,
        &[outgoing_reset(FIRST, PEER_TSN + 1, &[[0, 1]])],
    );
    assert_eq!(received(&mut scripted), [(1, 5)]);
    give(
        &mut scripted,
        &[outgoing_reset(FIRST.next(), PEER_TSN + 1, &[])],
    );
    assert_eq!(received(&mut scripted), [(2, 5)]);
    assert_eq!(scripted.status().receive_buffer_bytes, 0);
}

#[test]
fn streams_that_there_are_not_cannot_be_reset() {
    let mut scripted = connected(granting());
    let request = outgoing_reset(FIRST, PEER_TSN - 1, &[[0, 9], [0, 10]]);
    give(&mut scripted, &[request]);
    assert_eq!(results(&scripted.take()), [ReConfigResult::ERROR_WRONG_SSN]);
    assert!(events(&scripted).is_empty());
}

#[test]
fn streams_are_added_for_the_peer() {
    let mut scripted = connected(granting());
    give(&mut scripted, &[add_outgoing(FIRST, 3)]);
    assert_eq!(results(&scripted.take()), [PERFORMED]);
    let change = Event::StreamChange {
        id: scripted.id(),
        outbound_streams: 10,
        inbound_streams: 13,
        outcome: ReConfigurationOutcome::Performed,
    };
    assert_eq!(events(&scripted), [&change]);
    assert_eq!(scripted.status().inbound_streams, 13);
    scripted.give(&[Chunk::Data(on_stream(0, 12, 0))]);
    assert_eq!(received(&mut scripted), [(12, 0)]);
}

#[test]
fn no_more_streams_are_added_than_are_allowed() {
    let config = granting().max_inbound_streams(12).max_outbound_streams(12);
    let mut scripted = connected(config);
    for (index, (request, result)) in [
        (add_outgoing as fn(_, _) -> _, 3, ReConfigResult::DENIED),
        (add_outgoing, u16::MAX, ReConfigResult::DENIED),
        (add_outgoing, 0, NOTHING_TO_DO),
        (add_outgoing, 2, PERFORMED),
        (add_outgoing, 1, ReConfigResult::DENIED),
        (add_incoming, 3, ReConfigResult::DENIED),
        (add_incoming, u16::MAX, ReConfigResult::DENIED),
        (add_incoming, 0, NOTHING_TO_DO),
    ]
    .into_iter()
    .map(|(make, count, result)| ((make, count), result))
    .enumerate()
    {
        let (make, count): (fn(SequenceNumber, u16) -> Parameter<'static>, u16) = request;
        give(&mut scripted, &[make(FIRST + index as u32, count)]);
        assert_eq!(results(&scripted.take()), [result], "{index}");
    }
    let status = scripted.status();
    assert_eq!((status.inbound_streams, status.outbound_streams), (12, 10));
}

#[test]
fn a_request_for_incoming_streams_leads_to_one_for_outgoing_ones() {
    let mut scripted = connected(granting());
    give(&mut scripted, &[add_incoming(FIRST, 3)]);
    let packets = scripted.take();
    let number = SequenceNumber(scripted.tsn.0);
    assert_eq!(
        re_configs(&packets),
        [
            vec![response(FIRST, PERFORMED)],
            vec![add_outgoing(number, 3)]
        ]
    );
    assert_eq!(scripted.status().outbound_streams, 10, "not yet");
    // The next one waits for that, and one more does not.
    for (index, result) in [
        (1, PERFORMED),
        (2, ReConfigResult::ERROR_REQUEST_ALREADY_IN_PROGRESS),
    ] {
        give(&mut scripted, &[add_incoming(FIRST + index, 1)]);
        assert_eq!(results(&scripted.take()), [result]);
    }
    give(&mut scripted, &[response(number, PERFORMED)]);
    assert_eq!(scripted.status().outbound_streams, 13);
    scripted.send(12, b"on a new stream");
    let packets = scripted.take();
    assert_eq!(re_configs(&packets), [vec![add_outgoing(number.next(), 1)]]);
    assert!(types(&packets).concat().contains(&ChunkType::DATA));
}

#[test]
fn both_directions_are_asked_for_in_one_chunk() {
    let mut scripted = connected(granting());
    give(
        &mut scripted,
        &[add_outgoing(FIRST, 1), add_incoming(FIRST.next(), 2)],
    );
    let packets = scripted.take();
    let number = SequenceNumber(scripted.tsn.0);
    let responses = vec![
        response(FIRST, PERFORMED),
        response(FIRST.next(), PERFORMED),
    ];
    assert_eq!(
        re_configs(&packets),
        [responses.clone(), vec![add_outgoing(number, 2)]]
    );
    // Section 5.2.1: what comes again gets the same again.
    give(
        &mut scripted,
        &[add_outgoing(FIRST, 1), add_incoming(FIRST.next(), 2)],
    );
    assert_eq!(re_configs(&scripted.take()), [responses]);
    assert_eq!(scripted.status().inbound_streams, 11);
}

#[test]
fn requests_are_denied_by_default() {
    let config = granting().re_configuration_policy(ReConfigurationPolicy::default());
    let mut scripted = connected(config);
    let requests: [fn(SequenceNumber) -> Parameter<'static>; 5] = [
        |number| outgoing_reset(number, PEER_TSN - 1, &[]),
        |request_sequence_number| {
            Parameter::IncomingSsnResetRequest(IncomingSsnResetRequest {
                request_sequence_number,
                streams: StreamList::new(&[]),
            })
        },
        |request_sequence_number| Parameter::SsnTsnResetRequest {
            request_sequence_number,
        },
        |number| add_outgoing(number, 1),
        |number| add_incoming(number, 1),
    ];
    for (index, request) in requests.into_iter().enumerate() {
        give(&mut scripted, &[request(FIRST + index as u32)]);
        assert_eq!(results(&scripted.take()), [ReConfigResult::DENIED]);
    }
    assert!(events(&scripted).is_empty());
}

#[test]
fn numbers_that_are_not_next_are_refused() {
    let mut scripted = connected(granting());
    for number in [FIRST.next(), FIRST.previous(), FIRST + (1 << 31)] {
        give(&mut scripted, &[add_outgoing(number, 1)]);
        assert_eq!(results(&scripted.take()), [BAD_NUMBER]);
    }
    give(&mut scripted, &[add_outgoing(FIRST, 1)]);
    assert_eq!(results(&scripted.take()), [PERFORMED]);
    // A replay is answered, and does nothing.
    for _ in 0..3 {
        give(&mut scripted, &[add_outgoing(FIRST, 1)]);
        assert_eq!(results(&scripted.take()), [PERFORMED]);
    }
    give(&mut scripted, &[add_outgoing(FIRST.next(), 0)]);
    assert_eq!(results(&scripted.take()), [NOTHING_TO_DO]);
    give(&mut scripted, &[add_outgoing(FIRST, 1)]);
    assert_eq!(results(&scripted.take()), [BAD_NUMBER], "an older one");
    // The second request of a chunk has the next number.
    give(
        &mut scripted,
        &[add_outgoing(FIRST + 2, 0), add_incoming(FIRST + 9, 1)],
    );
    assert_eq!(results(&scripted.take()), [NOTHING_TO_DO, BAD_NUMBER]);
    assert_eq!(scripted.status().inbound_streams, 11);
}

#[test]
fn parameters_that_do_not_go_together_are_a_protocol_violation() {
    let add = add_outgoing(FIRST, 1);
    let reset = outgoing_reset(FIRST, PEER_TSN - 1, &[]);
    let answer = response(FIRST, PERFORMED);
    let wrong: [&[Parameter<'_>]; 7] = [
        &[reset, answer],
        &[answer, add],
        &[add, reset],
        &[reset, reset],
        &[answer, answer, answer],
        &[Parameter::CookiePreservative {
            life_span_increment: 1,
        }],
        &[add_incoming(FIRST, 1), add],
    ];
    for parameters in wrong {
        let mut scripted = connected(granting());
        give(&mut scripted, parameters);
        let packets = scripted.take();
        let [Chunk::Error(error)] = chunks(&packets[0])[..] else {
            panic!("an ERROR to {parameters:?}");
        };
        assert!(matches!(
            error.causes.iter().next(),
            Some(Ok(Cause::ProtocolViolation(_)))
        ));
        assert_eq!(scripted.state(), AssociationState::Established);
        give(&mut scripted, &[add]);
        assert_eq!(
            results(&scripted.take()),
            [PERFORMED],
            "it counted for nothing"
        );
    }
}

#[test]
fn an_unknown_parameter_ends_the_processing() {
    let mut scripted = connected(granting());
    let unknown = [0x82, 0, 0, 8, 0, 99, 0, 4];
    scripted.give_raw(&unknown);
    assert!(scripted.take().is_empty());
    // Behind one that is known: that one alone is processed.
    let number = FIRST.0.to_be_bytes();
    let mut both = vec![0x82, 0, 0, 20, 0, 17, 0, 12];
    both.extend_from_slice(&number);
    both.extend_from_slice(&[0, 1, 0, 0, 0, 99, 0, 4]);
    scripted.give_raw(&both);
    assert_eq!(results(&scripted.take()), [PERFORMED]);
    assert_eq!(scripted.status().inbound_streams, 11);
}

#[test]
fn malformed_chunks_are_dropped_and_counted() {
    let mut scripted = connected(granting());
    let dropped = |scripted: &Scripted| scripted.endpoint.statistics().drops.chunks;
    for chunk in [
        &[0x82, 0, 0, 4][..],
        &[0x82, 0, 0, 12, 0, 17, 0, 8, 0, 0, 0, 0],
        &[0x82, 0, 0, 10, 0, 13, 0, 6, 0, 0, 0, 0],
    ] {
        let before = dropped(&scripted);
        scripted.give_raw(chunk);
        assert!(scripted.take().is_empty());
        assert_eq!(dropped(&scripted), before + 1);
    }
}

#[test]
fn a_peer_that_did_not_offer_it_gets_no_answer() {
    let mut scripted = Scripted::connected(granting());
    give(&mut scripted, &[add_outgoing(FIRST, 1)]);
    assert!(scripted.take().is_empty());
    assert_eq!(scripted.endpoint.statistics().drops.chunks, 1);
}

#[test]
fn requests_are_answered_until_the_peer_has_shut_down() {
    let mut scripted = connected(granting());
    let (now, id) = (scripted.now, scripted.id());
    scripted.endpoint.shutdown(now, id).expect("it is there");
    scripted.take();
    assert_eq!(scripted.state(), AssociationState::ShutdownSent);
    // It may have messages that wait for the reset.
    give(&mut scripted, &[outgoing_reset(FIRST, PEER_TSN - 1, &[])]);
    assert_eq!(results(&scripted.take()), [PERFORMED]);
    scripted.give_shutdown();
    scripted.take();
    assert_eq!(scripted.state(), AssociationState::ShutdownAckSent);
    give(&mut scripted, &[add_outgoing(FIRST.next(), 1)]);
    assert!(re_configs(&scripted.take()).is_empty());
}

#[test]
fn a_response_that_nobody_waits_for_is_ignored() {
    let mut scripted = connected(granting());
    let number = SequenceNumber(scripted.tsn.0);
    give(&mut scripted, &[response(number, PERFORMED)]);
    assert!(scripted.take().is_empty());
    assert!(events(&scripted).is_empty());
}

#[test]
fn a_flood_of_requests_gets_no_more_than_a_packet_in_answer() {
    let mut scripted = connected(granting());
    let before = PEER_TSN - 1;
    let mut chunk = vec![0x82, 0, 0, 20, 0, 13, 0, 16];
    for word in [(FIRST + 7).0, 0, before.0] {
        chunk.extend_from_slice(&word.to_be_bytes());
    }
    scripted.give_raw(&chunk.repeat(1000));
    let packets = scripted.take();
    assert!(packets.len() <= 2, "{}", packets.len());
    assert!(packets.iter().all(|packet| packet.len() <= 1500));
    assert!(scripted.endpoint.statistics().drops.answers > 0);
}
