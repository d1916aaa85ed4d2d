//! SIP messages to threads, and threads that are over to sessions, registrations and counts.

use ahash::RandomState;
use sip::{NameAddr, Uri};

use measures::{Delays, Metrics};

use super::Options;
use super::call;
use super::codes::Codes;
use super::kept::Kept;
use super::labels::Labels;
use super::losses::Losses;
use super::message::{Entry, Glance, Kind, MethodCode, Unseen};
use super::metrics;
use super::registration;
use super::session::{Outcome, Session};
use super::thread::{Added, Thread};
use super::threads::Threads;
use super::timeline::Timeline;
use super::users::Users;
use crate::{Carrier, Endpoint, Seen, Time};

/// Everything that is known of the SIP messages of a capture.
#[derive(Debug)]
pub(crate) struct SipThreads {
    threads: Threads,
    hasher: RandomState,
    pub(crate) users: Users,
    pub(crate) labels: Labels,
    pub(crate) codes: Codes,
    pub(crate) metrics: Metrics,
    pub(crate) losses: Losses,
    pub(crate) timeline: Timeline,
    pub(crate) kept: Kept,
    pub(crate) register_delay: Delays,
    pub(crate) invite_delay: Delays,
    pub(crate) call_setup_delay: Delays,
    pub(crate) outcomes: std::collections::BTreeMap<&'static str, u64>,
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
            users: Users::new(hasher.clone(), options.most_users),
            hasher,
            labels: Labels::default(),
            codes: Codes::default(),
            metrics: Metrics::default(),
            losses: Losses::default(),
            timeline: Timeline::new(),
            kept: Kept {
                wants_worst: options.keep_worst,
                wanted: options.ladders.clone(),
                ..Kept::default()
            },
            register_delay: Delays::new(),
            invite_delay: Delays::new(),
            call_setup_delay: Delays::new(),
            outcomes: std::collections::BTreeMap::new(),
            counters: Counters::default(),
            next_number: 1,
        }
    }

    /// Takes a message. `now` is the latest time seen.
    pub(crate) fn see(
        &mut self,
        seen: &Seen<'_>,
        carrier: Carrier,
        octets: &[u8],
        now: Time,
        each: &mut dyn FnMut(&Session),
    ) {
        while let Some(thread) = self.threads.next_over(now) {
            self.close(thread, now, each);
        }
        let glance = match Glance::at(octets, &self.hasher, &mut self.labels) {
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
        self.timeline.at(seen.time).messages += 1;
        if let Kind::Response(status) = glance.kind {
            self.timeline.response(seen.time, status);
        }
        let Some((key, leg)) = self.thread_of(seen, &glance) else {
            return;
        };
        if glance.kind == Kind::Request && glance.method != MethodCode::Ack {
            self.begin_anew(key, &glance, now);
        }
        let Some(thread) = self.threads.get_mut(key) else {
            return;
        };
        let is_first_invite = !thread.is_call;
        let Some((added, entry)) = thread.add(seen, carrier, &glance, leg) else {
            return;
        };
        if added == Added::New {
            match entry.method {
                MethodCode::Invite if is_first_invite && entry.is_request(MethodCode::Invite) => {
                    self.begin_call(key, &entry, &glance);
                }
                MethodCode::Register => self.note_registration(key, &entry, &glance),
                _ => {}
            }
        }
        self.codes.added(&entry, added);
        if added == Added::Retransmission {
            self.timeline.at(seen.time).retransmissions += 1;
        }
        self.threads.schedule(key);
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
    fn thread_of(&mut self, seen: &Seen<'_>, glance: &Glance<'_>) -> Option<(usize, usize)> {
        if let Some(found) = self.threads.find(glance.call_id) {
            return Some(found);
        }
        let is_call = glance.kind == Kind::Request
            && glance.method == MethodCode::Invite
            && !glance.in_dialog;
        let leg_key = is_call.then(|| self.leg_key(glance));
        if let Some(leg_key) = leg_key.flatten()
            && let Some(key) = self.threads.offered_leg(leg_key)
            && self.is_carried_on(key, seen.source)
            && let Some(leg) = self.threads.join(key, glance.call_id)
        {
            return Some((key, leg));
        }
        let number = match is_call {
            true => self.next_number,
            false => 0,
        };
        let key = self
            .threads
            .open(Thread::new(glance.call_id, seen.time, number))?;
        if is_call {
            self.next_number += 1;
        }
        if let Some(leg_key) = leg_key.flatten() {
            self.threads.offer_leg(leg_key, key);
        }
        Some((key, 0))
    }

    /// What both legs of a B2BUA's call have in common: who calls whom.
    fn leg_key(&self, glance: &Glance<'_>) -> Option<u64> {
        let user = |value: &[u8]| match plain_address(value) {
            Some(plain) => Some(self.hasher.hash_one(plain.split_once('@')?.0)),
            None => Some(
                self.hasher
                    .hash_one(user_of(NameAddr::parse(value).ok()?.uri())?),
            ),
        };
        Some(
            self.hasher
                .hash_one((user(glance.from?)?, user(glance.to)?)),
        )
    }

    /// Whether a call may be carried on from here: it has reached this host, and has no answer yet.
    fn is_carried_on(&self, key: usize, source: Endpoint) -> bool {
        let Some(thread) = self.threads.get(key) else {
            return false;
        };
        let end = |at: u8| thread.ends.get(usize::from(at)).copied();
        let mut has_reached = false;
        for entry in &thread.entries {
            if entry.is_request(MethodCode::Invite) {
                let (from, to) = (end(entry.source), end(entry.destination));
                has_reached |= to == Some(source)
                    || to.map(|to| to.address) == Some(source.address)
                        && from.map(|from| from.address) != Some(source.address);
            } else if entry.method == MethodCode::Invite && entry.status() >= Some(200) {
                return false;
            }
        }
        has_reached
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
                self.register_delay.record_nanoseconds(delay);
            }
        }
        if is_wanted {
            let mut before = Thread::new(glance.call_id, thread.latest, 0);
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
        let from = glance.from.and_then(address_of_record);
        let to = address_of_record(glance.to);
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
    fn close(&mut self, thread: Thread, now: Time, each: &mut dyn FnMut(&Session)) {
        self.counters.omitted += thread.omitted;
        self.counters.copies += thread.copies;
        self.codes.judge(&thread.entries, now);
        if let Some(judged) = registration::judge(&thread.entries, now) {
            metrics::add_registration(&mut self.metrics, &judged);
            if let Some(delay) = judged.registrar_delay {
                self.register_delay.record_nanoseconds(delay);
            }
        }
        let judged = call::judge(&thread, now);
        if judged.is_none() && is_part_of_call(&thread) {
            self.counters.partial_calls += 1;
        }
        let session = judged.map(|judged| {
            metrics::add_session(&mut self.metrics, &judged);
            self.add_session(&judged.session);
            each(&judged.session);
            judged.session
        });
        self.kept.offer(thread, session);
    }

    fn add_session(&mut self, session: &Session) {
        if let Some(delay) = session.invite_delay() {
            self.invite_delay.record_nanoseconds(delay);
        }
        self.add_paired_session(session);
    }

    /// Counts a session whose callee's side may be that of another call, as in the document's table.
    pub(crate) fn add_paired_session(&mut self, session: &Session) {
        *self.outcomes.entry(session.outcome.text()).or_default() += 1;
        if session.outcome != Outcome::Undecided {
            self.losses.add(session);
        }
        let step = self.timeline.at(session.began);
        step.failed_calls += u64::from(session.outcome.is_failure());
        if let Some(delay) = session.call_setup_delay() {
            let nanoseconds = u64::try_from(delay).unwrap_or(0);
            step.set_up += 1;
            step.set_up_total = step.set_up_total.saturating_add(nanoseconds);
            step.set_up_longest = step.set_up_longest.max(nanoseconds);
            self.call_setup_delay.record_nanoseconds(delay);
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

/// `user@host` of the URI in a From or To field.
fn address_of_record(value: &[u8]) -> Option<Box<str>> {
    if let Some(plain) = plain_address(value) {
        return Some(plain.into());
    }
    let address = NameAddr::parse(value).ok()?;
    let text = match Uri::parse(address.uri()) {
        Ok(uri) => match uri.as_sip() {
            Some(sip) => match sip.user() {
                Some(user) => format!("{user}@{}", sip.host()),
                None => sip.host().to_string(),
            },
            None => address.uri().to_owned(),
        },
        Err(_) => return None,
    };
    const LONGEST: usize = 256;
    (text.len() <= LONGEST).then(|| text.into_boxed_str())
}

/// `user@host`, where it stands in a SIP URI in angle brackets and nothing about it is unusual: no escapes, nothing
/// that is written in two ways.
fn plain_address(value: &[u8]) -> Option<&str> {
    let open = memchr::memchr(b'<', value)?;
    // A name in quotation marks may have a bracket in it.
    let name = match &value[..open] {
        [b'"', name @ .., b'"', b' '] => name,
        name => name,
    };
    let inside = value[open + 1..].strip_prefix(b"sip:")?;
    if !are_all(NAME, name) {
        return None;
    }
    let (inside, behind) = inside.split_at(memchr::memchr(b'>', inside)?);
    // Parameters follow, or nothing.
    let is_end = matches!(behind, [b'>'] | [b'>', b';', ..]);
    if !is_end || !are_all(PARAMETER, &behind[1..]) {
        return None;
    }
    let at = memchr::memchr(b'@', inside)?;
    let (user, rest) = (&inside[..at], &inside[at + 1..]);
    let end = rest.iter().position(|octet| matches!(octet, b':' | b';'));
    let (host, rest) = rest.split_at(end.unwrap_or(rest.len()));
    let is_port = |rest: &[u8]| {
        rest.is_empty()
            || rest.len() <= 5 && rest[0] == b':' && rest[1..].iter().all(u8::is_ascii_digit)
    };
    const LONGEST: usize = 256;
    // A label of letters makes it a name; what ends with digits may be an address that is none.
    let is_host = host.last().is_some_and(u8::is_ascii_lowercase)
        && host.first().is_some_and(u8::is_ascii_alphanumeric)
        && are_all(HOST, host)
        && !host
            .windows(2)
            .any(|pair| matches!(pair, [b'.' | b'-', b'.' | b'-']));
    let is_all = !user.is_empty()
        && are_all(USER, user)
        && is_host
        && (rest.len() != 1 && is_port(rest))
        && at + 1 + host.len() <= LONGEST;
    if !is_all {
        return None;
    }
    std::str::from_utf8(&inside[..at + 1 + host.len()]).ok()
}

/// Where an octet may stand in an address about which nothing is unusual.
const NAME: u8 = 1;
const PARAMETER: u8 = 2;
const USER: u8 = 4;
const HOST: u8 = 8;

static PLACES: [u8; 256] = {
    let mut places = [0; 256];
    let mut octet = 0;
    while octet < 0x80 {
        places[octet] = match octet as u8 {
            b'a'..=b'z' | b'0'..=b'9' => NAME | PARAMETER | USER | HOST,
            b'A'..=b'Z' => NAME | PARAMETER,
            b' ' => NAME,
            b'.' | b'-' => PARAMETER | USER | HOST,
            b'_' => PARAMETER | USER,
            b';' | b'=' => PARAMETER,
            _ => 0,
        };
        octet += 1;
    }
    places
};

/// Whether all octets may stand at such a place.
fn are_all(place: u8, octets: &[u8]) -> bool {
    octets
        .iter()
        .all(|octet| PLACES[usize::from(*octet)] & place != 0)
}

/// The user of a SIP URI, as written.
pub(crate) fn user_of(uri: &str) -> Option<&str> {
    let (_, rest) = uri.split_once(':')?;
    match rest.split_once('@') {
        Some((user, _)) => Some(user),
        None => Some(rest.split([';', '?', '>']).next().unwrap_or(rest)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn thoroughly(value: &[u8]) -> Option<String> {
        let address = NameAddr::parse(value).ok()?;
        let uri = Uri::parse(address.uri()).ok()?;
        let sip = uri.as_sip()?;
        Some(format!("{}@{}", sip.user()?, sip.host()))
    }

    #[test]
    fn plain_addresses_are_told_quickly() {
        for (value, plain) in [
            (
                "\"User 7\" <sip:user7@example.org>;tag=a",
                Some("user7@example.org"),
            ),
            ("<sip:a_b@x:5070>", Some("a_b@x")),
            ("Bob <sip:b@x.org>", Some("b@x.org")),
            ("<sip:b@x.org;transport=tcp>", None),
            ("<sip:b%41@x.org>", None),
            ("<sips:b@x.org>", None),
            ("\"<sip:a@x>\" <sip:b@x>", None),
            ("sip:b@x.org", None),
            ("<sip:a@a><sip:", None),
            ("<sip:a@a>;tag=1,", None),
            ("<sip:b@10.0.0.1>", None),
        ] {
            assert_eq!(plain_address(value.as_bytes()), plain, "{value}");
        }
    }

    proptest! {
        /// What is told quickly is what the reader of addresses says.
        #[test]
        fn plain_addresses_are_right(parts in prop::collection::vec(
            prop::sample::select(vec![
                "<sip:", "<", "sip:", ">", "@", "a", "b7", "x", "org", ".", "-", "_", ":", "5060", "\"", " ", ";tag=1", "%41",
                "A", "[::1]", ",", ";", "=",
            ]),
            0..12,
        )) {
            let value = format!("<sip:{}", parts.concat());
            for value in [value.clone(), parts.concat(), format!("\"a b\" {value}")] {
                if let Some(plain) = plain_address(value.as_bytes()) {
                    prop_assert_eq!(Some(plain.to_owned()), thoroughly(value.as_bytes()), "{}", value);
                }
            }
        }
    }
}
