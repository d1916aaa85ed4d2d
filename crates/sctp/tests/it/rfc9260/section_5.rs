//! Association initialization (RFC 9260 section 5).

use std::collections::HashSet;
use std::time::Duration;

use sctp::packet::{
    Cause, CauseBuffer, Chunk, ChunkType, CookieEcho, Heartbeat, Init, OperationError, Parameter,
    ParameterBuffer, Parameters, Tsn,
};
use sctp::{AssociationState, CannotStartCause, Connect, Event, PathAddress, PathState};

use crate::common;
use crate::rfc9260::scripted::{
    COOKIE, LOCAL_PORT, PEER_PORT, PEER_TAG, PEER_TSN, Scripted, at, chunks, data_in, init,
    message, packet, peer, push_address, quiet, raw, sack_in, types,
};

/// All states but Closed.
const STATES: [AssociationState; 7] = [
    AssociationState::CookieWait,
    AssociationState::CookieEchoed,
    AssociationState::Established,
    AssociationState::ShutdownPending,
    AssociationState::ShutdownSent,
    AssociationState::ShutdownReceived,
    AssociationState::ShutdownAckSent,
];

/// An INIT of a peer that has begun anew.
fn init_of_restarted() -> Init<'static> {
    Init {
        initiate_tag: 0x5eed,
        initial_tsn: Tsn(7000),
        ..init()
    }
}

fn stale_cookie(scripted: &mut Scripted) {
    let mut causes = CauseBuffer::new();
    causes.push(&Cause::StaleCookie { staleness: 9 }).unwrap();
    scripted.give(&[Chunk::Error(OperationError {
        causes: causes.causes(),
    })]);
}

#[test]
fn an_init_that_is_sent_again_is_the_same() {
    let mut scripted = Scripted::alone(quiet());
    scripted
        .endpoint
        .connect(scripted.now, peer(), PEER_PORT)
        .unwrap();
    let packets = scripted.pass(Duration::from_secs(1000));
    let again =
        usize::try_from(scripted.endpoint.config().association.max_init_retransmits).unwrap();
    assert_eq!(packets.len(), 1 + again);
    assert!(packets.iter().all(|packet| *packet == packets[0]));
    assert!(matches!(
        scripted.events[..],
        [Event::CannotStart {
            cause: CannotStartCause::TimedOut,
            ..
        }]
    ));
}

#[test]
fn a_cookie_echo_is_sent_again_so_often_and_then_no_more() {
    let mut scripted = Scripted::cookie_echoed(quiet());
    let packets = scripted.pass(Duration::from_secs(1000));
    let again =
        usize::try_from(scripted.endpoint.config().association.max_init_retransmits).unwrap();
    assert_eq!(types(&packets), vec![vec![ChunkType::COOKIE_ECHO]; again]);
    assert!(matches!(
        scripted.events[..],
        [Event::CannotStart {
            cause: CannotStartCause::TimedOut,
            ..
        }]
    ));
}

#[test]
fn nothing_but_the_cookie_echo_leaves_before_its_answer() {
    let mut scripted = Scripted::cookie_echoed(quiet());
    scripted.send(0, b"later");
    let mut heartbeat = vec![4, 0, 0, 12, 0, 1, 0, 8, 1, 2, 3, 4];
    heartbeat.extend([0xff, 0, 0, 4]);
    scripted.give_raw(&heartbeat);
    scripted.give(&[Chunk::Data(message(0, b"too early"))]);
    assert!(scripted.take().is_empty());
    let packets = scripted.pass(Duration::from_millis(1500));
    assert_eq!(types(&packets), [[ChunkType::COOKIE_ECHO, ChunkType::DATA]]);
    scripted.give(&[Chunk::CookieAck]);
    assert!(
        scripted.receive().is_empty(),
        "DATA before the COOKIE ACK was dropped"
    );
    let packets = scripted.take();
    assert_eq!(
        types(&packets),
        [[ChunkType::HEARTBEAT_ACK]],
        "an answer may be late"
    );
}

#[test]
fn the_cookie_ack_is_first_and_data_beside_the_cookie_echo_is_acknowledged_at_once() {
    let mut scripted = Scripted::alone(quiet());
    let cookie = scripted.cookie_for(init());
    scripted.echo(&cookie, &[Chunk::Data(message(0, b"early"))]);
    let packets = scripted.take();
    assert_eq!(types(&packets), [[ChunkType::COOKIE_ACK, ChunkType::SACK]]);
    assert_eq!(sack_in(&packets).0, PEER_TSN);
}

#[test]
fn the_first_data_is_acknowledged_at_once_and_later_data_is_not() {
    let mut scripted = Scripted::accepted(quiet());
    scripted.give(&[Chunk::Data(message(0, b"first"))]);
    assert_eq!(sack_in(&scripted.take()).0, PEER_TSN);
    scripted.give(&[Chunk::Data(message(1, b"second"))]);
    assert!(scripted.take().is_empty());
}

#[test]
fn the_first_acknowledgement_that_counts_is_that_of_the_initial_tsn() {
    let mut scripted = Scripted::connected(quiet());
    scripted.send(0, b"first");
    assert_eq!(data_in(&scripted.take(), scripted.tsn), [0]);
    scripted.give_sack(0, &[], 100_000);
    assert_eq!(scripted.status().outstanding_bytes, 16 + 8);
    scripted.give_sack(1, &[], 100_000);
    assert_eq!(scripted.status().outstanding_bytes, 0);
}

#[test]
fn an_unexpected_init_ack_is_discarded_in_each_state() {
    for state in STATES.into_iter().skip(1) {
        let mut scripted = Scripted::in_state(state);
        scripted.give_init_ack(init_of_restarted());
        assert!(scripted.take().is_empty(), "{state:?}");
        assert_eq!(scripted.state(), state);
    }
}

#[test]
fn an_unexpected_cookie_ack_is_discarded_in_each_state() {
    for state in STATES {
        if state == AssociationState::CookieEchoed {
            continue;
        }
        let mut scripted = Scripted::in_state(state);
        let events = scripted.events.len();
        scripted.give(&[Chunk::CookieAck]);
        assert!(scripted.take().is_empty(), "{state:?}");
        assert_eq!((scripted.state(), scripted.events.len()), (state, events));
    }
}

#[test]
fn an_init_is_answered_in_each_state_and_changes_nothing() {
    for state in STATES {
        let mut scripted = Scripted::in_state(state);
        let (tag, tsn) = (scripted.tag, scripted.tsn);
        let before = scripted.status();
        let timeout = scripted.endpoint.next_timeout();
        scripted.give_packet(packet(0, &[Chunk::Init(init_of_restarted())]));
        let packets = scripted.take();
        if state == AssociationState::ShutdownAckSent {
            assert_eq!(types(&packets), [[ChunkType::SHUTDOWN_ACK]]);
            assert_eq!(common::tag(&packets[0]), PEER_TAG);
            assert_eq!(scripted.state(), state);
            continue;
        }
        let [Chunk::InitAck(answer)] = chunks(&packets[0])[..] else {
            panic!("{state:?}: an INIT ACK was sent");
        };
        assert_eq!(common::tag(&packets[0]), init_of_restarted().initiate_tag);
        let is_opening = matches!(
            state,
            AssociationState::CookieWait | AssociationState::CookieEchoed
        );
        assert_eq!(answer.initiate_tag == tag, is_opening, "{state:?}");
        assert!(answer.initiate_tag != 0);
        if is_opening {
            let config = scripted.endpoint.config();
            assert_eq!(answer.initial_tsn, tsn);
            assert_eq!(answer.a_rwnd, config.association.a_rwnd);
            assert_eq!(answer.outbound_streams, config.association.outbound_streams);
            assert_eq!(
                answer.inbound_streams,
                config.association.max_inbound_streams
            );
        }
        assert_eq!(scripted.status(), before, "{state:?}");
        assert_eq!(scripted.endpoint.next_timeout(), timeout, "{state:?}");
    }
}

#[test]
fn a_peer_that_has_restarted_is_recognized_in_each_state() {
    for state in STATES.into_iter().skip(2) {
        let mut scripted = Scripted::in_state(state);
        let old_tag = scripted.tag;
        let cookie = match state {
            AssociationState::ShutdownAckSent => {
                // The INIT gets no INIT ACK now; it did before the SHUTDOWN came.
                scripted = Scripted::connected(quiet());
                let (old_tag, old_tsn) = (scripted.tag, scripted.tsn);
                let cookie = scripted.cookie_for(init_of_restarted());
                let new_tag = std::mem::replace(&mut scripted.tag, old_tag);
                scripted.tsn = old_tsn;
                scripted.give_shutdown();
                scripted.take();
                scripted.tag = new_tag;
                cookie
            }
            _ => scripted.cookie_for(init_of_restarted()),
        };
        assert_ne!(scripted.tag, old_tag);
        scripted.echo(&cookie, &[]);
        let packets = scripted.take();
        if state == AssociationState::ShutdownAckSent {
            let [Chunk::Error(error), Chunk::ShutdownAck] = chunks(&packets[0])[..] else {
                panic!("ERROR and SHUTDOWN ACK were sent");
            };
            assert_eq!(
                error.causes.iter().next(),
                Some(Ok(Cause::CookieReceivedWhileShuttingDown))
            );
            assert_eq!(scripted.state(), state);
            continue;
        }
        assert_eq!(types(&packets), [[ChunkType::COOKIE_ACK]], "{state:?}");
        assert_eq!(common::tag(&packets[0]), init_of_restarted().initiate_tag);
        assert_eq!(scripted.state(), AssociationState::Established);
        assert!(matches!(
            scripted.events.last(),
            Some(Event::Restart { .. })
        ));
        let status = scripted.status();
        let fresh = Scripted::connected(quiet()).status();
        assert_eq!(status.outstanding_bytes, 0);
        assert_eq!(status.paths[0].cwnd, fresh.paths[0].cwnd);
        assert_eq!(status.paths[0].ssthresh, fresh.paths[0].ssthresh);
    }
}

/// Action C of Table 12: tags X and M, no tie-tags.
#[test]
fn a_cookie_of_ours_that_comes_late_is_discarded() {
    let mut scripted = Scripted::alone(quiet());
    let cookie = scripted.cookie_for(init());
    let tag_of_cookie = scripted.tag;
    scripted
        .endpoint
        .connect(scripted.now, peer(), PEER_PORT)
        .unwrap();
    let packets = scripted.take();
    let [Chunk::Init(ours)] = chunks(&packets[0])[..] else {
        panic!("an INIT was sent");
    };
    scripted.tag = ours.initiate_tag;
    scripted.give_init_ack(init());
    assert_eq!(types(&scripted.take()), [[ChunkType::COOKIE_ECHO]]);
    let timeout = scripted.endpoint.next_timeout();
    let echo = Chunk::CookieEcho(CookieEcho { cookie: &cookie });
    scripted.give_packet(packet(tag_of_cookie, &[echo]));
    assert!(scripted.take().is_empty());
    assert!(scripted.events.is_empty());
    assert_eq!(scripted.endpoint.next_timeout(), timeout);
    scripted.give(&[Chunk::CookieAck]);
    assert_eq!(scripted.state(), AssociationState::Established);
}

/// A row that Table 12 does not have: both tags X, no tie-tags.
#[test]
fn a_cookie_from_before_the_association_is_discarded() {
    let mut scripted = Scripted::alone(quiet());
    let old = scripted.cookie_for(init_of_restarted());
    let tag_of_old = scripted.tag;
    let cookie = scripted.cookie_for(init());
    scripted.echo(&cookie, &[]);
    scripted.take();
    let before = scripted.status();
    let echo = Chunk::CookieEcho(CookieEcho { cookie: &old });
    scripted.give_packet(packet(tag_of_old, &[echo]));
    assert!(scripted.take().is_empty());
    assert_eq!(scripted.status(), before);
}

/// Action B of Table 12, second row: the peer's tag is not known yet.
#[test]
fn a_collision_in_cookie_wait_ends_in_one_association() {
    let mut scripted = Scripted::cookie_wait(quiet());
    let ours = scripted.tag;
    let cookie = scripted.cookie_for(init_of_restarted());
    assert_eq!(scripted.tag, ours);
    assert_eq!(scripted.state(), AssociationState::CookieWait);
    scripted.echo(&cookie, &[]);
    let packets = scripted.take();
    assert_eq!(types(&packets), [[ChunkType::COOKIE_ACK]]);
    assert_eq!(common::tag(&packets[0]), init_of_restarted().initiate_tag);
    assert_eq!(scripted.state(), AssociationState::Established);
    assert_eq!(scripted.endpoint.association_count(), 1);
    assert!(
        scripted.pass(Duration::from_secs(20)).is_empty(),
        "T1-init has stopped"
    );
}

/// Action B of Table 12, first row: the peer has picked another tag.
#[test]
fn a_collision_in_cookie_echoed_takes_the_peers_latest_tag() {
    let mut scripted = Scripted::cookie_echoed(quiet());
    let ours = scripted.tag;
    let cookie = scripted.cookie_for(init_of_restarted());
    assert_eq!(scripted.tag, ours);
    scripted.echo(&cookie, &[]);
    let packets = scripted.take();
    assert_eq!(types(&packets), [[ChunkType::COOKIE_ACK]]);
    assert_eq!(common::tag(&packets[0]), init_of_restarted().initiate_tag);
    assert_eq!(scripted.state(), AssociationState::Established);
    assert!(
        scripted.pass(Duration::from_secs(20)).is_empty(),
        "T1-cookie has stopped"
    );
    scripted.send(0, b"hello");
    assert_eq!(
        common::tag(&scripted.take()[0]),
        init_of_restarted().initiate_tag
    );
}

/// Action D of Table 12, and section 5.2.4 (3): both tags match, so that its age does not matter.
#[test]
fn an_expired_cookie_of_the_association_itself_is_acknowledged() {
    let mut scripted = Scripted::alone(quiet());
    let cookie = scripted.cookie_for(init());
    scripted.echo(&cookie, &[]);
    scripted.take();
    scripted.pass(Duration::from_secs(300));
    scripted.echo(&cookie, &[]);
    assert_eq!(types(&scripted.take()), [[ChunkType::COOKIE_ACK]]);
    assert_eq!(scripted.state(), AssociationState::Established);
}

#[test]
fn a_cookie_is_fresh_for_its_life_and_no_longer() {
    for (late, expected) in [(0, ChunkType::COOKIE_ACK), (1, ChunkType::ERROR)] {
        let mut scripted = Scripted::alone(quiet());
        let cookie = scripted.cookie_for(init());
        scripted.now += Duration::from_secs(60) + Duration::from_millis(late);
        scripted.echo(&cookie, &[Chunk::Data(message(0, b"hello"))]);
        let packets = scripted.take();
        assert_eq!(chunks(&packets[0])[0].chunk_type(), expected);
        assert_eq!(common::tag(&packets[0]), PEER_TAG);
        assert_eq!(scripted.endpoint.association_count(), 1 - late as usize);
    }
}

#[test]
fn a_cookie_that_is_not_ours_in_any_bit_is_dropped_silently() {
    let mut scripted = Scripted::alone(quiet());
    let cookie = scripted.cookie_for(init());
    for bit in 0..8 * cookie.len() {
        let mut altered = cookie.clone();
        altered[bit / 8] ^= 1 << (bit % 8);
        scripted.echo(&altered, &[Chunk::Data(message(0, b"hello"))]);
        assert!(scripted.take().is_empty(), "bit {bit}");
    }
    assert_eq!(scripted.endpoint.association_count(), 0);
    scripted.echo(&cookie, &[]);
    assert_eq!(scripted.endpoint.association_count(), 1);
}

#[test]
fn a_cookie_is_bound_to_ports_and_verification_tag() {
    let mut scripted = Scripted::alone(quiet());
    let cookie = scripted.cookie_for(init());
    let echo = Chunk::CookieEcho(CookieEcho { cookie: &cookie });
    scripted.give_packet(packet(scripted.tag ^ 1, &[echo]));
    let other_port = common::packet(PEER_PORT + 1, LOCAL_PORT, scripted.tag, &[echo]);
    scripted.give_packet(other_port);
    let other_port = common::packet(PEER_PORT, LOCAL_PORT + 1, scripted.tag, &[echo]);
    scripted.give_packet(other_port);
    assert!(scripted.take().is_empty());
    assert_eq!(scripted.endpoint.association_count(), 0);
}

/// A NAT may give the peer another UDP port meanwhile (RFC 6951 section 5.4).
#[test]
fn a_cookie_may_come_back_by_another_encapsulation_port() {
    let through = |port| PathAddress {
        encapsulation_port: Some(port),
        ..peer()
    };
    let mut several = ParameterBuffer::new();
    push_address(&mut several, at([198, 51, 100, 9]));
    for listed in [ParameterBuffer::new(), several] {
        let mut scripted = Scripted::alone(quiet());
        let init = Init {
            parameters: listed.parameters(),
            ..init()
        };
        scripted.give_from(through(1111), packet(0, &[Chunk::Init(init)]));
        let packets = scripted.take();
        let [Chunk::InitAck(answer)] = chunks(&packets[0])[..] else {
            panic!("an INIT ACK was sent");
        };
        let Some(Ok(Parameter::StateCookie(cookie))) = answer.parameters.iter().next() else {
            panic!("with a cookie");
        };
        let echo = Chunk::CookieEcho(CookieEcho { cookie });
        scripted.give_from(through(2222), packet(answer.initiate_tag, &[echo]));
        let acks = scripted.transmits();
        assert!(!acks.is_empty(), "it is accepted");
        let ports: HashSet<_> = acks
            .iter()
            .map(|transmit| transmit.path.encapsulation_port)
            .collect();
        assert_eq!(ports, HashSet::from([Some(2222)]));
        assert_eq!(scripted.path(peer()).state, PathState::Active);
        assert_eq!(scripted.state(), AssociationState::Established);
    }
}

#[test]
fn a_stale_cookie_error_counts_in_cookie_echoed_only() {
    for state in STATES {
        let mut scripted = Scripted::in_state(state);
        let before = scripted.events.len();
        stale_cookie(&mut scripted);
        let packets = scripted.take();
        if state == AssociationState::CookieEchoed {
            assert_eq!(types(&packets), [[ChunkType::INIT]]);
            assert_eq!(scripted.state(), AssociationState::CookieWait);
        } else {
            assert!(packets.is_empty(), "{state:?}");
            assert_eq!((scripted.state(), scripted.events.len()), (state, before));
        }
    }
}

#[test]
fn the_increment_asked_for_is_at_most_a_second_more_than_the_round_trip() {
    let mut scripted = Scripted::cookie_echoed(quiet());
    scripted.now += Duration::from_millis(300);
    stale_cookie(&mut scripted);
    let packets = scripted.take();
    let [Chunk::Init(again)] = chunks(&packets[0])[..] else {
        panic!("an INIT was sent");
    };
    let increments: Vec<_> = again
        .parameters
        .iter()
        .filter_map(|parameter| match parameter {
            Ok(Parameter::CookiePreservative {
                life_span_increment,
            }) => Some(life_span_increment),
            _ => None,
        })
        .collect();
    assert_eq!(increments, [1300]);
}

#[test]
fn the_cookies_life_grows_within_bounds_only() {
    let with_preservative = |milliseconds: u32| {
        let mut scripted = Scripted::alone(quiet());
        let mut parameters = sctp::packet::ParameterBuffer::new();
        parameters
            .push(&Parameter::CookiePreservative {
                life_span_increment: milliseconds,
            })
            .unwrap();
        let cookie = scripted.cookie_for(Init {
            parameters: parameters.parameters(),
            ..init()
        });
        (scripted, cookie)
    };
    for (milliseconds, seconds, is_fresh) in [
        (5_000, 64, true),
        (5_000, 66, false),
        (u32::MAX, 119, true),
        (u32::MAX, 121, false),
    ] {
        let (mut scripted, cookie) = with_preservative(milliseconds);
        scripted.now += Duration::from_secs(seconds);
        scripted.echo(&cookie, &[]);
        assert_eq!(scripted.endpoint.association_count() == 1, is_fresh);
    }
}

#[test]
fn each_association_has_a_new_tag_and_a_new_first_tsn() {
    let mut scripted = Scripted::alone(quiet());
    let mut tags = HashSet::new();
    let mut tsns = HashSet::new();
    for _ in 0..100 {
        let id = scripted
            .endpoint
            .connect(scripted.now, peer(), PEER_PORT)
            .unwrap();
        let packets = scripted.take();
        let [Chunk::Init(init)] = chunks(&packets[0])[..] else {
            panic!("an INIT was sent");
        };
        assert!(init.initiate_tag != 0);
        tags.insert(init.initiate_tag);
        tsns.insert(init.initial_tsn.0);
        scripted.endpoint.abort(scripted.now, id, b"").unwrap();
    }
    assert_eq!((tags.len(), tsns.len()), (100, 100));
}

#[test]
fn the_init_ack_goes_to_where_the_init_came_from() {
    let mut scripted = Scripted::alone(quiet());
    let from = at([203, 0, 113, 77]);
    scripted
        .endpoint
        .handle_packet(scripted.now, from, packet(0, &[Chunk::Init(init())]));
    let transmit = scripted
        .endpoint
        .poll_transmit(scripted.now)
        .expect("an INIT ACK");
    assert_eq!(transmit.path.remote, from.remote);
    assert_eq!(scripted.endpoint.association_count(), 0);
    assert_eq!(scripted.endpoint.next_timeout(), None, "no timer, no state");
}

#[test]
fn what_is_not_recognized_comes_back_within_one_packet() {
    let mut parameters = Vec::new();
    for number in 0..200_u16 {
        parameters.extend_from_slice(&(0xc100 + number).to_be_bytes());
        parameters.extend_from_slice(&[0, 12, 1, 2, 3, 4, 5, 6, 7, 8]);
    }
    let mut scripted = Scripted::alone(quiet());
    scripted.give_packet(packet(
        0,
        &[Chunk::Init(Init {
            parameters: Parameters::new(&parameters),
            ..init()
        })],
    ));
    let packets = scripted.take();
    assert_eq!(types(&packets), [[ChunkType::INIT_ACK]]);
    assert!(packets[0].len() <= 1500);
}

#[test]
fn a_malformed_parameter_makes_no_association() {
    // An IPv4 Address of five bytes, a parameter of length 3, and one past the end.
    for wrong in [
        &[0, 5, 0, 9, 1, 2, 3, 4, 5][..],
        &[0, 5, 0, 3][..],
        &[0, 5, 0, 40][..],
    ] {
        let mut scripted = Scripted::alone(quiet());
        let init = Init {
            parameters: Parameters::new(wrong),
            ..init()
        };
        scripted.give_packet(packet(0, &[Chunk::Init(init)]));
        let packets = scripted.take();
        assert_eq!(types(&packets), [[ChunkType::ABORT]]);
        assert_eq!(common::tag(&packets[0]), PEER_TAG);
    }
}

#[test]
fn an_init_too_short_for_its_fields_is_dropped() {
    let mut scripted = Scripted::alone(quiet());
    scripted.give_packet(raw(0, &[1, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1]));
    assert!(scripted.take().is_empty());
}

#[test]
fn a_heartbeat_before_the_association_is_up_waits_for_it() {
    let mut scripted = Scripted::cookie_wait(quiet());
    let heartbeat = Chunk::Heartbeat(Heartbeat {
        parameters: Parameters::new(&[0, 1, 0, 8, 1, 2, 3, 4]),
    });
    scripted.give(&[heartbeat]);
    scripted.give_init_ack(init());
    let packets = scripted.take();
    let [Chunk::CookieEcho(echo)] = chunks(&packets[0])[..] else {
        panic!("only a COOKIE ECHO was sent");
    };
    assert_eq!(echo.cookie, COOKIE);
    scripted.give(&[Chunk::CookieAck]);
    assert!(
        scripted.take().is_empty(),
        "COOKIE-WAIT is too early for a HEARTBEAT ACK"
    );
}

/// Section 5.2.1, and 5.2.2 for the time after: an association may have settings of its own.
#[test]
fn a_collision_says_the_same_as_our_init() {
    let config = quiet()
        .a_rwnd(5000)
        .outbound_streams(2)
        .max_inbound_streams(3);
    let mut scripted = Scripted::alone(quiet());
    let connect = Connect {
        peer: vec![peer()],
        port: PEER_PORT,
        config: Some(config.association),
    };
    scripted
        .endpoint
        .connect_with(scripted.now, connect)
        .unwrap();
    let packets = scripted.take();
    let [Chunk::Init(ours)] = chunks(&packets[0])[..] else {
        panic!("an INIT or INIT ACK was sent")
    };
    assert_eq!(
        (ours.a_rwnd, ours.outbound_streams, ours.inbound_streams),
        (5000, 2, 3)
    );
    scripted.give_packet(packet(0, &[Chunk::Init(init())]));
    let packets = scripted.take();
    let [Chunk::InitAck(answer)] = chunks(&packets[0])[..] else {
        panic!("an INIT or INIT ACK was sent")
    };
    assert_eq!(
        (
            answer.a_rwnd,
            answer.outbound_streams,
            answer.inbound_streams
        ),
        (5000, 2, 3)
    );
    // And once up, also to a peer that restarts.
    scripted.tag = ours.initiate_tag;
    scripted.give_init_ack(init());
    scripted.take();
    scripted.give(&[Chunk::CookieAck]);
    scripted.give_packet(packet(
        0,
        &[Chunk::Init(Init {
            initiate_tag: 99,
            ..init()
        })],
    ));
    let packets = scripted.take();
    let [Chunk::InitAck(answer)] = chunks(&packets[0])[..] else {
        panic!("an INIT or INIT ACK was sent")
    };
    assert_eq!(
        (
            answer.a_rwnd,
            answer.outbound_streams,
            answer.inbound_streams
        ),
        (5000, 2, 3)
    );
}
