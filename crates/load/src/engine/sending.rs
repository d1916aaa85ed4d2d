//! Sending requests: of scripts, and of the engine itself within their calls.

use std::ops::Range;
use std::time::Duration;

use rand::RngExt;
use sip::Method;

use super::config::ConnectionId;
use super::identity::NOBODY;
use super::received::Received;
use super::render::{MAXIMUM_MESSAGE, RenderContext, RenderState, SessionContext, write_message};
use super::session::{Ack, Cancel, ClientState, RequestIdentity};
use super::time::Time;
use super::trigger::Trigger;
use super::writing::{copy_credentials, write_follower};
use super::{Engine, Failed};
use crate::record::{Failure, Outcome, Party};
use crate::script::{CSeqSource, Kind, Script, Send, Start, Step, StepNumber, Template};

/// A request of a step.
#[derive(Clone, Copy)]
struct Request<'a> {
    /// The step; [`StepNumber::NONE`] where the engine sends it by itself.
    step: StepNumber,
    send: &'a Send,
    method: &'a Method,
    /// Whether it is repeated as its response has asked, with credentials for instance.
    is_again: bool,
}

/// The numbers that a request is written with.
#[derive(Clone, Copy)]
struct Numbers {
    cseq: u32,
    branch: u16,
}

impl Engine {
    /// Sends the message of a step.
    pub(super) fn send(
        &mut self,
        script: &Script,
        index: u32,
        step: StepNumber,
        send: &Send,
        trigger: &Trigger<'_>,
    ) -> Result<(), Failed> {
        match send.template.start() {
            Start::Request(method) => {
                // Where a script sends it anew nobody has redirected it.
                if let Some(session) = self.sessions.get_mut(index)
                    && let Some(extra) = &mut session.extra
                {
                    extra.targets = None;
                }
                let request = Request {
                    step,
                    send,
                    method,
                    is_again: false,
                };
                self.send_request(script, index, request, trigger)
            }
            Start::Response(status) => self.send_response(script, index, send, *status, trigger),
        }
    }

    /// Sends a request of a step instead of the one before it, as a transaction of its own: `is_again` with what was
    /// asked for, or else elsewhere. Where it cannot be sent the session has failed.
    pub(super) fn send_instead(
        &mut self,
        script: &Script,
        index: u32,
        (step, send): (StepNumber, &Send),
        trigger: &Trigger<'_>,
        is_again: bool,
    ) {
        let Some(method) = send.template.method() else {
            return;
        };
        let request = Request {
            step,
            send,
            method,
            is_again,
        };
        // What it says is not taken from what has come for the one before.
        let trigger = Trigger {
            message: None,
            ..*trigger
        };
        if let Err(Failed(failure)) = self.send_request(script, index, request, &trigger) {
            self.finish(script, index, Outcome::Failed(failure), &trigger);
        }
    }

    /// Sends the ACK to a 2xx that the script does not care for any more.
    pub(super) fn acknowledge(&mut self, script: &Script, index: u32, now: Time) {
        if let Some(template) = &self.scripts.own().ack {
            self.send_own(script, index, template, &Method::Ack, now);
        }
    }

    /// Hangs up a call that the script does not care for any more.
    pub(super) fn hang_up(&mut self, script: &Script, index: u32, now: Time) {
        if let Some(template) = &self.scripts.own().bye {
            self.send_own(script, index, template, &Method::Bye, now);
        }
    }

    fn send_own(
        &mut self,
        script: &Script,
        index: u32,
        template: &Template,
        method: &Method,
        now: Time,
    ) {
        let request = Request {
            step: StepNumber::NONE,
            send: &Send::new(template.clone()),
            method,
            is_again: false,
        };
        // What cannot be sent is not sent: the call has failed already.
        let _ = self.send_request(script, index, request, &Trigger::at(now));
    }

    fn send_request(
        &mut self,
        script: &Script,
        index: u32,
        request: Request<'_>,
        trigger: &Trigger<'_>,
    ) -> Result<(), Failed> {
        let Request {
            step, send, method, ..
        } = request;
        let now = trigger.moment.now;
        let targets = self
            .sessions
            .get(index)
            .and_then(|session| session.extra.as_deref()?.targets.as_deref())
            .filter(|targets| targets.step() == step);
        let redirected = targets.map(|targets| {
            let (uri, fields) = targets.current();
            send.template.redirected(uri, fields)
        });
        let template = redirected.as_ref().unwrap_or(&send.template);
        let mut numbers = self.next_numbers(script, index, template, method);
        let written = self.write(script, index, (step, template, numbers), trigger)?;
        if template.cseq_source() == CSeqSource::Other
            && let Ok(sent) = Received::read(self.transmits.written(written.clone()))
        {
            numbers.cseq = sent.cseq;
        }
        self.learn_own(script, index, template, &written);
        let description = self.transmits.written(written.clone());
        if self.media.describe_own(index, description) && *method == Method::Ack {
            self.media.answered(index);
        }
        if *method == Method::Ack {
            self.note_ack(index, (step, template, numbers), &written, now);
        } else {
            self.begin_transaction(index, request, numbers, &written, now);
        }
        let is_lost = send.loss > 0.0 && self.draws(send.loss);
        let connection = self.sessions.get(index).map(|session| session.connection);
        match connection {
            Some(connection) if !is_lost => self.send_written(written.start, connection),
            _ => {
                self.counters.lost_on_purpose += 1;
                self.transmits.discard(written.start);
            }
        }
        Ok(())
    }

    pub(super) fn draws(&mut self, probability: f64) -> bool {
        self.rng.random::<f64>() < probability
    }

    /// The sequence number and the branch of the next request.
    fn next_numbers(
        &mut self,
        script: &Script,
        index: u32,
        template: &Template,
        method: &Method,
    ) -> Numbers {
        let Some(session) = self.sessions.get_mut(index) else {
            return Numbers { cseq: 0, branch: 0 };
        };
        let written = match template.cseq_source() {
            CSeqSource::Written(cseq) => Some(cseq),
            CSeqSource::Engine | CSeqSource::Other => None,
        };
        if matches!(method, Method::Ack | Method::Cancel) {
            let invite = &session.invite_client;
            let cseq = written.unwrap_or(invite.request.cseq);
            // The ACK to a refusal belongs to the transaction of the INVITE, and so does a CANCEL
            // (RFC 3261 sections 17.1.1.3 and 9.1).
            let branch = match method {
                Method::Ack if !invite.was_refused() => session.next_branch(),
                _ => invite.request.branch,
            };
            return Numbers { cseq, branch };
        }
        let branch = session.next_branch();
        // All REGISTERs of a user are one series (section 10.2).
        let series = if *script.kind() == Kind::Registration && session.user != NOBODY {
            self.users.get_mut(session.user).map(|user| &mut user.cseq)
        } else {
            None
        };
        let last = series.unwrap_or(&mut session.cseq);
        // Below 2^31 (section 8.1.1.5).
        let next = (*last + 1) & 0x7fff_ffff;
        let cseq = written.unwrap_or(next.max(1));
        *last = cseq & 0x7fff_ffff;
        session.cseq = cseq;
        Numbers { cseq, branch }
    }

    /// The values of a session for its templates.
    pub(super) fn session_context<'s>(
        &self,
        script: &'s Script,
        index: u32,
        trigger: &Trigger<'_>,
    ) -> SessionContext<'s> {
        SessionContext {
            kind: script.kind(),
            id: self.sessions.id(index),
            media: self.media.local(index),
            now: trigger.moment.now,
        }
    }

    /// Writes a message of a session behind what is to be sent. Returns where.
    fn write(
        &mut self,
        script: &Script,
        index: u32,
        (step, template, numbers): (StepNumber, &Template, Numbers),
        trigger: &Trigger<'_>,
    ) -> Result<Range<usize>, Failed> {
        let session_context = self.session_context(script, index, trigger);
        let session = self.sessions.get(index).ok_or(Failed(Failure::Script))?;
        let connection = self
            .connections
            .get(session.connection)
            .filter(|connection| !connection.is_lost)
            .ok_or(Failed(Failure::ConnectionLost))?;
        let kept = match trigger.message {
            None if template.uses_last() => Received::read(&session.last).ok(),
            _ => None,
        };
        let writers = (&self.identity, &self.config);
        let context = RenderContext {
            last: trigger.message.or(kept.as_ref()),
            cseq: numbers.cseq,
            branch: numbers.branch,
            step,
            ..RenderContext::of(session, session_context, writers, connection)
        };
        let mut none = Vec::new();
        let user = self.users.get_mut(session.user);
        let mut state = RenderState {
            rng: &mut self.rng,
            challenges: user.map_or(&mut none, |user| &mut user.challenges),
        };
        let start = self.transmits.len();
        write_message(template, &context, &mut state, self.transmits.buffer());
        if template.method() == Some(&Method::Ack)
            && session.invite_client.has_succeeded()
            && !state.challenges.is_empty()
            && !template.authorizes()
        {
            let out = self.transmits.buffer();
            copy_credentials(&session.invite_client.message, start, out);
        }
        let written = start..self.transmits.len();
        if written.len() > MAXIMUM_MESSAGE {
            self.transmits.discard(start);
            return Err(Failed(Failure::Script));
        }
        Ok(written)
    }

    /// Takes in what a script writes by itself that the engine would write otherwise: its Call-ID, by which
    /// the session is to be found, its tag, and the parties of the dialog.
    fn learn_own(
        &mut self,
        script: &Script,
        index: u32,
        template: &Template,
        written: &Range<usize>,
    ) {
        if template.has_local_tag() && template.has_call_id() {
            return;
        }
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        let is_known = session.dialog.own_tag != 0;
        if session.party == Party::Callee || (is_known && template.names_remote_tag()) {
            return;
        }
        let Ok(sent) = Received::read(self.transmits.written(written.clone())) else {
            return;
        };
        // A scenario may begin one dialog after another, each with a tag of its own.
        let tag = sent.tag_of_from().unwrap_or_default();
        let own_tag = self.fingerprints.tag(tag);
        if session.dialog.own_tag == own_tag {
            return;
        }
        session.dialog.own_tag = own_tag;
        let is_series = *script.kind() == Kind::Registration && session.user != NOBODY;
        let is_found_by_it = !template.has_call_id() && !is_series && !session.notes.is_filed;
        let call_id = is_found_by_it.then_some(sent.call_id);
        session.dialog.learn_own(sent.from, sent.to, call_id);
        if let Some(call_id) = call_id {
            let fingerprint = self.fingerprints.text(call_id);
            self.sessions.file(index, fingerprint);
        }
    }

    fn begin_transaction(
        &mut self,
        index: u32,
        request: Request<'_>,
        numbers: Numbers,
        written: &Range<usize>,
        now: Time,
    ) {
        let timers = self.config.timers;
        let t1 = self.t1_of(index).filter(|_| request.send.is_repeated);
        let timeout = request.send.is_repeated.then_some(timers.give_up);
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        let is_invite = *request.method == Method::Invite;
        let message = self.transmits.written(written.clone());
        let own_branch = (!request.send.template.has_branch()).then(|| {
            let sent = Received::read(message).ok();
            let branch = sent.as_ref().map(Received::branch);
            self.fingerprints.text(branch.unwrap_or_default())
        });
        let identity = RequestIdentity {
            method: request.method.clone(),
            cseq: numbers.cseq,
            branch: numbers.branch,
            own_branch,
            step: request.step,
        };
        let client = session.client_mut(is_invite);
        client.begin(identity, now, t1, timeout);
        if !request.is_again {
            client.forget_attempts();
        }
        // An INVITE is kept for the CANCEL and the ACK that follow from it.
        if is_invite || t1.is_some() {
            self.buffers.keep(&mut client.message, message);
        }
        match request.method {
            Method::Invite if !session.times.answered.is_known() => {
                session.times.first_invited.set_once(now);
                session.times.invited = now;
            }
            Method::Cancel if session.invite_client.is_pending() => {
                session.invite_client.cancel = Cancel::Sent;
                let end = now.after(timers.give_up);
                session.invite_client.timers.expire_at(end);
            }
            Method::Bye => {
                session.dialog.is_ended = true;
                session.times.bye.set_once(now);
                self.media.end(index);
            }
            _ => {}
        }
    }

    /// T1, where the messages of a session are retransmitted.
    pub(super) fn t1_of(&self, index: u32) -> Option<Duration> {
        let connection = self.sessions.get(index)?.connection;
        let retransmits = self.config.is_repeating && self.connections.is_unreliable(connection);
        retransmits.then_some(self.config.timers.t1)
    }

    fn note_ack(
        &mut self,
        index: u32,
        (step, template, numbers): (StepNumber, &Template, Numbers),
        written: &Range<usize>,
        now: Time,
    ) {
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        session.times.acknowledged.set_once(now);
        // The ACK to a refusal may be needed when the session is over.
        session.ack = if template.is_stable() && !session.invite_client.was_refused() {
            Ack::Step(step, numbers.branch)
        } else {
            Ack::Octets(self.transmits.written(written.clone()).into())
        };
    }

    /// Sends the ACK of a session once more, because the response came once more.
    pub(super) fn repeat_ack(&mut self, script: &Script, index: u32, now: Time) {
        let Some(session) = self.sessions.get(index) else {
            return;
        };
        let connection = session.connection;
        let start = self.transmits.len();
        match &session.ack {
            Ack::None => return,
            Ack::Octets(octets) => self.transmits.buffer().extend_from_slice(octets),
            Ack::Step(step, branch) => {
                let (step, branch) = (*step, *branch);
                let cseq = session.invite_client.request.cseq;
                let own = self.scripts.own();
                let template = match script.step(step) {
                    Some(Step::Send(send)) => Some(&send.template),
                    _ => own.ack.as_ref(),
                };
                let Some(template) = template else {
                    return;
                };
                let cseq = match template.cseq_source() {
                    CSeqSource::Written(cseq) => cseq,
                    CSeqSource::Engine | CSeqSource::Other => cseq,
                };
                let numbers = Numbers { cseq, branch };
                let trigger = Trigger::at(now);
                let ack = (step, template, numbers);
                if self.write(script, index, ack, &trigger).is_err() {
                    return;
                }
            }
        }
        self.note_repetition(index);
        self.send_written(start, connection);
    }

    /// Counts that a session has sent something once more.
    pub(super) fn note_repetition(&mut self, index: u32) {
        self.counters.retransmissions += 1;
        if let Some(session) = self.sessions.get_mut(index) {
            session.notes.retransmissions += 1;
        }
    }

    /// Acknowledges a refused INVITE within its transaction (RFC 3261 section 17.1.1.3).
    pub(super) fn acknowledge_refusal(&mut self, index: u32, response: &Received<'_>) {
        let start = self.transmits.len();
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        let connection = session.connection;
        let to = Some(response.to);
        let out = self.transmits.buffer();
        if !write_follower(&session.invite_client.message, &Method::Ack, to, out) {
            self.transmits.discard(start);
            return;
        }
        if self.connections.is_unreliable(connection) {
            let end = self.transmits.len();
            session.ack = Ack::Octets(self.transmits.written(start..end).into());
        }
        self.send_written(start, connection);
    }

    /// Cancels the INVITE of a session that has no final response, as soon as it may be.
    pub(super) fn cancel(&mut self, index: u32, now: Time) {
        let give_up = self.config.timers.give_up;
        let t1 = self.t1_of(index);
        let start = self.transmits.len();
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        let invite = &mut session.invite_client;
        match invite.state {
            ClientState::Calling => {
                invite.cancel = Cancel::Wanted;
                return;
            }
            ClientState::Proceeding if invite.cancel != Cancel::Sent => {}
            _ => return,
        }
        let connection = session.connection;
        let out = self.transmits.buffer();
        if !write_follower(&invite.message, &Method::Cancel, None, out) {
            self.transmits.discard(start);
            return;
        }
        invite.cancel = Cancel::Sent;
        // Without a final response in this time the INVITE counts as cancelled (section 9.1).
        invite.timers.expire_at(now.after(give_up));
        let request = RequestIdentity {
            method: Method::Cancel,
            step: StepNumber::NONE,
            ..invite.request.clone()
        };
        let client = &mut session.non_invite_client;
        client.begin(request, now, t1, Some(give_up));
        if t1.is_some() {
            let message = self.transmits.written(start..self.transmits.len());
            self.buffers.keep(&mut client.message, message);
        }
        self.send_written(start, connection);
    }

    /// Sends a session's message once more.
    pub(super) fn resend(&mut self, index: u32, sent: Sent, connection: Option<ConnectionId>) {
        let start = self.transmits.len();
        let Some(session) = self.sessions.get(index) else {
            return;
        };
        let connection = connection.unwrap_or(session.connection);
        let octets = match sent {
            Sent::Invite => &session.invite_client.message,
            Sent::Request => &session.non_invite_client.message,
            Sent::InviteResponse => session.invite_server.response(),
            Sent::Response => session.non_invite_server.response(),
        };
        if octets.is_empty() {
            return;
        }
        self.transmits.buffer().extend_from_slice(octets);
        self.note_repetition(index);
        self.send_written(start, connection);
    }

    /// Queues the message that was written since `start`.
    pub(super) fn send_written(&mut self, start: usize, connection: ConnectionId) {
        self.counters.sent += 1;
        self.counters.sent_octets += (self.transmits.len() - start) as u64;
        self.transmits.finish(start, connection);
    }
}

/// A message of a session that may be sent once more.
#[derive(Clone, Copy)]
pub(super) enum Sent {
    /// Our INVITE.
    Invite,
    /// Our last other request.
    Request,
    /// The response to the peer's INVITE.
    InviteResponse,
    /// The response to the peer's last other request.
    Response,
}
