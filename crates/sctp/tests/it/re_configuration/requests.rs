//! Our requests, and a scripted peer's responses (RFC 6525 sections 5.1 and 5.2.7).

use std::time::Duration;

use sctp::packet::{
    AddStreamsRequest, ChunkType, IncomingSsnResetRequest, Parameter, ReConfigResult,
    SequenceNumber, StreamList,
};
use sctp::{
    AssociationState, Event, LostCause, ReConfigurationError, ReConfigurationOutcome,
    StreamDirection, StreamReset,
};

use super::{
    FIRST, connected, events, give, granting, outgoing_reset, re_configs, response, results,
};
use crate::rfc9260::scripted::{PEER_TSN, Scripted, at, peer, types};

fn incoming(streams: &[u16]) -> StreamReset {
    StreamReset {
        incoming: Some(streams.to_vec()),
        ..StreamReset::default()
    }
}

fn reset(scripted: &mut Scripted, reset: StreamReset) -> Result<(), ReConfigurationError> {
    let (now, id) = (scripted.now, scripted.id());
    scripted.endpoint.reset_streams(now, id, reset)
}

fn add(scripted: &mut Scripted, outgoing: u16, incoming: u16) -> Result<(), ReConfigurationError> {
    let (now, id) = (scripted.now, scripted.id());
    scripted.endpoint.add_streams(now, id, outgoing, incoming)
}

/// The number of the endpoint's first request.
fn own(scripted: &Scripted) -> SequenceNumber {
    SequenceNumber(scripted.tsn.0)
}

fn incoming_request(request_sequence_number: SequenceNumber, streams: &[[u8; 2]]) -> Parameter<'_> {
    Parameter::IncomingSsnResetRequest(IncomingSsnResetRequest {
        request_sequence_number,
        streams: StreamList::new(streams),
    })
}

/// Whether nothing is sent for a long time.
fn is_quiet(scripted: &mut Scripted) -> bool {
    scripted.pass(Duration::from_secs(100)).is_empty()
}

fn added(scripted: &Scripted, outcome: ReConfigurationOutcome) -> Event {
    let status = scripted.status();
    Event::StreamChange {
        id: scripted.id(),
        outbound_streams: status.outbound_streams,
        inbound_streams: status.inbound_streams,
        outcome,
    }
}

#[test]
fn more_streams_are_used_once_the_peer_agrees() {
    let mut scripted = connected(granting());
    let number = own(&scripted);
    add(&mut scripted, 3, 0).unwrap();
    let request = Parameter::AddOutgoingStreamsRequest(AddStreamsRequest {
        request_sequence_number: number,
        new_streams: 3,
    });
    assert_eq!(re_configs(&scripted.take()), [[request]]);
    assert_eq!(scripted.status().outbound_streams, 10);
    give(
        &mut scripted,
        &[response(number, ReConfigResult::SUCCESS_PERFORMED)],
    );
    assert_eq!(scripted.status().outbound_streams, 13);
    let change = added(&scripted, ReConfigurationOutcome::Performed);
    assert_eq!(events(&scripted), [&change]);
    add(&mut scripted, 1, 0).unwrap();
    let next = Parameter::AddOutgoingStreamsRequest(AddStreamsRequest {
        request_sequence_number: number.next(),
        new_streams: 1,
    });
    assert_eq!(re_configs(&scripted.take()), [[next]]);
}

#[test]
fn both_directions_go_into_one_chunk() {
    let mut scripted = connected(granting());
    let number = own(&scripted);
    add(&mut scripted, 1, 2).unwrap();
    let request = |request_sequence_number, new_streams| AddStreamsRequest {
        request_sequence_number,
        new_streams,
    };
    assert_eq!(
        re_configs(&scripted.take()),
        [[
            Parameter::AddOutgoingStreamsRequest(request(number, 1)),
            Parameter::AddIncomingStreamsRequest(request(number.next(), 2)),
        ]]
    );
    give(
        &mut scripted,
        &[response(number, ReConfigResult::SUCCESS_PERFORMED)],
    );
    assert_eq!(
        add(&mut scripted, 1, 0),
        Err(ReConfigurationError::AlreadyInProgress),
        "the other one is not answered"
    );
    // Section 5.2.6: the peer's own request answers it.
    give(
        &mut scripted,
        &[Parameter::AddOutgoingStreamsRequest(request(FIRST, 2))],
    );
    assert_eq!(
        results(&scripted.take()),
        [ReConfigResult::SUCCESS_PERFORMED]
    );
    assert_eq!(scripted.status().inbound_streams, 12);
    assert_eq!(add(&mut scripted, 1, 0), Ok(()));
}

#[test]
fn a_refusal_is_told() {
    let refusals = [
        (ReConfigResult::DENIED, ReConfigurationOutcome::Denied),
        (
            ReConfigResult::ERROR_WRONG_SSN,
            ReConfigurationOutcome::Failed,
        ),
        (
            ReConfigResult::ERROR_REQUEST_ALREADY_IN_PROGRESS,
            ReConfigurationOutcome::Failed,
        ),
        (
            ReConfigResult::ERROR_BAD_SEQUENCE_NUMBER,
            ReConfigurationOutcome::Failed,
        ),
        (ReConfigResult(7), ReConfigurationOutcome::Failed),
    ];
    for (result, outcome) in refusals {
        let mut scripted = connected(granting());
        let number = own(&scripted);
        add(&mut scripted, 1, 1).unwrap();
        scripted.take();
        give(
            &mut scripted,
            &[response(number, result), response(number.next(), result)],
        );
        let change = added(&scripted, outcome);
        assert_eq!(events(&scripted), [&change, &change]);
        assert_eq!(scripted.status().outbound_streams, 10);
        reset(&mut scripted, incoming(&[])).unwrap();
        scripted.take();
        give(&mut scripted, &[response(number + 2, result)]);
        let refused = Event::StreamReset {
            id: scripted.id(),
            direction: StreamDirection::Incoming,
            streams: Vec::new(),
            outcome,
        };
        assert_eq!(events(&scripted).last(), Some(&&refused));
        assert!(is_quiet(&mut scripted));
    }
}

#[test]
fn incoming_streams_are_reset_by_the_peers_own_request() {
    let mut scripted = connected(granting());
    let number = own(&scripted);
    reset(&mut scripted, incoming(&[4, 1, 4])).unwrap();
    assert_eq!(
        re_configs(&scripted.take()),
        [[incoming_request(number, &[[0, 1], [0, 4]])]]
    );
    let Parameter::OutgoingSsnResetRequest(mut answer) =
        outgoing_reset(FIRST, PEER_TSN - 1, &[[0, 1], [0, 4]])
    else {
        unreachable!();
    };
    answer.response_sequence_number = number;
    give(&mut scripted, &[Parameter::OutgoingSsnResetRequest(answer)]);
    assert_eq!(
        results(&scripted.take()),
        [ReConfigResult::SUCCESS_PERFORMED]
    );
    assert_eq!(events(&scripted).len(), 1);
    assert!(is_quiet(&mut scripted), "it is acknowledged");
    assert_eq!(reset(&mut scripted, incoming(&[])), Ok(()));
    assert_eq!(
        re_configs(&scripted.take()),
        [[incoming_request(number.next(), &[])]]
    );
}

#[test]
fn one_request_is_in_flight() {
    let mut scripted = connected(granting());
    add(&mut scripted, 1, 0).unwrap();
    for _ in 0..2 {
        assert_eq!(
            reset(&mut scripted, incoming(&[])),
            Err(ReConfigurationError::AlreadyInProgress)
        );
        scripted.take();
    }
    // What answers the peer's request waits, too (section 5.1.1).
    let request = AddStreamsRequest {
        request_sequence_number: FIRST,
        new_streams: 2,
    };
    let number = own(&scripted);
    give(
        &mut scripted,
        &[response(number, ReConfigResult::IN_PROGRESS)],
    );
    give(
        &mut scripted,
        &[response(number, ReConfigResult::SUCCESS_PERFORMED)],
    );
    reset(&mut scripted, incoming(&[])).unwrap();
    scripted.take();
    give(
        &mut scripted,
        &[Parameter::AddIncomingStreamsRequest(request)],
    );
    assert_eq!(
        results(&scripted.take()),
        [ReConfigResult::SUCCESS_PERFORMED]
    );
    give(
        &mut scripted,
        &[response(number.next(), ReConfigResult::DENIED)],
    );
    assert_eq!(
        re_configs(&scripted.take()),
        [[Parameter::AddOutgoingStreamsRequest(AddStreamsRequest {
            request_sequence_number: number + 2,
            new_streams: 2,
        })]]
    );
}

#[test]
fn a_request_is_retransmitted_until_the_peer_is_given_up() {
    let config = granting().association_max_retrans(3);
    let mut scripted = connected(config);
    add(&mut scripted, 1, 0).unwrap();
    let start = scripted.now;
    let sent = scripted.watch(Duration::from_secs(100));
    let times: Vec<u64> = sent
        .iter()
        .map(|(at, _)| at.duration_since(start).as_secs())
        .collect();
    assert_eq!(times, [0, 1, 3, 7], "with an exponential back-off");
    assert!(sent.iter().all(|(_, one)| one.packet == sent[0].1.packet));
    assert!(matches!(
        scripted.events.last(),
        Some(Event::CommunicationLost {
            cause: LostCause::TimedOut,
            ..
        })
    ));
}

#[test]
fn a_request_in_progress_is_retransmitted_and_no_error() {
    let config = granting().association_max_retrans(1).path_max_retrans(1);
    let mut scripted = connected(config);
    let number = own(&scripted);
    add(&mut scripted, 1, 0).unwrap();
    scripted.take();
    give(
        &mut scripted,
        &[response(number, ReConfigResult::IN_PROGRESS)],
    );
    let again = scripted.pass(Duration::from_secs(600));
    assert!(again.len() > 5, "{}", again.len());
    assert_eq!(scripted.state(), AssociationState::Established);
    assert_eq!(scripted.path(peer()).error_count, 0);
    assert!(events(&scripted).is_empty());
    give(
        &mut scripted,
        &[response(number, ReConfigResult::SUCCESS_PERFORMED)],
    );
    assert_eq!(scripted.status().outbound_streams, 11);
    assert!(is_quiet(&mut scripted));
}

#[test]
fn a_request_is_retransmitted_on_another_path() {
    let addresses = [peer(), at([198, 51, 100, 9])];
    let mut scripted = super::multi_homed(granting(), &addresses);
    let number = own(&scripted);
    add(&mut scripted, 1, 0).unwrap();
    let sent = scripted.watch(Duration::from_millis(1500));
    let remotes: Vec<_> = sent
        .iter()
        .filter(|(_, one)| {
            types(std::slice::from_ref(&one.packet))[0].contains(&ChunkType::RE_CONFIG)
        })
        .map(|(_, one)| one.path.remote)
        .collect();
    assert_eq!(remotes, [addresses[0].remote, addresses[1].remote]);
    assert_eq!(scripted.path(addresses[0]).error_count, 1);
    give(
        &mut scripted,
        &[response(number, ReConfigResult::SUCCESS_PERFORMED)],
    );
    assert_eq!(
        scripted.path(addresses[0]).error_count,
        1,
        "the answer does not prove the path of the first attempt"
    );
}

#[test]
fn what_cannot_be_asked_for_is_refused() {
    let mut scripted = connected(granting());
    assert_eq!(
        reset(&mut scripted, incoming(&[10])),
        Err(ReConfigurationError::InvalidStream)
    );
    for (outgoing, incoming) in [(u16::MAX, 0), (0, u16::MAX), (0, 2048)] {
        assert_eq!(
            add(&mut scripted, outgoing, incoming),
            Err(ReConfigurationError::TooManyStreams)
        );
    }
    assert_eq!(add(&mut scripted, 0, 0), Ok(()));
    assert_eq!(reset(&mut scripted, StreamReset::default()), Ok(()));
    assert!(scripted.take().is_empty());
    let (now, id) = (scripted.now, scripted.id());
    scripted.endpoint.shutdown(now, id).expect("it is there");
    assert_eq!(
        add(&mut scripted, 1, 0),
        Err(ReConfigurationError::NotEstablished)
    );
    scripted.endpoint.abort(now, id, b"").expect("it is there");
    assert_eq!(
        add(&mut scripted, 1, 0),
        Err(ReConfigurationError::UnknownAssociation)
    );
    let mut other = Scripted::connected(granting());
    assert_eq!(
        add(&mut other, 1, 0),
        Err(ReConfigurationError::NotSupported)
    );
    let mut opening = Scripted::cookie_wait(granting());
    assert_eq!(
        add(&mut opening, 1, 0),
        Err(ReConfigurationError::NotEstablished)
    );
}

#[test]
fn a_long_list_needs_several_requests() {
    let config = granting().mtu(576);
    let mut scripted = super::connected_with_streams(config, 2000);
    let number = own(&scripted);
    let all: Vec<u16> = (0..2000).collect();
    reset(&mut scripted, incoming(&all)).unwrap();
    let mut listed = Vec::new();
    for index in 0.. {
        let packets = scripted.take();
        if packets.is_empty() {
            break;
        }
        assert!(packets[0].len() <= 556);
        let [request] = &re_configs(&packets)[0][..] else {
            panic!("one request");
        };
        let Parameter::IncomingSsnResetRequest(request) = request else {
            panic!("an Incoming SSN Reset Request");
        };
        assert_eq!(request.request_sequence_number, number + index);
        listed.extend(request.streams.iter().map(|stream: u16| stream));
        let result = ReConfigResult::SUCCESS_NOTHING_TO_DO;
        give(&mut scripted, &[response(number + index, result)]);
    }
    assert_eq!(listed, all);
    assert!(events(&scripted).len() > 5);
}

#[test]
fn a_request_ends_with_the_association() {
    let mut scripted = connected(granting());
    add(&mut scripted, 1, 0).unwrap();
    scripted.take();
    let (now, id) = (scripted.now, scripted.id());
    scripted.endpoint.shutdown(now, id).expect("it is there");
    scripted.take();
    scripted.give_shutdown();
    assert_eq!(types(&scripted.take()), [[ChunkType::SHUTDOWN_ACK]]);
    let later = scripted.pass(Duration::from_secs(1));
    assert_eq!(types(&later), [[ChunkType::SHUTDOWN_ACK]], "no RE-CONFIG");
}

#[test]
fn a_request_that_seemed_to_be_answered_and_was_lost_does_not_block_the_next() {
    let mut scripted = connected(granting());
    let number = own(&scripted);
    add(&mut scripted, 0, 2).unwrap();
    scripted.take();
    // The peer adds as many streams of its own accord.
    let request = AddStreamsRequest {
        request_sequence_number: FIRST,
        new_streams: 2,
    };
    give(
        &mut scripted,
        &[Parameter::AddOutgoingStreamsRequest(request)],
    );
    scripted.take();
    reset(&mut scripted, incoming(&[])).unwrap();
    scripted.take();
    let result = ReConfigResult::ERROR_BAD_SEQUENCE_NUMBER;
    give(&mut scripted, &[response(number.next(), result)]);
    reset(&mut scripted, incoming(&[])).unwrap();
    assert_eq!(
        re_configs(&scripted.take()),
        [[incoming_request(number, &[])]]
    );
}
