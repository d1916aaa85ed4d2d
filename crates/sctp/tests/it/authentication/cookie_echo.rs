//! COOKIE ECHO chunks that are authenticated, restarts and their keys (RFC 4895 sections 6.1 and 6.3).

use bytes::Bytes;
use sctp::packet::{
    Cause, Chunk, ChunkType, CookieEcho, HmacIdentifier, Init, Packet, Parameter, Tsn,
};
use sctp::{AssociationState, Event};

use super::signing::{
    RANDOM, Signing, association_key, checked, declaration, init_in, key_vector, signed,
};
use super::{authenticating, pair};
use crate::common::{Host, chunk_types, ordered};
use crate::rfc9260::scripted::{self, Scripted, bytes_of, chunks, message, packet, types};

const ECHO: ChunkType = ChunkType::COOKIE_ECHO;

fn echo(cookie: &[u8]) -> Chunk<'_> {
    Chunk::CookieEcho(CookieEcho { cookie })
}

#[test]
fn the_auth_chunk_in_front_is_verified_by_what_the_cookie_says() {
    let mut signing = Signing::answered(&[ECHO, ChunkType::DATA], &[]);
    let cookie = signing.cookie.clone();
    signing.give_signed(&[echo(&cookie), Chunk::Data(message(0, b"at once"))]);
    assert_eq!(
        types(&signing.scripted.take()),
        [[ChunkType::COOKIE_ACK, ChunkType::SACK]]
    );
    assert_eq!(signing.received(), [b"at once"]);
}

#[test]
fn a_cookie_echo_that_has_to_be_authenticated_and_is_not_is_dropped_silently() {
    let mut signing = Signing::answered(&[ECHO], &[]);
    let cookie = signing.cookie.clone();
    signing.scripted.echo(&cookie, &[]);
    assert!(signing.scripted.take().is_empty() && signing.scripted.events.is_empty());
    assert_eq!(signing.scripted.endpoint.association_count(), 0);
    let drops = signing.scripted.endpoint.statistics().drops;
    assert_eq!(drops.not_authenticated, 1);
    // Behind it, an AUTH chunk does not help.
    let auth = signing.sign(&[Chunk::Data(message(0, b"late"))]);
    let bytes = [bytes_of(&[echo(&cookie)]), auth].concat();
    signing.scripted.give_raw(&bytes);
    assert_eq!(signing.scripted.endpoint.association_count(), 0);
}

#[test]
fn a_wrong_auth_chunk_in_front_makes_no_association() {
    for required in [&[ECHO][..], &[]] {
        let mut signing = Signing::answered(required, &[]);
        let cookie = signing.cookie.clone();
        let mut bytes = signing.sign(&[echo(&cookie)]);
        bytes[20] ^= 1;
        signing.scripted.give_raw(&bytes);
        assert!(signing.scripted.take().is_empty());
        assert_eq!(signing.scripted.endpoint.association_count(), 0);
        let drops = signing.scripted.endpoint.statistics().drops;
        assert_eq!(drops.not_authentic, 1);
    }
}

#[test]
fn an_unknown_algorithm_in_front_is_answered_by_an_error() {
    for requested in [&[][..], &[ChunkType::ERROR.0]] {
        let mut signing = Signing::answered(&[ECHO], requested);
        let cookie = signing.cookie.clone();
        let mut bytes = signing.sign(&[echo(&cookie)]);
        bytes[7] = 4;
        signing.scripted.give_raw(&bytes);
        let packets = signing.scripted.take();
        let Some(Chunk::Error(error)) = chunks(&packets[0]).pop() else {
            panic!("an ERROR was sent");
        };
        assert_eq!(
            error.causes.iter().next(),
            Some(Ok(Cause::UnsupportedHmacIdentifier {
                hmac_identifier: HmacIdentifier(4)
            }))
        );
        let key = signing.key.clone();
        let by = checked(&packets[0], |_| key);
        assert_eq!(by.is_some(), !requested.is_empty());
        assert_eq!(signing.scripted.endpoint.association_count(), 0);
    }
}

#[test]
fn behind_the_cookie_echo_its_own_keys_hold() {
    // RFC 4895 section 7: COOKIE ECHO; AUTH; DATA.
    let mut signing = Signing::answered(&[ChunkType::DATA], &[]);
    let cookie = signing.cookie.clone();
    let auth = signing.sign(&[Chunk::Data(message(0, b"at once"))]);
    let bytes = [bytes_of(&[echo(&cookie)]), auth].concat();
    signing.scripted.give_raw(&bytes);
    assert_eq!(signing.received(), [b"at once"]);
}

#[test]
fn data_behind_the_cookie_echo_waits_for_a_key_that_the_user_sets_late() {
    let mut signing = Signing::answered(&[ChunkType::DATA], &[]);
    let cookie = signing.cookie.clone();
    let key = signing.key_of(b"secret of this client");
    let data = bytes_of(&[Chunk::Data(message(0, b"at last"))]);
    let auth = signed(&key, 3, HmacIdentifier::SHA_256, &data);
    let bytes = [bytes_of(&[echo(&cookie)]), auth].concat();
    signing.scripted.give_raw(&bytes);
    assert_eq!(signing.received(), [b""; 0]);
    assert_eq!(types(&signing.scripted.take()), [[ChunkType::COOKIE_ACK]]);
    let (now, id) = (signing.scripted.now, signing.scripted.id());
    signing
        .scripted
        .endpoint
        .set_shared_key(now, Some(id), 3, b"secret of this client")
        .unwrap();
    signing.scripted.give_raw(&bytes);
    assert_eq!(signing.received(), [b"at last"]);
}

#[test]
fn only_clients_with_the_key_of_the_endpoint_get_in() {
    let mut signing = Signing::answered(&[ECHO], &[]);
    let now = signing.scripted.now;
    let endpoint = &mut signing.scripted.endpoint;
    endpoint.set_shared_key(now, None, 1, b"secret").unwrap();
    endpoint.set_active_key(now, None, 1).unwrap();
    endpoint.deactivate_key(now, None, 0).unwrap();
    endpoint.delete_key(now, None, 0).unwrap();
    let cookie = signing.cookie.clone();
    signing.give_signed(&[echo(&cookie)]);
    assert_eq!(signing.scripted.endpoint.association_count(), 0);
    let key = signing.key_of(b"secret");
    let bytes = signed(
        &key,
        1,
        HmacIdentifier::SHA_256,
        &bytes_of(&[echo(&cookie)]),
    );
    signing.scripted.give_raw(&bytes);
    assert_eq!(signing.scripted.endpoint.association_count(), 1);
}

#[test]
fn our_cookie_echo_is_authenticated_if_the_peer_asks_for_it() {
    let mut pair = pair(&[ECHO, ChunkType::COOKIE_ACK, ChunkType::DATA]);
    let id = pair.connect();
    pair.client
        .endpoint
        .send(pair.now, id, ordered(0), Bytes::from_static(b"at once"))
        .unwrap();
    pair.run();
    let server = pair.server.association();
    assert_eq!(pair.server.receive_all(pair.now, server).len(), 1);
    let with_echo = pair
        .client
        .sent
        .iter()
        .map(|(_, packet)| chunk_types(packet))
        .find(|types| types.contains(&ECHO));
    assert_eq!(
        with_echo,
        Some(vec![ChunkType::AUTH, ECHO, ChunkType::DATA])
    );
    let with_ack = pair
        .server
        .sent
        .iter()
        .map(|(_, packet)| chunk_types(packet))
        .find(|types| types.contains(&ChunkType::COOKIE_ACK));
    assert_eq!(with_ack.unwrap()[0], ChunkType::AUTH);
}

#[test]
fn a_cookie_echo_goes_again_with_its_auth_chunk() {
    let mut scripted = Scripted::cookie_wait(authenticating(&[]));
    let mut parameters = declaration(&[ECHO.0], &[[0, 1]]);
    let cookie = vec![7; 1400];
    parameters.push(&Parameter::StateCookie(&cookie)).unwrap();
    scripted.give(&[Chunk::InitAck(Init {
        parameters: parameters.parameters(),
        ..scripted::init()
    })]);
    for _ in 0..3 {
        let packets = scripted.take();
        assert_eq!(types(&packets), [[ChunkType::AUTH, ECHO]]);
        let next = scripted.endpoint.next_timeout().unwrap();
        scripted.now = next;
        scripted.endpoint.handle_timeout(next);
    }
}

#[test]
fn the_cookie_tells_no_shared_key() {
    let mut signing = Signing::answered(&[], &[]);
    let now = signing.scripted.now;
    let secret = b"a secret that is long enough to be found";
    signing
        .scripted
        .endpoint
        .set_shared_key(now, None, 1, secret)
        .unwrap();
    let parameters = declaration(&[], &[[0, 1]]);
    let cookie = signing.scripted.cookie_for(Init {
        initiate_tag: 77,
        parameters: parameters.parameters(),
        ..scripted::init()
    });
    let found = |what: &[u8]| cookie.windows(what.len()).any(|window| window == what);
    assert!(found(&RANDOM), "what is public is there");
    assert!(!found(&secret[..8]));
}

/// The peer of `signing` has restarted and got a cookie for a new association: the cookie, the tag that
/// belongs to it, and the new association shared key.
fn restarted(signing: &mut Signing, requested: &[u8]) -> (Vec<u8>, u32, Vec<u8>) {
    let own = declaration(requested, &[[0, 3], [0, 1]]);
    let scripted = &mut signing.scripted;
    scripted.give_packet(packet(
        0,
        &[Chunk::Init(Init {
            initiate_tag: 0x1234_5678,
            initial_tsn: Tsn(1000),
            parameters: own.parameters(),
            ..scripted::init()
        })],
    ));
    let packets = scripted.take();
    let answer = init_in(&packets[0]).expect("an INIT ACK");
    let theirs = key_vector(answer.parameters);
    let cookie = answer
        .parameters
        .iter()
        .find_map(|parameter| match parameter {
            Ok(Parameter::StateCookie(cookie)) => Some(cookie.to_vec()),
            _ => None,
        })
        .expect("a cookie");
    assert_ne!(theirs, signing.vectors[1], "a new Random Number");
    let key = association_key(b"", &key_vector(own.parameters()), &theirs);
    (cookie, answer.initiate_tag, key)
}

fn is_restarted(signing: &Signing) -> bool {
    let is_restart = |event: &Event| matches!(event, Event::Restart { .. });
    signing.scripted.events.iter().any(is_restart)
}

#[test]
fn after_a_restart_both_sides_use_the_new_keys() {
    let mut signing = Signing::accepted(&[ChunkType::DATA], &[ChunkType::DATA.0]);
    let (cookie, tag, key) = restarted(&mut signing, &[ChunkType::DATA.0]);
    let data = bytes_of(&[Chunk::Data(sctp::packet::Data {
        tsn: Tsn(1000),
        ..message(0, b"after the restart")
    })]);
    let auth = signed(&key, 0, HmacIdentifier::SHA_256, &data);
    let bytes = [bytes_of(&[echo(&cookie)]), auth].concat();
    signing.scripted.tag = tag;
    signing.scripted.give_raw(&bytes);
    assert!(is_restarted(&signing));
    assert_eq!(signing.received(), [b"after the restart"]);
    signing.scripted.take();
    signing.scripted.send(0, b"answer");
    let packets = signing.scripted.take();
    assert_eq!(checked(&packets[0], |_| key), Some(0));
}

#[test]
fn a_restart_by_someone_without_the_old_key_fails_where_cookies_are_to_be_authenticated() {
    let mut signing = Signing::accepted_signed(&[ECHO]);
    let (cookie, tag, key) = restarted(&mut signing, &[]);
    let old = std::mem::replace(&mut signing.scripted.tag, tag);
    let bytes = bytes_of(&[echo(&cookie)]);
    signing.scripted.give_raw(&bytes);
    let by_new = signed(&key, 0, HmacIdentifier::SHA_256, &bytes);
    signing.scripted.give_raw(&by_new);
    assert!(!is_restarted(&signing));
    assert!(signing.scripted.take().is_empty());
    assert_eq!(signing.scripted.state(), AssociationState::Established);
    // The association goes on.
    signing.scripted.tag = old;
    signing.give_signed(&[Chunk::Data(message(0, b"still here"))]);
    assert_eq!(signing.received(), [b"still here"]);
    signing.scripted.take();
    // With the old key it works, and then the new one holds.
    signing.scripted.tag = tag;
    let by_old = signed(&signing.key, 0, HmacIdentifier::SHA_256, &bytes);
    signing.scripted.give_raw(&by_old);
    assert!(is_restarted(&signing));
    assert_eq!(types(&signing.scripted.take()), [[ChunkType::COOKIE_ACK]]);
    signing.key = key;
    signing.give_signed(&[Chunk::Data(sctp::packet::Data {
        tsn: Tsn(1000),
        ..message(0, b"with the new key")
    })]);
    assert_eq!(signing.received(), [b"with the new key"]);
}

#[test]
fn a_repeated_cookie_echo_is_authenticated_by_the_association() {
    let mut signing = Signing::accepted_signed(&[ECHO]);
    let cookie = signing.cookie.clone();
    signing.scripted.echo(&cookie, &[]);
    assert!(
        signing.scripted.take().is_empty(),
        "it is not authenticated"
    );
    signing.give_signed(&[echo(&cookie)]);
    assert_eq!(types(&signing.scripted.take()), [[ChunkType::COOKIE_ACK]]);
}

#[test]
fn what_refuses_a_cookie_is_authenticated_too() {
    let mut signing = Signing::answered(&[ECHO], &[ChunkType::ERROR.0, ChunkType::ABORT.0]);
    let cookie = signing.cookie.clone();
    let start = signing.scripted.now;
    signing.scripted.now += std::time::Duration::from_secs(61);
    signing.give_signed(&[echo(&cookie)]);
    let packets = signing.scripted.take();
    assert_eq!(types(&packets), [[ChunkType::AUTH, ChunkType::ERROR]]);
    let key = signing.key.clone();
    assert_eq!(checked(&packets[0], |_| key.clone()), Some(0));
    // The association comes, ends, and its cookie comes once more.
    signing.scripted.now = start;
    signing.give_signed(&[echo(&cookie)]);
    let id = signing.scripted.id();
    signing.scripted.endpoint.abort(start, id, b"").unwrap();
    signing.scripted.take();
    signing.give_signed(&[echo(&cookie)]);
    let packets = signing.scripted.take();
    assert_eq!(types(&packets), [[ChunkType::AUTH, ChunkType::ABORT]]);
    assert_eq!(checked(&packets[0], |_| key), Some(0));
}

#[test]
fn a_restarted_client_gets_new_keys_from_a_server_that_does_not_restart() {
    let mut pair = pair(&[ChunkType::DATA]);
    pair.establish();
    pair.client = Host::new(
        crate::common::CLIENT_PORT,
        [192, 0, 2, 1],
        authenticating(&[ChunkType::DATA]),
        99,
    );
    pair.establish();
    let is_restart = |event: &Event| matches!(event, Event::Restart { .. });
    assert!(pair.server.events.iter().any(is_restart));
    pair.client_sends(ordered(0), "again");
    pair.run();
    let server = pair.server.association();
    assert_eq!(pair.server.receive_all(pair.now, server).len(), 1);
    assert_eq!(pair.server.endpoint.statistics().drops.not_authentic, 0);
    // Fragments leave room for the AUTH chunk.
    let large = crate::common::message(1, 100_000);
    let (now, to) = (pair.now, ordered(0));
    pair.server.endpoint.send(now, server, to, large).unwrap();
    pair.run();
    let client = pair.client.association();
    assert_eq!(pair.client.receive_all(pair.now, client).len(), 1);
}

impl Signing {
    /// The association is up, and its COOKIE ECHO was authenticated.
    fn accepted_signed(required: &[ChunkType]) -> Signing {
        let mut signing = Signing::answered(required, &[]);
        let cookie = signing.cookie.clone();
        signing.give_signed(&[echo(&cookie)]);
        let packets = signing.scripted.take();
        assert_eq!(types(&packets), [[ChunkType::COOKIE_ACK]]);
        let tag = Packet::read(&packets[0]).unwrap().header().verification_tag;
        assert_eq!(tag, scripted::PEER_TAG);
        signing
    }
}
