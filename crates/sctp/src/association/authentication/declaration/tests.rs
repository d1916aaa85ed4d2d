//! Key vectors, and the HMACs that follow from them. The values were computed by openssl:
//!
//! `openssl dgst -sha1 -mac HMAC -macopt hexkey:KEY FILE`, where `KEY` is the endpoint pair shared key
//! with the two key vectors behind it, put in order by hand, and `FILE` is the AUTH chunk with zeros
//! for an HMAC and the COOKIE ECHO chunk behind it.

use bytes::BytesMut;
use rand::SeedableRng;

use super::*;
use crate::packet::{Chunk, CookieEcho, Packet, PacketSigner, PacketWriter, Protection};

const SHA_1: &[HmacIdentifier] = &[HmacIdentifier::SHA_1];
const BOTH: &[HmacIdentifier] = &[HmacIdentifier::SHA_256, HmacIdentifier::SHA_1];

/// A declaration whose Random Number counts upwards.
fn declared(first: u8, chunks: Option<&[u8]>, hmac_identifiers: &[HmacIdentifier]) -> Declaration {
    let mut random = [0; RANDOM_LENGTH];
    for (byte, value) in random.iter_mut().zip(first..) {
        *byte = value;
    }
    Declaration {
        random,
        chunks: chunks.map(Into::into),
        hmac_identifiers: hmac_identifiers
            .iter()
            .map(|identifier| identifier.to_be_bytes())
            .collect(),
    }
}

/// The HMAC of a packet with a COOKIE ECHO that is signed with key 7, in hexadecimal.
fn hmac(
    algorithm: HmacIdentifier,
    secret: &[u8],
    one: &Declaration,
    other: &Declaration,
) -> String {
    let key = association_key(secret, one, other).expect("a key of any length");
    let requested = [ChunkType::COOKIE_ECHO].into_iter().collect();
    let signer = PacketSigner::new(requested, algorithm, 7, vec![(7, key)]).expect("it is known");
    let mut buffer = BytesMut::new();
    let mut writer = PacketWriter::new(&mut buffer, 1, 2, 3, 1000).protected_by(Protection {
        signer: Some(signer.into()),
        zero_checksum: false,
    });
    let echo = Chunk::CookieEcho(CookieEcho { cookie: b"abc" });
    writer.chunk(&echo).expect("it fits");
    let packet = writer.finish();
    let Some(Ok(Chunk::Auth(auth))) = Packet::read(&packet).expect("a packet").chunks().next()
    else {
        panic!("an AUTH chunk comes first");
    };
    assert_eq!(auth.shared_key_identifier, 7);
    assert_eq!(auth.hmac_identifier, algorithm);
    auth.hmac.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_numerically_smaller_key_vector_comes_first() {
    let chunks = Some(&[0, 0xc1, 0x80][..]);
    let one = declared(0, chunks, BOTH);
    let shorter = declared(0x20, None, SHA_1);
    let larger = declared(0x40, chunks, BOTH);
    for (secret, other, sha_1, sha_256) in [
        (
            &b""[..],
            &shorter,
            "edfa0a78a1ba43a16a959723ed350d53c2214e25",
            "f0d098962364a570cee57e31dbd4ca377c668a02da9a30e70e2e14c006a7aa59",
        ),
        (
            b"secret",
            &shorter,
            "ac4199ecd98a160c52d1198cddf4c86570e8d612",
            "a3a3de69021f33b186ea0b22321d1f6c393c0a8ce2b50f17082330e6ac158a32",
        ),
        (
            b"secret",
            &larger,
            "ae834c7d15eb297a042ab8df9e5723ccfac94576",
            "b8eb48b2df5a2c28b62b972d6179e188713b0906145b70779c566e92efb9b802",
        ),
    ] {
        for (one, other) in [(&one, other), (other, &one)] {
            assert_eq!(hmac(HmacIdentifier::SHA_1, secret, one, other), sha_1);
            assert_eq!(hmac(HmacIdentifier::SHA_256, secret, one, other), sha_256);
        }
    }
}

#[test]
fn vectors_are_compared_as_numbers() {
    for (one, other, order) in [
        (&[1, 2][..], &[1, 3][..], Ordering::Less),
        (&[2], &[1, 1], Ordering::Less),
        (&[0, 0, 2], &[1, 1], Ordering::Less),
        (&[0, 5], &[5], Ordering::Greater),
        (&[0, 0], &[], Ordering::Greater),
        (&[5], &[5], Ordering::Equal),
    ] {
        assert_eq!(compare_as_numbers(one, other), order);
        assert_eq!(compare_as_numbers(other, one), order.reverse());
    }
}

#[test]
fn padding_is_no_part_of_a_key_vector() {
    let vector = declared(0, Some(&[0]), SHA_1).key_vector();
    assert_eq!(vector.len(), 36 + 5 + 6);
    assert_eq!(vector[36..], [0x80, 3, 0, 5, 0, 0x80, 4, 0, 6, 0, 1]);
}

#[test]
fn what_is_written_is_read() {
    for chunks in [None, Some(&[][..]), Some(&[0, 1, 15, 14, 2, 200])] {
        let declaration = declared(9, chunks, BOTH);
        let mut parameters = ParameterBuffer::new();
        declaration.write(&mut parameters);
        let mut reader = DeclarationReader::default();
        for parameter in parameters.parameters() {
            match parameter.expect("sound") {
                Parameter::Random(random) => reader.random(random),
                Parameter::Chunks(chunks) => reader.chunks(chunks),
                Parameter::HmacAlgo(identifiers) => reader.hmac_identifiers(identifiers),
                other => panic!("{other:?}"),
            }
            .expect("it is sound");
        }
        assert_eq!(reader.finish().as_ref(), Some(&declaration));
        let mut cookie = Vec::new();
        declaration.write_to_cookie(&mut cookie);
        for cut in 0..cookie.len() {
            assert_eq!(Declaration::take_from_cookie(&mut &cookie[..cut]), None);
        }
        cookie.push(99);
        let mut rest = &cookie[..];
        let taken = Declaration::take_from_cookie(&mut rest);
        assert_eq!(taken, Some(declaration));
        assert_eq!(rest, [99]);
    }
}

#[test]
fn types_that_cannot_be_authenticated_are_ignored() {
    let declaration = declared(0, Some(&[1, 2, 14, 15, 0, 10]), SHA_1);
    let chunks: Vec<ChunkType> = declaration.chunks().iter().collect();
    assert_eq!(chunks, [ChunkType::DATA, ChunkType::COOKIE_ECHO]);
}

#[test]
fn a_declaration_is_whole_with_random_and_hmac_algo() {
    let random = |reader: &mut DeclarationReader| reader.random(&[7; 32]).expect("32 bytes");
    let hmacs = |reader: &mut DeclarationReader| {
        reader
            .hmac_identifiers(HmacList::new(&[[0, 1]]))
            .expect("SHA-1 is there");
    };
    let mut whole = DeclarationReader::default();
    random(&mut whole);
    let mut without_hmacs = DeclarationReader::default();
    random(&mut without_hmacs);
    let mut without_random = DeclarationReader::default();
    hmacs(&mut without_random);
    hmacs(&mut whole);
    assert!(whole.finish().is_some());
    assert!(without_hmacs.finish().is_none());
    assert!(without_random.finish().is_none());
}

#[test]
fn what_is_against_the_rules_is_refused() {
    let reader = DeclarationReader::default;
    for length in [0, 31, 33] {
        assert!(reader().random(&vec![0; length]).is_err());
    }
    assert!(reader().chunks(ChunkTypeList::new(&[0; 256])).is_ok());
    assert!(reader().chunks(ChunkTypeList::new(&[0; 257])).is_err());
    assert!(reader().hmac_identifiers(HmacList::new(&[])).is_err());
    assert!(reader().hmac_identifiers(HmacList::new(&[[0, 3]])).is_err());
    let many = [[0, 1]; MAX_HMAC_IDENTIFIERS + 1];
    assert!(reader().hmac_identifiers(HmacList::new(&many)).is_err());
    assert!(reader().hmac_identifiers(HmacList::new(&many[1..])).is_ok());
}

#[test]
fn each_association_has_another_random_number() {
    let mut rng = ChaCha12Rng::seed_from_u64(1);
    let first = declared(0, Some(&[0]), BOTH);
    let second = first.renewed(&mut rng);
    let third = first.renewed(&mut rng);
    assert!(first.random != second.random && second.random != third.random);
    assert_eq!(
        Declaration {
            random: first.random,
            ..second
        },
        first
    );
}
