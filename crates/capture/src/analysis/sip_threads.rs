//! SIP messages to threads, and threads that are over to sessions, registrations and counts.

use std::collections::BTreeMap;
use std::mem::take;
use std::num::NonZeroU64;

use ahash::RandomState;
use sip::NameAddr;

use measures::{Delays, Metrics};

use super::Options;
use super::addresses::{address_of_record, user_of};
use super::call;
use super::codes::Codes;
use super::correlation::Correlation;
use super::fields::Unseen;
use super::kept::Kept;
use super::labels::Labels;
use super::losses::Losses;
use super::message::{Entry, Glance, Kind, ShortHasher};
use super::method_code::MethodCode;
use super::metrics;
use super::registration;
use super::results::Delayed;
use super::session::Session;
use super::thread::{Added, LegKeys, Thread};
use super::threads::Threads;
use super::timeline::Timeline;
use super::users::Users;
use crate::{Carrier, Endpoint, Event, Time};

/// Everything that is known of the SIP messages of a capture.
#[derive(Debug)]
pub(crate) struct SipThreads {
    threads: Threads,
    correlation: Correlation,
    hasher: RandomState,
    short_hasher: ShortHasher,
    pub(crate) users: Users,
    pub(crate) labels: Labels,
    pub(crate) codes: Codes,
    pub(crate) metrics: Metrics,
    pub(crate) losses: Losses,
    pub(crate) timeline: Timeline,
    pub(crate) kept: Kept,
    pub(crate) delays: Delayed,
    pub(crate) outcomes: BTreeMap<&'static str, u64>,
    pub(crate) counters: Counters,
    next_number: u64,
}

/// What could not be used, and what was left out.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Counters {
    /// What was carried as SIP but cannot be read.
    pub(crate) unreadable: u64,
    /// Messages without Call-ID, CSeq or Via.
    pub(crate) ungrouped: u64,
    /// Calls of which the beginning was not captured.
    pub(crate) partial_calls: u64,
    /// Messages left out of calls that have too many.
    pub(crate) omitted: u64,
    /// Packets that the capture saw twice.
    pub(crate) copies: u64,
}

impl SipThreads {
    pub(crate) fn new(options: &Options, hasher: RandomState) -> SipThreads {
        SipThreads {
            threads: Threads::new(hasher.clone(), options.most_open),
            correlation: Correlation::new(options.correlate_by.as_deref()),
            users: Users::new(hasher.clone(), options.most_users),
            short_hasher: ShortHasher::new(&hasher),
            hasher,
            labels: Labels::default(),
            codes: Codes::default(),
            metrics: Metrics::default(),
            losses: Losses::default(),
            timeline: Timeline::new(),
            kept: Kept {
                wants_worst: options.keep_worst,
                most_failed: options.most_failed,
                wanted: options.ladders.clone(),
                ..Kept::default()
            },
            delays: Delayed {
                register: Delays::new(),
                invite: Delays::new(),
                call_setup: Delays::new(),
            },
            outcomes: BTreeMap::new(),
            counters: Counters::default(),
            next_number: 1,
        }
    }

    /// Takes a message. `now` is the latest time seen.
    pub(crate) fn observe(
        &mut self,
        event: &Event<'_>,
        carrier: &Carrier,
        octets: &[u8],
        now: Time,
        each: &mut dyn FnMut(&Session),
    ) {
        self.pass(now, each);
        let glance = match Glance::at(octets, &self.short_hasher, &mut self.labels) {
            Ok(glance) => glance,
            Err(Unseen::Unreadable) => {
                self.counters.unreadable += 1;
                return;
            }
            Err(Unseen::Ungrouped) => {
                self.counters.ungrouped += 1;
                return;
            }
        };
        self.codes.count(glance.kind, glance.method);
        let status = match glance.kind {
            Kind::Request => None,
            Kind::Response(status) => Some(status),
        };
        self.timeline.message(event.time, status);
        let Some((key, leg)) = self.thread_of(event, octets, &glance) else {
            return;
        };
        if glance.kind == Kind::Request && glance.method != MethodCode::Ack {
            self.begin_anew(key, &glance, now);
        }
        let Some(thread) = self.threads.get_mut(key) else {
            return;
        };
        let is_first_invite = !thread.is_call;
        let Some((added, at)) = thread.add(event, carrier, &glance, leg) else {
            return;
        };
        if added == Added::New {
            match (glance.method, glance.kind) {
                (MethodCode::Invite, Kind::Request) if is_first_invite => {
                    let entry = thread.entries[at];
                    self.begin_call(key, &entry, &glance);
                }
                (MethodCode::Register, _) => {
                    let entry = thread.entries[at];
                    self.note_registration(key, &entry, &glance);
                }
                _ => {}
            }
        }
        self.codes.added(glance.kind, glance.method, added);
        if added == Added::Retransmission {
            self.timeline.at(event.time).retransmissions += 1;
        }
        self.threads.schedule(key);
    }

    /// Judges what is over by now.
    #[inline]
    pub(crate) fn pass(&mut self, now: Time, each: &mut dyn FnMut(&Session)) {
        while let Some(thread) = self.threads.next_over(now) {
            self.close(thread, now, each);
        }
    }

    /// Judges all that is still open.
    pub(crate) fn finish(&mut self, now: Time, each: &mut dyn FnMut(&Session)) {
        for thread in self.threads.drain() {
            self.close(thread, now, each);
        }
    }

    /// The most threads that were open at a time, and messages for which none could be opened.
    pub(crate) fn open_counts(&self) -> (usize, u64) {
        (self.threads.most_open, self.threads.refused)
    }

    /// The thread of a message; a new one where there is none.
    fn thread_of(
        &mut self,
        event: &Event<'_>,
        octets: &[u8],
        glance: &Glance<'_>,
    ) -> Option<(usize, usize)> {
        if let Some(found) = self.threads.find(glance.call_id) {
            return Some(found);
        }
        let is_call = glance.kind == Kind::Request
            && glance.method == MethodCode::Invite
            && !glance.in_dialog;
        let mut leg_keys = LegKeys::default();
        if is_call {
            let carried_on;
            (carried_on, leg_keys) = self.carried_on(event.source, octets, glance);
            if let Some(key) = carried_on
                && let Some(leg) = self.threads.join(key, glance.call_id)
            {
                return Some((key, leg));
            }
        }
        let number = match is_call {
            true => self.next_number,
            false => 0,
        };
        let key = self
            .threads
            .open(Thread::new(glance.call_id, event.time, number))?;
        if is_call {
            self.next_number += 1;
            self.threads.offer_leg(leg_keys, key);
        }
        Some((key, 0))
    }

    /// The call that an INVITE from here carries on for a B2BUA, if there is one, and what further legs would have in common
    /// with it: by the marks that B2BUAs set, and then by the users.
    fn carried_on(
        &mut self,
        source: Endpoint,
        octets: &[u8],
        glance: &Glance<'_>,
    ) -> (Option<usize>, LegKeys) {
        let marks = self.correlation.marks(octets);
        let key = |what: &str, mark: &[u8]| NonZeroU64::new(self.hasher.hash_one((what, mark)));
        let leg_keys = [
            marks.session_id.and_then(|uuid| key("Session-ID", uuid)),
            marks.further.and_then(|value| key("further", value)),
            self.users_key(glance),
        ];
        let [by_session_id, by_further, by_users] =
            leg_keys.map(|leg_key| self.threads.offered_leg(leg_key?));
        let by_call_id = [marks.call_id, marks.further].map(|call_id| {
            let (key, _) = self.threads.find(call_id?)?;
            Some(key)
        });
        let marked = by_call_id.into_iter().chain([by_session_id, by_further]);
        let found = marked
            .flatten()
            .find(|key| self.is_unanswered(*key))
            .or_else(|| by_users.filter(|key| self.is_carried_on(*key, source)));
        (found, leg_keys)
    }

    /// What both legs of a B2BUA's call have in common where it leaves them as they are: who calls whom.
    fn users_key(&self, glance: &Glance<'_>) -> Option<NonZeroU64> {
        let user = |value: &[u8], plain: Option<&str>| match plain {
            Some(plain) => {
                let user = plain.bytes().position(|octet| octet == b'@')?;
                Some(self.hasher.hash_one(plain.get(..user)?))
            }
            None => Some(
                self.hasher
                    .hash_one(user_of(NameAddr::parse(value).ok()?.uri())?),
            ),
        };
        let [from, to] = *glance.plain_addresses();
        let users = (user(glance.from?, from)?, user(glance.to, to)?);
        NonZeroU64::new(self.hasher.hash_one(users))
    }

    /// Whether a call may be carried on from here: it has reached this host, and has no answer yet.
    fn is_carried_on(&self, key: usize, source: Endpoint) -> bool {
        let Some(thread) = self.threads.get(key) else {
            return false;
        };
        let end = |at: u8| thread.ends.get(usize::from(at)).copied();
        let has_reached = |entry: &Entry| {
            let (from, to) = (end(entry.source), end(entry.destination));
            entry.is_request(MethodCode::Invite)
                && (to == Some(source)
                    || to.map(|to| to.address) == Some(source.address)
                        && from.map(|from| from.address) != Some(source.address))
        };
        self.is_unanswered(key) && thread.entries.iter().any(has_reached)
    }

    /// Whether it is a call without a final response yet, but for challenges.
    fn is_unanswered(&self, key: usize) -> bool {
        let is_answer = |entry: &Entry| {
            let is_final = matches!(entry.status(), Some(200..=400 | 402..=406 | 408..));
            entry.method == MethodCode::Invite && is_final
        };
        self.threads
            .get(key)
            .is_some_and(|thread| thread.is_call && !thread.entries.iter().any(is_answer))
    }

    /// A Call-ID is used again for the next registration, or the next of other requests: what came before
    /// is judged and forgotten.
    fn begin_anew(&mut self, key: usize, glance: &Glance<'_>, now: Time) {
        let Some(thread) = self.threads.get_mut(key) else {
            return;
        };
        let is_new = thread.is_over()
            && !thread.is_call
            && thread.entries.iter().all(|entry| entry.cseq < glance.cseq)
            && (glance.method != MethodCode::Register
                || registration::begins_anew(&thread.entries, glance.cseq));
        if !is_new {
            return;
        }
        let is_wanted = self
            .kept
            .wanted
            .iter()
            .any(|id| id.as_bytes() == glance.call_id);
        self.codes.judge(&thread.entries, now);
        if let Some(judged) = registration::judge(&thread.entries, now) {
            metrics::add_registration(&mut self.metrics, &judged);
            if let Some(delay) = judged.registrar_delay {
                self.delays.register.record_nanoseconds(delay);
            }
        }
        if is_wanted {
            let mut before = Box::new(Thread::new(glance.call_id, thread.latest, 0));
            before.ends.clone_from(&thread.ends);
            before.entries.clone_from(&thread.entries);
            before.from.clone_from(&thread.from);
            self.kept.offer(before, None);
        }
        thread.forget_before(glance.cseq);
    }

    /// The first INVITE of a call: who calls whom, and when both have registered.
    fn begin_call(&mut self, key: usize, entry: &Entry, glance: &Glance<'_>) {
        self.timeline.at(entry.sent).calls += 1;
        let [from, to] = glance.plain_addresses();
        let from = match from {
            Some(plain) => Some((*plain).into()),
            None => glance.from.and_then(address_of_record),
        };
        let to = match to {
            Some(plain) => Some((*plain).into()),
            None => address_of_record(glance.to),
        };
        let registrations = [&from, &to].map(|address| {
            let user = self.hasher.hash_one(address.as_deref()?);
            self.users.calls(user)
        });
        let Some(thread) = self.threads.get_mut(key) else {
            return;
        };
        if thread.number == 0 {
            // A Call-ID that was something else before.
            thread.number = self.next_number;
            self.next_number += 1;
        }
        thread.registrations = registrations;
        thread.from = from.unwrap_or_default();
        thread.to = to.unwrap_or_default();
    }

    fn note_registration(&mut self, key: usize, entry: &Entry, glance: &Glance<'_>) {
        let Some(thread) = self.threads.get_mut(key) else {
            return;
        };
        // Seen from the user: what a proxy sends on is the same registration.
        let depth = thread
            .entries
            .iter()
            .filter(|other| other.is_request(MethodCode::Register))
            .map(|other| other.depth)
            .min();
        if depth != Some(entry.depth) {
            return;
        }
        match entry.kind {
            Kind::Request => {
                let Some(address) = address_of_record(glance.to) else {
                    return;
                };
                let user = self.hasher.hash_one(&*address);
                thread.user = Some(user);
                thread.from = address;
                self.users.request(user, entry.received);
            }
            Kind::Response(200..=299) => {
                if let Some(user) = thread.user {
                    self.users.ok(user, entry.sent);
                }
            }
            Kind::Response(_) => {}
        }
    }

    /// Judges a thread that is over.
    fn close(&mut self, mut thread: Box<Thread>, now: Time, each: &mut dyn FnMut(&Session)) {
        self.counters.omitted += thread.omitted;
        self.counters.copies += thread.copies;
        self.codes.judge(&thread.entries, now);
        if let Some(judged) = registration::judge(&thread.entries, now) {
            metrics::add_registration(&mut self.metrics, &judged);
            if let Some(delay) = judged.registrar_delay {
                self.delays.register.record_nanoseconds(delay);
            }
        }
        let judged = call::judge(&thread, now);
        if judged.is_none() && is_part_of_call(&thread) {
            self.counters.partial_calls += 1;
        }
        let keeps_any = self.kept.wants_any();
        let session = judged.map(|judged| {
            metrics::add_session(&mut self.metrics, &judged);
            let mut session = judged.session;
            (session.call_ids, session.from, session.to) = match keeps_any {
                true => (
                    thread.call_ids.clone(),
                    thread.from.clone(),
                    thread.to.clone(),
                ),
                // Nobody else asks for them.
                false => (
                    take(&mut thread.call_ids),
                    take(&mut thread.from),
                    take(&mut thread.to),
                ),
            };
            self.add_session(&session);
            each(&session);
            session
        });
        self.kept.offer(thread, session);
    }

    fn add_session(&mut self, session: &Session) {
        if let Some(delay) = session.invite_delay() {
            self.delays.invite.record_nanoseconds(delay);
        }
        self.add_paired_session(session);
    }

    /// Counts a session whose callee's side may be that of another call, as in Adnan 2012's table.
    pub(crate) fn add_paired_session(&mut self, session: &Session) {
        *self.outcomes.entry(session.outcome.text()).or_default() += 1;
        if session.can_be_lost() {
            self.losses.add(session);
        }
        let step = self.timeline.at(session.began);
        step.failed_calls += u64::from(session.outcome.is_failure());
        if let Some(delay) = session.call_setup_delay() {
            let nanoseconds = u64::try_from(delay).unwrap_or(0);
            step.set_up += 1;
            step.set_up_total = step.set_up_total.saturating_add(nanoseconds);
            step.set_up_longest = step.set_up_longest.max(nanoseconds);
            self.delays.call_setup.record_nanoseconds(delay);
        }
    }
}

/// Whether a thread without an INVITE is what is left of a call.
fn is_part_of_call(thread: &Thread) -> bool {
    thread.entries.iter().any(|entry| {
        matches!(
            entry.method,
            MethodCode::Invite | MethodCode::Ack | MethodCode::Bye
        )
    })
}
