//! SSN/TSN resets with a scripted peer (RFC 6525 sections 5.1.4, 5.2.4 and 5.2.7).

use std::time::Duration;

use bytes::Bytes;
use sctp::packet::{
    Chunk, ChunkType, Data, NextTsns, Parameter, ReConfigResponse, ReConfigResult, SequenceNumber,
    Ssn, Tsn,
};
use sctp::{AssociationState, Event, LostCause, ReConfigurationError, ReConfigurationOutcome};

use super::{FIRST, connected, events, give, granting, re_configs, response, results};
use crate::rfc9260::scripted::{PEER_TSN, Scripted, chunks, message, sack_in, types};

const PERFORMED: ReConfigResult = ReConfigResult::SUCCESS_PERFORMED;

fn request(request_sequence_number: SequenceNumber) -> Parameter<'static> {
    Parameter::SsnTsnResetRequest {
        request_sequence_number,
    }
}

fn performed(number: SequenceNumber, sender: Tsn, receiver: Tsn) -> Parameter<'static> {
    Parameter::ReConfigResponse(ReConfigResponse {
        response_sequence_number: number,
        result: PERFORMED,
        next_tsns: Some(NextTsns { sender, receiver }),
    })
}

fn reset(scripted: &mut Scripted) -> Result<(), ReConfigurationError> {
    let (now, id) = (scripted.now, scripted.id());
    scripted.endpoint.reset_association(now, id)
}

/// TSN and number of the DATA chunks in packets.
fn data(packets: &[Bytes]) -> Vec<(Tsn, u16)> {
    packets
        .iter()
        .flat_map(chunks)
        .filter_map(|chunk| match chunk {
            Chunk::Data(data) => Some((data.tsn, data.ssn.0)),
            _ => None,
        })
        .collect()
}

/// A whole message of the peer.
fn whole(tsn: Tsn, ssn: u16) -> Data<'static> {
    Data {
        tsn,
        ssn: Ssn(ssn),
        ..message(0, b"m")
    }
}

/// A peer that has data outstanding when its TSNs change may take a later SACK for one of data that it never sent.
#[test]
fn what_the_peer_has_sent_is_acknowledged_before_the_request() {
    let mut scripted = connected(granting());
    scripted.give(&[Chunk::Data(whole(PEER_TSN, 0))]);
    assert_eq!(
        types(&scripted.take()),
        [[ChunkType::SACK]],
        "the first one at once"
    );
    scripted.give(&[Chunk::Data(whole(PEER_TSN + 1, 1))]);
    assert!(scripted.take().is_empty());
    assert_eq!(reset(&mut scripted), Ok(()));
    let packets = scripted.take();
    assert_eq!(types(&packets), [[ChunkType::SACK], [ChunkType::RE_CONFIG]]);
    assert_eq!(sack_in(&packets).0, PEER_TSN + 1);
}

#[test]
fn all_numbers_begin_anew() {
    let mut scripted = connected(granting());
    scripted.give(&[Chunk::Data(whole(PEER_TSN, 0))]);
    scripted.send(1, b"before");
    scripted.take();
    assert_eq!(reset(&mut scripted), Ok(()));
    scripted.send(1, b"after");
    // Rule C2: nothing may be outstanding.
    let packets = scripted.take();
    assert!(re_configs(&packets).is_empty() && data(&packets).is_empty());
    scripted.give_sack(1, &[], 100_000);
    let number = SequenceNumber(scripted.tsn.0);
    let packets = scripted.take();
    assert_eq!(re_configs(&packets), [[request(number)]]);
    assert!(data(&packets).is_empty());

    let next = scripted.tsn + 1 + (1 << 31);
    give(&mut scripted, &[performed(number, PEER_TSN + 5, next)]);
    assert_eq!(data(&scripted.take()), [(next, 0)]);
    let done = Event::AssociationReset {
        id: scripted.id(),
        local_tsn: next.0,
        remote_tsn: (PEER_TSN + 5).0,
        outcome: ReConfigurationOutcome::Performed,
    };
    assert_eq!(events(&scripted), [&done]);
    scripted.receive();
    scripted.give(&[Chunk::Data(whole(PEER_TSN + 5, 0))]);
    assert_eq!(scripted.receive().len(), 1);
}

#[test]
fn acknowledgements_of_before_are_harmless() {
    let mut scripted = connected(granting());
    scripted.send(1, b"one");
    scripted.send(1, b"two");
    scripted.take();
    scripted.give_sack(2, &[], 100_000);
    reset(&mut scripted).unwrap();
    scripted.take();
    let number = SequenceNumber(scripted.tsn.0);
    let next = scripted.tsn + 2 + (1 << 31);
    // The peer has done it, and its response comes later than a SACK of after that.
    scripted.give_sack(2_u32.wrapping_add(1 << 31), &[], 100_000);
    assert_eq!(scripted.state(), AssociationState::Established);
    give(&mut scripted, &[performed(number, PEER_TSN, next)]);
    for below in [0, 1, 2] {
        scripted.give_sack(below, &[], 100_000);
    }
    assert_eq!(scripted.state(), AssociationState::Established);
    scripted.send(1, b"after");
    assert_eq!(data(&scripted.take()), [(next, 0)]);
    scripted.pass(Duration::from_secs(60));
    scripted.give_sack(0, &[], 100_000);
    assert!(
        matches!(
            scripted.events.last(),
            Some(Event::CommunicationLost {
                cause: LostCause::ProtocolViolation { .. },
                ..
            })
        ),
        "not for ever"
    );
}

#[test]
fn a_refusal_lets_everything_go_on() {
    for (result, outcome) in [
        (ReConfigResult::DENIED, ReConfigurationOutcome::Denied),
        (
            ReConfigResult::ERROR_REQUEST_ALREADY_IN_PROGRESS,
            ReConfigurationOutcome::Failed,
        ),
    ] {
        let mut scripted = connected(granting());
        reset(&mut scripted).unwrap();
        scripted.take();
        scripted.send(1, b"after");
        assert!(scripted.take().is_empty());
        let number = SequenceNumber(scripted.tsn.0);
        give(&mut scripted, &[response(number, result)]);
        assert_eq!(data(&scripted.take()), [(scripted.tsn, 0)]);
        let refused = Event::AssociationReset {
            id: scripted.id(),
            local_tsn: scripted.tsn.0,
            remote_tsn: PEER_TSN.0,
            outcome,
        };
        assert_eq!(events(&scripted), [&refused]);
    }
}

#[test]
fn one_reset_is_asked_for_within_thirty_seconds() {
    let mut scripted = connected(granting());
    reset(&mut scripted).unwrap();
    scripted.take();
    let number = SequenceNumber(scripted.tsn.0);
    let next = scripted.tsn + (1 << 31);
    give(&mut scripted, &[performed(number, PEER_TSN, next)]);
    scripted.pass(Duration::from_secs(29));
    assert_eq!(reset(&mut scripted), Err(ReConfigurationError::TooSoon));
    scripted.pass(Duration::from_secs(1));
    assert_eq!(reset(&mut scripted), Ok(()));
}

#[test]
fn a_response_without_tsns_is_a_violation() {
    let mut scripted = connected(granting());
    reset(&mut scripted).unwrap();
    scripted.take();
    let number = SequenceNumber(scripted.tsn.0);
    give(&mut scripted, &[response(number, PERFORMED)]);
    assert_eq!(scripted.state(), AssociationState::Closed);
}

#[test]
fn the_peer_has_all_numbers_begin_anew() {
    let mut scripted = connected(granting());
    scripted.give(&[
        Chunk::Data(whole(PEER_TSN, 0)),
        // Its predecessor never comes.
        Chunk::Data(whole(PEER_TSN + 2, 2)),
    ]);
    scripted.send(1, b"not acknowledged");
    scripted.take();
    give(&mut scripted, &[request(FIRST)]);
    let packets = scripted.take();
    let next_peer = PEER_TSN + 1 + (1 << 31);
    let next_local = scripted.tsn + 1;
    let answer = performed(FIRST, next_local, next_peer);
    assert_eq!(re_configs(&packets), [[answer]]);
    assert_eq!(sack_in(&packets).0, next_peer - 1);
    assert!(scripted.events.iter().any(|event| matches!(
        event,
        Event::SendFailed { payload, was_sent: true, .. } if payload == "not acknowledged"
    )));
    assert!(matches!(
        events(&scripted)[..],
        [Event::AssociationReset {
            outcome: ReConfigurationOutcome::Performed,
            ..
        }]
    ));
    assert_eq!(scripted.receive().len(), 2, "what has arrived");
    // The same again to the same request, and only once done.
    give(&mut scripted, &[request(FIRST)]);
    assert_eq!(re_configs(&scripted.take()), [[answer]]);
    assert_eq!(events(&scripted).len(), 1);
    // Data of before is thrown away, that of after is numbered anew.
    for tsn in [PEER_TSN, PEER_TSN + 1, PEER_TSN + 2] {
        scripted.give(&[Chunk::Data(whole(tsn, 1))]);
    }
    assert!(scripted.receive().is_empty());
    scripted.give(&[Chunk::Data(whole(next_peer, 0))]);
    assert_eq!(scripted.receive().len(), 1);
    scripted.send(1, b"after");
    assert_eq!(data(&scripted.take()), [(next_local, 0)]);
    assert_eq!(scripted.status().outstanding_bytes, 24);
}

#[test]
fn a_message_in_part_sent_is_given_up() {
    let config = granting().max_burst(1);
    let mut scripted = connected(config);
    scripted.send(1, &[7; 20_000]);
    scripted.send(1, b"after");
    let before = data(&scripted.take()).len() as u32;
    give(&mut scripted, &[request(FIRST)]);
    let failed = scripted.events.iter().find_map(|event| match event {
        Event::SendFailed { payload, .. } => Some(payload.len()),
        _ => None,
    });
    assert_eq!(failed, Some(20_000));
    assert_eq!(data(&scripted.take()), [(scripted.tsn + before, 0)]);
}

#[test]
fn a_reset_is_refused_while_another_request_is_under_way() {
    let busy = ReConfigResult::ERROR_REQUEST_ALREADY_IN_PROGRESS;
    // Ours of the same kind: both at once.
    let mut scripted = connected(granting());
    reset(&mut scripted).unwrap();
    scripted.take();
    give(&mut scripted, &[request(FIRST)]);
    assert_eq!(results(&scripted.take()), [busy]);
    // One of the peer's that waits for data.
    let mut scripted = connected(granting());
    give(
        &mut scripted,
        &[super::outgoing_reset(FIRST, PEER_TSN, &[])],
    );
    scripted.take();
    give(&mut scripted, &[request(FIRST.next())]);
    assert_eq!(results(&scripted.take()), [busy]);
    // D3 and D4: the TSNs are there all the same.
    give(&mut scripted, &[request(FIRST + 7)]);
    let packets = scripted.take();
    let Parameter::ReConfigResponse(refused) = re_configs(&packets)[0][0] else {
        panic!("a response");
    };
    assert_eq!(refused.result, ReConfigResult::ERROR_BAD_SEQUENCE_NUMBER);
    assert_eq!(
        refused.next_tsns,
        Some(NextTsns {
            sender: scripted.tsn,
            receiver: PEER_TSN,
        })
    );
}
