//! What somebody sends who wants no good.

use bytes::Bytes;
use proptest::prelude::*;
use sctp::AssociationState;
use sctp::packet::{Chunk, ChunkType, HmacIdentifier, Init, ParameterBuffer};

use super::authenticating;
use super::signing::{Signing, declaration, signed};
use crate::rfc9260::scripted::{self, Scripted, bytes_of, message, packet};

#[test]
fn forged_packets_leave_the_association_as_it_is() {
    let mut signing = Signing::accepted(&super::all_types(), &[]);
    let before = signing.scripted.status();
    for number in 0..1000_u32 {
        let chunk = [
            Chunk::Data(message(number, b"forged")),
            Chunk::ShutdownAck,
            Chunk::Abort(sctp::packet::Abort::default()),
            Chunk::Sack(sctp::packet::Sack {
                cumulative_tsn_ack: sctp::packet::Tsn(number),
                a_rwnd: 0,
                packets: 0,
                gap_ack_blocks: Default::default(),
                duplicate_tsns: Default::default(),
            }),
        ][number as usize % 4];
        let bytes = signed(
            &number.to_be_bytes(),
            number as u16 % 3,
            HmacIdentifier::SHA_1,
            &bytes_of(&[chunk]),
        );
        signing.scripted.give_raw(&bytes);
    }
    assert_eq!(signing.scripted.status(), before);
    assert!(signing.scripted.take().is_empty());
    let drops = signing.scripted.endpoint.statistics().drops;
    assert_eq!(drops.not_authentic, 1000);
}

#[test]
fn the_longest_declaration_fits_into_an_init_ack() {
    let chunks: Vec<u8> = (0..=u8::MAX).collect();
    let parameters = declaration(&chunks, &[[0, 1]; 32]);
    let mut scripted = Scripted::alone(authenticating(&super::all_types()));
    scripted.give_packet(packet(
        0,
        &[Chunk::Init(Init {
            parameters: parameters.parameters(),
            ..scripted::init()
        })],
    ));
    let packets = scripted.take();
    let Chunk::InitAck(_) = scripted::chunks(&packets[0])[0] else {
        panic!("an INIT ACK was sent");
    };
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_parameters_of_an_init_do_harm(
        items in proptest::collection::vec(
            (0x8000..0x8009_u16, proptest::collection::vec(any::<u8>(), 0..300)),
            0..8,
        ),
    ) {
        let mut bytes = Vec::new();
        for (parameter_type, value) in &items {
            bytes.extend_from_slice(&parameter_type.to_be_bytes());
            bytes.extend_from_slice(&(value.len() as u16 + 4).to_be_bytes());
            bytes.extend_from_slice(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        let mut scripted = Scripted::alone(authenticating(&[ChunkType::DATA]));
        scripted.give_packet(packet(
            0,
            &[Chunk::Init(Init {
                parameters: sctp::packet::Parameters::new(&bytes),
                ..scripted::init()
            })],
        ));
        let packets = scripted.take();
        prop_assert!(packets.len() <= 1);
        prop_assert_eq!(scripted.endpoint.association_count(), 0);
    }

    #[test]
    fn no_bytes_behind_an_auth_chunk_do_harm(
        right in any::<bool>(),
        front in proptest::collection::vec(any::<u8>(), 0..40),
        behind in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut signing = Signing::accepted(&[ChunkType::DATA], &[ChunkType::DATA.0]);
        let key = if right { signing.key.clone() } else { vec![1] };
        let auth = signed(&key, 0, HmacIdentifier::SHA_256, &behind);
        signing.scripted.give_raw(&[front, auth].concat());
        let sent: Vec<Bytes> = signing.scripted.take();
        prop_assert!(sent.len() <= 1);
    }

    #[test]
    fn a_cookie_with_any_bytes_in_front_makes_no_association(
        front in proptest::collection::vec(any::<u8>(), 4..60),
    ) {
        let mut signing = Signing::answered(&[ChunkType::COOKIE_ECHO], &[]);
        let cookie = signing.cookie.clone();
        let echo = bytes_of(&[Chunk::CookieEcho(sctp::packet::CookieEcho { cookie: &cookie })]);
        let mut auth = front.clone();
        auth[0] = ChunkType::AUTH.0;
        auth.truncate(auth.len() & !3);
        let length = auth.len() as u16;
        auth[2..4].copy_from_slice(&length.to_be_bytes());
        signing.scripted.give_raw(&[auth, echo].concat());
        prop_assert_eq!(signing.scripted.endpoint.association_count(), 0);
    }
}

#[test]
fn many_init_acks_and_no_declaration_end_nothing() {
    let mut scripted = Scripted::cookie_wait(authenticating(&[]));
    let empty = ParameterBuffer::new();
    scripted.give(&[Chunk::InitAck(Init {
        a_rwnd: 0,
        parameters: empty.parameters(),
        ..scripted::init()
    })]);
    assert_eq!(scripted.state(), AssociationState::CookieWait);
}
