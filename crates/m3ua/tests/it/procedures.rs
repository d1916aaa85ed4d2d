//! Timers, Notify, heartbeats and the ends of associations (section 4.3).

use std::time::Duration;

use m3ua::message::{AspUp, ErrorCode, ErrorMessage, Kind, Message, Status, TrafficMode};
use m3ua::{
    Activation, AsId, AsState, AspState, Config, DropReason, ManagementIndication, MemberConfig,
    MtpIndication, PeerId, PeerRole, Route, ServedBy, SgId, Via,
};

use crate::common::*;

const RC: u32 = 100;
const SECOND: Duration = Duration::from_secs(1);

/// An ASP, its SGP and its AS, before the association.
fn asp_with(config: Config, activation: Activation) -> (Process, PeerId, AsId) {
    let mut asp = Process::new(config);
    let server = asp.server(server(ServedBy::Us, RC, 10));
    let sgp = asp.peer(PeerRole::Sgp);
    let member = MemberConfig {
        activation,
        registers: None,
    };
    asp.engine
        .add_member(sgp, server, member)
        .expect("a member");
    let route = Route {
        destination: pc(20).into(),
        via: Via::Sg(SgId(0)),
        priority: 1,
    };
    asp.engine.add_route(NETWORK, route).expect("a route");
    (asp, sgp, server)
}

fn active_asp() -> (Process, PeerId, AsId) {
    let (mut asp, sgp, server) = asp_with(Config::default(), Activation::Immediate);
    asp.associate(sgp);
    asp.take(sgp, &up_ack());
    asp.take(sgp, &active_ack(None, &[RC]));
    asp.forget();
    (asp, sgp, server)
}

fn sgp_with(config: Config, mode: TrafficMode, asps: usize) -> (Process, Vec<PeerId>, AsId) {
    let mut sgp = Process::new(config);
    let mut config = server(ServedBy::Peers, RC, 10);
    config.traffic_mode = Some(mode);
    let server = sgp.server(config);
    let peers: Vec<PeerId> = (0..asps).map(|_| sgp.peer(PeerRole::Asp)).collect();
    for peer in &peers {
        sgp.member(*peer, server);
    }
    (sgp, peers, server)
}

#[test]
fn requests_are_repeated_after_t_ack() {
    let (mut asp, sgp, _) = asp_with(Config::default(), Activation::Immediate);
    asp.associate(sgp);
    asp.expect(&[(sgp, up())]);
    asp.wait(SECOND * 2);
    asp.expect(&[(sgp, up())]);
    asp.take(sgp, &up_ack());
    asp.expect(&[(sgp, active(None, &[RC]))]);
    asp.wait(SECOND * 5);
    asp.expect(&[(sgp, active(None, &[RC])), (sgp, active(None, &[RC]))]);
    asp.take(sgp, &active_ack(None, &[RC]));
    asp.engine.asp_inactive(asp.now, None, AsId(0));
    asp.collect();
    asp.wait(SECOND * 2);
    asp.expect(&[(sgp, inactive(&[RC])), (sgp, inactive(&[RC]))]);
    asp.take(sgp, &inactive_ack(&[RC]));
    asp.engine.asp_down(asp.now, sgp);
    asp.wait(SECOND * 2);
    asp.expect(&[(sgp, down()), (sgp, down())]);
    asp.take(sgp, &down_ack());
    asp.wait(SECOND * 10);
    asp.expect(&[]);
}

/// Sections 4.3.4.1, 4.3.4.2 and 4.3.4.4: an acknowledgement that was not asked for says where we are, and we go back.
#[test]
fn unexpected_acknowledgements() {
    let (mut asp, sgp, server) = active_asp();
    asp.take(sgp, &inactive_ack(&[RC]));
    asp.expect(&[(sgp, active(None, &[RC]))]);
    asp.take(sgp, &active_ack(None, &[RC]));
    asp.take(sgp, &down_ack());
    assert_eq!(asp.engine.our_state(sgp, server), AspState::Down);
    asp.expect(&[(sgp, up())]);
    asp.take(sgp, &up_ack());
    asp.take(sgp, &active_ack(None, &[RC]));
    asp.forget();
    asp.take(sgp, &up_ack());
    assert_eq!(asp.engine.our_state(sgp, server), AspState::Inactive);
    assert_eq!(asp.sent(), (sgp, active(None, &[RC])));
    asp.expect_error(sgp, ErrorCode::UNEXPECTED_MESSAGE);
}

#[test]
fn acknowledgements_are_always_given() {
    let (mut sgp, asps, _) = sgp_with(Config::default(), TrafficMode::LOADSHARE, 1);
    let asp = asps[0];
    sgp.associate(asp);
    // ASP Down in ASP-DOWN, ASP Up in ASP-INACTIVE.
    sgp.take(asp, &down());
    sgp.expect(&[(asp, down_ack())]);
    sgp.take(asp, &up());
    sgp.forget();
    sgp.take(asp, &up());
    sgp.expect(&[(asp, up_ack())]);
    sgp.take(asp, &inactive(&[RC]));
    sgp.expect(&[(asp, inactive_ack(&[RC]))]);
    sgp.take(asp, &active(None, &[RC]));
    sgp.forget();
    sgp.take(asp, &active(None, &[RC]));
    sgp.expect(&[(asp, active_ack(None, &[RC]))]);
}

/// Figure 4, with T(r).
#[test]
fn an_as_is_pending_until_t_r() {
    let (mut sgp, asps, server) = sgp_with(Config::default(), TrafficMode::LOADSHARE, 2);
    let (one, two) = (asps[0], asps[1]);
    assert_eq!(sgp.engine.as_state(server), AsState::Down);
    sgp.associate(two);
    sgp.take(two, &up());
    assert_eq!(sgp.engine.as_state(server), AsState::Inactive);
    sgp.bring_up(one, &[RC]);
    assert_eq!(sgp.engine.as_state(server), AsState::Active);
    sgp.lose(one);
    assert_eq!(sgp.engine.as_state(server), AsState::Pending);
    sgp.engine
        .transfer(NETWORK, message(20, 10, 0, "waits"))
        .expect("pending");
    assert_eq!(sgp.engine.waiting(server), 1);
    sgp.forget();
    sgp.wait(SECOND * 2);
    sgp.expect(&[(two, notify(Status::AS_INACTIVE, &[RC]))]);
    assert_eq!(sgp.engine.as_state(server), AsState::Inactive);
    assert_eq!(sgp.engine.statistics().dropped(DropReason::Expired), 1);
    let discarded = ManagementIndication::Discarded {
        application_server: server,
        messages: 1,
    };
    assert!(sgp.management.contains(&discarded));
    // Once more, and now there is nobody left: down.
    sgp.take(two, &active(None, &[RC]));
    sgp.lose(two);
    assert_eq!(sgp.engine.as_state(server), AsState::Pending);
    sgp.wait(SECOND * 2);
    assert_eq!(sgp.engine.as_state(server), AsState::Down);
}

#[test]
fn messages_wait_for_the_next_asp() {
    let config = Config {
        max_pending_messages: 3,
        ..Config::default()
    };
    let (mut sgp, asps, _) = sgp_with(config, TrafficMode::OVERRIDE, 2);
    let (one, two) = (asps[0], asps[1]);
    sgp.bring_up(one, &[RC]);
    sgp.associate(two);
    sgp.take(two, &up());
    sgp.take(one, &inactive(&[RC]));
    sgp.forget();
    let texts = ["a", "b", "c"];
    for text in texts {
        sgp.engine
            .transfer(NETWORK, message(20, 10, 1, text))
            .expect("it waits");
    }
    let more = sgp.engine.transfer(NETWORK, message(20, 10, 1, "d"));
    assert_eq!(more, Err(m3ua::TransferError::Full));
    sgp.take(two, &active(None, &[RC]));
    let mut expected = vec![
        (two, active_ack(None, &[RC])),
        (one, notify(Status::AS_ACTIVE, &[RC])),
        (two, notify(Status::AS_ACTIVE, &[RC])),
    ];
    expected.extend(texts.map(|text| (two, data(Some(RC), message(20, 10, 1, text)))));
    sgp.expect(&expected);
    // T(r) is off.
    assert_eq!(sgp.engine.next_timeout(), None);
}

/// Section 4.3.4.3: it MUST consider itself inactive.
#[test]
fn an_asp_that_is_overridden_is_inactive() {
    let (mut asp, sgp, server) = active_asp();
    asp.take(
        sgp,
        &notify_about(Status::ALTERNATE_ASP_ACTIVE, &[RC], Some(2)),
    );
    assert_eq!(asp.engine.our_state(sgp, server), AspState::Inactive);
    // It does not take the traffic back.
    asp.wait(SECOND * 10);
    asp.expect(&[]);
    // Until there is nobody.
    asp.take(sgp, &notify(Status::AS_PENDING, &[RC]));
    asp.expect(&[(sgp, active(None, &[RC]))]);
}

#[test]
fn the_identifier_of_the_other_asp_is_told() {
    let (mut sgp, asps, _) = sgp_with(Config::default(), TrafficMode::OVERRIDE, 2);
    for (number, asp) in (1..).zip(&asps) {
        sgp.associate(*asp);
        let up = AspUp {
            asp_identifier: Some(number),
            info: None,
        };
        sgp.take(*asp, &Message::AspUp(up));
    }
    sgp.take(asps[0], &active(None, &[RC]));
    sgp.forget();
    sgp.take(asps[1], &active(None, &[RC]));
    let told = notify_about(Status::ALTERNATE_ASP_ACTIVE, &[RC], Some(2));
    sgp.expect(&[(asps[1], active_ack(None, &[RC])), (asps[0], told)]);
    sgp.lose(asps[1]);
    sgp.expect(&[
        (asps[0], notify(Status::AS_PENDING, &[RC])),
        (asps[0], notify_about(Status::ASP_FAILURE, &[RC], Some(2))),
    ]);
}

#[test]
fn a_standby_becomes_active_when_it_is_needed() {
    for status in [Status::AS_PENDING, Status::INSUFFICIENT_ASP_RESOURCES] {
        let (mut asp, sgp, _) = asp_with(Config::default(), Activation::Standby);
        asp.associate(sgp);
        asp.take(sgp, &up_ack());
        asp.take(sgp, &notify(Status::AS_ACTIVE, &[RC]));
        asp.expect(&[(sgp, up())]);
        asp.take(sgp, &notify(status, &[RC]));
        asp.expect(&[(sgp, active(None, &[RC]))]);
    }
}

/// An ASP that its management has taken out stays out, whatever the AS lacks (section 4.3.4.5).
#[test]
fn an_asp_that_was_withdrawn_stays_inactive() {
    for activation in [Activation::Immediate, Activation::Standby] {
        let (mut asp, sgp, server) = asp_with(Config::default(), activation);
        asp.associate(sgp);
        asp.take(sgp, &up_ack());
        asp.engine.asp_active(asp.now, None, server);
        asp.take(sgp, &active_ack(None, &[RC]));
        asp.engine.asp_inactive(asp.now, None, server);
        asp.take(sgp, &inactive_ack(&[RC]));
        asp.forget();
        asp.take(sgp, &notify(Status::AS_PENDING, &[RC]));
        asp.take(sgp, &notify(Status::INSUFFICIENT_ASP_RESOURCES, &[RC]));
        asp.expect(&[]);
        asp.engine.asp_active(asp.now, None, server);
        asp.collect();
        asp.expect(&[(sgp, active(None, &[RC]))]);
    }
}

#[test]
fn a_refusal_ends_a_request_or_delays_it() {
    let (mut asp, sgp, _) = asp_with(Config::default(), Activation::Immediate);
    asp.associate(sgp);
    let error = |code| Message::Error(ErrorMessage::new(code));
    // For now: after T(ack) it asks again.
    asp.take(sgp, &error(ErrorCode::MANAGEMENT_BLOCKING));
    asp.expect(&[(sgp, up())]);
    asp.wait(SECOND * 2);
    asp.expect(&[(sgp, up())]);
    asp.take(sgp, &up_ack());
    asp.forget();
    // For good.
    asp.take(sgp, &error(ErrorCode::NO_CONFIGURED_AS));
    asp.wait(SECOND * 10);
    asp.expect(&[]);
    let code = ErrorCode::NO_CONFIGURED_AS;
    assert_eq!(
        asp.management,
        [ManagementIndication::PeerError { peer: sgp, code }]
    );
}

/// Section 4.3.3: all is down, and the user is told.
#[test]
fn the_end_of_an_association_pauses_the_user() {
    let (mut asp, sgp, server) = active_asp();
    asp.lose(sgp);
    assert_eq!(asp.engine.our_state(sgp, server), AspState::Down);
    let affected = vec![pc(20).into()];
    let pause = MtpIndication::Pause {
        network: NETWORK,
        affected: affected.clone(),
    };
    assert_eq!(asp.primitives, [pause]);
    assert!(
        asp.engine
            .transfer(NETWORK, message(10, 20, 0, ""))
            .is_err()
    );
    asp.forget();
    asp.associate(sgp);
    asp.take(sgp, &up_ack());
    asp.take(sgp, &active_ack(None, &[RC]));
    asp.expect(&[(sgp, up()), (sgp, active(None, &[RC]))]);
    let resume = MtpIndication::Resume {
        network: NETWORK,
        affected,
    };
    assert_eq!(asp.primitives, [resume]);
}

#[test]
fn a_restart_begins_with_asp_up() {
    let (mut asp, sgp, _) = active_asp();
    asp.engine.association_restarted(asp.now, sgp, 17);
    asp.collect();
    asp.expect(&[(sgp, up())]);
    assert!(
        asp.management
            .contains(&ManagementIndication::Restarted(sgp))
    );
    assert!(matches!(asp.primitives[..], [MtpIndication::Pause { .. }]));
    let (mut sgp, asps, server) = sgp_with(Config::default(), TrafficMode::LOADSHARE, 1);
    sgp.bring_up(asps[0], &[RC]);
    sgp.engine.association_restarted(sgp.now, asps[0], 17);
    assert_eq!(sgp.engine.asp_state(asps[0], server), AspState::Down);
    assert_eq!(sgp.engine.as_state(server), AsState::Pending);
}

#[test]
fn heartbeats_find_a_silent_peer() {
    let config = Config {
        t_beat: Some(SECOND),
        ..Config::default()
    };
    let (mut sgp, asps, server) = sgp_with(config, TrafficMode::LOADSHARE, 1);
    let asp = asps[0];
    sgp.bring_up(asp, &[RC]);
    sgp.wait(SECOND);
    let (_, Message::Beat(beat)) = sgp.sent() else {
        panic!("BEAT");
    };
    sgp.take(asp, &Message::BeatAck(beat));
    sgp.wait(SECOND);
    assert!(matches!(sgp.sent(), (_, Message::Beat(_))));
    sgp.wait(SECOND);
    assert_eq!(sgp.aborted, [asp]);
    assert_eq!(sgp.engine.asp_state(asp, server), AspState::Down);
    // No more of them.
    sgp.forget();
    sgp.wait(SECOND * 10);
    sgp.expect(&[]);
}

#[test]
fn a_heartbeat_is_answered_unchanged_in_any_state() {
    let (mut sgp, asps, _) = sgp_with(Config::default(), TrafficMode::LOADSHARE, 1);
    sgp.associate(asps[0]);
    for data in [Some("now".into()), None] {
        sgp.take_on(asps[0], 4, &Message::Beat(data.clone()));
        sgp.expect(&[(asps[0], Message::BeatAck(data))]);
    }
}

#[test]
fn congestion_of_an_association_is_told_to_the_user() {
    let (mut asp, sgp, _) = active_asp();
    asp.engine.association_congested(sgp, true);
    asp.engine.association_congested(sgp, false);
    asp.collect();
    let told = asp.primitives.iter().map(|it| match it {
        MtpIndication::Status {
            affected, status, ..
        } => (affected[0].point_code, *status),
        other => panic!("{other:?}"),
    });
    let levels: Vec<_> = told.collect();
    let congestion = m3ua::MtpStatus::Congestion;
    assert_eq!(
        levels,
        [(pc(20), congestion(None)), (pc(20), congestion(Some(0)))]
    );
}

/// A link that is lost is congested no longer; one that shares its way with another is, as long as that is.
#[test]
fn congestion_ends_with_the_last_congested_link() {
    let (mut asp, sgp, server) = active_asp();
    let backup = asp.peer(PeerRole::Sgp);
    asp.member(backup, server);
    let told = |asp: &mut Process| {
        asp.collect();
        let levels = asp.primitives.drain(..).filter_map(|it| match it {
            MtpIndication::Status {
                status: m3ua::MtpStatus::Congestion(level),
                ..
            } => Some(level),
            _ => None,
        });
        levels.collect::<Vec<_>>()
    };
    asp.engine.association_congested(sgp, true);
    asp.engine.association_congested(sgp, true);
    assert_eq!(told(&mut asp), [None]);
    asp.engine.association_down(asp.now, sgp);
    assert_eq!(told(&mut asp), [Some(0)]);
    asp.engine.association_congested(sgp, false);
    assert_eq!(told(&mut asp), []);

    let (mut sgp, asps, _) = sgp_with(Config::default(), TrafficMode::LOADSHARE, 2);
    for asp in &asps {
        sgp.bring_up(*asp, &[RC]);
    }
    for asp in &asps {
        sgp.engine.association_congested(*asp, true);
    }
    assert_eq!(told(&mut sgp), [None, None]);
    sgp.engine.association_down(sgp.now, asps[0]);
    assert_eq!(told(&mut sgp), []);
    sgp.engine.association_congested(asps[1], false);
    assert_eq!(told(&mut sgp), [Some(0)]);
}

/// Section 1.4.7: DATA needs a stream besides 0.
#[test]
fn an_association_with_one_stream_carries_no_data() {
    let (mut sgp, asps, _) = sgp_with(Config::default(), TrafficMode::LOADSHARE, 1);
    sgp.engine.association_up(sgp.now, asps[0], 1);
    sgp.collect();
    assert_eq!(
        sgp.management,
        [ManagementIndication::NoDataStream(asps[0])]
    );
    sgp.take(asps[0], &up());
    sgp.take(asps[0], &active(None, &[RC]));
    sgp.forget();
    sgp.engine
        .transfer(NETWORK, message(20, 10, 0, ""))
        .expect("active");
    sgp.collect();
    sgp.expect(&[]);
    let dropped = sgp.engine.statistics().dropped(DropReason::NoStream);
    assert_eq!(dropped, 1);
}

/// Section 3.8.1: DATA for an ASP that is not active is dropped without a word.
#[test]
fn data_in_asp_inactive_is_dropped() {
    let (mut asp, sgp, server) = active_asp();
    asp.engine.asp_inactive(asp.now, None, server);
    asp.take(sgp, &inactive_ack(&[RC]));
    asp.forget();
    asp.take(sgp, &data(Some(RC), message(20, 10, 0, "")));
    asp.expect(&[]);
    assert_eq!(asp.primitives, []);
    let dropped = asp.engine.statistics().dropped(DropReason::NotActive);
    assert_eq!(dropped, 1);
    assert_eq!(asp.engine.statistics().received(Kind::Data), 1);
}
