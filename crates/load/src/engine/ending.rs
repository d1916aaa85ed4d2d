//! How runs end: their records, what they owe their peers, and what is left of them.

use sip::Method;

use super::Engine;
use super::outbox::Outbox;
use super::remnants::{Answered, Remnant};
use super::run::{Ack, Cancel, ClientState, NOBODY, Run, ServerState, State};
use super::steps::Turn;
use super::time::{Clock, Time};
use crate::record::{
    Attempt, CallId, CallRecord, Failure, Outcome, Record, RegistrationRecord, RequestRecord, Side,
};
use crate::script::{Kind, Script, ScriptId};

impl Engine {
    /// Ends a run: its record is written, and what it owes its peer is sent. It may have to linger for its
    /// transactions.
    pub(super) fn finish(
        &mut self,
        script: &Script,
        index: u32,
        outcome: Outcome,
        turn: &Turn<'_>,
    ) {
        let now = turn.moment.now;
        let Some(run) = self.runs.get_mut(index) else {
            return;
        };
        if run.state == State::Lingering {
            return;
        }
        run.state = State::Lingering;
        run.wait_until = Time::NEVER;
        run.notes.outcome = Some(outcome);
        // An answer to a call that has been ended is not repeated any more.
        if run.dialog.is_ended && matches!(run.invited.state, ServerState::Answered(200..300)) {
            run.invited.timers.stop();
        }
        if run.notes.is_in_flight {
            run.notes.is_in_flight = false;
            self.in_flight -= 1;
        }
        let ended = match turn.message {
            Some(_) => turn.moment.received,
            None => now,
        };
        self.end_media(index);
        self.write_record(script, index, outcome, ended);
        self.release_user(script, index, outcome, now);
        if outcome == Outcome::Unfinished {
            self.stop_asking(index);
        }
        self.clean_up(script, index, turn);
    }

    /// What a run that is ended before its time still asks of its peer is not repeated any more, but a BYE or a
    /// CANCEL. The answer to an INVITE is waited for: it has to be acknowledged, and the call to be ended.
    fn stop_asking(&mut self, index: u32) {
        let Some(run) = self.runs.get_mut(index) else {
            return;
        };
        run.invite.timers.repeat_at = Time::NEVER;
        let ends = matches!(run.other.method, Method::Bye | Method::Cancel);
        if run.other.is_pending() && !ends {
            run.other.timers.stop();
            run.other.state = ClientState::Idle;
            self.buffers.give_back(&mut run.other.message);
        }
    }

    /// Sends what a run owes its peer: a call that is not wanted any more is cancelled, refused or hung up.
    fn clean_up(&mut self, script: &Script, index: u32, turn: &Turn<'_>) {
        let now = turn.moment.now;
        let Some(run) = self.runs.get_mut(index) else {
            return;
        };
        if run.invited.state == ServerState::Proceeding {
            // A BYE ends what it finds pending (RFC 3261 section 15.1.2).
            let status = if run.dialog.is_ended { 487 } else { 500 };
            self.refuse_initial(index, status, turn);
            return;
        }
        let has_failed = run.notes.outcome != Some(Outcome::Completed);
        if !has_failed {
            return;
        }
        if run.invite.is_pending() {
            if run.invite.cancel != Cancel::Sent {
                self.cancel(index, now);
            }
            return;
        }
        if !run.dialog.is_confirmed || run.dialog.is_ended {
            return;
        }
        // A BYE has to wait for the ACK (RFC 3261 section 15).
        if matches!(run.invited.state, ServerState::Answered(200..300))
            && run.invited.timers.give_up_at.is_known()
        {
            run.notes.is_bye_wanted = true;
            return;
        }
        if run.side == Side::Caller && matches!(run.ack, Ack::None) {
            self.acknowledge(script, index, now);
        }
        self.hang_up(script, index, now);
    }

    /// After a turn: copies what may have to be sent again, sets the deadline, or frees the place of a run
    /// that is over.
    pub(super) fn settle(&mut self, script: &Script, index: u32, now: Time) {
        let Some(run) = self.runs.get(index) else {
            return;
        };
        if run.is_held() && !run.notes.is_setup_recorded && *script.kind() == Kind::Call {
            self.record_setup(script, index, now);
            return self.settle(script, index, now);
        }
        if run.state == State::Lingering && !run.is_busy() {
            self.release(index, now);
            return;
        }
        if run.invited.written.is_some() || run.asked.written.is_some() {
            self.keep_written(index);
        }
        if let Some(run) = self.runs.get(index) {
            self.wheel.set(index, run.next());
        }
    }

    /// Frees the place of a run. What its peer may repeat is remembered.
    pub(super) fn release(&mut self, index: u32, now: Time) {
        let name = self.runs.name(index);
        let Some(run) = self.runs.get(index) else {
            return;
        };
        let is_unreliable = self
            .connections
            .get(run.connection)
            .is_some_and(|connection| connection.is_unreliable());
        let (hash, is_in_table) = (run.call_id_hash, run.notes.is_in_table);
        if is_unreliable {
            let expires = now.after(self.config.timers.give_up);
            match (run.side, run.invite.state, &run.ack) {
                (Side::Caller, ClientState::Final(300..), Ack::Octets(ack)) => {
                    let remnant = Remnant::Refused {
                        cseq: run.invite.cseq,
                        ack: ack.clone(),
                    };
                    self.scratch.clear();
                    self.identity.write_call_id(name, &mut self.scratch);
                    let hash = if is_in_table {
                        hash
                    } else {
                        self.hasher.hash_one(&self.scratch[..])
                    };
                    self.remnants.insert(now, expires, hash, remnant);
                }
                (Side::Callee, ..) => {
                    let dialog = &run.dialog;
                    let caller = dialog.get(dialog.remote_tag);
                    let hash = self.hasher.hash_one((dialog.get(dialog.call_id), caller));
                    let remnant = Remnant::Answered(Answered {
                        response: said(run, &self.outbox),
                        ..answered(run, name)
                    });
                    self.remnants.insert(now, expires, hash, remnant);
                }
                _ => {}
            }
        }
        if is_in_table {
            self.remove_from_table(index, hash);
        }
        self.unlist(index);
        self.runs.release(index, &mut self.buffers);
    }

    /// What a user does after one of its runs.
    fn release_user(&mut self, script: &Script, index: u32, outcome: Outcome, now: Time) {
        let Some(run) = self.runs.get(index) else {
            return;
        };
        let (place, notes) = (run.user, run.notes);
        if run.side == Side::Callee || place == NOBODY {
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
        let Some(run) = self.runs.get(index) else {
            return;
        };
        let notes = run.notes;
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
        if let Some(run) = self.runs.get_mut(index) {
            run.notes.is_setup_recorded = true;
        }
    }

    fn write_record(&mut self, script: &Script, index: u32, outcome: Outcome, ended: Time) {
        if let Some(record) = self.record(script, index, outcome, ended) {
            self.records.push_back(record);
        }
    }

    fn record(&self, script: &Script, index: u32, outcome: Outcome, ended: Time) -> Option<Record> {
        let name = self.runs.name(index);
        let run = self.runs.get(index)?;
        if run.side == Side::Callee && !self.config.records_callees {
            return None;
        }
        let call_id = if !run.dialog.call_id.is_empty() {
            CallId::read(run.dialog.get(run.dialog.call_id))
        } else if *script.kind() == Kind::Registration && run.user != NOBODY {
            self.identity.registration_call_id(run.user)
        } else {
            self.identity.call_id(name)
        };
        let record = record(script.kind(), run, call_id, outcome, ended, self.clock);
        Some(record)
    }
}

/// What is left of a run that was begun by a request.
fn answered(run: &Run, name: super::identity::RunName) -> Answered {
    let is_invited = run.invited.state != ServerState::Idle;
    let status = match run.asked.state {
        ServerState::Answered(status) | ServerState::Acknowledged(status) => status,
        ServerState::Idle | ServerState::Proceeding => 200,
    };
    Answered {
        run: name,
        invite: is_invited.then_some(run.invited.cseq),
        cseq: run.asked.cseq,
        branch: run.asked.branch,
        status,
        response: None,
    }
}

/// The response to a run's last request, where it cannot be made of the request once more.
fn said(run: &Run, outbox: &Outbox) -> Option<Box<[u8]>> {
    let is_answered = matches!(run.asked.state, ServerState::Answered(_));
    if !is_answered || !run.asked.says_more {
        return None;
    }
    let octets = match run.asked.written {
        Some((start, end)) => outbox.written(start..end),
        None => &run.asked.response,
    };
    (!octets.is_empty()).then(|| octets.into())
}

fn record(
    kind: &Kind,
    run: &Run,
    call_id: CallId,
    outcome: Outcome,
    ended: Time,
    clock: Clock,
) -> Record {
    let times = &run.times;
    let begun = times.begun;
    let since = |time: Time| time.known_since(begun);
    let timers = run.extra.as_deref().map(|extra| {
        let taken = extra
            .timers
            .iter()
            .map(|(started, stopped)| stopped.known_since(*started));
        taken.collect()
    });
    let instant = |time: Time| clock.instant(time).unwrap_or(clock.origin());
    let attempt = Attempt {
        script: ScriptId(run.script),
        side: run.side,
        user: run.user_number,
        peer: run.peer_number,
        call_id,
        due: instant(times.due),
        begun: instant(begun),
        ended: ended.since(begun),
        outcome,
        status: (run.notes.status != 0).then_some(run.notes.status),
        retransmissions: run.notes.retransmissions,
        authentications: run.notes.authentications,
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
            is_bye_from_peer: run.notes.is_bye_from_peer,
            bye_answered: since(times.bye_answered),
            bye_status: (run.notes.bye_status != 0).then_some(run.notes.bye_status),
            is_setup_recorded: run.notes.is_setup_recorded,
        }),
        Kind::Registration => Record::Registration(RegistrationRecord {
            attempt,
            is_refresh: run.notes.is_refresh,
            answered: since(times.answered),
            expires: run
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

/// The failure of a run whose request has had no final response.
pub(super) fn silence(cancel: Cancel) -> Failure {
    if cancel == Cancel::No {
        Failure::NoResponse
    } else {
        Failure::GivenUp
    }
}
