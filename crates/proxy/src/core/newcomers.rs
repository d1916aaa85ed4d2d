//! Newcomers: who registers while an INVITE is being forwarded is called, too (RFC 3261 section 16.5).
//!
//! The location service is asked again from time to time, whatever store it is and whichever worker or machine a REGISTER
//! came to. Requests other than INVITE end within seconds, and are not watched.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use sip::transaction::ServerId;

use super::context::Cancel;
use super::proxy::{Proxy, Waiting};
use super::query::{Answer, Query};

/// The response contexts whose users are looked up again.
#[derive(Debug, Default)]
pub(super) struct Watches {
    /// In the order of their time, unless a reload has changed the interval. A context that has ended stays until then.
    queue: VecDeque<(Instant, ServerId)>,
}

impl Watches {
    /// When somebody is to be looked up next.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.queue.front().map(|(due, _)| *due)
    }

    fn take_due(&mut self, now: Instant) -> Option<ServerId> {
        self.queue
            .pop_front_if(|(due, _)| *due <= now)
            .map(|(_, server)| server)
    }
}

impl Proxy {
    /// How often the targets of an INVITE for a user are looked up again; `None` where that is not wanted.
    pub(super) fn watch_interval(&self) -> Option<Duration> {
        let interval = self.policy.forwarding.look_again;
        interval.filter(|interval| !interval.is_zero())
    }

    /// Has the user looked up again for whom a response context is.
    pub(super) fn watch(&mut self, now: Instant, server: ServerId) {
        if let Some(interval) = self.watch_interval() {
            self.watches.queue.push_back((now + interval, server));
        }
    }

    /// Asks again where the users are whose turn it is.
    pub(super) fn look_again(&mut self, now: Instant) {
        while let Some(server) = self.watches.take_due(now) {
            let Some(context) = self.contexts.get(&server) else {
                continue;
            };
            if !context.may_go_on(now) {
                continue;
            }
            let Some(address) = self.user_asked_for(&context.request, &context.arrival) else {
                continue;
            };
            let asked = self.ask(now, Query::Lookup(address), Waiting::Newcomers(server));
            if asked.is_err() {
                self.watch(now, server);
            }
        }
    }

    /// Takes in who has registered meanwhile.
    pub(super) fn complete_watch(&mut self, now: Instant, server: ServerId, answer: Answer) {
        if !self
            .contexts
            .get(&server)
            .is_some_and(|context| context.may_go_on(now))
        {
            return;
        }
        self.watch(now, server);
        let Answer::Bindings(bindings) = answer else {
            return;
        };
        let Some(mut context) = self.contexts.remove(&server) else {
            return;
        };
        let (request, arrival) = (&context.request, &context.arrival);
        let meant = self.bindings_meant(now, request, arrival, bindings);
        let groups = meant
            .map(|bindings| self.targets(now, request, &bindings).into_groups())
            .unwrap_or_default();
        let policy = &self.policy.forwarding;
        let (ring_time, maximum) = (policy.ring_time, policy.maximum_targets);
        let added = context.add_newcomers(groups, policy.forking, maximum, |connection| {
            self.closed.contains(&connection)
        });
        self.statistics.targets_added += added as u64;
        if added > 0
            && let Some(ring_time) = ring_time
            && context.targets.has_later()
        {
            // Those that ring have had nobody behind them until now.
            for index in 0..context.branches.len() {
                if let Some(forwarded) = context.forwarded_mut(index)
                    && forwarded.cancel == Cancel::No
                    && forwarded.rings_until.is_none()
                {
                    let end = now + ring_time;
                    forwarded.rings_until = Some(end);
                    if !forwarded.is_hurried {
                        let deadline = forwarded.deadline_from(forwarded.deadline.unwrap_or(end));
                        self.arm((server, index), forwarded, Some(deadline));
                    }
                }
            }
        }
        self.drive(now, server, context);
    }
}
