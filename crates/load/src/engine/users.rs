//! The emulated users of an engine: their connections, registrations, and whether they come back.

use super::authentication::Challenged;
use super::config::{ConnectionId, UserRange};
use super::session::NOBODY;
use super::time::Time;
use super::wheel::Wheel;
use crate::script::ScriptId;

/// How many users an engine may have.
const MAXIMUM_USERS: u32 = 20_000_000;

/// An emulated user, in as few octets as it goes: there may be millions.
#[derive(Clone, Debug)]
pub(super) struct User {
    /// The number of the connection, or [`NOBODY`].
    connection: u32,
    /// The session that registers, or [`NOBODY`].
    pub(super) registering: u32,
    /// The sequence number of the last REGISTER.
    pub(super) cseq: u32,
    /// What is begun again and again.
    pub(super) repeats: Option<Repeat>,
    /// When to begin that.
    pub(super) return_at: Time,
    /// When to refresh the binding.
    pub(super) refresh_at: Time,
    /// Until when the binding stands.
    pub(super) expires_at: Time,
    /// The challenges that are known.
    pub(super) challenges: Vec<Challenged>,
    /// Whether it is to stay registered.
    pub(super) is_kept_registered: bool,
    pub(super) is_registered: bool,
}

/// What a user does again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repeat {
    pub(super) script: ScriptId,
    pub(super) peer: u32,
}

impl User {
    fn new() -> User {
        User {
            connection: NOBODY,
            registering: NOBODY,
            cseq: 0,
            repeats: None,
            return_at: Time::NEVER,
            refresh_at: Time::NEVER,
            expires_at: Time::NEVER,
            challenges: Vec::new(),
            is_kept_registered: false,
            is_registered: false,
        }
    }

    pub(super) fn connection(&self) -> Option<ConnectionId> {
        (self.connection != NOBODY).then_some(ConnectionId(self.connection))
    }

    pub(super) fn assign(&mut self, connection: ConnectionId) {
        self.connection = connection.0;
    }

    fn next(&self) -> Time {
        self.return_at.min(self.refresh_at).min(self.expires_at)
    }
}

/// All users by place; a number leads to a place.
#[derive(Debug)]
pub(super) struct Users {
    /// Ranges of numbers, and the place of the first one of each.
    ranges: Vec<(UserRange, u32)>,
    users: Vec<User>,
    wheel: Wheel,
    registered: u32,
}

impl Users {
    pub(super) fn new(ranges: &[UserRange]) -> Users {
        let mut places = Vec::with_capacity(ranges.len());
        let mut next = 0_u32;
        for range in ranges {
            places.push((*range, next));
            next = next.saturating_add(range.count).min(MAXIMUM_USERS);
        }
        Users {
            ranges: places,
            users: vec![User::new(); next as usize],
            wheel: Wheel::new(),
            registered: 0,
        }
    }

    /// The place of the user of a number.
    pub(super) fn place(&self, number: u32) -> Option<u32> {
        self.ranges.iter().find_map(|(range, first)| {
            let ahead = number.checked_sub(range.first)?;
            let step = range.step.max(1);
            let place = ahead / step;
            (ahead.is_multiple_of(step) && place < range.count).then(|| first.saturating_add(place))
        })
    }

    /// The number of the user at a place.
    pub(super) fn number(&self, place: u32) -> u32 {
        self.ranges
            .iter()
            .find_map(|(range, first)| {
                let ahead = place.checked_sub(*first)?;
                (ahead < range.count).then(|| range.first + ahead * range.step.max(1))
            })
            .unwrap_or(0)
    }

    pub(super) fn len(&self) -> u32 {
        self.users.len() as u32
    }

    pub(super) fn get(&self, place: u32) -> Option<&User> {
        self.users.get(place as usize)
    }

    pub(super) fn get_mut(&mut self, place: u32) -> Option<&mut User> {
        self.users.get_mut(place as usize)
    }

    /// Says whether a user is registered.
    pub(super) fn set_registered(&mut self, place: u32, is_registered: bool) {
        let Some(user) = self.users.get_mut(place as usize) else {
            return;
        };
        if is_registered && !user.is_registered {
            self.registered += 1;
        }
        if !is_registered && user.is_registered {
            self.registered -= 1;
        }
        user.is_registered = is_registered;
    }

    pub(super) fn registered(&self) -> u32 {
        self.registered
    }

    /// Has a user come up when something is due.
    pub(super) fn arm(&mut self, place: u32) {
        if let Some(user) = self.users.get(place as usize) {
            self.wheel.set(place, user.next());
        }
    }

    /// The next user of whom something is due.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<u32> {
        self.wheel.pop_due(now)
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.wheel.next_timeout()
    }

    /// Lets nobody come back.
    pub(super) fn stop_repeating(&mut self) {
        for user in &mut self.users {
            user.repeats = None;
            user.return_at = Time::NEVER;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_places_belong_together() {
        let step = |first, count| UserRange {
            first,
            count,
            step: 2,
        };
        let users = Users::new(&[step(2, 3), step(102, 2)]);
        let places: Vec<_> = (0..110)
            .filter_map(|number| Some((number, users.place(number)?)))
            .collect();
        assert_eq!(places, [(2, 0), (4, 1), (6, 2), (102, 3), (104, 4)]);
        for (number, place) in places {
            assert_eq!(users.number(place), number);
        }
        assert_eq!(users.number(5), 0);
    }

    #[test]
    fn a_user_takes_few_octets() {
        assert!(size_of::<User>() <= 88, "{}", size_of::<User>());
    }
}
