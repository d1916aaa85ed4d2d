//! Opening records: the cipher suites of TLS 1.2 with AES-GCM, ChaCha20-Poly1305 (RFC 5288, RFC 5289, RFC 7905) and AES-CBC
//! (RFC 5246, RFC 8422), and of TLS 1.3 (RFC 8446).

use ring::aead::{self, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;

use super::cbc::Cbc;

/// A cipher suite.
#[derive(Clone, Copy)]
pub(super) struct Suite {
    cipher: Cipher,
    /// What keys are made with.
    hash: hmac::Algorithm,
}

/// How records are protected.
#[derive(Clone, Copy)]
enum Cipher {
    /// By authenticated encryption.
    Aead(&'static aead::Algorithm),
    /// By AES in CBC mode, with a key of so many octets, and a MAC.
    Cbc(usize, hmac::Algorithm),
}

impl Suite {
    /// The suite of a number, as IANA has it; `None` for those that are not known here, such as those with CCM.
    pub(super) fn of(number: u16) -> Option<Suite> {
        const SHA_1: hmac::Algorithm = hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY;
        const SHA_256: hmac::Algorithm = hmac::HMAC_SHA256;
        const SHA_384: hmac::Algorithm = hmac::HMAC_SHA384;
        let (cipher, hash) = match number {
            0x1301 | 0x009c | 0x009e | 0x00a8 | 0xc02b | 0xc02d | 0xc02f | 0xc031 => {
                (Cipher::Aead(&aead::AES_128_GCM), SHA_256)
            }
            0x1302 | 0x009d | 0x009f | 0x00a9 | 0xc02c | 0xc02e | 0xc030 | 0xc032 => {
                (Cipher::Aead(&aead::AES_256_GCM), SHA_384)
            }
            0x1303 | 0xcca8..=0xccae => (Cipher::Aead(&aead::CHACHA20_POLY1305), SHA_256),
            0x002f | 0x0033 | 0xc004 | 0xc009 | 0xc00e | 0xc013 => {
                (Cipher::Cbc(16, SHA_1), SHA_256)
            }
            0x0035 | 0x0039 | 0xc005 | 0xc00a | 0xc00f | 0xc014 => {
                (Cipher::Cbc(32, SHA_1), SHA_256)
            }
            0x003c | 0x0067 | 0xc023 | 0xc025 | 0xc027 | 0xc029 => {
                (Cipher::Cbc(16, SHA_256), SHA_256)
            }
            0x003d | 0x006b => (Cipher::Cbc(32, SHA_256), SHA_256),
            0xc024 | 0xc026 | 0xc028 | 0xc02a => (Cipher::Cbc(32, SHA_384), SHA_384),
            _ => return None,
        };
        Some(Suite { cipher, hash })
    }
}

/// Opens the records of one direction, in order.
pub(super) struct Opener {
    suite: Suite,
    key: Key,
    sequence: u64,
    /// What the next keys are made of in TLS 1.3.
    secret: Vec<u8>,
}

enum Key {
    Aead(Box<LessSafeKey>, Iv),
    Cbc(Box<Cbc>),
}

/// What nonces are made of.
#[derive(Clone, Copy)]
enum Iv {
    /// The sequence number changes it (RFC 8446 section 5.3, RFC 7905).
    Whole([u8; NONCE_LEN]),
    /// The rest is in each record (RFC 5288 section 3).
    Salt([u8; 4]),
}

impl Opener {
    /// With the keys that come from a traffic secret of TLS 1.3 (RFC 8446 section 7.3).
    pub(super) fn tls13(suite: Suite, secret: &[u8]) -> Option<Opener> {
        let Cipher::Aead(aead) = suite.cipher else {
            return None;
        };
        let key = expand_label(suite, secret, b"key", aead.key_len())?;
        let iv = expand_label(suite, secret, b"iv", NONCE_LEN)?;
        let key = LessSafeKey::new(UnboundKey::new(aead, &key).ok()?);
        Some(Opener {
            suite,
            key: Key::Aead(Box::new(key), Iv::Whole(*iv.first_chunk()?)),
            sequence: 0,
            secret: secret.to_vec(),
        })
    }

    /// With the keys of client and server that come from a master secret of TLS 1.2 (RFC 5246
    /// section 6.3). `encrypts_then_macs` is whether both have agreed on that (RFC 7366).
    pub(super) fn tls12(
        suite: Suite,
        master: &[u8],
        client_random: &[u8; 32],
        server_random: &[u8; 32],
        encrypts_then_macs: bool,
    ) -> Option<[Opener; 2]> {
        let (mac_length, key_length, iv_length) = match suite.cipher {
            Cipher::Aead(aead) if is_chacha(aead) => (0, aead.key_len(), NONCE_LEN),
            Cipher::Aead(aead) => (0, aead.key_len(), 4),
            Cipher::Cbc(key_length, mac) => (mac.digest_algorithm().output_len(), key_length, 0),
        };
        let seed = [&b"key expansion"[..], server_random, client_random].concat();
        let length = 2 * (mac_length + key_length + iv_length);
        let block = expand(suite, master, &seed, length);
        let (mac_keys, rest) = block.split_at_checked(2 * mac_length)?;
        let (keys, ivs) = rest.split_at_checked(2 * key_length)?;
        let opener = |which: usize| {
            let mac_key = mac_keys.get(which * mac_length..)?.get(..mac_length)?;
            let key = keys.get(which * key_length..)?.get(..key_length)?;
            let iv = ivs.get(which * iv_length..)?;
            let key = match suite.cipher {
                Cipher::Aead(aead) => {
                    let key = LessSafeKey::new(UnboundKey::new(aead, key).ok()?);
                    let iv = match is_chacha(aead) {
                        true => Iv::Whole(*iv.first_chunk()?),
                        false => Iv::Salt(*iv.first_chunk()?),
                    };
                    Key::Aead(Box::new(key), iv)
                }
                Cipher::Cbc(_, mac) => {
                    Key::Cbc(Box::new(Cbc::new(key, mac, mac_key, encrypts_then_macs)?))
                }
            };
            Some(Opener {
                suite,
                key,
                sequence: 0,
                secret: Vec::new(),
            })
        };
        Some([opener(0)?, opener(1)?])
    }

    /// Opens a record of TLS 1.3: gives its content and type.
    pub(super) fn open_tls13(&mut self, header: [u8; 5], body: &[u8]) -> Option<(u8, Vec<u8>)> {
        let Key::Aead(key, Iv::Whole(iv)) = &self.key else {
            return None;
        };
        let mut content = open(key, changed(*iv, self.sequence), &header, body)?;
        self.sequence += 1;
        // The type comes last, before padding (RFC 8446 section 5.4).
        let end = content.iter().rposition(|&octet| octet != 0)?;
        let kind = content[end];
        content.truncate(end);
        Some((kind, content))
    }

    /// Opens a record of TLS 1.2.
    pub(super) fn open_tls12(&mut self, header: [u8; 5], body: &[u8]) -> Option<Vec<u8>> {
        let content = match &self.key {
            Key::Cbc(cbc) => cbc.open(self.sequence, header, body)?,
            Key::Aead(key, iv) => {
                let (nonce, body) = match *iv {
                    Iv::Whole(iv) => (changed(iv, self.sequence), body),
                    Iv::Salt([a, b, c, d]) => {
                        let ([e, f, g, h, i, j, k, l], body) = body.split_first_chunk()?;
                        ([a, b, c, d, *e, *f, *g, *h, *i, *j, *k, *l], body)
                    }
                };
                let tag_length = key.algorithm().tag_len();
                let length = u16::try_from(body.len().checked_sub(tag_length)?).ok()?;
                let [kind, major, minor, ..] = header;
                let additional = [
                    &self.sequence.to_be_bytes()[..],
                    &[kind, major, minor],
                    &length.to_be_bytes(),
                ];
                open(key, nonce, &additional.concat(), body)?
            }
        };
        self.sequence += 1;
        Some(content)
    }

    /// Goes over to the next keys of TLS 1.3 (RFC 8446 section 7.2).
    pub(super) fn update(&mut self) -> Option<()> {
        let length = self.secret.len();
        let secret = expand_label(self.suite, &self.secret, b"traffic upd", length)?;
        *self = Opener::tls13(self.suite, &secret)?;
        Some(())
    }
}

fn is_chacha(aead: &aead::Algorithm) -> bool {
    aead == &aead::CHACHA20_POLY1305
}

/// The nonce of the record with this sequence number.
fn changed(mut iv: [u8; NONCE_LEN], sequence: u64) -> [u8; NONCE_LEN] {
    for (octet, change) in iv[NONCE_LEN - 8..].iter_mut().zip(sequence.to_be_bytes()) {
        *octet ^= change;
    }
    iv
}

/// Opens what authenticated encryption has sealed.
fn open(
    key: &LessSafeKey,
    nonce: [u8; NONCE_LEN],
    additional: &[u8],
    body: &[u8],
) -> Option<Vec<u8>> {
    let mut content = body.to_vec();
    let nonce = Nonce::assume_unique_for_key(nonce);
    let length = key
        .open_in_place(nonce, Aad::from(additional), &mut content)
        .ok()?
        .len();
    content.truncate(length);
    Some(content)
}

/// HKDF-Expand-Label without a context (RFC 8446 section 7.1); of what HKDF makes (RFC 5869 section 2.3) one
/// block is enough for every length that is asked for.
fn expand_label(suite: Suite, secret: &[u8], label: &[u8], length: usize) -> Option<Vec<u8>> {
    let key = hmac::Key::new(suite.hash, secret);
    let label_length = u8::try_from(LABEL_PREFIX.len() + label.len()).ok()?;
    let info = [
        &u16::try_from(length).ok()?.to_be_bytes()[..],
        &[label_length],
        LABEL_PREFIX,
        label,
        &[0, 1],
    ];
    let block = hmac::sign(&key, &info.concat());
    Some(block.as_ref().get(..length)?.to_vec())
}

/// What every label of TLS 1.3 begins with.
const LABEL_PREFIX: &[u8] = b"tls13 ";

/// The pseudorandom function of TLS 1.2 (RFC 5246 section 5).
fn expand(suite: Suite, secret: &[u8], seed: &[u8], length: usize) -> Vec<u8> {
    let key = hmac::Key::new(suite.hash, secret);
    let mut output = Vec::new();
    let mut a = hmac::sign(&key, seed);
    while output.len() < length {
        output.extend(hmac::sign(&key, &[a.as_ref(), seed].concat()).as_ref());
        a = hmac::sign(&key, a.as_ref());
    }
    output.truncate(length);
    output
}
