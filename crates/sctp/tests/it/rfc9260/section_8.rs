//! Fault management (RFC 9260 section 8).

use std::time::{Duration, Instant};

use sctp::packet::{
    Abort, Chunk, ChunkType, CookieEcho, Heartbeat, Parameters, Shutdown, ShutdownComplete,
};
use sctp::{AssociationState, EndpointConfig, Event, LostCause, PathState};

use crate::common;
use crate::rfc9260::scripted::{
    PEER_TAG, Scripted, bytes_of, chunks, init, message, packet, quiet, raw, types,
};

/// A HEARTBEAT of the peer.
const HEARTBEAT: &[u8] = &[4, 0, 0, 12, 0, 1, 0, 8, 1, 2, 3, 4];

/// Quiet but for HEARTBEATs.
fn watchful() -> EndpointConfig {
    quiet().heartbeats(true)
}

/// Lets time go by and answers HEARTBEATs as the peer would; tells when they came.
fn watch(scripted: &mut Scripted, duration: Duration, answers: bool) -> Vec<Instant> {
    let end = scripted.now + duration;
    let mut times = Vec::new();
    while let Some(next) = scripted.endpoint.next_timeout().filter(|next| *next <= end) {
        scripted.now = scripted.now.max(next);
        scripted.endpoint.handle_timeout(scripted.now);
        for packet in scripted.take() {
            for chunk in chunks(&packet) {
                let Chunk::Heartbeat(heartbeat) = chunk else {
                    continue;
                };
                times.push(scripted.now);
                if answers {
                    scripted.give(&[Chunk::HeartbeatAck(heartbeat)]);
                }
            }
        }
    }
    scripted.now = end;
    times
}

#[test]
fn heartbeats_come_an_rto_and_the_interval_apart() {
    let mut scripted = Scripted::connected(watchful());
    let times = watch(&mut scripted, Duration::from_secs(3600), true);
    let rto = scripted.status().paths[0].rto;
    let interval = scripted.endpoint.config().association.path.hb_interval;
    let gaps: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.len() > 100);
    let within = interval + rto / 2..=interval + rto * 3 / 2;
    assert!(gaps.iter().all(|gap| within.contains(gap)));
    let spread = *gaps.iter().max().unwrap() - *gaps.iter().min().unwrap();
    assert!(spread > rto / 2, "jitter");
}

#[test]
fn a_peer_that_answers_no_heartbeat_is_given_up() {
    let mut scripted = Scripted::connected(watchful());
    let times = watch(&mut scripted, Duration::from_secs(36_000), false);
    let config = scripted.endpoint.config().clone();
    assert_eq!(
        times.len(),
        1 + config.association.association_max_retrans as usize
    );
    let gaps: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(
        gaps[3] > gaps[0] + config.association.path.rto_min,
        "the RTO backs off"
    );
    let inactive = scripted.events.iter().position(|event| {
        matches!(
            event,
            Event::PathStateChanged {
                state: PathState::Inactive,
                ..
            }
        )
    });
    let lost = scripted.events.iter().position(|event| {
        matches!(
            event,
            Event::CommunicationLost {
                cause: LostCause::TimedOut,
                ..
            }
        )
    });
    assert!(inactive.is_some() && inactive < lost);
}

#[test]
fn a_path_that_is_inactive_is_watched_and_becomes_active_again() {
    let config = watchful().association_max_retrans(100);
    let mut scripted = Scripted::connected(config);
    watch(&mut scripted, Duration::from_secs(1200), false);
    let path = &scripted.status().paths[0];
    assert_eq!(path.state, PathState::Inactive);
    assert!(path.error_count > scripted.endpoint.config().association.path.path_max_retrans);
    let answered = watch(&mut scripted, Duration::from_secs(300), true);
    assert!(!answered.is_empty());
    let path = &scripted.status().paths[0];
    assert_eq!((path.state, path.error_count), (PathState::Active, 0));
    assert!(matches!(
        scripted.events.last(),
        Some(Event::PathStateChanged {
            state: PathState::Active,
            ..
        })
    ));
}

#[test]
fn a_heartbeat_ack_with_another_nonce_counts_for_nothing() {
    let mut scripted = Scripted::connected(watchful());
    let packets = scripted.pass(Duration::from_secs(33));
    let [Chunk::Heartbeat(heartbeat)] = chunks(&packets[0])[..] else {
        panic!("a HEARTBEAT was sent");
    };
    let genuine = heartbeat.parameters.as_bytes().to_vec();
    let before = scripted.status();
    for position in 4..genuine.len() {
        let mut forged = genuine.clone();
        forged[position] ^= 1;
        let forged = Chunk::HeartbeatAck(Heartbeat {
            parameters: Parameters::new(&forged),
        });
        scripted.give(&[forged]);
    }
    for wrong in [
        &[][..],
        &[0, 1, 0, 4][..],
        &[0, 1, 0, 3][..],
        &[0, 1, 0, 200][..],
    ] {
        let wrong = Chunk::HeartbeatAck(Heartbeat {
            parameters: Parameters::new(wrong),
        });
        scripted.give(&[wrong]);
    }
    assert_eq!(scripted.status(), before);
    let genuine = Chunk::HeartbeatAck(Heartbeat {
        parameters: Parameters::new(&genuine),
    });
    scripted.give(&[genuine]);
    assert!(scripted.status().paths[0].srtt.is_some());
    let answered = scripted.status();
    scripted.give(&[genuine]);
    assert_eq!(scripted.status(), answered, "a second answer is none");
}

#[test]
fn heartbeats_are_answered_in_four_states_only() {
    for (state, answers) in [
        (AssociationState::CookieWait, false),
        (AssociationState::Established, true),
        (AssociationState::ShutdownPending, true),
        (AssociationState::ShutdownSent, false),
        (AssociationState::ShutdownReceived, true),
        (AssociationState::ShutdownAckSent, false),
    ] {
        let mut scripted = Scripted::in_state(state);
        scripted.give_raw(HEARTBEAT);
        let packets = scripted.take();
        let answered = types(&packets).concat().contains(&ChunkType::HEARTBEAT_ACK);
        assert_eq!(answered, answers, "{state:?}");
    }
}

#[test]
fn no_heartbeats_are_sent_while_they_are_switched_off() {
    let mut scripted = Scripted::connected(quiet());
    assert!(scripted.pass(Duration::from_secs(3600)).is_empty());
}

#[test]
fn an_acknowledgement_clears_the_errors() {
    let mut scripted = Scripted::connected(quiet());
    scripted.send(0, b"hello");
    scripted.pass(Duration::from_secs(5));
    assert!(scripted.status().paths[0].error_count >= 2);
    scripted.give_sack(1, &[], 100_000);
    assert_eq!(scripted.status().paths[0].error_count, 0);
    // As many errors as before do not end the association, for the count began anew.
    for number in 1..20 {
        scripted.send(0, b"hello");
        scripted.pass(Duration::from_secs(70));
        scripted.give_sack(number + 1, &[], 100_000);
        assert_eq!(scripted.state(), AssociationState::Established);
    }
}

#[test]
fn too_many_errors_make_a_path_inactive_and_end_the_association() {
    let mut scripted = Scripted::connected(quiet());
    scripted.send(0, b"hello");
    let packets = scripted.pass(Duration::from_secs(3600));
    let config = scripted.endpoint.config().clone();
    assert_eq!(
        packets.len(),
        1 + config.association.association_max_retrans as usize
    );
    let states: Vec<_> = scripted
        .events
        .iter()
        .filter_map(|event| match event {
            Event::PathStateChanged { state, .. } => Some(*state),
            _ => None,
        })
        .collect();
    assert_eq!(states.last(), Some(&PathState::Inactive));
    assert!(matches!(
        scripted.events.last(),
        Some(Event::CommunicationLost {
            cause: LostCause::TimedOut,
            ..
        })
    ));
}

#[test]
fn an_init_with_a_tag_and_other_chunks_without_one_are_dropped() {
    let mut scripted = Scripted::accepted(quiet());
    let before = scripted.status();
    scripted.give_packet(packet(scripted.tag, &[Chunk::Init(init())]));
    scripted.give_packet(packet(7, &[Chunk::Init(init())]));
    scripted.give_packet(packet(0, &[Chunk::Data(message(0, b"hello"))]));
    let mut bundled = bytes_of(&[Chunk::Init(init())]);
    bundled.extend(bytes_of(&[Chunk::Data(message(0, b"hello"))]));
    scripted.give_packet(raw(0, &bundled));
    bundled.rotate_left(20);
    scripted.give_packet(raw(0, &bundled));
    assert!(scripted.take().is_empty());
    assert_eq!(scripted.status(), before);
    assert!(scripted.receive().is_empty());
}

#[test]
fn a_wrong_tag_is_dropped_whatever_the_packet_carries() {
    let causes = [0, 12, 0, 4];
    let mut scripted = Scripted::accepted(quiet());
    let before = scripted.status();
    let wrong = scripted.tag ^ 0x100;
    let mut abort = vec![6, 0, 0, 8];
    abort.extend(causes);
    for bytes in [
        bytes_of(&[Chunk::Data(message(0, b"hello"))]),
        bytes_of(&[Chunk::Shutdown(Shutdown {
            cumulative_tsn_ack: scripted.tsn.previous(),
        })]),
        bytes_of(&[Chunk::ShutdownAck]),
        bytes_of(&[Chunk::ShutdownComplete(ShutdownComplete {
            tag_reflected: true,
        })]),
        HEARTBEAT.to_vec(),
        abort.clone(),
        {
            abort[1] = 1;
            abort
        },
    ] {
        scripted.give_packet(raw(wrong, &bytes));
        assert!(scripted.take().is_empty());
        assert_eq!(scripted.status(), before);
    }
}

/// An ABORT that says of its packet's tag that it is reflected, where it is ours, or is malformed.
#[test]
fn a_packet_with_an_abort_that_is_not_accepted_is_dropped_as_a_whole() {
    let reflected = [6, 1, 0, 4].to_vec();
    let malformed = [6, 0, 0, 8, 0, 12, 0, 0].to_vec();
    for abort in [reflected, malformed] {
        for before in [
            HEARTBEAT.to_vec(),
            bytes_of(&[Chunk::Data(message(0, b"hello"))]),
            bytes_of(&[Chunk::Shutdown(Shutdown {
                cumulative_tsn_ack: Scripted::accepted(quiet()).tsn.previous(),
            })]),
        ] {
            let mut scripted = Scripted::accepted(quiet());
            let known = scripted.status();
            let events = scripted.events.len();
            scripted.give_raw(&[before.clone(), abort.clone()].concat());
            assert!(scripted.take().is_empty(), "{before:?}");
            assert_eq!(scripted.status(), known);
            assert_eq!(scripted.events.len(), events);
            let drops = scripted.endpoint.statistics().drops;
            assert_eq!(drops.verification_tag, 1);
        }
    }
}

/// Section 8.4: rule 2 comes before rule 4.
#[test]
fn a_cookie_echo_beside_an_abort_makes_no_association() {
    for tag_reflected in [false, true] {
        let abort = Chunk::Abort(Abort {
            tag_reflected,
            ..Abort::default()
        });
        let mut scripted = Scripted::alone(quiet());
        let cookie = scripted.cookie_for(init());
        scripted.echo(&cookie, &[abort]);
        assert!(scripted.take().is_empty());
        assert!(scripted.events.is_empty(), "{:?}", scripted.events);
        assert_eq!(scripted.endpoint.association_count(), 0);
        // Where it repeats the cookie of an association, the ABORT counts by its own rules.
        scripted.echo(&cookie, &[]);
        scripted.take();
        let repeated = [Chunk::CookieEcho(CookieEcho { cookie: &cookie }), abort];
        scripted.give(&repeated);
        assert!(scripted.take().is_empty(), "no COOKIE ACK");
        let is_up = scripted.state() == AssociationState::Established;
        assert_eq!(is_up, tag_reflected);
    }
}

#[test]
fn a_shutdown_ack_while_an_association_is_set_up_is_out_of_the_blue() {
    for state in [AssociationState::CookieWait, AssociationState::CookieEchoed] {
        for tag_of_before in [true, false] {
            let mut scripted = Scripted::in_state(state);
            let timeout = scripted.endpoint.next_timeout();
            let tag = if tag_of_before { 0xabcd } else { scripted.tag };
            scripted.give_packet(packet(tag, &[Chunk::ShutdownAck]));
            let packets = scripted.take();
            let [Chunk::ShutdownComplete(complete)] = chunks(&packets[0])[..] else {
                panic!("a SHUTDOWN COMPLETE was sent");
            };
            assert!(complete.tag_reflected);
            assert_eq!(common::tag(&packets[0]), tag);
            assert_eq!(scripted.state(), state);
            assert_eq!(scripted.endpoint.next_timeout(), timeout, "T1 goes on");
        }
    }
}

#[test]
fn a_reflected_tag_is_the_peers_own() {
    for (tag, reflected, ends) in [
        (PEER_TAG, true, true),
        (PEER_TAG, false, false),
        (PEER_TAG + 1, true, false),
    ] {
        let mut scripted = Scripted::in_state(AssociationState::ShutdownAckSent);
        let complete = Chunk::ShutdownComplete(ShutdownComplete {
            tag_reflected: reflected,
        });
        scripted.give_packet(packet(tag, &[complete]));
        let ended = scripted.state() == AssociationState::Closed;
        assert_eq!(ended, ends, "{tag:#x} {reflected}");
    }
}

/// Both sides may have chosen the same tag by chance: reflected or not is the same then.
#[test]
fn a_reflected_tag_may_be_our_own_as_well() {
    let mut scripted = Scripted::alone(quiet());
    scripted
        .endpoint
        .connect(
            scripted.now,
            crate::rfc9260::scripted::peer(),
            crate::rfc9260::scripted::PEER_PORT,
        )
        .unwrap();
    let packets = scripted.take();
    let [Chunk::Init(ours)] = chunks(&packets[0])[..] else {
        panic!("an INIT was sent");
    };
    scripted.tag = ours.initiate_tag;
    scripted.tsn = ours.initial_tsn;
    scripted.give_init_ack(sctp::packet::Init {
        initiate_tag: ours.initiate_tag,
        ..init()
    });
    scripted.take();
    scripted.give(&[Chunk::CookieAck]);
    scripted.give_shutdown();
    scripted.take();
    assert_eq!(scripted.state(), AssociationState::ShutdownAckSent);
    scripted.give(&[Chunk::ShutdownComplete(ShutdownComplete {
        tag_reflected: true,
    })]);
    assert_eq!(scripted.state(), AssociationState::Closed);
}
