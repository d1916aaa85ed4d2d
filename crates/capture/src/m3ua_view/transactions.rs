//! Requests of M3UA and their answers.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};

use ahash::RandomState;
use m3ua::message::{ErrorMessage, Kind, Message};
use m3ua::{MaskedPointCode, Variant};
use measures::Delays;

use crate::Time;
use crate::m3ua_text::{contexts_in_short, destination_in_short};

/// Requests of one association that wait for their answers. One of the kind that waits most gives way to another, the oldest: so
/// heartbeats that nobody answers are in the way of nothing else.
const MOST_WAITING: usize = 512;

/// Requests of one association that were given up, and are kept to be shown.
const MOST_GIVEN_UP: usize = 64;

/// Where class and type stand in the offending message that an Error message has as its diagnostic information.
const CLASS_AND_TYPE: std::ops::Range<usize> = 2..4;

/// What became of the requests of one kind.
#[derive(Clone, Debug, Default)]
pub struct M3uaTransactions {
    /// Answered.
    pub answered: u64,
    /// Answered by an Error message.
    pub refused: u64,
    /// Not answered before the association, or the capture, ended.
    pub unanswered: u64,
    /// From the first request to its answer.
    pub delay: Delays,
}

/// A request that was not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnansweredRequest {
    /// When it was sent first.
    pub time: Time,
    /// The number of its packet.
    pub packet: u64,
    /// Whether the association's `source` has sent it.
    pub by_source: bool,
    /// The request, with what it asks for.
    pub request: String,
    /// How often it was sent again.
    pub repeats: u64,
}

/// The requests of an association.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// The oldest first.
    waiting: VecDeque<Waiting>,
    /// Those that were not answered when the association ended: the first ones.
    given_up: Vec<UnansweredRequest>,
    given_up_counts: BTreeMap<Kind, u64>,
    /// Requests whose answers were not looked for any more because too many waited.
    pub(super) untracked: u64,
}

#[derive(Debug)]
struct Waiting {
    kind: Kind,
    subject: Subject,
    request: UnansweredRequest,
}

/// What a request is about, as far as it tells which answer is its own.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    /// Nothing in particular.
    Asp,
    /// Routing contexts, sorted; empty: all.
    Contexts(Vec<u32>),
    /// Heartbeat data, hashed.
    Heartbeat(u64),
    /// A local routing key identifier, or one routing context.
    Number(u32),
    /// A destination.
    Destination(MaskedPointCode),
}

impl Subject {
    /// Whether an answer about this is one to a request about `other`.
    fn answers(&self, other: &Subject) -> bool {
        match (self, other) {
            // An answer may be about some of the contexts only (section 4.3.4.3).
            (Subject::Contexts(these), Subject::Contexts(those)) => {
                these.is_empty() || those.is_empty() || have_common(these, those)
            }
            (Subject::Destination(this), Subject::Destination(that)) => this.overlaps(*that),
            _ => self == other,
        }
    }
}

/// Whether sorted numbers have one in common. One message has thousands of them, and hundreds of requests wait.
fn have_common(mut these: &[u32], mut those: &[u32]) -> bool {
    while let ([this, these_rest @ ..], [that, those_rest @ ..]) = (these, those) {
        match this.cmp(that) {
            Ordering::Less => these = these_rest,
            Ordering::Greater => those = those_rest,
            Ordering::Equal => return true,
        }
    }
    false
}

impl Requests {
    /// Takes note of a message; `counts` are those of all associations.
    pub(super) fn observe(
        &mut self,
        (time, packet, by_source): (Time, u64, bool),
        message: &Message,
        variant: Variant,
        counts: &mut BTreeMap<Kind, M3uaTransactions>,
    ) {
        if let Message::Error(error) = message {
            self.refuse(error, by_source, counts);
            return;
        }
        for (kind, subject) in answered_by(message) {
            // What answers a request goes the other way.
            let is_answered = |waiting: &Waiting| {
                waiting.kind == kind
                    && waiting.request.by_source != by_source
                    && subject.answers(&waiting.subject)
            };
            self.waiting.retain(|waiting| {
                let is_answered = is_answered(waiting);
                if is_answered {
                    let counts = counts.entry(kind).or_default();
                    counts.answered += 1;
                    counts.delay.record_nanoseconds(time - waiting.request.time);
                }
                !is_answered
            });
        }
        for (subject, detail) in asked_by(message, variant) {
            let kind = message.kind();
            let is_same = |waiting: &&mut Waiting| {
                waiting.kind == kind
                    && waiting.request.by_source == by_source
                    && waiting.subject == subject
            };
            if let Some(known) = self.waiting.iter_mut().find(is_same) {
                known.request.repeats += 1;
                continue;
            }
            if self.waiting.len() >= MOST_WAITING {
                self.make_room();
            }
            let blank = if detail.is_empty() { "" } else { " " };
            self.waiting.push_back(Waiting {
                kind,
                subject,
                request: UnansweredRequest {
                    time,
                    packet,
                    by_source,
                    request: format!("{}{blank}{detail}", kind.name()),
                    repeats: 0,
                },
            });
        }
    }

    /// The association has ended: nothing is answered any more.
    pub(super) fn give_up(&mut self) {
        for waiting in self.waiting.drain(..) {
            *self.given_up_counts.entry(waiting.kind).or_default() += 1;
            if self.given_up.len() < MOST_GIVEN_UP {
                self.given_up.push(waiting.request);
            }
        }
    }

    /// Requests without an answer: the first ones of those that the association's end has left so, and those that still wait.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = &UnansweredRequest> {
        let waiting = self.waiting.iter().map(|waiting| &waiting.request);
        self.given_up.iter().chain(waiting)
    }

    /// Adds how many have no answer.
    pub(super) fn count_unanswered(&self, counts: &mut BTreeMap<Kind, M3uaTransactions>) {
        for (kind, count) in &self.given_up_counts {
            counts.entry(*kind).or_default().unanswered += count;
        }
        for waiting in &self.waiting {
            counts.entry(waiting.kind).or_default().unanswered += 1;
        }
    }

    /// An Error message refuses the request that it has as its diagnostic information (section 3.8.1), those about the destinations
    /// that it names, or else the oldest one.
    fn refuse(
        &mut self,
        error: &ErrorMessage,
        by_source: bool,
        counts: &mut BTreeMap<Kind, M3uaTransactions>,
    ) {
        let offending = error
            .diagnostic
            .as_ref()
            .and_then(|octets| octets.get(CLASS_AND_TYPE));
        let is_offending = |waiting: &Waiting| {
            let (class, message_type) = waiting.kind.numbers();
            offending.is_none_or(|numbers| numbers == [class, message_type])
        };
        let is_named = |waiting: &Waiting| match &waiting.subject {
            Subject::Destination(destination) => error
                .affected
                .iter()
                .any(|affected| affected.overlaps(*destination)),
            _ => error.affected.is_empty(),
        };
        let may_be = |waiting: &Waiting| {
            waiting.request.by_source != by_source
                && waiting.kind != Kind::Beat
                && is_named(waiting)
        };
        let found = self
            .waiting
            .iter()
            .position(|waiting| may_be(waiting) && is_offending(waiting))
            .or_else(|| self.waiting.iter().position(may_be));
        if let Some(refused) = found.and_then(|at| self.waiting.remove(at)) {
            counts.entry(refused.kind).or_default().refused += 1;
        }
    }

    /// The oldest request of the kind that waits most is not followed any more.
    fn make_room(&mut self) {
        let mut by_kind: BTreeMap<Kind, usize> = BTreeMap::new();
        for waiting in &self.waiting {
            *by_kind.entry(waiting.kind).or_default() += 1;
        }
        let most = by_kind.into_iter().max_by_key(|(_, count)| *count);
        let oldest = most.and_then(|(kind, _)| self.waiting.iter().position(|it| it.kind == kind));
        if let Some(oldest) = oldest {
            self.waiting.remove(oldest);
            self.untracked += 1;
        }
    }
}

/// What a message answers.
fn answered_by(message: &Message) -> Vec<(Kind, Subject)> {
    let audits = |affected: &[MaskedPointCode]| {
        let destinations = affected.iter().copied().map(Subject::Destination);
        destinations.map(|subject| (Kind::Daud, subject)).collect()
    };
    match message {
        Message::AspUpAck(_) => vec![(Kind::AspUp, Subject::Asp)],
        Message::AspDownAck(_) => vec![(Kind::AspDown, Subject::Asp)],
        Message::AspActiveAck(ack) => vec![(Kind::AspActive, contexts(&ack.routing_contexts))],
        Message::AspInactiveAck(ack) => {
            vec![(Kind::AspInactive, contexts(&ack.routing_contexts))]
        }
        Message::BeatAck(data) => vec![(Kind::Beat, heartbeat(data.as_deref()))],
        Message::RegRsp(results) => {
            let keys = results.iter().map(|result| result.local_rk_identifier);
            keys.map(|key| (Kind::RegReq, Subject::Number(key)))
                .collect()
        }
        Message::DeregRsp(results) => {
            let contexts = results.iter().map(|result| result.routing_context);
            contexts
                .map(|context| (Kind::DeregReq, Subject::Number(context)))
                .collect()
        }
        // Section 4.5.3.
        Message::Duna(to) | Message::Dava(to) | Message::Drst(to) => audits(&to.affected),
        Message::Scon(congestion) => audits(&congestion.destinations.affected),
        _ => Vec::new(),
    }
}

/// What a message asks for, one by one, and how it is named.
fn asked_by(message: &Message, variant: Variant) -> Vec<(Subject, String)> {
    let all = |of: &[u32]| vec![(contexts(of), contexts_in_short(of).unwrap_or_default())];
    match message {
        Message::AspUp(_) | Message::AspDown(_) => vec![(Subject::Asp, String::new())],
        Message::AspActive(active) => all(&active.routing_contexts),
        Message::AspInactive(inactive) => all(&inactive.routing_contexts),
        Message::Beat(data) => vec![(heartbeat(data.as_deref()), String::new())],
        Message::RegReq(keys) => {
            let keys = keys.iter().map(|key| key.local_rk_identifier);
            keys.map(|key| (Subject::Number(key), format!("rk={key}")))
                .collect()
        }
        Message::DeregReq(contexts) => {
            let contexts = contexts.iter().copied();
            contexts
                .map(|context| (Subject::Number(context), format!("rc={context}")))
                .collect()
        }
        Message::Daud(to) => {
            let affected = to.affected.iter().copied();
            affected
                .map(|destination| {
                    let name = destination_in_short(destination, variant);
                    (Subject::Destination(destination), name)
                })
                .collect()
        }
        _ => Vec::new(),
    }
}

fn contexts(contexts: &[u32]) -> Subject {
    let mut contexts = contexts.to_vec();
    contexts.sort_unstable();
    contexts.dedup();
    Subject::Contexts(contexts)
}

/// Heartbeats that few accidents make equal.
fn heartbeat(data: Option<&[u8]>) -> Subject {
    const HASHER: [u64; 4] = [1, 2, 3, 4];
    let [a, b, c, d] = HASHER;
    Subject::Heartbeat(RandomState::with_seeds(a, b, c, d).hash_one(data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_in_common_are_found() {
        for (these, those, expected) in [
            (&[1, 3, 5][..], &[2, 5][..], true),
            (&[1, 3, 5], &[0, 2, 4, 6], false),
            (&[7], &[7], true),
            (&[], &[7], false),
        ] {
            assert_eq!(have_common(these, those), expected, "{these:?} {those:?}");
            assert_eq!(have_common(those, these), expected, "{these:?} {those:?}");
        }
    }
}
