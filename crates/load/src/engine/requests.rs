//! Requests: to which session they belong, and what follows from them.

use sip::{Method, Name};

use super::Engine;
use super::config::ConnectionId;
use super::identity::Owner;
use super::received::{Received, address_uri, user_of};
use super::responses::{is_strict, list, write_route};
use super::sending::Which;
use super::session::{NOBODY, ServerState, Session, State};
use super::steps::{Trigger, find_alternative};
use super::time::{Moment, Time};
use crate::record::{Failure, Outcome, Party};
use crate::script::{Script, ScriptId};

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
        let transaction = self.transaction(request);
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
            && let Some(script) = self.script_for(method)
            && !self.is_remembered(moment.now, request, transaction)
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
        if let Some(name) = self.identity.tagged(tag) {
            return self.sessions.find(name);
        }
        let own_tag = self.hasher.hash_one(tag) | 1;
        let is_it = |session: &Session| session.dialog.own_tag == own_tag;
        let in_table = self.find_in_table(request.call_id, is_it);
        in_table.or_else(|| match self.identity.owner(request.call_id) {
            Some(Owner::Session(name)) => {
                let session = self.sessions.find(name);
                session.filter(|index| self.sessions.get(*index).is_some_and(is_it))
            }
            _ => None,
        })
    }

    /// The session that a request without a tag in To is for: the one whose transaction it belongs to (RFC 3261
    /// section 17.2.3), one that the same caller has begun, or one that waits for it. A Call-ID alone says little: two calls have the
    /// same one where a request comes back to where it was.
    fn session_of_caller(&self, request: &Received<'_>, transaction: u64) -> Option<u32> {
        // Nobody has used most of them.
        let hash = self.hash(request.call_id);
        self.by_call_id.find(hash, |_| true)?;
        let is_its = |session: &Session| {
            let servers = [
                (session.invited.state, session.invited.branch),
                (session.asked.state, session.asked.branch),
            ];
            servers
                .iter()
                .any(|(state, branch)| *state != ServerState::Idle && *branch == transaction)
        };
        let caller = request.tag_of_from().unwrap_or_default();
        let no_tag = self.hasher.hash_one(&b""[..]) | 1;
        let is_same_caller = |session: &Session| match session.party {
            Party::Callee => session.dialog.get(session.dialog.remote_tag) == caller,
            // A script that has called without a tag, as RFC 2543 had it.
            Party::Caller => session.dialog.own_tag == no_tag,
        };
        // A script may want several requests that have nothing else in common.
        let waits = |session: &Session| {
            let script = self.scripts.get(usize::from(session.script));
            script.is_some_and(|script| find_alternative(script, session, request).is_some())
        };
        self.find_in_table(request.call_id, is_its)
            .or_else(|| self.find_in_table(request.call_id, is_same_caller))
            .or_else(|| self.find_in_table(request.call_id, waits))
    }

    /// Whether a request is not for the session of the same caller, but begins another one: it has no tag in To, is
    /// no repetition, and the session does not wait for it.
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
            && self.script_for(&request.cseq_method).is_some()
            && matches!(placement(session, request, transaction), Placement::New)
            && self
                .scripts
                .get(usize::from(session.script))
                .is_none_or(|script| !self.is_expected(script, index, request))
    }

    /// The script that waits for a request of a method.
    fn script_for(&self, method: &Method) -> Option<ScriptId> {
        self.waiting
            .iter()
            .find_map(|(waits, script)| (waits == method).then_some(*script))
    }

    /// Whether a request is one that has been answered by a session that is over.
    fn is_remembered(&self, now: Time, request: &Received<'_>, transaction: u64) -> bool {
        let hash = self.hash_of_caller(request);
        let Some(super::recently_ended::EndedSession::Answered(answered)) =
            self.recently_ended.get(now, hash)
        else {
            return false;
        };
        if request.cseq_method == Method::Invite {
            return answered.invite == Some(request.cseq);
        }
        answered.cseq == request.cseq && answered.branch == transaction
    }

    /// A request begins a session.
    fn begin_callee(
        &mut self,
        script_id: ScriptId,
        request: &Received<'_>,
        transaction: u64,
        trigger: &Trigger<'_>,
    ) {
        let (Some(script), Some(connection)) = (self.script(script_id), trigger.connection) else {
            return;
        };
        if self.sessions.len() >= self.config.maximum_sessions {
            self.counters.refused_by_limit += 1;
            return;
        }
        let hash = self.hash(request.call_id);
        let user_number = self.number_of(request.uri().and_then(user_of));
        let peer_number = self.number_of(address_uri(request.from).and_then(user_of));
        let user = self.users.place(user_number).unwrap_or(NOBODY);
        let received = trigger.moment.received;
        if let Some(Owner::Session(caller)) = self.identity.owner(request.call_id)
            && let Some(caller) = self.sessions.find(caller)
            && let Some(session) = self.sessions.get_mut(caller)
            && !session.times.reached.is_known()
        {
            session.times.reached = received;
        }
        let index = self.sessions.allocate();
        self.begun += 1;
        self.counters.accepted += 1;
        let number = self.begun;
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
        session.call_id_hash = hash;
        session.notes.is_in_table = true;
        session.notes.is_first_turn = true;
        session.dialog.prepare(&mut self.buffers);
        learn_caller(session, request);
        note_request(session, request, transaction);
        self.list(index);
        self.insert_in_table(index, hash);
        self.begin_media(&script, index, Party::Callee);
        self.describe_media(index, request.body);
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
            _ => {
                let Some(session) = self.sessions.get_mut(index) else {
                    return;
                };
                match placement(session, request, branch) {
                    Placement::Repeated(which) => {
                        self.counters.repeated += 1;
                        if matches!(which, Which::Answer) && is_absorbed(session) {
                            return;
                        }
                        self.resend(index, which, trigger.connection);
                        if matches!(which, Which::Answer) {
                            self.say_trying(index, request, trigger);
                        }
                    }
                    Placement::Merged => self.answer_now(index, request, 482, trigger),
                    Placement::Old => self.answer_now(index, request, 500, trigger),
                    Placement::New => {
                        note_request(session, request, branch);
                        let is_others = request.tag_of_from().unwrap_or_default()
                            != session.dialog.get(session.dialog.remote_tag);
                        if session.party == Party::Callee
                            && !session.dialog.is_confirmed
                            && is_others
                        {
                            // It is this one that may begin a dialog.
                            learn_caller(session, request);
                        }
                        if *method == Method::Bye && !session.times.bye.is_known() {
                            session.times.bye = trigger.moment.received;
                            session.notes.is_bye_from_peer = true;
                        }
                        if *method == Method::Bye {
                            session.dialog.is_ended = true;
                            self.end_media(index);
                        }
                        if !self.offer(script, index, trigger) {
                            self.answer_unexpected(script, index, request, trigger);
                        }
                    }
                }
            }
        }
    }

    /// An INVITE that comes again before it has had any response is answered with 100 (RFC 3261 section
    /// 17.2.1), so that its sender stops repeating it.
    fn say_trying(&mut self, index: u32, request: &Received<'_>, trigger: &Trigger<'_>) {
        let Some(session) = self.sessions.get(index) else {
            return;
        };
        if session.invited.state == ServerState::Proceeding && session.invited.response.is_empty() {
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
        let name = self.sessions.name(index);
        if let Some(connection) = trigger.connection {
            self.answer(request, connection, status, name);
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
        let ServerState::Answered(status) = session.invited.state else {
            self.counters.repeated += 1;
            return;
        };
        if session.invited.cseq != request.cseq {
            self.counters.repeated += 1;
            return;
        }
        session.invited.state = ServerState::Acknowledged(status);
        session.invited.timers.stop();
        self.buffers.give_back(&mut session.invited.response);
        if !session.times.acknowledged.is_known() {
            session.times.acknowledged = trigger.moment.received;
        }
        let is_bye_wanted = std::mem::take(&mut session.notes.is_bye_wanted);
        if status < 300 {
            self.describe_media(index, request.body);
            self.media_acknowledged(index);
        }
        if is_bye_wanted {
            self.hang_up(script, index, trigger.moment.now);
            return;
        }
        let is_lingering = self
            .sessions
            .get(index)
            .is_some_and(|session| session.state == State::Lingering);
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
        let is_its = session.invited.state != ServerState::Idle
            && session.invited.cseq == request.cseq
            && session.invited.branch == self.transaction(request);
        if !is_its {
            self.answer_now(index, request, 481, trigger);
            return;
        }
        if session.invited.state != ServerState::Proceeding {
            // It comes too late, or again.
            self.answer_now(index, request, 200, trigger);
            return;
        }
        let is_expected = self.is_expected(script, index, request);
        if is_expected && self.offer(script, index, trigger) {
            return;
        }
        self.answer_now(index, request, 200, trigger);
        self.refuse_initial(index, 487, trigger);
        let outcome = Outcome::Failed(Failure::Cancelled);
        self.finish(script, index, outcome, trigger);
    }

    /// Answers the INVITE that has no final response for the script.
    pub(super) fn refuse_initial(&mut self, index: u32, status: u16, trigger: &Trigger<'_>) {
        let name = self.sessions.name(index);
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        if session.invited.state != ServerState::Proceeding {
            return;
        }
        let connection = session.connection;
        let octets = std::mem::take(&mut session.initial);
        let kept = Received::read(&octets).ok();
        let last = std::mem::take(&mut session.last);
        let kept_last = Received::read(&last).ok();
        let cseq = session.invited.cseq;
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
            self.answer(invite, connection, status, name);
            let written = (start, self.transmits.len());
            self.note_refusal(index, status, written, trigger.moment.now);
            if let Some(session) = self.sessions.get_mut(index)
                && !session.times.answered.is_known()
            {
                session.times.answered = trigger.moment.now;
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
    fn note_refusal(&mut self, index: u32, status: u16, written: (usize, usize), now: Time) {
        let timers = self.config.timers;
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        let is_unreliable = self
            .connections
            .get(session.connection)
            .is_some_and(|connection| connection.is_unreliable());
        session.invited.state = ServerState::Answered(status);
        session.invited.written = Some(written);
        session.invited.timers.interval = timers.t1;
        if is_unreliable && self.config.is_repeating {
            session.invited.timers.repeat_at = now.after(timers.t1);
        }
        session.invited.timers.give_up_at = now.after(timers.give_up);
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
        let is_sending_bye = session.other.is_pending() && session.other.method == Method::Bye;
        let (status, outcome) = match &request.cseq_method {
            Method::Bye if is_lingering || is_sending_bye => (200, None),
            Method::Bye => (200, Some(Failure::HungUp)),
            Method::Options => (200, None),
            Method::Invite => (488, None),
            _ => (405, None),
        };
        let is_strict = script.is_strict() && !is_lingering && request.cseq_method != Method::Bye;
        let outcome = outcome.or(is_strict.then_some(Failure::Unexpected));
        let start = self.transmits.len();
        self.answer_now(index, request, status, trigger);
        let written = (start, self.transmits.len());
        if request.cseq_method == Method::Invite {
            self.note_refusal(index, status, written, trigger.moment.now);
        } else if let Some(session) = self.sessions.get_mut(index) {
            session.asked.state = ServerState::Answered(status);
            session.asked.written = Some(written);
            session.asked.says_more = false;
            if request.cseq_method == Method::Bye && !session.times.bye_answered.is_known() {
                session.times.bye_answered = trigger.moment.now;
                session.notes.bye_status = status;
            }
        }
        if let Some(failure) = outcome {
            self.finish(script, index, Outcome::Failed(failure), trigger);
        }
    }

    /// The session that is filed under a Call-ID, of those that are looked for.
    pub(super) fn find_in_table(
        &self,
        call_id: &[u8],
        is_it: impl Fn(&Session) -> bool,
    ) -> Option<u32> {
        let hash = self.hash(call_id);
        self.by_call_id.find(hash, |index| {
            self.sessions.get(index).is_some_and(|session| {
                session.call_id_hash == hash
                    && session.dialog.get(session.dialog.call_id) == call_id
                    && is_it(session)
            })
        })
    }

    /// Files a session under the hash of its Call-ID.
    pub(super) fn insert_in_table(&mut self, index: u32, hash: u64) {
        self.by_call_id.insert(hash, index);
    }

    /// Takes a session out of the table.
    pub(super) fn remove_from_table(&mut self, index: u32, hash: u64) {
        self.by_call_id.remove(hash, index);
    }

    /// What tells a request's transaction from all others: its branch, and who has sent it (RFC 3261 section
    /// 17.2.3).
    pub(super) fn transaction(&self, request: &Received<'_>) -> u64 {
        self.hasher.hash_one((request.sent_by(), request.branch()))
    }

    /// What tells a caller's call from all others.
    pub(super) fn hash_of_caller(&self, request: &Received<'_>) -> u64 {
        let caller = request.tag_of_from().unwrap_or_default();
        self.hasher.hash_one((request.call_id, caller))
    }

    /// The hash of a text from the network.
    pub(super) fn hash(&self, text: &[u8]) -> u64 {
        self.hasher.hash_one(text)
    }
}

/// What a request within a session is.
enum Placement {
    /// It has come before.
    Repeated(Which),
    /// It has come by another way already (RFC 3261 section 8.2.2.2).
    Merged,
    /// It is older than one that has come (section 12.2.2).
    Old,
    New,
}

fn placement(session: &Session, request: &Received<'_>, branch: u64) -> Placement {
    let is_invite = request.cseq_method == Method::Invite;
    if is_invite
        && session.invited.state != ServerState::Idle
        && session.invited.cseq == request.cseq
    {
        if session.invited.branch == branch {
            return Placement::Repeated(Which::Answer);
        }
        return Placement::Merged;
    }
    let is_asked = session.asked.state != ServerState::Idle;
    if !is_invite
        && is_asked
        && session.asked.cseq == request.cseq
        && session.asked.branch == branch
    {
        return Placement::Repeated(Which::Response);
    }
    if request.cseq < session.dialog.remote_cseq {
        return Placement::Old;
    }
    Placement::New
}

/// Whether an INVITE that comes again says nothing new: it has been accepted, and its 2xx is repeated until the ACK
/// comes anyway (RFC 6026 section 8.7), or the ACK has come (RFC 3261 section 17.2.1), or the call is over, to which no 2xx
/// is to bring anybody back. Of a call that goes on, a 2xx that nothing repeats is for the one who asks once more, or a
/// loss would be for good.
fn is_absorbed(session: &Session) -> bool {
    match session.invited.state {
        ServerState::Acknowledged(_) => true,
        ServerState::Answered(200..300) => {
            session.dialog.is_ended || session.invited.timers.repeat_at.is_known()
        }
        ServerState::Idle | ServerState::Proceeding | ServerState::Answered(_) => false,
    }
}

/// Begins the server transaction of a request.
fn note_request(session: &mut Session, request: &Received<'_>, branch: u64) {
    session.dialog.remote_cseq = request.cseq;
    if request.cseq_method == Method::Invite {
        session.invited.state = ServerState::Proceeding;
        session.invited.cseq = request.cseq;
        session.invited.branch = branch;
        session.invited.written = None;
        session.invited.response.clear();
        session.invited.timers.stop();
    } else {
        session.asked.state = ServerState::Proceeding;
        session.asked.cseq = request.cseq;
        session.asked.branch = branch;
        session.asked.written = None;
        session.asked.response.clear();
    }
}

/// Takes in what a request says of the dialog that it may begin (RFC 3261 section 12.1.1).
fn learn_caller(session: &mut Session, request: &Received<'_>) {
    let dialog = &mut session.dialog;
    dialog.call_id = dialog.push(request.call_id);
    dialog.from = dialog.push(request.from);
    dialog.to = dialog.push(request.to);
    if let Some(tag) = request.tag_of_from() {
        dialog.remote_tag = dialog.push(tag);
    }
    if let Some(contact) = request.contact_uri() {
        dialog.target = dialog.push(contact);
    }
    if !request.record_routes.is_empty() {
        dialog.routes = dialog.push_with(|out| {
            request.each_field(Name::RecordRoute, &request.record_routes, |value| {
                for route in list(value) {
                    write_route(route, out);
                }
            });
        });
        dialog.is_strict = is_strict(dialog.get(dialog.routes));
    }
    dialog.fix();
}
