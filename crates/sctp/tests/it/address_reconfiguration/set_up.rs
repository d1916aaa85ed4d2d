//! What INIT and INIT ACK say of the extension (RFC 5061 sections 4.2.7 and 6).

use sctp::packet::{Chunk, ChunkType, Init, Parameter, Parameters};
use sctp::{AssociationState, CannotStartCause, EndpointConfig, Event};

use super::*;
use crate::rfc9260::scripted::{chunks, cookie_parameter, init, packet, quiet, types};

/// The chunk types that the parameters announce.
fn announced(parameters: Parameters<'_>) -> Vec<u8> {
    let announced = parameters
        .iter()
        .flatten()
        .filter_map(|parameter| match parameter {
            Parameter::SupportedExtensions(chunk_types) => Some(chunk_types),
            _ => None,
        });
    let announced: Vec<_> = announced.collect();
    assert!(announced.len() <= 1, "one parameter");
    announced
        .into_iter()
        .flat_map(|chunk_types| {
            chunk_types
                .iter()
                .map(|chunk_type| chunk_type.0)
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Settings with the extension as the RFC wants it.
fn authenticated() -> EndpointConfig {
    quiet().extensions("auth,asconf".parse().expect("names"))
}

#[test]
fn asconf_asconf_ack_and_auth_are_announced_in_init_and_init_ack() {
    let mut scripted = Scripted::alone(authenticated());
    let to = crate::rfc9260::scripted::peer();
    let now = scripted.now;
    scripted
        .endpoint
        .connect(now, to, 6001)
        .expect("nothing speaks against it");
    scripted.give_packet(packet(0, &[Chunk::Init(init())]));
    for packet in scripted.take() {
        for chunk in chunks(&packet) {
            let (Chunk::Init(init) | Chunk::InitAck(init)) = chunk else {
                panic!("the set-up: {chunk:?}");
            };
            let announced = announced(init.parameters);
            for chunk_type in [ChunkType::ASCONF, ChunkType::ASCONF_ACK, ChunkType::AUTH] {
                assert!(announced.contains(&chunk_type.0), "{announced:?}");
            }
        }
    }
}

#[test]
fn it_is_agreed_on_only_with_a_peer_that_has_both_chunks() {
    for (chunk_types, is_agreed) in [
        (&[ChunkType::ASCONF, ChunkType::ASCONF_ACK][..], true),
        (&[ChunkType::ASCONF], false),
        (&[ChunkType::ASCONF_ACK], false),
        (&[], false),
    ] {
        let parameters = announcement(chunk_types);
        let init = Init {
            parameters: parameters.parameters(),
            ..init()
        };
        let scripted = Scripted::accepted_with(with_asconf(quiet()), init);
        let agreed = scripted.status().extensions;
        assert_eq!(agreed.address_reconfiguration, is_agreed, "{chunk_types:?}");
        let scripted = Scripted::accepted_with(quiet(), init);
        assert!(!scripted.status().extensions.address_reconfiguration);
    }
}

#[test]
fn an_init_with_asconf_and_without_auth_is_refused() {
    let parameters = announcement(&[ChunkType::ASCONF, ChunkType::ASCONF_ACK]);
    let init = Init {
        parameters: parameters.parameters(),
        ..init()
    };
    let mut scripted = Scripted::alone(authenticated());
    scripted.give_packet(packet(0, &[Chunk::Init(init)]));
    assert_eq!(types(&scripted.take()), [[ChunkType::ABORT]]);
    assert_eq!(scripted.endpoint.statistics().drops.init, 1);
    // Without the extension of our own it is no matter.
    let mut scripted = Scripted::alone(quiet());
    scripted.give_packet(packet(0, &[Chunk::Init(init)]));
    assert_eq!(types(&scripted.take()), [[ChunkType::INIT_ACK]]);
}

#[test]
fn an_init_ack_with_asconf_and_without_auth_is_no_association() {
    let mut parameters = cookie_parameter();
    let chunk_types = [ChunkType::ASCONF.0, ChunkType::ASCONF_ACK.0];
    parameters
        .push(&Parameter::SupportedExtensions(ChunkTypeList::new(
            &chunk_types,
        )))
        .expect("it is short");
    let mut scripted = Scripted::cookie_wait(authenticated());
    scripted.give(&[Chunk::InitAck(Init {
        parameters: parameters.parameters(),
        ..init()
    })]);
    assert!(scripted.take().is_empty(), "no COOKIE ECHO");
    assert_eq!(scripted.state(), AssociationState::Closed);
    let reported = scripted.events.iter().any(|event| {
        matches!(
            event,
            Event::CannotStart {
                cause: CannotStartCause::ProtocolViolation { .. },
                ..
            }
        )
    });
    assert!(reported);
}

#[test]
fn auth_is_announced_with_it_whether_or_not_it_is_asked_for() {
    let endpoint = Scripted::alone(quiet().extensions(asconf_alone()));
    assert!(
        endpoint
            .endpoint
            .config()
            .association
            .extensions
            .authentication
    );
    let endpoint = Scripted::alone(with_asconf(quiet()));
    assert!(
        !endpoint
            .endpoint
            .config()
            .association
            .extensions
            .authentication
    );
}

/// The code points that the user was told of.
fn code_points(events: &[Event]) -> Vec<u32> {
    let code_points = events.iter().filter_map(|event| match event {
        Event::AdaptationLayer { code_point, .. } => Some(*code_point),
        _ => None,
    });
    code_points.collect()
}

#[test]
fn both_users_are_told_of_the_adaptation_layer_of_the_other_side() {
    for extensions in [Extensions::NONE, asconf_alone()] {
        let config = with_asconf(quiet()).extensions(extensions);
        let client = config.clone().adaptation_code_point(Some(7));
        let server = config.adaptation_code_point(Some(u32::MAX));
        let mut pair = crate::common::Pair::with(client, server);
        pair.establish();
        assert_eq!(code_points(&pair.client.events), [u32::MAX]);
        assert_eq!(code_points(&pair.server.events), [7]);
    }
}

#[test]
fn without_an_adaptation_layer_nobody_is_told_of_one() {
    let mut pair = crate::common::Pair::with(quiet(), quiet().adaptation_code_point(Some(1)));
    pair.establish();
    assert_eq!(code_points(&pair.client.events), [1]);
    assert_eq!(code_points(&pair.server.events), []);
}

#[test]
fn an_adaptation_layer_indication_is_recognized_without_any_extension() {
    let parameters = parameters(&[Parameter::AdaptationLayerIndication { code_point: 5 }]);
    let mut scripted = Scripted::alone(quiet());
    let init = Init {
        parameters: parameters.parameters(),
        ..init()
    };
    scripted.give_packet(packet(0, &[Chunk::Init(init)]));
    let packets = scripted.take();
    let [Chunk::InitAck(answer)] = chunks(&packets[0])[..] else {
        panic!("an INIT ACK: {packets:?}");
    };
    let unrecognized = answer.parameters.iter().flatten();
    let unrecognized =
        unrecognized.filter(|found| matches!(found, Parameter::UnrecognizedParameter(_)));
    assert_eq!(unrecognized.count(), 0);
}
