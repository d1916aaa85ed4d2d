//! What is sent (RFC 4895 section 6.2): all that the peer asks for is behind an AUTH chunk that is
//! right.

use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use sctp::packet::{ChunkType, HmacIdentifier};
use sctp::{AssociationState, Event};

use super::signing::{Signing, association_key, checked, key_vector_in, open_types};
use super::{all_types, authenticating, pair};
use crate::common::{Pair, chunk_types, message, ordered, transfer};
use crate::rfc9260::scripted::{self, types};
use sctp::packet::{Chunk, Heartbeat, Parameters};

/// Looks at everything that both sides have sent so far. The lists say what the client and the server
/// want authenticated. Gives how many packets were authenticated.
fn check_all(pair: &Pair, client: &[ChunkType], server: &[ChunkType]) -> usize {
    let packets_of = |sent: &[(std::time::Instant, Bytes)]| -> Vec<Bytes> {
        sent.iter().map(|(_, packet)| packet.clone()).collect()
    };
    let (by_client, by_server) = (packets_of(&pair.client.sent), packets_of(&pair.server.sent));
    let vectors = [key_vector_in(&by_client), key_vector_in(&by_server)];
    let key = association_key(b"", &vectors[0], &vectors[1]);
    let mut authenticated = 0;
    for (packets, requested) in [(by_client, server), (by_server, client)] {
        for packet in &packets {
            let found = checked(packet, |identifier| {
                assert_eq!(identifier, 0);
                key.clone()
            });
            authenticated += usize::from(found.is_some());
            for chunk_type in open_types(packet) {
                assert!(!requested.contains(&chunk_type), "{chunk_type} is open");
            }
        }
    }
    authenticated
}

#[test]
fn a_whole_life_is_authenticated_where_each_side_asks_for_it() {
    let everything = all_types();
    let data = vec![ChunkType::DATA];
    let answers = vec![
        ChunkType::SACK,
        ChunkType::HEARTBEAT_ACK,
        ChunkType::COOKIE_ACK,
        ChunkType::SHUTDOWN_ACK,
    ];
    for (client, server, is_any) in [
        (vec![], vec![], false),
        // The server sends no data.
        (data.clone(), vec![], false),
        (vec![], data.clone(), true),
        (answers.clone(), data, true),
        (everything.clone(), answers, true),
        (everything.clone(), everything.clone(), true),
    ] {
        let config = |chunks: &[ChunkType]| {
            authenticating(chunks)
                .heartbeats(true)
                .path_mtu_discovery(true)
        };
        let mut pair = Pair::with(config(&client), config(&server));
        let (id, _) = pair.establish();
        let received = transfer(&mut pair, 50, 5000, ordered(0));
        assert_eq!(received.len(), 50);
        pair.run_for(Duration::from_secs(100));
        pair.client.endpoint.shutdown(pair.now, id).unwrap();
        pair.run();
        assert!(pair.client.is_shut_down() && pair.server.is_shut_down());
        let authenticated = check_all(&pair, &client, &server);
        assert_eq!(authenticated > 0, is_any);
        for host in [&pair.client, &pair.server] {
            let drops = host.endpoint.statistics().drops;
            assert_eq!((drops.not_authentic, drops.not_authenticated), (0, 0));
            for (_, packet) in &host.sent {
                assert!(packet.len() <= 1472);
            }
        }
    }
}

#[test]
fn packets_are_as_full_as_they_may_be_and_no_fuller() {
    for chunks in [vec![], vec![ChunkType::DATA], all_types()] {
        let mut pair = pair(&chunks);
        pair.establish();
        let before = pair.client.sent.len();
        transfer(&mut pair, 20, 100_000, ordered(0));
        let sizes: Vec<usize> = pair.client.sent[before..]
            .iter()
            .map(|(_, packet)| packet.len())
            .collect();
        let largest = sizes.iter().copied().max().unwrap();
        // IPv4 and UDP take 28 of 1500 bytes.
        assert!((1460..=1472).contains(&largest), "{largest}");
    }
}

#[test]
fn one_auth_chunk_stands_in_front_of_the_first_chunk_that_needs_it() {
    let mut signing = Signing::accepted(&[], &[ChunkType::DATA.0]);
    let scripted = &mut signing.scripted;
    scripted.give(&[
        Chunk::Data(scripted::message(0, b"acknowledge me")),
        Chunk::Heartbeat(Heartbeat {
            parameters: Parameters::new(&[0, 1, 0, 4]),
        }),
    ]);
    scripted.send(0, b"one");
    scripted.send(1, b"two");
    let packets = scripted.take();
    assert_eq!(
        types(&packets),
        [[
            ChunkType::HEARTBEAT_ACK,
            ChunkType::SACK,
            ChunkType::AUTH,
            ChunkType::DATA,
            ChunkType::DATA
        ]]
    );
    let key = signing.key.clone();
    assert_eq!(checked(&packets[0], |_| key), Some(0));
}

#[test]
fn packets_for_nothing_that_needs_it_have_no_auth_chunk() {
    let mut signing = Signing::accepted(&[], &[ChunkType::ABORT.0]);
    signing.scripted.send(0, b"open");
    assert_eq!(types(&signing.scripted.take()), [[ChunkType::DATA]]);
    let (now, id) = (signing.scripted.now, signing.scripted.id());
    signing.scripted.endpoint.abort(now, id, b"bye").unwrap();
    let packets = signing.scripted.take();
    assert_eq!(types(&packets), [[ChunkType::AUTH, ChunkType::ABORT]]);
    let key = signing.key.clone();
    assert_eq!(checked(&packets[0], |_| key), Some(0));
}

#[test]
fn without_bundling_data_still_comes_with_its_auth_chunk() {
    let config = || authenticating(&[ChunkType::DATA]).bundling(false);
    let mut pair = Pair::with(config(), config());
    pair.establish();
    let received = transfer(&mut pair, 20, 3000, ordered(0));
    assert_eq!(received.len(), 20);
    for (_, packet) in &pair.client.sent {
        let data = chunk_types(packet)
            .into_iter()
            .filter(|chunk_type| *chunk_type == ChunkType::DATA);
        assert!(data.count() <= 1);
    }
    check_all(&pair, &[ChunkType::DATA], &[ChunkType::DATA]);
}

#[test]
fn the_algorithm_is_the_one_that_the_peer_prefers() {
    let with = |hmac_identifiers: &[HmacIdentifier]| {
        authenticating(&[ChunkType::DATA, ChunkType::SACK])
            .hmac_identifiers(hmac_identifiers.to_vec())
    };
    let mut pair = Pair::with(
        with(&[HmacIdentifier::SHA_1]),
        with(&[HmacIdentifier::SHA_256, HmacIdentifier::SHA_1]),
    );
    pair.establish();
    assert_eq!(transfer(&mut pair, 3, 100, ordered(0)).len(), 3);
    let lengths = |sent: &[(std::time::Instant, Bytes)]| -> Vec<usize> {
        let mut lengths: Vec<usize> = sent
            .iter()
            .flat_map(|(_, packet)| scripted::chunks(packet))
            .filter_map(|chunk| match chunk {
                Chunk::Auth(auth) => Some(auth.hmac.len()),
                _ => None,
            })
            .collect();
        lengths.dedup();
        lengths
    };
    assert_eq!(lengths(&pair.client.sent), [32]);
    assert_eq!(lengths(&pair.server.sent), [20]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is lost, repeated, altered or comes in another order: messages arrive once, in order,
    /// and whole.
    #[test]
    fn loss_and_forgeries_change_nothing(
        seed in 1..1000_u64,
        fates in proptest::collection::vec(0..10_u8, 1..100),
        list in proptest::collection::vec(0..=u8::MAX, 0..8),
    ) {
        let mut chunks: Vec<ChunkType> = list
            .into_iter()
            .map(ChunkType)
            .filter(|chunk_type| chunk_type.can_be_authenticated())
            .collect();
        // An altered chunk that needs no authentication would be taken, checksum or not.
        chunks.extend([ChunkType::DATA, ChunkType::SACK]);
        let mut pair = Pair::seeded(authenticating(&chunks), authenticating(&chunks), seed);
        let (client, server) = pair.establish();
        let mut fates = fates.into_iter().cycle();
        // So many losses at the worst, and the association outlives them.
        let mut since_loss = 0;
        let mut received = Vec::new();
        for number in 0..30 {
            pair.client
                .endpoint
                .send(pair.now, client, ordered(0), message(number, 700))
                .unwrap();
        }
        for _ in 0..3000 {
            pair.collect();
            let packet = match pair.to_server.pop_front() {
                Some(packet) => Some((true, packet)),
                None => pair.to_client.pop_front().map(|packet| (false, packet)),
            };
            let Some((to_server, packet)) = packet else {
                let news = pair.server.receive_all(pair.now, server);
                received.extend(news.into_iter().map(|message| message.payload));
                pair.collect();
                if received.len() == 30 {
                    break;
                }
                if pair.to_client.is_empty() && pair.to_server.is_empty() {
                    prop_assert!(pair.advance());
                }
                continue;
            };
            let mut give = |packet| {
                if to_server {
                    pair.give_server(packet);
                } else {
                    pair.give_client(packet);
                }
            };
            let fate = fates.next().unwrap();
            let is_lost = fate == 0 && since_loss >= 2;
            since_loss = if is_lost { 0 } else { since_loss + 1 };
            match fate {
                0 if is_lost => {}
                1 => {
                    give(packet.clone());
                    give(packet);
                }
                2 => {
                    let at = 40 + seed as usize % 8;
                    give(crate::common::altered(&packet, |bytes| {
                        if let Some(byte) = bytes.get_mut(at) {
                            *byte ^= 0x10;
                        }
                    }));
                    give(packet);
                }
                _ => give(packet),
            }
        }
        let expected: Vec<Bytes> = (0..30).map(|number| message(number, 700)).collect();
        prop_assert_eq!(received, expected);
        let state = pair.client.endpoint.status(client).unwrap().state;
        prop_assert_eq!(state, AssociationState::Established);
        let is_lost = |event: &Event| matches!(event, Event::CommunicationLost { .. });
        prop_assert!(!pair.server.events.iter().any(is_lost));
        check_all(&pair, &chunks, &chunks);
    }
}
