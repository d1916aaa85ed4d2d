//! Forwarding: a response context tries its targets, the hops to each, and cancels what is not
//! wanted any more (RFC 3261 sections 16.6, 16.8 to 16.10).

use std::mem;
use std::sync::Arc;
use std::time::Instant;

use sip::transaction::{ServerId, WrittenRequest};
use sip::user_agent::cancel_of;
use sip::{Message, Name, Peer};

use super::Forwarder;
use super::best_response::Candidate;
use super::next_hop::{self, Resolved, add_next_hops};
use super::response_context::{BranchState, Cancel, Forwarded, ResponseContext, larger_half};
use super::responses::Final;
use super::target_set::arranged;
use crate::core::branch_name::BranchName;
use crate::core::common::CommonState;
use crate::core::dialog_mark::{self, MarkText};
use crate::core::event::{EndedBy, HopOutcome};
use crate::core::forward::{self, Forwarding, is_record_routed};
use crate::core::hook::{BranchPoint, HookOutcome, Points, Resumed};
use crate::core::interface::Interface;
use crate::core::pending::{ParkedAt, PendingQuery};
use crate::core::policy::ForwardingPolicy;
use crate::core::query::Answer;
use crate::core::rejection::Rejection;
use crate::core::target::Hop;

/// Where a request goes.
struct ResolvedHop {
    to: sip::Target,
    peer: Option<Arc<Peer>>,
    interface: Interface,
    /// Over UDP in spite of its size.
    is_last_resort: bool,
}

impl Forwarder {
    /// Brings a response context as far as it can go: begins branches, and answers when none is left.
    /// Keeps it for as long as anything is to come.
    pub(crate) fn drive(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        server: ServerId,
        mut context: Box<ResponseContext>,
    ) {
        let for_others = context.is_invite() && common.policy.forwarding.ring_time.is_some();
        loop {
            self.try_ready_branches(common, now, server, &mut context);
            if context.is_answered {
                break;
            }
            if context.may_go_on(now) && context.begin_targets(for_others) {
                continue;
            }
            if context.is_awaited() {
                break;
            }
            self.answer_with_best(common, now, server, &mut context);
        }
        if context.is_pending() {
            self.contexts.insert(&mut common.held, server, context);
        }
    }

    /// Ends a response context without having forwarded anything.
    pub(crate) fn abandon(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        server: ServerId,
        context: &ResponseContext,
        rejection: &Rejection,
    ) {
        let outcome = (rejection.status, &*rejection.reason);
        self.report_final(common, now, context, outcome, Final::Failed(EndedBy::Proxy));
        common.refuse(now, server, &context.request, rejection);
    }

    /// Goes on with a branch when the addresses of its next hop are known, or the bindings of the user
    /// whom it is for: they take its place.
    pub(crate) fn complete_resolution(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        (server, index): BranchName,
        answer: Answer,
    ) {
        let Some(mut context) = self.contexts.remove(&mut common.held, &server) else {
            return;
        };
        match answer {
            Answer::Bindings(bindings) => {
                let targets = self.targets(now, &context.request, &bindings);
                let mut groups = targets.into_groups();
                for group in &mut groups {
                    group.retain(|target| !context.knows_target(&target.uri));
                }
                let ForwardingPolicy {
                    forking,
                    maximum_targets,
                    ..
                } = common.policy.forwarding;
                let room = maximum_targets.saturating_sub(context.known_targets());
                let groups = arranged(groups, forking, room);
                let nobody = groups.is_empty().then_some(Candidate::Presumed(480));
                self.end_branch(common, (server, index), &mut context, nobody);
                context.targets.insert(groups);
            }
            Answer::Unknown => {
                let nobody = Some(Candidate::Presumed(404));
                self.end_branch(common, (server, index), &mut context, nobody);
            }
            answer => {
                if let Some(branch) = context.branches.get_mut(index) {
                    add_next_hops(&mut branch.target, answer);
                    branch.state = BranchState::Ready;
                }
            }
        }
        self.drive(common, now, server, context);
    }

    /// Timer C, the end of the time that a CANCEL may take to have its effect (RFC 3261 sections 9.1
    /// and 16.8), or of that which a hop has for any response while others wait. Where none has come, Timer
    /// B or F ends the branch, before Timer C would.
    pub(crate) fn handle_branch_timeout(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        (server, index): BranchName,
    ) {
        let Some(mut context) = self.contexts.remove(&mut common.held, &server) else {
            return;
        };
        if let Some(branch) = context.forwarded_mut(index) {
            branch.deadline = None;
            let name = (server, index);
            if branch.cancel == Cancel::Sent {
                common.transactions.abandon(now, branch.client);
                self.fail_branch(common, now, name, &mut context, Candidate::Presumed(408));
            } else if branch.is_proceeding {
                self.cancel_branch(common, now, name, &mut context);
            } else if context.may_go_on(now) && context.pass_over(index) {
                common.statistics.failovers += 1;
                if let Some((member, forwarded)) = context.hop(index) {
                    self.note_outcome(common, now, member, forwarded, HopOutcome::Silent);
                }
            } else if context.is_invite()
                && let Some(branch) = context.forwarded_mut(index)
            {
                self.arm(name, branch, Some(now + common.timings.timer_c));
            }
        }
        self.drive(common, now, server, context);
    }

    /// Cancels all branches that have no final response (RFC 3261 section 16.7 step 10).
    pub(crate) fn cancel_branches(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        server: ServerId,
        context: &mut ResponseContext,
    ) {
        for index in 0..context.branches.len() {
            self.cancel_branch(common, now, (server, index), context);
        }
    }

    /// Begins no further branch, and ends those that there are: one has brought a 6xx (RFC 3261 section 16.7 step 5).
    pub(crate) fn stop(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        server: ServerId,
        context: &mut ResponseContext,
    ) {
        context.is_stopped = true;
        self.cancel_branches(common, now, server, context);
    }

    /// Takes a branch out of service, with the response that it has brought, if it has.
    pub(crate) fn end_branch(
        &mut self,
        common: &mut CommonState,
        (server, index): BranchName,
        context: &mut ResponseContext,
        candidate: Option<Candidate>,
    ) {
        let Some(branch) = context.branches.get_mut(index) else {
            return;
        };
        let is_answered = candidate
            .as_ref()
            .is_none_or(|candidate| !candidate.is_of_flow());
        match mem::replace(&mut branch.state, BranchState::Ended { is_answered }) {
            BranchState::Forwarded(mut forwarded) => {
                if let Some(id) = forwarded.parked {
                    common.take_pending(id);
                }
                self.clients.remove(forwarded.client);
                self.arm((server, index), &mut forwarded, None);
            }
            BranchState::Resolving(id) => {
                common.take_pending(id);
            }
            BranchState::Ready | BranchState::Ended { .. } => {}
        }
        if let Some(candidate) = candidate {
            context.finals.add(candidate);
        }
    }

    /// Sets the time at which a branch is looked at again.
    pub(crate) fn arm(
        &mut self,
        name: BranchName,
        forwarded: &mut Forwarded,
        deadline: Option<Instant>,
    ) {
        if let Some(old) = mem::replace(&mut forwarded.deadline, deadline) {
            self.timers.remove(&(old, name));
        }
        if let Some(new) = deadline {
            self.timers.insert((new, name));
        }
    }

    /// The mark for the UAS of a request that came from this side.
    pub(crate) fn mark_of_uas(
        &self,
        common: &CommonState,
        request: &Message,
        from: &Interface,
        is_within: bool,
    ) -> MarkText {
        let along = from
            .flow
            .as_ref()
            .map_or(dialog_mark::NextHop::RequestUri, |flow| {
                let mut token = String::new();
                common.tokens.push_to(&mut token, flow);
                self.dialogs.marks.along_flow(token.as_bytes())
            });
        let identity = &common.identity;
        self.dialogs
            .mark_of_uas(request, along, identity, is_within)
    }

    fn try_ready_branches(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        server: ServerId,
        context: &mut ResponseContext,
    ) {
        for index in 0..context.branches.len() {
            while context.is_ready(index) {
                if context.may_go_on(now) {
                    self.try_next_hop(common, now, (server, index), context);
                } else {
                    self.end_branch(common, (server, index), context, None);
                }
            }
        }
    }

    /// Asks the hooks whether a branch may begin. Where it may not, or not yet, it is not ready any more.
    fn may_begin(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        name: BranchName,
        context: &mut ResponseContext,
        resumed: Option<Resumed>,
    ) -> bool {
        let Some(branch) = context.branches.get_mut(name.1) else {
            return false;
        };
        if branch.may_begin || !common.hooks.are_at(Points::BRANCH) {
            return true;
        }
        let mut is_changed = branch.request.is_some();
        let request = branch.request.take();
        let mut request = request.unwrap_or_else(|| Box::new(context.request.clone()));
        let mut point = BranchPoint {
            request: &mut request,
            arrival: &context.arrival,
            target: &branch.target.uri,
            now,
            is_changed: &mut is_changed,
        };
        let asked = common.hooks.ask(Points::BRANCH, resumed, |hook, resumed| {
            hook.on_branch(&mut point, resumed)
        });
        branch.request = is_changed.then_some(request);
        let candidate = match asked {
            HookOutcome::Continue => {
                branch.may_begin = true;
                return true;
            }
            HookOutcome::Act(refusal) => Candidate::Refused(Box::new(refusal.into_rejection())),
            HookOutcome::Park(parking) => match common.park(now, parking, ParkedAt::Branch(name)) {
                Ok(id) => {
                    branch.state = BranchState::Resolving(id);
                    return false;
                }
                Err(_) => {
                    context.is_overloaded = true;
                    Candidate::Presumed(503)
                }
            },
        };
        let is_global = candidate.status() >= 600;
        self.end_branch(common, name, context, Some(candidate));
        if is_global {
            self.stop(common, now, name.0, context);
        }
        false
    }

    /// Goes on with a branch that a hook has parked.
    pub(crate) fn resume_branch(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        name: BranchName,
        resumed: Option<Resumed>,
    ) {
        let Some(mut context) = self.contexts.remove(&mut common.held, &name.0) else {
            return;
        };
        context.retry(name.1);
        self.may_begin(common, now, name, &mut context, resumed);
        self.drive(common, now, name.0, context);
    }

    /// Tries the next hop to a branch's target; the branch ends where there is none.
    fn try_next_hop(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        name: BranchName,
        context: &mut ResponseContext,
    ) {
        if !self.may_begin(common, now, name, context, None) {
            return;
        }
        let Some(branch) = context.branches.get_mut(name.1) else {
            return;
        };
        let Some(hop) = branch.target.next_hop() else {
            if branch.target.fall_back() {
                return;
            }
            self.end_branch(common, name, context, Some(Candidate::Presumed(503)));
            return;
        };
        let request = branch.request.as_deref().unwrap_or(&context.request);
        match next_hop::resolve(common, request, &branch.target, &hop) {
            Some(Resolved::Send {
                to,
                peer,
                interface,
            }) => {
                let is_last_resort = matches!(hop, Hop::Datagram { .. });
                common.statistics.fell_back_to_datagram += u64::from(is_last_resort);
                let hop = ResolvedHop {
                    to,
                    peer,
                    interface,
                    is_last_resort,
                };
                self.forward(common, now, name, context, hop);
            }
            Some(Resolved::Ask(query)) => match common.ask(now, query, PendingQuery::NextHop(name))
            {
                Ok(id) => branch.state = BranchState::Resolving(id),
                Err(_) => {
                    context.is_overloaded = true;
                    self.end_branch(common, name, context, Some(Candidate::Presumed(503)));
                }
            },
            // The next one, if there is one.
            None => {}
        }
    }

    /// Forwards the request (RFC 3261 section 16.6 steps 8 to 11).
    fn forward(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        name: BranchName,
        context: &mut ResponseContext,
        hop: ResolvedHop,
    ) {
        let is_routed = context.request.method().is_some_and(is_record_routed);
        let from = match is_routed {
            true => next_hop::arrival_interface(common, &context.request, &context.arrival),
            false => None,
        };
        let from = from.as_ref().map(|from| {
            let mark = self.mark_of_uas(common, &context.request, from, context.is_in_dialog);
            (from, mark)
        });
        let is_invite = context.is_invite();
        let held = context.octets();
        let free = context.free_breadth();
        let rings_until = match common.policy.forwarding.ring_time {
            Some(time) if !context.targets.is_empty() => Some(now + time),
            _ => None,
        };
        let Some(branch) = context.branches.get_mut(name.1) else {
            return;
        };
        let hurry = self
            .response_timeout(branch.target.member.as_ref())
            .filter(|_| !branch.target.hops.is_empty() && branch.max_breadth + free > 1);
        // What is tried while it is silent needs some, too.
        let max_breadth = match hurry {
            Some(_) => larger_half(branch.max_breadth),
            None => branch.max_breadth,
        };
        let mut id = common.transactions.new_branch();
        context.fingerprint.append_to(&mut id);
        let make = |interface: &Interface| {
            let how = Forwarding {
                request_uri: &branch.target.uri,
                path: &branch.target.path,
                branch: &id,
                offers_alias: common.identity.offers_alias(interface.transport),
                back: None,
                record_route: from,
                to: interface,
                max_breadth: Some(max_breadth),
            };
            let request = branch.request.as_deref().unwrap_or(&context.request);
            forward::copy(request, &how, &common.tokens)
        };
        let mut copy = make(&hop.interface);
        let mut to = hop.to;
        let stream = match hop.is_last_resort {
            true => None,
            false => next_hop::stream_instead(common, copy.wire_length(), &to, &hop.interface),
        };
        if let (sip::Target::Address(_, remote), Some((stream, interface))) = (to, stream) {
            copy = make(&interface);
            to = stream;
            common.statistics.switched_to_stream += 1;
            branch.target.hops.push_front(Hop::Datagram {
                remote,
                source: hop.interface.source,
                peer: hop.peer.clone(),
            });
        }
        let peer = hop.peer;
        common
            .trust
            .withhold_identity(&mut copy, &to, peer.as_deref());
        let octets = copy.wire_length();
        let sent = match context.request.method() {
            Some(method) if common.has_room(held + octets) => {
                let written = WrittenRequest {
                    method,
                    branch: &id,
                    call_id: context
                        .request
                        .header_bytes(Name::CallId)
                        .unwrap_or_default(),
                    octets: copy.to_bytes(),
                };
                let transactions = &mut common.transactions;
                Some(transactions.send_written(now, written, to, peer.clone()))
            }
            _ => None,
        };
        match sent {
            Some(Ok(client)) => {
                common.statistics.forwarded += 1;
                self.clients.insert(client, name);
                // Of what is sent once its transaction keeps nothing.
                let is_kept = is_invite || !to.transport().is_reliable();
                let mut forwarded = Forwarded {
                    client,
                    octets: if is_kept { octets } else { 0 },
                    max_breadth,
                    sent_to: to,
                    peer,
                    is_proceeding: false,
                    is_hurried: false,
                    is_refused: false,
                    is_passed_over: false,
                    is_settled: false,
                    cancel: Cancel::No,
                    has_final: false,
                    parked: None,
                    rings_until,
                    deadline: None,
                };
                if let Some(timeout) = hurry {
                    forwarded.is_hurried = true;
                    self.arm(name, &mut forwarded, Some(now + timeout));
                } else if is_invite {
                    let deadline = forwarded.deadline_from(now + common.timings.timer_c);
                    self.arm(name, &mut forwarded, Some(deadline));
                }
                branch.state = BranchState::Forwarded(forwarded);
            }
            Some(Err(_)) | None => {
                context.is_overloaded = true;
                self.end_branch(common, name, context, Some(Candidate::Presumed(503)));
            }
        }
    }

    /// Cancels one branch: at once if a provisional response has come, else as soon as one does (RFC
    /// 3261 section 9.1). One that has not been sent ends. Requests other than INVITE are not cancelled,
    /// but what they bring is not waited for when another one has been answered.
    pub(crate) fn cancel_branch(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        name: BranchName,
        context: &mut ResponseContext,
    ) {
        let is_invite = context.is_invite();
        if context.is_unsent(name.1) || !is_invite && context.is_answered {
            self.end_branch(common, name, context, None);
            return;
        }
        let Some(forwarded) = context.forwarded_mut(name.1).filter(|_| is_invite) else {
            return;
        };
        if let Some(id) = forwarded.parked.take() {
            // It has its final response, which no hook need look at any more.
            let candidate = match common.take_pending(id) {
                Some(PendingQuery::Hook(parked)) => parked.what.into_candidate(),
                _ => None,
            };
            self.end_branch(common, name, context, candidate);
            return;
        }
        // A final response that a hook looks at ends the branch in any case.
        if forwarded.cancel == Cancel::Sent || forwarded.has_final {
            return;
        }
        forwarded.cancel = Cancel::Wanted;
        if !forwarded.is_proceeding {
            return;
        }
        forwarded.cancel = Cancel::Sent;
        if let Some(invite) = common.transactions.sent_request(forwarded.client) {
            // Without room for its transaction the branch ends by the deadline below.
            let _ = common.transactions.send_request_to(
                now,
                cancel_of(&invite),
                forwarded.sent_to,
                forwarded.peer.clone(),
            );
        }
        let deadline = now + common.timings.t1 * 64;
        self.arm(name, forwarded, Some(deadline));
    }
}
