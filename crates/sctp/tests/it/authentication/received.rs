//! What arrives (RFC 4895 sections 5.1 and 6.3).

use sctp::packet::{
    Abort, Cause, CauseCode, Chunk, ChunkType, Heartbeat, HmacIdentifier, OperationError,
    Parameters, Shutdown,
};
use sctp::{AssociationState, Event};

use super::authenticating;
use super::signing::{Signing, declaration, signed};
use crate::rfc9260::scripted::{
    PEER_TAG, Scripted, bytes_of, chunks, init, message, peer, raw, types,
};

const DATA: ChunkType = ChunkType::DATA;

#[test]
fn chunks_that_are_authenticated_are_taken() {
    let mut signing = Signing::accepted(&[DATA], &[]);
    signing.give_signed(&[Chunk::Data(message(0, b"signed"))]);
    assert_eq!(signing.received(), [b"signed"]);
    let drops = signing.scripted.endpoint.statistics().drops;
    assert_eq!((drops.not_authentic, drops.not_authenticated), (0, 0));
}

#[test]
fn chunks_that_have_to_be_authenticated_and_are_not_are_dropped_silently() {
    let mut signing = Signing::accepted(&[DATA], &[]);
    let scripted = &mut signing.scripted;
    scripted.give(&[
        Chunk::Data(message(0, b"open")),
        Chunk::Heartbeat(Heartbeat {
            parameters: Parameters::new(&[0, 1, 0, 4]),
        }),
    ]);
    assert_eq!(scripted.receive(), []);
    assert_eq!(types(&scripted.take()), [[ChunkType::HEARTBEAT_ACK]]);
    let drops = scripted.endpoint.statistics().drops;
    assert_eq!((drops.not_authentic, drops.not_authenticated), (0, 1));
    signing.give_signed(&[Chunk::Data(message(0, b"signed"))]);
    assert_eq!(signing.received(), [b"signed"]);
}

#[test]
fn only_what_is_behind_the_auth_chunk_is_authenticated() {
    let mut signing = Signing::accepted(&[DATA], &[]);
    let open = bytes_of(&[Chunk::Data(message(0, b"in front"))]);
    let behind = signing.sign(&[Chunk::Data(message(1, b"behind"))]);
    signing.scripted.give_raw(&[open, behind].concat());
    assert_eq!(signing.scripted.status().pending_receipt, 1);
    signing.give_signed(&[Chunk::Data(message(0, b"again"))]);
    assert_eq!(signing.received(), [&b"again"[..], b"behind"]);
}

#[test]
fn what_is_in_front_of_a_wrong_auth_chunk_is_processed() {
    let mut signing = Signing::accepted(&[], &[]);
    let front = bytes_of(&[Chunk::Heartbeat(Heartbeat {
        parameters: Parameters::new(&[0, 1, 0, 4]),
    })]);
    let mut behind = signing.sign(&[Chunk::Data(message(0, b"behind"))]);
    behind[8] ^= 1;
    signing.scripted.give_raw(&[front, behind].concat());
    assert_eq!(
        types(&signing.scripted.take()),
        [[ChunkType::HEARTBEAT_ACK]]
    );
    assert_eq!(signing.received(), [b""; 0]);
    assert_eq!(
        signing.scripted.endpoint.statistics().drops.not_authentic,
        1
    );
}

#[test]
fn every_bit_of_the_authenticated_part_counts() {
    let mut signing = Signing::accepted(&[DATA], &[]);
    // The padding does, too.
    let right = signing.sign(&[Chunk::Data(message(0, b"abcde"))]);
    assert!(right.len() > 8 + 32 + 16 + 5);
    let mut wrong = 0;
    // The first byte is the type: another one would make it another chunk.
    for bit in 8..8 * right.len() {
        let mut altered = right.clone();
        altered[bit / 8] ^= 1 << (bit % 8);
        signing.scripted.give_raw(&altered);
        assert_eq!(signing.received(), [b""; 0], "bit {bit}");
        wrong += 1;
        // Nothing is said, but that we did not list an algorithm.
        for chunk in signing.scripted.take().iter().flat_map(chunks) {
            assert!(matches!(chunk, Chunk::Error(_)), "{chunk:?}");
        }
    }
    assert_eq!(signing.scripted.state(), AssociationState::Established);
    let drops = signing.scripted.endpoint.statistics().drops;
    assert!(drops.not_authentic > wrong / 2);
    signing.scripted.give_raw(&right);
    assert_eq!(signing.received(), [b"abcde"]);
}

#[test]
fn flags_of_an_auth_chunk_are_ignored_but_signed() {
    let mut signing = Signing::accepted(&[DATA], &[]);
    let mut bytes = signing.sign(&[Chunk::Data(message(0, b"flags"))]);
    bytes[1] = 0xff;
    let hmac = super::signing::hmac(&signing.key, &bytes);
    bytes[8..40].copy_from_slice(&hmac);
    signing.scripted.give_raw(&bytes);
    assert_eq!(signing.received(), [b"flags"]);
}

#[test]
fn either_algorithm_that_we_listed_is_taken() {
    for algorithm in [HmacIdentifier::SHA_1, HmacIdentifier::SHA_256] {
        let mut signing = Signing::accepted(&[DATA], &[]);
        let data = bytes_of(&[Chunk::Data(message(0, b"signed"))]);
        let bytes = signed(&signing.key, 0, algorithm, &data);
        signing.scripted.give_raw(&bytes);
        assert_eq!(signing.received(), [b"signed"]);
    }
}

#[test]
fn an_algorithm_that_we_did_not_list_is_answered_by_an_error() {
    for algorithm in [0, 2, 4, 0xffff] {
        let mut signing = Signing::accepted(&[DATA], &[]);
        let mut bytes = signing.sign(&[Chunk::Data(message(0, b"signed"))]);
        bytes[6..8].copy_from_slice(&u16::to_be_bytes(algorithm));
        signing.scripted.give_raw(&bytes);
        assert_eq!(signing.received(), [b""; 0]);
        let packets = signing.scripted.take();
        let [Chunk::Error(error)] = chunks(&packets[0])[..] else {
            panic!("an ERROR was sent");
        };
        assert_eq!(error.causes.as_bytes()[..4], [1, 5, 0, 6]);
        assert_eq!(
            error.causes.iter().next(),
            Some(Ok(Cause::UnsupportedHmacIdentifier {
                hmac_identifier: HmacIdentifier(algorithm)
            }))
        );
        assert_eq!(
            signing.scripted.endpoint.statistics().drops.not_authentic,
            1
        );
    }
}

#[test]
fn an_hmac_of_another_length_is_wrong() {
    for length in [0, 19, 20, 31, 33] {
        let mut signing = Signing::accepted(&[DATA], &[]);
        let right = signing.sign(&[Chunk::Data(message(0, b"signed"))]);
        let mut bytes = right[..8].to_vec();
        bytes[2..4].copy_from_slice(&(8 + length as u16).to_be_bytes());
        bytes.extend_from_slice(&[right[8..40].to_vec(), vec![0]].concat()[..length]);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend_from_slice(&right[40..]);
        signing.scripted.give_raw(&bytes);
        assert_eq!(signing.received(), [b""; 0]);
        assert_eq!(
            signing.scripted.endpoint.statistics().drops.not_authentic,
            1
        );
    }
}

#[test]
fn an_unknown_key_drops_all_authenticated_chunks_silently() {
    let mut signing = Signing::accepted(&[DATA], &[]);
    let data = bytes_of(&[Chunk::Data(message(0, b"signed"))]);
    let bytes = signed(&signing.key, 1, HmacIdentifier::SHA_256, &data);
    signing.scripted.give_raw(&bytes);
    assert_eq!(signing.received(), [b""; 0]);
    assert!(signing.scripted.take().is_empty());
    assert_eq!(
        signing.scripted.endpoint.statistics().drops.not_authentic,
        1
    );
    // Once the user has set it, it is used.
    let (now, id) = (signing.scripted.now, signing.scripted.id());
    let set = signing
        .scripted
        .endpoint
        .set_shared_key(now, Some(id), 1, b"secret");
    assert_eq!(set, Ok(()));
    let key = signing.key_of(b"secret");
    let bytes = signed(&key, 1, HmacIdentifier::SHA_256, &data);
    signing.scripted.give_raw(&bytes);
    assert_eq!(signing.received(), [b"signed"]);
}

#[test]
fn there_is_one_auth_chunk_in_a_packet() {
    let mut signing = Signing::accepted(&[DATA], &[]);
    let inner = signing.sign(&[Chunk::Data(message(0, b"signed"))]);
    let both = signed(&signing.key, 0, HmacIdentifier::SHA_256, &inner);
    signing.scripted.give_raw(&both);
    assert_eq!(signing.received(), [b""; 0]);
    assert_eq!(
        signing.scripted.endpoint.statistics().drops.not_authentic,
        1
    );
}

#[test]
fn a_malformed_auth_chunk_takes_everything_behind_it_along() {
    for auth in [&[15, 0, 0, 4][..], &[15, 0, 0, 7, 0, 0, 0, 0]] {
        let mut signing = Signing::accepted(&[], &[]);
        let data = bytes_of(&[Chunk::Data(message(0, b"behind"))]);
        signing.scripted.give_raw(&[auth, &data].concat());
        assert_eq!(signing.received(), [b""; 0]);
        assert_eq!(
            signing.scripted.endpoint.statistics().drops.not_authentic,
            1
        );
    }
}

#[test]
fn without_authentication_an_auth_chunk_is_unknown() {
    // Its highest bits say so: it and everything behind it is discarded silently.
    let mut scripted = Scripted::accepted(authenticating(&[]));
    let data = bytes_of(&[Chunk::Data(message(0, b"behind"))]);
    let bytes = signed(b"", 0, HmacIdentifier::SHA_256, &data);
    scripted.give_raw(&bytes);
    assert_eq!(scripted.receive(), []);
    assert!(scripted.take().is_empty());
    assert_eq!(scripted.endpoint.statistics().drops.chunks, 1);
    let mut scripted = Scripted::alone(authenticating(&[]));
    let cookie = scripted.cookie_for(init());
    let echo = bytes_of(&[Chunk::CookieEcho(sctp::packet::CookieEcho {
        cookie: &cookie,
    })]);
    scripted.give_raw(&signed(b"", 0, HmacIdentifier::SHA_256, &echo));
    assert!(scripted.events.is_empty());
    scripted.echo(&cookie, &[]);
    assert!(!scripted.events.is_empty());
}

#[test]
fn a_repeated_packet_is_authentic_and_changes_nothing() {
    let mut signing = Signing::accepted(&[DATA], &[]);
    let bytes = signing.sign(&[Chunk::Data(message(0, b"once"))]);
    for _ in 0..3 {
        signing.scripted.give_raw(&bytes);
    }
    assert_eq!(signing.received(), [b"once"]);
    assert_eq!(
        signing.scripted.endpoint.statistics().duplicates_received,
        2
    );
}

#[test]
fn an_association_that_is_to_be_aborted_by_its_peer_alone_outlives_forgeries() {
    let abort = |tag_reflected| {
        Chunk::Abort(Abort {
            tag_reflected,
            ..Abort::default()
        })
    };
    let mut signing = Signing::accepted(&[ChunkType::ABORT], &[]);
    let scripted = &mut signing.scripted;
    scripted.give(&[abort(false)]);
    // One with the peer's tag, reflected, as from a peer that has lost the association.
    scripted.give_packet(raw(PEER_TAG, &bytes_of(&[abort(true)])));
    assert_eq!(scripted.state(), AssociationState::Established);
    assert_eq!(scripted.endpoint.statistics().drops.not_authenticated, 2);
    assert!(scripted.take().is_empty());
    signing.give_signed(&[abort(false)]);
    assert!(matches!(
        signing.scripted.events.last(),
        Some(Event::CommunicationLost { .. })
    ));
}

#[test]
fn every_chunk_type_can_be_required() {
    let shutdown = |signing: &Signing| {
        Chunk::Shutdown(Shutdown {
            cumulative_tsn_ack: signing.scripted.tsn.previous(),
        })
    };
    let mut signing = Signing::accepted(&super::all_types(), &[]);
    signing.scripted.give(&[
        shutdown(&signing),
        Chunk::Error(OperationError::default()),
        Chunk::Data(message(0, b"open")),
        Chunk::CookieAck,
        Chunk::ShutdownAck,
    ]);
    signing.scripted.give_raw(&[0xff, 0, 0, 4]);
    assert_eq!(signing.scripted.state(), AssociationState::Established);
    assert_eq!(
        signing
            .scripted
            .endpoint
            .statistics()
            .drops
            .not_authenticated,
        6
    );
    let chunk = shutdown(&signing);
    signing.give_signed(&[chunk]);
    assert_eq!(signing.scripted.state(), AssociationState::ShutdownAckSent);
}

#[test]
fn out_of_the_blue_the_auth_chunk_is_not_taken_into_account() {
    let sign = |chunks: &[Chunk<'_>]| signed(b"key", 5, HmacIdentifier::SHA_1, &bytes_of(chunks));
    for (chunk, answer) in [
        (Chunk::ShutdownAck, Some(ChunkType::SHUTDOWN_COMPLETE)),
        (Chunk::CookieAck, None),
        (Chunk::Abort(Abort::default()), None),
        (Chunk::Data(message(0, b"lost")), Some(ChunkType::ABORT)),
        (
            Chunk::CookieEcho(sctp::packet::CookieEcho { cookie: b"lost" }),
            None,
        ),
    ] {
        let packet = raw(77, &sign(&[chunk]));
        let alone = sctp::answer_out_of_the_blue(peer(), &packet);
        let of_nobody = alone.map(|transmit| types(&[transmit.packet])[0][0]);
        assert_eq!(of_nobody, answer, "{chunk:?}");
        let mut scripted = Scripted::alone(authenticating(&[]));
        scripted.give_packet(packet);
        let answers = types(&scripted.take());
        assert_eq!(answers.first().map(|types| types[0]), answer, "{chunk:?}");
    }
}

#[test]
fn a_malformed_packet_does_not_end_an_association_that_only_its_peer_may_end() {
    let mut signing = Signing::accepted(&super::all_types(), &[]);
    // A DATA chunk without user data would be answered by ABORT.
    signing.scripted.give(&[Chunk::Data(message(0, b""))]);
    assert_eq!(signing.scripted.state(), AssociationState::Established);
    assert!(signing.scripted.take().is_empty());
}

#[test]
fn an_error_for_an_unknown_algorithm_is_authenticated_if_it_has_to_be() {
    let mut signing = Signing::accepted(&[], &[ChunkType::ERROR.0]);
    let mut bytes = signing.sign(&[Chunk::Data(message(0, b"signed"))]);
    bytes[7] = 9;
    signing.scripted.give_raw(&bytes);
    let packets = signing.scripted.take();
    assert_eq!(types(&packets), [[ChunkType::AUTH, ChunkType::ERROR]]);
    let key = signing.key.clone();
    assert_eq!(super::signing::checked(&packets[0], |_| key), Some(0));
    let cause = CauseCode::UNSUPPORTED_HMAC_IDENTIFIER;
    assert_eq!(cause.0, 0x0105);
    // The declarations of both sides were as the test thinks.
    let own = declaration(&[ChunkType::ERROR.0], &[[0, 3], [0, 1]]);
    assert_eq!(
        super::signing::key_vector(own.parameters()),
        signing.vectors[0]
    );
}
