//! Responses that scripts send: what they answer, and what becomes of the server transactions.

use std::ops::Range;

use sip::Method;

use super::received::{Received, parameter};
use super::render::{Ink, MAXIMUM_MESSAGE, Scene, write_message};
use super::run::ServerState;
use super::steps::Turn;
use super::time::Time;
use super::{Engine, Failed};
use crate::record::{Failure, Side};
use crate::script::{Script, Send, Source, Template};

impl Engine {
    /// Sends a response that a step says.
    pub(super) fn send_response(
        &mut self,
        script: &Script,
        index: u32,
        send: &Send,
        status: u16,
        turn: &Turn<'_>,
    ) -> Result<(), Failed> {
        let occasion = self.occasion(script, index, turn);
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
            last: turn.message.or(Some(answered)),
            answered: Some(answered),
            cseq: answered.cseq,
            branch: 0,
            ..Scene::of(run, occasion, (&self.identity, &self.config), connection)
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
        // What changes a call changes where the peer is reached, too (RFC 3261 section 12.2.2).
        let changes = run.dialog.is_confirmed
            && (200..300).contains(&status)
            && answered.tag_of_to().is_some()
            && matches!(answered.cseq_method, Method::Invite | Method::Update);
        let change = changes.then(|| {
            let contact = answered.contact_uri().map(<[u8]>::to_vec);
            (contact, answered.body.to_vec())
        });
        let is_callee = run.side == Side::Callee;
        let begins_dialog = run.dialog.own_tag == 0 || answered.tag_of_to().is_none();
        if is_callee && begins_dialog {
            self.learn_answered_tag(index, &send.template, start..end);
        }
        if let Some((contact, body)) = change {
            if let (Some(run), Some(contact)) = (self.runs.get_mut(index), contact) {
                run.dialog.replace_target(&contact);
            }
            self.describe_media(index, &body);
            self.media_answered(index);
        }
        if is_invite {
            self.note_answer(index, send, status, cseq, (start, end), turn.moment.now);
            if is_callee && (200..300).contains(&status) {
                self.media_answered(index);
            }
        } else {
            self.note_response(index, status, is_bye, (start, end), turn.moment.now);
            if let Some(run) = self.runs.get_mut(index) {
                run.asked.says_more = !send.template.is_bare();
            }
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
        run.invited.timers.interval = timers.t1;
        if repeats {
            run.invited.timers.repeat_at = now.after(timers.t1);
        }
        if send.is_repeated {
            run.invited.timers.give_up_at = now.after(timers.give_up);
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
}
