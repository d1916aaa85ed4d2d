//! Sending what scripts say, and what the engine says by itself within their calls.

use std::ops::Range;

use sip::Method;

use super::config::ConnectionId;
use super::received::Received;
use super::render::{
    Ink, MAXIMUM_MESSAGE, Occasion, Scene, copy_credentials, write_follower, write_message,
};
use super::session::{Ack, Cancel, ClientState, NOBODY};
use super::steps::Trigger;
use super::time::Time;
use super::{Engine, Failed};
use crate::record::{Failure, Outcome, Party};
use crate::script::{Kind, Script, Send, Start, StepNumber, Template};

/// The numbers that a request is written with.
#[derive(Clone, Copy)]
struct Numbers {
    cseq: u32,
    branch: u16,
}

impl Engine {
    /// Sends what a step says.
    pub(super) fn send(
        &mut self,
        script: &Script,
        index: u32,
        number: StepNumber,
        send: &Send,
        trigger: &Trigger<'_>,
    ) -> Result<(), Failed> {
        match send.template.start() {
            Start::Request(method) => {
                // Where a script sends it anew nobody has redirected it.
                if let Some(session) = self.sessions.get_mut(index)
                    && let Some(extra) = &mut session.extra
                {
                    extra.redirection = None;
                }
                self.send_request(script, index, number, send, method, trigger, false)
            }
            Start::Response(status) => self.send_response(script, index, send, *status, trigger),
        }
    }

    /// Sends a request, for the first time or once more with credentials.
    #[allow(clippy::too_many_arguments, reason = "each says another thing")]
    pub(super) fn send_request(
        &mut self,
        script: &Script,
        index: u32,
        number: StepNumber,
        send: &Send,
        method: &Method,
        trigger: &Trigger<'_>,
        is_again: bool,
    ) -> Result<(), Failed> {
        let redirected = self
            .sessions
            .get(index)
            .and_then(|session| session.redirected(number));
        let redirected = redirected.map(|(uri, fields)| send.template.redirected(uri, fields));
        let template = redirected.as_ref().unwrap_or(&send.template);
        let numbers = self.next_numbers(script, index, template, method);
        let range = self.write(script, index, number, template, numbers, trigger)?;
        self.learn_own(script, index, template, &range);
        if *method == Method::Ack {
            self.note_ack(index, number, template, numbers, &range, trigger.moment.now);
        } else {
            self.begin_transaction(
                index, number, send, method, numbers, &range, trigger, is_again,
            );
        }
        let is_lost = send.loss > 0.0 && self.draws(send.loss);
        let connection = self.sessions.get(index).map(|session| session.connection);
        match connection {
            Some(connection) if !is_lost => self.send_written(range.start, connection),
            _ => {
                self.counters.lost_on_purpose += 1;
                self.transmits.discard(range.start);
            }
        }
        Ok(())
    }

    pub(super) fn draws(&mut self, probability: f64) -> bool {
        use rand::RngExt;
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
        let written = template.written_cseq();
        match method {
            // The ACK to a refusal belongs to the transaction of the INVITE, and so does a CANCEL
            // (RFC 3261 sections 17.1.1.3 and 9.1).
            Method::Ack if !matches!(session.invite.state, ClientState::Final(300..)) => Numbers {
                cseq: written.unwrap_or(session.invite.cseq),
                branch: session.next_branch(),
            },
            Method::Ack | Method::Cancel => Numbers {
                cseq: written.unwrap_or(session.invite.cseq),
                branch: session.invite.branch,
            },
            _ => {
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
        }
    }

    /// What a session writes for now.
    pub(super) fn occasion<'s>(
        &self,
        script: &'s Script,
        index: u32,
        trigger: &Trigger<'_>,
    ) -> Occasion<'s> {
        Occasion {
            kind: script.kind(),
            name: self.sessions.name(index),
            media: self.local_media(index),
            now: trigger.moment.now,
        }
    }

    /// Sends a request of a step instead of the one before it, as a transaction of its own: `is_again` with what was
    /// asked for, or else elsewhere. Where it cannot be sent the session has failed.
    pub(super) fn send_instead(
        &mut self,
        script: &Script,
        index: u32,
        (number, send): (StepNumber, &Send),
        trigger: &Trigger<'_>,
        is_again: bool,
    ) {
        let Some(method) = send.template.method() else {
            return;
        };
        // What it says is not taken from what has come for the one before.
        let trigger = Trigger {
            message: None,
            ..*trigger
        };
        if let Err(Failed(failure)) =
            self.send_request(script, index, number, send, method, &trigger, is_again)
        {
            self.finish(script, index, Outcome::Failed(failure), &trigger);
        }
    }

    /// Writes a message of a session behind what is to be sent. Returns where.
    fn write(
        &mut self,
        script: &Script,
        index: u32,
        number: StepNumber,
        template: &Template,
        numbers: Numbers,
        trigger: &Trigger<'_>,
    ) -> Result<Range<usize>, Failed> {
        let occasion = self.occasion(script, index, trigger);
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
        let scene = Scene {
            last: trigger.message.or(kept.as_ref()),
            cseq: numbers.cseq,
            branch: numbers.branch,
            step: number,
            ..Scene::of(
                session,
                occasion,
                (&self.identity, &self.config),
                connection,
            )
        };
        let mut none = Vec::new();
        let user = self.users.get_mut(session.user);
        let mut ink = Ink {
            rng: &mut self.rng,
            challenges: user.map_or(&mut none, |user| &mut user.challenges),
        };
        let start = self.transmits.len();
        write_message(template, &scene, &mut ink, self.transmits.buffer());
        if template.method() == Some(&Method::Ack)
            && matches!(session.invite.state, ClientState::Final(200..300))
            && !ink.challenges.is_empty()
            && !template.authorizes()
        {
            let out = self.transmits.buffer();
            copy_credentials(&session.invite.message, start, out);
        }
        let range = start..self.transmits.len();
        if range.len() > MAXIMUM_MESSAGE {
            self.transmits.discard(start);
            return Err(Failed(Failure::Script));
        }
        Ok(range)
    }

    /// Takes in what a script writes by itself that the engine would write otherwise: its Call-ID, by which
    /// the session is to be found, its tag, and the parties of the dialog.
    fn learn_own(
        &mut self,
        script: &Script,
        index: u32,
        template: &Template,
        range: &Range<usize>,
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
        let Ok(sent) = Received::read(self.transmits.written(range.clone())) else {
            return;
        };
        // A scenario may begin one dialog after another, each with a tag of its own.
        let own_tag = self.hasher.hash_one(sent.tag_of_from().unwrap_or_default()) | 1;
        if session.dialog.own_tag == own_tag {
            return;
        }
        session.dialog.own_tag = own_tag;
        session.dialog.from = session.dialog.push(sent.from);
        session.dialog.to = session.dialog.push(sent.to);
        let is_series = *script.kind() == Kind::Registration && session.user != NOBODY;
        if !template.has_call_id() && !is_series && !session.notes.is_in_table {
            session.dialog.call_id = session.dialog.push(sent.call_id);
            let hash = self.hasher.hash_one(sent.call_id);
            session.dialog.fix();
            session.call_id_hash = hash;
            session.notes.is_in_table = true;
            self.insert_in_table(index, hash);
            return;
        }
        session.dialog.fix();
    }

    #[allow(clippy::too_many_arguments, reason = "each says another thing")]
    fn begin_transaction(
        &mut self,
        index: u32,
        number: StepNumber,
        send: &Send,
        method: &Method,
        numbers: Numbers,
        range: &Range<usize>,
        trigger: &Trigger<'_>,
        is_again: bool,
    ) {
        let now = trigger.moment.now;
        let timers = self.config.timers;
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        let is_unreliable = self
            .connections
            .get(session.connection)
            .is_some_and(|connection| connection.is_unreliable());
        let is_invite = *method == Method::Invite;
        let is_repeating = is_unreliable && self.config.is_repeating && send.is_repeated;
        let client = if is_invite {
            &mut session.invite
        } else {
            &mut session.other
        };
        client.method = method.clone();
        client.state = ClientState::Calling;
        client.cseq = numbers.cseq;
        client.branch = numbers.branch;
        client.own_branch = if send.template.has_branch() {
            None
        } else {
            let sent = Received::read(self.transmits.written(range.clone())).ok();
            let branch = sent.as_ref().map(Received::branch);
            Some(self.hasher.hash_one(branch.unwrap_or_default()))
        };
        client.step = number;
        client.timers.interval = timers.t1;
        client.timers.repeat_at = if is_repeating {
            now.after(timers.t1)
        } else {
            Time::NEVER
        };
        client.timers.give_up_at = if send.is_repeated {
            now.after(timers.give_up)
        } else {
            Time::NEVER
        };
        client.cancel = Cancel::No;
        if !is_again {
            client.attempts = 0;
            client.realms = [0; 3];
        }
        // An INVITE is kept for the CANCEL and the ACK that follow from it.
        if is_invite || is_repeating {
            let message = self.transmits.written(range.clone());
            self.buffers.keep(&mut client.message, message);
        }
        match method {
            Method::Invite if !session.times.answered.is_known() => {
                if !session.times.first_invited.is_known() {
                    session.times.first_invited = now;
                }
                session.times.invited = now;
            }
            Method::Cancel if session.invite.is_pending() => {
                session.invite.cancel = Cancel::Sent;
                session.invite.timers.give_up_at = now.after(timers.give_up);
            }
            Method::Bye => {
                session.dialog.is_ended = true;
                if !session.times.bye.is_known() {
                    session.times.bye = now;
                }
                self.end_media(index);
            }
            _ => {}
        }
    }

    fn note_ack(
        &mut self,
        index: u32,
        number: StepNumber,
        template: &Template,
        numbers: Numbers,
        range: &Range<usize>,
        now: Time,
    ) {
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        if !session.times.acknowledged.is_known() {
            session.times.acknowledged = now;
        }
        // The ACK to a refusal may be needed when the session is over.
        let is_refused = matches!(session.invite.state, ClientState::Final(300..));
        session.ack = if template.is_stable() && !is_refused {
            Ack::Step(number, numbers.branch)
        } else {
            Ack::Octets(self.transmits.written(range.clone()).into())
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
            Ack::Step(number, branch) => {
                let (number, branch) = (*number, *branch);
                let cseq = session.invite.cseq;
                let own = std::sync::Arc::clone(&self.own);
                let template = match script.step(number) {
                    Some(crate::script::Step::Send(send)) => Some(&send.template),
                    _ => own.ack.as_ref(),
                };
                let Some(template) = template else {
                    return;
                };
                let cseq = template.written_cseq().unwrap_or(cseq);
                let numbers = Numbers { cseq, branch };
                let trigger = Trigger::at(now);
                if self
                    .write(script, index, number, template, numbers, &trigger)
                    .is_err()
                {
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
        if !write_follower(&session.invite.message, &Method::Ack, to, out) {
            self.transmits.discard(start);
            return;
        }
        let is_unreliable = self
            .connections
            .get(connection)
            .is_some_and(|connection| connection.is_unreliable());
        if is_unreliable {
            let end = self.transmits.len();
            session.ack = Ack::Octets(self.transmits.written(start..end).into());
        }
        self.send_written(start, connection);
    }

    /// Cancels the INVITE of a session that has no final response, as soon as it may be.
    pub(super) fn cancel(&mut self, index: u32, now: Time) {
        let timers = self.config.timers;
        let start = self.transmits.len();
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        match session.invite.state {
            ClientState::Calling => {
                session.invite.cancel = Cancel::Wanted;
                return;
            }
            ClientState::Proceeding if session.invite.cancel != Cancel::Sent => {}
            _ => return,
        }
        let connection = session.connection;
        let out = self.transmits.buffer();
        if !write_follower(&session.invite.message, &Method::Cancel, None, out) {
            self.transmits.discard(start);
            return;
        }
        session.invite.cancel = Cancel::Sent;
        // Without a final response in this time the INVITE counts as cancelled (section 9.1).
        session.invite.timers.give_up_at = now.after(timers.give_up);
        let is_unreliable = self
            .connections
            .get(connection)
            .is_some_and(|connection| connection.is_unreliable());
        let end = self.transmits.len();
        let client = &mut session.other;
        client.method = Method::Cancel;
        client.state = ClientState::Calling;
        client.cseq = session.invite.cseq;
        client.branch = session.invite.branch;
        client.own_branch = session.invite.own_branch;
        client.timers.interval = timers.t1;
        client.timers.give_up_at = now.after(timers.give_up);
        client.timers.repeat_at = Time::NEVER;
        if is_unreliable && self.config.is_repeating {
            client.timers.repeat_at = now.after(timers.t1);
            let message = self.transmits.written(start..end);
            self.buffers.keep(&mut client.message, message);
        }
        self.send_written(start, connection);
    }

    /// Sends the ACK to a 2xx that the script does not care for any more.
    pub(super) fn acknowledge(&mut self, script: &Script, index: u32, now: Time) {
        let own = std::sync::Arc::clone(&self.own);
        let Some(template) = &own.ack else {
            return;
        };
        self.send_own(script, index, template, &Method::Ack, now);
    }

    /// Hangs up a call that the script does not care for any more.
    pub(super) fn hang_up(&mut self, script: &Script, index: u32, now: Time) {
        let own = std::sync::Arc::clone(&self.own);
        let Some(template) = &own.bye else {
            return;
        };
        self.send_own(script, index, template, &Method::Bye, now);
    }

    fn send_own(
        &mut self,
        script: &Script,
        index: u32,
        template: &Template,
        method: &Method,
        now: Time,
    ) {
        // No step has this number, so that nothing is taken for a step's.
        let number = StepNumber(u16::MAX);
        let send = Send::new(template.clone());
        let trigger = Trigger::at(now);
        // What cannot be sent is not sent: the call has failed already.
        let _ = self.send_request(script, index, number, &send, method, &trigger, false);
    }

    /// Sends a session's message once more.
    pub(super) fn resend(&mut self, index: u32, which: Which, connection: Option<ConnectionId>) {
        let start = self.transmits.len();
        let Some(session) = self.sessions.get(index) else {
            return;
        };
        let connection = connection.unwrap_or(session.connection);
        let octets = match which {
            Which::Invite => &session.invite.message,
            Which::Other => &session.other.message,
            Which::Answer => &session.invited.response,
            Which::Response => &session.asked.response,
        };
        if octets.is_empty() {
            return;
        }
        self.transmits.buffer().extend_from_slice(octets);
        self.note_repetition(index);
        self.send_written(start, connection);
    }

    /// What a session has written since `start` is to be sent.
    pub(super) fn send_written(&mut self, start: usize, connection: ConnectionId) {
        self.counters.sent += 1;
        self.counters.sent_octets += (self.transmits.len() - start) as u64;
        self.transmits.finish(start, connection);
    }
}

/// A message of a session that may be sent once more.
#[derive(Clone, Copy)]
pub(super) enum Which {
    Invite,
    Other,
    Answer,
    Response,
}
