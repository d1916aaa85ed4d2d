//! The emulated users of an engine: their connections, registrations, and whether they come back.

use std::collections::VecDeque;
use std::time::Duration;

use ahash::RandomState;
use hashbrown::HashMap;
use timer_wheel::TimerWheel;

use super::authentication::Challenged;
use super::config::{ConnectionId, RegistrationPlan, UserRange};
use super::directory::Directory;
use super::identity::NOBODY;
use super::time::Time;
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
    /// The call that is repeated.
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

/// A call that a user repeats.
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
    /// The users of the list by name.
    listed: HashMap<Box<[u8]>, u32, RandomState>,
    deadlines: TimerWheel<Time>,
    registered: u32,
    /// Users whose next repeated call is due.
    returning: VecDeque<u32>,
    repetitions_left: Option<u64>,
}

/// The timers of a user that are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// When the binding was to be refreshed, where that is now.
    pub(super) refresh: Option<Time>,
}

/// How a registration ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Registration {
    /// The binding stands for so long.
    Granted(Duration),
    /// It was removed, or granted for no time.
    Removed,
    Failed,
}

impl Users {
    pub(super) fn new(ranges: &[UserRange], directory: &Directory, keys: RandomState) -> Users {
        let mut listed = HashMap::with_hasher(keys);
        for (user, number) in directory.listed.iter().zip(1_u32..) {
            listed.insert(user.name.as_bytes().into(), number);
        }
        let mut places = Vec::with_capacity(ranges.len());
        let mut next = 0_u32;
        for range in ranges {
            places.push((*range, next));
            next = next.saturating_add(range.count).min(MAXIMUM_USERS);
        }
        Users {
            ranges: places,
            users: vec![User::new(); next as usize],
            listed,
            deadlines: TimerWheel::new(),
            registered: 0,
            returning: VecDeque::new(),
            repetitions_left: None,
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

    /// The number of the user of a name; 0 where there is none.
    pub(super) fn number_of(&self, name: Option<&[u8]>, directory: &Directory) -> u32 {
        let number = |name| {
            let listed = self.listed.get(name).copied();
            listed.or_else(|| directory.number(name))
        };
        name.and_then(number).unwrap_or(0)
    }

    /// Takes the timers of a user that are due: the end of the binding, its refresh, the next repeated call.
    pub(super) fn take_due(&mut self, place: u32, now: Time) -> Option<Due> {
        let user = self.users.get_mut(place as usize)?;
        let take = |time: &mut Time| {
            let due = *time;
            (due <= now).then(|| {
                *time = Time::NEVER;
                due
            })
        };
        let is_expired = take(&mut user.expires_at).is_some();
        let refresh = take(&mut user.refresh_at);
        let returns = take(&mut user.return_at).is_some();
        if is_expired {
            self.set_registered(place, false);
        }
        if returns {
            self.returning.push_back(place);
        }
        Some(Due { refresh })
    }

    /// A refresh could not be begun: it is tried again, where none is under way.
    pub(super) fn postpone_refresh(&mut self, place: u32, until: Time) {
        if let Some(user) = self.users.get_mut(place as usize)
            && user.registering == NOBODY
        {
            user.refresh_at = until;
        }
    }

    // Registrations.

    /// The registration of a session has ended. `drawn`, from 0 to 1, spreads the refreshes.
    pub(super) fn end_registration(
        &mut self,
        place: u32,
        session: u32,
        registration: Registration,
        now: Time,
        (plan, drawn): (&RegistrationPlan, f64),
    ) {
        let Some(user) = self.users.get_mut(place as usize) else {
            return;
        };
        if user.registering == session {
            user.registering = NOBODY;
        }
        let is_kept = user.is_kept_registered;
        let is_registered = match registration {
            Registration::Granted(lifetime) => {
                user.expires_at = now.after(lifetime);
                user.refresh_at = match plan.refresh_after {
                    Some(part) if is_kept => {
                        let spread = 1.0 - plan.spread.clamp(0.0, 1.0) * drawn;
                        now.after(lifetime.mul_f64(part.clamp(0.0, 1.0) * spread))
                    }
                    _ => Time::NEVER,
                };
                true
            }
            Registration::Removed => {
                user.expires_at = Time::NEVER;
                user.refresh_at = Time::NEVER;
                false
            }
            Registration::Failed => {
                if is_kept && plan.refresh_after.is_some() {
                    user.refresh_at = now.after(plan.retry_after);
                }
                user.is_registered
            }
        };
        self.set_registered(place, is_registered);
        self.arm(place);
    }

    fn set_registered(&mut self, place: u32, is_registered: bool) {
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

    // Deadlines.

    /// Has a user come up when something is due.
    pub(super) fn arm(&mut self, place: u32) {
        if let Some(next) = self.users.get(place as usize).map(User::next)
            && next.is_known()
        {
            self.deadlines.set_if_earlier(place, next.rounded_up());
        }
    }

    /// The next user with a timer that is due.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<u32> {
        self.deadlines.pop_due(now)
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        if !self.returning.is_empty() {
            return Some(Time::START);
        }
        self.deadlines.first()
    }

    // Repetition.

    /// Has a user repeat a call, the first time now.
    pub(super) fn repeat(&mut self, place: u32, repeat: Repeat) {
        if let Some(user) = self.users.get_mut(place as usize) {
            user.repeats = Some(repeat);
            self.returning.push_back(place);
        }
    }

    /// Limits the repeated calls that may still begin.
    pub(super) fn limit_repeating(&mut self, attempts: Option<u64>) {
        self.repetitions_left = attempts;
    }

    /// Ends all repetition.
    pub(super) fn stop_repeating(&mut self) {
        for user in &mut self.users {
            user.repeats = None;
            user.return_at = Time::NEVER;
        }
        self.returning.clear();
    }

    /// Has a user who repeats a call begin the next one then, or at once.
    pub(super) fn come_back(&mut self, place: u32, at: Option<Time>) {
        let Some(user) = self.users.get_mut(place as usize) else {
            return;
        };
        if user.repeats.is_none() {
            return;
        }
        match at {
            None => self.returning.push_back(place),
            Some(at) => {
                user.return_at = at;
                self.arm(place);
            }
        }
    }

    /// How many users' repeated calls are due.
    pub(super) fn returning(&self) -> usize {
        self.returning.len()
    }

    /// The next user whose repeated call is due, with the call if another one may begin.
    pub(super) fn pop_returning(&mut self) -> Option<(u32, Option<Repeat>)> {
        let place = self.returning.pop_front()?;
        let repeats = self.get(place).and_then(|user| user.repeats);
        let may_begin = |_: &Repeat| match &mut self.repetitions_left {
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
            None => true,
        };
        Some((place, repeats.filter(may_begin)))
    }

    /// A repeated call was not begun.
    pub(super) fn give_repetition_back(&mut self) {
        if let Some(left) = &mut self.repetitions_left {
            *left += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(ranges: &[UserRange]) -> Users {
        let keys = RandomState::with_seeds(1, 2, 3, 4);
        Users::new(ranges, &Directory::default(), keys)
    }

    #[test]
    fn numbers_and_places_belong_together() {
        let step = |first, count| UserRange {
            first,
            count,
            step: 2,
        };
        let users = users(&[step(2, 3), step(102, 2)]);
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
    fn a_binding_is_refreshed_in_time_and_expires() {
        let seconds = Duration::from_secs;
        let at = |time| Time::START.after(seconds(time));
        let plan = RegistrationPlan {
            spread: 0.0,
            ..RegistrationPlan::default()
        };
        let mut users = users(&[UserRange::new(1, 1)]);
        users.get_mut(0).unwrap().is_kept_registered = true;
        let granted = Registration::Granted(seconds(100));
        users.end_registration(0, 5, granted, at(0), (&plan, 0.5));
        assert_eq!(users.registered(), 1);
        assert_eq!(users.take_due(0, at(89)), Some(Due { refresh: None }));
        let refresh = Some(at(90));
        assert_eq!(users.take_due(0, at(90)), Some(Due { refresh }));
        users.end_registration(0, 6, Registration::Failed, at(91), (&plan, 0.5));
        assert_eq!(users.registered(), 1);
        assert_eq!(users.take_due(0, at(100)), Some(Due { refresh: None }));
        assert_eq!(users.registered(), 0);
        let refresh = Some(at(121));
        assert_eq!(users.take_due(0, at(121)), Some(Due { refresh }));
        users.end_registration(0, 7, Registration::Removed, at(122), (&plan, 0.5));
        assert_eq!(users.take_due(0, at(9_999)), Some(Due { refresh: None }));
    }

    #[test]
    fn users_come_back_as_often_as_they_may() {
        let repeat = Repeat {
            script: ScriptId(0),
            peer: 7,
        };
        let mut users = users(&[UserRange::new(1, 2)]);
        users.come_back(0, None);
        assert_eq!(users.returning(), 0);
        users.limit_repeating(Some(1));
        users.repeat(0, repeat);
        users.repeat(1, repeat);
        assert_eq!(users.next_timeout(), Some(Time::START));
        assert_eq!(users.pop_returning(), Some((0, Some(repeat))));
        assert_eq!(users.pop_returning(), Some((1, None)));
        users.give_repetition_back();
        users.come_back(1, Some(Time::START));
        assert_eq!(users.pop_returning(), None);
        users.take_due(1, Time::START);
        assert_eq!(users.pop_returning(), Some((1, Some(repeat))));
        users.come_back(0, None);
        users.stop_repeating();
        users.come_back(0, None);
        assert_eq!(users.pop_returning(), None);
    }

    #[test]
    fn a_user_takes_few_octets() {
        assert!(size_of::<User>() <= 88, "{}", size_of::<User>());
    }
}
