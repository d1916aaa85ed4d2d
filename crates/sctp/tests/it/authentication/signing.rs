//! RFC 4895 once more, written for tests from its text: keys of associations whose INIT and INIT ACK are
//! seen, packets that are signed, and packets that are checked.

use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use sctp::packet::{
    Chunk, ChunkType, ChunkTypeList, CookieEcho, HmacIdentifier, HmacList, Init, Packet, Parameter,
    ParameterBuffer, Parameters,
};
use sha1::Sha1;
use sha2::Sha256;

use super::authenticating;
use crate::rfc9260::scripted::{self, Scripted};

/// The Random Number of the peer that the test plays.
pub(super) const RANDOM: [u8; 32] = *b"the random number of the peer   ";

/// The types of the parameters that make up a key vector, in their order.
const KEY_VECTOR: [u16; 3] = [0x8002, 0x8003, 0x8004];

/// Where the chunks of a packet begin.
const CHUNKS_AT: usize = 12;

/// RANDOM, CHUNKS if there are some, and HMAC-ALGO.
pub(super) fn declaration(chunks: &[u8], hmac_identifiers: &[[u8; 2]]) -> ParameterBuffer {
    let mut parameters = ParameterBuffer::new();
    // The order in which they come is of no importance.
    parameters
        .push(&Parameter::HmacAlgo(HmacList::new(hmac_identifiers)))
        .expect("it is short");
    if !chunks.is_empty() {
        parameters
            .push(&Parameter::Chunks(ChunkTypeList::new(chunks)))
            .expect("it is short");
    }
    parameters
        .push(&Parameter::Random(&RANDOM))
        .expect("it is short");
    parameters
}

/// The key vector that follows from the parameters of an INIT or INIT ACK.
pub(super) fn key_vector(parameters: Parameters<'_>) -> Vec<u8> {
    KEY_VECTOR
        .into_iter()
        .flat_map(|wanted| {
            parameters
                .iter()
                .raw()
                .flatten()
                .find(|tlv| tlv.type_field() == wanted)
        })
        .flat_map(|tlv| tlv.bytes().to_vec())
        .collect()
}

/// The association shared key. All vectors begin with the same number, so a longer one is larger.
pub(super) fn association_key(secret: &[u8], one: &[u8], other: &[u8]) -> Vec<u8> {
    let (small, large) = if (one.len(), one) <= (other.len(), other) {
        (one, other)
    } else {
        (other, one)
    };
    [secret, small, large].concat()
}

/// The HMAC that belongs into the AUTH chunk with which `bytes` begin.
pub(super) fn hmac(key: &[u8], bytes: &[u8]) -> Vec<u8> {
    let length = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
    let mut zeroed = bytes.to_vec();
    zeroed[8..length].fill(0);
    match u16::from_be_bytes([bytes[6], bytes[7]]) {
        1 => {
            let mut mac = Hmac::<Sha1>::new_from_slice(key).expect("any length");
            mac.update(&zeroed);
            mac.finalize().into_bytes().to_vec()
        }
        3 => {
            let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length");
            mac.update(&zeroed);
            mac.finalize().into_bytes().to_vec()
        }
        other => panic!("there is no HMAC {other}"),
    }
}

/// The bytes of an AUTH chunk with the chunks behind it.
pub(super) fn signed(
    key: &[u8],
    key_identifier: u16,
    hmac_identifier: HmacIdentifier,
    chunks: &[u8],
) -> Vec<u8> {
    let length: u16 = match hmac_identifier {
        HmacIdentifier::SHA_1 => 20,
        _ => 32,
    };
    let mut bytes = vec![15, 0];
    bytes.extend_from_slice(&(8 + length).to_be_bytes());
    bytes.extend_from_slice(&key_identifier.to_be_bytes());
    bytes.extend_from_slice(&hmac_identifier.to_be_bytes());
    bytes.resize(usize::from(8 + length), 0);
    bytes.extend_from_slice(chunks);
    let hmac = hmac(key, &bytes);
    bytes[8..usize::from(8 + length)].copy_from_slice(&hmac);
    bytes
}

/// The key identifier of the AUTH chunk of a packet, if it has one, after a look whether it is right:
/// `key` gives the association shared key.
pub(super) fn checked(packet: &Bytes, key: impl FnOnce(u16) -> Vec<u8>) -> Option<u16> {
    let mut at = CHUNKS_AT;
    let mut found = None;
    for raw in Packet::read(packet).expect("a packet").chunks().raw() {
        let raw = raw.expect("sound");
        if raw.chunk_type() == ChunkType::AUTH {
            assert_eq!(found, None, "there is one AUTH chunk at most");
            assert_eq!(raw.flags(), 0);
            found = Some(at);
        }
        at += usize::from(raw.length()).next_multiple_of(4);
    }
    let bytes = &packet[found?..];
    let length = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
    let identifier = u16::from_be_bytes([bytes[4], bytes[5]]);
    assert_eq!(hmac(&key(identifier), bytes), bytes[8..length], "HMAC");
    Some(identifier)
}

/// The types of the chunks of a packet that are not behind an AUTH chunk.
pub(super) fn open_types(packet: &Bytes) -> Vec<ChunkType> {
    crate::common::chunk_types(packet)
        .into_iter()
        .take_while(|chunk_type| *chunk_type != ChunkType::AUTH)
        .collect()
}

/// The INIT or INIT ACK in a packet.
pub(super) fn init_in(packet: &Bytes) -> Option<Init<'_>> {
    match Packet::read(packet).expect("a packet").chunks().next() {
        Some(Ok(Chunk::Init(init) | Chunk::InitAck(init))) => Some(init),
        _ => None,
    }
}

/// The key vector of a side, by the packets that it has sent.
pub(super) fn key_vector_in<'a>(packets: impl IntoIterator<Item = &'a Bytes>) -> Vec<u8> {
    packets
        .into_iter()
        .find_map(|packet| init_in(packet).map(|init| key_vector(init.parameters)))
        .expect("it sent an INIT or INIT ACK")
}

/// An endpoint, and a peer of it that signs.
pub(super) struct Signing {
    pub(super) scripted: Scripted,
    /// The association shared key of the null key.
    pub(super) key: Vec<u8>,
    /// The key vectors of the peer and of the endpoint.
    pub(super) vectors: [Vec<u8>; 2],
    /// The cookie that the endpoint gave out.
    pub(super) cookie: Vec<u8>,
}

impl Signing {
    /// An endpoint that wants `required` authenticated has answered the INIT of a peer that wants
    /// `requested`.
    pub(super) fn answered(required: &[ChunkType], requested: &[u8]) -> Signing {
        let own = declaration(requested, &[[0, 3], [0, 1]]);
        let mut scripted = Scripted::alone(authenticating(required));
        scripted.give_packet(scripted::packet(
            0,
            &[Chunk::Init(Init {
                parameters: own.parameters(),
                ..scripted::init()
            })],
        ));
        let packets = scripted.take();
        let answer = init_in(&packets[0]).expect("an INIT ACK");
        scripted.tag = answer.initiate_tag;
        scripted.tsn = answer.initial_tsn;
        let vectors = [key_vector(own.parameters()), key_vector(answer.parameters)];
        let cookie = answer
            .parameters
            .iter()
            .find_map(|parameter| match parameter {
                Ok(Parameter::StateCookie(cookie)) => Some(cookie.to_vec()),
                _ => None,
            })
            .expect("a cookie");
        Signing {
            key: association_key(b"", &vectors[0], &vectors[1]),
            vectors,
            cookie,
            scripted,
        }
    }

    /// The association is up, and what it said has been taken.
    pub(super) fn accepted(required: &[ChunkType], requested: &[u8]) -> Signing {
        let mut signing = Signing::answered(required, requested);
        let cookie = signing.cookie.clone();
        let echo = Chunk::CookieEcho(CookieEcho { cookie: &cookie });
        if required.contains(&ChunkType::COOKIE_ECHO) {
            signing.give_signed(&[echo]);
        } else {
            signing.scripted.give(&[echo]);
        }
        signing.scripted.take();
        signing
    }

    /// The association shared key that follows from a secret.
    pub(super) fn key_of(&self, secret: &[u8]) -> Vec<u8> {
        association_key(secret, &self.vectors[0], &self.vectors[1])
    }

    /// Gives chunks behind an AUTH chunk.
    pub(super) fn give_signed(&mut self, chunks: &[Chunk<'_>]) {
        let bytes = self.sign(chunks);
        self.scripted.give_raw(&bytes);
    }

    /// Chunks behind an AUTH chunk.
    pub(super) fn sign(&self, chunks: &[Chunk<'_>]) -> Vec<u8> {
        let chunks = scripted::bytes_of(chunks);
        signed(&self.key, 0, HmacIdentifier::SHA_256, &chunks)
    }

    /// What was received, as text.
    pub(super) fn received(&mut self) -> Vec<Vec<u8>> {
        self.scripted
            .receive()
            .into_iter()
            .map(|message| message.payload.to_vec())
            .collect()
    }
}
