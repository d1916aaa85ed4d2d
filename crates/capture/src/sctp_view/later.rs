//! Associations beyond those that are told of one by one: followed while they are open, and then added to the sums.

use std::collections::VecDeque;

use slab::Slab;

use super::association::{Association, Ending};
use super::{EndsKey, TagKey};
use crate::Time;

/// Nanoseconds after its end in which packets of an association may still come: SHUTDOWN ACK and SHUTDOWN COMPLETE are sent
/// again after an RTO, which is a minute at most (RFC 9260 section 16).
const LINGER: i64 = 60_000_000_000;

/// Nanoseconds without a packet after which an association may have ended unseen: one that is idle has a HEARTBEAT after 30 s
/// and an RTO (RFC 9260 section 8.3).
const SILENCE: i64 = 300_000_000_000;

/// Nanoseconds between two searches for silent ones.
const SEARCHED_EVERY: i64 = 10_000_000_000;

/// The associations, as many as may be open at a time.
#[derive(Debug)]
pub(super) struct Later {
    followed: Slab<Followed>,
    most: usize,
    /// Those that have ended, and when, in that order.
    ended: VecDeque<(usize, Time)>,
    searched: Time,
}

/// An association, and by what its packets are known.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) association: Association,
    pub(super) ends: EndsKey,
    pub(super) tags: Vec<TagKey>,
    has_ended: bool,
}

impl Later {
    pub(super) fn new(most: usize) -> Later {
        Later {
            followed: Slab::new(),
            most,
            ended: VecDeque::new(),
            searched: Time(i64::MIN),
        }
    }

    /// Follows an association; `None` where too many are open. Room for it is made before, by [`pop`](Later::pop).
    pub(super) fn push(&mut self, association: Association, ends: EndsKey) -> Option<usize> {
        (self.followed.len() < self.most).then(|| {
            self.followed.insert(Followed {
                association,
                ends,
                tags: Vec::new(),
                has_ended: false,
            })
        })
    }

    pub(super) fn get(&self, key: usize) -> Option<&Association> {
        self.followed.get(key).map(|one| &one.association)
    }

    pub(super) fn get_mut(&mut self, key: usize) -> Option<&mut Association> {
        self.followed.get_mut(key).map(|one| &mut one.association)
    }

    /// All that are followed.
    pub(super) fn associations(&self) -> impl Iterator<Item = &Association> {
        self.followed.iter().map(|(_, one)| &one.association)
    }

    /// Notes by what packets of one are known.
    pub(super) fn add_tag(&mut self, key: usize, tag: TagKey) {
        if let Some(one) = self.followed.get_mut(key) {
            one.tags.push(tag);
        }
    }

    /// Notes that a packet of one was seen, which may have ended it.
    pub(super) fn note(&mut self, key: usize, now: Time) {
        if let Some(one) = self.followed.get_mut(key)
            && !one.has_ended
            && matches!(one.association.ending, Ending::Shutdown | Ending::Aborted)
        {
            one.has_ended = true;
            self.ended.push_back((key, now));
        }
    }

    /// Takes out one that has ended for long; where another one is to come and there is no room, one that has ended at all, or
    /// has been silent for long.
    pub(super) fn pop(&mut self, now: Time) -> Option<(usize, Followed)> {
        let is_full = self.followed.len() >= self.most;
        if let Some((key, ended)) = self.ended.front()
            && (is_full || now - *ended > LINGER)
        {
            let key = *key;
            self.ended.pop_front();
            return Some((key, self.followed.try_remove(key)?));
        }
        if !is_full || now - self.searched < SEARCHED_EVERY {
            return None;
        }
        let is_silent = |one: &Followed| now - one.association.latest > SILENCE;
        let found = self.followed.iter().find(|(_, one)| is_silent(one));
        match found.map(|(key, _)| key) {
            Some(key) => Some((key, self.followed.try_remove(key)?)),
            None => {
                self.searched = now;
                None
            }
        }
    }
}
