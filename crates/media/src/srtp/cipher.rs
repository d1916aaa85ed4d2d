//! What the suites do to the octets of a packet: key derivation (RFC 3711 section 4.3), AES in counter mode with HMAC-SHA1
//! (sections 4.1.1 and 4.2.1), and AES-GCM (RFC 7714 sections 8 and 9).

use std::fmt;

use aes::cipher::{KeyIvInit, StreamCipher};
use aes::{Aes128, Aes256};
use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::{Aes128Gcm, Aes256Gcm};
use ctr::Ctr128BE;
use hmac::{Hmac, Mac};
use sha1::Sha1;

use super::{INDEX_OCTETS, RTCP_HEADER_OCTETS, SrtpError};

const KEY_OCTETS: usize = 16;
const LONG_KEY_OCTETS: usize = 32;
/// Of counter mode (RFC 3711 section 4.1.1); the salt of GCM has two octets fewer (RFC 7714 section 12).
const SALT_OCTETS: usize = 14;
const GCM_SALT_OCTETS: usize = 12;
const AUTHENTICATION_KEY_OCTETS: usize = 20;
/// HMAC-SHA1, of which the suite takes so many octets for RTP.
const HMAC_OCTETS: usize = 20;
const LONG_TAG_OCTETS: usize = 10;
const SHORT_TAG_OCTETS: usize = 4;
/// Of both HMAC suites: reports always have the long one (RFC 4568 section 6.2.2).
const TAG_OCTETS_OF_RTCP: usize = LONG_TAG_OCTETS;
const GCM_TAG_OCTETS: usize = 16;

/// The longest key with its salt.
pub const MAX_KEY_AND_SALT_OCTETS: usize = LONG_KEY_OCTETS + GCM_SALT_OCTETS;

/// Encryption and authentication (RFC 4568 section 6.2, RFC 7714 section 14.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suite {
    /// AES-256-GCM.
    AeadAes256Gcm,
    /// AES-128-GCM.
    AeadAes128Gcm,
    /// AES-128 in counter mode, with a tag of 80 bits.
    AesCm128HmacSha1_80,
    /// AES-128 in counter mode, with a tag of 32 bits in RTP.
    AesCm128HmacSha1_32,
}

impl Suite {
    /// All, the strongest first.
    pub const ALL: [Suite; 4] = [
        Suite::AeadAes256Gcm,
        Suite::AeadAes128Gcm,
        Suite::AesCm128HmacSha1_80,
        Suite::AesCm128HmacSha1_32,
    ];

    /// The name in `a=crypto`.
    pub fn name(self) -> &'static str {
        match self {
            Suite::AeadAes256Gcm => "AEAD_AES_256_GCM",
            Suite::AeadAes128Gcm => "AEAD_AES_128_GCM",
            Suite::AesCm128HmacSha1_80 => "AES_CM_128_HMAC_SHA1_80",
            Suite::AesCm128HmacSha1_32 => "AES_CM_128_HMAC_SHA1_32",
        }
    }

    /// The suite of a name.
    pub fn named(name: &str) -> Option<Suite> {
        Suite::ALL.into_iter().find(|suite| suite.name() == name)
    }

    /// Octets of the master key.
    pub fn key_octets(self) -> usize {
        match self {
            Suite::AeadAes256Gcm => LONG_KEY_OCTETS,
            Suite::AeadAes128Gcm | Suite::AesCm128HmacSha1_80 | Suite::AesCm128HmacSha1_32 => {
                KEY_OCTETS
            }
        }
    }

    /// Octets of the master key and salt.
    pub fn key_and_salt_octets(self) -> usize {
        let salt = match self {
            Suite::AeadAes256Gcm | Suite::AeadAes128Gcm => GCM_SALT_OCTETS,
            Suite::AesCm128HmacSha1_80 | Suite::AesCm128HmacSha1_32 => SALT_OCTETS,
        };
        self.key_octets() + salt
    }
}

/// The keys of RTP and of RTCP.
pub(super) struct SessionKeys {
    rtp: Transform,
    rtcp: Transform,
}

impl fmt::Debug for SessionKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SessionKeys")
    }
}

enum Transform {
    CounterMode {
        key: [u8; KEY_OCTETS],
        salt: [u8; SALT_OCTETS],
        mac: Box<Hmac<Sha1>>,
        tag_octets: usize,
    },
    Gcm {
        cipher: Gcm,
        salt: [u8; GCM_SALT_OCTETS],
    },
}

enum Gcm {
    Of128(Box<Aes128Gcm>),
    Of256(Box<Aes256Gcm>),
}

impl SessionKeys {
    /// Derives the keys (RFC 3711 section 4.3.2: labels 0 to 5).
    pub(super) fn derive(suite: Suite, key_and_salt: &[u8]) -> SessionKeys {
        SessionKeys {
            rtp: Transform::derive(suite, key_and_salt, 0),
            rtcp: Transform::derive(suite, key_and_salt, 3),
        }
    }

    pub(super) fn seal_rtp(
        &self,
        packet: &mut Vec<u8>,
        header: usize,
        ssrc: u32,
        index: u64,
        mki: &[u8],
    ) {
        match &self.rtp {
            Transform::CounterMode {
                key,
                salt,
                mac,
                tag_octets,
            } => {
                apply_keystream(key, salt, ssrc, index, tail(packet, header));
                let tag = tag(mac, &[packet, &rollover(index)]);
                packet.extend_from_slice(mki);
                packet.extend(tag.iter().take(*tag_octets));
            }
            Transform::Gcm { cipher, salt } => {
                cipher.seal(&gcm_nonce(salt, ssrc, index), packet, header, &[]);
                packet.extend_from_slice(mki);
            }
        }
    }

    pub(super) fn open_rtp(
        &self,
        packet: &mut Vec<u8>,
        header: usize,
        ssrc: u32,
        index: u64,
        mki: &[u8],
    ) -> Result<(), SrtpError> {
        match &self.rtp {
            Transform::CounterMode {
                key,
                salt,
                mac,
                tag_octets,
            } => {
                let sent = take_tail(packet, *tag_octets, header)?;
                take_mki(packet, mki, header)?;
                check(mac, &[packet, &rollover(index)], &sent)?;
                apply_keystream(key, salt, ssrc, index, tail(packet, header));
                Ok(())
            }
            Transform::Gcm { cipher, salt } => {
                take_mki(packet, mki, header)?;
                cipher.open(&gcm_nonce(salt, ssrc, index), packet, header, &[])
            }
        }
    }

    pub(super) fn seal_rtcp(&self, packet: &mut Vec<u8>, ssrc: u32, word: u32, mki: &[u8]) {
        let index = u64::from(word & !super::ENCRYPTED);
        match &self.rtcp {
            Transform::CounterMode {
                key,
                salt,
                mac,
                tag_octets,
            } => {
                apply_keystream(key, salt, ssrc, index, tail(packet, RTCP_HEADER_OCTETS));
                packet.extend(word.to_be_bytes());
                let tag = tag(mac, &[packet]);
                packet.extend_from_slice(mki);
                packet.extend(tag.iter().take(*tag_octets));
            }
            Transform::Gcm { cipher, salt } => {
                let nonce = gcm_nonce(salt, ssrc, index);
                let word = word.to_be_bytes();
                cipher.seal(&nonce, packet, RTCP_HEADER_OCTETS, &word);
                packet.extend(word);
                packet.extend_from_slice(mki);
            }
        }
    }

    /// The word behind an RTCP packet. Nothing says yet that it is authentic.
    pub(super) fn rtcp_index_word(&self, packet: &[u8], mki: &[u8]) -> Result<u32, SrtpError> {
        let tag = match &self.rtcp {
            Transform::CounterMode { tag_octets, .. } => *tag_octets,
            Transform::Gcm { .. } => 0,
        };
        let end = packet.len().checked_sub(tag + mki.len());
        let before = end.and_then(|end| packet.get(RTCP_HEADER_OCTETS..end));
        let word = before.and_then(|before| before.last_chunk::<INDEX_OCTETS>());
        word.map(|word| u32::from_be_bytes(*word))
            .ok_or(SrtpError::Malformed)
    }

    pub(super) fn open_rtcp(
        &self,
        packet: &mut Vec<u8>,
        ssrc: u32,
        word: u32,
        mki: &[u8],
    ) -> Result<(), SrtpError> {
        let index = u64::from(word & !super::ENCRYPTED);
        match &self.rtcp {
            Transform::CounterMode {
                key,
                salt,
                mac,
                tag_octets,
            } => {
                let sent = take_tail(packet, *tag_octets, RTCP_HEADER_OCTETS)?;
                take_mki(packet, mki, RTCP_HEADER_OCTETS)?;
                check(mac, &[packet], &sent)?;
                take_tail(packet, INDEX_OCTETS, RTCP_HEADER_OCTETS)?;
                apply_keystream(key, salt, ssrc, index, tail(packet, RTCP_HEADER_OCTETS));
                Ok(())
            }
            Transform::Gcm { cipher, salt } => {
                take_mki(packet, mki, RTCP_HEADER_OCTETS)?;
                let word = take_tail(packet, INDEX_OCTETS, RTCP_HEADER_OCTETS)?;
                let nonce = gcm_nonce(salt, ssrc, index);
                cipher.open(&nonce, packet, RTCP_HEADER_OCTETS, &word)
            }
        }
    }
}

impl Transform {
    /// `label` is that of the encryption key; those of the authentication key and the salt follow it.
    fn derive(suite: Suite, key_and_salt: &[u8], label: u8) -> Transform {
        let mut master_salt = [0; SALT_OCTETS];
        let (master_key, salt) = key_and_salt
            .split_at_checked(suite.key_octets())
            .unwrap_or_default();
        // The salt of GCM is filled up with zeros on the right (RFC 7714 section 11).
        copy(salt, &mut master_salt);
        let derive_into = |label: u8, derived: &mut [u8]| {
            derive(master_key, &master_salt, label, derived);
        };
        let mut gcm_salt = [0; GCM_SALT_OCTETS];
        derive_into(label + 2, &mut gcm_salt);
        match suite {
            Suite::AeadAes256Gcm => {
                let mut key = [0; LONG_KEY_OCTETS];
                derive_into(label, &mut key);
                Transform::Gcm {
                    cipher: Gcm::Of256(Box::new(Aes256Gcm::new(&key.into()))),
                    salt: gcm_salt,
                }
            }
            Suite::AeadAes128Gcm => {
                let mut key = [0; KEY_OCTETS];
                derive_into(label, &mut key);
                Transform::Gcm {
                    cipher: Gcm::Of128(Box::new(Aes128Gcm::new(&key.into()))),
                    salt: gcm_salt,
                }
            }
            Suite::AesCm128HmacSha1_80 | Suite::AesCm128HmacSha1_32 => {
                let mut key = [0; KEY_OCTETS];
                derive_into(label, &mut key);
                let mut salt = [0; SALT_OCTETS];
                derive_into(label + 2, &mut salt);
                let mut authentication_key = [0; AUTHENTICATION_KEY_OCTETS];
                derive_into(label + 1, &mut authentication_key);
                let is_short = suite == Suite::AesCm128HmacSha1_32 && label == 0;
                Transform::CounterMode {
                    key,
                    salt,
                    mac: Box::new(keyed(&authentication_key)),
                    tag_octets: if is_short {
                        SHORT_TAG_OCTETS
                    } else {
                        TAG_OCTETS_OF_RTCP
                    },
                }
            }
        }
    }
}

/// An HMAC takes keys of any length; a key that is no longer than its block is filled up with zeros (RFC 2104 section 2).
fn keyed(key: &[u8; AUTHENTICATION_KEY_OCTETS]) -> Hmac<Sha1> {
    let mut block = [0; 64];
    copy(key, &mut block);
    Hmac::new(&block.into())
}

/// The pseudo-random function: AES in counter mode, from the salt with the label (RFC 3711 sections 4.3.1 and 4.3.3), with a
/// key of 256 bits for AES-256 (RFC 7714 section 11).
fn derive(master_key: &[u8], salt: &[u8; SALT_OCTETS], label: u8, derived: &mut [u8]) {
    let mut block = [0; 16];
    copy(salt, &mut block);
    // Behind it are the 48 bits of the index divided by the rate, which are zero.
    if let Some(octet) = block.get_mut(7) {
        *octet ^= label;
    }
    if let Ok(key) = <[u8; LONG_KEY_OCTETS]>::try_from(master_key) {
        Ctr128BE::<Aes256>::new(&key.into(), &block.into()).apply_keystream(derived);
    } else if let Ok(key) = <[u8; KEY_OCTETS]>::try_from(master_key) {
        Ctr128BE::<Aes128>::new(&key.into(), &block.into()).apply_keystream(derived);
    }
}

/// Encrypts or decrypts (RFC 3711 section 4.1.1): the salt, the source at octet 4, the index at octet 8.
fn apply_keystream(
    key: &[u8; KEY_OCTETS],
    salt: &[u8; SALT_OCTETS],
    ssrc: u32,
    index: u64,
    octets: &mut [u8],
) {
    let mut block = [0; 16];
    copy(salt, &mut block);
    let counter = (u128::from(ssrc) << 64) | (u128::from(index) << 16);
    let block = u128::from_be_bytes(block) ^ counter;
    Ctr128BE::<Aes128>::new(&(*key).into(), &block.to_be_bytes().into()).apply_keystream(octets);
}

/// Two octets of zeros, the source, and the index (RFC 7714 sections 8.1 and 9.1), with the salt.
fn gcm_nonce(salt: &[u8; GCM_SALT_OCTETS], ssrc: u32, index: u64) -> [u8; GCM_SALT_OCTETS] {
    let number = (u128::from(ssrc) << 48) | u128::from(index);
    let mut nonce = *salt;
    // The last twelve of sixteen octets.
    for (octet, other) in nonce.iter_mut().zip(number.to_be_bytes().iter().skip(4)) {
        *octet ^= other;
    }
    nonce
}

impl Gcm {
    /// Encrypts what follows the header, and appends the tag; `more` is authenticated, too.
    fn seal(
        &self,
        nonce: &[u8; GCM_SALT_OCTETS],
        packet: &mut Vec<u8>,
        header: usize,
        more: &[u8],
    ) {
        let covered = [packet.get(..header).unwrap_or_default(), more].concat();
        let text = InOutBuf::from(tail(packet, header));
        let nonce = (*nonce).into();
        let tag = match self {
            Gcm::Of128(cipher) => cipher.encrypt_inout_detached(&nonce, &covered, text),
            Gcm::Of256(cipher) => cipher.encrypt_inout_detached(&nonce, &covered, text),
        };
        // No packet is as long as the limit of GCM.
        if let Ok(tag) = tag {
            packet.extend_from_slice(&tag);
        }
    }

    fn open(
        &self,
        nonce: &[u8; GCM_SALT_OCTETS],
        packet: &mut Vec<u8>,
        header: usize,
        more: &[u8],
    ) -> Result<(), SrtpError> {
        let covered = [packet.get(..header).unwrap_or_default(), more].concat();
        let tag = take_tail(packet, GCM_TAG_OCTETS, header)?;
        let tag: [u8; GCM_TAG_OCTETS] = tag.try_into().map_err(|_| SrtpError::Malformed)?;
        let text = InOutBuf::from(tail(packet, header));
        let (nonce, tag) = ((*nonce).into(), tag.into());
        match self {
            Gcm::Of128(cipher) => cipher.decrypt_inout_detached(&nonce, &covered, text, &tag),
            Gcm::Of256(cipher) => cipher.decrypt_inout_detached(&nonce, &covered, text, &tag),
        }
        .map_err(|_| SrtpError::NotAuthentic)
    }
}

/// The rollover counter, which is authenticated behind the packet (RFC 3711 section 4.2).
fn rollover(index: u64) -> [u8; 4] {
    ((index >> 16) as u32).to_be_bytes()
}

fn tag(mac: &Hmac<Sha1>, parts: &[&[u8]]) -> [u8; HMAC_OCTETS] {
    fed(mac, parts).finalize().into_bytes().into()
}

/// Compares in constant time.
fn check(mac: &Hmac<Sha1>, parts: &[&[u8]], sent: &[u8]) -> Result<(), SrtpError> {
    fed(mac, parts)
        .verify_truncated_left(sent)
        .map_err(|_| SrtpError::NotAuthentic)
}

fn fed(mac: &Hmac<Sha1>, parts: &[&[u8]]) -> Hmac<Sha1> {
    let mut mac = mac.clone();
    for part in parts {
        mac.update(part);
    }
    mac
}

/// Cuts octets off behind; those of the header are not among them.
fn take_tail(packet: &mut Vec<u8>, count: usize, header: usize) -> Result<Vec<u8>, SrtpError> {
    let at = packet.len().checked_sub(count);
    let at = at.filter(|at| *at >= header).ok_or(SrtpError::Malformed)?;
    Ok(packet.split_off(at))
}

/// Cuts the identifier of the key off, which is not authenticated (RFC 3711 section 3.1).
fn take_mki(packet: &mut Vec<u8>, mki: &[u8], header: usize) -> Result<(), SrtpError> {
    match take_tail(packet, mki.len(), header)? == mki {
        true => Ok(()),
        false => Err(SrtpError::NotAuthentic),
    }
}

fn tail(packet: &mut [u8], header: usize) -> &mut [u8] {
    packet.get_mut(header..).unwrap_or_default()
}

fn copy(from: &[u8], into: &mut [u8]) {
    for (to, from) in into.iter_mut().zip(from) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn octets(hexadecimal: &str) -> Vec<u8> {
        let digits: Vec<u8> = hexadecimal
            .chars()
            .filter_map(|digit| digit.to_digit(16))
            .map(|digit| digit as u8)
            .collect();
        digits.chunks(2).map(|two| two[0] << 4 | two[1]).collect()
    }

    /// RFC 3711 appendix B.3.
    #[test]
    fn keys_are_derived_as_the_appendix_does() {
        let key = octets("E1F97A0D3E018BE0D64FA32C06DE4139");
        let salt = octets("0EC675AD498AFEEBB6960B3AABE6").try_into().unwrap();
        for (label, expected) in [
            (0, "C61E7A93744F39EE10734AFE3FF7A087"),
            (2, "30CBBC08863D8C85D49DB34A9AE1"),
            (
                1,
                "CEBE321F6FF7716B6FD4AB49AF256A15 6D38BAA48F0A0ACF3C34E2359E6CDBCE \
                 E049646C43D9327AD175578EF7227098 6371C10C9A369AC2F94A8C5FBCDDDC25 \
                 6D6E919A48B610EF17C2041E47403576 6B68642C59BBFC2F34DB60DBDFB2",
            ),
        ] {
            let expected = octets(expected);
            let mut derived = vec![0; expected.len()];
            derive(&key, &salt, label, &mut derived);
            assert_eq!(derived, expected, "label {label}");
        }
    }

    /// RFC 7714 section 16.1.1, whose keys are those of the session.
    #[test]
    fn gcm_protects_as_the_vectors_of_rfc_7714_do() {
        let key: [u8; KEY_OCTETS] = octets("000102030405060708090a0b0c0d0e0f")
            .try_into()
            .unwrap();
        let cipher = Gcm::Of128(Box::new(Aes128Gcm::new(&key.into())));
        let salt = octets("517569642070726f2071756f").try_into().unwrap();
        let header = octets("8040f17b 8041f8d3 5501a0b2");
        let text = octets(
            "47616c6c 6961206573 74206f6d6e69732064697669736120696e207061727465732074726573",
        );
        let nonce = gcm_nonce(&salt, 0x5501_a0b2, 0xf17b);
        assert_eq!(nonce.to_vec(), octets("51753c6580c2726f20718414"));
        let mut packet = [header.clone(), text.clone()].concat();
        cipher.seal(&nonce, &mut packet, 12, &[]);
        let expected = octets(
            "f24de3a3fb34de6cacba861c9d7e4bcabe633bd50d294e6f42a5f47a51c7d19b36de3adf8833899d7f27beb16a9152cf765ee4390cce",
        );
        assert_eq!(packet[12..], expected);
        cipher.open(&nonce, &mut packet, 12, &[]).unwrap();
        assert_eq!(packet, [header, text].concat());
    }
}
