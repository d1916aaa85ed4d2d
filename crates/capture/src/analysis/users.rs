//! Who has registered, and when: the callers and callees of later calls.

use ahash::RandomState;
use hashbrown::HashMap;

use crate::Time;

/// A hash of an address of record.
pub(crate) type UserKey = u64;

/// The last registration of a user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registered {
    /// The REGISTER that the registrar judged: the last one.
    pub(crate) request: Time,
    /// Its 200.
    pub(crate) ok: Option<Time>,
    /// Whether the user has called or been called since.
    pub(crate) has_called: bool,
}

/// The users that have registered.
#[derive(Debug)]
pub(crate) struct Users {
    users: HashMap<UserKey, Registered, RandomState>,
    most: usize,
    /// Registrations not remembered because there were too many users.
    pub(crate) forgotten: u64,
}

impl Users {
    pub(crate) fn new(hasher: RandomState, most: usize) -> Users {
        Users {
            users: HashMap::with_hasher(hasher),
            most,
            forgotten: 0,
        }
    }

    /// A REGISTER was seen.
    pub(crate) fn request(&mut self, user: UserKey, time: Time) {
        if self.users.len() >= self.most && !self.users.contains_key(&user) {
            self.forgotten += 1;
            return;
        }
        let known = self.users.entry(user).or_insert(Registered {
            request: time,
            ok: None,
            has_called: false,
        });
        known.request = time;
        known.ok = None;
    }

    /// It was answered 200.
    pub(crate) fn ok(&mut self, user: UserKey, time: Time) {
        if let Some(registered) = self.users.get_mut(&user) {
            registered.ok.get_or_insert(time);
        }
    }

    /// A user calls, or is called.
    pub(crate) fn calls(&mut self, user: UserKey) -> Option<Registered> {
        let registered = self.users.get_mut(&user)?;
        registered.has_called = true;
        Some(*registered)
    }

    /// Users that have registered, and those of them that took part in no call.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let idle = self.users.values().filter(|user| !user.has_called).count();
        (self.users.len() as u64, idle as u64)
    }
}
