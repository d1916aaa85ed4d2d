//! Routing key management (section 4.4): each result of a registration and of a deregistration.

use std::collections::BTreeSet;

use m3ua::message::{
    DeregistrationResult, DeregistrationStatus, Message, RegistrationResult, RegistrationStatus,
    RoutingKey, TrafficMode, TrafficSelection,
};
use m3ua::{AspState, Config, MtpIndication, PeerId, PeerRole, Registration, ServedBy};

use crate::common::*;

const RC: u32 = 100;

/// An SGP with the AS of RC and destination 10, and an ASP that is up and belongs to none.
fn sgp_with(config: Config) -> (Process, PeerId) {
    let mut sgp = Process::new(config);
    sgp.server(server(ServedBy::Peers, RC, 10));
    let asp = sgp.peer(PeerRole::Asp);
    sgp.associate(asp);
    sgp.take(asp, &up());
    sgp.forget();
    (sgp, asp)
}

fn sgp(registration: Registration) -> (Process, PeerId) {
    sgp_with(Config {
        registration,
        ..Config::default()
    })
}

fn key(dpc: u32) -> RoutingKey {
    RoutingKey {
        local_rk_identifier: 9,
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

/// The status and routing context that a registration is answered with.
fn register(sgp: &mut Process, asp: PeerId, key: RoutingKey) -> (RegistrationStatus, u32) {
    sgp.take(asp, &Message::RegReq(vec![key]));
    let (to, Message::RegRsp(results)) = sgp.sent() else {
        panic!("REG RSP");
    };
    sgp.forget();
    let [
        RegistrationResult {
            local_rk_identifier: 9,
            status,
            routing_context,
        },
    ] = results[..]
    else {
        panic!("{results:?}");
    };
    assert_eq!(to, asp);
    (status, routing_context)
}

#[test]
fn a_provisioned_key_is_joined() {
    let (mut sgp, asp) = sgp(Registration::Provisioned);
    let registered = register(&mut sgp, asp, key(10));
    assert_eq!(registered, (RegistrationStatus::REGISTERED, RC));
    assert_eq!(sgp.engine.asp_state(asp, m3ua::AsId(0)), AspState::Inactive);
    // Again: its routing context MUST be told.
    let again = register(&mut sgp, asp, key(10));
    assert_eq!(again, (RegistrationStatus::ALREADY_REGISTERED, RC));
    let other = register(&mut sgp, asp, key(11));
    assert_eq!(other, (RegistrationStatus::NOT_PROVISIONED, 0));
}

#[test]
fn what_is_wrong_with_a_key_is_told() {
    let (mut sgp, asp) = sgp(Registration::Dynamic);
    let with = |change: &dyn Fn(&mut RoutingKey)| {
        let mut key = key(30);
        change(&mut key);
        key
    };
    for (key, expected) in [
        (
            with(&|it| it.selections.clear()),
            RegistrationStatus::INVALID_DPC,
        ),
        (
            with(&|it| it.selections[0].dpc.mask = 3),
            RegistrationStatus::INVALID_DPC,
        ),
        (
            with(&|it| it.selections[0].dpc = pc(1 << 14).into()),
            RegistrationStatus::INVALID_DPC,
        ),
        (
            with(&|it| it.network_appearance = Some(9)),
            RegistrationStatus::INVALID_NETWORK_APPEARANCE,
        ),
        (
            with(&|it| it.selections[0].service_indicators = vec![0]),
            RegistrationStatus::INVALID_ROUTING_KEY,
        ),
        (
            with(&|it| it.selections[0].service_indicators = vec![16]),
            RegistrationStatus::INVALID_ROUTING_KEY,
        ),
        (
            with(&|it| it.unsupported_parameter = Some(0x20f)),
            RegistrationStatus::UNSUPPORTED_PARAMETER,
        ),
        (
            with(&|it| it.traffic_mode = Some(TrafficMode(7))),
            RegistrationStatus::UNSUPPORTED_TRAFFIC_MODE,
        ),
        (
            with(&|it| it.routing_context = Some(77)),
            RegistrationStatus::CHANGE_REFUSED,
        ),
        // A message for 10 could match both.
        (
            with(&|it| {
                it.selections[0].dpc = pc(10).into();
                it.selections[0].service_indicators = vec![5];
            }),
            RegistrationStatus::CANNOT_SUPPORT_UNIQUE_ROUTING,
        ),
    ] {
        assert_eq!(
            register(&mut sgp, asp, key.clone()),
            (expected, 0),
            "{key:?}"
        );
    }
    assert_eq!(sgp.engine.application_servers().count(), 1);
}

#[test]
fn the_mode_of_a_key_must_be_that_of_its_as() {
    let (mut sgp, asp) = sgp(Registration::Dynamic);
    let mut first = key(30);
    first.traffic_mode = Some(TrafficMode::OVERRIDE);
    assert_eq!(
        register(&mut sgp, asp, first).0,
        RegistrationStatus::REGISTERED
    );
    let other = sgp.peer(PeerRole::Asp);
    sgp.associate(other);
    sgp.take(other, &up());
    sgp.forget();
    let mut second = key(30);
    second.traffic_mode = Some(TrafficMode::BROADCAST);
    let refused = register(&mut sgp, other, second);
    assert_eq!(refused, (RegistrationStatus::UNSUPPORTED_TRAFFIC_MODE, 0));
}

#[test]
fn registrations_are_limited() {
    let limits: [&dyn Fn(&mut Config); 2] = [&|it| it.max_registrations = 2, &|it| {
        it.max_application_servers = 3
    }];
    for limit in limits {
        let mut config = Config {
            registration: Registration::Dynamic,
            ..Config::default()
        };
        limit(&mut config);
        let (mut sgp, asp) = sgp_with(config);
        let results = [30, 31, 32].map(|dpc| register(&mut sgp, asp, key(dpc)).0);
        let registered = RegistrationStatus::REGISTERED;
        let refused = RegistrationStatus::INSUFFICIENT_RESOURCES;
        assert_eq!(results, [registered, registered, refused]);
    }
}

#[test]
fn each_result_of_a_deregistration() {
    let (mut sgp, asp) = sgp(Registration::Dynamic);
    let configured = sgp.server(server(ServedBy::Peers, 200, 50));
    sgp.member(asp, configured);
    let (_, context) = register(&mut sgp, asp, key(30));
    let deregister = |sgp: &mut Process, context: u32| {
        sgp.take(asp, &Message::DeregReq(vec![context]));
        let (_, Message::DeregRsp(results)) = sgp.sent() else {
            panic!("DEREG RSP");
        };
        sgp.forget();
        let [
            DeregistrationResult {
                routing_context,
                status,
            },
        ] = results[..]
        else {
            panic!("{results:?}");
        };
        assert_eq!(routing_context, context);
        status
    };
    let invalid = DeregistrationStatus::INVALID_ROUTING_CONTEXT;
    assert_eq!(deregister(&mut sgp, 77), invalid);
    assert_eq!(
        deregister(&mut sgp, 200),
        DeregistrationStatus::NOT_REGISTERED
    );
    sgp.take(asp, &active(None, &[context]));
    sgp.forget();
    let active = DeregistrationStatus::CURRENTLY_ACTIVE;
    assert_eq!(deregister(&mut sgp, context), active);
    sgp.take(asp, &inactive(&[context]));
    sgp.forget();
    assert_eq!(
        deregister(&mut sgp, context),
        DeregistrationStatus::DEREGISTERED
    );
    assert_eq!(deregister(&mut sgp, context), invalid);
}

/// Sections 4.3.4.1 and 4.3.4.2: the end of an ASP is the end of its registrations.
#[test]
fn registrations_end_with_the_asp() {
    type End = fn(&mut Process, PeerId);
    let ends: [End; 3] = [
        |sgp, asp| sgp.take(asp, &down()),
        |sgp, asp| sgp.lose(asp),
        // ASP Up when active.
        |sgp, asp| sgp.take(asp, &up()),
    ];
    for end in ends {
        let (mut sgp, asp) = sgp(Registration::Dynamic);
        let (_, context) = register(&mut sgp, asp, key(30));
        sgp.take(asp, &active(None, &[context]));
        assert!(sgp.engine.transfer(NETWORK, message(1, 30, 0, "")).is_ok());
        end(&mut sgp, asp);
        assert_eq!(sgp.engine.application_servers().count(), 1);
        let gone = sgp.engine.transfer(NETWORK, message(1, 30, 0, ""));
        assert_eq!(gone, Err(m3ua::TransferError::NoRoute));
        let last = sgp.primitives.last();
        assert!(
            matches!(last, Some(MtpIndication::Pause { .. })),
            "{last:?}"
        );
    }
}

/// Section 3.6.2: a routing context that another application server has would take its traffic.
#[test]
fn a_response_cannot_name_the_context_of_another_key() {
    let mut asp = Process::new(Config::default());
    let sgp = asp.peer(PeerRole::Sgp);
    let first = asp.server(server(ServedBy::Us, RC, 10));
    asp.member(sgp, first);
    let mut second = server(ServedBy::Us, 0, 11);
    second.routing_context = None;
    let second = asp.server(second);
    let registers = m3ua::MemberConfig {
        registers: Some(key(11)),
        ..m3ua::MemberConfig::default()
    };
    asp.engine
        .add_member(sgp, second, registers)
        .expect("a member");
    asp.associate(sgp);
    asp.take(sgp, &up_ack());
    asp.forget();
    let result = RegistrationResult {
        local_rk_identifier: 1,
        status: RegistrationStatus::REGISTERED,
        routing_context: RC,
    };
    asp.take(sgp, &Message::RegRsp(vec![result]));
    // The first one is asked for under its context, and the second one is not.
    assert_eq!(asp.sent(), (sgp, active(None, &[RC])));
    let error = asp.expect_error(sgp, m3ua::message::ErrorCode::INVALID_ROUTING_CONTEXT);
    assert_eq!(error.routing_contexts, [RC]);
    let told = m3ua::ManagementIndication::Registered {
        peer: sgp,
        application_server: second,
        status: RegistrationStatus::UNKNOWN,
    };
    assert!(asp.management.contains(&told), "{:?}", asp.management);
    asp.take(sgp, &active_ack(None, &[RC]));
    assert_eq!(asp.engine.our_state(sgp, first), AspState::Active);
    assert_eq!(asp.engine.our_state(sgp, second), AspState::Inactive);
}

/// Routing contexts are given in turn, and one that is in use is passed over.
#[test]
fn routing_contexts_are_given_in_turn() {
    let (mut sgp, asp) = sgp(Registration::Dynamic);
    sgp.server(server(ServedBy::Peers, 2, 50));
    let contexts = [30, 31].map(|dpc| register(&mut sgp, asp, key(dpc)).1);
    assert_eq!(contexts, [1, 3]);
    sgp.take(asp, &Message::DeregReq(vec![1]));
    sgp.forget();
    assert_eq!(register(&mut sgp, asp, key(32)).1, 4);
}

/// Names are labels of metrics: there are as many as there were application servers at a time, however often keys are registered.
#[test]
fn names_of_registered_keys_are_used_again() {
    let (mut sgp, asp) = sgp(Registration::Dynamic);
    let mut names = BTreeSet::new();
    for number in 0..100 {
        let keys = [30, 31].map(|dpc| key(dpc + 2 * number));
        let contexts = keys.map(|key| register(&mut sgp, asp, key).1);
        let servers = sgp.engine.application_servers();
        let configs = servers.filter_map(|it| sgp.engine.application_server(it));
        names.extend(configs.map(|it| it.name.clone()));
        let order = match number % 2 {
            0 => contexts.to_vec(),
            _ => contexts.into_iter().rev().collect(),
        };
        sgp.take(asp, &Message::DeregReq(order));
        sgp.forget();
    }
    let names: Vec<String> = names.into_iter().collect();
    assert_eq!(names, ["as-100", "registered-1", "registered-2"]);
}
