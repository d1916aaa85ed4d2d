//! Encrypting what follows the header of a packet.

use std::fmt;

use aes_gcm::Aes256Gcm;
use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::aead::{AeadInOut, KeyInit};
use cfb_mode::cipher::InnerIvInit;
use chacha20poly1305::ChaCha20Poly1305;
use des::Des;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::encryption::{Encryption, TAG_OCTETS};
use crate::header::{HEADER_OCTETS, Kind};

/// The key of an experiment, drawn anew for each. It goes to the receiver unprotected: what is measured is
/// what encryption costs, and nothing is kept secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key(pub [u8; 32]);

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Key(…)")
    }
}

/// Sixty-four hexadecimal digits.
impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let digits: String = self.0.iter().map(|octet| format!("{octet:02x}")).collect();
        serializer.serialize_str(&digits)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut key = [0; 32];
        let is_hexadecimal = text.len() == 64 && text.bytes().all(|one| one.is_ascii_hexdigit());
        for (octet, digits) in key.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = str::from_utf8(digits).unwrap_or_default();
            *octet = u8::from_str_radix(digits, 16).unwrap_or(0);
        }
        if is_hexadecimal {
            Ok(Key(key))
        } else {
            Err(serde::de::Error::custom("a key has 64 hexadecimal digits"))
        }
    }
}

/// A packet's tag does not fit: it was changed on the way, or never was ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forged;

/// A cipher with its key.
pub struct Cipher(State);

enum State {
    None,
    Aes(Box<Aes256Gcm>),
    ChaCha(ChaCha20Poly1305),
    Des(Des),
}

impl fmt::Debug for Cipher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Cipher(…)")
    }
}

impl Cipher {
    /// A cipher; DES takes the first eight octets of the key.
    pub fn new(encryption: Encryption, key: &Key) -> Cipher {
        Cipher(match encryption {
            Encryption::None => State::None,
            Encryption::Aes256Gcm => State::Aes(Box::new(Aes256Gcm::new(&key.0.into()))),
            Encryption::ChaCha20Poly1305 => State::ChaCha(ChaCha20Poly1305::new(&key.0.into())),
            Encryption::DesCfb => {
                let [k0, k1, k2, k3, k4, k5, k6, k7, ..] = key.0;
                State::Des(Des::new(&[k0, k1, k2, k3, k4, k5, k6, k7].into()))
            }
        })
    }

    /// Encrypts what follows the header, in place, and fills the tag in at the packet's end, where the
    /// caller has left room for [`Encryption::overhead`] octets.
    pub fn seal(&self, packet: &mut [u8]) {
        let Some((header, body)) = packet.split_first_chunk_mut::<HEADER_OCTETS>() else {
            return;
        };
        let room = body.len().saturating_sub(TAG_OCTETS);
        match &self.0 {
            State::None => {}
            State::Aes(cipher) => seal(cipher.as_ref(), header, body.split_at_mut(room)),
            State::ChaCha(cipher) => seal(cipher, header, body.split_at_mut(room)),
            State::Des(cipher) => {
                let vector = initialisation_vector(header).into();
                cfb_mode::Encryptor::inner_iv_init(cipher.clone(), &vector).encrypt(body);
            }
        }
    }

    /// Decrypts what follows the header, in place; returns what the sender put in.
    ///
    /// # Errors
    ///
    /// When the tag does not fit.
    pub fn open<'a>(&self, packet: &'a mut [u8]) -> Result<&'a mut [u8], Forged> {
        let (header, body) = packet
            .split_first_chunk_mut::<HEADER_OCTETS>()
            .ok_or(Forged)?;
        let room = body.len().checked_sub(TAG_OCTETS).ok_or(Forged);
        match &self.0 {
            State::None => Ok(body),
            State::Aes(cipher) => open(cipher.as_ref(), header, body.split_at_mut(room?)),
            State::ChaCha(cipher) => open(cipher, header, body.split_at_mut(room?)),
            State::Des(cipher) => {
                let vector = initialisation_vector(header).into();
                cfb_mode::Decryptor::inner_iv_init(cipher.clone(), &vector).decrypt(body);
                Ok(body)
            }
        }
    }
}

/// The run is in the key's place of a fixed part, number and kind make the rest: no nonce is used twice
/// with a key, as long as numbers do not go round.
fn nonce(header: &[u8; HEADER_OCTETS]) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(&header[12..16]);
    nonce[4..].copy_from_slice(&header[24..32]);
    // Numbers that large do not come; the bit tells an echo from what is echoed.
    if header[7] == Kind::Echo.code() {
        nonce[4] ^= 0x80;
    }
    nonce
}

/// The packet's number. It can be foreseen, which this mode should not allow: nothing here depends on its
/// secrets.
fn initialisation_vector(header: &[u8; HEADER_OCTETS]) -> [u8; 8] {
    let mut vector = [0; 8];
    vector.copy_from_slice(&header[24..32]);
    vector[0] ^= header[7];
    vector
}

type Aead12 = aes_gcm::aead::consts::U12;
type Aead16 = aes_gcm::aead::consts::U16;

fn seal<C>(cipher: &C, header: &[u8; HEADER_OCTETS], (text, tag): (&mut [u8], &mut [u8]))
where
    C: AeadInOut<NonceSize = Aead12, TagSize = Aead16>,
{
    let nonce = nonce(header).into();
    let sealed = cipher.encrypt_inout_detached(&nonce, header, InOutBuf::from(text));
    // It fails for packets of many GiB alone.
    if let Ok(sealed) = sealed
        && tag.len() == sealed.len()
    {
        tag.copy_from_slice(&sealed);
    }
}

fn open<'a, C>(
    cipher: &C,
    header: &[u8; HEADER_OCTETS],
    (text, tag): (&'a mut [u8], &mut [u8]),
) -> Result<&'a mut [u8], Forged>
where
    C: AeadInOut<NonceSize = Aead12, TagSize = Aead16>,
{
    let nonce = nonce(header).into();
    let tag: &[u8; TAG_OCTETS] = tag.first_chunk().ok_or(Forged)?;
    let tag = (*tag).into();
    cipher
        .decrypt_inout_detached(&nonce, header, InOutBuf::from(&mut *text), &tag)
        .map_err(|_| Forged)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::clock::Timestamp;
    use crate::header::Header;

    fn packet(encryption: Encryption, kind: Kind, text: &[u8]) -> Vec<u8> {
        let header = Header {
            length: (HEADER_OCTETS + text.len() + encryption.overhead()) as u32,
            kind,
            encryption,
            run: 1,
            experiment: 2,
            number: 3,
            timestamp: Timestamp(4),
        };
        let mut packet = header.to_octets().to_vec();
        packet.extend(text);
        packet.resize(header.length as usize, 0);
        packet
    }

    const KEY: Key = Key([0x5a; 32]);

    #[test]
    fn what_was_sealed_is_opened() {
        for encryption in Encryption::ALL {
            let cipher = Cipher::new(encryption, &KEY);
            for text in [&b""[..], b"x", b"a voice, or a heart: 0123456789"] {
                let plain = packet(encryption, Kind::Data, text);
                let mut sealed = plain.clone();
                cipher.seal(&mut sealed);
                assert_eq!(sealed[..HEADER_OCTETS], plain[..HEADER_OCTETS]);
                if encryption != Encryption::None && !text.is_empty() {
                    assert_ne!(sealed, plain, "{encryption}");
                }
                assert_eq!(cipher.open(&mut sealed).map(|text| &*text), Ok(text));
            }
        }
    }

    /// The vectors of the standards, so that it is these ciphers and not something like them.
    #[test]
    fn ciphers_are_the_standards_own() {
        // NIST's test case 16 begins with this key; the empty message of case 13 has a zero key and nonce.
        let empty = Aes256Gcm::new(&[0; 32].into());
        let tag = empty
            .encrypt_inout_detached(&[0; 12].into(), b"", InOutBuf::from(&mut [][..]))
            .unwrap();
        assert_eq!(hex(&tag), "530f8afbc74536b9a963b4f1c4cb738b");
        // FIPS 81's example of CFB: "Now is the time for all " with key 0123456789abcdef.
        let key = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];
        let vector = [0x12, 0x34, 0x56, 0x78, 0x90, 0xab, 0xcd, 0xef];
        let mut text = *b"Now is the time for all ";
        let cipher = Des::new(&key.into());
        cfb_mode::Encryptor::inner_iv_init(cipher, &vector.into()).encrypt(&mut text);
        assert_eq!(hex(&text[..8]), "f3096249c7f46e51");
    }

    fn hex(octets: &[u8]) -> String {
        octets.iter().map(|octet| format!("{octet:02x}")).collect()
    }

    #[test]
    fn changes_are_seen_where_there_is_a_tag() {
        for encryption in [Encryption::Aes256Gcm, Encryption::ChaCha20Poly1305] {
            let cipher = Cipher::new(encryption, &KEY);
            let mut sealed = packet(encryption, Kind::Data, b"text");
            cipher.seal(&mut sealed);
            for at in [13, 25, 33, HEADER_OCTETS, sealed.len() - 1] {
                let mut changed = sealed.clone();
                changed[at] ^= 1;
                assert_eq!(cipher.open(&mut changed), Err(Forged), "octet {at}");
            }
            let other = Cipher::new(encryption, &Key([0; 32]));
            assert_eq!(other.open(&mut sealed.clone()), Err(Forged));
            assert_eq!(cipher.open(&mut sealed[..HEADER_OCTETS + 9]), Err(Forged));
        }
    }

    #[test]
    fn an_echo_is_another_message() {
        for encryption in &Encryption::ALL[1..] {
            let cipher = Cipher::new(*encryption, &KEY);
            let mut data = packet(*encryption, Kind::Data, b"the same text");
            let mut echo = packet(*encryption, Kind::Echo, b"the same text");
            cipher.seal(&mut data);
            cipher.seal(&mut echo);
            assert_ne!(data[HEADER_OCTETS..], echo[HEADER_OCTETS..]);
        }
    }

    #[test]
    fn names_and_keys_survive() {
        for encryption in Encryption::ALL {
            assert_eq!(encryption.to_string().parse(), Ok(encryption));
            let json = serde_json::to_string(&encryption).unwrap();
            assert_eq!(json, format!("\"{encryption}\""));
        }
        assert!(
            "rot13"
                .parse::<Encryption>()
                .unwrap_err()
                .contains("des-cfb")
        );
        assert!(Encryption::DesCfb.label().contains("insecure"));
        let json = serde_json::to_string(&KEY).unwrap();
        assert_eq!(serde_json::from_str::<Key>(&json).unwrap(), KEY);
        assert!(serde_json::from_str::<Key>("\"12\"").is_err());
        assert_eq!(format!("{KEY:?}"), "Key(…)");
    }

    proptest! {
        #[test]
        fn anything_may_be_opened(mut octets in prop::collection::vec(any::<u8>(), 0..120)) {
            for encryption in Encryption::ALL {
                let cipher = Cipher::new(encryption, &KEY);
                let opened = cipher.open(&mut octets).is_ok();
                prop_assert!(!(opened && encryption.is_secure()));
            }
        }
    }
}
