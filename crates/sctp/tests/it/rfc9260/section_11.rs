//! The interface with the upper layer (RFC 9260 section 11).

use std::time::Duration;

use bytes::Bytes;
use sctp::packet::{Chunk, ChunkType, Data, Ssn};
use sctp::{AssociationState, ConfigureError, Event, LostCause, SendError, SendInfo};

use crate::rfc9260::scripted::{Scripted, at, data_in, message, peer, quiet, types};

/// What the user got back: context, message, and whether some of it was sent.
fn given_back(scripted: &Scripted) -> Vec<(u32, Bytes, bool)> {
    scripted
        .events
        .iter()
        .filter_map(|event| match event {
            Event::SendFailed {
                info,
                payload,
                was_sent,
                ..
            } => Some((info.context, payload.clone(), *was_sent)),
            _ => None,
        })
        .collect()
}

fn send(scripted: &mut Scripted, info: SendInfo, payload: &'static [u8]) -> Result<(), SendError> {
    let id = scripted.id();
    let payload = Bytes::from_static(payload);
    scripted.endpoint.send(scripted.now, id, info, payload)
}

fn with_context(context: u32) -> SendInfo {
    SendInfo {
        context,
        ..SendInfo::default()
    }
}

#[test]
fn what_was_not_delivered_comes_back_before_the_end_is_told() {
    let mut scripted = Scripted::connected(quiet());
    send(&mut scripted, with_context(1), b"acknowledged").unwrap();
    send(&mut scripted, with_context(2), b"sent").unwrap();
    scripted.take();
    scripted.give_sack(1, &[], 0);
    send(&mut scripted, with_context(3), b"never sent").unwrap();
    scripted.take();
    scripted.give(&[Chunk::Abort(Default::default())]);
    assert_eq!(
        given_back(&scripted),
        [
            (2, Bytes::from_static(b"sent"), true),
            (3, Bytes::from_static(b"never sent"), false)
        ]
    );
    assert!(matches!(
        scripted.events.last(),
        Some(Event::CommunicationLost {
            cause: LostCause::AbortedByPeer { .. },
            ..
        })
    ));
}

#[test]
fn what_was_not_delivered_comes_back_when_nobody_answers_and_when_the_user_aborts() {
    for aborts in [true, false] {
        let mut scripted = Scripted::connected(quiet());
        send(&mut scripted, with_context(7), b"hello").unwrap();
        if aborts {
            scripted.take();
            let id = scripted.id();
            scripted.endpoint.abort(scripted.now, id, b"").unwrap();
            scripted.take();
        } else {
            scripted.pass(Duration::from_secs(3600));
        }
        assert_eq!(scripted.state(), AssociationState::Closed);
        let expected = (7, Bytes::from_static(b"hello"), true);
        assert_eq!(given_back(&scripted), [expected]);
    }
}

#[test]
fn a_set_up_that_fails_gives_back_what_waited_for_it() {
    let mut scripted = Scripted::cookie_wait(quiet());
    send(&mut scripted, with_context(5), b"early").unwrap();
    scripted.give(&[Chunk::Abort(Default::default())]);
    let expected = (5, Bytes::from_static(b"early"), false);
    assert_eq!(given_back(&scripted), [expected]);
    assert!(matches!(
        scripted.events.last(),
        Some(Event::CannotStart { .. })
    ));
}

#[test]
fn a_message_whose_life_time_is_over_is_not_sent_and_comes_back() {
    let mut scripted = Scripted::connected(quiet());
    send(&mut scripted, with_context(1), b"fills the window").unwrap();
    scripted.take();
    scripted.give_sack(0, &[], 0);
    let short = SendInfo {
        life_time: Some(Duration::from_millis(500)),
        ..with_context(2)
    };
    send(&mut scripted, short, b"stale").unwrap();
    send(&mut scripted, with_context(3), b"fresh").unwrap();
    scripted.pass(Duration::from_millis(600));
    scripted.give_sack(1, &[], 100_000);
    scripted.pass(Duration::from_millis(10));
    let expected = (2, Bytes::from_static(b"stale"), false);
    assert_eq!(given_back(&scripted), [expected]);
    let sent = scripted.status();
    assert_eq!(sent.unacknowledged_chunks, 1, "only the fresh one went out");
}

#[test]
fn a_message_that_has_begun_to_leave_goes_on_whatever_its_life_time() {
    let mut scripted = Scripted::connected(quiet());
    let short = SendInfo {
        life_time: Some(Duration::from_millis(500)),
        ..with_context(2)
    };
    send(&mut scripted, short, b"in time").unwrap();
    assert_eq!(data_in(&scripted.take(), scripted.tsn), [0]);
    let packets = scripted.pass(Duration::from_secs(10));
    assert!(
        !data_in(&packets, scripted.tsn).is_empty(),
        "it is retransmitted"
    );
    assert!(given_back(&scripted).is_empty());
}

#[test]
fn a_message_to_an_address_that_is_not_the_peers_is_refused() {
    let mut scripted = Scripted::connected(quiet());
    let elsewhere = SendInfo {
        path: Some(at([203, 0, 113, 3]).remote),
        ..SendInfo::default()
    };
    assert_eq!(
        send(&mut scripted, elsewhere, b"x"),
        Err(SendError::UnknownPath)
    );
    let there = SendInfo {
        path: Some(peer().remote),
        ..SendInfo::default()
    };
    assert_eq!(send(&mut scripted, there, b"x"), Ok(()));
}

#[test]
fn a_message_that_is_not_to_be_bundled_does_not_wait() {
    let config = quiet().nodelay(false);
    let mut scripted = Scripted::connected(config);
    send(&mut scripted, with_context(0), b"first").unwrap();
    assert_eq!(data_in(&scripted.take(), scripted.tsn), [0]);
    let hurried = SendInfo {
        unbundled: true,
        ..SendInfo::default()
    };
    send(&mut scripted, hurried, b"does not").unwrap();
    assert_eq!(data_in(&scripted.take(), scripted.tsn), [1]);
    send(&mut scripted, with_context(0), b"waits").unwrap();
    assert!(scripted.take().is_empty());
    scripted.give_sack(2, &[], 100_000);
    assert_eq!(data_in(&scripted.take(), scripted.tsn), [2]);
}

#[test]
fn parameters_are_set_for_one_association() {
    let mut scripted = Scripted::accepted(quiet());
    scripted.give(&[Chunk::Data(message(0, b"first"))]);
    scripted.take();
    let id = scripted.id();
    let config = quiet().sack_delay(Duration::from_millis(50));
    scripted
        .endpoint
        .configure(scripted.now, id, config.association)
        .unwrap();
    scripted.give(&[Chunk::Data(message(1, b"second"))]);
    assert!(scripted.pass(Duration::from_millis(49)).is_empty());
    assert_eq!(
        types(&scripted.pass(Duration::from_millis(1))),
        [[ChunkType::SACK]]
    );
    assert_eq!(
        scripted.endpoint.config().association.sack_delay,
        Duration::from_millis(200),
        "the endpoint's own stays"
    );
    scripted.endpoint.abort(scripted.now, id, b"").unwrap();
    let gone = scripted
        .endpoint
        .configure(scripted.now, id, quiet().association);
    assert_eq!(gone, Err(ConfigureError::UnknownAssociation));
}

#[test]
fn bounds_on_what_is_received_may_change_during_an_association() {
    let allowing = |max_message_size| quiet().max_message_size(max_message_size);
    let mut scripted = Scripted::accepted(allowing(100));
    let id = scripted.id();
    let give = |scripted: &mut Scripted, first: u32, ssn| {
        for (number, beginning) in [(first, true), (first + 1, false)] {
            let data = Data {
                beginning,
                ending: !beginning,
                ssn,
                ..message(number, &[7; 100])
            };
            scripted.give(&[Chunk::Data(data)]);
        }
    };
    for (max, lives) in [(200, true), (199, false)] {
        scripted
            .endpoint
            .configure(scripted.now, id, allowing(max).association)
            .unwrap();
        give(
            &mut scripted,
            if lives { 0 } else { 2 },
            Ssn(u16::from(!lives)),
        );
        assert_eq!(scripted.receive().len(), usize::from(lives));
    }
    assert_eq!(scripted.endpoint.association_count(), 0);
}

#[test]
fn the_sender_is_told_dry_when_it_wants_to_know() {
    for wants in [true, false] {
        let config = quiet().sender_dry_events(wants);
        let mut scripted = Scripted::connected(config);
        send(&mut scripted, with_context(0), b"one").unwrap();
        send(&mut scripted, with_context(0), b"two").unwrap();
        scripted.take();
        scripted.give_sack(1, &[], 100_000);
        let is_dry = |scripted: &Scripted| {
            let dry = |event: &Event| matches!(event, Event::SenderDry { .. });
            scripted.events.iter().any(dry)
        };
        assert!(!is_dry(&scripted));
        scripted.give_sack(2, &[], 100_000);
        assert_eq!(is_dry(&scripted), wants);
    }
}

#[test]
fn the_status_counts_what_is_sent_waits_and_has_come() {
    let mut scripted = Scripted::connected(quiet());
    send(&mut scripted, with_context(0), b"one").unwrap();
    scripted.take();
    scripted.give_sack(0, &[], 0);
    send(&mut scripted, with_context(0), b"two").unwrap();
    scripted.give(&[
        Chunk::Data(message(0, b"here")),
        Chunk::Data(message(2, b"before its turn")),
    ]);
    let status = scripted.status();
    assert_eq!(status.state, AssociationState::Established);
    assert_eq!(
        (status.unacknowledged_chunks, status.unsent_messages),
        (1, 1)
    );
    assert_eq!(status.pending_receipt, 2);
    assert_eq!(status.receive_buffer_bytes, 19);
    assert_eq!(status.primary, peer().remote);
    assert_eq!(status.peer_rwnd, 0);
}

#[test]
fn a_message_that_is_not_to_be_bundled_takes_those_before_it_along() {
    let mut scripted = Scripted::connected(quiet().nodelay(false));
    scripted.send(0, b"first");
    assert_eq!(data_in(&scripted.take(), scripted.tsn), [0]);
    scripted.send(0, b"waits");
    assert!(scripted.take().is_empty());
    let hurried = SendInfo {
        unbundled: true,
        ..SendInfo::default()
    };
    let id = scripted.id();
    scripted
        .endpoint
        .send(scripted.now, id, hurried, "does not".into())
        .unwrap();
    assert_eq!(data_in(&scripted.take(), scripted.tsn), [1, 2]);
}
