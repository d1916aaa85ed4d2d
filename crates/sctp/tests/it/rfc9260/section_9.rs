//! Termination of an association (RFC 9260 section 9).

use std::time::Duration;

use sctp::packet::{Abort, Cause, Chunk, ChunkType, Shutdown};
use sctp::{AssociationState, Event, LostCause};

use crate::common;
use crate::rfc9260::scripted::{
    PEER_TAG, Scripted, chunks, data_in, init, message, packet_of, quiet, sack_in, types,
};

#[test]
fn an_abort_carries_the_users_reason_the_peers_tag_and_no_data() {
    let mut scripted = Scripted::connected(quiet());
    scripted.send(0, b"never mind");
    let id = scripted.id();
    scripted
        .endpoint
        .abort(scripted.now, id, b"enough")
        .unwrap();
    let packets = scripted.take();
    assert_eq!(packets.len(), 1);
    assert_eq!(common::tag(&packets[0]), PEER_TAG);
    let [Chunk::Abort(abort)] = chunks(&packets[0])[..] else {
        panic!("an ABORT was sent");
    };
    assert!(!abort.tag_reflected);
    assert_eq!(
        abort.causes.iter().next(),
        Some(Ok(Cause::UserInitiatedAbort(b"enough")))
    );
    assert_eq!(scripted.endpoint.association_count(), 0);
}

#[test]
fn an_abort_ends_the_association_in_each_state_without_an_answer() {
    for state in [
        AssociationState::CookieWait,
        AssociationState::CookieEchoed,
        AssociationState::Established,
        AssociationState::ShutdownPending,
        AssociationState::ShutdownSent,
        AssociationState::ShutdownReceived,
        AssociationState::ShutdownAckSent,
    ] {
        let mut scripted = Scripted::in_state(state);
        scripted.give_raw(&[6, 0, 0, 12, 0, 12, 0, 7, b'b', b'y', b'e', 0]);
        assert!(scripted.take().is_empty());
        assert_eq!(scripted.endpoint.association_count(), 0, "{state:?}");
        let causes = match scripted.events.last() {
            Some(
                Event::CommunicationLost {
                    cause: LostCause::AbortedByPeer { causes },
                    ..
                }
                | Event::CannotStart {
                    cause: sctp::CannotStartCause::Refused { causes },
                    ..
                },
            ) => causes,
            other => panic!("{other:?}"),
        };
        assert_eq!(&causes[..7], b"\0\x0c\0\x07bye");
    }
}

#[test]
fn what_comes_before_an_abort_counts_and_what_comes_behind_it_does_not() {
    let mut scripted = Scripted::accepted(quiet());
    let data = |number| Chunk::Data(message(number, b"hello"));
    scripted.give(&[data(0), Chunk::Abort(Default::default()), data(1)]);
    assert!(scripted.take().is_empty());
    assert_eq!(scripted.receive().len(), 1);
}

#[test]
fn shutdown_received_refuses_new_messages_and_delivers_the_rest() {
    let mut scripted = Scripted::connected(quiet());
    for _ in 0..30 {
        scripted.send(0, &[1; 1000]);
    }
    let mut sent = data_in(&scripted.take(), scripted.tsn);
    scripted.give_shutdown();
    assert_eq!(scripted.state(), AssociationState::ShutdownReceived);
    assert!(matches!(
        scripted.events.last(),
        Some(Event::PeerShutdown { .. })
    ));
    let id = scripted.id();
    assert_eq!(
        scripted.endpoint.shutdown(scripted.now, id),
        Ok(()),
        "ignored"
    );
    assert_eq!(scripted.state(), AssociationState::ShutdownReceived);
    while sent.last() != Some(&29) {
        scripted.give(&[Chunk::Shutdown(Shutdown {
            cumulative_tsn_ack: scripted.tsn + *sent.last().unwrap(),
        })]);
        let more = data_in(&scripted.take(), scripted.tsn);
        assert!(!more.is_empty());
        sent.extend(more);
    }
    assert_eq!(scripted.state(), AssociationState::ShutdownReceived);
    scripted.give_sack(30, &[], 100_000);
    assert_eq!(types(&scripted.take()), [[ChunkType::SHUTDOWN_ACK]]);
    assert_eq!(scripted.state(), AssociationState::ShutdownAckSent);
}

#[test]
fn a_shutdown_while_an_association_is_set_up_is_discarded() {
    for state in [AssociationState::CookieWait, AssociationState::CookieEchoed] {
        let mut scripted = Scripted::in_state(state);
        scripted.give_shutdown();
        assert!(scripted.take().is_empty());
        assert_eq!(scripted.state(), state);
    }
}

#[test]
fn a_shutdown_that_meets_ours_is_acknowledged() {
    let mut scripted = Scripted::in_state(AssociationState::ShutdownSent);
    scripted.give_shutdown();
    assert_eq!(types(&scripted.take()), [[ChunkType::SHUTDOWN_ACK]]);
    assert_eq!(scripted.state(), AssociationState::ShutdownAckSent);
    scripted.give(&[Chunk::ShutdownAck]);
    assert_eq!(types(&scripted.take()), [[ChunkType::SHUTDOWN_COMPLETE]]);
    assert_eq!(scripted.endpoint.association_count(), 0);
    assert!(matches!(
        scripted.events.last(),
        Some(Event::ShutdownComplete { .. })
    ));
}

#[test]
fn a_shutdown_ack_is_repeated_so_often_and_then_no_more() {
    for rto_max in [2, 60].map(Duration::from_secs) {
        let mut scripted = Scripted::connected(quiet().rto_max(rto_max));
        scripted.give_shutdown();
        assert_eq!(types(&scripted.take()), [[ChunkType::SHUTDOWN_ACK]]);
        assert_eq!(scripted.state(), AssociationState::ShutdownAckSent);
        let rto = scripted.status().paths[0].rto;
        let first = scripted.endpoint.next_timeout().unwrap();
        assert_eq!(first, scripted.now + rto);
        let mut times = Vec::new();
        while let Some(next) = scripted.endpoint.next_timeout() {
            scripted.now = next;
            scripted.endpoint.handle_timeout(next);
            for packet in scripted.take() {
                assert_eq!(types(&[packet]), [[ChunkType::SHUTDOWN_ACK]]);
                times.push(next);
            }
        }
        let config = scripted.endpoint.config();
        assert_eq!(
            times.len(),
            config.association.association_max_retrans as usize
        );
        assert_eq!(times[1] - times[0], rto_max.min(2 * rto), "it backs off");
        assert_eq!(scripted.endpoint.association_count(), 0);
        assert!(matches!(
            scripted.events.last(),
            Some(Event::CommunicationLost {
                cause: LostCause::TimedOut,
                ..
            })
        ));
    }
}

/// T5-shutdown-guard is the business of the sender of the SHUTDOWN. It runs neither before that is sent nor on the
/// other side.
#[test]
fn a_shutdown_waits_for_data_as_long_as_some_is_acknowledged() {
    for peer_asks in [false, true] {
        let mut scripted = Scripted::connected(quiet().rto_max(Duration::from_secs(1)));
        for _ in 0..20 {
            scripted.send(0, &[1; 1000]);
        }
        scripted.take();
        if peer_asks {
            scripted.give_shutdown();
        }
        let timeout = scripted.endpoint.next_timeout();
        let id = scripted.id();
        scripted.endpoint.shutdown(scripted.now, id).unwrap();
        let (delivering, then) = if peer_asks {
            assert_eq!(scripted.endpoint.next_timeout(), timeout, "ignored");
            let then = AssociationState::ShutdownAckSent;
            (AssociationState::ShutdownReceived, then)
        } else {
            let then = AssociationState::ShutdownSent;
            (AssociationState::ShutdownPending, then)
        };
        for number in 1..=20 {
            scripted.pass(Duration::from_secs(3));
            assert_eq!(scripted.state(), delivering, "message {number}");
            scripted.give_sack(number, &[], 100_000);
            scripted.take();
        }
        assert_eq!(scripted.state(), then);
    }
}

#[test]
fn a_shutdown_that_is_sent_again_acknowledges_what_came_since() {
    let mut scripted = Scripted::in_state(AssociationState::ShutdownSent);
    scripted.give(&[Chunk::Data(message(0, b"one"))]);
    let packets = scripted.take();
    assert_eq!(types(&packets), [[ChunkType::SACK, ChunkType::SHUTDOWN]]);
    let cumulative = |packets: &[bytes::Bytes]| match chunks(&packets[0])[..] {
        [.., Chunk::Shutdown(shutdown)] => shutdown.cumulative_tsn_ack,
        _ => panic!("a SHUTDOWN was sent"),
    };
    assert_eq!(cumulative(&packets), crate::rfc9260::scripted::PEER_TSN);
    let packets = scripted.pass(Duration::from_millis(1500));
    assert_eq!(cumulative(&packets), crate::rfc9260::scripted::PEER_TSN);
    // Beyond a gap, a SACK says what the SHUTDOWN cannot.
    scripted.give(&[Chunk::Data(message(2, b"three"))]);
    let packets = scripted.take();
    assert_eq!(types(&packets), [[ChunkType::SACK, ChunkType::SHUTDOWN]]);
    assert_eq!(sack_in(&packets).2, [(2, 2)]);
}

#[test]
fn a_shutdown_ack_that_nobody_waits_for_is_ignored() {
    for state in [
        AssociationState::Established,
        AssociationState::ShutdownPending,
        AssociationState::ShutdownReceived,
    ] {
        let mut scripted = Scripted::in_state(state);
        scripted.give(&[Chunk::ShutdownAck]);
        assert!(scripted.take().is_empty());
        assert_eq!(scripted.state(), state);
    }
}

#[test]
fn a_packet_with_an_abort_is_not_answered() {
    let abort = Chunk::Abort(Abort::default());
    let empty = Chunk::Data(message(0, b""));
    for chunks in [vec![empty, abort], vec![Chunk::ShutdownAck, abort]] {
        for state in [
            AssociationState::CookieEchoed,
            AssociationState::Established,
            AssociationState::ShutdownSent,
            AssociationState::ShutdownAckSent,
        ] {
            let mut scripted = Scripted::in_state(state);
            scripted.give(&chunks);
            assert!(scripted.take().is_empty(), "{state:?} {chunks:?}");
        }
    }
    let mut scripted = Scripted::connected(quiet());
    scripted.send(0, b"hello");
    scripted.take();
    let packet = packet_of(scripted.tag, |writer| {
        writer
            .sack(scripted.tsn + 100, 5000, 0, [].into_iter(), [].into_iter())
            .unwrap();
        writer.chunk(&abort).unwrap();
    });
    scripted.give_packet(packet);
    assert!(scripted.take().is_empty());
    // A stale cookie, and one for which there is no room.
    for (seconds, max_associations) in [(61, 10), (0, 0)] {
        let mut scripted = Scripted::alone(quiet().max_associations(max_associations));
        let cookie = scripted.cookie_for(init());
        scripted.now += Duration::from_secs(seconds);
        scripted.echo(&cookie, &[abort]);
        assert!(scripted.take().is_empty());
    }
}

/// A peer that has missed the SHUTDOWN goes on sending HEARTBEATs, faster than T2 expires.
#[test]
fn heartbeats_do_not_keep_a_lost_shutdown_from_being_repeated() {
    let mut scripted = Scripted::connected(quiet());
    let id = scripted.id();
    scripted.endpoint.shutdown(scripted.now, id).unwrap();
    assert_eq!(types(&scripted.take()), [[ChunkType::SHUTDOWN]]);
    let mut repeated = Vec::new();
    for _ in 0..20 {
        repeated.extend(scripted.pass(Duration::from_millis(200)));
        scripted.give_raw(&[4, 0, 0, 12, 0, 1, 0, 8, 1, 2, 3, 4]);
    }
    // RTO.Initial, and twice that.
    assert_eq!(types(&repeated), [[ChunkType::SHUTDOWN]; 2]);
    assert_eq!(scripted.state(), AssociationState::ShutdownSent);
}

#[test]
fn any_packet_keeps_a_shutdown_going() {
    let scripted = answered_after_shutdown(Duration::from_secs(75));
    assert_eq!(scripted.state(), AssociationState::ShutdownSent);
}

#[test]
fn t5_bounds_a_shutdown_that_any_packet_keeps_going() {
    let scripted = answered_after_shutdown(Duration::from_secs(299));
    assert_eq!(scripted.state(), AssociationState::ShutdownSent);
    let scripted = answered_after_shutdown(Duration::from_secs(301));
    assert!(matches!(
        scripted.events.last(),
        Some(Event::CommunicationLost {
            cause: LostCause::ShutdownTimedOut,
            ..
        })
    ));
}

/// An association that we shut down and whose peer sends nothing but HEARTBEATs, for so long.
fn answered_after_shutdown(time: Duration) -> Scripted {
    let config = quiet().association_max_retrans(2);
    let mut scripted = Scripted::connected(config);
    let id = scripted.id();
    scripted.endpoint.shutdown(scripted.now, id).unwrap();
    scripted.take();
    let end = scripted.now + time;
    while scripted.now < end {
        scripted.pass(Duration::from_millis(2500).min(end - scripted.now));
        scripted.give_raw(&[4, 0, 0, 12, 0, 1, 0, 8, 1, 2, 3, 4]);
    }
    scripted
}
