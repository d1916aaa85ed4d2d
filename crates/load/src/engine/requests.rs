//! Requests: to which run they belong, and what follows from them.

use sip::{Method, Name};

use super::Engine;
use super::config::ConnectionId;
use super::identity::Owner;
use super::received::{Received, address_uri, user_of};
use super::responses::{is_strict, list, write_route};
use super::run::{NOBODY, Run, ServerState, State};
use super::sending::Which;
use super::steps::{Turn, find_alternative};
use super::time::{Moment, Time};
use crate::record::{Failure, Outcome, Side};
use crate::script::{Script, ScriptId};

impl Engine {
    pub(super) fn handle_request(
        &mut self,
        moment: Moment,
        request: &Received<'_>,
        method: &Method,
        connection: ConnectionId,
    ) {
        let turn = Turn {
            moment,
            message: Some(request),
            connection: Some(connection),
        };
        let tag = request.tag_of_to();
        let transaction = self.transaction(request);
        let run = self.run_of_request(request, tag, transaction);
        let anew = |index: &u32| self.begins_anew(*index, request, tag, transaction);
        if let Some(index) = run.filter(|index| !anew(index)) {
            if let Some(script) = self.script_of(index) {
                self.handle_request_of(&script, index, request, method, transaction, &turn);
                self.settle(&script, index, moment.now);
            }
            return;
        }
        if tag.is_none()
            && let Some(script) = self.script_for(method)
            && !self.is_remembered(moment.now, request, transaction)
        {
            self.begin_callee(script, request, transaction, &turn);
            return;
        }
        self.answer_stray(moment, request, connection);
    }

    /// The run that a request is for: by our tag in To, or by the Call-ID of what has no tag yet or one that
    /// the script has written.
    fn run_of_request(
        &self,
        request: &Received<'_>,
        tag: Option<&[u8]>,
        transaction: u64,
    ) -> Option<u32> {
        let Some(tag) = tag else {
            return self.run_of_caller(request, transaction);
        };
        if let Some(name) = self.identity.tagged(tag) {
            return self.runs.find(name);
        }
        let own_tag = self.hasher.hash_one(tag) | 1;
        let is_it = |run: &Run| run.dialog.own_tag == own_tag;
        let in_table = self.find_in_table(request.call_id, is_it);
        in_table.or_else(|| match self.identity.owner(request.call_id) {
            Some(Owner::Run(name)) => {
                let run = self.runs.find(name);
                run.filter(|index| self.runs.get(*index).is_some_and(is_it))
            }
            _ => None,
        })
    }

    /// The run that a request without a tag in To is for: the one whose transaction it belongs to (RFC 3261
    /// section 17.2.3), one that the same caller has begun, or one that waits for it. A Call-ID alone says little: two calls have the
    /// same one where a request comes back to where it was.
    fn run_of_caller(&self, request: &Received<'_>, transaction: u64) -> Option<u32> {
        // Nobody has used most of them.
        let hash = self.hash(request.call_id);
        self.by_call_id.find(hash, |_| true)?;
        let is_its = |run: &Run| {
            let servers = [
                (run.invited.state, run.invited.branch),
                (run.asked.state, run.asked.branch),
            ];
            servers
                .iter()
                .any(|(state, branch)| *state != ServerState::Idle && *branch == transaction)
        };
        let caller = request.tag_of_from().unwrap_or_default();
        let no_tag = self.hasher.hash_one(&b""[..]) | 1;
        let is_same_caller = |run: &Run| match run.side {
            Side::Callee => run.dialog.get(run.dialog.remote_tag) == caller,
            // A script that has called without a tag, as RFC 2543 had it.
            Side::Caller => run.dialog.own_tag == no_tag,
        };
        // A script may want several requests that have nothing else in common.
        let waits = |run: &Run| {
            let script = self.scripts.get(usize::from(run.script));
            script.is_some_and(|script| find_alternative(script, run, request).is_some())
        };
        self.find_in_table(request.call_id, is_its)
            .or_else(|| self.find_in_table(request.call_id, is_same_caller))
            .or_else(|| self.find_in_table(request.call_id, waits))
    }

    /// Whether a request is not for the run of the same caller, but begins another one: it has no tag in To, is
    /// no repetition, and the run does not wait for it.
    fn begins_anew(
        &self,
        index: u32,
        request: &Received<'_>,
        tag: Option<&[u8]>,
        transaction: u64,
    ) -> bool {
        let Some(run) = self.runs.get(index) else {
            return false;
        };
        tag.is_none()
            && self.script_for(&request.cseq_method).is_some()
            && matches!(placement(run, request, transaction), Placement::New)
            && self
                .scripts
                .get(usize::from(run.script))
                .is_none_or(|script| !self.is_expected(script, index, request))
    }

    /// The script that waits for a request of a method.
    fn script_for(&self, method: &Method) -> Option<ScriptId> {
        self.waiting
            .iter()
            .find_map(|(waits, script)| (waits == method).then_some(*script))
    }

    /// Whether a request is one that has been answered by a run that is over.
    fn is_remembered(&self, now: Time, request: &Received<'_>, transaction: u64) -> bool {
        let hash = self.hash_of_caller(request);
        let Some(super::remnants::Remnant::Answered(answered)) = self.remnants.get(now, hash)
        else {
            return false;
        };
        if request.cseq_method == Method::Invite {
            return answered.invite == Some(request.cseq);
        }
        answered.cseq == request.cseq && answered.branch == transaction
    }

    /// A request begins a run.
    fn begin_callee(
        &mut self,
        script_id: ScriptId,
        request: &Received<'_>,
        transaction: u64,
        turn: &Turn<'_>,
    ) {
        let (Some(script), Some(connection)) = (self.script(script_id), turn.connection) else {
            return;
        };
        if self.runs.len() >= self.config.maximum_runs {
            self.counters.refused_by_limit += 1;
            return;
        }
        let hash = self.hash(request.call_id);
        let user_number = self.number_of(request.uri().and_then(user_of));
        let peer_number = self.number_of(address_uri(request.from).and_then(user_of));
        let user = self.users.place(user_number).unwrap_or(NOBODY);
        let received = turn.moment.received;
        if let Some(Owner::Run(caller)) = self.identity.owner(request.call_id)
            && let Some(caller) = self.runs.find(caller)
            && let Some(run) = self.runs.get_mut(caller)
            && !run.times.reached.is_known()
        {
            run.times.reached = received;
        }
        let index = self.runs.allocate();
        self.begun += 1;
        self.counters.accepted += 1;
        let number = self.begun;
        let Some(run) = self.runs.fresh(index) else {
            return;
        };
        run.state = State::Running;
        run.side = Side::Callee;
        run.script = script_id.0;
        run.user = user;
        run.user_number = user_number;
        run.peer_number = peer_number;
        run.connection = connection;
        run.number = number;
        run.times.due = received;
        run.times.begun = received;
        run.call_id_hash = hash;
        run.notes.is_in_table = true;
        run.notes.is_first_turn = true;
        run.dialog.prepare(&mut self.buffers);
        learn_caller(run, request);
        note_request(run, request, transaction);
        self.list(index);
        self.insert_in_table(index, hash);
        self.begin_media(&script, index, Side::Callee);
        self.describe_media(index, request.body);
        // Up to where it waits for the request.
        self.advance(&script, index, &Turn::at(turn.moment.now));
        if !self.offer(&script, index, turn) {
            self.answer_unexpected(&script, index, request, turn);
        }
        self.settle(&script, index, turn.moment.now);
    }

    fn handle_request_of(
        &mut self,
        script: &Script,
        index: u32,
        request: &Received<'_>,
        method: &Method,
        branch: u64,
        turn: &Turn<'_>,
    ) {
        match method {
            Method::Ack => self.handle_ack(script, index, request, turn),
            Method::Cancel => self.handle_cancel(script, index, request, turn),
            _ => {
                let Some(run) = self.runs.get_mut(index) else {
                    return;
                };
                match placement(run, request, branch) {
                    Placement::Repeated(which) => {
                        self.counters.repeated += 1;
                        if matches!(which, Which::Answer) && is_absorbed(run) {
                            return;
                        }
                        self.resend(index, which, turn.connection);
                        if matches!(which, Which::Answer) {
                            self.say_trying(index, request, turn);
                        }
                    }
                    Placement::Merged => self.answer_now(index, request, 482, turn),
                    Placement::Old => self.answer_now(index, request, 500, turn),
                    Placement::New => {
                        note_request(run, request, branch);
                        let is_others = request.tag_of_from().unwrap_or_default()
                            != run.dialog.get(run.dialog.remote_tag);
                        if run.side == Side::Callee && !run.dialog.is_confirmed && is_others {
                            // It is this one that may begin a dialog.
                            learn_caller(run, request);
                        }
                        if *method == Method::Bye && !run.times.bye.is_known() {
                            run.times.bye = turn.moment.received;
                            run.notes.is_bye_from_peer = true;
                        }
                        if *method == Method::Bye {
                            run.dialog.is_ended = true;
                            self.end_media(index);
                        }
                        if !self.offer(script, index, turn) {
                            self.answer_unexpected(script, index, request, turn);
                        }
                    }
                }
            }
        }
    }

    /// An INVITE that comes again before it has had any response is answered with 100 (RFC 3261 section
    /// 17.2.1), so that its sender stops repeating it.
    fn say_trying(&mut self, index: u32, request: &Received<'_>, turn: &Turn<'_>) {
        let Some(run) = self.runs.get(index) else {
            return;
        };
        if run.invited.state == ServerState::Proceeding && run.invited.response.is_empty() {
            self.answer_now(index, request, 100, turn);
        }
    }

    fn answer_now(&mut self, index: u32, request: &Received<'_>, status: u16, turn: &Turn<'_>) {
        let name = self.runs.name(index);
        if let Some(connection) = turn.connection {
            self.answer(request, connection, status, name);
        }
    }

    fn handle_ack(&mut self, script: &Script, index: u32, request: &Received<'_>, turn: &Turn<'_>) {
        let Some(run) = self.runs.get_mut(index) else {
            return;
        };
        let ServerState::Answered(status) = run.invited.state else {
            self.counters.repeated += 1;
            return;
        };
        if run.invited.cseq != request.cseq {
            self.counters.repeated += 1;
            return;
        }
        run.invited.state = ServerState::Acknowledged(status);
        run.invited.timers.stop();
        self.buffers.give_back(&mut run.invited.response);
        if !run.times.acknowledged.is_known() {
            run.times.acknowledged = turn.moment.received;
        }
        let is_bye_wanted = std::mem::take(&mut run.notes.is_bye_wanted);
        if status < 300 {
            self.describe_media(index, request.body);
            self.media_acknowledged(index);
        }
        if is_bye_wanted {
            self.hang_up(script, index, turn.moment.now);
            return;
        }
        let is_lingering = self
            .runs
            .get(index)
            .is_some_and(|run| run.state == State::Lingering);
        if is_lingering || self.offer(script, index, turn) {
            return;
        }
        if let Some(run) = self.runs.get_mut(index) {
            run.notes.has_early_ack = true;
        }
    }

    /// RFC 3261 section 9.2.
    fn handle_cancel(
        &mut self,
        script: &Script,
        index: u32,
        request: &Received<'_>,
        turn: &Turn<'_>,
    ) {
        let Some(run) = self.runs.get(index) else {
            return;
        };
        // It has the branch of what it cancels.
        let is_its = run.invited.state != ServerState::Idle
            && run.invited.cseq == request.cseq
            && run.invited.branch == self.transaction(request);
        if !is_its {
            self.answer_now(index, request, 481, turn);
            return;
        }
        if run.invited.state != ServerState::Proceeding {
            // It comes too late, or again.
            self.answer_now(index, request, 200, turn);
            return;
        }
        let is_expected = self.is_expected(script, index, request);
        if is_expected && self.offer(script, index, turn) {
            return;
        }
        self.answer_now(index, request, 200, turn);
        self.refuse_initial(index, 487, turn);
        let outcome = Outcome::Failed(Failure::Cancelled);
        self.finish(script, index, outcome, turn);
    }

    /// Answers the INVITE that has no final response for the script.
    pub(super) fn refuse_initial(&mut self, index: u32, status: u16, turn: &Turn<'_>) {
        let name = self.runs.name(index);
        let Some(run) = self.runs.get_mut(index) else {
            return;
        };
        if run.invited.state != ServerState::Proceeding {
            return;
        }
        let connection = run.connection;
        let octets = std::mem::take(&mut run.initial);
        let kept = Received::read(&octets).ok();
        let last = std::mem::take(&mut run.last);
        let kept_last = Received::read(&last).ok();
        let cseq = run.invited.cseq;
        let is_it = |message: &&Received<'_>| {
            message.method() == Some(&Method::Invite) && message.cseq == cseq
        };
        let invite = kept
            .as_ref()
            .filter(is_it)
            .or_else(|| turn.message.filter(is_it))
            .or_else(|| kept_last.as_ref().filter(is_it));
        if let Some(invite) = invite {
            let start = self.outbox.len();
            self.answer(invite, connection, status, name);
            let written = (start, self.outbox.len());
            self.note_refusal(index, status, written, turn.moment.now);
            if let Some(run) = self.runs.get_mut(index)
                && !run.times.answered.is_known()
            {
                run.times.answered = turn.moment.now;
                run.notes.status = status;
            }
        }
        if let Some(run) = self.runs.get_mut(index) {
            run.initial = octets;
            run.last = last;
        }
    }

    /// The engine has refused an INVITE by itself: it says so until the ACK comes, Timers G and H (RFC 3261
    /// section 17.2.1).
    fn note_refusal(&mut self, index: u32, status: u16, written: (usize, usize), now: Time) {
        let timers = self.config.timers;
        let Some(run) = self.runs.get_mut(index) else {
            return;
        };
        let is_unreliable = self
            .connections
            .get(run.connection)
            .is_some_and(|connection| connection.is_unreliable());
        run.invited.state = ServerState::Answered(status);
        run.invited.written = Some(written);
        run.invited.timers.interval = timers.t1;
        if is_unreliable && self.config.is_repeating {
            run.invited.timers.repeat_at = now.after(timers.t1);
        }
        run.invited.timers.give_up_at = now.after(timers.give_up);
    }

    /// Answers a request of a run that no step expects.
    fn answer_unexpected(
        &mut self,
        script: &Script,
        index: u32,
        request: &Received<'_>,
        turn: &Turn<'_>,
    ) {
        let Some(run) = self.runs.get_mut(index) else {
            return;
        };
        let is_lingering = run.state == State::Lingering;
        let is_sending_bye = run.other.is_pending() && run.other.method == Method::Bye;
        let (status, outcome) = match &request.cseq_method {
            Method::Bye if is_lingering || is_sending_bye => (200, None),
            Method::Bye => (200, Some(Failure::HungUp)),
            Method::Options => (200, None),
            Method::Invite => (488, None),
            _ => (405, None),
        };
        let is_strict = script.is_strict() && !is_lingering && request.cseq_method != Method::Bye;
        let outcome = outcome.or(is_strict.then_some(Failure::Unexpected));
        let start = self.outbox.len();
        self.answer_now(index, request, status, turn);
        let written = (start, self.outbox.len());
        if request.cseq_method == Method::Invite {
            self.note_refusal(index, status, written, turn.moment.now);
        } else if let Some(run) = self.runs.get_mut(index) {
            run.asked.state = ServerState::Answered(status);
            run.asked.written = Some(written);
            run.asked.says_more = false;
            if request.cseq_method == Method::Bye && !run.times.bye_answered.is_known() {
                run.times.bye_answered = turn.moment.now;
                run.notes.bye_status = status;
            }
        }
        if let Some(failure) = outcome {
            self.finish(script, index, Outcome::Failed(failure), turn);
        }
    }

    /// The run that is filed under a Call-ID, of those that are looked for.
    pub(super) fn find_in_table(
        &self,
        call_id: &[u8],
        is_it: impl Fn(&Run) -> bool,
    ) -> Option<u32> {
        let hash = self.hash(call_id);
        self.by_call_id.find(hash, |index| {
            self.runs.get(index).is_some_and(|run| {
                run.call_id_hash == hash
                    && run.dialog.get(run.dialog.call_id) == call_id
                    && is_it(run)
            })
        })
    }

    /// Files a run under the hash of its Call-ID.
    pub(super) fn insert_in_table(&mut self, index: u32, hash: u64) {
        self.by_call_id.insert(hash, index);
    }

    /// Takes a run out of the table.
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

/// What a request within a run is.
enum Placement {
    /// It has come before.
    Repeated(Which),
    /// It has come by another way already (RFC 3261 section 8.2.2.2).
    Merged,
    /// It is older than one that has come (section 12.2.2).
    Old,
    New,
}

fn placement(run: &Run, request: &Received<'_>, branch: u64) -> Placement {
    let is_invite = request.cseq_method == Method::Invite;
    if is_invite && run.invited.state != ServerState::Idle && run.invited.cseq == request.cseq {
        if run.invited.branch == branch {
            return Placement::Repeated(Which::Answer);
        }
        return Placement::Merged;
    }
    let is_asked = run.asked.state != ServerState::Idle;
    if !is_invite && is_asked && run.asked.cseq == request.cseq && run.asked.branch == branch {
        return Placement::Repeated(Which::Response);
    }
    if request.cseq < run.dialog.remote_cseq {
        return Placement::Old;
    }
    Placement::New
}

/// Whether an INVITE that comes again says nothing new: it has been accepted, and its 2xx is repeated until the ACK
/// comes anyway (RFC 6026 section 8.7), or the ACK has come (RFC 3261 section 17.2.1), or the call is over, to which no 2xx
/// is to bring anybody back. Of a call that goes on, a 2xx that nothing repeats is for the one who asks once more, or a
/// loss would be for good.
fn is_absorbed(run: &Run) -> bool {
    match run.invited.state {
        ServerState::Acknowledged(_) => true,
        ServerState::Answered(200..300) => {
            run.dialog.is_ended || run.invited.timers.repeat_at.is_known()
        }
        ServerState::Idle | ServerState::Proceeding | ServerState::Answered(_) => false,
    }
}

/// Begins the server transaction of a request.
fn note_request(run: &mut Run, request: &Received<'_>, branch: u64) {
    run.dialog.remote_cseq = request.cseq;
    if request.cseq_method == Method::Invite {
        run.invited.state = ServerState::Proceeding;
        run.invited.cseq = request.cseq;
        run.invited.branch = branch;
        run.invited.written = None;
        run.invited.response.clear();
        run.invited.timers.stop();
    } else {
        run.asked.state = ServerState::Proceeding;
        run.asked.cseq = request.cseq;
        run.asked.branch = branch;
        run.asked.written = None;
        run.asked.response.clear();
    }
}

/// Takes in what a request says of the dialog that it may begin (RFC 3261 section 12.1.1).
fn learn_caller(run: &mut Run, request: &Received<'_>) {
    let dialog = &mut run.dialog;
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
