//! The end of sessions: their records, the BYE or CANCEL that their peers need, and what is kept for retransmissions.

use std::time::Duration;

use rand::RngExt;
use sip::Method;

use super::Engine;
use super::identity::{NOBODY, SessionId};
use super::recently_ended::{Answered, EndedSession};
use super::session::{Ack, Cancel, ClientState, ServerState, Session, State};
use super::time::{Clock, Time};
use super::transmit_queue::TransmitQueue;
use super::trigger::Trigger;
use super::users::Registration;
use crate::record::{
    Attempt, CallId, CallRecord, Failure, Outcome, Party, Record, RegistrationRecord, RequestRecord,
};
use crate::script::{Kind, Script, ScriptId};
use crate::trace::Trace;

/// What is to be written down and nobody takes is bounded: what comes then is not.
pub(super) const MOST_TRACES: usize = 1_000;

impl Engine {
    /// Ends a session: its record is written, and what it owes its peer is sent. It may have to linger for its
    /// transactions.
    pub(super) fn finish(
        &mut self,
        script: &Script,
        index: u32,
        outcome: Outcome,
        trigger: &Trigger<'_>,
    ) {
        let now = trigger.moment.now;
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        if session.state == State::Lingering {
            return;
        }
        session.state = State::Lingering;
        session.wait_until = Time::NEVER;
        session.notes.outcome = Some(outcome);
        // An answer to a call that has been ended is not repeated any more.
        if session.dialog.is_ended && session.invite_server.is_accepted() {
            session.invite_server.timers.stop();
        }
        self.sessions.leave_flight(index);
        let ended = match trigger.message {
            Some(_) => trigger.moment.received,
            None => now,
        };
        self.media.end(index);
        self.write_record(script, index, outcome, ended);
        if let Outcome::Failed(failure) = outcome {
            self.note_failure(script, index, failure, trigger);
            self.abort_others(script, index);
        }
        self.release_user(script, index, outcome, now);
        if outcome == Outcome::Unfinished {
            self.stop_asking(index);
        }
        self.clean_up(script, index, trigger);
    }

    /// Counts at its step that a session has failed, and says why.
    fn note_failure(
        &mut self,
        script: &Script,
        index: u32,
        failure: Failure,
        trigger: &Trigger<'_>,
    ) {
        let Some(session) = self.sessions.get(index) else {
            return;
        };
        let step = session.step;
        match failure {
            Failure::NoResponse | Failure::GivenUp | Failure::NoAck => {
                self.count_step(script, index, step, |count| count.timeouts += 1);
            }
            Failure::Refused
            | Failure::Unexpected
            | Failure::Unauthorized
            | Failure::HungUp
            | Failure::Cancelled => {
                self.count_step(script, index, step, |count| count.unexpected += 1);
            }
            Failure::ConnectionLost | Failure::Check | Failure::Script | Failure::Malformed => {}
        }
        if !self.config.traces || self.traces.len() >= MOST_TRACES {
            return;
        }
        let line = script
            .line_of(step)
            .and_then(|line| script.lines().get(line));
        let call_id = self.call_id(script, index);
        self.traces.extend(call_id.map(|call_id| Trace::Failed {
            call_id,
            script: script.name().to_owned(),
            step: (step.0, line.map(ToString::to_string).unwrap_or_default()),
            failure,
            message: trigger.message.map(|message| message.octets.into()),
        }));
    }

    /// What a session that is ended before its time still asks of its peer is not repeated any more, but a BYE or a
    /// CANCEL. The answer to an INVITE is waited for: it has to be acknowledged, and the call to be ended.
    fn stop_asking(&mut self, index: u32) {
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        session.invite_client.timers.stop_retransmitting();
        let client = &mut session.non_invite_client;
        let ends = matches!(client.request.method, Method::Bye | Method::Cancel);
        if client.is_pending() && !ends {
            client.abandon();
            self.buffers.give_back(&mut client.message);
        }
    }

    /// Cancels, refuses or hangs up a call that its script has given up.
    fn clean_up(&mut self, script: &Script, index: u32, trigger: &Trigger<'_>) {
        let now = trigger.moment.now;
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        if session.invite_server.state == ServerState::Proceeding {
            // A BYE ends what it finds pending (RFC 3261 section 15.1.2).
            let status = if session.dialog.is_ended { 487 } else { 500 };
            self.refuse_initial(index, status, trigger);
            return;
        }
        let has_failed = session.notes.outcome != Some(Outcome::Completed);
        if !has_failed {
            return;
        }
        if session.invite_client.is_pending() {
            if session.invite_client.cancel != Cancel::Sent {
                self.cancel(index, now);
            }
            return;
        }
        if !session.dialog.is_confirmed || session.dialog.is_ended {
            return;
        }
        // A BYE has to wait for the ACK (RFC 3261 section 15).
        if session.invite_server.is_accepted() && session.invite_server.timers.expires() {
            session.notes.is_bye_wanted = true;
            return;
        }
        if session.party == Party::Caller && matches!(session.ack, Ack::None) {
            self.acknowledge(script, index, now);
        }
        self.hang_up(script, index, now);
    }

    /// After an event: copies responses that may be retransmitted and sets the deadline of a session, or frees its place
    /// when it is over.
    pub(super) fn end_turn(&mut self, script: &Script, index: u32, now: Time) {
        let Some(session) = self.sessions.get(index) else {
            return;
        };
        if session.is_held() && !session.notes.is_setup_recorded && *script.kind() == Kind::Call {
            self.record_setup(script, index, now);
            return self.end_turn(script, index, now);
        }
        if session.state == State::Lingering && !session.is_busy() {
            self.release(index, now);
            return;
        }
        if let Some(session) = self.sessions.get_mut(index) {
            session.keep_responses(&self.transmits, &mut self.buffers);
        }
        self.sessions.arm(index);
    }

    /// Frees the place of a session. Its last answer is kept for retransmissions of the peer.
    fn release(&mut self, index: u32, now: Time) {
        let Some(session) = self.sessions.get(index) else {
            return;
        };
        if self.connections.is_unreliable(session.connection)
            && let Some((fingerprint, ended)) = self.remains_of(session, self.sessions.id(index))
        {
            let expires = now.after(self.config.timers.give_up);
            self.recently_ended.insert(now, expires, fingerprint, ended);
        }
        self.sessions.release(index, &mut self.buffers);
    }

    /// The answer that is kept of a session, and its fingerprint.
    fn remains_of(&self, session: &Session, id: SessionId) -> Option<(u64, EndedSession)> {
        if session.party == Party::Callee {
            let dialog = &session.dialog;
            let caller = dialog.get(dialog.remote_tag);
            let call = self.fingerprints.call(dialog.get(dialog.call_id), caller);
            let answered = answered(session, id, &self.transmits);
            return Some((call, EndedSession::Answered(answered)));
        }
        let (ClientState::Final(300..), Ack::Octets(ack)) =
            (session.invite_client.state, &session.ack)
        else {
            return None;
        };
        let call_id = if session.notes.is_filed {
            session.call_id_fingerprint
        } else {
            let mut call_id = Vec::new();
            self.identity.write_call_id(id, &mut call_id);
            self.fingerprints.text(&call_id)
        };
        let refused = EndedSession::Refused {
            cseq: session.invite_client.request.cseq,
            ack: ack.clone(),
        };
        Some((call_id, refused))
    }

    /// Updates the user of a session that has ended.
    fn release_user(&mut self, script: &Script, index: u32, outcome: Outcome, now: Time) {
        let Some(session) = self.sessions.get(index) else {
            return;
        };
        let (place, notes) = (session.user, session.notes);
        if session.party == Party::Callee || place == NOBODY {
            return;
        }
        if *script.kind() == Kind::Registration {
            self.note_registration(place, index, outcome, now);
        }
        if notes.is_repeating {
            self.come_back(place, outcome == Outcome::Completed, now);
        }
    }

    /// Updates the registration of a user.
    fn note_registration(&mut self, place: u32, index: u32, outcome: Outcome, now: Time) {
        let Some(session) = self.sessions.get(index) else {
            return;
        };
        let expires = session.notes.expires.unwrap_or(0);
        let registration = match outcome {
            Outcome::Completed if session.notes.is_unregistering || expires == 0 => {
                Registration::Removed
            }
            Outcome::Completed => Registration::Granted(Duration::from_secs(expires.into())),
            Outcome::Failed(_) | Outcome::Unfinished => Registration::Failed,
        };
        let plan = (&self.config.registration, self.rng.random());
        self.users
            .end_registration(place, index, registration, now, plan);
    }

    /// Writes the record of a call that has been set up and is held.
    fn record_setup(&mut self, script: &Script, index: u32, now: Time) {
        if let Some(Record::Call(record)) = self.record(script, index, Outcome::Unfinished, now) {
            self.records.push_back(Record::Established(record));
        }
        if let Some(session) = self.sessions.get_mut(index) {
            session.notes.is_setup_recorded = true;
        }
    }

    fn write_record(&mut self, script: &Script, index: u32, outcome: Outcome, ended: Time) {
        if let Some(record) = self.record(script, index, outcome, ended) {
            self.records.push_back(record);
        }
    }

    pub(super) fn call_id(&self, script: &Script, index: u32) -> Option<CallId> {
        let session = self.sessions.get(index)?;
        Some(if !session.dialog.call_id.is_empty() {
            CallId::read(session.dialog.get(session.dialog.call_id))
        } else if *script.kind() == Kind::Registration && session.user != NOBODY {
            self.identity.registration_call_id(session.user)
        } else {
            self.identity.call_id(self.sessions.id(index))
        })
    }

    fn record(&self, script: &Script, index: u32, outcome: Outcome, ended: Time) -> Option<Record> {
        let session = self.sessions.get(index)?;
        if session.party == Party::Callee && !self.config.records_callees {
            return None;
        }
        let call_id = self.call_id(script, index)?;
        let record = record(script.kind(), session, call_id, outcome, ended, self.clock);
        Some(record)
    }
}

/// How the last request of a session that a peer has begun was answered.
fn answered(session: &Session, id: SessionId, transmits: &TransmitQueue) -> Answered {
    let (invite, last) = (&session.invite_server, &session.non_invite_server);
    let status = match last.state {
        ServerState::Answered(status) | ServerState::Acknowledged(status) => status,
        ServerState::Idle | ServerState::Proceeding => 200,
    };
    // Others can be made of the request once more.
    let response = match last.state {
        ServerState::Answered(_) if last.says_more => last.last_response(transmits),
        _ => &[],
    };
    Answered {
        session: id,
        invite: (invite.state != ServerState::Idle).then_some(invite.cseq),
        cseq: last.cseq,
        branch: last.branch,
        status,
        response: (!response.is_empty()).then(|| response.into()),
    }
}

fn record(
    kind: &Kind,
    session: &Session,
    call_id: CallId,
    outcome: Outcome,
    ended: Time,
    clock: Clock,
) -> Record {
    let times = &session.times;
    let begun = times.begun;
    let since = |time: Time| time.known_since(begun);
    let timers = session.extra.as_deref().map(|extra| {
        let taken = extra
            .timers
            .iter()
            .map(|(started, stopped)| stopped.known_since(*started));
        taken.collect()
    });
    let instant = |time: Time| clock.instant(time).unwrap_or(clock.origin());
    let attempt = Attempt {
        script: ScriptId(session.script),
        party: session.party,
        user: session.user_number,
        peer: session.peer_number,
        call_id,
        due: instant(times.due),
        begun: instant(begun),
        ended: ended.since(begun),
        outcome,
        status: (session.notes.status != 0).then_some(session.notes.status),
        retransmissions: session.notes.retransmissions,
        authentications: session.notes.authentications,
        timers: timers.unwrap_or_default(),
    };
    match kind {
        Kind::Call => Record::Call(CallRecord {
            attempt,
            first_invited: since(times.first_invited).unwrap_or_default(),
            invited: since(times.invited).unwrap_or_default(),
            reached: since(times.reached),
            first_provisional: since(times.first_provisional),
            progress: since(times.progress),
            answered: since(times.answered),
            acknowledged: since(times.acknowledged),
            bye: since(times.bye),
            is_bye_from_peer: session.notes.is_bye_from_peer,
            bye_answered: since(times.bye_answered),
            bye_status: (session.notes.bye_status != 0).then_some(session.notes.bye_status),
            is_setup_recorded: session.notes.is_setup_recorded,
        }),
        Kind::Registration => Record::Registration(RegistrationRecord {
            attempt,
            is_refresh: session.notes.is_refresh,
            answered: since(times.answered),
            expires: session
                .notes
                .expires
                .filter(|_| outcome == Outcome::Completed)
                .map(|seconds| Duration::from_secs(seconds.into())),
        }),
        Kind::Request(method) => Record::Request(RequestRecord {
            attempt,
            method: method.clone(),
            answered: since(times.answered),
        }),
    }
}
