//! Responses that scripts send, and the state of their server transactions.

use std::ops::Range;

use sip::{Method, tag_of};

use super::received::Received;
use super::render::{MAXIMUM_MESSAGE, RenderContext, RenderState, write_message};
use super::session::ServerState;
use super::time::Time;
use super::trigger::Trigger;
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
        let session_context = self.session_context(script, index, trigger);
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
        let context = RenderContext {
            last: trigger.message.or(Some(answered)),
            answered: Some(answered),
            cseq: answered.cseq,
            branch: 0,
            ..RenderContext::of(
                session,
                session_context,
                (&self.identity, &self.config),
                connection,
            )
        };
        let mut state = RenderState {
            rng: &mut self.rng,
            challenges: &mut Vec::new(),
        };
        let start = self.transmits.len();
        write_message(
            &send.template,
            &context,
            &mut state,
            self.transmits.buffer(),
        );
        let end = self.transmits.len();
        if end - start > MAXIMUM_MESSAGE {
            self.transmits.discard(start);
            return Err(Failed(Failure::Script));
        }
        let is_bye = answered.cseq_method == Method::Bye;
        // One that is written after another request, e.g. a CANCEL, may still be for the INVITE.
        let is_of_invite = |sent: &Received<'_>| sent.cseq_method == Method::Invite;
        let invite_cseq = if is_of_invite(answered) {
            Some(answered.cseq)
        } else if session.invite_server.state == ServerState::Proceeding {
            let sent = Received::read(self.transmits.written(start..end)).ok();
            sent.filter(is_of_invite).map(|sent| sent.cseq)
        } else {
            None
        };
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
        let description = self.transmits.written(start..end);
        self.media.describe_own(index, description);
        if let Some((contact, body)) = change {
            if let (Some(session), Some(contact)) = (self.sessions.get_mut(index), contact) {
                session.dialog.replace_target(&contact);
            }
            self.media.describe(index, &body);
            self.media.answered(index);
        }
        if let Some(cseq) = invite_cseq {
            let answer = (status, cseq);
            self.note_answer(index, send, answer, start..end, trigger.moment.now);
            if is_callee && (200..300).contains(&status) {
                self.media.answered(index);
            }
        } else {
            self.note_response(index, status, is_bye, start..end, trigger.moment.now);
            if let Some(session) = self.sessions.get_mut(index) {
                session.non_invite_server.says_more = !send.template.is_bare();
            }
        }
        let is_lost = send.loss > 0.0 && self.draws(send.loss);
        if is_lost {
            // It is kept in order to be sent when the request comes again.
            if let Some(session) = self.sessions.get_mut(index) {
                session.keep_responses(&self.transmits, &mut self.buffers);
            }
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
        let own_tag = self.fingerprints.tag(tag);
        if let Some(session) = self.sessions.get_mut(index) {
            session.dialog.own_tag = own_tag;
            let to = session.dialog.get(session.dialog.to);
            if tag_of(to).map(str::as_bytes) != Some(tag) {
                session.dialog.learn_own_to(sent.to);
            }
        }
    }

    /// The server transaction of the INVITE goes on with a response (RFC 3261 sections 13.3.1 and 17.2.1).
    fn note_answer(
        &mut self,
        index: u32,
        send: &Send,
        (status, cseq): (u16, u32),
        written: Range<usize>,
        now: Time,
    ) {
        let timers = self.config.timers;
        let t1 = match status {
            // A 2xx is retransmitted over every transport (section 13.3.1.4).
            200..300 => self.config.is_repeating.then_some(timers.t1),
            _ => self.t1_of(index),
        };
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        let server = &mut session.invite_server;
        if server.cseq != cseq || server.state != ServerState::Proceeding {
            return;
        }
        server.note_response(written);
        if status < 200 {
            session.times.first_provisional.set_once(now);
            if status > 100 {
                session.times.progress.set_once(now);
            }
            return;
        }
        let t1 = t1.filter(|_| send.is_repeated);
        let timeout = send.is_repeated.then_some(timers.give_up);
        server.answer_invite(status, now, t1, timeout);
        if status < 300 {
            session.dialog.is_confirmed = true;
        }
        if session.times.answered.set_once(now) {
            session.notes.status = status;
        }
    }

    fn note_response(
        &mut self,
        index: u32,
        status: u16,
        is_bye: bool,
        written: Range<usize>,
        now: Time,
    ) {
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        session.non_invite_server.note_response(written);
        if status < 200 {
            return;
        }
        session.non_invite_server.state = ServerState::Answered(status);
        if is_bye {
            if session.times.bye_answered.set_once(now) {
                session.notes.bye_status = status;
            }
        } else if !session.times.invited.is_known() && session.times.answered.set_once(now) {
            session.notes.status = status;
        }
    }
}
