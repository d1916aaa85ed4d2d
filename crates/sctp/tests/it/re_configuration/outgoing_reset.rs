//! Resets of our own streams, at our user's wish or the peer's, with a scripted peer (RFC 6525 sections
//! 5.1.2, 5.2.3 and 5.2.7).

use std::time::Duration;

use bytes::Bytes;
use sctp::packet::{
    Chunk, IncomingSsnResetRequest, OutgoingSsnResetRequest, Parameter, ReConfigResult,
    SequenceNumber, StreamList, Tsn,
};
use sctp::{AssociationState, Event, ReConfigurationOutcome, StreamDirection, StreamReset};

use super::{
    FIRST, connected, events, give, granting, outgoing_reset, re_configs, response, results,
};
use crate::rfc9260::scripted::{PEER_TSN, Scripted, chunks};

const PERFORMED: ReConfigResult = ReConfigResult::SUCCESS_PERFORMED;

fn reset_outgoing(scripted: &mut Scripted, streams: &[u16]) {
    let (now, id) = (scripted.now, scripted.id());
    let reset = StreamReset {
        outgoing: Some(streams.to_vec()),
        ..StreamReset::default()
    };
    let asked = scripted.endpoint.reset_streams(now, id, reset);
    asked.expect("nothing speaks against it");
}

/// Our request.
fn own_request(
    scripted: &Scripted,
    index: u32,
    answers: SequenceNumber,
    last_assigned_tsn: Tsn,
    streams: &'static [[u8; 2]],
) -> Parameter<'static> {
    Parameter::OutgoingSsnResetRequest(OutgoingSsnResetRequest {
        request_sequence_number: SequenceNumber(scripted.tsn.0) + index,
        response_sequence_number: answers,
        last_assigned_tsn,
        streams: StreamList::new(streams),
    })
}

/// The peer's Incoming SSN Reset Request.
fn incoming_reset(request_sequence_number: SequenceNumber, streams: &[[u8; 2]]) -> Parameter<'_> {
    Parameter::IncomingSsnResetRequest(IncomingSsnResetRequest {
        request_sequence_number,
        streams: StreamList::new(streams),
    })
}

/// Stream and number of the DATA chunks in packets.
fn data(packets: &[Bytes]) -> Vec<(u16, u16)> {
    packets
        .iter()
        .flat_map(chunks)
        .filter_map(|chunk| match chunk {
            Chunk::Data(data) => Some((data.stream, data.ssn.0)),
            _ => None,
        })
        .collect()
}

fn is_reset(scripted: &Scripted, streams: &[u16], outcome: ReConfigurationOutcome) -> bool {
    let reset = Event::StreamReset {
        id: scripted.id(),
        direction: StreamDirection::Outgoing,
        streams: streams.to_vec(),
        outcome,
    };
    events(scripted).last() == Some(&&reset)
}

#[test]
fn messages_wait_for_the_reset_and_are_numbered_anew() {
    let mut scripted = connected(granting());
    for stream in [1, 1, 2] {
        scripted.send(stream, b"before");
    }
    assert_eq!(data(&scripted.take()), [(1, 0), (1, 1), (2, 0)]);
    scripted.give_sack(3, &[], 100_000);
    reset_outgoing(&mut scripted, &[1]);
    for stream in [1, 2] {
        scripted.send(stream, b"after");
    }
    let packets = scripted.take();
    let request = own_request(&scripted, 0, FIRST.previous(), scripted.tsn + 2, &[[0, 1]]);
    assert_eq!(re_configs(&packets), [[request]]);
    assert_eq!(data(&packets), [(2, 1)], "other streams go on");
    let number = SequenceNumber(scripted.tsn.0);
    give(
        &mut scripted,
        &[response(number, ReConfigResult::IN_PROGRESS)],
    );
    assert!(data(&scripted.take()).is_empty());
    give(&mut scripted, &[response(number, PERFORMED)]);
    assert_eq!(data(&scripted.take()), [(1, 0)]);
    assert!(is_reset(&scripted, &[1], ReConfigurationOutcome::Performed));
}

/// However soon the user asks for the reset after it.
#[test]
fn what_was_sent_before_leaves_before_the_reset() {
    let mut scripted = connected(granting());
    for payload in [&[7; 3000][..], b"before"] {
        scripted.send(1, payload);
    }
    reset_outgoing(&mut scripted, &[1]);
    scripted.send(1, b"after");
    let packets = scripted.take();
    let sent = data(&packets);
    assert_eq!(sent.last(), Some(&(1, 1)));
    assert!(re_configs(&packets).is_empty());
    let count = sent.len() as u32;
    scripted.give_sack(count, &[], 100_000);
    let last = scripted.tsn + (count - 1);
    let request = own_request(&scripted, 0, FIRST.previous(), last, &[[0, 1]]);
    assert_eq!(re_configs(&scripted.take()), [[request]]);
    let number = SequenceNumber(scripted.tsn.0);
    give(&mut scripted, &[response(number, PERFORMED)]);
    assert_eq!(data(&scripted.take()), [(1, 0)]);
}

#[test]
fn the_request_waits_until_the_data_of_its_streams_is_acknowledged() {
    let mut scripted = connected(granting());
    for stream in [1, 2] {
        scripted.send(stream, b"before");
    }
    scripted.take();
    reset_outgoing(&mut scripted, &[1]);
    scripted.send(1, b"after");
    let packets = scripted.take();
    assert!(re_configs(&packets).is_empty() && data(&packets).is_empty());
    scripted.give_sack(1, &[], 100_000);
    let request = own_request(&scripted, 0, FIRST.previous(), scripted.tsn + 1, &[[0, 1]]);
    assert_eq!(re_configs(&scripted.take()), [[request]]);
}

#[test]
fn all_streams_are_reset_without_a_list() {
    let mut scripted = connected(granting());
    for stream in 0..10 {
        scripted.send(stream, b"before");
    }
    scripted.take();
    scripted.give_sack(10, &[], 100_000);
    reset_outgoing(&mut scripted, &[]);
    let packets = scripted.take();
    let request = own_request(&scripted, 0, FIRST.previous(), scripted.tsn + 9, &[]);
    assert_eq!(re_configs(&packets), [[request]]);
    for stream in 0..10 {
        scripted.send(stream, b"after");
    }
    assert!(data(&scripted.take()).is_empty());
    let number = SequenceNumber(scripted.tsn.0);
    give(&mut scripted, &[response(number, PERFORMED)]);
    let again = data(&scripted.take());
    assert_eq!(again, (0..10).map(|stream| (stream, 0)).collect::<Vec<_>>());
}

#[test]
fn a_message_that_has_begun_to_leave_ends_before_the_reset() {
    let config = granting().max_burst(1);
    let mut scripted = connected(config);
    scripted.send(1, &[7; 20_000]);
    let first = data(&scripted.take());
    assert!(!first.is_empty() && first.len() < 10);
    reset_outgoing(&mut scripted, &[1]);
    scripted.send(1, b"after");
    let mut sent = first.len() as u32;
    loop {
        scripted.give_sack(sent, &[], 100_000);
        let packets = scripted.take();
        let news = data(&packets);
        assert!(news.iter().all(|one| *one == (1, 0)));
        sent += news.len() as u32;
        if let [requests] = &re_configs(&packets)[..] {
            let last = scripted.tsn + (sent - 1);
            let request = own_request(&scripted, 0, FIRST.previous(), last, &[[0, 1]]);
            assert_eq!(requests[..], [request]);
            break;
        }
        assert!(!news.is_empty(), "it goes on");
    }
    let number = SequenceNumber(scripted.tsn.0);
    give(&mut scripted, &[response(number, PERFORMED)]);
    scripted.give_sack(sent, &[], 100_000);
    assert_eq!(data(&scripted.take()), [(1, 0)]);
}

#[test]
fn numbers_go_on_where_the_peer_refuses() {
    for (result, outcome) in [
        (ReConfigResult::DENIED, ReConfigurationOutcome::Denied),
        (
            ReConfigResult::ERROR_WRONG_SSN,
            ReConfigurationOutcome::Failed,
        ),
        (
            ReConfigResult::ERROR_BAD_SEQUENCE_NUMBER,
            ReConfigurationOutcome::Failed,
        ),
    ] {
        let mut scripted = connected(granting());
        scripted.send(1, b"before");
        scripted.take();
        scripted.give_sack(1, &[], 100_000);
        reset_outgoing(&mut scripted, &[1]);
        scripted.send(1, b"after");
        assert!(data(&scripted.take()).is_empty());
        let number = SequenceNumber(scripted.tsn.0);
        give(&mut scripted, &[response(number, result)]);
        assert_eq!(data(&scripted.take()), [(1, 1)]);
        assert!(is_reset(&scripted, &[1], outcome));
    }
}

#[test]
fn both_directions_go_into_one_chunk() {
    let mut scripted = connected(granting());
    let (now, id) = (scripted.now, scripted.id());
    let reset = StreamReset {
        outgoing: Some(vec![1]),
        incoming: Some(vec![2]),
    };
    scripted.endpoint.reset_streams(now, id, reset).unwrap();
    let packets = scripted.take();
    let number = SequenceNumber(scripted.tsn.0);
    let outgoing = own_request(&scripted, 0, FIRST.previous(), scripted.tsn - 1, &[[0, 1]]);
    assert_eq!(
        re_configs(&packets),
        [[outgoing, incoming_reset(number.next(), &[[0, 2]])]]
    );
    // The peer's answer as in appendix A.
    let Parameter::OutgoingSsnResetRequest(mut reset) =
        outgoing_reset(FIRST, PEER_TSN - 1, &[[0, 2]])
    else {
        unreachable!();
    };
    reset.response_sequence_number = number.next();
    give(
        &mut scripted,
        &[
            response(number, PERFORMED),
            Parameter::OutgoingSsnResetRequest(reset),
        ],
    );
    assert_eq!(results(&scripted.take()), [PERFORMED]);
    assert_eq!(events(&scripted).len(), 2);
    assert!(scripted.pass(Duration::from_secs(100)).is_empty());
}

#[test]
fn the_peer_has_our_streams_reset() {
    let mut scripted = connected(granting());
    for stream in [1, 3] {
        scripted.send(stream, b"before");
    }
    scripted.take();
    scripted.give_sack(2, &[], 100_000);
    let request = incoming_reset(FIRST, &[[0, 3], [0, 1]]);
    give(&mut scripted, &[request]);
    scripted.send(3, b"after");
    let packets = scripted.take();
    let answer = own_request(&scripted, 0, FIRST, scripted.tsn + 1, &[[0, 3], [0, 1]]);
    assert_eq!(re_configs(&packets), [[answer]], "the list is copied");
    assert!(data(&packets).is_empty());
    // Section 5.2.1: the same again.
    give(&mut scripted, &[request]);
    assert_eq!(re_configs(&scripted.take()), [[answer]]);
    let number = SequenceNumber(scripted.tsn.0);
    give(&mut scripted, &[response(number, PERFORMED)]);
    assert_eq!(data(&scripted.take()), [(3, 0)]);
    assert!(is_reset(
        &scripted,
        &[3, 1],
        ReConfigurationOutcome::Performed
    ));
}

#[test]
fn the_response_goes_with_our_request() {
    let mut scripted = connected(granting());
    scripted.send(1, b"before");
    scripted.take();
    scripted.give_sack(1, &[], 100_000);
    let requests = [
        outgoing_reset(FIRST, PEER_TSN - 1, &[]),
        incoming_reset(FIRST.next(), &[]),
    ];
    give(&mut scripted, &requests);
    let packets = scripted.take();
    let answer = own_request(&scripted, 0, FIRST.next(), scripted.tsn, &[]);
    assert_eq!(re_configs(&packets), [[response(FIRST, PERFORMED), answer]]);
    give(&mut scripted, &requests);
    assert_eq!(
        re_configs(&scripted.take()),
        [[response(FIRST, PERFORMED), answer]]
    );
}

#[test]
fn a_request_that_has_to_wait_is_in_progress() {
    let mut scripted = connected(granting());
    scripted.send(1, b"before");
    scripted.take();
    scripted.give_sack(1, &[], 100_000);
    // Another request of ours is in flight.
    let (now, id) = (scripted.now, scripted.id());
    scripted.endpoint.add_streams(now, id, 1, 0).unwrap();
    scripted.take();
    let requests = [
        outgoing_reset(FIRST, PEER_TSN - 1, &[]),
        incoming_reset(FIRST.next(), &[]),
    ];
    give(&mut scripted, &requests);
    assert_eq!(
        results(&scripted.take()),
        [PERFORMED, ReConfigResult::IN_PROGRESS]
    );
    // The peer may have one request in flight.
    give(&mut scripted, &[incoming_reset(FIRST + 2, &[])]);
    assert_eq!(
        results(&scripted.take()),
        [ReConfigResult::ERROR_REQUEST_ALREADY_IN_PROGRESS]
    );
    let number = SequenceNumber(scripted.tsn.0);
    give(&mut scripted, &[response(number, PERFORMED)]);
    let answer = own_request(&scripted, 1, FIRST.next(), scripted.tsn, &[]);
    assert_eq!(re_configs(&scripted.take()), [[answer]]);
}

#[test]
fn a_reset_that_is_under_way_or_done_is_nothing_to_do() {
    let nothing = [ReConfigResult::SUCCESS_NOTHING_TO_DO];
    let mut scripted = connected(granting());
    give(&mut scripted, &[incoming_reset(FIRST, &[])]);
    assert_eq!(results(&scripted.take()), nothing, "nothing was sent");
    for stream in [1, 2, 3] {
        scripted.send(stream, b"before");
    }
    scripted.take();
    scripted.give_sack(3, &[], 100_000);
    reset_outgoing(&mut scripted, &[1, 2]);
    scripted.take();
    give(&mut scripted, &[incoming_reset(FIRST.next(), &[[0, 2]])]);
    assert_eq!(results(&scripted.take()), nothing, "it is covered");
    let number = SequenceNumber(scripted.tsn.0);
    give(&mut scripted, &[response(number, PERFORMED)]);
    give(
        &mut scripted,
        &[incoming_reset(FIRST + 2, &[[0, 2], [0, 1]])],
    );
    assert_eq!(results(&scripted.take()), nothing, "it is done");
    // One that overlaps is performed.
    give(
        &mut scripted,
        &[incoming_reset(FIRST + 3, &[[0, 2], [0, 3]])],
    );
    let answer = own_request(&scripted, 1, FIRST + 3, scripted.tsn + 2, &[[0, 2], [0, 3]]);
    assert_eq!(re_configs(&scripted.take()), [[answer]]);
}

#[test]
fn streams_that_there_are_not_are_not_reset() {
    let mut scripted = connected(granting());
    give(&mut scripted, &[incoming_reset(FIRST, &[[0, 10]])]);
    assert_eq!(results(&scripted.take()), [ReConfigResult::ERROR_WRONG_SSN]);
}

#[test]
fn two_that_wait_for_each_other_do_not_wait_for_ever() {
    let mut scripted = connected(granting());
    scripted.send(1, b"before");
    let (now, id) = (scripted.now, scripted.id());
    let reset = StreamReset {
        incoming: Some(vec![1]),
        ..StreamReset::default()
    };
    scripted.endpoint.reset_streams(now, id, reset).unwrap();
    scripted.take();
    give(&mut scripted, &[incoming_reset(FIRST, &[[0, 1]])]);
    assert_eq!(
        results(&scripted.take()),
        [ReConfigResult::ERROR_REQUEST_ALREADY_IN_PROGRESS]
    );
}

#[test]
fn a_shutdown_waits_for_messages_that_wait_for_a_reset() {
    let mut scripted = connected(granting());
    reset_outgoing(&mut scripted, &[1]);
    scripted.send(1, b"after");
    scripted.take();
    let (now, id) = (scripted.now, scripted.id());
    scripted.endpoint.shutdown(now, id).unwrap();
    assert!(data(&scripted.take()).is_empty());
    assert_eq!(scripted.state(), AssociationState::ShutdownPending);
    let number = SequenceNumber(scripted.tsn.0);
    give(&mut scripted, &[response(number, PERFORMED)]);
    assert_eq!(data(&scripted.take()), [(1, 0)]);
    scripted.give_sack(1, &[], 100_000);
    assert_eq!(scripted.state(), AssociationState::ShutdownSent);
}

#[test]
fn messages_that_wait_for_a_reset_are_told_when_the_association_ends() {
    let config = granting().association_max_retrans(2);
    let mut scripted = connected(config);
    reset_outgoing(&mut scripted, &[1]);
    scripted.send(1, b"after");
    scripted.pass(Duration::from_secs(100));
    assert_eq!(scripted.state(), AssociationState::Closed);
    assert!(scripted.events.iter().any(|event| matches!(
        event,
        Event::SendFailed { payload, was_sent: false, .. } if payload == "after"
    )));
}
