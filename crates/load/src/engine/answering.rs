//! Responses that scripts send: what they answer, and what becomes of the server transactions.

use std::ops::Range;

use sip::Method;

use super::received::{Received, parameter};
use super::render::{Ink, MAXIMUM_MESSAGE, Scene, write_message};
use super::session::ServerState;
use super::steps::Trigger;
use super::time::Time;
use super::{Engine, Failed};
use crate::record::{Failure, Party};
use crate::script::{Script, Send, Source, Template};

impl Engine {
    /// Sends a response that a step says.
    pub(super) fn send_response(
        &mut self,
        script: &Script,
        index: u32,
        send: &Send,
        status: u16,
        trigger: &Trigger<'_>,
    ) -> Result<(), Failed> {
        let occasion = self.occasion(script, index, trigger);
        let session = self.sessions.get(index).ok_or(Failed(Failure::Script))?;
        let connection_id = trigger.connection.unwrap_or(session.connection);
        let connection = self
            .connections
            .get(connection_id)
            .ok_or(Failed(Failure::ConnectionLost))?;
        let octets = match send.answers {
            Source::First if !session.initial.is_empty() => Some(&session.initial),
            Source::Last if trigger.message.is_none() => Some(&session.last),
            _ => None,
        };
        let kept = octets.and_then(|octets| Received::read(octets).ok());
        let answered = match octets {
            Some(_) => kept.as_ref(),
            None => trigger.message,
        };
        let answered = answered
            .filter(|answered| answered.method().is_some())
            .ok_or(Failed(Failure::Script))?;
        let scene = Scene {
            last: trigger.message.or(Some(answered)),
            answered: Some(answered),
            cseq: answered.cseq,
            branch: 0,
            ..Scene::of(
                session,
                occasion,
                (&self.identity, &self.config),
                connection,
            )
        };
        let mut ink = Ink {
            rng: &mut self.rng,
            challenges: &mut Vec::new(),
        };
        let start = self.transmits.len();
        write_message(&send.template, &scene, &mut ink, self.transmits.buffer());
        let end = self.transmits.len();
        let is_invite = answered.cseq_method == Method::Invite;
        let is_bye = answered.cseq_method == Method::Bye;
        let cseq = answered.cseq;
        if end - start > MAXIMUM_MESSAGE {
            self.transmits.discard(start);
            return Err(Failed(Failure::Script));
        }
        // What changes a call changes where the peer is reached, too (RFC 3261 section 12.2.2).
        let changes = session.dialog.is_confirmed
            && (200..300).contains(&status)
            && answered.tag_of_to().is_some()
            && matches!(answered.cseq_method, Method::Invite | Method::Update);
        let change = changes.then(|| {
            let contact = answered.contact_uri().map(<[u8]>::to_vec);
            (contact, answered.body.to_vec())
        });
        let is_callee = session.party == Party::Callee;
        let begins_dialog = session.dialog.own_tag == 0 || answered.tag_of_to().is_none();
        if is_callee && begins_dialog {
            self.learn_answered_tag(index, &send.template, start..end);
        }
        if let Some((contact, body)) = change {
            if let (Some(session), Some(contact)) = (self.sessions.get_mut(index), contact) {
                session.dialog.replace_target(&contact);
            }
            self.describe_media(index, &body);
            self.media_answered(index);
        }
        if is_invite {
            self.note_answer(index, send, status, cseq, (start, end), trigger.moment.now);
            if is_callee && (200..300).contains(&status) {
                self.media_answered(index);
            }
        } else {
            self.note_response(index, status, is_bye, (start, end), trigger.moment.now);
            if let Some(session) = self.sessions.get_mut(index) {
                session.asked.says_more = !send.template.is_bare();
            }
        }
        let is_lost = send.loss > 0.0 && self.draws(send.loss);
        if is_lost {
            // It is kept in order to be sent when the request comes again.
            self.keep_written(index);
            self.counters.lost_on_purpose += 1;
            self.transmits.discard(start);
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
        let Ok(sent) = Received::read(self.transmits.written(range)) else {
            return;
        };
        let Some(tag) = sent.tag_of_to() else {
            return;
        };
        let hash = self.hasher.hash_one(tag) | 1;
        if let Some(session) = self.sessions.get_mut(index) {
            session.dialog.own_tag = hash;
            let to = session.dialog.get(session.dialog.to);
            if parameter(to, b"tag") != Some(tag) {
                session.dialog.to = session.dialog.push(sent.to);
                session.dialog.fix();
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
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        if session.invited.cseq != cseq || session.invited.state != ServerState::Proceeding {
            return;
        }
        session.invited.written = Some(written);
        if status < 200 {
            if !session.times.first_provisional.is_known() {
                session.times.first_provisional = now;
            }
            if status > 100 && !session.times.progress.is_known() {
                session.times.progress = now;
            }
            return;
        }
        session.invited.state = ServerState::Answered(status);
        let is_unreliable = self
            .connections
            .get(session.connection)
            .is_some_and(|connection| connection.is_unreliable());
        // A 2xx is repeated over every transport (section 13.3.1.4).
        let repeats =
            self.config.is_repeating && send.is_repeated && (status < 300 || is_unreliable);
        session.invited.timers.interval = timers.t1;
        if repeats {
            session.invited.timers.repeat_at = now.after(timers.t1);
        }
        if send.is_repeated {
            session.invited.timers.give_up_at = now.after(timers.give_up);
        }
        if status < 300 {
            session.dialog.is_confirmed = true;
        }
        if !session.times.answered.is_known() {
            session.times.answered = now;
            session.notes.status = status;
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
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        session.asked.written = Some(written);
        if status < 200 {
            return;
        }
        session.asked.state = ServerState::Answered(status);
        if is_bye && !session.times.bye_answered.is_known() {
            session.times.bye_answered = now;
            session.notes.bye_status = status;
        } else if !is_bye
            && !session.times.answered.is_known()
            && session.times.invited == Time::NEVER
        {
            session.times.answered = now;
            session.notes.status = status;
        }
    }

    /// Copies responses of this turn that may have to be sent again.
    pub(super) fn keep_written(&mut self, index: u32) {
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        if let Some((start, end)) = session.invited.written.take() {
            let octets = self.transmits.written(start..end);
            self.buffers.keep(&mut session.invited.response, octets);
        }
        if let Some((start, end)) = session.asked.written.take() {
            let octets = self.transmits.written(start..end);
            self.buffers.keep(&mut session.asked.response, octets);
        }
    }
}
