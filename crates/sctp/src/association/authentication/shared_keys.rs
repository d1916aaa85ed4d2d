//! Endpoint pair shared keys (RFC 4895 section 6.1; RFC 6458 sections 8.1.18 and 8.3.3 to 8.3.5).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

use crate::KeyError;

/// The keys that an association, or an endpoint for its future associations, has for its peers.
#[derive(Debug, Clone)]
pub(crate) struct SharedKeys {
    keys: BTreeMap<u16, SharedKey>,
    active: u16,
}

#[derive(Clone)]
struct SharedKey {
    /// Zeroed when the last copy is dropped.
    secret: Arc<Zeroizing<Vec<u8>>>,
    deactivated: bool,
    /// The user has been told that the key is not used any more.
    freed: bool,
}

impl SharedKeys {
    /// The null key, under the identifier 0, and it is the active one.
    pub(crate) fn new() -> SharedKeys {
        let mut keys = SharedKeys {
            keys: BTreeMap::new(),
            active: 0,
        };
        keys.set(0, &[]);
        keys
    }

    /// The key that is used for sending where nothing else is said.
    pub(crate) fn active(&self) -> u16 {
        self.active
    }

    /// All keys with their secrets.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u16, &[u8])> {
        self.keys
            .iter()
            .map(|(identifier, key)| (*identifier, key.secret.as_slice()))
    }

    /// Whether messages may be sent with a key.
    pub(crate) fn is_usable(&self, identifier: u16) -> bool {
        self.keys
            .get(&identifier)
            .is_some_and(|key| !key.deactivated)
    }

    /// Sets a key, in place of one with the same identifier. An empty one is a null key.
    pub(crate) fn set(&mut self, identifier: u16, secret: &[u8]) {
        let key = SharedKey {
            secret: Arc::new(Zeroizing::new(secret.to_vec())),
            deactivated: false,
            freed: false,
        };
        self.keys.insert(identifier, key);
    }

    /// Makes a key the active one.
    pub(crate) fn activate(&mut self, identifier: u16) -> Result<(), KeyError> {
        if !self.is_usable(identifier) {
            return Err(KeyError::UnknownKey);
        }
        self.active = identifier;
        Ok(())
    }

    /// No message is to be sent with a key any more.
    pub(crate) fn deactivate(&mut self, identifier: u16) -> Result<(), KeyError> {
        if identifier == self.active {
            return Err(KeyError::KeyIsActive);
        }
        let key = self.keys.get_mut(&identifier).ok_or(KeyError::UnknownKey)?;
        key.deactivated = true;
        Ok(())
    }

    /// Deletes a key that was deactivated. `is_used` says whether it is still needed.
    pub(crate) fn delete(
        &mut self,
        identifier: u16,
        is_used: impl FnOnce() -> bool,
    ) -> Result<(), KeyError> {
        if identifier == self.active {
            return Err(KeyError::KeyIsActive);
        }
        let key = self.keys.get(&identifier).ok_or(KeyError::UnknownKey)?;
        if !key.deactivated || is_used() {
            return Err(KeyError::KeyInUse);
        }
        self.keys.remove(&identifier);
        Ok(())
    }

    /// The keys that were deactivated and are used no more; each is given once.
    pub(crate) fn take_freed(&mut self, is_used: impl Fn(u16) -> bool) -> Vec<u16> {
        let mut freed = Vec::new();
        for (identifier, key) in &mut self.keys {
            if key.awaits_freeing() && !is_used(*identifier) {
                key.freed = true;
                freed.push(*identifier);
            }
        }
        freed
    }
}

impl SharedKey {
    fn awaits_freeing(&self) -> bool {
        self.deactivated && !self.freed
    }
}

impl fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedKey")
            .field("deactivated", &self.deactivated)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_null_key_is_there_and_active_at_first() {
        let keys = SharedKeys::new();
        assert_eq!(keys.active(), 0);
        assert_eq!(keys.iter().collect::<Vec<_>>(), [(0, &[][..])]);
    }

    #[test]
    fn a_key_is_deleted_once_it_is_neither_active_nor_used() {
        let mut keys = SharedKeys::new();
        assert_eq!(keys.activate(1), Err(KeyError::UnknownKey));
        assert_eq!(keys.deactivate(1), Err(KeyError::UnknownKey));
        assert_eq!(keys.delete(1, || false), Err(KeyError::UnknownKey));
        keys.set(1, b"secret");
        assert_eq!(keys.delete(1, || false), Err(KeyError::KeyInUse));
        assert_eq!(keys.activate(1), Ok(()));
        assert_eq!(keys.deactivate(1), Err(KeyError::KeyIsActive));
        assert_eq!(keys.delete(1, || false), Err(KeyError::KeyIsActive));
        assert_eq!(keys.deactivate(0), Ok(()));
        assert_eq!(keys.activate(0), Err(KeyError::UnknownKey));
        assert_eq!(keys.delete(0, || true), Err(KeyError::KeyInUse));
        assert_eq!(keys.take_freed(|_| true), []);
        assert_eq!(keys.take_freed(|_| false), [0]);
        assert_eq!(keys.take_freed(|_| false), []);
        assert_eq!(keys.delete(0, || false), Ok(()));
        assert_eq!(keys.iter().collect::<Vec<_>>(), [(1, &b"secret"[..])]);
    }

    #[test]
    fn a_key_that_is_set_anew_can_be_used_again() {
        let mut keys = SharedKeys::new();
        keys.set(7, b"old");
        keys.deactivate(7).unwrap();
        assert!(!keys.is_usable(7));
        keys.set(7, b"new");
        assert!(keys.is_usable(7));
        assert_eq!(keys.take_freed(|_| false), []);
    }

    #[test]
    fn secrets_do_not_show() {
        let mut keys = SharedKeys::new();
        keys.set(7, b"hunter2");
        let shown = format!("{keys:?}");
        assert!(shown.contains("SharedKey"), "{shown}");
        assert!(
            !shown.contains("hunter2") && !shown.contains("104, 117"),
            "{shown}"
        );
    }
}
