//! Incoming responses: the request of a session that each answers, and its treatment.

use sip::{Method, NameAddr, Uri, list_values};

use super::Engine;
use super::authentication;
use super::config::ConnectionId;
use super::identity::{NOBODY, Owner};
use super::received::{Received, address_uri, seconds};
use super::recently_ended::EndedSession;
use super::session::{Cancel, ClientState, Session, State};
use super::time::{Moment, Time};
use super::trigger::Trigger;
use super::writing::write_contact;
use crate::record::{Failure, Outcome, Party};
use crate::script::{Kind, Script, Step};

impl Engine {
    pub(super) fn handle_response(
        &mut self,
        moment: Moment,
        response: &Received<'_>,
        status: u16,
        connection: ConnectionId,
    ) {
        if status < 200 {
            self.counters.provisional_responses += 1;
        } else if let Some(count) = self
            .counters
            .final_responses
            .get_mut(usize::from(status / 100).saturating_sub(2))
        {
            *count += 1;
        }
        let Some(index) = self.session_of_response(response) else {
            self.handle_late_response(moment, response, status, connection);
            return;
        };
        let Some(script) = self.script_of(index) else {
            return;
        };
        let trigger = Trigger {
            moment,
            message: Some(response),
            connection: Some(connection),
        };
        self.handle_response_of(&script, index, response, status, &trigger);
        self.end_turn(&script, index, moment.now);
    }

    /// The session whose request this answers, by the branch and the method in CSeq (RFC 3261 section 17.1.3). A branch of
    /// ours names the session. Where the script has written one, the sessions that its tag or Call-ID leads to are asked.
    fn session_of_response(&self, response: &Received<'_>) -> Option<u32> {
        let branch = response.branch();
        if let Some((name, _)) = self.identity.transaction(branch) {
            return self.sessions.find(name);
        }
        let branch = Some(self.fingerprints.text(branch));
        let is_invite = response.cseq_method == Method::Invite;
        let has_asked = |session: &Session| {
            let request = &session.client(is_invite).request;
            request.own_branch == branch && request.method == response.cseq_method
        };
        let is_it = |index: &u32| self.sessions.get(*index).is_some_and(has_asked);
        let tag = response.tag_of_from().unwrap_or_default();
        let by_tag = self.identity.tagged(tag);
        let by_call_id = || match self.identity.owner(response.call_id) {
            Some(Owner::Session(name)) => self.sessions.find(name),
            Some(Owner::User(user)) => self
                .users
                .get(user)
                .map(|user| user.registering)
                .filter(|session| *session != NOBODY),
            None => None,
        };
        by_tag
            .and_then(|name| self.sessions.find(name))
            .filter(is_it)
            .or_else(|| by_call_id().filter(is_it))
            .or_else(|| self.find_filed(response.call_id, has_asked))
    }

    /// A response to a session that is over, or to none.
    fn handle_late_response(
        &mut self,
        moment: Moment,
        response: &Received<'_>,
        status: u16,
        connection: ConnectionId,
    ) {
        let is_invite = response.cseq_method == Method::Invite;
        if is_invite && status >= 300 {
            let call_id = self.fingerprints.text(response.call_id);
            if let Some(EndedSession::Refused { cseq, ack }) =
                self.recently_ended.get(moment.now, call_id)
                && *cseq == response.cseq
            {
                let start = self.transmits.len();
                self.transmits.buffer().extend_from_slice(ack);
                self.counters.repeated += 1;
                self.counters.retransmissions += 1;
                self.send_written(start, connection);
                return;
            }
        }
        self.counters.stray_responses += 1;
    }

    fn handle_response_of(
        &mut self,
        script: &Script,
        index: u32,
        response: &Received<'_>,
        status: u16,
        trigger: &Trigger<'_>,
    ) {
        let is_invite = response.cseq_method == Method::Invite;
        let transaction = self.identity.transaction(response.branch());
        let id = self.sessions.id(index);
        let Some(session) = self.sessions.get(index) else {
            return;
        };
        let client = session.client(is_invite);
        let is_its_branch = match client.request.own_branch {
            None => transaction == Some((id, client.request.branch)),
            Some(own_branch) => own_branch == self.fingerprints.text(response.branch()),
        };
        let is_its = is_its_branch
            && client.state != ClientState::Idle
            && client.request.cseq == response.cseq
            && client.request.method == response.cseq_method;
        if !is_its {
            self.counters.stray_responses += 1;
            return;
        }
        match client.state {
            ClientState::Final(before) => {
                self.counters.repeated += 1;
                let is_same_class = (before < 300) == (status < 300);
                if is_invite
                    && before < 300
                    && (200..300).contains(&status)
                    && session.is_fork(response)
                {
                    self.counters.forked_answers += 1;
                    self.end_fork(script, index, response, trigger.moment.now);
                } else if is_invite && status >= 200 && is_same_class {
                    self.repeat_ack(script, index, trigger.moment.now);
                }
            }
            _ if status < 200 => self.handle_provisional(script, index, status, is_invite, trigger),
            _ => self.handle_final(script, index, response, status, is_invite, trigger),
        }
    }

    fn handle_provisional(
        &mut self,
        script: &Script,
        index: u32,
        status: u16,
        is_invite: bool,
        trigger: &Trigger<'_>,
    ) {
        let timers = self.config.timers;
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        let Moment { now, received } = trigger.moment;
        let client = session.client_mut(is_invite);
        let is_judged = client.proceed(now, status, &timers) && client.cancel == Cancel::No;
        if is_invite && !session.times.answered.is_known() {
            session.times.first_provisional.set_once(received);
            if status > 100 {
                session.times.progress.set_once(received);
            }
        }
        if is_invite && session.invite_client.cancel == Cancel::Wanted {
            self.cancel(index, now);
        }
        if status > 100
            && script.learns_early()
            && let Some(response) = trigger.message
        {
            self.learn_dialog(index, response);
        }
        let is_over = self
            .sessions
            .get(index)
            .is_none_or(|session| session.state == State::Lingering);
        if !is_over
            && !self.offer(script, index, trigger)
            && is_judged
            && script.has_to_expect(status)
        {
            let outcome = Outcome::Failed(Failure::Unexpected);
            self.finish(script, index, outcome, trigger);
        }
    }

    fn handle_final(
        &mut self,
        script: &Script,
        index: u32,
        response: &Received<'_>,
        status: u16,
        is_invite: bool,
        trigger: &Trigger<'_>,
    ) {
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        let client = session.client_mut(is_invite);
        client.complete(status);
        let method = client.request.method.clone();
        if !is_invite {
            self.buffers.give_back(&mut client.message);
        }
        let is_lingering = session.state == State::Lingering;
        let is_expected = !is_lingering && self.is_expected(script, index, response);
        if is_invite && status >= 300 {
            if is_expected && script.acknowledges_failures() {
                // The To of the script's ACK is that of the response (RFC 3261 section 17.1.1.3).
                self.learn_dialog(index, response);
            } else {
                self.acknowledge_refusal(index, response);
            }
        }
        if is_lingering {
            if is_invite && status < 300 {
                self.end_late_call(script, index, response, trigger.moment.now);
            }
            return;
        }
        if method == Method::Cancel && !is_expected {
            return;
        }
        if !is_expected && self.tries_again(script, index, response, status, is_invite, trigger) {
            return;
        }
        self.note_final(script, index, response, status, is_invite, trigger);
        // SIPp does without a tag, as RFC 2543 had it.
        let has_dialog = !(is_invite && status < 300)
            || self.begin_dialog(index, response)
            || script.is_strict();
        if !has_dialog {
            let outcome = Outcome::Failed(Failure::Malformed);
            self.finish(script, index, outcome, trigger);
            return;
        }
        if is_invite && status < 300 {
            self.media.describe(index, response.body);
            self.media.answered(index);
        }
        if is_expected && self.offer(script, index, trigger) {
            return;
        }
        let failure = match status {
            401 | 407 => Failure::Unauthorized,
            200..300 => Failure::Unexpected,
            _ => Failure::Refused,
        };
        self.finish(script, index, Outcome::Failed(failure), trigger);
    }

    /// Notes the times and the status of a final response.
    fn note_final(
        &mut self,
        script: &Script,
        index: u32,
        response: &Received<'_>,
        status: u16,
        is_invite: bool,
        trigger: &Trigger<'_>,
    ) {
        let received = trigger.moment.received;
        let plan = self.config.registration;
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        let method = &session.client(is_invite).request.method;
        let is_register = *method == Method::Register;
        if *method == Method::Bye {
            if session.times.bye_answered.set_once(received) {
                session.notes.bye_status = status;
            }
            return;
        }
        // The record of a call is about its INVITE, other records are about their only request.
        let is_recorded = is_invite || *script.kind() != Kind::Call;
        if is_recorded && session.times.answered.set_once(received) {
            session.notes.status = status;
        }
        if is_register && status < 300 {
            let mut contact = Vec::new();
            if let Some(connection) = self.connections.get(session.connection) {
                let directory = &self.config.directory;
                write_contact(directory, session.user_number, connection, &mut contact);
            }
            let granted = granted(response, &contact);
            if !session.notes.is_unregistering && names_others(response, &contact) {
                self.counters.other_bindings += 1;
            }
            let asked = u32::try_from(plan.expires.as_secs()).unwrap_or(u32::MAX);
            session.notes.expires = Some(granted.unwrap_or(asked));
        }
    }

    /// Sends a request again with what its response has asked for, or to where it should go instead. Returns
    /// whether it does.
    fn tries_again(
        &mut self,
        script: &Script,
        index: u32,
        response: &Received<'_>,
        status: u16,
        is_invite: bool,
        trigger: &Trigger<'_>,
    ) -> bool {
        self.complies(script, index, response, status, is_invite, trigger)
            || status == 503 && self.fail_over(script, index, is_invite, trigger)
            || status >= 300 && self.redirect(script, index, is_invite, Some(response), trigger)
    }

    /// Sends a request again with what its response has asked for: credentials (RFC 3261 section 22.2), or
    /// a longer time for a binding (section 10.2.8). Returns whether it does.
    fn complies(
        &mut self,
        script: &Script,
        index: u32,
        response: &Received<'_>,
        status: u16,
        is_invite: bool,
        trigger: &Trigger<'_>,
    ) -> bool {
        let Some(session) = self.sessions.get_mut(index) else {
            return false;
        };
        let client = session.client_mut(is_invite);
        let number = client.request.step;
        let Some(Step::Send(send)) = script.step(number) else {
            return false;
        };
        let Some(method) = send.template.method() else {
            return false;
        };
        if !client.may_be_repeated() {
            return false;
        }
        match status {
            401 | 407 if response.is_challenge && send.template.authorizes() => {
                let login = self.config.directory.login(session.user_number);
                let user = self.users.get_mut(session.user);
                let (Some((username, password)), Some(user)) = (login, user) else {
                    return false;
                };
                let known = &mut user.challenges;
                let understood = authentication::learn(known, response, &username, &password);
                let client = session.client_mut(is_invite);
                if !client.may_answer(&understood) {
                    return false;
                }
                client.attempts += 1;
                session.notes.authentications = session.notes.authentications.saturating_add(1);
            }
            423 if *method == Method::Register => {
                let Some(least) = response.min_expires.and_then(seconds) else {
                    return false;
                };
                client.attempts += 1;
                session.notes.expires = Some(least);
            }
            _ => return false,
        }
        self.send_instead(script, index, (number, send), trigger, true);
        true
    }

    /// Takes in what a 2xx to an INVITE says of the dialog (RFC 3261 section 12.1.2). Returns whether it has
    /// what it needs.
    fn begin_dialog(&mut self, index: u32, response: &Received<'_>) -> bool {
        self.learn_dialog(index, response);
        let Some(session) = self.sessions.get_mut(index) else {
            return false;
        };
        session.dialog.is_confirmed = true;
        !session.dialog.remote_tag.is_empty()
    }

    /// Takes in what a response says of the dialog. The answer to an INVITE within the dialog changes the Contact alone, a
    /// 2xx only (section 12.2.1.2).
    fn learn_dialog(&mut self, index: u32, response: &Received<'_>) {
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        if session.dialog.is_confirmed && session.has_reinvited() {
            let is_success = matches!(response.status(), Some(200..300));
            if let (true, Some(contact)) = (is_success, response.contact_uri()) {
                session.dialog.replace_target(contact);
            }
        } else if session.party == Party::Caller {
            session.dialog.learn_callee(response);
        }
    }

    /// A call that the script has given up is answered all the same: it is acknowledged and ended.
    fn end_late_call(&mut self, script: &Script, index: u32, response: &Received<'_>, now: Time) {
        if self.begin_dialog(index, response) {
            self.acknowledge(script, index, now);
            self.hang_up(script, index, now);
        }
    }
}

/// For how many seconds a registrar holds our binding: the 200 lists all of them (RFC 3261 section 10.2.4). An only
/// one is ours, however the registrar writes it.
fn granted(response: &Received<'_>, own: &[u8]) -> Option<u32> {
    let mut count = 0;
    let (mut ours, mut last) = (None, None);
    response.each_named("Contact", |field| {
        for value in list_values(field) {
            count += 1;
            last = Some(value);
            if address_uri(value).is_some_and(|uri| is_same_address(uri, own)) {
                ours = Some(value);
            }
        }
    });
    ours.or(last.filter(|_| count == 1))
        .and_then(|binding| NameAddr::parse(binding).ok()?.expires())
        .or_else(|| response.expires.and_then(seconds))
}

/// Whether a response to a REGISTER names other contacts than our own (section 10.3 step 8).
fn names_others(response: &Received<'_>, own: &[u8]) -> bool {
    let mut has_others = false;
    response.each_named("Contact", |field| {
        has_others |= list_values(field)
            .filter_map(address_uri)
            .any(|uri| !is_same_address(uri, own));
    });
    has_others
}

/// Whether two addresses are one (section 19.1.4).
fn is_same_address(one: &[u8], other: &[u8]) -> bool {
    let uri = |text| Uri::parse(std::str::from_utf8(text).ok()?).ok();
    one == other
        || uri(one)
            .zip(uri(other))
            .is_some_and(|(one, other)| one.is_equivalent(&other))
}
