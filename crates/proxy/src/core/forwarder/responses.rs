//! What comes back on the branches of a forwarded request (RFC 3261 section 16.7).

use std::mem;
use std::net::SocketAddr;
use std::time::Instant;

use sip::transaction::{ClientId, ServerId};
use sip::{Flow, Message, Method, Name, Transport};

use super::Forwarder;
use super::best_response::Candidate;
use super::response_context::{Cancel, ResponseContext};
use super::target_set::arranged;
use crate::core::branch_name::BranchName;
use crate::core::common::CommonState;
use crate::core::dialogs::{Answered, Uac};
use crate::core::event::{self, EndedBy, Event, HopOutcome};
use crate::core::hook::{
    DialogEndPoint, DropReply, FailurePoint, HookOutcome, NewTargets, Points, ReplyPoint, Resumed,
};
use crate::core::pending::{EndedDialog, ParkedAt};
use crate::core::rejection::{NOT_FOUND, Rejection};

impl Forwarder {
    /// Takes a response to a request that we have forwarded. Those to our CANCELs belong to no branch
    /// and end here (step 3).
    pub(crate) fn handle_response(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        client: ClientId,
        from: &Flow,
        mut response: Message,
    ) {
        if self.handle_probe_response(common, now, client, &response) {
            return;
        }
        common.trust.remove_claims(&mut response, from);
        let Some(name) = self.clients.get(client) else {
            return;
        };
        response.remove_first_value(Name::Via);
        self.take_response(common, now, (client, name), response, None);
    }

    /// Asks the hooks about a response on a branch, and goes on with it.
    pub(crate) fn take_response(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        (client, name): (ClientId, BranchName),
        response: Message,
        resumed: Option<Resumed>,
    ) {
        let status = response.status().unwrap_or(0);
        let has_via = response.contains(Name::Via);
        let branch = (client, name);
        let Some(mut context) = self.contexts.remove(&mut common.held, &name.0) else {
            // Another 2xx, when all else is over: each goes upstream (step 5, RFC 6026).
            if has_via
                && is_success(status)
                && is_invite(&response)
                && let Some(mut response) = ask_reply(common, now, branch, response, resumed)
            {
                let uac = Uac::Answered(client);
                self.dialogs.answer(&mut response, &common.identity, uac);
                self.forward_another_success(common, now, client, name, response);
            }
            return;
        };
        let is_open = context.has_sent(name.1, client);
        if resumed.is_some() && !is_success(status) && !is_open {
            // The branch has gone on without it.
            self.contexts.insert(&mut common.held, name.0, context);
            return;
        }
        if resumed.is_none() && is_open {
            self.note_arrival(common, now, name, &mut context, status);
        }
        let Some(mut response) = ask_reply(common, now, branch, response, resumed) else {
            self.drive(common, now, name.0, context);
            return;
        };
        let uac = Uac::Request(&context.request);
        let answered = self.dialogs.answer(&mut response, &common.identity, uac);
        if context.is_in_dialog {
            self.dialogs.note_response(&context.request, &response);
        }
        let is_early = context.is_invite() && !context.is_answered && (100..200).contains(&status);
        if is_early && !context.has_early_dialogs && matches!(answered, Answered::Marked { .. }) {
            context.has_early_dialogs = true;
            self.dialogs.begin_early(&context.request);
        }
        let upstream = sip::Target::Flow(context.arrival);
        common
            .trust
            .withhold_identity(&mut response, &upstream, None);
        if let Some((member, forwarded)) = context.hop(name.1)
            && !forwarded.is_passed_over
        {
            self.note_response(common, now, member, forwarded, &response);
        }
        match status {
            101..200 if has_via => {
                self.handle_provisional(common, now, name.0, &mut context, response);
            }
            100..200 => {}
            200..300 if has_via => {
                self.handle_success(common, now, client, name, &mut context, response)
            }
            _ => {
                let response = has_via.then_some(response);
                self.handle_failure(common, now, (client, name), &mut context, response);
            }
        }
        self.drive(common, now, name.0, context);
    }

    /// A branch has brought no response, or the request could not be sent: it counts as answered with
    /// this status (sections 16.7 step 6 and 16.9), unless there is another hop to the target.
    pub(crate) fn handle_no_response(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        client: ClientId,
        status: u16,
    ) {
        let Some(name) = self.clients.remove(client) else {
            return;
        };
        let Some(mut context) = self.contexts.remove(&mut common.held, &name.0) else {
            return;
        };
        if context.has_final(name.1) {
            // It is the ACK that has not got there. The response is being looked at by a hook.
            self.contexts.insert(&mut common.held, name.0, context);
            return;
        }
        let outcome = match status {
            408 => HopOutcome::Silent,
            _ => HopOutcome::Unreachable,
        };
        self.note_failure(common, now, name, &context, outcome);
        let candidate = Candidate::Presumed(status);
        self.take_failure(common, now, (client, name), &mut context, candidate, None);
        self.drive(common, now, name.0, context);
    }

    /// Sends the best of the final responses upstream (step 6). A request other than INVITE is left
    /// without an answer where there is none: a 408 would come too late (RFC 4320 section 4.2).
    pub(crate) fn answer_with_best(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        server: ServerId,
        context: &mut ResponseContext,
    ) {
        context.is_answered = true;
        context.has_failed = true;
        if mem::take(&mut context.has_early_dialogs) {
            self.dialogs.end_early(&context.request);
        }
        // What was passed over is not waited for.
        self.cancel_branches(common, now, server, context);
        let best = context.finals.take_best();
        let is_presumed = matches!(best, Candidate::Presumed(_));
        let status = match best.status() {
            408 if context.is_cancelled => 487,
            // Nobody in front of us has a use for it (RFC 5626 section 11.5).
            430 if context.is_responsible => 480,
            503 if context.is_overloaded => 503,
            // The flow is gone (RFC 5626 section 5.3.1). A 503 that came along it says that it is not.
            503 if is_presumed && context.is_along_edge_flow() => 430,
            // A 503 would say that we cannot serve any request (step 6).
            503 => 500,
            status => status,
        };
        if status == 408 && !context.is_invite() {
            return;
        }
        let is_as_received = best.status() == status;
        let by = match &best {
            Candidate::Received(_)
                if is_as_received && !(context.is_cancelled && status == 487) =>
            {
                EndedBy::Callee
            }
            _ if context.is_cancelled => EndedBy::Caller,
            _ => EndedBy::Proxy,
        };
        match best {
            Candidate::Received(response) | Candidate::Terminated(response) if is_as_received => {
                let reason = response.reason().unwrap_or_default();
                self.report_final(common, now, context, (status, reason), Final::Failed(by));
                common.respond(now, server, response);
            }
            best => {
                let rejection = match best {
                    _ if status == 503 => common.overloaded(),
                    Candidate::Refused(refused) if is_as_received => *refused,
                    _ => rejection(status),
                };
                let outcome = (status, &*rejection.reason);
                self.report_final(common, now, context, outcome, Final::Failed(by));
                common.refuse(now, server, &context.request, &rejection);
            }
        }
    }

    /// Tells the log how a call has begun, if it has, or how a dialog has ended, and notes how long the
    /// client has waited.
    pub(crate) fn report_final(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        context: &ResponseContext,
        (status, reason): (u16, &str),
        how: Final<'_>,
    ) {
        if let Some(method) = context.request.method() {
            let waited = now.saturating_duration_since(context.received);
            if !context.is_responded {
                common.latencies.add_first(method, waited);
            }
            common.latencies.add_last(method, waited);
        }
        if context.begins_call {
            match is_success(status) {
                true => common.statistics.calls_answered += 1,
                false => common.statistics.calls_failed += 1,
            }
        }
        if common.hooks.are_at(Points::DIALOG_END) && ends_dialog(context, status) {
            let request = &context.request;
            let dialog = EndedDialog {
                call_id: request.call_id().unwrap_or_default().to_owned(),
                from_tag: request.from_tag().unwrap_or_default().to_owned(),
                to_tag: request.to_tag().unwrap_or_default().to_owned(),
            };
            ask_dialog_end(common, now, dialog, None);
        }
        if common.reports_users
            && let Some(event) = final_event(context, (status, reason), how)
        {
            common.report(event);
        }
    }

    /// Takes notice of a response as soon as it has come, whatever hooks say of it. After a provisional one Timer C begins
    /// anew, and a CANCEL that waited for it goes out (step 2 and section 9.1); after a final one nothing is waited for.
    fn note_arrival(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        name: BranchName,
        context: &mut ResponseContext,
        status: u16,
    ) {
        let is_invite = context.is_invite();
        let Some(forwarded) = context.forwarded_mut(name.1) else {
            return;
        };
        if status >= 200 {
            forwarded.has_final = true;
            self.arm(name, forwarded, None);
            return;
        }
        forwarded.is_proceeding = true;
        let was_hurried = mem::replace(&mut forwarded.is_hurried, false);
        match forwarded.cancel {
            Cancel::Wanted => self.cancel_branch(common, now, name, context),
            Cancel::No if is_invite && (was_hurried || status != 100) => {
                let deadline = forwarded.deadline_from(now + common.timings.timer_c);
                self.arm(name, forwarded, Some(deadline));
            }
            Cancel::No if was_hurried => self.arm(name, forwarded, None),
            _ => {}
        }
    }

    /// A provisional response other than 100 goes upstream, unless the request is no INVITE (step 5, RFC 4320 section 4.1).
    fn handle_provisional(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        server: ServerId,
        context: &mut ResponseContext,
        response: Message,
    ) {
        if !context.is_invite() || context.is_answered {
            return;
        }
        if !context.is_responded {
            context.is_responded = true;
            let waited = now.saturating_duration_since(context.received);
            common.latencies.add_first(&Method::Invite, waited);
        }
        common.transactions.respond(now, server, response);
    }

    /// A 2xx goes upstream at once, and the other branches are not wanted any more (steps 5 and 10).
    /// Of those to requests other than INVITE only the first does.
    fn handle_success(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        client: ClientId,
        name: BranchName,
        context: &mut ResponseContext,
        response: Message,
    ) {
        let is_invite = context.is_invite();
        // It has ended where a hook has taken its time: nothing more comes.
        let has_transaction = self.clients.get(client).is_some();
        if !context.is_answered {
            let status = response.status().unwrap_or(200);
            let answer = Final::Answered(name.1, &response);
            self.report_final(common, now, context, (status, "OK"), answer);
        }
        if is_invite && context.has_failed {
            // The server transaction takes no further one (RFC 6026 section 7.1), and is gone as far as this one is
            // concerned (RFC 3261 section 16.7 steps 5 and 9): whoever has picked up late shall know of it.
            common
                .transactions
                .respond_stateless(now, context.arrival, response);
            // Nor takes it those that follow.
            if has_transaction {
                self.late_answers.insert(client, context.arrival);
            }
        } else if is_invite || !context.is_answered {
            common.transactions.respond(now, name.0, response);
        }
        context.is_answered = true;
        if is_invite {
            let is_early = mem::take(&mut context.has_early_dialogs);
            if has_transaction {
                self.dialogs
                    .note_answered(&context.request, client, is_early, &common.identity);
            } else if is_early {
                self.dialogs.end_early(&context.request);
            }
        }
        self.end_branch(common, name, context, None);
        if is_invite && has_transaction {
            // More of them may follow (RFC 6026 section 7.2).
            self.clients.insert(client, name);
        }
        self.cancel_branches(common, now, name.0, context);
    }

    /// A 2xx that comes again, or from somebody else behind the same hop, when there is no context any more.
    fn forward_another_success(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        client: ClientId,
        name: BranchName,
        mut response: Message,
    ) {
        if let Some(&arrival) = self.late_answers.get(&client) {
            common
                .trust
                .withhold_identity(&mut response, &sip::Target::Flow(arrival), None);
            common
                .transactions
                .respond_stateless(now, arrival, response);
        } else {
            // It is not known any more to whom it goes.
            common.trust.withhold_identity_from_anybody(&mut response);
            common.transactions.respond(now, name.0, response);
        }
    }

    /// A final response of 300 or more is kept for the choice of the best (steps 4 and 5). One whose
    /// only Via was ours cannot be for anybody else: it counts as none that makes sense.
    fn handle_failure(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        (client, name): (ClientId, BranchName),
        context: &mut ResponseContext,
        response: Option<Message>,
    ) {
        // Nobody else has wanted that: Timer C has fired, or others wait for their turn to ring.
        let is_our_doing = !context.is_cancelled
            && context
                .forwarded_mut(name.1)
                .is_some_and(|forwarded| forwarded.cancel == Cancel::Sent);
        let candidate = match response {
            None => Candidate::Presumed(502),
            Some(response) if is_our_doing && response.status() == Some(487) => {
                Candidate::Terminated(response)
            }
            Some(response) => Candidate::Received(response),
        };
        self.take_failure(common, now, (client, name), context, candidate, None);
    }

    /// Asks the hooks about a branch that has failed at a next hop, and goes on with it.
    fn take_failure(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        (client, name): (ClientId, BranchName),
        context: &mut ResponseContext,
        mut candidate: Candidate,
        resumed: Option<Resumed>,
    ) {
        let asked = match candidate {
            Candidate::Terminated(_) => HookOutcome::Continue,
            _ => self.ask_failure(common, now, context, &mut candidate, resumed),
        };
        match asked {
            HookOutcome::Continue => {}
            HookOutcome::Act(NewTargets { groups, candidate }) => {
                let policy = &common.policy.forwarding;
                let (forking, maximum) = (policy.forking, policy.maximum_targets);
                let room = maximum.saturating_sub(context.known_targets());
                self.end_branch(common, name, context, candidate);
                context.targets.insert(arranged(groups, forking, room));
                return;
            }
            HookOutcome::Park(parking) => {
                let parked = ParkedAt::Failure(client, name, candidate);
                match common.park(now, parking, parked) {
                    Ok(id) => {
                        if let Some(forwarded) = context.forwarded_mut(name.1) {
                            forwarded.has_final = true;
                            forwarded.parked = Some(id);
                            self.arm(name, forwarded, None);
                        }
                        return;
                    }
                    // It goes on unasked where there is no room.
                    Err(unasked) => match unasked.and_then(|unasked| unasked.what.into_candidate())
                    {
                        Some(unasked) => candidate = unasked,
                        None => return,
                    },
                }
            }
        }
        let is_global = candidate.status() >= 600;
        self.fail_branch(common, now, name, context, candidate);
        if is_global {
            self.stop(common, now, name.0, context);
        }
    }

    fn ask_failure(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        context: &ResponseContext,
        candidate: &mut Candidate,
        resumed: Option<Resumed>,
    ) -> HookOutcome<NewTargets> {
        let mut point = FailurePoint {
            now,
            policy: &common.policy,
            identity: &common.identity,
            dispatcher: &mut self.groups.dispatcher,
            context,
            candidate,
        };
        common.hooks.ask(Points::FAILURE, resumed, |hook, answer| {
            hook.on_failure(&mut point, answer)
        })
    }

    /// Goes on with a failure that a hook has parked.
    pub(crate) fn resume_failure(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        (client, name): (ClientId, BranchName),
        candidate: Candidate,
        resumed: Option<Resumed>,
    ) {
        let Some(mut context) = self.contexts.remove(&mut common.held, &name.0) else {
            return;
        };
        if let Some(forwarded) = context.forwarded_mut(name.1)
            && forwarded.client == client
        {
            forwarded.parked = None;
            let branch = (client, name);
            self.take_failure(common, now, branch, &mut context, candidate, resumed);
        }
        self.drive(common, now, name.0, context);
    }

    /// Takes in that a next hop has brought no response to a request.
    pub(crate) fn note_failure(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        name: BranchName,
        context: &ResponseContext,
        outcome: HopOutcome,
    ) {
        if let Some((member, forwarded)) = context.hop(name.1)
            && !forwarded.is_proceeding
            && !forwarded.is_passed_over
        {
            self.note_outcome(common, now, member, forwarded, outcome);
        }
    }

    /// Ends a branch, or lets it try the next hop to its target: where a hop is unavailable or silent
    /// another may serve (section 16.6 step 7, RFC 3263 section 4.3).
    pub(crate) fn fail_branch(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        name: BranchName,
        context: &mut ResponseContext,
        candidate: Candidate,
    ) {
        let Some(forwarded) = context.forwarded_mut(name.1) else {
            return;
        };
        // One that has begun to answer is there, however long the rest takes.
        let is_silent = matches!(candidate, Candidate::Presumed(408)) && !forwarded.is_proceeding;
        let is_refused = forwarded.is_refused;
        if !is_refused && let Some(branch) = context.branches.get_mut(name.1) {
            branch.target.leave_out_datagram();
        }
        let is_unavailable = candidate.status() == 503 || is_silent;
        let goes_on = context.may_go_on(now)
            && (is_unavailable && context.has_other_hop(name.1)
                || candidate.is_of_flow() && context.fall_back(name.1));
        if goes_on {
            common.statistics.failovers += 1;
            self.end_branch(common, name, context, None);
            context.retry(name.1);
        } else {
            let is_of_flow = candidate.is_of_flow();
            let is_merged = candidate.status() == 482;
            self.end_branch(common, name, context, Some(candidate));
            if is_merged {
                context.return_to_flow(name.1);
            } else if !is_of_flow {
                self.settle_instance(common, now, name, context);
            }
        }
    }

    /// Takes in that the instance of a branch has given its answer: no other flow of it is tried (RFC 5626 section 7), and
    /// what went along others is not wanted any more.
    fn settle_instance(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        name: BranchName,
        context: &mut ResponseContext,
    ) {
        if !context.is_invite() {
            return;
        }
        context.drop_other_flows(name.1);
        for index in context.others_of_instance(name.1) {
            if let Some(forwarded) = context.forwarded_mut(index) {
                forwarded.is_settled = true;
            }
            self.cancel_branch(common, now, (name.0, index), context);
        }
    }
}

/// How a request has come to its final response.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Final<'a> {
    /// This branch has brought this response, of success.
    Answered(usize, &'a Message),
    /// Somebody has ended it.
    Failed(EndedBy),
}

/// What the log says of the end of a request: how a call has begun, or how a dialog has ended.
fn final_event(
    context: &ResponseContext,
    (status, reason): (u16, &str),
    how: Final<'_>,
) -> Option<Event> {
    let request = &context.request;
    if let Some(call) = context.call() {
        return Some(match how {
            Final::Failed(by) => Event::CallFailed {
                call,
                status,
                reason: reason.to_owned(),
                by,
            },
            Final::Answered(branch, response) => Event::CallAnswered(event::Answered {
                call,
                status,
                to_tag: response.to_tag().unwrap_or_default().to_owned(),
                hop: context
                    .hop(branch)
                    .map(|(_, forwarded)| place_of(&forwarded.sent_to)),
            }),
        });
    }
    ends_dialog(context, status).then(|| Event::CallEnded {
        call_id: request.call_id().unwrap_or_default().to_owned(),
        from_tag: request.from_tag().unwrap_or_default().to_owned(),
        to_tag: request.to_tag().unwrap_or_default().to_owned(),
    })
}

/// Whether a dialog has ended with this response to a request.
fn ends_dialog(context: &ResponseContext, status: u16) -> bool {
    (is_success(status) || status == 481) && context.request.method() == Some(&Method::Bye)
}

/// Asks the hooks about a response on a branch. Returns it where it goes on.
fn ask_reply(
    common: &mut CommonState,
    now: Instant,
    (client, name): (ClientId, BranchName),
    mut response: Message,
    resumed: Option<Resumed>,
) -> Option<Message> {
    let is_provisional = response.status().is_some_and(|status| status < 200);
    let mut point = ReplyPoint {
        response: &mut response,
        now,
    };
    let asked = common.hooks.ask(Points::REPLY, resumed, |hook, resumed| {
        hook.on_reply(&mut point, resumed)
    });
    match asked {
        HookOutcome::Act(DropReply) if is_provisional => None,
        HookOutcome::Act(DropReply) | HookOutcome::Continue => Some(response),
        HookOutcome::Park(parking) => {
            let parked = ParkedAt::Reply(client, name, response);
            let unasked = common.park(now, parking, parked).err().flatten()?;
            // It goes on unasked where there is no room.
            match unasked.what {
                ParkedAt::Reply(_, _, response) => Some(response),
                _ => None,
            }
        }
    }
}

/// Asks the hooks about a dialog that has ended. Nothing waits for them.
pub(crate) fn ask_dialog_end(
    common: &mut CommonState,
    now: Instant,
    dialog: EndedDialog,
    resumed: Option<Resumed>,
) {
    let point = DialogEndPoint {
        call_id: &dialog.call_id,
        from_tag: &dialog.from_tag,
        to_tag: &dialog.to_tag,
        now,
    };
    let asked = common
        .hooks
        .ask(Points::DIALOG_END, resumed, |hook, resumed| {
            hook.on_dialog_end(&point, resumed)
        });
    if let HookOutcome::Park(parking) = asked {
        // Where there is no room, nobody is told.
        let _ = common.park(now, parking, ParkedAt::DialogEnd(dialog));
    }
}

/// Where a request has gone.
fn place_of(target: &sip::Target) -> (Transport, SocketAddr) {
    let remote = match target {
        sip::Target::Flow(flow) | sip::Target::FlowOrAddress(flow, _) => flow.remote,
        sip::Target::Address(_, remote) => *remote,
    };
    (target.transport(), remote)
}

fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}

/// Whether a response is one to an INVITE.
fn is_invite(response: &Message) -> bool {
    matches!(response.cseq(), Some((_, Method::Invite)))
}

/// Our own words for a status that no branch has brought as a response, or that we do not pass on. Those of a 503 depend
/// on settings.
fn rejection(status: u16) -> Rejection {
    match status {
        404 => NOT_FOUND,
        430 => Rejection::new(430, "Flow Failed"),
        480 => Rejection::new(480, "Temporarily Unavailable"),
        408 => Rejection::new(408, "Request Timeout"),
        487 => Rejection::new(487, "Request Terminated"),
        502 => Rejection::new(502, "Bad Gateway"),
        _ => Rejection::new(500, "Next Hop Unavailable"),
    }
}
