//! How sessions end: their records, what they owe their peers, and what is left of them.

use sip::Method;

use super::Engine;
use super::recently_ended::{Answered, EndedSession};
use super::session::{Ack, Cancel, ClientState, NOBODY, ServerState, Session, State};
use super::steps::Trigger;
use super::time::{Clock, Time};
use super::transmit_queue::TransmitQueue;
use crate::record::{
    Attempt, CallId, CallRecord, Failure, Outcome, Party, Record, RegistrationRecord, RequestRecord,
};
use crate::script::{Kind, Script, ScriptId};

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
        if session.dialog.is_ended
            && matches!(session.invited.state, ServerState::Answered(200..300))
        {
            session.invited.timers.stop();
        }
        if session.notes.is_in_flight {
            session.notes.is_in_flight = false;
            self.in_flight -= 1;
        }
        let ended = match trigger.message {
            Some(_) => trigger.moment.received,
            None => now,
        };
        self.end_media(index);
        self.write_record(script, index, outcome, ended);
        self.release_user(script, index, outcome, now);
        if outcome == Outcome::Unfinished {
            self.stop_asking(index);
        }
        self.clean_up(script, index, trigger);
    }

    /// What a session that is ended before its time still asks of its peer is not repeated any more, but a BYE or a
    /// CANCEL. The answer to an INVITE is waited for: it has to be acknowledged, and the call to be ended.
    fn stop_asking(&mut self, index: u32) {
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        session.invite.timers.repeat_at = Time::NEVER;
        let ends = matches!(session.other.method, Method::Bye | Method::Cancel);
        if session.other.is_pending() && !ends {
            session.other.timers.stop();
            session.other.state = ClientState::Idle;
            self.buffers.give_back(&mut session.other.message);
        }
    }

    /// Sends what a session owes its peer: a call that is not wanted any more is cancelled, refused or hung up.
    fn clean_up(&mut self, script: &Script, index: u32, trigger: &Trigger<'_>) {
        let now = trigger.moment.now;
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        if session.invited.state == ServerState::Proceeding {
            // A BYE ends what it finds pending (RFC 3261 section 15.1.2).
            let status = if session.dialog.is_ended { 487 } else { 500 };
            self.refuse_initial(index, status, trigger);
            return;
        }
        let has_failed = session.notes.outcome != Some(Outcome::Completed);
        if !has_failed {
            return;
        }
        if session.invite.is_pending() {
            if session.invite.cancel != Cancel::Sent {
                self.cancel(index, now);
            }
            return;
        }
        if !session.dialog.is_confirmed || session.dialog.is_ended {
            return;
        }
        // A BYE has to wait for the ACK (RFC 3261 section 15).
        if matches!(session.invited.state, ServerState::Answered(200..300))
            && session.invited.timers.give_up_at.is_known()
        {
            session.notes.is_bye_wanted = true;
            return;
        }
        if session.party == Party::Caller && matches!(session.ack, Ack::None) {
            self.acknowledge(script, index, now);
        }
        self.hang_up(script, index, now);
    }

    /// After a turn: copies what may have to be sent again, sets the deadline, or frees the place of a session
    /// that is over.
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
        if session.invited.written.is_some() || session.asked.written.is_some() {
            self.keep_written(index);
        }
        if let Some(session) = self.sessions.get(index) {
            self.wheel.set(index, session.next());
        }
    }

    /// Frees the place of a session. What its peer may repeat is remembered.
    pub(super) fn release(&mut self, index: u32, now: Time) {
        let name = self.sessions.name(index);
        let Some(session) = self.sessions.get(index) else {
            return;
        };
        let is_unreliable = self
            .connections
            .get(session.connection)
            .is_some_and(|connection| connection.is_unreliable());
        let (hash, is_in_table) = (session.call_id_hash, session.notes.is_in_table);
        if is_unreliable {
            let expires = now.after(self.config.timers.give_up);
            match (session.party, session.invite.state, &session.ack) {
                (Party::Caller, ClientState::Final(300..), Ack::Octets(ack)) => {
                    let ended = EndedSession::Refused {
                        cseq: session.invite.cseq,
                        ack: ack.clone(),
                    };
                    self.scratch.clear();
                    self.identity.write_call_id(name, &mut self.scratch);
                    let hash = if is_in_table {
                        hash
                    } else {
                        self.hasher.hash_one(&self.scratch[..])
                    };
                    self.recently_ended.insert(now, expires, hash, ended);
                }
                (Party::Callee, ..) => {
                    let dialog = &session.dialog;
                    let caller = dialog.get(dialog.remote_tag);
                    let hash = self.hasher.hash_one((dialog.get(dialog.call_id), caller));
                    let ended = EndedSession::Answered(Answered {
                        response: said(session, &self.transmits),
                        ..answered(session, name)
                    });
                    self.recently_ended.insert(now, expires, hash, ended);
                }
                _ => {}
            }
        }
        if is_in_table {
            self.remove_from_table(index, hash);
        }
        self.unlist(index);
        self.sessions.release(index, &mut self.buffers);
    }

    /// What a user does after one of its sessions.
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

    /// What a registration has given.
    fn note_registration(&mut self, place: u32, index: u32, outcome: Outcome, now: Time) {
        use rand::RngExt;
        let plan = self.config.registration;
        let Some(session) = self.sessions.get(index) else {
            return;
        };
        let notes = session.notes;
        let drawn: f64 = self.rng.random();
        let Some(user) = self.users.get_mut(place) else {
            return;
        };
        if user.registering == index {
            user.registering = NOBODY;
        }
        let mut is_registered = user.is_registered;
        if outcome == Outcome::Completed {
            let expires = notes.expires.unwrap_or(0);
            is_registered = !notes.is_unregistering && expires > 0;
            let lifetime = std::time::Duration::from_secs(expires.into());
            user.expires_at = if is_registered {
                now.after(lifetime)
            } else {
                Time::NEVER
            };
            user.refresh_at = match plan.refresh_after {
                Some(part) if is_registered && user.is_kept_registered => {
                    let spread = 1.0 - plan.spread.clamp(0.0, 1.0) * drawn;
                    now.after(lifetime.mul_f64(part.clamp(0.0, 1.0) * spread))
                }
                _ => Time::NEVER,
            };
        } else if user.is_kept_registered && plan.refresh_after.is_some() {
            user.refresh_at = now.after(plan.retry_after);
        }
        self.users.set_registered(place, is_registered);
        self.users.arm(place);
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

    fn record(&self, script: &Script, index: u32, outcome: Outcome, ended: Time) -> Option<Record> {
        let name = self.sessions.name(index);
        let session = self.sessions.get(index)?;
        if session.party == Party::Callee && !self.config.records_callees {
            return None;
        }
        let call_id = if !session.dialog.call_id.is_empty() {
            CallId::read(session.dialog.get(session.dialog.call_id))
        } else if *script.kind() == Kind::Registration && session.user != NOBODY {
            self.identity.registration_call_id(session.user)
        } else {
            self.identity.call_id(name)
        };
        let record = record(script.kind(), session, call_id, outcome, ended, self.clock);
        Some(record)
    }
}

/// What is left of a session that was begun by a request.
fn answered(session: &Session, name: super::identity::SessionId) -> Answered {
    let is_invited = session.invited.state != ServerState::Idle;
    let status = match session.asked.state {
        ServerState::Answered(status) | ServerState::Acknowledged(status) => status,
        ServerState::Idle | ServerState::Proceeding => 200,
    };
    Answered {
        session: name,
        invite: is_invited.then_some(session.invited.cseq),
        cseq: session.asked.cseq,
        branch: session.asked.branch,
        status,
        response: None,
    }
}

/// The response to a session's last request, where it cannot be made of the request once more.
fn said(session: &Session, transmits: &TransmitQueue) -> Option<Box<[u8]>> {
    let is_answered = matches!(session.asked.state, ServerState::Answered(_));
    if !is_answered || !session.asked.says_more {
        return None;
    }
    let octets = match session.asked.written {
        Some((start, end)) => transmits.written(start..end),
        None => &session.asked.response,
    };
    (!octets.is_empty()).then(|| octets.into())
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
                .map(|seconds| std::time::Duration::from_secs(seconds.into())),
        }),
        Kind::Request(method) => Record::Request(RequestRecord {
            attempt,
            method: method.clone(),
            answered: since(times.answered),
        }),
    }
}

/// The failure of a session whose request has had no final response.
pub(super) fn silence(cancel: Cancel) -> Failure {
    if cancel == Cancel::No {
        Failure::NoResponse
    } else {
        Failure::GivenUp
    }
}
