//! Each Error of section 3.8.1.

use std::time::Duration;

use bytes::Bytes;
use m3ua::message::{AspUp, Destinations, ErrorCode, ErrorMessage, Message, TrafficMode};
use m3ua::{AspState, Config, ManagementIndication, PeerConfig, PeerId, PeerRole, ServedBy};

use crate::common::*;

const RC: u32 = 100;

fn sgp_with(config: Config) -> (Process, PeerId) {
    let mut sgp = Process::new(config);
    let server = sgp.server(server(ServedBy::Peers, RC, 10));
    let asp = sgp.peer(PeerRole::Asp);
    sgp.member(asp, server);
    sgp.associate(asp);
    (sgp, asp)
}

fn sgp() -> (Process, PeerId) {
    let (mut sgp, asp) = sgp_with(Config::default());
    sgp.take(asp, &up());
    sgp.forget();
    (sgp, asp)
}

fn bytes(octets: &[u8]) -> Bytes {
    Bytes::copy_from_slice(octets)
}

#[test]
fn invalid_version() {
    let (mut sgp, asp) = sgp();
    sgp.take_bytes(asp, 0, &bytes(&[2, 0, 3, 1, 0, 0, 0, 8]));
    sgp.expect_error(asp, ErrorCode::INVALID_VERSION);
    // The management knows (section 4.8).
    let code = ErrorCode::INVALID_VERSION;
    assert_eq!(
        sgp.management,
        [ManagementIndication::Refused { peer: asp, code }]
    );
}

#[test]
fn unsupported_class_and_type_come_with_the_first_40_octets() {
    let (mut sgp, asp) = sgp();
    for (class, message_type, code) in [
        (5, 1, ErrorCode::UNSUPPORTED_MESSAGE_CLASS),
        (3, 9, ErrorCode::UNSUPPORTED_MESSAGE_TYPE),
    ] {
        let mut octets = vec![1, 0, class, message_type, 0, 0, 0, 100];
        octets.resize(100, 7);
        sgp.take_bytes(asp, 0, &bytes(&octets));
        let error = sgp.expect_error(asp, code);
        assert_eq!(error.diagnostic.as_deref(), octets.get(..40));
    }
}

#[test]
fn a_class_that_is_not_supported_without_registration() {
    let (mut sgp, asp) = sgp();
    sgp.take(asp, &Message::DeregReq(vec![1]));
    sgp.expect_error(asp, ErrorCode::UNSUPPORTED_MESSAGE_CLASS);
}

#[test]
fn unsupported_traffic_mode() {
    let (mut sgp, asp) = sgp();
    sgp.take(asp, &active(Some(TrafficMode(9)), &[RC]));
    let error = sgp.expect_error(asp, ErrorCode::UNSUPPORTED_TRAFFIC_MODE_TYPE);
    assert_eq!(error.routing_contexts, [RC]);
    // The first ASP decides, where the configuration does not.
    let other = sgp.peer(PeerRole::Asp);
    sgp.member(other, m3ua::AsId(0));
    sgp.bring_up(other, &[RC]);
    sgp.take(asp, &active(Some(TrafficMode::OVERRIDE), &[RC]));
    sgp.expect_error(asp, ErrorCode::UNSUPPORTED_TRAFFIC_MODE_TYPE);
    assert_eq!(sgp.engine.asp_state(asp, m3ua::AsId(0)), AspState::Inactive);
}

#[test]
fn unexpected_messages() {
    let (mut sgp, asp) = sgp_with(Config::default());
    // Before ASP Up.
    for message in [active(None, &[RC]), inactive(&[RC])] {
        sgp.take(asp, &message);
        let error = sgp.expect_error(asp, ErrorCode::UNEXPECTED_MESSAGE);
        assert_eq!(error.routing_contexts, [RC]);
    }
    // From an ASP.
    sgp.take(asp, &up());
    sgp.forget();
    let about = Destinations {
        network_appearance: None,
        routing_contexts: vec![RC],
        affected: vec![pc(1).into()],
        info: None,
    };
    for message in [up_ack(), Message::Duna(about)] {
        sgp.take(asp, &message);
        sgp.expect_error(asp, ErrorCode::UNEXPECTED_MESSAGE);
    }
}

/// Section 4.3.4.1: an ASP Up in ASP-ACTIVE is acknowledged, complained of, and makes the ASP inactive.
#[test]
fn asp_up_when_active() {
    let (mut sgp, asp) = sgp();
    sgp.take(asp, &active(None, &[RC]));
    sgp.forget();
    sgp.take(asp, &up());
    assert_eq!(sgp.sent(), (asp, up_ack()));
    let (_, error) = sgp.sent();
    assert!(matches!(error, Message::Error(it) if it.code == ErrorCode::UNEXPECTED_MESSAGE));
    assert_eq!(sgp.engine.asp_state(asp, m3ua::AsId(0)), AspState::Inactive);
}

#[test]
fn protocol_error() {
    let (mut sgp, asp) = sgp();
    // A length that is not that of the message.
    sgp.take_bytes(asp, 0, &bytes(&[1, 0, 3, 1, 0, 0, 0, 16]));
    sgp.expect_error(asp, ErrorCode::PROTOCOL_ERROR);
    // MTP3 management in DATA (section 1.4.3.2).
    sgp.take(asp, &active(None, &[RC]));
    sgp.forget();
    let mut management = message(10, 20, 0, "TFP");
    management.service_indicator = 0;
    sgp.take(asp, &data(Some(RC), management));
    sgp.expect_error(asp, ErrorCode::PROTOCOL_ERROR);
    assert_eq!(sgp.primitives, []);
}

#[test]
fn invalid_stream() {
    let (mut sgp, asp) = sgp();
    sgp.take_on(asp, 1, &up());
    sgp.expect_error(asp, ErrorCode::INVALID_STREAM_IDENTIFIER);
    sgp.take_on(asp, 0, &data(Some(RC), message(10, 20, 0, "")));
    sgp.expect_error(asp, ErrorCode::INVALID_STREAM_IDENTIFIER);
    // ASPTM may be on any stream.
    sgp.take_on(asp, 3, &active(None, &[RC]));
    assert_eq!(sgp.sent(), (asp, active_ack(None, &[RC])));
}

/// Sections 3.8.1 and 4.7.
#[test]
fn management_blocking() {
    let (mut sgp, asp) = sgp();
    sgp.engine.set_blocked(sgp.now, asp, true);
    sgp.collect();
    sgp.expect(&[(asp, down_ack())]);
    sgp.take(asp, &up());
    sgp.expect_error(asp, ErrorCode::MANAGEMENT_BLOCKING);
    sgp.engine.set_blocked(sgp.now, asp, false);
    sgp.take(asp, &up());
    assert_eq!(sgp.sent(), (asp, up_ack()));
}

/// Section 4.7: a part of the network behind the SGP is gone.
#[test]
fn management_blocking_of_an_application_server() {
    let (mut sgp, asp) = sgp();
    let server = m3ua::AsId(0);
    sgp.take(asp, &active(None, &[RC]));
    sgp.forget();
    sgp.engine
        .set_application_server_blocked(sgp.now, server, true);
    sgp.collect();
    assert_eq!(sgp.sent(), (asp, inactive_ack(&[RC])));
    assert_eq!(sgp.engine.asp_state(asp, server), AspState::Inactive);
    sgp.forget();
    sgp.take(asp, &active(None, &[RC]));
    let error = sgp.expect_error(asp, ErrorCode::MANAGEMENT_BLOCKING);
    assert_eq!(error.routing_contexts, [RC]);
    sgp.engine
        .set_application_server_blocked(sgp.now, server, false);
    sgp.take(asp, &active(None, &[RC]));
    assert_eq!(sgp.sent(), (asp, active_ack(None, &[RC])));
}

#[test]
fn asp_identifiers() {
    let (mut sgp, asp) = sgp_with(Config {
        requires_asp_identifier: true,
        ..Config::default()
    });
    let other = sgp.peer(PeerRole::Asp);
    sgp.member(other, m3ua::AsId(0));
    sgp.associate(other);
    sgp.take(asp, &up());
    sgp.expect_error(asp, ErrorCode::ASP_IDENTIFIER_REQUIRED);
    let named = Message::AspUp(AspUp {
        asp_identifier: Some(1),
        info: None,
    });
    sgp.take(asp, &named);
    sgp.forget();
    sgp.take(other, &named);
    sgp.expect_error(other, ErrorCode::INVALID_ASP_IDENTIFIER);
}

/// An identifier that is configured is in every ASP Up. Without, asking again would be in vain.
#[test]
fn an_asp_without_the_identifier_that_it_must_have() {
    for identifier in [None, Some(7)] {
        let mut asp = Process::new(Config::default());
        let config = PeerConfig {
            name: "sgp".to_owned(),
            role: PeerRole::Sgp,
            network: NETWORK,
            asp_identifier: identifier,
            comes_up: true,
        };
        let sgp = asp.engine.add_peer(config, None).expect("a peer");
        asp.associate(sgp);
        let named = Message::AspUp(AspUp {
            asp_identifier: identifier,
            info: None,
        });
        asp.expect(&[(sgp, named)]);
        let error = ErrorMessage::new(ErrorCode::ASP_IDENTIFIER_REQUIRED);
        asp.take(sgp, &Message::Error(error));
        asp.wait(Duration::from_secs(10));
        asp.expect(&[]);
    }
}

#[test]
fn parameters_that_are_wrong() {
    let (mut sgp, asp) = sgp();
    for (octets, code) in [
        // DUPU with a mask.
        (
            &[
                1, 0, 2, 5, 0, 0, 0, 24, 0, 0x12, 0, 8, 1, 0, 0, 5, 2, 4, 0, 8, 0, 2, 0, 3,
            ][..],
            ErrorCode::INVALID_PARAMETER_VALUE,
        ),
        // A length beyond the end.
        (
            &[1, 0, 3, 1, 0, 0, 0, 12, 0, 4, 0, 9],
            ErrorCode::PARAMETER_FIELD_ERROR,
        ),
        // ASP Identifier twice.
        (
            &[
                1, 0, 3, 1, 0, 0, 0, 24, 0, 0x11, 0, 8, 0, 0, 0, 1, 0, 0x11, 0, 8, 0, 0, 0, 1,
            ],
            ErrorCode::UNEXPECTED_PARAMETER,
        ),
        // DAUD without point code.
        (&[1, 0, 2, 3, 0, 0, 0, 8], ErrorCode::MISSING_PARAMETER),
    ] {
        sgp.take_bytes(asp, 0, &bytes(octets));
        let error = sgp.expect_error(asp, code);
        // The offending message.
        assert_eq!(error.diagnostic.as_deref(), Some(octets));
    }
}

#[test]
fn invalid_network_appearance() {
    let (mut sgp, asp) = sgp();
    sgp.take(asp, &active(None, &[RC]));
    sgp.forget();
    let Message::Data(mut data) = data(Some(RC), message(10, 20, 0, "")) else {
        panic!("DATA");
    };
    data.network_appearance = Some(8);
    sgp.take(asp, &Message::Data(data));
    let error = sgp.expect_error(asp, ErrorCode::INVALID_NETWORK_APPEARANCE);
    assert_eq!(error.network_appearance, Some(8));
}

/// Section 4.3.4.3 has a rule for each case of ASP Active, section 4.3.4.4 for ASP Inactive.
#[test]
fn routing_contexts_of_traffic_maintenance() {
    let (mut sgp, asp) = sgp();
    sgp.take(asp, &active(None, &[5]));
    let error = sgp.expect_error(asp, ErrorCode::NO_CONFIGURED_AS);
    assert_eq!(error.routing_contexts, [5]);
    // One that is known, and one that is not.
    sgp.take(asp, &active(None, &[RC, 5]));
    assert_eq!(sgp.sent(), (asp, active_ack(None, &[RC])));
    assert!(matches!(sgp.sent(), (_, Message::Error(it)) if it.routing_contexts == [5]));
    sgp.forget();
    sgp.take(asp, &inactive(&[5, 6]));
    for context in [5, 6] {
        let (_, error) = sgp.sent();
        let Message::Error(ErrorMessage {
            code,
            routing_contexts,
            ..
        }) = error
        else {
            panic!("{error:?}");
        };
        assert_eq!(
            (code, routing_contexts),
            (ErrorCode::INVALID_ROUTING_CONTEXT, vec![context])
        );
    }
    // Very many of them do not make as many Errors.
    let many: Vec<u32> = (1_000..9_000).collect();
    sgp.take(asp, &inactive(&many));
    let mut named = Vec::new();
    while let Some(Message::Error(error)) = sgp.peek() {
        named.push(error.routing_contexts.clone());
        sgp.sent();
    }
    assert_eq!((named.len(), named.concat()), (17, many));
    // An ASP without any AS.
    let other = sgp.peer(PeerRole::Asp);
    sgp.associate(other);
    sgp.take(other, &up());
    sgp.forget();
    sgp.take(other, &active(None, &[]));
    sgp.expect_error(other, ErrorCode::INVALID_ROUTING_CONTEXT);
    sgp.take(other, &inactive(&[]));
    sgp.expect_error(other, ErrorCode::NO_CONFIGURED_AS);
}

#[test]
fn a_routing_context_that_must_be_there() {
    let (mut sgp, asp) = sgp_with(Config {
        requires_routing_context: true,
        ..Config::default()
    });
    sgp.take(asp, &up());
    sgp.forget();
    sgp.take(asp, &active(None, &[]));
    sgp.expect_error(asp, ErrorCode::MISSING_PARAMETER);
}

#[test]
fn routing_contexts_of_data() {
    let (mut sgp, asp) = sgp();
    sgp.take(asp, &active(None, &[]));
    sgp.forget();
    let text = || message(10, 20, 0, "");
    sgp.take(asp, &data(Some(5), text()));
    let error = sgp.expect_error(asp, ErrorCode::INVALID_ROUTING_CONTEXT);
    assert_eq!(error.routing_contexts, [5]);
    // With one AS, the routing context is known.
    sgp.take(asp, &data(None, text()));
    assert_eq!(sgp.primitives.len(), 1);
    // With two, it must be said.
    let second = sgp.server(server(ServedBy::Peers, 101, 11));
    sgp.member(asp, second);
    sgp.take(asp, &data(None, text()));
    sgp.expect_error(asp, ErrorCode::MISSING_PARAMETER);
    let other = sgp.peer(PeerRole::Asp);
    sgp.associate(other);
    sgp.take(other, &data(None, text()));
    sgp.expect_error(other, ErrorCode::NO_CONFIGURED_AS);
}

#[test]
fn no_error_about_an_error() {
    let (mut sgp, asp) = sgp();
    // One that cannot be read, and one on another stream.
    sgp.take_bytes(asp, 0, &bytes(&[1, 0, 0, 0, 0, 0, 0, 8]));
    let error = ErrorMessage::new(ErrorCode::PROTOCOL_ERROR);
    sgp.take_on(asp, 3, &Message::Error(error));
    sgp.expect(&[]);
    assert_eq!(sgp.management.len(), 1);
}
