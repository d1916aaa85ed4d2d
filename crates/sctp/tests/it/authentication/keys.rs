//! Shared keys that the user sets, makes active, deactivates and deletes (RFC 6458 sections 5.3.8,
//! 6.1.8, 8.1.18 and 8.3.3 to 8.3.5).

use bytes::Bytes;
use sctp::packet::{Chunk, ChunkType, HmacIdentifier};
use sctp::{AssociationId, AuthenticationIndication, KeyError, SendError, SendInfo};

use super::signing::{Signing, checked, signed};
use super::{authenticating, indications, pair};
use crate::common::{Pair, chunk_types, ordered};
use crate::rfc9260::scripted::{Scripted, bytes_of, message, types};

/// Sets a key on both sides.
fn set_on_both(pair: &mut Pair, ids: (AssociationId, AssociationId), key: u16, secret: &[u8]) {
    let now = pair.now;
    for (host, id) in [(&mut pair.client, ids.0), (&mut pair.server, ids.1)] {
        let set = host.endpoint.set_shared_key(now, Some(id), key, secret);
        assert_eq!(set, Ok(()));
    }
}

fn with_key(key: u16) -> SendInfo {
    SendInfo {
        shared_key: Some(key),
        ..ordered(0)
    }
}

#[test]
fn the_null_key_is_active_at_first() {
    let mut pair = pair(&[ChunkType::DATA]);
    let (client, _) = pair.establish();
    let endpoint = &pair.client.endpoint;
    assert_eq!(endpoint.active_key(None), Some(0));
    assert_eq!(endpoint.active_key(Some(client)), Some(0));
}

#[test]
fn associations_begin_with_the_keys_of_their_endpoint() {
    let mut pair = pair(&[ChunkType::DATA]);
    let now = pair.now;
    for host in [&mut pair.client, &mut pair.server] {
        let set = host.endpoint.set_shared_key(now, None, 5, b"secret");
        assert_eq!(set, Ok(()));
    }
    pair.client.endpoint.set_active_key(now, None, 5).unwrap();
    let (client, server) = pair.establish();
    assert_eq!(pair.client.endpoint.active_key(Some(client)), Some(5));
    assert_eq!(pair.server.endpoint.active_key(Some(server)), Some(0));
    pair.client_sends(ordered(0), "with key 5");
    pair.run();
    assert_eq!(pair.server.receive_all(pair.now, server).len(), 1);
    assert_eq!(
        indications(&pair.server.events),
        [AuthenticationIndication::NewKey { key: 5 }]
    );
    // Those that exist already keep theirs.
    let set = pair.client.endpoint.set_shared_key(now, None, 6, b"later");
    assert_eq!(set, Ok(()));
    let activated = pair.client.endpoint.set_active_key(now, Some(client), 6);
    assert_eq!(activated, Err(KeyError::UnknownKey));
}

#[test]
fn the_active_key_signs_what_is_sent_from_then_on() {
    let mut signing = Signing::accepted(&[], &[ChunkType::DATA.0]);
    let (now, id) = (signing.scripted.now, Some(signing.scripted.id()));
    let endpoint = &mut signing.scripted.endpoint;
    endpoint.set_shared_key(now, id, 1, b"one").unwrap();
    assert_eq!(
        endpoint.set_active_key(now, id, 2),
        Err(KeyError::UnknownKey)
    );
    signing.scripted.send(0, b"with the null key");
    let endpoint = &mut signing.scripted.endpoint;
    endpoint.set_active_key(now, id, 1).unwrap();
    assert_eq!(endpoint.active_key(id), Some(1));
    signing.scripted.send(0, b"with key 1");
    let packets = signing.scripted.take();
    // Messages with different keys share no packet.
    assert_eq!(types(&packets), [[ChunkType::AUTH, ChunkType::DATA]; 2]);
    let keys = [signing.key.clone(), signing.key_of(b"one")];
    for (packet, expected) in packets.iter().zip(0..) {
        let used = checked(packet, |identifier| keys[usize::from(identifier)].clone());
        assert_eq!(used, Some(expected));
    }
}

#[test]
fn a_message_may_name_its_key() {
    let mut pair = pair(&[ChunkType::DATA]);
    let ids = pair.establish();
    set_on_both(&mut pair, ids, 1, b"one");
    set_on_both(&mut pair, ids, 2, b"two");
    for key in [2, 0, 1, 1, 2] {
        pair.client
            .endpoint
            .send(pair.now, ids.0, with_key(key), Bytes::from(key.to_string()))
            .unwrap();
    }
    pair.collect();
    let sent: Vec<_> = pair
        .to_server
        .iter()
        .map(|packet| chunk_types(packet).len())
        .collect();
    assert_eq!(sent, [2, 2, 3, 2], "a packet for each change of the key");
    pair.run();
    let received = pair.server.receive_all(pair.now, ids.1);
    let texts: Vec<_> = received
        .iter()
        .map(|message| &message.payload[..])
        .collect();
    assert_eq!(texts, [b"2", b"0", b"1", b"1", b"2"]);
    let new_key = |key| AuthenticationIndication::NewKey { key };
    assert_eq!(
        indications(&pair.server.events),
        [new_key(2), new_key(0), new_key(1), new_key(2)]
    );
    let unknown = pair
        .client
        .endpoint
        .send(pair.now, ids.0, with_key(3), Bytes::from_static(b"3"));
    assert_eq!(unknown, Err(SendError::UnknownKey));
}

#[test]
fn without_authentication_there_are_no_keys() {
    let mut scripted = Scripted::accepted(authenticating(&[]));
    let (now, id) = (scripted.now, scripted.id());
    let endpoint = &mut scripted.endpoint;
    assert_eq!(
        endpoint.set_shared_key(now, Some(id), 1, b"one"),
        Err(KeyError::NotAuthenticated)
    );
    assert_eq!(endpoint.active_key(Some(id)), None);
    let sent = endpoint.send(now, id, with_key(0), Bytes::from_static(b"signed"));
    assert_eq!(sent, Err(SendError::UnknownKey));
    let nobody = AssociationId::from_number(1 << 40);
    for result in [
        endpoint.set_shared_key(now, Some(nobody), 1, b"one"),
        endpoint.set_active_key(now, Some(nobody), 0),
        endpoint.deactivate_key(now, Some(nobody), 0),
        endpoint.delete_key(now, Some(nobody), 0),
    ] {
        assert_eq!(result, Err(KeyError::UnknownAssociation));
    }
    assert_eq!(endpoint.peer_auth_chunks(nobody), None);
    assert_eq!(endpoint.local_auth_chunks(nobody), None);
}

#[test]
fn a_key_has_at_most_65535_bytes() {
    let mut signing = Signing::accepted(&[ChunkType::DATA], &[]);
    let (now, id) = (signing.scripted.now, Some(signing.scripted.id()));
    let endpoint = &mut signing.scripted.endpoint;
    let longest = vec![7; 65_535];
    assert_eq!(endpoint.set_shared_key(now, id, 1, &longest), Ok(()));
    let too_long = endpoint.set_shared_key(now, id, 1, &[7; 65_536]);
    assert_eq!(too_long, Err(KeyError::TooLong));
    let data = bytes_of(&[Chunk::Data(message(0, b"signed"))]);
    let key = signing.key_of(&longest);
    signing
        .scripted
        .give_raw(&signed(&key, 1, HmacIdentifier::SHA_1, &data));
    assert_eq!(signing.received(), [b"signed"]);
}

#[test]
fn a_key_is_freed_when_the_last_message_with_it_is_acknowledged() {
    let mut pair = pair(&[ChunkType::DATA]);
    let ids = pair.establish();
    let (now, client) = (pair.now, Some(ids.0));
    set_on_both(&mut pair, ids, 1, b"one");
    pair.client_sends(ordered(0), "with the null key");
    pair.to_server.clear();
    let endpoint = &mut pair.client.endpoint;
    assert_eq!(
        endpoint.deactivate_key(now, client, 0),
        Err(KeyError::KeyIsActive)
    );
    endpoint.set_active_key(now, client, 1).unwrap();
    assert_eq!(
        endpoint.delete_key(now, client, 0),
        Err(KeyError::KeyInUse),
        "it was not deactivated"
    );
    endpoint.deactivate_key(now, client, 0).unwrap();
    let sent = endpoint.send(now, ids.0, with_key(0), Bytes::from_static(b"no"));
    assert_eq!(sent, Err(SendError::UnknownKey));
    assert_eq!(endpoint.delete_key(now, client, 0), Err(KeyError::KeyInUse));
    pair.client_sends(ordered(0), "with key 1");
    assert_eq!(indications(&pair.client.events), []);
    // The first message was lost, and goes again with the key that it had.
    pair.run_for(std::time::Duration::from_secs(5));
    assert_eq!(pair.server.receive_all(pair.now, ids.1).len(), 2);
    assert_eq!(
        indications(&pair.client.events),
        [AuthenticationIndication::FreeKey { key: 0 }]
    );
    let deleted = pair.client.endpoint.delete_key(pair.now, client, 0);
    assert_eq!(deleted, Ok(()));
    let deactivated = pair.client.endpoint.deactivate_key(pair.now, client, 0);
    assert_eq!(deactivated, Err(KeyError::UnknownKey));
}

#[test]
fn a_key_that_nothing_needs_is_freed_at_once() {
    let mut pair = pair(&[ChunkType::DATA]);
    let ids = pair.establish();
    set_on_both(&mut pair, ids, 1, b"one");
    let (now, client) = (pair.now, Some(ids.0));
    pair.client.endpoint.deactivate_key(now, client, 1).unwrap();
    pair.collect();
    assert_eq!(
        indications(&pair.client.events),
        [AuthenticationIndication::FreeKey { key: 1 }]
    );
    assert_eq!(pair.client.endpoint.delete_key(now, client, 1), Ok(()));
}

#[test]
fn what_a_deactivated_key_authenticates_is_taken_and_what_a_deleted_one_does_is_not() {
    let mut signing = Signing::accepted(&[ChunkType::DATA], &[]);
    let (now, id) = (signing.scripted.now, Some(signing.scripted.id()));
    let endpoint = &mut signing.scripted.endpoint;
    endpoint.set_shared_key(now, id, 1, b"one").unwrap();
    endpoint.set_active_key(now, id, 1).unwrap();
    endpoint.deactivate_key(now, id, 0).unwrap();
    signing.give_signed(&[Chunk::Data(message(0, b"deactivated"))]);
    assert_eq!(signing.received(), [b"deactivated"]);
    signing.scripted.endpoint.delete_key(now, id, 0).unwrap();
    signing.give_signed(&[Chunk::Data(message(1, b"deleted"))]);
    assert_eq!(signing.received(), [b""; 0]);
}

#[test]
fn a_key_that_is_replaced_signs_nothing_any_more() {
    let mut signing = Signing::accepted(&[ChunkType::DATA], &[ChunkType::DATA.0]);
    let (now, id) = (signing.scripted.now, Some(signing.scripted.id()));
    let endpoint = &mut signing.scripted.endpoint;
    endpoint.set_shared_key(now, id, 0, b"not null").unwrap();
    signing.give_signed(&[Chunk::Data(message(0, b"null key"))]);
    assert_eq!(signing.received(), [b""; 0]);
    signing.key = signing.key_of(b"not null");
    signing.give_signed(&[Chunk::Data(message(0, b"new key"))]);
    assert_eq!(signing.received(), [b"new key"]);
    signing.scripted.take();
    signing.scripted.send(0, b"answer");
    let packets = signing.scripted.take();
    let key = signing.key.clone();
    assert_eq!(checked(&packets[0], |_| key), Some(0));
}

#[test]
fn the_peers_new_key_is_told_when_it_is_used_and_right() {
    let mut signing = Signing::accepted(&[ChunkType::DATA], &[]);
    let (now, id) = (signing.scripted.now, Some(signing.scripted.id()));
    let endpoint = &mut signing.scripted.endpoint;
    endpoint.set_shared_key(now, id, 9, b"nine").unwrap();
    let data = bytes_of(&[Chunk::Data(message(0, b"signed"))]);
    signing
        .scripted
        .give_raw(&signed(b"wrong", 9, HmacIdentifier::SHA_1, &data));
    assert_eq!(indications(&signing.scripted.events), []);
    let key = signing.key_of(b"nine");
    for _ in 0..2 {
        signing
            .scripted
            .give_raw(&signed(&key, 9, HmacIdentifier::SHA_1, &data));
    }
    assert_eq!(
        indications(&signing.scripted.events),
        [AuthenticationIndication::NewKey { key: 9 }]
    );
}

#[test]
fn no_debug_output_shows_a_key() {
    let mut pair = pair(&[ChunkType::DATA]);
    let ids = pair.establish();
    let info = format!("{:?}", with_key(4711));
    assert!(info.contains("4711"), "the identifier is no secret");
    set_on_both(&mut pair, ids, 1, b"hunter2");
    pair.run();
    let shown = format!(
        "{:?} {:?} {:?}",
        pair.client.events,
        pair.client.endpoint.status(ids.0),
        pair.client.endpoint.config()
    );
    assert!(!shown.contains("hunter2"));
}
