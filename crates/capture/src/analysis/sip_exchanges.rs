//! SIP messages to exchanges, and exchanges that are over to sessions, registrations and counts.

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
use super::exchange::{Added, Exchange, LegKeys};
use super::fields::PeekError;
use super::kept::Kept;
use super::labels::Labels;
use super::losses::Losses;
use super::message::{Entry, Kind, Peek, ShortHasher};
use super::method_code::MethodCode;
use super::metrics;
use super::open_exchanges::OpenExchanges;
use super::registration;
use super::results::Delayed;
use super::session::Session;
use super::timeline::Timeline;
use super::users::Users;
use crate::rtp::{RtpStreams, RtpTotals};
use crate::{Carrier, Endpoint, Event, Time};

/// Everything that is known of the SIP messages of a capture.
#[derive(Debug)]
pub(crate) struct SipExchanges {
    exchanges: OpenExchanges,
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
    /// The media of open calls, by their numbers, and of those that are over.
    pub(crate) rtp: RtpStreams,
    pub(crate) rtp_totals: RtpTotals,
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

impl SipExchanges {
    pub(crate) fn new(options: &Options, hasher: RandomState) -> SipExchanges {
        SipExchanges {
            exchanges: OpenExchanges::new(hasher.clone(), options.most_open),
            correlation: Correlation::new(options.correlate_by.as_deref()),
            users: Users::new(hasher.clone(), options.most_users),
            short_hasher: ShortHasher::new(&hasher),
            rtp: RtpStreams::new(hasher.clone()),
            rtp_totals: RtpTotals::default(),
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
        let peek = match Peek::at(octets, &self.short_hasher, &mut self.labels) {
            Ok(peek) => peek,
            Err(PeekError::Unreadable) => {
                self.counters.unreadable += 1;
                return;
            }
            Err(PeekError::Ungrouped) => {
                self.counters.ungrouped += 1;
                return;
            }
        };
        self.codes.count(peek.kind, peek.method);
        let status = match peek.kind {
            Kind::Request => None,
            Kind::Response(status) => Some(status),
        };
        self.timeline.message(event.time, status);
        let Some((key, leg)) = self.exchange_of(event, octets, &peek) else {
            return;
        };
        if peek.kind == Kind::Request && peek.method != MethodCode::Ack {
            self.begin_anew(key, &peek, now);
        }
        let Some(exchange) = self.exchanges.get_mut(key) else {
            return;
        };
        let is_first_invite = !exchange.is_call;
        let Some((added, at)) = exchange.add(event, carrier, &peek, leg) else {
            return;
        };
        if added == Added::New {
            match (peek.method, peek.kind) {
                (MethodCode::Invite, Kind::Request) if is_first_invite => {
                    let entry = exchange.entries[at];
                    self.begin_call(key, &entry, &peek);
                }
                (MethodCode::Register, _) => {
                    let entry = exchange.entries[at];
                    self.note_registration(key, &entry, &peek);
                }
                _ => {}
            }
        }
        self.codes.added(peek.kind, peek.method, added);
        if added == Added::Retransmission {
            self.timeline.at(event.time).retransmissions += 1;
        }
        if peek.has_session_description
            && let Some(exchange) = self.exchanges.get(key)
            && exchange.number != 0
        {
            self.rtp.learn(exchange.number, octets);
        }
        self.exchanges.schedule(key);
    }

    /// Judges what is over by now.
    #[inline]
    pub(crate) fn pass(&mut self, now: Time, each: &mut dyn FnMut(&Session)) {
        while let Some(exchange) = self.exchanges.next_over(now) {
            self.close(exchange, now, each);
        }
    }

    /// Judges all that is still open.
    pub(crate) fn finish(&mut self, now: Time, each: &mut dyn FnMut(&Session)) {
        for exchange in self.exchanges.drain() {
            self.close(exchange, now, each);
        }
    }

    /// The most exchanges that were open at a time, and messages for which none could be opened.
    pub(crate) fn open_counts(&self) -> (usize, u64) {
        (self.exchanges.most_open, self.exchanges.refused)
    }

    /// The exchange of a message; a new one where there is none.
    fn exchange_of(
        &mut self,
        event: &Event<'_>,
        octets: &[u8],
        peek: &Peek<'_>,
    ) -> Option<(usize, usize)> {
        if let Some(found) = self.exchanges.find(peek.call_id) {
            return Some(found);
        }
        let is_call =
            peek.kind == Kind::Request && peek.method == MethodCode::Invite && !peek.in_dialog;
        let mut leg_keys = LegKeys::default();
        if is_call {
            let carried_on;
            (carried_on, leg_keys) = self.carried_on(event.source, octets, peek);
            if let Some(key) = carried_on
                && let Some(leg) = self.exchanges.join(key, peek.call_id)
            {
                return Some((key, leg));
            }
        }
        let number = match is_call {
            true => self.next_number,
            false => 0,
        };
        let key = self
            .exchanges
            .open(Exchange::new(peek.call_id, event.time, number))?;
        if is_call {
            self.next_number += 1;
            self.exchanges.offer_leg(leg_keys, key);
        }
        Some((key, 0))
    }

    /// The call that an INVITE from here carries on for a B2BUA, if there is one, and what further legs would have in common
    /// with it: by the marks that B2BUAs set, and then by the users.
    fn carried_on(
        &mut self,
        source: Endpoint,
        octets: &[u8],
        peek: &Peek<'_>,
    ) -> (Option<usize>, LegKeys) {
        let marks = self.correlation.marks(octets);
        let key = |what: &str, mark: &[u8]| NonZeroU64::new(self.hasher.hash_one((what, mark)));
        let leg_keys = [
            marks.session_id.and_then(|uuid| key("Session-ID", uuid)),
            marks.further.and_then(|value| key("further", value)),
            self.users_key(peek),
        ];
        let [by_session_id, by_further, by_users] =
            leg_keys.map(|leg_key| self.exchanges.offered_leg(leg_key?));
        let by_call_id = [marks.call_id, marks.further].map(|call_id| {
            let (key, _) = self.exchanges.find(call_id?)?;
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
    fn users_key(&self, peek: &Peek<'_>) -> Option<NonZeroU64> {
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
        let [from, to] = *peek.plain_addresses();
        let users = (user(peek.from?, from)?, user(peek.to, to)?);
        NonZeroU64::new(self.hasher.hash_one(users))
    }

    /// Whether a call may be carried on from here: it has reached this host, and has no answer yet.
    fn is_carried_on(&self, key: usize, source: Endpoint) -> bool {
        let Some(exchange) = self.exchanges.get(key) else {
            return false;
        };
        let end = |at: u8| exchange.ends.get(usize::from(at)).copied();
        let has_reached = |entry: &Entry| {
            let (from, to) = (end(entry.source), end(entry.destination));
            entry.is_request(MethodCode::Invite)
                && (to == Some(source)
                    || to.map(|to| to.address) == Some(source.address)
                        && from.map(|from| from.address) != Some(source.address))
        };
        self.is_unanswered(key) && exchange.entries.iter().any(has_reached)
    }

    /// Whether it is a call without a final response yet, but for challenges.
    fn is_unanswered(&self, key: usize) -> bool {
        let is_answer = |entry: &Entry| {
            let is_final = matches!(entry.status(), Some(200..=400 | 402..=406 | 408..));
            entry.method == MethodCode::Invite && is_final
        };
        self.exchanges
            .get(key)
            .is_some_and(|exchange| exchange.is_call && !exchange.entries.iter().any(is_answer))
    }

    /// A Call-ID is used again for the next registration, or the next of other requests: what came before
    /// is judged and forgotten.
    fn begin_anew(&mut self, key: usize, peek: &Peek<'_>, now: Time) {
        let Some(exchange) = self.exchanges.get_mut(key) else {
            return;
        };
        let is_new = exchange.is_over()
            && !exchange.is_call
            && exchange.entries.iter().all(|entry| entry.cseq < peek.cseq)
            && (peek.method != MethodCode::Register
                || registration::begins_anew(&exchange.entries, peek.cseq));
        if !is_new {
            return;
        }
        let is_wanted = self
            .kept
            .wanted
            .iter()
            .any(|id| id.as_bytes() == peek.call_id);
        self.codes.judge(&exchange.entries, now);
        if let Some(judged) = registration::judge(&exchange.entries, now) {
            metrics::add_registration(&mut self.metrics, &judged);
            if let Some(delay) = judged.registrar_delay {
                self.delays.register.record_nanoseconds(delay);
            }
        }
        if is_wanted {
            let mut before = Box::new(Exchange::new(peek.call_id, exchange.latest, 0));
            before.ends.clone_from(&exchange.ends);
            before.entries.clone_from(&exchange.entries);
            before.from.clone_from(&exchange.from);
            self.kept.offer(before, None);
        }
        exchange.forget_before(peek.cseq);
    }

    /// The first INVITE of a call: who calls whom, and when both have registered.
    fn begin_call(&mut self, key: usize, entry: &Entry, peek: &Peek<'_>) {
        self.timeline.at(entry.sent).calls += 1;
        let [from, to] = peek.plain_addresses();
        let from = match from {
            Some(plain) => Some((*plain).into()),
            None => peek.from.and_then(address_of_record),
        };
        let to = match to {
            Some(plain) => Some((*plain).into()),
            None => address_of_record(peek.to),
        };
        let registrations = [&from, &to].map(|address| {
            let user = self.hasher.hash_one(address.as_deref()?);
            self.users.calls(user)
        });
        let Some(exchange) = self.exchanges.get_mut(key) else {
            return;
        };
        if exchange.number == 0 {
            // A Call-ID that was something else before.
            exchange.number = self.next_number;
            self.next_number += 1;
        }
        exchange.registrations = registrations;
        exchange.from = from.unwrap_or_default();
        exchange.to = to.unwrap_or_default();
    }

    fn note_registration(&mut self, key: usize, entry: &Entry, peek: &Peek<'_>) {
        let Some(exchange) = self.exchanges.get_mut(key) else {
            return;
        };
        // Seen from the user: what a proxy sends on is the same registration.
        let depth = exchange
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
                let Some(address) = address_of_record(peek.to) else {
                    return;
                };
                let user = self.hasher.hash_one(&*address);
                exchange.user = Some(user);
                exchange.from = address;
                self.users.request(user, entry.received);
            }
            Kind::Response(200..=299) => {
                if let Some(user) = exchange.user {
                    self.users.ok(user, entry.sent);
                }
            }
            Kind::Response(_) => {}
        }
    }

    /// Judges an exchange that is over.
    fn close(&mut self, mut exchange: Box<Exchange>, now: Time, each: &mut dyn FnMut(&Session)) {
        self.counters.omitted += exchange.omitted;
        self.counters.copies += exchange.copies;
        self.codes.judge(&exchange.entries, now);
        if let Some(judged) = registration::judge(&exchange.entries, now) {
            metrics::add_registration(&mut self.metrics, &judged);
            if let Some(delay) = judged.registrar_delay {
                self.delays.register.record_nanoseconds(delay);
            }
        }
        let judged = call::judge(&exchange, now);
        if judged.is_none() && is_part_of_call(&exchange) {
            self.counters.partial_calls += 1;
        }
        let keeps_any = self.kept.wants_any();
        let session = judged.map(|judged| {
            metrics::add_session(&mut self.metrics, &judged);
            let mut session = judged.session;
            (session.call_ids, session.from, session.to) = match keeps_any {
                true => (
                    exchange.call_ids.clone(),
                    exchange.from.clone(),
                    exchange.to.clone(),
                ),
                // Nobody else asks for them.
                false => (
                    take(&mut exchange.call_ids),
                    take(&mut exchange.from),
                    take(&mut exchange.to),
                ),
            };
            session.rtp = self.rtp.take(session.number);
            self.rtp_totals.add(&session.rtp);
            self.add_session(&session);
            each(&session);
            session
        });
        self.kept.offer(exchange, session);
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

/// Whether an exchange without an INVITE is what is left of a call.
fn is_part_of_call(exchange: &Exchange) -> bool {
    exchange.entries.iter().any(|entry| {
        matches!(
            entry.method,
            MethodCode::Invite | MethodCode::Ack | MethodCode::Bye
        )
    })
}
