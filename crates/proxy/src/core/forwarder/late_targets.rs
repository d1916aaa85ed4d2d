//! Late targets: who registers while an INVITE is being forwarded is called, too (RFC 3261 section 16.5).
//!
//! The location service is asked again from time to time, whatever store it is and whichever worker or machine a REGISTER
//! came to. Requests other than INVITE end within seconds, and are not watched.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use sip::transaction::ServerId;

use super::Forwarder;
use super::best_response::Candidate;
use super::response_context::{BranchState, Cancel};
use crate::core::common::CommonState;
use crate::core::pending::PendingQuery;
use crate::core::query::{Answer, Query};

/// The response contexts whose users are looked up again.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    /// When whose turn is. A context that has ended stays until then.
    queue: BTreeSet<(Instant, ServerId)>,
}

impl Watches {
    /// When somebody is to be looked up next.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.queue.first().map(|(due, _)| *due)
    }

    fn take_due(&mut self, now: Instant) -> Option<ServerId> {
        self.next_timeout().filter(|due| *due <= now)?;
        self.queue.pop_first().map(|(_, server)| server)
    }
}

impl Forwarder {
    /// How often the targets of an INVITE for a user are looked up again; `None` where that is not wanted.
    pub(crate) fn watch_interval(&self, common: &CommonState) -> Option<Duration> {
        let interval = common.policy.forwarding.look_again;
        interval.filter(|interval| !interval.is_zero())
    }

    /// Has the user looked up again for whom a response context is.
    pub(crate) fn watch(&mut self, common: &mut CommonState, now: Instant, server: ServerId) {
        if let Some(interval) = self.watch_interval(common) {
            self.watches.queue.insert((now + interval, server));
        }
    }

    /// Asks again where the users are whose turn it is.
    pub(crate) fn look_again(&mut self, common: &mut CommonState, now: Instant) {
        if self.watch_interval(common).is_none() {
            self.watches = Watches::default();
        }
        while let Some(server) = self.watches.take_due(now) {
            let Some(context) = self.contexts.get(&server) else {
                continue;
            };
            if !context.may_go_on(now) {
                continue;
            }
            let Some(address) = self.user_asked_for(common, &context.request, &context.arrival)
            else {
                continue;
            };
            // Those who register and call come first.
            let may_ask = !common.are_queries_half_full();
            let query = Query::Lookup(address);
            if !may_ask
                || common
                    .ask(now, query, PendingQuery::LateTargets(server))
                    .is_err()
            {
                self.watch(common, now, server);
            }
        }
    }

    /// Takes in who has registered meanwhile.
    pub(crate) fn complete_watch(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        server: ServerId,
        answer: Answer,
    ) {
        if !self
            .contexts
            .get(&server)
            .is_some_and(|context| context.may_go_on(now))
        {
            return;
        }
        self.watch(common, now, server);
        let Answer::Bindings(bindings) = answer else {
            return;
        };
        let Some(mut context) = self.contexts.remove(&mut common.held, &server) else {
            return;
        };
        let (request, arrival) = (&context.request, &context.arrival);
        let meant = self.bindings_meant(common, now, request, arrival, bindings);
        let targets = meant
            .map(|bindings| self.targets(now, request, &bindings).into_groups())
            .unwrap_or_default();
        let policy = &common.policy.forwarding;
        let (forking, maximum) = (policy.forking, policy.maximum_targets);
        let targets = targets.into_iter().flatten();
        let (added, gone) = context.add_late_targets(targets, forking, maximum, |connection| {
            self.closed.contains(&connection)
        });
        common.statistics.targets_added += added as u64;
        for index in gone {
            if context.leave_flow(index) {
                common.statistics.failovers += 1;
                continue;
            }
            let closed = context.closed_flow(index, |connection| self.closed.contains(&connection));
            if let Some(client) = closed {
                // There is no breadth to try both.
                common.transactions.abandon(now, client);
                let name = (server, index);
                self.fail_branch(common, now, name, &mut context, Candidate::Presumed(503));
            }
        }
        self.drive(common, now, server, context);
        if added > 0 {
            self.limit_ringing(common, now, server);
        }
    }

    /// Sees to it that what rings does so for its time, now that others wait for their turn: there has been nobody behind it
    /// until now.
    fn limit_ringing(&mut self, common: &mut CommonState, now: Instant, server: ServerId) {
        let Some(ring_time) = common.policy.forwarding.ring_time else {
            return;
        };
        let Some(mut context) = self.contexts.remove(&mut common.held, &server) else {
            return;
        };
        if !context.targets.is_empty() {
            for (index, branch) in context.branches.iter_mut().enumerate() {
                if let BranchState::Forwarded(forwarded) = &mut branch.state
                    && forwarded.cancel == Cancel::No
                    && !forwarded.has_final
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
        self.contexts.insert(&mut common.held, server, context);
    }
}
