//! What is stored of a user's password.

use std::fmt;

use super::algorithm::{Algorithm, Hash};

/// The hashes of a user's name, realm and password (`H(A1)`, RFC 7616 section 3.4.2): all that a server
/// has to keep, and enough for a client. Whoever knows them can authenticate as the user, in this realm
/// and no other.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Credentials {
    /// With MD5.
    pub md5: Option<[u8; 16]>,
    /// With SHA-256.
    pub sha256: Option<[u8; 32]>,
    /// With SHA-512/256.
    pub sha512_256: Option<[u8; 32]>,
}

impl Credentials {
    /// The hashes of all algorithms.
    pub fn new(username: &str, realm: &str, password: &[u8]) -> Credentials {
        let a1 = [username.as_bytes(), realm.as_bytes(), password];
        Credentials {
            md5: Algorithm::Md5.hash(&a1).as_bytes().try_into().ok(),
            sha256: Algorithm::Sha256.hash(&a1).as_bytes().try_into().ok(),
            sha512_256: Algorithm::Sha512_256.hash(&a1).as_bytes().try_into().ok(),
        }
    }

    /// The hash of an algorithm, if it is known.
    pub fn get(&self, algorithm: Algorithm) -> Option<Hash> {
        match algorithm {
            Algorithm::Md5 => self.md5.as_ref().map(|hash| Hash::new(hash)),
            Algorithm::Sha256 => self.sha256.as_ref().map(|hash| Hash::new(hash)),
            Algorithm::Sha512_256 => self.sha512_256.as_ref().map(|hash| Hash::new(hash)),
        }
    }
}

impl fmt::Debug for Credentials {
    /// The hashes are secrets and do not belong into logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<&str> = Algorithm::ALL
            .into_iter()
            .filter(|algorithm| self.get(*algorithm).is_some())
            .map(Algorithm::name)
            .collect();
        f.debug_tuple("Credentials").field(&known).finish()
    }
}

/// A name and its password.
#[derive(Clone, Copy)]
pub struct Account<'a> {
    /// The name in the realm.
    pub username: &'a str,
    /// The password.
    pub password: &'a [u8],
}
