//! Keep-alives for user agents that have registered before there were any: those whose bindings a store has brought over
//! a restart, and those that are there when settings begin to want keep-alives.
//!
//! The location store is gone through once, a page at a time, with a rest after each: neither what it holds nor what is
//! sent comes all at once. Only flows over UDP are kept open; a connection has ended with the process.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ahash::RandomState;
use sip::Transport;

use super::binding::{AddressOfRecord, Binding};
use super::keep_alive::is_behind_nat;
use super::keys::Keys;
use super::proxy::{Proxy, Waiting};
use super::query::{Answer, Page, Place, Query, QueryId};

/// Going through the location store for flows to keep open.
#[derive(Debug)]
pub(super) struct KeepAliveWalk {
    /// What the shares of workers follow from: in all of them the same.
    hasher: RandomState,
    /// Which worker this is, and of how many.
    share: (u64, u64),
    step: Option<Step>,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// To ask, when it is time, for what stands from this place on.
    Due(Instant, Place),
    /// The answer to this question, about what stands there.
    Asked(QueryId, Place),
}

/// How many addresses of record are looked at at a time.
const PAGE: usize = 256;

/// How long it rests after so many.
const REST: Duration = Duration::from_millis(50);

/// From a question that has failed to the next try.
const RETRY_AFTER: Duration = Duration::from_secs(1);

impl KeepAliveWalk {
    pub(super) fn new(keys: &Keys) -> KeepAliveWalk {
        let key = keys.derive("shares of keep-alives");
        let (seeds, _) = key.as_chunks();
        let seed = |place: usize| seeds.get(place).copied().map_or(0, u64::from_le_bytes);
        KeepAliveWalk {
            hasher: RandomState::with_seeds(seed(0), seed(1), seed(2), seed(3)),
            share: (0, 1),
            step: None,
        }
    }

    /// When there is something to ask.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        match self.step? {
            Step::Due(due, _) => Some(due),
            Step::Asked(..) => None,
        }
    }

    fn is_ours(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        let (number, workers) = self.share;
        self.hasher.hash_one((local, remote)) % workers == number
    }
}

impl Proxy {
    /// Begins to send keep-alives to the user agents whose bindings are in the store already, where settings want any.
    /// Of so many `workers` with one store each has a `number`, the first 0, and sees to its share of the flows. Those
    /// who register from now on are seen to by whoever takes their REGISTER.
    pub fn start_keep_alives(&mut self, now: Instant, number: usize, workers: usize) {
        self.keep_alive_walk.share = (number as u64, workers.max(1) as u64);
        if self.policy.keep_alive.method.is_some() {
            self.walk_through_store(now);
        }
    }

    /// Goes through the store, from its beginning.
    pub(super) fn walk_through_store(&mut self, now: Instant) {
        self.stop_walk();
        self.keep_alive_walk.step = Some(Step::Due(now, Place::default()));
    }

    /// Goes no further.
    pub(super) fn stop_walk(&mut self) {
        if let Some(Step::Asked(id, _)) = self.keep_alive_walk.step.take() {
            self.withdraw(id);
        }
    }

    /// Asks for the next page, if it is time.
    pub(super) fn continue_walk(&mut self, now: Instant) {
        let Some(Step::Due(due, from)) = self.keep_alive_walk.step else {
            return;
        };
        if due > now {
            return;
        }
        let query = Query::Page { from, limit: PAGE };
        let step = match self.ask(now, query, Waiting::Page) {
            Ok(id) => Step::Asked(id, from),
            Err(_) => Step::Due(now + RETRY_AFTER, from),
        };
        self.keep_alive_walk.step = Some(step);
    }

    /// Goes on when there is an answer. A store that has failed is asked again.
    pub(super) fn complete_page(&mut self, now: Instant, answer: Answer) {
        let Some(Step::Asked(_, from)) = self.keep_alive_walk.step else {
            return;
        };
        self.keep_alive_walk.step = match answer {
            Answer::Page(Page { users, next }) => {
                for (user, bindings) in &users {
                    self.keep_stored(now, user, bindings);
                }
                next.map(|next| Step::Due(now + REST, next))
            }
            _ => Some(Step::Due(now + RETRY_AFTER, from)),
        };
    }

    /// Keeps the flows of a user's bindings open that are behind NATs and of our share. The first keep-alive is due: it is not
    /// known when something has gone along them last.
    fn keep_stored(&mut self, now: Instant, user: &AddressOfRecord, bindings: &[Binding]) {
        for binding in bindings.iter().filter(|binding| binding.expires() > now) {
            let Some(flow) = binding.flow() else {
                continue;
            };
            let ends = (flow.local, flow.remote);
            if flow.transport != Transport::Udp
                || !is_behind_nat(binding)
                || !self.keep_alive_walk.is_ours(flow.local, flow.remote)
                // What a REGISTER has said since is newer than what is read here.
                || self.keep_alives.is_kept_for(user, ends)
            {
                continue;
            }
            // Of several bindings along one flow the last to end counts.
            let along = bindings.iter().filter(|other| {
                is_behind_nat(other)
                    && other.flow().is_some_and(|other| {
                        other.transport == Transport::Udp && (other.local, other.remote) == ends
                    })
            });
            let until = along.map(Binding::expires).max();
            let until = until.unwrap_or(binding.expires());
            let policy = &self.policy.keep_alive;
            if !self.keep_alives.keep(policy, now, (user, flow), until) {
                self.statistics.keep_alives_refused += 1;
            }
        }
    }
}
