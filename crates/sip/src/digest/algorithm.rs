//! The hash algorithms of digest authentication, and what they compute.

use std::fmt;
use std::str::FromStr;

use md5::Md5;
use sha2::{Digest, Sha256, Sha512_256};
use subtle::ConstantTimeEq;

/// A hash algorithm (RFC 7616 section 6.1, RFC 8760 section 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    /// MD5: for old user agents; not recommended (RFC 8760 section 3).
    Md5,
    /// SHA-256, which everybody has who knows more than MD5.
    Sha256,
    /// SHA-512/256.
    Sha512_256,
}

impl Algorithm {
    /// Every algorithm, the strongest first.
    pub const ALL: [Algorithm; 3] = [Algorithm::Sha512_256, Algorithm::Sha256, Algorithm::Md5];

    /// The name in the `algorithm` parameter.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Md5 => "MD5",
            Algorithm::Sha256 => "SHA-256",
            Algorithm::Sha512_256 => "SHA-512-256",
        }
    }

    /// The hash of several parts with a colon between each two.
    pub fn hash(self, parts: &[&[u8]]) -> Hash {
        match self {
            Algorithm::Md5 => Hash::of::<Md5>(parts),
            Algorithm::Sha256 => Hash::of::<Sha256>(parts),
            Algorithm::Sha512_256 => Hash::of::<Sha512_256>(parts),
        }
    }

    /// How many octets a hash has.
    pub fn hash_length(self) -> usize {
        match self {
            Algorithm::Md5 => 16,
            Algorithm::Sha256 | Algorithm::Sha512_256 => 32,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An algorithm of another name than those of [`Algorithm`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown digest algorithm {0:?}: it can be MD5, SHA-256 or SHA-512-256")]
pub struct UnknownAlgorithm(String);

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    /// Reads a name in any case.
    fn from_str(name: &str) -> Result<Algorithm, UnknownAlgorithm> {
        Algorithm::ALL
            .into_iter()
            .find(|algorithm| algorithm.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| UnknownAlgorithm(name.to_owned()))
    }
}

/// A hash value. It is shown as hexadecimal digits in lower case (RFC 8760 section 2.2), and compared in
/// a time that does not tell where two differ.
#[derive(Clone, Copy)]
pub struct Hash {
    octets: [u8; 32],
    length: u8,
}

impl Hash {
    fn of<D: Digest>(parts: &[&[u8]]) -> Hash {
        let mut hasher = D::new();
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                hasher.update(b":");
            }
            hasher.update(part);
        }
        Hash::new(&hasher.finalize())
    }

    /// The first 32 octets of a text; no algorithm has more.
    pub(super) fn new(text: &[u8]) -> Hash {
        let mut octets = [0; 32];
        let mut length = 0;
        for (place, octet) in octets.iter_mut().zip(text) {
            *place = *octet;
            length += 1;
        }
        Hash { octets, length }
    }

    /// Reads hexadecimal digits in any case. `None` where the text is anything else, or longer than
    /// the hash of any algorithm.
    pub fn from_hexadecimal(text: &str) -> Option<Hash> {
        let digit = |octet: u8| char::from(octet).to_digit(16);
        let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
            return None;
        };
        if pairs.len() > 32 {
            return None;
        }
        let mut octets = [0; 32];
        for (place, [high, low]) in octets.iter_mut().zip(pairs) {
            *place = u8::try_from(digit(*high)? << 4 | digit(*low)?).ok()?;
        }
        Some(Hash {
            octets,
            length: pairs.len() as u8,
        })
    }

    /// The octets of the hash: as many as its algorithm gives.
    pub fn as_bytes(&self) -> &[u8] {
        self.octets
            .get(..usize::from(self.length))
            .unwrap_or_default()
    }

    /// The hexadecimal digits.
    pub(super) fn to_hexadecimal(self) -> Hexadecimal {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut digits = [0; 64];
        for (pair, octet) in digits.as_chunks_mut::<2>().0.iter_mut().zip(self.octets) {
            *pair = [
                DIGITS[usize::from(octet >> 4)],
                DIGITS[usize::from(octet & 0xf)],
            ];
        }
        Hexadecimal {
            digits,
            length: usize::from(self.length) * 2,
        }
    }
}

impl PartialEq for Hash {
    fn eq(&self, other: &Hash) -> bool {
        self.as_bytes().ct_eq(other.as_bytes()).into()
    }
}

impl Eq for Hash {}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(std::str::from_utf8(self.to_hexadecimal().as_bytes()).unwrap_or_default())
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({self})")
    }
}

/// The digits of a hash: what goes into the next hash.
pub(super) struct Hexadecimal {
    digits: [u8; 64],
    length: usize,
}

impl Hexadecimal {
    pub(super) fn as_bytes(&self) -> &[u8] {
        self.digits.get(..self.length).unwrap_or_default()
    }
}
