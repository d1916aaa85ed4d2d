//! Sending what scripts say, and what the engine says by itself within their calls.

use std::ops::Range;

use sip::Method;

use super::config::ConnectionId;
use super::received::{Received, parameter};
use super::render::{Ink, MAXIMUM_MESSAGE, Scene, copy_credentials, write_follower, write_message};
use super::run::{Ack, Cancel, Client, ClientState, NOBODY, ServerState};
use super::steps::Turn;
use super::time::Time;
use super::{Engine, Failed};
use crate::record::{Failure, Side};
use crate::script::{Kind, Script, Send, Source, Start, StepNumber, Template};

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
        turn: &Turn<'_>,
    ) -> Result<(), Failed> {
        match send.template.start() {
            Start::Request(method) => {
                self.send_request(script, index, number, send, method, turn, false)
            }
            Start::Response(status) => self.send_response(script, index, send, *status, turn),
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
        turn: &Turn<'_>,
        is_again: bool,
    ) -> Result<(), Failed> {
        let template = &send.template;
        let numbers = self.next_numbers(script, index, template, method);
        let range = self.write(script, index, number, template, numbers, turn)?;
        self.learn_own(script, index, template, &range);
        if *method == Method::Ack {
            self.note_ack(index, number, template, numbers, &range, turn.moment.now);
        } else {
            self.begin_transaction(index, number, send, method, numbers, &range, turn, is_again);
        }
        let is_lost = send.loss > 0.0 && self.draws(send.loss);
        let connection = self.runs.get(index).map(|run| run.connection);
        match connection {
            Some(connection) if !is_lost => self.send_written(range.start, connection),
            _ => {
                self.counters.lost_on_purpose += 1;
                self.outbox.discard(range.start);
            }
        }
        Ok(())
    }

    fn draws(&mut self, probability: f64) -> bool {
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
        let Some(run) = self.runs.get_mut(index) else {
            return Numbers { cseq: 0, branch: 0 };
        };
        let written = template.written_cseq();
        match method {
            // The ACK to a refusal belongs to the transaction of the INVITE, and so does a CANCEL
            // (RFC 3261 sections 17.1.1.3 and 9.1).
            Method::Ack if !matches!(run.invite.state, ClientState::Final(300..)) => Numbers {
                cseq: written.unwrap_or(run.invite.cseq),
                branch: run.next_branch(),
            },
            Method::Ack | Method::Cancel => Numbers {
                cseq: written.unwrap_or(run.invite.cseq),
                branch: run.invite.branch,
            },
            _ => {
                let branch = run.next_branch();
                // All REGISTERs of a user are one series (section 10.2).
                let series = if *script.kind() == Kind::Registration && run.user != NOBODY {
                    self.users.get_mut(run.user).map(|user| &mut user.cseq)
                } else {
                    None
                };
                let last = series.unwrap_or(&mut run.cseq);
                // Below 2^31 (section 8.1.1.5).
                let next = (*last + 1) & 0x7fff_ffff;
                let cseq = written.unwrap_or(next.max(1));
                *last = cseq & 0x7fff_ffff;
                run.cseq = cseq;
                Numbers { cseq, branch }
            }
        }
    }

    /// Writes a message of a run behind what is to be sent. Returns where.
    fn write(
        &mut self,
        script: &Script,
        index: u32,
        number: StepNumber,
        template: &Template,
        numbers: Numbers,
        turn: &Turn<'_>,
    ) -> Result<Range<usize>, Failed> {
        let name = self.runs.name(index);
        let run = self.runs.get(index).ok_or(Failed(Failure::Script))?;
        let connection = self
            .connections
            .get(run.connection)
            .filter(|connection| !connection.is_lost)
            .ok_or(Failed(Failure::ConnectionLost))?;
        let kept = match turn.message {
            None if template.uses_last() => Received::read(&run.last).ok(),
            _ => None,
        };
        let scene = Scene {
            run,
            name,
            kind: script.kind(),
            identity: &self.identity,
            config: &self.config,
            connection,
            last: turn.message.or(kept.as_ref()),
            answered: None,
            cseq: numbers.cseq,
            branch: numbers.branch,
            step: number,
            now: turn.moment.now,
            media: self.local_media(index),
        };
        let mut none = Vec::new();
        let user = self.users.get_mut(run.user);
        let mut ink = Ink {
            rng: &mut self.rng,
            challenges: user.map_or(&mut none, |user| &mut user.challenges),
        };
        let start = self.outbox.len();
        write_message(template, &scene, &mut ink, self.outbox.buffer());
        if template.method() == Some(&Method::Ack)
            && matches!(run.invite.state, ClientState::Final(200..300))
            && !ink.challenges.is_empty()
            && !template.authorizes()
        {
            let out = self.outbox.buffer();
            copy_credentials(&run.invite.message, start, out);
        }
        let range = start..self.outbox.len();
        if range.len() > MAXIMUM_MESSAGE {
            self.outbox.discard(start);
            return Err(Failed(Failure::Script));
        }
        Ok(range)
    }

    /// Takes in what a script writes by itself that the engine would write otherwise: its Call-ID, by which
    /// the run is to be found, its tag, and the parties of the dialog.
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
        let Some(run) = self.runs.get_mut(index) else {
            return;
        };
        let is_known = run.dialog.own_tag != 0;
        if run.side == Side::Callee || (is_known && template.names_remote_tag()) {
            return;
        }
        let Ok(sent) = Received::read(self.outbox.written(range.clone())) else {
            return;
        };
        // A scenario may begin one dialog after another, each with a tag of its own.
        let own_tag = self.hasher.hash_one(sent.tag_of_from().unwrap_or_default()) | 1;
        if run.dialog.own_tag == own_tag {
            return;
        }
        run.dialog.own_tag = own_tag;
        run.dialog.from = run.dialog.push(sent.from);
        run.dialog.to = run.dialog.push(sent.to);
        let is_series = *script.kind() == Kind::Registration && run.user != NOBODY;
        if !template.has_call_id() && !is_series && !run.notes.is_in_table {
            run.dialog.call_id = run.dialog.push(sent.call_id);
            let hash = self.hasher.hash_one(sent.call_id);
            run.dialog.fix();
            run.call_id_hash = hash;
            run.notes.is_in_table = true;
            self.insert_in_table(index, hash);
            return;
        }
        run.dialog.fix();
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
        turn: &Turn<'_>,
        is_again: bool,
    ) {
        let now = turn.moment.now;
        let timers = self.config.timers;
        let Some(run) = self.runs.get_mut(index) else {
            return;
        };
        let is_unreliable = self
            .connections
            .get(run.connection)
            .is_some_and(|connection| connection.is_unreliable());
        let is_invite = *method == Method::Invite;
        let is_repeating = is_unreliable && self.config.is_repeating && send.is_repeated;
        let client = if is_invite {
            &mut run.invite
        } else {
            &mut run.other
        };
        client.method = method.clone();
        client.state = ClientState::Calling;
        client.cseq = numbers.cseq;
        client.branch = numbers.branch;
        client.has_branch = send.template.has_branch();
        client.step = number;
        client.interval = timers.t1;
        client.repeat_at = if is_repeating {
            now.after(timers.t1)
        } else {
            Time::NEVER
        };
        client.give_up_at = if send.is_repeated {
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
            let message = self.outbox.written(range.clone());
            self.buffers.keep(&mut client.message, message);
        }
        match method {
            Method::Invite if !run.times.answered.is_known() => {
                if !run.times.first_invited.is_known() {
                    run.times.first_invited = now;
                }
                run.times.invited = now;
            }
            Method::Cancel if run.invite.is_pending() => {
                run.invite.cancel = Cancel::Sent;
                run.invite.give_up_at = now.after(timers.give_up);
            }
            Method::Bye => {
                run.dialog.is_ended = true;
                if !run.times.bye.is_known() {
                    run.times.bye = now;
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
        let Some(run) = self.runs.get_mut(index) else {
            return;
        };
        if !run.times.acknowledged.is_known() {
            run.times.acknowledged = now;
        }
        run.ack = if template.is_stable() {
            Ack::Step(number, numbers.branch)
        } else {
            Ack::Octets(self.outbox.written(range.clone()).into())
        };
    }

    /// Sends the ACK of a run once more, because the response came once more.
    pub(super) fn repeat_ack(&mut self, script: &Script, index: u32, now: Time) {
        let Some(run) = self.runs.get(index) else {
            return;
        };
        let connection = run.connection;
        let start = self.outbox.len();
        match &run.ack {
            Ack::None => return,
            Ack::Octets(octets) => self.outbox.buffer().extend_from_slice(octets),
            Ack::Step(number, branch) => {
                let (number, branch) = (*number, *branch);
                let cseq = run.invite.cseq;
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
                let turn = Turn::at(now);
                if self
                    .write(script, index, number, template, numbers, &turn)
                    .is_err()
                {
                    return;
                }
            }
        }
        self.note_repetition(index);
        self.send_written(start, connection);
    }

    /// Counts that a run has sent something once more.
    pub(super) fn note_repetition(&mut self, index: u32) {
        self.counters.retransmissions += 1;
        if let Some(run) = self.runs.get_mut(index) {
            run.notes.retransmissions += 1;
        }
    }

    /// Acknowledges a refused INVITE within its transaction (RFC 3261 section 17.1.1.3).
    pub(super) fn acknowledge_refusal(&mut self, index: u32, response: &Received<'_>) {
        let start = self.outbox.len();
        let Some(run) = self.runs.get_mut(index) else {
            return;
        };
        let connection = run.connection;
        let to = Some(response.to);
        let out = self.outbox.buffer();
        if !write_follower(&run.invite.message, &Method::Ack, to, out) {
            self.outbox.discard(start);
            return;
        }
        let is_unreliable = self
            .connections
            .get(connection)
            .is_some_and(|connection| connection.is_unreliable());
        if is_unreliable {
            let end = self.outbox.len();
            run.ack = Ack::Octets(self.outbox.written(start..end).into());
        }
        self.send_written(start, connection);
    }

    /// Cancels the INVITE of a run that has no final response, as soon as it may be.
    pub(super) fn cancel(&mut self, index: u32, now: Time) {
        let timers = self.config.timers;
        let start = self.outbox.len();
        let Some(run) = self.runs.get_mut(index) else {
            return;
        };
        match run.invite.state {
            ClientState::Calling => {
                run.invite.cancel = Cancel::Wanted;
                return;
            }
            ClientState::Proceeding if run.invite.cancel != Cancel::Sent => {}
            _ => return,
        }
        let connection = run.connection;
        let out = self.outbox.buffer();
        if !write_follower(&run.invite.message, &Method::Cancel, None, out) {
            self.outbox.discard(start);
            return;
        }
        run.invite.cancel = Cancel::Sent;
        // Without a final response in this time the INVITE counts as cancelled (section 9.1).
        run.invite.give_up_at = now.after(timers.give_up);
        let is_unreliable = self
            .connections
            .get(connection)
            .is_some_and(|connection| connection.is_unreliable());
        let end = self.outbox.len();
        let client = &mut run.other;
        client.method = Method::Cancel;
        client.state = ClientState::Calling;
        client.cseq = run.invite.cseq;
        client.branch = run.invite.branch;
        client.has_branch = run.invite.has_branch;
        client.interval = timers.t1;
        client.give_up_at = now.after(timers.give_up);
        client.repeat_at = Time::NEVER;
        if is_unreliable && self.config.is_repeating {
            client.repeat_at = now.after(timers.t1);
            let message = self.outbox.written(start..end);
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
        let turn = Turn::at(now);
        // What cannot be sent is not sent: the call has failed already.
        let _ = self.send_request(script, index, number, &send, method, &turn, false);
    }

    /// Sends a response that a step says.
    fn send_response(
        &mut self,
        script: &Script,
        index: u32,
        send: &Send,
        status: u16,
        turn: &Turn<'_>,
    ) -> Result<(), Failed> {
        let name = self.runs.name(index);
        let run = self.runs.get(index).ok_or(Failed(Failure::Script))?;
        let connection_id = turn.connection.unwrap_or(run.connection);
        let connection = self
            .connections
            .get(connection_id)
            .ok_or(Failed(Failure::ConnectionLost))?;
        let octets = match send.answers {
            Source::First if !run.initial.is_empty() => Some(&run.initial),
            Source::Last if turn.message.is_none() => Some(&run.last),
            _ => None,
        };
        let kept = octets.and_then(|octets| Received::read(octets).ok());
        let answered = match octets {
            Some(_) => kept.as_ref(),
            None => turn.message,
        };
        let answered = answered
            .filter(|answered| answered.method().is_some())
            .ok_or(Failed(Failure::Script))?;
        let scene = Scene {
            run,
            name,
            kind: script.kind(),
            identity: &self.identity,
            config: &self.config,
            connection,
            last: turn.message.or(Some(answered)),
            answered: Some(answered),
            cseq: answered.cseq,
            branch: 0,
            step: run.step,
            now: turn.moment.now,
            media: self.local_media(index),
        };
        let mut ink = Ink {
            rng: &mut self.rng,
            challenges: &mut Vec::new(),
        };
        let start = self.outbox.len();
        write_message(&send.template, &scene, &mut ink, self.outbox.buffer());
        let end = self.outbox.len();
        let is_invite = answered.cseq_method == Method::Invite;
        let is_bye = answered.cseq_method == Method::Bye;
        let cseq = answered.cseq;
        if end - start > MAXIMUM_MESSAGE {
            self.outbox.discard(start);
            return Err(Failed(Failure::Script));
        }
        let is_callee = run.side == Side::Callee;
        let begins_dialog = run.dialog.own_tag == 0 || answered.tag_of_to().is_none();
        if is_callee && begins_dialog {
            self.learn_answered_tag(index, &send.template, start..end);
        }
        if is_invite {
            self.note_answer(index, send, status, cseq, (start, end), turn.moment.now);
            if is_callee && (200..300).contains(&status) {
                self.media_answered(index);
            }
        } else {
            self.note_response(index, status, is_bye, (start, end), turn.moment.now);
        }
        let is_lost = send.loss > 0.0 && self.draws(send.loss);
        if is_lost {
            // It is kept in order to be sent when the request comes again.
            self.keep_written(index);
            self.counters.lost_on_purpose += 1;
            self.outbox.discard(start);
        } else {
            self.send_written(start, connection_id);
        }
        Ok(())
    }

    /// Takes in the tag that a script writes into a response by itself.
    fn learn_answered_tag(&mut self, index: u32, template: &Template, range: Range<usize>) {
        if template.echoes_to() || template.has_local_tag() {
            return;
        }
        let Ok(sent) = Received::read(self.outbox.written(range)) else {
            return;
        };
        let Some(tag) = sent.tag_of_to() else {
            return;
        };
        let hash = self.hasher.hash_one(tag) | 1;
        if let Some(run) = self.runs.get_mut(index) {
            run.dialog.own_tag = hash;
            let to = run.dialog.get(run.dialog.to);
            if parameter(to, b"tag") != Some(tag) {
                run.dialog.to = run.dialog.push(sent.to);
                run.dialog.fix();
            }
        }
    }

    /// The server transaction of the INVITE goes on with a response (RFC 3261 sections 13.3.1 and 17.2.1).
    fn note_answer(
        &mut self,
        index: u32,
        send: &Send,
        status: u16,
        cseq: u32,
        written: (usize, usize),
        now: Time,
    ) {
        let timers = self.config.timers;
        let Some(run) = self.runs.get_mut(index) else {
            return;
        };
        if run.invited.cseq != cseq || run.invited.state != ServerState::Proceeding {
            return;
        }
        run.invited.written = Some(written);
        if status < 200 {
            if !run.times.first_provisional.is_known() {
                run.times.first_provisional = now;
            }
            if status > 100 && !run.times.progress.is_known() {
                run.times.progress = now;
            }
            return;
        }
        run.invited.state = ServerState::Answered(status);
        let is_unreliable = self
            .connections
            .get(run.connection)
            .is_some_and(|connection| connection.is_unreliable());
        // A 2xx is repeated over every transport (section 13.3.1.4).
        let repeats =
            self.config.is_repeating && send.is_repeated && (status < 300 || is_unreliable);
        run.invited.interval = timers.t1;
        if repeats {
            run.invited.repeat_at = now.after(timers.t1);
        }
        if send.is_repeated {
            run.invited.give_up_at = now.after(timers.give_up);
        }
        if status < 300 {
            run.dialog.is_confirmed = true;
        }
        if !run.times.answered.is_known() {
            run.times.answered = now;
            run.notes.status = status;
        }
    }

    fn note_response(
        &mut self,
        index: u32,
        status: u16,
        is_bye: bool,
        written: (usize, usize),
        now: Time,
    ) {
        let Some(run) = self.runs.get_mut(index) else {
            return;
        };
        run.asked.written = Some(written);
        if status < 200 {
            return;
        }
        run.asked.state = ServerState::Answered(status);
        if is_bye && !run.times.bye_answered.is_known() {
            run.times.bye_answered = now;
            run.notes.bye_status = status;
        } else if !is_bye && !run.times.answered.is_known() && run.times.invited == Time::NEVER {
            run.times.answered = now;
            run.notes.status = status;
        }
    }

    /// Copies responses of this turn that may have to be sent again.
    pub(super) fn keep_written(&mut self, index: u32) {
        let Some(run) = self.runs.get_mut(index) else {
            return;
        };
        if let Some((start, end)) = run.invited.written.take() {
            let octets = self.outbox.written(start..end);
            self.buffers.keep(&mut run.invited.response, octets);
        }
        if let Some((start, end)) = run.asked.written.take() {
            let octets = self.outbox.written(start..end);
            self.buffers.keep(&mut run.asked.response, octets);
        }
    }

    /// Sends a run's message once more.
    pub(super) fn resend(&mut self, index: u32, which: Which, connection: Option<ConnectionId>) {
        let start = self.outbox.len();
        let Some(run) = self.runs.get(index) else {
            return;
        };
        let connection = connection.unwrap_or(run.connection);
        let octets = match which {
            Which::Invite => &run.invite.message,
            Which::Other => &run.other.message,
            Which::Answer => &run.invited.response,
            Which::Response => &run.asked.response,
        };
        if octets.is_empty() {
            return;
        }
        self.outbox.buffer().extend_from_slice(octets);
        self.note_repetition(index);
        self.send_written(start, connection);
    }

    /// What was written since `start` is to be sent.
    pub(super) fn send_written(&mut self, start: usize, connection: ConnectionId) {
        self.counters.sent += 1;
        self.counters.sent_octets += (self.outbox.len() - start) as u64;
        self.outbox.finish(start, connection);
    }
}

/// A message of a run that may be sent once more.
#[derive(Clone, Copy)]
pub(super) enum Which {
    Invite,
    Other,
    Answer,
    Response,
}

impl Client {
    /// Whether a branch is the one that the request had.
    pub(super) fn has_had(&self, branch: &[u8], written: &[u8]) -> bool {
        !self.has_branch || branch == written
    }
}
