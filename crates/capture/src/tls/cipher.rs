//! Opening records: the cipher suites with authenticated encryption of TLS 1.2 (RFC 5288, RFC 5289,
//! RFC 7905) and of TLS 1.3 (RFC 8446).

use ring::aead::{self, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;

/// A cipher suite.
#[derive(Clone, Copy)]
pub(super) struct Suite {
    aead: &'static aead::Algorithm,
    hash: hmac::Algorithm,
}

impl Suite {
    /// The suite of a number; `None` for those without authenticated encryption, and for CCM.
    pub(super) fn of(number: u16) -> Option<Suite> {
        let (aead, hash) = match number {
            0x1301 | 0x009c | 0x009e | 0x00a8 | 0xc02b | 0xc02d | 0xc02f | 0xc031 => {
                (&aead::AES_128_GCM, hmac::HMAC_SHA256)
            }
            0x1302 | 0x009d | 0x009f | 0x00a9 | 0xc02c | 0xc02e | 0xc030 | 0xc032 => {
                (&aead::AES_256_GCM, hmac::HMAC_SHA384)
            }
            0x1303 | 0xcca8..=0xccae => (&aead::CHACHA20_POLY1305, hmac::HMAC_SHA256),
            _ => return None,
        };
        Some(Suite { aead, hash })
    }
}

/// Opens the records of one direction, in order.
pub(super) struct Opener {
    suite: Suite,
    key: LessSafeKey,
    iv: Iv,
    sequence: u64,
    /// What the next keys are made of in TLS 1.3.
    secret: Vec<u8>,
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
        let key = expand_label(suite, secret, b"key", suite.aead.key_len())?;
        let iv = expand_label(suite, secret, b"iv", NONCE_LEN)?;
        Some(Opener {
            suite,
            key: LessSafeKey::new(UnboundKey::new(suite.aead, &key).ok()?),
            iv: Iv::Whole(*iv.first_chunk()?),
            sequence: 0,
            secret: secret.to_vec(),
        })
    }

    /// With the keys of client and server that come from a master secret of TLS 1.2 (RFC 5246
    /// section 6.3).
    pub(super) fn tls12(
        suite: Suite,
        master: &[u8],
        client_random: &[u8; 32],
        server_random: &[u8; 32],
    ) -> Option<[Opener; 2]> {
        let is_chacha = suite.aead == &aead::CHACHA20_POLY1305;
        let key_length = suite.aead.key_len();
        let iv_length = if is_chacha { NONCE_LEN } else { 4 };
        let seed = [&b"key expansion"[..], server_random, client_random].concat();
        let block = expand(suite, master, &seed, 2 * (key_length + iv_length));
        let (keys, ivs) = block.split_at_checked(2 * key_length)?;
        let opener = |which: usize| {
            let key = keys.get(which * key_length..)?.get(..key_length)?;
            let iv = ivs.get(which * iv_length..)?;
            Some(Opener {
                suite,
                key: LessSafeKey::new(UnboundKey::new(suite.aead, key).ok()?),
                iv: match is_chacha {
                    true => Iv::Whole(*iv.first_chunk()?),
                    false => Iv::Salt(*iv.first_chunk()?),
                },
                sequence: 0,
                secret: Vec::new(),
            })
        };
        Some([opener(0)?, opener(1)?])
    }

    /// Opens a record of TLS 1.3: gives its content and type.
    pub(super) fn open_tls13(&mut self, header: [u8; 5], body: &[u8]) -> Option<(u8, Vec<u8>)> {
        let Iv::Whole(iv) = self.iv else { return None };
        let mut content = self.open(self.changed(iv), &header, body)?;
        // The type comes last, before padding (RFC 8446 section 5.4).
        let end = content.iter().rposition(|&octet| octet != 0)?;
        let kind = content[end];
        content.truncate(end);
        Some((kind, content))
    }

    /// Opens a record of TLS 1.2.
    pub(super) fn open_tls12(&mut self, header: [u8; 5], body: &[u8]) -> Option<Vec<u8>> {
        let (nonce, body) = match self.iv {
            Iv::Whole(iv) => (self.changed(iv), body),
            Iv::Salt([a, b, c, d]) => {
                let ([e, f, g, h, i, j, k, l], body) = body.split_first_chunk()?;
                ([a, b, c, d, *e, *f, *g, *h, *i, *j, *k, *l], body)
            }
        };
        let length = u16::try_from(body.len().checked_sub(self.suite.aead.tag_len())?).ok()?;
        let [kind, major, minor, ..] = header;
        let additional = [
            &self.sequence.to_be_bytes()[..],
            &[kind, major, minor],
            &length.to_be_bytes(),
        ];
        self.open(nonce, &additional.concat(), body)
    }

    /// Goes over to the next keys of TLS 1.3 (RFC 8446 section 7.2).
    pub(super) fn update(&mut self) -> Option<()> {
        let length = self.secret.len();
        let secret = expand_label(self.suite, &self.secret, b"traffic upd", length)?;
        *self = Opener::tls13(self.suite, &secret)?;
        Some(())
    }

    /// The nonce of the next record.
    fn changed(&self, mut iv: [u8; NONCE_LEN]) -> [u8; NONCE_LEN] {
        let sequence = self.sequence.to_be_bytes();
        for (octet, change) in iv[NONCE_LEN - 8..].iter_mut().zip(sequence) {
            *octet ^= change;
        }
        iv
    }

    fn open(&mut self, nonce: [u8; NONCE_LEN], additional: &[u8], body: &[u8]) -> Option<Vec<u8>> {
        let mut content = body.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        let length = self
            .key
            .open_in_place(nonce, Aad::from(additional), &mut content)
            .ok()?
            .len();
        content.truncate(length);
        self.sequence += 1;
        Some(content)
    }
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
