//! The examples of RFC 4666 section 5, message by message.

use m3ua::message::{
    DeregistrationResult, DeregistrationStatus, Destinations, Message, RegistrationResult,
    RegistrationStatus, RoutingKey, ServiceIndicator, SignallingCongestion, Status, TrafficMode,
    TrafficSelection, UnavailabilityCause, UserPartUnavailable,
};
use m3ua::{
    Activation, AsId, AspState, Availability, Config, MaskedPointCode, MemberConfig, MtpIndication,
    MtpStatus, PeerId, PeerRole, Registration, ServedBy,
};

use crate::common::*;

pub(crate) const RC: u32 = 100;
pub(crate) const AS_INACTIVE: Status = Status::AS_INACTIVE;
pub(crate) const AS_ACTIVE: Status = Status::AS_ACTIVE;
pub(crate) const AS_PENDING: Status = Status::AS_PENDING;

/// An SGP with an AS and so many ASPs, of which `required` must be active. They are associated.
pub(crate) fn sgp(
    asps: usize,
    required: usize,
    mode: Option<TrafficMode>,
) -> (Process, Vec<PeerId>) {
    let mut sgp = Process::new(Config::default());
    let mut config = server(ServedBy::Peers, RC, 10);
    config.required_asps = required;
    config.traffic_mode = mode;
    let server = sgp.server(config);
    let peers: Vec<PeerId> = (0..asps).map(|_| sgp.peer(PeerRole::Asp)).collect();
    for peer in &peers {
        sgp.member(*peer, server);
        sgp.associate(*peer);
    }
    sgp.expect(&[]);
    (sgp, peers)
}

pub(crate) fn comes_up(sgp: &mut Process, asp: PeerId) {
    sgp.take(asp, &up());
    sgp.expect(&[(asp, up_ack()), (asp, notify(AS_INACTIVE, &[RC]))]);
}

#[test]
fn example_5_1_1_1_a_single_asp() {
    let (mut sgp, asps) = sgp(1, 1, None);
    let asp = asps[0];
    comes_up(&mut sgp, asp);
    sgp.take(asp, &active(None, &[RC]));
    sgp.expect(&[
        (asp, active_ack(None, &[RC])),
        (asp, notify(AS_ACTIVE, &[RC])),
    ]);
}

/// The same seen from the ASP.
#[test]
fn example_5_1_1_1_at_the_asp() {
    let mut asp = Process::new(Config::default());
    let server = asp.server(server(ServedBy::Us, RC, 10));
    let sgp = asp.peer(PeerRole::Sgp);
    asp.member(sgp, server);
    asp.associate(sgp);
    asp.expect(&[(sgp, up())]);
    asp.take(sgp, &up_ack());
    asp.expect(&[(sgp, active(None, &[RC]))]);
    asp.take(sgp, &notify(AS_INACTIVE, &[RC]));
    asp.expect(&[]);
    asp.take(sgp, &active_ack(None, &[RC]));
    asp.take(sgp, &notify(AS_ACTIVE, &[RC]));
    asp.expect(&[]);
    assert_eq!(asp.engine.our_state(sgp, server), AspState::Active);
}

pub(crate) fn key(local: u32, dpc: u32) -> RoutingKey {
    RoutingKey {
        local_rk_identifier: local,
        routing_context: None,
        traffic_mode: None,
        network_appearance: None,
        selections: vec![TrafficSelection {
            dpc: pc(dpc).into(),
            service_indicators: vec![],
            opcs: vec![],
        }],
        unsupported_parameter: None,
    }
}

pub(crate) fn registered(local: u32, context: u32) -> RegistrationResult {
    RegistrationResult {
        local_rk_identifier: local,
        status: RegistrationStatus::REGISTERED,
        routing_context: context,
    }
}

pub(crate) fn dynamic_sgp() -> (Process, PeerId) {
    let mut sgp = Process::new(Config {
        registration: Registration::Dynamic,
        ..Config::default()
    });
    let asp = sgp.peer(PeerRole::Asp);
    sgp.associate(asp);
    sgp.take(asp, &up());
    sgp.expect(&[(asp, up_ack())]);
    (sgp, asp)
}

#[test]
fn example_5_1_1_2_dynamic_registration() {
    let (mut sgp, asp) = dynamic_sgp();
    sgp.take(asp, &Message::RegReq(vec![key(7, 10)]));
    sgp.expect(&[
        (asp, Message::RegRsp(vec![registered(7, 1)])),
        (asp, notify(AS_INACTIVE, &[1])),
    ]);
    sgp.take(asp, &active(None, &[1]));
    sgp.expect(&[
        (asp, active_ack(None, &[1])),
        (asp, notify(AS_ACTIVE, &[1])),
    ]);
}

/// The same seen from the ASP.
#[test]
fn example_5_1_1_2_at_the_asp() {
    let mut asp = Process::new(Config::default());
    let mut config = server(ServedBy::Us, RC, 10);
    config.routing_context = None;
    let server = asp.server(config);
    let sgp = asp.peer(PeerRole::Sgp);
    let member = MemberConfig {
        activation: Activation::Immediate,
        registers: Some(key(0, 10)),
    };
    asp.engine
        .add_member(sgp, server, member)
        .expect("a member");
    asp.associate(sgp);
    asp.take(sgp, &up_ack());
    asp.expect(&[(sgp, up()), (sgp, Message::RegReq(vec![key(1, 10)]))]);
    asp.take(sgp, &Message::RegRsp(vec![registered(1, 55)]));
    asp.expect(&[(sgp, active(None, &[55]))]);
    asp.take(sgp, &active_ack(None, &[55]));
    assert_eq!(asp.engine.our_state(sgp, server), AspState::Active);
    // Section 5.3: normal withdrawal.
    asp.engine.asp_down(asp.now, sgp);
    asp.collect();
    asp.expect(&[(sgp, inactive(&[55]))]);
    asp.take(sgp, &inactive_ack(&[55]));
    asp.expect(&[(sgp, Message::DeregReq(vec![55]))]);
    let result = DeregistrationResult {
        routing_context: 55,
        status: DeregistrationStatus::DEREGISTERED,
    };
    asp.take(sgp, &Message::DeregRsp(vec![result]));
    asp.expect(&[(sgp, down())]);
    asp.take(sgp, &down_ack());
    asp.expect(&[]);
    assert_eq!(asp.engine.our_state(sgp, server), AspState::Down);
}

#[test]
fn example_5_1_1_3_registrations_one_by_one() {
    let (mut sgp, asp) = dynamic_sgp();
    for (local, context) in [(1, 1), (2, 2)] {
        sgp.take(asp, &Message::RegReq(vec![key(local, 10 + local)]));
        sgp.expect(&[
            (asp, Message::RegRsp(vec![registered(local, context)])),
            (asp, notify(AS_INACTIVE, &[context])),
        ]);
        sgp.take(asp, &active(None, &[context]));
        sgp.expect(&[
            (asp, active_ack(None, &[context])),
            (asp, notify(AS_ACTIVE, &[context])),
        ]);
    }
}

#[test]
fn example_5_1_1_4_registrations_at_once() {
    let (mut sgp, asp) = dynamic_sgp();
    sgp.take(asp, &Message::RegReq(vec![key(1, 11), key(2, 12)]));
    sgp.expect(&[
        (
            asp,
            Message::RegRsp(vec![registered(1, 1), registered(2, 2)]),
        ),
        (asp, notify(AS_INACTIVE, &[1, 2])),
    ]);
    for context in [1, 2] {
        sgp.take(asp, &active(None, &[context]));
        sgp.expect(&[
            (asp, active_ack(None, &[context])),
            (asp, notify(AS_ACTIVE, &[context])),
        ]);
    }
}

/// Two ASPs, of which the first is active.
pub(crate) fn one_and_one(mode: Option<TrafficMode>) -> (Process, PeerId, PeerId) {
    let (mut sgp, asps) = sgp(2, 1, mode);
    let (one, two) = (asps[0], asps[1]);
    comes_up(&mut sgp, one);
    comes_up(&mut sgp, two);
    sgp.take(one, &active(None, &[RC]));
    sgp.expect(&[
        (one, active_ack(None, &[RC])),
        (one, notify(AS_ACTIVE, &[RC])),
        (two, notify(AS_ACTIVE, &[RC])),
    ]);
    (sgp, one, two)
}

#[test]
fn example_5_1_2_one_and_a_backup() {
    for mode in [
        None,
        Some(TrafficMode::OVERRIDE),
        Some(TrafficMode::LOADSHARE),
        Some(TrafficMode::BROADCAST),
    ] {
        one_and_one(mode);
    }
}

#[test]
fn example_5_1_3_two_share_the_load() {
    let (mut sgp, asps) = sgp(2, 1, None);
    let (one, two) = (asps[0], asps[1]);
    comes_up(&mut sgp, one);
    comes_up(&mut sgp, two);
    let share = Some(TrafficMode::LOADSHARE);
    sgp.take(one, &active(share, &[RC]));
    sgp.expect(&[
        (one, active_ack(share, &[RC])),
        (one, notify(AS_ACTIVE, &[RC])),
        (two, notify(AS_ACTIVE, &[RC])),
    ]);
    sgp.take(two, &active(share, &[RC]));
    sgp.expect(&[(two, active_ack(share, &[RC]))]);
}

/// Three ASPs, two of which are required and active.
pub(crate) fn two_and_one() -> (Process, [PeerId; 3]) {
    let (mut sgp, asps) = sgp(3, 2, None);
    let [one, two, three] = asps[..] else {
        panic!("three");
    };
    for asp in [one, two, three] {
        comes_up(&mut sgp, asp);
    }
    let share = Some(TrafficMode::LOADSHARE);
    sgp.take(one, &active(share, &[RC]));
    sgp.expect(&[(one, active_ack(share, &[RC]))]);
    sgp.take(two, &active(share, &[RC]));
    sgp.expect(&[
        (two, active_ack(share, &[RC])),
        (one, notify(AS_ACTIVE, &[RC])),
        (two, notify(AS_ACTIVE, &[RC])),
        (three, notify(AS_ACTIVE, &[RC])),
    ]);
    (sgp, [one, two, three])
}

#[test]
fn example_5_1_4_two_of_three_are_required() {
    two_and_one();
}

#[test]
fn example_5_2_1_withdrawal_and_backup() {
    let (mut sgp, one, two) = one_and_one(Some(TrafficMode::OVERRIDE));
    sgp.take(one, &inactive(&[]));
    sgp.expect(&[
        (one, inactive_ack(&[])),
        (one, notify(AS_PENDING, &[RC])),
        (two, notify(AS_PENDING, &[RC])),
    ]);
    sgp.take(two, &active(None, &[RC]));
    sgp.expect(&[
        (two, active_ack(None, &[RC])),
        (one, notify(AS_ACTIVE, &[RC])),
        (two, notify(AS_ACTIVE, &[RC])),
    ]);
}

/// The note of section 5.2.1: the ASP is lost, so that there is no ASP Inactive.
#[test]
fn example_5_2_1_loss_of_the_asp() {
    let (mut sgp, one, two) = one_and_one(Some(TrafficMode::OVERRIDE));
    sgp.lose(one);
    sgp.expect(&[
        (two, notify(AS_PENDING, &[RC])),
        (two, notify(Status::ASP_FAILURE, &[RC])),
    ]);
}

#[test]
fn example_5_2_2_the_backup_overrides() {
    let (mut sgp, one, two) = one_and_one(Some(TrafficMode::OVERRIDE));
    sgp.take(two, &active(None, &[RC]));
    sgp.expect(&[
        (two, active_ack(None, &[RC])),
        (one, notify(Status::ALTERNATE_ASP_ACTIVE, &[RC])),
    ]);
}

#[test]
fn example_5_2_3_too_few_and_enough_again() {
    let (mut sgp, [one, two, three]) = two_and_one();
    let insufficient = Status::INSUFFICIENT_ASP_RESOURCES;
    sgp.take(one, &inactive(&[RC]));
    sgp.expect(&[
        (one, inactive_ack(&[RC])),
        (one, notify(insufficient, &[RC])),
        (three, notify(insufficient, &[RC])),
    ]);
    let share = Some(TrafficMode::LOADSHARE);
    sgp.take(three, &active(share, &[RC]));
    sgp.expect(&[
        (three, active_ack(share, &[RC])),
        (one, notify(AS_ACTIVE, &[RC])),
        (two, notify(AS_ACTIVE, &[RC])),
        (three, notify(AS_ACTIVE, &[RC])),
    ]);
}

#[test]
fn example_5_3_normal_withdrawal() {
    let (mut sgp, asp) = dynamic_sgp();
    sgp.take(asp, &Message::RegReq(vec![key(7, 10)]));
    sgp.take(asp, &active(None, &[1]));
    sgp.forget();
    sgp.take(asp, &inactive(&[1]));
    sgp.expect(&[(asp, inactive_ack(&[1])), (asp, notify(AS_PENDING, &[1]))]);
    sgp.take(asp, &Message::DeregReq(vec![1]));
    let result = DeregistrationResult {
        routing_context: 1,
        status: DeregistrationStatus::DEREGISTERED,
    };
    sgp.expect(&[(asp, Message::DeregRsp(vec![result]))]);
    // Nobody else had registered it, so that it is gone.
    assert_eq!(sgp.engine.application_servers().count(), 0);
    sgp.take(asp, &down());
    sgp.expect(&[(asp, down_ack())]);
}

pub(crate) fn about(context: &[u32], destination: u32) -> Destinations {
    Destinations {
        network_appearance: None,
        routing_contexts: context.to_vec(),
        affected: vec![pc(destination).into()],
        info: None,
    }
}

fn congestion(context: &[u32], destination: u32, level: u8) -> Message {
    Message::Scon(SignallingCongestion {
        destinations: about(context, destination),
        concerned: None,
        level: Some(level),
    })
}

#[test]
fn example_5_4_audits() {
    let (mut sgp, asps) = sgp(1, 1, None);
    let asp = asps[0];
    sgp.take(asp, &up());
    sgp.forget();
    let destination = |value: u32| [MaskedPointCode::single(pc(value))];
    let available = Availability::Available;
    for value in [20, 21, 22] {
        sgp.engine
            .set_availability(NETWORK, &destination(value), available);
    }
    sgp.engine
        .set_congestion(NETWORK, &destination(20), Some(0));
    sgp.engine
        .set_congestion(NETWORK, &destination(21), Some(2));
    let unavailable = Availability::Unavailable;
    sgp.engine
        .set_availability(NETWORK, &destination(23), unavailable);
    let dava = |value| Message::Dava(about(&[RC], value));
    let duna = |value| Message::Duna(about(&[RC], value));
    for (value, answers) in [
        // 5.4.1: uncongested and available.
        (20, vec![congestion(&[RC], 20, 0), dava(20)]),
        // 5.4.2: congested.
        (21, vec![congestion(&[RC], 21, 2), dava(21)]),
        // 5.4.3: the congestion is not known.
        (22, vec![dava(22)]),
        // 5.4.4: unavailable; and a point code that nobody knows.
        (23, vec![duna(23)]),
        (24, vec![duna(24)]),
    ] {
        sgp.take(asp, &Message::Daud(about(&[RC], value)));
        let answers: Vec<_> = answers.into_iter().map(|answer| (asp, answer)).collect();
        sgp.expect(&answers);
    }
}

/// An ASP that is active at an SGP, with messages from the SGP on their way to the user.
pub(crate) fn active_asp() -> (Process, PeerId, AsId) {
    let mut asp = Process::new(Config::default());
    let server = asp.server(server(ServedBy::Us, RC, 10));
    let sgp = asp.peer(PeerRole::Sgp);
    asp.member(sgp, server);
    let everywhere = MaskedPointCode {
        mask: 24,
        point_code: pc(0),
    };
    let route = m3ua::Route {
        destination: everywhere,
        via: m3ua::Via::Sg(m3ua::SgId(0)),
        priority: 1,
    };
    asp.engine.add_route(NETWORK, route).expect("a route");
    asp.associate(sgp);
    asp.take(sgp, &up_ack());
    asp.take(sgp, &active_ack(None, &[RC]));
    asp.forget();
    (asp, sgp, server)
}

#[test]
fn example_5_5_1_primitives_at_an_asp() {
    let (mut asp, sgp, _) = active_asp();
    let request = message(10, 20, 3, "to the network");
    asp.engine
        .transfer(NETWORK, request.clone())
        .expect("a route");
    asp.collect();
    asp.expect(&[(sgp, data(Some(RC), request))]);
    let indication = message(20, 10, 3, "from the network");
    asp.take(sgp, &data(Some(RC), indication.clone()));
    let expected = MtpIndication::Transfer {
        peer: sgp,
        network: NETWORK,
        message: indication,
        correlation_id: None,
    };
    assert_eq!(asp.primitives, [expected]);
    asp.engine.audit(sgp, NETWORK, &[pc(20).into()]);
    asp.collect();
    asp.expect(&[(sgp, Message::Daud(about(&[RC], 20)))]);
}

#[test]
fn example_5_5_2_primitives_at_an_sgp() {
    let (mut sgp, asps) = sgp(1, 1, None);
    let asp = asps[0];
    sgp.bring_up(asp, &[RC]);
    let request = message(10, 20, 3, "to the network");
    sgp.take(asp, &data(Some(RC), request.clone()));
    let [MtpIndication::Transfer { message: got, .. }] = &sgp.primitives[..] else {
        panic!("{:?}", sgp.primitives);
    };
    assert_eq!(*got, request);
    let indication = message(20, 10, 3, "from the network");
    sgp.engine
        .transfer(NETWORK, indication.clone())
        .expect("an AS");
    sgp.collect();
    sgp.expect(&[(asp, data(Some(RC), indication))]);
}

#[test]
fn example_5_5_2_3_states_of_destinations() {
    let (mut sgp, asps) = sgp(1, 1, None);
    let at_sgp = asps[0];
    sgp.bring_up(at_sgp, &[RC]);
    let (mut asp, at_asp, _) = active_asp();
    let destination = [MaskedPointCode::single(pc(20))];
    let affected = destination.to_vec();

    sgp.engine
        .set_availability(NETWORK, &destination, Availability::Unavailable);
    sgp.collect();
    let (_, duna) = sgp.sent();
    assert_eq!(duna, Message::Duna(about(&[RC], 20)));
    asp.take(at_asp, &duna);
    sgp.engine
        .set_availability(NETWORK, &destination, Availability::Available);
    sgp.collect();
    let (_, dava) = sgp.sent();
    assert_eq!(dava, Message::Dava(about(&[RC], 20)));
    asp.take(at_asp, &dava);
    sgp.engine.set_congestion(NETWORK, &destination, Some(2));
    sgp.collect();
    let (_, scon) = sgp.sent();
    assert_eq!(scon, congestion(&[RC], 20, 2));
    asp.take(at_asp, &scon);
    let (user, cause) = (ServiceIndicator::ISUP, UnavailabilityCause::UNEQUIPPED);
    sgp.engine
        .user_part_unavailable(NETWORK, pc(20), user, cause);
    sgp.collect();
    let (_, dupu) = sgp.sent();
    let expected = UserPartUnavailable {
        network_appearance: None,
        routing_contexts: vec![RC],
        affected: pc(20),
        user,
        cause,
        info: None,
    };
    assert_eq!(dupu, Message::Dupu(expected));
    asp.take(at_asp, &dupu);
    let network = NETWORK;
    let status = |status| MtpIndication::Status {
        network,
        affected: affected.clone(),
        status,
    };
    let expected = [
        MtpIndication::Pause {
            network,
            affected: affected.clone(),
        },
        MtpIndication::Resume {
            network,
            affected: affected.clone(),
        },
        status(MtpStatus::Congestion(Some(2))),
        status(MtpStatus::UserPartUnavailable { user, cause }),
    ];
    assert_eq!(asp.primitives, expected);
}

/// Two IPSPs; each has the other as its only peer.
fn ipsps(role: PeerRole, comes_up: [bool; 2]) -> [Process; 2] {
    comes_up.map(|comes_up| {
        let mut ipsp = Process::new(Config::default());
        let config = m3ua::PeerConfig {
            name: "the other".to_owned(),
            role,
            network: NETWORK,
            asp_identifier: None,
            comes_up,
        };
        ipsp.engine.add_peer(config, None).expect("a peer");
        ipsp
    })
}

const OTHER: PeerId = PeerId(0);

/// Hands over the next message, which is to be this one.
#[track_caller]
fn pass(from: &mut Process, to: &mut Process, expected: &Message) {
    let (_, stream, message) = from.sent_on();
    assert_eq!(message, *expected);
    to.take_on(OTHER, stream, &message);
}

#[test]
fn example_5_6_1_single_exchange() {
    let [mut a, mut b] = ipsps(PeerRole::IpspSingleExchange, [true, false]);
    let manual = || MemberConfig {
        activation: Activation::Manual,
        registers: None,
    };
    let mut servers = Vec::new();
    for ipsp in [&mut a, &mut b] {
        let mut config = server(ServedBy::Both, RC, 1);
        config
            .routing_key
            .push(MaskedPointCode::single(pc(2)).into());
        let server = ipsp.server(config);
        ipsp.engine
            .add_member(OTHER, server, manual())
            .expect("a member");
        servers.push(server);
    }
    let server = servers[0];
    a.associate(OTHER);
    b.associate(OTHER);
    pass(&mut a, &mut b, &up());
    pass(&mut b, &mut a, &up_ack());
    // The example leaves out Notify, which works as between SG and AS (section 4.3.4.5.1).
    pass(&mut b, &mut a, &notify(AS_INACTIVE, &[RC]));
    pass(&mut a, &mut b, &notify(AS_INACTIVE, &[RC]));
    b.engine.asp_active(b.now, Some(OTHER), server);
    b.collect();
    pass(&mut b, &mut a, &active(None, &[RC]));
    pass(&mut a, &mut b, &active_ack(None, &[RC]));
    pass(&mut a, &mut b, &notify(AS_ACTIVE, &[RC]));
    pass(&mut b, &mut a, &notify(AS_ACTIVE, &[RC]));
    for ipsp in [&a, &b] {
        assert_eq!(ipsp.engine.our_state(OTHER, server), AspState::Active);
        assert_eq!(ipsp.engine.asp_state(OTHER, server), AspState::Active);
    }
    // DATA in both directions.
    let there = message(1, 2, 0, "there");
    a.engine.transfer(NETWORK, there.clone()).expect("active");
    a.collect();
    pass(&mut a, &mut b, &data(Some(RC), there));
    let back = message(2, 1, 0, "back");
    b.engine.transfer(NETWORK, back.clone()).expect("active");
    b.collect();
    pass(&mut b, &mut a, &data(Some(RC), back));
    assert_eq!((transfers(&a), transfers(&b)), (1, 1));
    b.engine.asp_inactive(b.now, Some(OTHER), server);
    b.collect();
    pass(&mut b, &mut a, &inactive(&[RC]));
    pass(&mut a, &mut b, &inactive_ack(&[RC]));
    a.forget();
    b.forget();
    b.engine.asp_down(b.now, OTHER);
    b.collect();
    pass(&mut b, &mut a, &down());
    pass(&mut a, &mut b, &down_ack());
    for ipsp in [&mut a, &mut b] {
        assert_eq!(ipsp.engine.our_state(OTHER, server), AspState::Down);
        assert_eq!(ipsp.engine.asp_state(OTHER, server), AspState::Down);
        ipsp.expect(&[]);
    }
}

fn transfers(process: &Process) -> usize {
    let transfers = process.primitives.iter();
    transfers
        .filter(|it| matches!(it, MtpIndication::Transfer { .. }))
        .count()
}

#[test]
fn example_5_6_2_double_exchange() {
    let [mut a, mut b] = ipsps(PeerRole::IpspDoubleExchange, [true, true]);
    // Traffic of RCa goes to A, which serves it; traffic of RCb to B.
    let (rc_a, rc_b) = (1, 2);
    let mut ids = Vec::new();
    for (ipsp, own, others) in [(&mut a, rc_a, rc_b), (&mut b, rc_b, rc_a)] {
        let own = ipsp.server(server(ServedBy::Us, own, own));
        let others = ipsp.server(server(ServedBy::Peers, others, others));
        ipsp.member(OTHER, own);
        ipsp.member(OTHER, others);
        ids.push((own, others));
    }
    b.associate(OTHER);
    a.engine.association_up(a.now, OTHER, 17);
    pass(&mut b, &mut a, &up());
    // A's own ASP Up was first in line.
    pass(&mut a, &mut b, &up());
    pass(&mut a, &mut b, &up_ack());
    pass(&mut a, &mut b, &notify(AS_INACTIVE, &[rc_b]));
    pass(&mut b, &mut a, &up_ack());
    pass(&mut b, &mut a, &notify(AS_INACTIVE, &[rc_a]));
    pass(&mut b, &mut a, &active(None, &[rc_b]));
    pass(&mut a, &mut b, &active(None, &[rc_a]));
    pass(&mut a, &mut b, &active_ack(None, &[rc_b]));
    pass(&mut a, &mut b, &notify(AS_ACTIVE, &[rc_b]));
    pass(&mut b, &mut a, &active_ack(None, &[rc_a]));
    pass(&mut b, &mut a, &notify(AS_ACTIVE, &[rc_a]));
    let there = message(rc_a, rc_b, 0, "there");
    a.engine.transfer(NETWORK, there.clone()).expect("active");
    a.collect();
    pass(&mut a, &mut b, &data(Some(rc_b), there));
    let back = message(rc_b, rc_a, 0, "back");
    b.engine.transfer(NETWORK, back.clone()).expect("active");
    b.collect();
    pass(&mut b, &mut a, &data(Some(rc_a), back));
    assert_eq!((transfers(&a), transfers(&b)), (1, 1));
    // One direction ends, the other stays.
    b.engine.asp_inactive(b.now, Some(OTHER), ids[1].0);
    b.collect();
    pass(&mut b, &mut a, &inactive(&[rc_b]));
    pass(&mut a, &mut b, &inactive_ack(&[rc_b]));
    assert_eq!(a.engine.our_state(OTHER, ids[0].0), AspState::Active);
    assert_eq!(a.engine.asp_state(OTHER, ids[0].1), AspState::Inactive);
    // The other one ends, too, and both go down.
    a.engine.asp_inactive(a.now, Some(OTHER), ids[0].0);
    a.collect();
    let pending = |context| notify(AS_PENDING, &[context]);
    pass(&mut a, &mut b, &pending(rc_b));
    pass(&mut a, &mut b, &inactive(&[rc_a]));
    pass(&mut b, &mut a, &inactive_ack(&[rc_a]));
    pass(&mut b, &mut a, &pending(rc_a));
    b.engine.asp_down(b.now, OTHER);
    b.collect();
    pass(&mut b, &mut a, &down());
    pass(&mut a, &mut b, &down_ack());
    a.engine.asp_down(a.now, OTHER);
    a.collect();
    pass(&mut a, &mut b, &down());
    pass(&mut b, &mut a, &down_ack());
    for (ipsp, (own, others)) in [&mut a, &mut b].into_iter().zip(ids) {
        assert_eq!(ipsp.engine.our_state(OTHER, own), AspState::Down);
        assert_eq!(ipsp.engine.asp_state(OTHER, others), AspState::Down);
        ipsp.expect(&[]);
    }
}
