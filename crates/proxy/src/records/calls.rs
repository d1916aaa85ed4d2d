//! Calls that have begun and not ended, and what their events make of them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use sip::Transport;

use super::record::{self, Record, Tags, seconds, written};
use crate::core::{Answered, Call, EndedBy, Event};

/// What identifies a call: its Call-ID and the caller's tag.
type CallKey = (String, String);

/// The calls that have not ended.
#[derive(Debug)]
pub(super) struct Calls {
    open: HashMap<CallKey, OpenCall>,
    /// What has been noted of calls that have not begun, and when.
    tags: HashMap<CallKey, (SystemTime, Tags)>,
    maximum: usize,
    maximum_duration: Duration,
}

#[derive(Debug)]
struct OpenCall {
    call: Arc<Call>,
    start: SystemTime,
    answer: Option<Answer>,
    /// The callee's tag in the dialog that the answer has made.
    to_tag: String,
    /// How many of its INVITEs have no final response: one that comes through here twice, on its way to
    /// another user of ours, begins twice.
    pending: u32,
    tags: Tags,
}

/// For how long a call may take to begin after something was noted of it.
const TAGS_LIFETIME: Duration = Duration::from_secs(60);

/// How many things may be noted of a call.
const MAXIMUM_TAGS: usize = 64;

/// When it was answered, with what, and from where.
type Answer = (SystemTime, u16, Option<TransportAddress>);

/// A transport and an address.
type TransportAddress = (Transport, SocketAddr);

/// Whether an event is about a call.
pub(super) fn is_call_event(event: &Event) -> bool {
    matches!(
        event,
        Event::CallStarted(_)
            | Event::CallAnswered(_)
            | Event::CallFailed { .. }
            | Event::CallEnded { .. }
            | Event::CallTagged { .. }
    )
}

impl Calls {
    pub(super) fn new(maximum: usize, maximum_duration: Duration) -> Calls {
        Calls {
            open: HashMap::new(),
            tags: HashMap::new(),
            maximum,
            maximum_duration,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// Takes in what has happened, and gives the record of a call that is over by it.
    pub(super) fn handle_event(&mut self, at: SystemTime, event: Event) -> Option<Record> {
        match event {
            Event::CallStarted(call) => {
                self.begin(at, call);
                None
            }
            Event::CallAnswered(answered) => self.answer(at, answered),
            Event::CallTagged {
                call_id,
                from_tag,
                name,
                value,
            } => {
                self.tag(at, (call_id.into(), from_tag.into()), name, value);
                None
            }
            Event::CallFailed {
                call,
                status,
                reason,
                by,
            } => self.fail(at, &call, (status, reason), by),
            Event::CallEnded {
                call_id,
                from_tag,
                to_tag,
            } => self.end(at, call_id, from_tag, to_tag),
            _ => None,
        }
    }

    /// The records of calls that have lasted too long to be believed.
    pub(super) fn expire(&mut self, now: SystemTime) -> Vec<Record> {
        let is_fresh = |since: &SystemTime| {
            let age = now.duration_since(*since);
            age.is_ok_and(|age| age <= TAGS_LIFETIME)
        };
        self.tags.retain(|_, (since, _)| is_fresh(since));
        let maximum = self.maximum_duration;
        let is_over = |open: &OpenCall| {
            now.duration_since(open.start)
                .is_ok_and(|age| age > maximum)
        };
        let over = self.open.extract_if(|_, open| is_over(open));
        over.map(|(_, open)| open.record()).collect()
    }

    /// The records of all calls, as far as they are known.
    pub(super) fn take_all(&mut self) -> Vec<Record> {
        self.open.drain().map(|(_, open)| open.record()).collect()
    }

    fn begin(&mut self, at: SystemTime, call: Arc<Call>) {
        let name = key_of(&call);
        if let Some(open) = self.open.get_mut(&name) {
            open.pending += 1;
        } else if self.open.len() < self.maximum {
            let open = OpenCall {
                call,
                start: at,
                answer: None,
                to_tag: String::new(),
                pending: 1,
                tags: self
                    .tags
                    .remove(&name)
                    .map(|(_, tags)| tags)
                    .unwrap_or_default(),
            };
            self.open.insert(name, open);
        }
    }

    /// Notes something of a call, or of one that may begin.
    fn tag(&mut self, at: SystemTime, key: CallKey, name: Box<str>, value: Box<str>) {
        let tags = match self.open.get_mut(&key) {
            Some(open) => &mut open.tags,
            None if self.tags.len() < self.maximum || self.tags.contains_key(&key) => {
                &mut self.tags.entry(key).or_insert((at, Tags::new())).1
            }
            None => return,
        };
        if tags.len() < MAXIMUM_TAGS || tags.contains_key(&name) {
            tags.insert(name, value);
        }
    }

    fn answer(&mut self, at: SystemTime, answered: Answered) -> Option<Record> {
        let Answered {
            call,
            status,
            to_tag,
            hop,
        } = answered;
        if let Some(open) = self.open.get_mut(&key_of(&call)) {
            open.pending = open.pending.saturating_sub(1);
            // Of several that answer the first is kept: a caller who wants only one ends the others (RFC
            // 3261 section 13.2.2.4).
            if open.answer.is_none() {
                open.answer = Some((at, status, hop));
                open.to_tag = to_tag;
            }
            return None;
        }
        // There was no room for it: better without its end than not at all.
        Some(Record {
            answer: Some(written(at)),
            status: Some(status),
            destination: hop.map(show),
            ..begun(&call)
        })
    }

    fn fail(
        &mut self,
        at: SystemTime,
        call: &Arc<Call>,
        (status, reason): (u16, String),
        by: EndedBy,
    ) -> Option<Record> {
        let name = key_of(call);
        if let Some(open) = self.open.get_mut(&name) {
            open.pending = open.pending.saturating_sub(1);
            // It goes on elsewhere, or has been answered already.
            if open.pending > 0 || open.answer.is_some() {
                return None;
            }
        }
        let (start, tags) = match self.open.remove(&name) {
            Some(open) => (Some(open.start), open.tags),
            None => (None, Tags::new()),
        };
        // A call that has to bring credentials comes again with them.
        if matches!(status, 401 | 407) {
            return None;
        }
        Some(Record {
            start: start.map(written),
            end: Some(written(at)),
            setup_seconds: start.map(|start| seconds(start, at)),
            status: Some(status),
            reason: Some(reason),
            ended_by: Some(record::name_of(by)),
            tags,
            ..begun(call)
        })
    }

    fn end(
        &mut self,
        at: SystemTime,
        call_id: String,
        from_tag: String,
        to_tag: String,
    ) -> Option<Record> {
        // The BYE of the caller has the caller's tag in From, that of the callee in To.
        let [by_caller, by_callee] = [(&from_tag, &to_tag), (&to_tag, &from_tag)]
            .map(|(caller, callee)| ((call_id.clone(), caller.clone()), callee));
        // Of another dialog of the same INVITE, or of none: whoever makes that up ends nothing.
        let is_of = |(name, callee): &(CallKey, &String)| {
            let open = self.open.get(name);
            open.is_some_and(|open| open.answer.is_some() && open.to_tag == **callee)
        };
        let (name, ended_by) = if is_of(&by_caller) {
            (by_caller.0, EndedBy::Caller)
        } else if is_of(&by_callee) {
            (by_callee.0, EndedBy::Callee)
        } else {
            return None;
        };
        let open = self.open.remove(&name)?;
        let answered = open.answer.as_ref().map(|(answered, ..)| *answered);
        Some(Record {
            end: Some(written(at)),
            talk_seconds: answered.map(|answered| seconds(answered, at)),
            ended_by: Some(record::name_of(ended_by)),
            ..open.record()
        })
    }
}

impl OpenCall {
    /// What is known so far.
    fn record(&self) -> Record {
        let (answer, status, hop) = match &self.answer {
            Some((answer, status, hop)) => (Some(*answer), Some(*status), *hop),
            None => (None, None, None),
        };
        Record {
            start: Some(written(self.start)),
            answer: answer.map(written),
            setup_seconds: answer.map(|answer| seconds(self.start, answer)),
            status,
            destination: hop.map(show),
            tags: self.tags.clone(),
            ..begun(&self.call)
        }
    }
}

/// The record of a call of which nothing but its names is known.
fn begun(call: &Call) -> Record {
    Record {
        call_id: call.call_id.clone(),
        caller: call.caller.clone(),
        callee: call.callee.clone(),
        source: show((call.arrival.transport, call.arrival.remote)),
        destination: None,
        start: None,
        answer: None,
        end: None,
        setup_seconds: None,
        talk_seconds: None,
        status: None,
        reason: None,
        ended_by: None,
        tags: Tags::new(),
    }
}

fn key_of(call: &Call) -> CallKey {
    (call.call_id.clone(), call.from_tag.clone())
}

fn show((transport, address): TransportAddress) -> String {
    format!("{transport}:{address}")
}
