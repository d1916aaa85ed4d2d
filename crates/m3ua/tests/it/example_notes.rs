//! What the notes to the examples of RFC 4666 section 5 add to them, and the same seen from the other end.

use m3ua::message::{
    DeregistrationResult, DeregistrationStatus, Message, RegistrationResult, RegistrationStatus,
    RoutingKey, Status, TrafficMode,
};
use m3ua::{Activation, AsId, AspState, Config, MemberConfig, PeerId, PeerRole, ServedBy};

use crate::common::*;
use crate::examples::{
    AS_ACTIVE, AS_INACTIVE, AS_PENDING, RC, about, active_asp, comes_up, dynamic_sgp, key,
    registered, sgp, two_and_one,
};

fn refused(local: u32) -> RegistrationResult {
    RegistrationResult {
        local_rk_identifier: local,
        status: RegistrationStatus::CANNOT_SUPPORT_UNIQUE_ROUTING,
        routing_context: 0,
    }
}

/// An ASP that registers a key for each of these destinations, and is up.
fn registering_asp(destinations: &[u32]) -> (Process, PeerId, Vec<AsId>) {
    let mut asp = Process::new(Config::default());
    let sgp = asp.peer(PeerRole::Sgp);
    let servers = destinations.iter().map(|destination| {
        let mut config = server(ServedBy::Us, RC, *destination);
        config.routing_context = None;
        let server = asp.server(config);
        let member = MemberConfig {
            activation: Activation::Immediate,
            registers: Some(key(0, *destination)),
        };
        asp.engine
            .add_member(sgp, server, member)
            .expect("a member");
        server
    });
    let servers = servers.collect();
    asp.associate(sgp);
    asp.expect(&[(sgp, up())]);
    asp.take(sgp, &up_ack());
    (asp, sgp, servers)
}

/// Note of section 5.1.1.2: the response has an unsuccessful indication, and no ASP Active follows.
#[test]
fn example_5_1_1_2_an_unsuccessful_registration() {
    let (mut sgp, asp) = dynamic_sgp();
    sgp.take(asp, &Message::RegReq(vec![key(1, 10)]));
    sgp.forget();
    // A part of the traffic of the first key.
    let mut part = key(2, 10);
    part.selections[0].service_indicators = vec![5];
    part.selections.push(key(2, 11).selections.remove(0));
    let overlapping = RoutingKey {
        selections: part.selections,
        ..key(2, 10)
    };
    sgp.take(asp, &Message::RegReq(vec![overlapping]));
    let (_, answer) = sgp.sent();
    let Message::RegRsp(results) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(results.len(), 1);
    assert_ne!(results[0].status, RegistrationStatus::REGISTERED);
    sgp.expect(&[]);

    let (mut asp, sgp, servers) = registering_asp(&[10]);
    asp.expect(&[(sgp, Message::RegReq(vec![key(1, 10)]))]);
    asp.take(sgp, &Message::RegRsp(vec![refused(1)]));
    asp.expect(&[]);
    assert_eq!(asp.engine.our_state(sgp, servers[0]), AspState::Inactive);
}

/// Note of section 5.1.1.3: the next registration need not wait for an ASP Active.
#[test]
fn example_5_1_1_3_active_after_all_registrations() {
    let (mut sgp, asp) = dynamic_sgp();
    for (local, context) in [(1, 1), (2, 2)] {
        sgp.take(asp, &Message::RegReq(vec![key(local, 10 + local)]));
        sgp.expect(&[
            (asp, Message::RegRsp(vec![registered(local, context)])),
            (asp, notify(AS_INACTIVE, &[context])),
        ]);
    }
    for context in [2, 1] {
        sgp.take(asp, &active(None, &[context]));
        sgp.expect(&[
            (asp, active_ack(None, &[context])),
            (asp, notify(AS_ACTIVE, &[context])),
        ]);
    }
}

/// Notes of section 5.1.1.4: each registration is considered by itself, and ASP Active may have several routing contexts.
#[test]
fn example_5_1_1_4_one_refused_and_two_active_at_once() {
    let (mut asp, sgp, servers) = registering_asp(&[11, 12, 13]);
    let keys = vec![key(1, 11), key(2, 12), key(3, 13)];
    asp.expect(&[(sgp, Message::RegReq(keys))]);
    let results = vec![registered(1, 51), refused(2), registered(3, 53)];
    asp.take(sgp, &Message::RegRsp(results));
    asp.expect(&[(sgp, active(None, &[51, 53]))]);
    asp.take(sgp, &active_ack(None, &[51, 53]));
    let states: Vec<AspState> = servers
        .iter()
        .map(|server| asp.engine.our_state(sgp, *server))
        .collect();
    let expected = [AspState::Active, AspState::Inactive, AspState::Active];
    assert_eq!(states, expected);

    let (mut sgp, asp) = dynamic_sgp();
    sgp.take(asp, &Message::RegReq(vec![key(1, 11), key(2, 12)]));
    sgp.forget();
    sgp.take(asp, &active(None, &[1, 2]));
    sgp.expect(&[
        (asp, active_ack(None, &[1, 2])),
        (asp, notify(AS_ACTIVE, &[1, 2])),
    ]);
}

/// Section 5.1.2 at the backup: it stays inactive, and becomes active when the AS is pending (section 5.2.1).
#[test]
fn example_5_2_1_at_the_backup() {
    let mut asp = Process::new(Config::default());
    let server = asp.server(server(ServedBy::Us, RC, 10));
    let sgp = asp.peer(PeerRole::Sgp);
    let member = MemberConfig {
        activation: Activation::Standby,
        registers: None,
    };
    asp.engine
        .add_member(sgp, server, member)
        .expect("a member");
    asp.associate(sgp);
    asp.take(sgp, &up_ack());
    asp.expect(&[(sgp, up())]);
    asp.take(sgp, &notify(AS_INACTIVE, &[RC]));
    asp.take(sgp, &notify(AS_ACTIVE, &[RC]));
    asp.expect(&[]);
    asp.take(sgp, &notify(AS_PENDING, &[RC]));
    asp.expect(&[(sgp, active(None, &[RC]))]);
    asp.take(sgp, &active_ack(None, &[RC]));
    asp.take(sgp, &notify(AS_ACTIVE, &[RC]));
    asp.expect(&[]);
    assert_eq!(asp.engine.our_state(sgp, server), AspState::Active);
}

/// Section 5.2.2 at the ASP that is overridden.
#[test]
fn example_5_2_2_at_the_asp_that_is_overridden() {
    let (mut asp, sgp, server) = active_asp();
    asp.take(sgp, &notify(Status::ALTERNATE_ASP_ACTIVE, &[RC]));
    asp.expect(&[]);
    assert_eq!(asp.engine.our_state(sgp, server), AspState::Inactive);
}

/// Note of section 5.2.3: the ASP is lost, so that there is no ASP Inactive.
#[test]
fn example_5_2_3_loss_of_the_asp() {
    let (mut sgp, [one, two, three]) = two_and_one();
    sgp.lose(one);
    let insufficient = Status::INSUFFICIENT_ASP_RESOURCES;
    sgp.expect(&[
        (two, notify(Status::ASP_FAILURE, &[RC])),
        (three, notify(insufficient, &[RC])),
        (three, notify(Status::ASP_FAILURE, &[RC])),
    ]);
    let share = Some(TrafficMode::LOADSHARE);
    sgp.take(three, &active(share, &[RC]));
    sgp.expect(&[
        (three, active_ack(share, &[RC])),
        (two, notify(AS_ACTIVE, &[RC])),
        (three, notify(AS_ACTIVE, &[RC])),
    ]);
}

/// Note of section 5.3: ASP Inactive and the deregistration may have several routing contexts.
#[test]
fn example_5_3_withdrawal_from_several() {
    let (mut sgp, asp) = dynamic_sgp();
    sgp.take(asp, &Message::RegReq(vec![key(1, 11), key(2, 12)]));
    sgp.take(asp, &active(None, &[1, 2]));
    sgp.forget();
    sgp.take(asp, &inactive(&[1, 2]));
    sgp.expect(&[
        (asp, inactive_ack(&[1, 2])),
        (asp, notify(AS_PENDING, &[1, 2])),
    ]);
    sgp.take(asp, &Message::DeregReq(vec![1, 2]));
    let results = [1, 2].map(|routing_context| DeregistrationResult {
        routing_context,
        status: DeregistrationStatus::DEREGISTERED,
    });
    sgp.expect(&[(asp, Message::DeregRsp(results.to_vec()))]);
    sgp.take(asp, &down());
    sgp.expect(&[(asp, down_ack())]);
}

/// Section 5.5.1.1.3: after a loss of connectivity an ASP asks for several destinations.
#[test]
fn example_5_5_1_1_3_several_audits() {
    let (mut asp, at_asp, _) = active_asp();
    let (mut sgp, asps) = sgp(1, 1, None);
    let at_sgp = asps[0];
    comes_up(&mut sgp, at_sgp);
    for destination in [20, 21, 22] {
        let affected = [pc(destination).into()];
        asp.engine.audit(at_asp, NETWORK, &affected);
        asp.collect();
        let daud = Message::Daud(about(&[RC], destination));
        asp.expect(&[(at_asp, daud.clone())]);
        sgp.take(at_sgp, &daud);
        // Nobody has said anything of them.
        sgp.expect(&[(at_sgp, Message::Duna(about(&[RC], destination)))]);
    }
}
