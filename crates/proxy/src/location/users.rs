//! Who may authenticate: the hashes of each user's password, in memory.

use std::sync::{Arc, PoisonError, RwLock};

use ahash::RandomState;
use hashbrown::HashTable;
use sip::digest::Credentials;

use crate::core::Answer;

/// A user in a realm, and the hashes of the password (`H(A1)`, RFC 7616 section 3.4.2). The password
/// itself is never kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name, as it stands in an Authorization header field.
    pub username: Box<str>,
    /// The realm: users of the same name in two realms are two users.
    pub realm: Box<str>,
    /// The hashes.
    pub credentials: Credentials,
}

impl User {
    /// A user with this password.
    pub fn new(username: &str, realm: &str, password: &[u8]) -> User {
        User {
            username: username.into(),
            realm: realm.into(),
            credentials: Credentials::new(username, realm, password),
        }
    }
}

/// All users. They are exchanged as a whole, so that whoever looks one up waits for nobody.
#[derive(Debug)]
pub(super) struct Users {
    hasher: RandomState,
    table: RwLock<Arc<UserTable>>,
}

/// A table of users that does not change any more.
#[derive(Debug, Default)]
pub(super) struct UserTable(HashTable<Entry>);

impl Users {
    /// Nobody.
    pub(super) fn new(hasher: RandomState) -> Users {
        Users {
            hasher,
            table: RwLock::default(),
        }
    }

    /// The hashes of a user's password.
    pub(super) fn find(&self, realm: &str, username: &str) -> Option<Credentials> {
        let table = Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner));
        let hash = self.hash(realm, username);
        let found = table.0.find(hash, |entry| entry.is_of(realm, username));
        found.map(Entry::credentials)
    }

    /// The answer to a question for a user's credentials.
    pub(super) fn answer(&self, realm: &str, username: &str) -> Answer {
        Answer::Credentials(self.find(realm, username).map(Arc::new))
    }

    /// Adds a user to a table that is being made.
    pub(super) fn add(&self, table: &mut UserTable, user: &User) {
        let hash = self.hash(&user.realm, &user.username);
        let entry = Entry::new(user);
        let same = |other: &Entry| other.is_of(&user.realm, &user.username);
        if let Some(old) = table.0.find_mut(hash, same) {
            *old = entry;
            return;
        }
        table.0.insert_unique(hash, entry, |entry| {
            let (realm, username) = entry.names();
            self.hash(realm, username)
        });
    }

    /// Puts a table in place of the one that is there.
    pub(super) fn replace(&self, table: UserTable) {
        let table = Arc::new(table);
        let mut place = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *place, table);
        drop(place);
        // Hundreds of thousands of users take their time to go.
        drop(old);
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.0.len()
    }

    fn hash(&self, realm: &str, username: &str) -> u64 {
        self.hasher.hash_one((realm, username))
    }
}

/// A user as one run of octets: which hashes there are, these, the length of the realm, and the names.
#[derive(Debug)]
struct Entry(Box<[u8]>);

const LENGTHS: [usize; 3] = [16, 32, 32];

impl Entry {
    fn new(user: &User) -> Entry {
        let Credentials {
            md5,
            sha256,
            sha512_256,
        } = &user.credentials;
        let hashes = [
            md5.as_ref().map(|hash| &hash[..]),
            sha256.as_ref().map(|hash| &hash[..]),
            sha512_256.as_ref().map(|hash| &hash[..]),
        ];
        let mut octets = vec![0];
        for (bit, hash) in hashes.into_iter().enumerate() {
            if let Some(hash) = hash {
                octets[0] |= 1 << bit;
                octets.extend_from_slice(hash);
            }
        }
        let realm_length = u32::try_from(user.realm.len()).unwrap_or(u32::MAX);
        octets.extend_from_slice(&realm_length.to_be_bytes());
        octets.extend_from_slice(user.realm.as_bytes());
        octets.extend_from_slice(user.username.as_bytes());
        Entry(octets.into())
    }

    fn credentials(&self) -> Credentials {
        let (hashes, _) = self.split();
        let [md5, sha256, sha512_256] = hashes;
        Credentials {
            md5: md5.and_then(|hash| hash.try_into().ok()),
            sha256: sha256.and_then(|hash| hash.try_into().ok()),
            sha512_256: sha512_256.and_then(|hash| hash.try_into().ok()),
        }
    }

    fn names(&self) -> (&str, &str) {
        let (_, rest) = self.split();
        let names = rest.split_first_chunk().and_then(|(length, names)| {
            let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
            let (realm, username) = names.split_at_checked(length)?;
            Some((
                std::str::from_utf8(realm).ok()?,
                std::str::from_utf8(username).ok()?,
            ))
        });
        names.unwrap_or_default()
    }

    fn is_of(&self, realm: &str, username: &str) -> bool {
        self.names() == (realm, username)
    }

    /// The hashes that there are, and what stands behind them.
    fn split(&self) -> ([Option<&[u8]>; 3], &[u8]) {
        let (flags, mut rest) = self.0.split_first().unwrap_or((&0, &[]));
        let mut hashes = [None; 3];
        for (bit, (hash, length)) in hashes.iter_mut().zip(LENGTHS).enumerate() {
            if flags & 1 << bit != 0
                && let Some((octets, behind)) = rest.split_at_checked(length)
            {
                *hash = Some(octets);
                rest = behind;
            }
        }
        (hashes, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_realm_and_name() {
        let users = Users::new(RandomState::with_seeds(1, 2, 3, 4));
        let alice = User::new("alice", "example.com", b"secret");
        let mut partly = User::new("b\u{f6}b", "", b"");
        partly.credentials.sha256 = None;
        let mut table = UserTable::default();
        users.add(&mut table, &User::new("alice", "example.com", b"old"));
        for user in [&alice, &partly] {
            users.add(&mut table, user);
        }
        users.replace(table);
        assert_eq!(users.len(), 2);
        assert_eq!(users.find("example.com", "alice"), Some(alice.credentials));
        assert_eq!(users.find("", "b\u{f6}b"), Some(partly.credentials));
        assert_eq!(users.find("example.org", "alice"), None);
        assert_eq!(users.find("example.comalice", ""), None);
        users.replace(UserTable::default());
        assert_eq!(users.find("example.com", "alice"), None);
    }
}
