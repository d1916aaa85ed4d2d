//! Requests by method and responses by status code.

use std::collections::BTreeMap;

use measures::Delays;

use super::call::{TIMEOUT_NANOSECONDS, response};
use super::exchange::Added;
use super::message::{Entry, Kind};
use super::method_code::MethodCode;
use crate::Time;

/// How often a message was seen.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Count {
    /// Messages, on all hops and in all files, those sent again included.
    pub messages: u64,
    /// Of these, those that were sent again.
    pub retransmissions: u64,
}

/// What became of the requests of one method, on the hop of whoever sent them.
#[derive(Clone, Default, Debug)]
pub struct Transactions {
    /// Requests that got a final response.
    pub answered: u64,
    /// Requests that got none in 32 s (Timers B and F of RFC 3261).
    pub unanswered: u64,
    /// From the request to its final response.
    pub delay: Delays,
}

/// Messages counted by what they are.
#[derive(Clone, Default, Debug)]
pub struct Codes {
    /// By the place of the method.
    requests: [Count; MethodCode::ALL.len()],
    /// In the order in which they came up: there are few, and those of every call come first.
    responses: Vec<(u16, Count)>,
    transactions: BTreeMap<MethodCode, Transactions>,
}

impl Codes {
    pub(crate) fn count(&mut self, kind: Kind, method: MethodCode) {
        self.entry(kind, method).messages += 1;
    }

    pub(crate) fn added(&mut self, kind: Kind, method: MethodCode, added: Added) {
        if added == Added::Retransmission {
            self.entry(kind, method).retransmissions += 1;
        }
    }

    /// Counts an exchange's requests by what became of them.
    pub(crate) fn judge(&mut self, entries: &[Entry], now: Time) {
        for (at, request) in entries.iter().enumerate() {
            if request.kind != Kind::Request
                || request.method == MethodCode::Ack
                || request.flags.is_retransmission
            {
                continue;
            }
            // A proxy has sent on what its sender has sent with fewer Via values.
            let is_forwarded = entries[..at].iter().any(|other| {
                other.kind == Kind::Request
                    && other.method == request.method
                    && (other.cseq == request.cseq || request.depth >= 64)
                    && other.depth < request.depth
            });
            if is_forwarded {
                continue;
            }
            match response(entries, request, 200..=999) {
                Some(answer) => {
                    let transactions = self.transactions.entry(request.method).or_default();
                    transactions.answered += 1;
                    let delay = answer.received - request.sent;
                    transactions.delay.record_nanoseconds(delay);
                }
                None if now - request.sent >= TIMEOUT_NANOSECONDS => {
                    self.transactions
                        .entry(request.method)
                        .or_default()
                        .unanswered += 1;
                }
                None => {}
            }
        }
    }

    /// Requests by method, in the order of importance for calls.
    pub fn requests(&self) -> impl Iterator<Item = (&'static str, Count)> {
        let requests = MethodCode::ALL.iter().zip(self.requests);
        requests
            .filter(|(_, count)| count.messages > 0)
            .map(|(method, count)| (method.name(), count))
    }

    /// Responses by status code.
    pub fn responses(&self) -> impl Iterator<Item = (u16, Count)> {
        let mut responses = self.responses.clone();
        responses.sort_unstable_by_key(|(status, _)| *status);
        responses.into_iter()
    }

    /// What became of requests, by method.
    pub fn transactions(&self) -> impl Iterator<Item = (&'static str, &Transactions)> {
        self.transactions
            .iter()
            .map(|(method, transactions)| (method.name(), transactions))
    }

    /// All messages.
    pub fn total(&self) -> Count {
        let mut total = Count::default();
        let responses = self.responses.iter().map(|(_, count)| count);
        for count in self.requests.iter().chain(responses) {
            total.messages += count.messages;
            total.retransmissions += count.retransmissions;
        }
        total
    }

    fn entry(&mut self, kind: Kind, method: MethodCode) -> &mut Count {
        match kind {
            Kind::Request => &mut self.requests[method as usize],
            Kind::Response(status) => {
                let known = self
                    .responses
                    .iter()
                    .position(|(known, _)| *known == status);
                let at = known.unwrap_or_else(|| {
                    self.responses.push((status, Count::default()));
                    self.responses.len() - 1
                });
                &mut self.responses[at].1
            }
        }
    }
}
