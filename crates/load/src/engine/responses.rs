//! Responses: to which request of which session they belong, and what follows from them.

use sip::{Method, Name, ScannedField, Uri};

use super::Engine;
use super::config::ConnectionId;
use super::identity::Owner;
use super::received::{Received, address_uri, parameter, seconds};
use super::recently_ended::EndedSession;
use super::render::write_contact;
use super::session::{Cancel, Client, ClientState, NOBODY, Session, State};
use super::steps::Trigger;
use super::time::{Moment, Time};
use crate::record::{Failure, Outcome, Party};
use crate::script::{Kind, Script, Step};

/// How often a request is repeated with credentials, or with a longer time, at most.
const MAXIMUM_ATTEMPTS: u8 = 4;

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
        let branch = Some(self.hash(branch));
        let is_invite = response.cseq_method == Method::Invite;
        let has_asked = |session: &Session| {
            let client = if is_invite {
                &session.invite
            } else {
                &session.other
            };
            client.own_branch == branch && client.method == response.cseq_method
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
            .or_else(|| self.find_in_table(response.call_id, has_asked))
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
            let hash = self.hash(response.call_id);
            if let Some(EndedSession::Refused { cseq, ack }) =
                self.recently_ended.get(moment.now, hash)
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
        let name = self.sessions.name(index);
        let Some(session) = self.sessions.get(index) else {
            return;
        };
        let client = if is_invite {
            &session.invite
        } else {
            &session.other
        };
        let is_its_branch = match client.own_branch {
            None => transaction == Some((name, client.branch)),
            own_branch => own_branch == Some(self.hash(response.branch())),
        };
        let is_its = is_its_branch
            && client.state != ClientState::Idle
            && client.cseq == response.cseq
            && client.method == response.cseq_method;
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
                    && is_fork(session, response)
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
        if is_invite {
            let is_cancelled = session.invite.cancel == Cancel::Sent;
            let is_first = session.invite.state == ClientState::Calling;
            session.invite.state = ClientState::Proceeding;
            session.invite.timers.repeat_at = Time::NEVER;
            if !is_cancelled && (is_first || status > 100) {
                // Timer B is that of the state Calling alone (section 17.1.1.2). What follows is as with
                // Timer C, which 100 does not set again (section 16.7 step 2).
                session.invite.timers.give_up_at = trigger.moment.now.after(timers.proceeding);
            }
            let received = trigger.moment.received;
            if !session.times.answered.is_known() {
                if !session.times.first_provisional.is_known() {
                    session.times.first_provisional = received;
                }
                if status > 100 && !session.times.progress.is_known() {
                    session.times.progress = received;
                }
            }
            if session.invite.cancel == Cancel::Wanted {
                self.cancel(index, trigger.moment.now);
            }
        } else {
            let client = &mut session.other;
            client.state = ClientState::Proceeding;
            // From now on at intervals of T2 (section 17.1.2.2).
            client.timers.interval = timers.t2;
        }
        if status > 100
            && script.learns_early()
            && let Some(response) = trigger.message
        {
            self.learn_dialog(index, response);
        }
        self.offer(script, index, trigger);
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
        let client = if is_invite {
            &mut session.invite
        } else {
            &mut session.other
        };
        client.state = ClientState::Final(status);
        client.timers.stop();
        let method = client.method.clone();
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
        self.note_final(script, index, response, status, is_invite, &method, trigger);
        if is_invite && status < 300 && !self.begin_dialog(index, response) {
            let outcome = Outcome::Failed(Failure::Malformed);
            self.finish(script, index, outcome, trigger);
            return;
        }
        if is_invite && status < 300 {
            self.describe_media(index, response.body);
            self.media_answered(index);
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
    #[allow(clippy::too_many_arguments, reason = "each says another thing")]
    fn note_final(
        &mut self,
        script: &Script,
        index: u32,
        response: &Received<'_>,
        status: u16,
        is_invite: bool,
        method: &Method,
        trigger: &Trigger<'_>,
    ) {
        let received = trigger.moment.received;
        let plan = self.config.registration;
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        if *method == Method::Bye {
            if !session.times.bye_answered.is_known() {
                session.times.bye_answered = received;
                session.notes.bye_status = status;
            }
            return;
        }
        // The record of a call tells of its INVITE, other records of their only request.
        let is_told = is_invite || *script.kind() != Kind::Call;
        if is_told && !session.times.answered.is_known() {
            session.times.answered = received;
            session.notes.status = status;
        }
        if *method == Method::Register && status < 300 {
            self.scratch.clear();
            if let Some(connection) = self.connections.get(session.connection) {
                let directory = &self.config.directory;
                write_contact(
                    directory,
                    session.user_number,
                    connection,
                    &mut self.scratch,
                );
            }
            let granted = granted(response, &self.scratch);
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
        let client = if is_invite {
            &mut session.invite
        } else {
            &mut session.other
        };
        let Some(Step::Send(send)) = script.step(client.step) else {
            return false;
        };
        let Some(method) = send.template.method() else {
            return false;
        };
        if client.attempts >= MAXIMUM_ATTEMPTS || client.cancel != Cancel::No {
            return false;
        }
        let number = client.step;
        match status {
            401 | 407 if response.is_challenge && send.template.authorizes() => {
                let Some((username, password)) = self.config.directory.login(session.user_number)
                else {
                    return false;
                };
                let Some(user) = self.users.get_mut(session.user) else {
                    return false;
                };
                let known = &mut user.challenges;
                let understood =
                    super::authentication::learn(known, response, &username, &password);
                if !may_answer(client, &understood) {
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

    /// Takes in the peer's tag and Contact and the route set, reversed (section 12.1.2). The answer to an
    /// INVITE within the dialog changes the Contact alone, a 2xx only (section 12.2.1.2).
    fn learn_dialog(&mut self, index: u32, response: &Received<'_>) {
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        let is_within = session.dialog.is_confirmed
            && Received::read(&session.invite.message)
                .is_ok_and(|invite| invite.tag_of_to().is_some());
        if is_within {
            let is_success = matches!(response.status(), Some(200..300));
            if let (true, Some(contact)) = (is_success, response.contact_uri()) {
                session.dialog.replace_target(contact);
            }
            return;
        }
        if session.party == Party::Callee {
            return;
        }
        let dialog = &mut session.dialog;
        dialog.forget_peer();
        dialog.remote_tag = dialog.push(response.tag_of_to().unwrap_or_default());
        if let Some(contact) = response.contact_uri() {
            dialog.target = dialog.push(contact);
        }
        if response.record_routes.is_empty() {
            return;
        }
        dialog.routes = dialog.push_with(|out| write_route_set(response, out));
        dialog.is_strict = is_strict(dialog.get(dialog.routes));
    }

    /// A call that the script has given up is answered all the same: it is acknowledged and ended.
    fn end_late_call(&mut self, script: &Script, index: u32, response: &Received<'_>, now: Time) {
        if self.begin_dialog(index, response) {
            self.acknowledge(script, index, now);
            self.hang_up(script, index, now);
        }
    }
}

/// Whether challenges are to be answered: not where one comes again though it has been answered in this
/// transaction, since the password is wrong then (RFC 3261 section 22.1).
fn may_answer(client: &mut Client, understood: &[super::authentication::Understood]) -> bool {
    if understood.is_empty() {
        return false;
    }
    for challenge in understood {
        if client.realms.contains(&challenge.realm) {
            if !challenge.is_stale {
                return false;
            }
            continue;
        }
        if let Some(place) = client.realms.iter_mut().find(|realm| **realm == 0) {
            *place = challenge.realm;
        }
    }
    true
}

/// Whether a 2xx to an INVITE that begins a dialog comes from another callee than the first one did.
fn is_fork(session: &Session, response: &Received<'_>) -> bool {
    let own = session.dialog.get(session.dialog.remote_tag);
    let is_another = response
        .tag_of_to()
        .is_some_and(|tag| !own.is_empty() && tag != own);
    is_another
        && Received::read(&session.invite.message).is_ok_and(|invite| invite.tag_of_to().is_none())
}

/// Writes the route set that a response gives its caller (RFC 3261 section 12.1.2).
pub(super) fn write_route_set(response: &Received<'_>, out: &mut Vec<u8>) {
    let mut routes: Vec<&[u8]> = Vec::new();
    response.each_field(Name::RecordRoute, &response.record_routes, |value| {
        routes.extend(list(value));
    });
    for route in routes.iter().rev() {
        write_route(route, out);
    }
}

/// Whether the first of some lines of Route is a strict router, which has no parameter lr (RFC 3261 section
/// 12.2.1.1).
pub(super) fn is_strict(routes: &[u8]) -> bool {
    let first = routes.split(|octet| *octet == b'\r').next();
    let Some(uri) = first.and_then(address_uri) else {
        return false;
    };
    let mut parameters = uri.split(|octet| matches!(octet, b';' | b'?')).skip(1);
    !parameters.any(|parameter| {
        let name = parameter.split(|octet| *octet == b'=').next();
        name.is_some_and(|name| name.eq_ignore_ascii_case(b"lr"))
    })
}

/// For how many seconds a registrar holds our binding: the 200 lists all of them (RFC 3261 section 10.2.4). An only
/// one is ours, however the registrar writes it.
fn granted(response: &Received<'_>, own: &[u8]) -> Option<u32> {
    let mut count = 0;
    let (mut ours, mut last) = (None, None);
    response.each_named("Contact", |field| {
        for value in list(field) {
            count += 1;
            last = Some(value);
            if address_uri(value).is_some_and(|uri| is_same_address(uri, own)) {
                ours = Some(value);
            }
        }
    });
    ours.or(last.filter(|_| count == 1))
        .and_then(|binding| parameter(binding, b"expires"))
        .and_then(seconds)
        .or_else(|| response.expires.and_then(seconds))
}

/// Whether two addresses are one (section 19.1.4).
fn is_same_address(one: &[u8], other: &[u8]) -> bool {
    let uri = |text| Uri::parse(std::str::from_utf8(text).ok()?).ok();
    one == other
        || uri(one)
            .zip(uri(other))
            .is_some_and(|(one, other)| one.is_equivalent(&other))
}

/// The values of a list.
pub(super) fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    ScannedField {
        name_text: b"",
        value,
    }
    .values()
}

/// Writes a line of the route set.
pub(super) fn write_route(route: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"Route: ");
    out.extend_from_slice(route);
    out.extend_from_slice(b"\r\n");
}
