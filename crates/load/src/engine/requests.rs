//! Incoming requests: the session that each belongs to, and its treatment.

use std::ops::Range;

use sip::Method;

use super::Engine;
use super::config::ConnectionId;
use super::identity::{NOBODY, Owner};
use super::received::{Received, address_uri, user_of};
use super::recently_ended::EndedSession;
use super::sending::Sent;
use super::session::{Arrival, ServerState, Session, State};
use super::steps::find_alternative;
use super::time::{Moment, Time};
use super::transmit_queue::TransmitQueue;
use super::trigger::Trigger;
use crate::record::{Failure, Outcome, Party};
use crate::script::{Kind, Script, ScriptId};

impl Engine {
    pub(super) fn handle_request(
        &mut self,
        moment: Moment,
        request: &Received<'_>,
        method: &Method,
        connection: ConnectionId,
    ) {
        let trigger = Trigger {
            moment,
            message: Some(request),
            connection: Some(connection),
        };
        let tag = request.tag_of_to();
        let transaction = self.fingerprints.transaction(request);
        let session = self.session_of_request(request, tag, transaction);
        let anew = |index: &u32| self.begins_anew(*index, request, tag, transaction);
        if let Some(index) = session.filter(|index| !anew(index)) {
            if let Some(script) = self.script_of(index) {
                self.handle_request_of(&script, index, request, method, transaction, &trigger);
                self.end_turn(&script, index, moment.now);
            }
            return;
        }
        if tag.is_none()
            && let Some(script) = self.scripts.waiting_for(method)
            && !self.was_answered(moment.now, request, transaction)
        {
            self.begin_callee(script, request, transaction, &trigger);
            return;
        }
        self.answer_stray(moment, request, connection);
    }

    /// The session that a request is for: by our tag in To, or by the Call-ID of what has no tag yet or one that
    /// the script has written.
    fn session_of_request(
        &self,
        request: &Received<'_>,
        tag: Option<&[u8]>,
        transaction: u64,
    ) -> Option<u32> {
        let Some(tag) = tag else {
            return self.session_of_caller(request, transaction);
        };
        if let Some(id) = self.identity.tagged(tag) {
            return self.sessions.find(id);
        }
        let own_tag = self.fingerprints.tag(tag);
        let is_it = |session: &Session| session.dialog.own_tag == own_tag;
        let filed = self.find_filed(request.call_id, is_it);
        let owned = || match self.identity.owner(request.call_id) {
            Some(Owner::Session(id)) => {
                let session = self.sessions.find(id);
                session.filter(|index| self.sessions.get(*index).is_some_and(is_it))
            }
            _ => None,
        };
        // SIPp knows calls by their Call-ID alone: its scenarios write several tags as if a call had forked.
        let waits = |session: &Session| {
            let script = self.scripts.get(ScriptId(session.script));
            script.is_some_and(|script| {
                script.is_strict() && find_alternative(script, session, request).is_some()
            })
        };
        filed
            .or_else(owned)
            .or_else(|| self.find_filed(request.call_id, waits))
    }

    /// The session that a request without a tag in To is for: the one whose transaction it belongs to (RFC 3261
    /// section 17.2.3), one that the same caller has begun, or one that waits for it. A Call-ID alone says little: two calls have the
    /// same one where a request comes back to where it was.
    fn session_of_caller(&self, request: &Received<'_>, transaction: u64) -> Option<u32> {
        // Nobody has used most of them.
        let call_id = self.fingerprints.text(request.call_id);
        if !self.sessions.may_have(call_id) {
            return None;
        }
        let is_its = |session: &Session| {
            session.invite_server.has_branch(transaction)
                || session.non_invite_server.has_branch(transaction)
        };
        let caller = request.tag_of_from().unwrap_or_default();
        let no_tag = self.fingerprints.tag(b"");
        let is_same_caller = |session: &Session| match session.party {
            Party::Callee => session.dialog.get(session.dialog.remote_tag) == caller,
            // A script that has called without a tag, as RFC 2543 had it.
            Party::Caller => session.dialog.own_tag == no_tag,
        };
        // A script may want several requests that have nothing else in common.
        let waits = |session: &Session| {
            let script = self.scripts.get(ScriptId(session.script));
            script.is_some_and(|script| find_alternative(script, session, request).is_some())
        };
        self.find_filed(request.call_id, is_its)
            .or_else(|| self.find_filed(request.call_id, is_same_caller))
            .or_else(|| self.find_filed(request.call_id, waits))
    }

    /// The session that is filed under a Call-ID and meets a condition.
    pub(super) fn find_filed(
        &self,
        call_id: &[u8],
        is_it: impl Fn(&Session) -> bool,
    ) -> Option<u32> {
        let fingerprint = self.fingerprints.text(call_id);
        self.sessions.find_filed(fingerprint, call_id, is_it)
    }

    /// Whether a request is not for the session of the same caller, but begins another one: it has no tag in To, is
    /// no retransmission, and the session does not wait for it.
    fn begins_anew(
        &self,
        index: u32,
        request: &Received<'_>,
        tag: Option<&[u8]>,
        transaction: u64,
    ) -> bool {
        let Some(session) = self.sessions.get(index) else {
            return false;
        };
        tag.is_none()
            && self.scripts.waiting_for(&request.cseq_method).is_some()
            && session.classify(request, transaction) == Arrival::New
            && self
                .scripts
                .get(ScriptId(session.script))
                .is_none_or(|script| find_alternative(script, session, request).is_none())
    }

    /// Whether a request is one that has been answered by a session that has ended.
    fn was_answered(&self, now: Time, request: &Received<'_>, transaction: u64) -> bool {
        let Some(EndedSession::Answered(answered)) =
            self.recently_ended.get(now, self.call(request))
        else {
            return false;
        };
        if request.cseq_method == Method::Invite {
            return answered.invite == Some(request.cseq);
        }
        answered.cseq == request.cseq && answered.branch == transaction
    }

    /// The fingerprint of a caller's call.
    pub(super) fn call(&self, request: &Received<'_>) -> u64 {
        let caller = request.tag_of_from().unwrap_or_default();
        self.fingerprints.call(request.call_id, caller)
    }

    /// A request begins a session.
    fn begin_callee(
        &mut self,
        script_id: ScriptId,
        request: &Received<'_>,
        transaction: u64,
        trigger: &Trigger<'_>,
    ) {
        let script = self.scripts.get(script_id).cloned();
        let (Some(script), Some(connection)) = (script, trigger.connection) else {
            return;
        };
        if self.sessions.len() >= self.config.maximum_sessions {
            self.counters.refused_by_limit += 1;
            return;
        }
        let directory = &self.config.directory;
        let number_of = |uri: Option<&[u8]>| self.users.number_of(uri.and_then(user_of), directory);
        let user_number = number_of(request.uri());
        let peer_number = number_of(address_uri(request.from));
        let user = self.users.place(user_number).unwrap_or(NOBODY);
        let received = trigger.moment.received;
        if let Some(Owner::Session(caller)) = self.identity.owner(request.call_id)
            && let Some(caller) = self.sessions.find(caller)
            && let Some(session) = self.sessions.get_mut(caller)
        {
            session.times.reached.set_once(received);
        }
        let number = self.sessions.next_number();
        let index = self.sessions.allocate();
        self.counters.accepted += 1;
        let Some(session) = self.sessions.fresh(index) else {
            return;
        };
        session.state = State::Running;
        session.party = Party::Callee;
        session.script = script_id.0;
        session.user = user;
        session.user_number = user_number;
        session.peer_number = peer_number;
        session.connection = connection;
        session.number = number;
        session.times.due = received;
        session.times.begun = received;
        session.notes.is_first_turn = true;
        session.dialog.prepare(&mut self.buffers);
        session.dialog.learn_caller(request);
        session.begin_server(request, transaction);
        self.join_connection(index);
        let call_id = self.fingerprints.text(request.call_id);
        self.sessions.file(index, call_id);
        if *script.kind() == Kind::Call {
            self.media.begin(index, Party::Callee);
        }
        self.media.describe(index, request.body);
        // Up to where it waits for the request.
        self.advance(&script, index, &Trigger::at(trigger.moment.now));
        if !self.offer(&script, index, trigger) {
            self.answer_unexpected(&script, index, request, trigger);
        }
        self.end_turn(&script, index, trigger.moment.now);
    }

    fn handle_request_of(
        &mut self,
        script: &Script,
        index: u32,
        request: &Received<'_>,
        method: &Method,
        branch: u64,
        trigger: &Trigger<'_>,
    ) {
        match method {
            Method::Ack => self.handle_ack(script, index, request, trigger),
            Method::Cancel => self.handle_cancel(script, index, request, trigger),
            _ => self.handle_other_request(script, index, request, branch, trigger),
        }
    }

    fn handle_other_request(
        &mut self,
        script: &Script,
        index: u32,
        request: &Received<'_>,
        branch: u64,
        trigger: &Trigger<'_>,
    ) {
        let is_waited_for = script.is_strict() && self.is_expected(script, index, request);
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        let is_invite = request.cseq_method == Method::Invite;
        match session.classify(request, branch) {
            // As with SIPp, whose scenarios may count anew or repeat a number.
            Arrival::Merged | Arrival::OutOfOrder if is_waited_for => {}
            Arrival::Retransmission => {
                self.counters.repeated += 1;
                let is_over = session.dialog.is_ended;
                if !is_invite {
                    self.resend(index, Sent::Response, trigger.connection);
                } else if !session.invite_server.absorbs_retransmission(is_over) {
                    self.resend(index, Sent::InviteResponse, trigger.connection);
                    self.say_trying(index, request, trigger);
                }
                return;
            }
            Arrival::Merged => return self.answer_now(index, request, 482, trigger),
            Arrival::OutOfOrder => return self.answer_now(index, request, 500, trigger),
            Arrival::New => {}
        }
        session.begin_server(request, branch);
        let caller = request.tag_of_from().unwrap_or_default();
        let is_others = caller != session.dialog.get(session.dialog.remote_tag);
        if session.party == Party::Callee && !session.dialog.is_confirmed && is_others {
            // It is this one that may begin a dialog.
            session.dialog.learn_caller(request);
        }
        if request.cseq_method == Method::Bye {
            if !session.times.bye.is_known() {
                session.times.bye = trigger.moment.received;
                session.notes.is_bye_from_peer = true;
            }
            session.dialog.is_ended = true;
            self.media.end(index);
        }
        if !self.offer(script, index, trigger) {
            self.answer_unexpected(script, index, request, trigger);
        }
    }

    /// An INVITE that comes again before it has had any response is answered with 100 (RFC 3261 section
    /// 17.2.1), so that its sender stops repeating it.
    fn say_trying(&mut self, index: u32, request: &Received<'_>, trigger: &Trigger<'_>) {
        let Some(session) = self.sessions.get(index) else {
            return;
        };
        if session.invite_server.is_silent() {
            self.answer_now(index, request, 100, trigger);
        }
    }

    fn answer_now(
        &mut self,
        index: u32,
        request: &Received<'_>,
        status: u16,
        trigger: &Trigger<'_>,
    ) {
        let id = self.sessions.id(index);
        if let Some(connection) = trigger.connection {
            self.answer(request, connection, status, id);
        }
    }

    fn handle_ack(
        &mut self,
        script: &Script,
        index: u32,
        request: &Received<'_>,
        trigger: &Trigger<'_>,
    ) {
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        let ServerState::Answered(status) = session.invite_server.state else {
            // A script that has answered twice, as if the INVITE had forked, waits for an ACK to each.
            let is_second = script.is_strict()
                && session.invite_server.has_cseq(request.cseq)
                && is_of_last_answer(session, &self.transmits, request)
                && self.is_expected(script, index, request);
            if !(is_second && self.offer(script, index, trigger)) {
                self.counters.repeated += 1;
            }
            return;
        };
        if session.invite_server.cseq != request.cseq {
            self.counters.repeated += 1;
            return;
        }
        session.invite_server.acknowledge(status, &mut self.buffers);
        session.times.acknowledged.set_once(trigger.moment.received);
        let is_lingering = session.state == State::Lingering;
        let is_bye_wanted = std::mem::take(&mut session.notes.is_bye_wanted);
        if status < 300 {
            self.media.describe(index, request.body);
            self.media.acknowledged(index);
        }
        if is_bye_wanted {
            self.hang_up(script, index, trigger.moment.now);
            return;
        }
        if is_lingering || self.offer(script, index, trigger) {
            return;
        }
        if let Some(session) = self.sessions.get_mut(index) {
            session.notes.has_early_ack = true;
        }
    }

    /// RFC 3261 section 9.2.
    fn handle_cancel(
        &mut self,
        script: &Script,
        index: u32,
        request: &Received<'_>,
        trigger: &Trigger<'_>,
    ) {
        let Some(session) = self.sessions.get(index) else {
            return;
        };
        // It has the branch of what it cancels.
        let invite = &session.invite_server;
        let branch = self.fingerprints.transaction(request);
        if !(invite.has_cseq(request.cseq) && invite.has_branch(branch)) {
            self.answer_now(index, request, 481, trigger);
            return;
        }
        let is_pending = invite.state == ServerState::Proceeding;
        let is_too_late = invite.is_accepted() && session.state != State::Lingering;
        let is_awaited =
            (is_pending || script.is_strict()) && self.is_expected(script, index, request);
        if is_awaited && self.offer(script, index, trigger) {
            return;
        }
        if !is_pending {
            // It comes too late, or again.
            self.answer_now(index, request, 200, trigger);
            if is_too_late && script.is_strict() {
                let outcome = Outcome::Failed(Failure::Unexpected);
                self.finish(script, index, outcome, trigger);
            }
            return;
        }
        self.answer_now(index, request, 200, trigger);
        self.refuse_initial(index, 487, trigger);
        let outcome = Outcome::Failed(Failure::Cancelled);
        self.finish(script, index, outcome, trigger);
    }

    /// Answers the INVITE that has no final response for the script.
    pub(super) fn refuse_initial(&mut self, index: u32, status: u16, trigger: &Trigger<'_>) {
        let id = self.sessions.id(index);
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        if session.invite_server.state != ServerState::Proceeding {
            return;
        }
        let connection = session.connection;
        let octets = std::mem::take(&mut session.initial);
        let kept = Received::read(&octets).ok();
        let last = std::mem::take(&mut session.last);
        let kept_last = Received::read(&last).ok();
        let cseq = session.invite_server.cseq;
        let is_it = |message: &&Received<'_>| {
            message.method() == Some(&Method::Invite) && message.cseq == cseq
        };
        let invite = kept
            .as_ref()
            .filter(is_it)
            .or_else(|| trigger.message.filter(is_it))
            .or_else(|| kept_last.as_ref().filter(is_it));
        if let Some(invite) = invite {
            let start = self.transmits.len();
            self.answer(invite, connection, status, id);
            let written = start..self.transmits.len();
            self.note_refusal(index, status, written, trigger.moment.now);
            if let Some(session) = self.sessions.get_mut(index)
                && session.times.answered.set_once(trigger.moment.now)
            {
                session.notes.status = status;
            }
        }
        if let Some(session) = self.sessions.get_mut(index) {
            session.initial = octets;
            session.last = last;
        }
    }

    /// The engine has refused an INVITE by itself: it says so until the ACK comes, Timers G and H (RFC 3261
    /// section 17.2.1).
    fn note_refusal(&mut self, index: u32, status: u16, written: Range<usize>, now: Time) {
        let timeout = Some(self.config.timers.give_up);
        let t1 = self.t1_of(index);
        if let Some(session) = self.sessions.get_mut(index) {
            session
                .invite_server
                .answer_invite(status, now, t1, timeout);
            session.invite_server.note_response(written);
        }
    }

    /// Answers a request of a session that no step expects.
    fn answer_unexpected(
        &mut self,
        script: &Script,
        index: u32,
        request: &Received<'_>,
        trigger: &Trigger<'_>,
    ) {
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        let is_lingering = session.state == State::Lingering;
        let client = &session.non_invite_client;
        let is_sending_bye = client.is_pending() && client.request.method == Method::Bye;
        let (status, outcome) = match &request.cseq_method {
            Method::Bye if is_lingering || is_sending_bye => (200, None),
            Method::Bye => (200, Some(Failure::HungUp)),
            Method::Options => (200, None),
            other if script.auto_answers(other) => (200, None),
            Method::Invite => (488, None),
            _ => (405, None),
        };
        let is_allowed =
            request.cseq_method == Method::Bye || script.auto_answers(&request.cseq_method);
        let is_strict = script.is_strict() && !is_lingering && !is_allowed;
        let outcome = outcome.or(is_strict.then_some(Failure::Unexpected));
        let start = self.transmits.len();
        self.answer_now(index, request, status, trigger);
        let written = start..self.transmits.len();
        if request.cseq_method == Method::Invite {
            self.note_refusal(index, status, written, trigger.moment.now);
        } else if let Some(session) = self.sessions.get_mut(index) {
            session.non_invite_server.state = ServerState::Answered(status);
            session.non_invite_server.note_response(written);
            session.non_invite_server.says_more = false;
            if request.cseq_method == Method::Bye
                && session.times.bye_answered.set_once(trigger.moment.now)
            {
                session.notes.bye_status = status;
            }
        }
        if let Some(failure) = outcome {
            self.finish(script, index, Outcome::Failed(failure), trigger);
        }
    }
}

/// Whether an ACK can be for the last answer to the INVITE, where a script has written another one after an ACK: each has a tag
/// of its own (RFC 3261 section 13.2.2.4).
fn is_of_last_answer(session: &Session, transmits: &TransmitQueue, ack: &Received<'_>) -> bool {
    let last = session.non_invite_server.last_response(transmits);
    let last = Received::read(last).ok();
    let last = last.filter(|last| last.cseq_method == Method::Invite);
    last.is_none_or(|last| last.tag_of_to() == ack.tag_of_to())
}
