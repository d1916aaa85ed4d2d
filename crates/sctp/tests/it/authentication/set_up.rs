//! RANDOM, CHUNKS and HMAC-ALGO in INIT and INIT ACK (RFC 4895 sections 3 and 6.1).

use std::time::Duration;

use bytes::Bytes;
use sctp::packet::{
    Cause, CauseCode, Chunk, ChunkType, CookieEcho, HmacIdentifier, HmacList, Init, Parameter,
    ParameterBuffer, ParameterType,
};
use sctp::{
    AssociationState, AuthenticationIndication, CannotStartCause, ConfigError, EndpointConfig,
    Event,
};

use super::signing::{RANDOM, declaration, init_in, key_vector_in};
use super::{authenticating, indications, pair};
use crate::common::{CLIENT_PORT, Pair, ordered};
use crate::rfc9260::scripted::{self, Scripted, chunks, cookie_parameter, packet};

/// How often each of the three parameters is in an INIT or INIT ACK, and the values of them.
fn parameters_of(packet: &Bytes) -> Vec<(ParameterType, Vec<u8>)> {
    let wanted = [
        ParameterType::RANDOM,
        ParameterType::CHUNKS,
        ParameterType::HMAC_ALGO,
    ];
    init_in(packet)
        .expect("an INIT or INIT ACK")
        .parameters
        .iter()
        .raw()
        .flatten()
        .map(|tlv| (ParameterType(tlv.type_field()), tlv.value().to_vec()))
        .filter(|(parameter_type, _)| wanted.contains(parameter_type))
        .collect()
}

#[test]
fn both_sides_declare_what_they_want() {
    let mut pair = Pair::with(
        authenticating(&[ChunkType::DATA, ChunkType::ABORT]),
        authenticating(&[]),
    );
    let (client, server) = pair.establish();
    let init = parameters_of(&pair.client.sent[0].1);
    let [(ParameterType::RANDOM, random), chunks, hmacs] = &init[..] else {
        panic!("{init:?}");
    };
    assert_eq!(random.len(), 32);
    assert_eq!(*chunks, (ParameterType::CHUNKS, vec![0, 6]));
    assert_eq!(*hmacs, (ParameterType::HMAC_ALGO, vec![0, 3, 0, 1]));
    let init_ack = parameters_of(&pair.server.sent[0].1);
    let [
        (ParameterType::RANDOM, other),
        (ParameterType::HMAC_ALGO, _),
    ] = &init_ack[..]
    else {
        panic!("an empty list is omitted: {init_ack:?}");
    };
    assert_eq!(other.len(), 32);
    assert_ne!(random, other);
    for (host, id, local, peer) in [
        (&pair.client, client, &[0, 6][..], &[][..]),
        (&pair.server, server, &[], &[0, 6]),
    ] {
        let types = |numbers: &[u8]| numbers.iter().map(|number| ChunkType(*number)).collect();
        assert_eq!(host.endpoint.local_auth_chunks(id), Some(types(local)));
        assert_eq!(host.endpoint.peer_auth_chunks(id), Some(types(peer)));
        assert_eq!(indications(&host.events), []);
        assert!(host.endpoint.status(id).unwrap().extensions.authentication);
    }
}

#[test]
fn a_cookie_without_authentication_is_as_short_as_ever() {
    let cookie_of = |client: EndpointConfig, server: EndpointConfig| {
        let mut pair = Pair::with(client, server);
        pair.establish();
        init_in(&pair.server.sent[0].1)
            .unwrap()
            .parameters
            .iter()
            .find_map(|parameter| match parameter {
                Ok(Parameter::StateCookie(cookie)) => Some(cookie.len()),
                _ => None,
            })
            .unwrap()
    };
    let plain = cookie_of(EndpointConfig::default(), EndpointConfig::default());
    assert_eq!(plain, 42);
    let auth = || authenticating(&[ChunkType::DATA]);
    assert_eq!(cookie_of(auth(), EndpointConfig::default()), plain);
    assert_eq!(cookie_of(EndpointConfig::default(), auth()), plain);
    assert_eq!(
        cookie_of(auth(), auth()),
        plain + 1 + 2 * (32 + 1 + 3 + 1 + 4)
    );
}

#[test]
fn each_association_has_random_numbers_of_its_own() {
    let mut vectors = Vec::new();
    for seed in 1..5 {
        let auth = || authenticating(&[]);
        let mut pair = Pair::seeded(auth(), auth(), seed);
        pair.establish();
        vectors.push(key_vector_in(
            pair.client.sent.iter().map(|(_, packet)| packet),
        ));
        vectors.push(key_vector_in(
            pair.server.sent.iter().map(|(_, packet)| packet),
        ));
    }
    vectors.sort();
    vectors.dedup();
    assert_eq!(vectors.len(), 8);
}

#[test]
fn a_peer_without_authentication_is_served_and_its_user_told() {
    let plain = EndpointConfig::default;
    let auth = || authenticating(&[ChunkType::DATA, ChunkType::SACK]);
    for (client, server) in [(plain(), auth()), (auth(), plain())] {
        let mut pair = Pair::with(client, server);
        let (client, server) = pair.establish();
        let told: Vec<_> = [&pair.client, &pair.server]
            .into_iter()
            .flat_map(|host| indications(&host.events))
            .collect();
        assert_eq!(told, [AuthenticationIndication::NoAuthentication]);
        pair.client_sends(ordered(0), "as ever");
        pair.run();
        let received = pair.server.receive_all(pair.now, server);
        assert_eq!(received.len(), 1);
        assert_eq!(pair.client.endpoint.local_auth_chunks(client), Some(vec![]));
        assert_eq!(pair.client.endpoint.peer_auth_chunks(client), Some(vec![]));
        let sent = pair.client.sent.iter().chain(&pair.server.sent);
        for (_, packet) in sent {
            assert!(!crate::common::chunk_types(packet).contains(&ChunkType::AUTH));
        }
    }
}

/// An INIT whose parameters are these.
fn init_with(parameters: &ParameterBuffer) -> Bytes {
    packet(
        0,
        &[Chunk::Init(Init {
            parameters: parameters.parameters(),
            ..scripted::init()
        })],
    )
}

/// Declarations that are against the rules.
fn wrong() -> Vec<ParameterBuffer> {
    let random_of = |random: &[u8]| {
        let mut parameters = ParameterBuffer::new();
        parameters.push(&Parameter::Random(random)).unwrap();
        parameters
            .push(&Parameter::HmacAlgo(HmacList::new(&[[0, 1]])))
            .unwrap();
        parameters
    };
    vec![
        random_of(&RANDOM[1..]),
        random_of(&[0; 33]),
        random_of(&[]),
        declaration(&[], &[[0, 3]]),
        declaration(&[], &[]),
        declaration(&[0; 257], &[[0, 1]]),
        declaration(&[], &[[0, 1]; 33]),
    ]
}

#[test]
fn a_declaration_against_the_rules_is_answered_by_abort() {
    for parameters in wrong() {
        let mut scripted = Scripted::alone(authenticating(&[]));
        scripted.give_packet(init_with(&parameters));
        let packets = scripted.take();
        let [Chunk::Abort(abort)] = chunks(&packets[0])[..] else {
            panic!("an ABORT was sent");
        };
        let cause = abort.causes.iter().next().unwrap().unwrap();
        assert_eq!(cause.code(), CauseCode::PROTOCOL_VIOLATION);

        let mut scripted = Scripted::cookie_wait(authenticating(&[]));
        let mut with_cookie = cookie_parameter();
        for parameter in parameters.parameters() {
            with_cookie.push(&parameter.unwrap()).unwrap();
        }
        scripted.give(&[Chunk::InitAck(Init {
            parameters: with_cookie.parameters(),
            ..scripted::init()
        })]);
        let packets = scripted.take();
        let [Chunk::Abort(abort)] = chunks(&packets[0])[..] else {
            panic!("an ABORT was sent");
        };
        let cause = abort.causes.iter().next().unwrap().unwrap();
        assert!(matches!(cause, Cause::ProtocolViolation(_)));
        assert!(matches!(
            scripted.events.last(),
            Some(Event::CannotStart {
                cause: CannotStartCause::ProtocolViolation { .. },
                ..
            })
        ));

        // Who has no authentication does not look at them.
        let mut scripted = Scripted::alone(EndpointConfig::default());
        scripted.give_packet(init_with(&parameters));
        assert!(matches!(
            chunks(&scripted.take()[0])[..],
            [Chunk::InitAck(_)]
        ));
    }
}

#[test]
fn half_a_declaration_is_none() {
    let mut random_alone = ParameterBuffer::new();
    random_alone.push(&Parameter::Random(&RANDOM)).unwrap();
    let mut hmacs_alone = ParameterBuffer::new();
    hmacs_alone
        .push(&Parameter::HmacAlgo(HmacList::new(&[[0, 1]])))
        .unwrap();
    for parameters in [random_alone, hmacs_alone] {
        let mut scripted = Scripted::alone(authenticating(&[ChunkType::DATA]));
        let cookie = scripted.cookie_for(Init {
            parameters: parameters.parameters(),
            ..scripted::init()
        });
        scripted.give(&[
            Chunk::CookieEcho(CookieEcho { cookie: &cookie }),
            Chunk::Data(scripted::message(0, b"open")),
        ]);
        assert_eq!(
            indications(&scripted.events),
            [AuthenticationIndication::NoAuthentication]
        );
        assert_eq!(scripted.receive().len(), 1);
    }
}

#[test]
fn of_each_parameter_the_first_one_counts() {
    let mut twice = declaration(&[0], &[[0, 1]]);
    twice.push(&Parameter::Random(&[9; 32])).unwrap();
    twice
        .push(&Parameter::HmacAlgo(HmacList::new(&[[0, 3], [0, 1]])))
        .unwrap();
    let mut scripted = Scripted::alone(authenticating(&[]));
    let cookie = scripted.cookie_for(Init {
        parameters: twice.parameters(),
        ..scripted::init()
    });
    scripted.echo(&cookie, &[]);
    scripted.take();
    scripted.send(0, b"signed");
    let packets = scripted.take();
    let Chunk::Auth(auth) = chunks(&packets[0])[0] else {
        panic!("DATA is authenticated");
    };
    assert_eq!(auth.hmac_identifier, HmacIdentifier::SHA_1);
    assert_eq!(auth.hmac.len(), 20);
}

#[test]
fn the_first_algorithm_listed_that_we_support_is_used() {
    for (listed, used) in [
        (&[[0, 1]][..], HmacIdentifier::SHA_1),
        (&[[0, 1], [0, 3]], HmacIdentifier::SHA_1),
        (&[[0, 3], [0, 1]], HmacIdentifier::SHA_256),
        (&[[0, 2], [9, 9], [0, 3], [0, 1]], HmacIdentifier::SHA_256),
    ] {
        let mut scripted = Scripted::alone(authenticating(&[]));
        let parameters = declaration(&[0], listed);
        let cookie = scripted.cookie_for(Init {
            parameters: parameters.parameters(),
            ..scripted::init()
        });
        scripted.echo(&cookie, &[]);
        scripted.take();
        scripted.send(0, b"signed");
        let packets = scripted.take();
        let Chunk::Auth(auth) = chunks(&packets[0])[0] else {
            panic!("DATA is authenticated");
        };
        assert_eq!(auth.hmac_identifier, used);
    }
}

#[test]
fn types_that_cannot_be_authenticated_are_ignored() {
    let mut scripted = Scripted::alone(authenticating(&[]));
    let parameters = declaration(&[1, 2, 14, 15, 0], &[[0, 1]]);
    let cookie = scripted.cookie_for(Init {
        parameters: parameters.parameters(),
        ..scripted::init()
    });
    scripted.echo(&cookie, &[]);
    let id = scripted.id();
    assert_eq!(
        scripted.endpoint.peer_auth_chunks(id),
        Some(vec![ChunkType::DATA])
    );
}

#[test]
fn settings_that_no_side_may_have_are_refused_and_moved_into_bounds() {
    let not_possible = [
        ChunkType::INIT,
        ChunkType::INIT_ACK,
        ChunkType::SHUTDOWN_COMPLETE,
        ChunkType::AUTH,
    ];
    for chunk_type in not_possible {
        let config = authenticating(&[ChunkType::DATA, chunk_type]);
        assert_eq!(
            config.check(),
            Err(ConfigError::CannotBeAuthenticated(chunk_type))
        );
        let mut pair = Pair::with(config, authenticating(&[]));
        pair.establish();
        let init = parameters_of(&pair.client.sent[0].1);
        assert_eq!(init[1], (ParameterType::CHUNKS, vec![0]));
    }
    let with_hmacs = |hmac_identifiers: &[HmacIdentifier]| {
        authenticating(&[]).hmac_identifiers(hmac_identifiers.to_vec())
    };
    let without_sha_1 = with_hmacs(&[HmacIdentifier::SHA_256]);
    assert_eq!(without_sha_1.check(), Err(ConfigError::NoSha1));
    let unknown = with_hmacs(&[HmacIdentifier(2), HmacIdentifier::SHA_1]);
    assert_eq!(
        unknown.check(),
        Err(ConfigError::UnknownHmac(HmacIdentifier(2)))
    );
    let mut pair = Pair::with(without_sha_1, unknown);
    pair.establish();
    let hmacs = |packet| parameters_of(packet).pop().unwrap().1;
    assert_eq!(hmacs(&pair.client.sent[0].1), [0, 3, 0, 1]);
    assert_eq!(hmacs(&pair.server.sent[0].1), [0, 1]);
}

#[test]
fn both_sides_may_open_at_the_same_time() {
    let mut pair = pair(&[ChunkType::DATA]);
    pair.connect();
    let to_client = pair.client.path();
    pair.server
        .endpoint
        .connect(pair.now, to_client, crate::common::CLIENT_PORT)
        .expect("nothing speaks against it");
    pair.run();
    pair.run_for(std::time::Duration::from_secs(5));
    let server = pair.server.association();
    // An INIT ACK says the same Random Number as the INIT of its side.
    for host in [&pair.client, &pair.server] {
        let mut vectors: Vec<_> = host
            .sent
            .iter()
            .filter_map(|(_, packet)| init_in(packet))
            .map(|init| super::signing::key_vector(init.parameters))
            .collect();
        assert!(vectors.len() > 1);
        vectors.dedup();
        assert_eq!(vectors.len(), 1);
    }
    pair.client_sends(ordered(0), "signed");
    pair.run();
    assert_eq!(pair.server.receive_all(pair.now, server).len(), 1);
    let drops = pair.server.endpoint.statistics().drops;
    assert_eq!((drops.not_authentic, drops.not_authenticated), (0, 0));
}

/// The server answers an INIT, and then opens by itself: the cookies that the two get have different
/// random numbers of the server in them, so that neither has the key of the other's COOKIE ECHO.
#[test]
fn two_that_open_at_once_come_up_where_cookies_are_authenticated() {
    let mut pair = pair(&[ChunkType::COOKIE_ECHO, ChunkType::COOKIE_ACK]);
    let client = pair.connect();
    pair.collect();
    while let Some(packet) = pair.to_server.pop_front() {
        pair.give_server(packet);
    }
    pair.collect();
    let to = pair.client.path();
    let server = pair.server.endpoint.connect(pair.now, to, CLIENT_PORT);
    let server = server.expect("there is none yet");
    pair.run_for(Duration::from_secs(10));
    for (host, id) in [(&pair.client, client), (&pair.server, server)] {
        let status = host.endpoint.status(id).expect("it is there");
        assert_eq!(status.state, AssociationState::Established);
    }
    pair.client_sends(ordered(0), "heard");
    pair.run();
    assert_eq!(pair.server.receive_all(pair.now, server).len(), 1);
}
