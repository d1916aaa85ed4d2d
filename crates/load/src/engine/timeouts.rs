//! What is due: repetitions, timeouts, the ends of pauses, refreshes, callers who come back.

use super::Engine;
use super::ending::silence;
use super::sending::Which;
use super::session::{Cancel, ClientState, NOBODY, ServerState, Session, State};
use super::steps::Trigger;
use super::time::Time;
use super::users::Repeat;
use crate::record::{Failure, Outcome};
use crate::script::{Expected, Script, Step};

impl Engine {
    /// Does what is due of a session.
    pub(super) fn handle_due_session(&mut self, index: u32, now: Time) {
        let Some(script) = self.script_of(index) else {
            return;
        };
        if self
            .sessions
            .get(index)
            .is_some_and(|session| session.next() <= now)
        {
            self.repeat_requests(index, now);
            self.repeat_answer(index, now);
            self.give_up(&script, index, now);
            self.end_wait(&script, index, now);
        }
        self.end_turn(&script, index, now);
    }

    /// Timers A and E.
    fn repeat_requests(&mut self, index: u32, now: Time) {
        let t2 = self.config.timers.t2;
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        let is_invite_due =
            session.invite.timers.repeat_at <= now && session.invite.timers.give_up_at > now;
        if is_invite_due {
            session.invite.timers.interval *= 2;
            session.invite.timers.repeat_at = now.after(session.invite.timers.interval);
        }
        let is_other_due =
            session.other.timers.repeat_at <= now && session.other.timers.give_up_at > now;
        if is_other_due {
            session.other.timers.interval = (session.other.timers.interval * 2).min(t2);
            session.other.timers.repeat_at = now.after(session.other.timers.interval);
        }
        if is_invite_due {
            self.resend(index, Which::Invite, None);
        }
        if is_other_due {
            self.resend(index, Which::Other, None);
        }
    }

    /// Timer G, and the repetition of a 2xx (RFC 3261 section 13.3.1.4).
    fn repeat_answer(&mut self, index: u32, now: Time) {
        let t2 = self.config.timers.t2;
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        if session.invited.timers.repeat_at > now || session.invited.timers.give_up_at <= now {
            return;
        }
        session.invited.timers.interval = (session.invited.timers.interval * 2).min(t2);
        session.invited.timers.repeat_at = now.after(session.invited.timers.interval);
        self.resend(index, Which::Answer, None);
    }

    /// An INVITE has had nothing but provisional responses for too long: it is cancelled. Returns whether
    /// that is so.
    fn end_proceeding(&mut self, index: u32, now: Time) -> bool {
        let give_up = self.config.timers.give_up;
        let Some(session) = self.sessions.get_mut(index) else {
            return false;
        };
        let is_proceeding =
            session.invite.state == ClientState::Proceeding && session.invite.cancel == Cancel::No;
        if !is_proceeding || session.invite.timers.give_up_at > now {
            return false;
        }
        if session.wait_until.is_known() {
            // The script has a limit of its own, after which it may want to do something.
            session.invite.timers.give_up_at = session.wait_until.max(now).after(give_up);
            return false;
        }
        session.invite.timers.stop();
        self.cancel(index, now);
        if let Some(session) = self.sessions.get_mut(index)
            && session.invite.cancel != Cancel::Sent
        {
            session.invite.state = ClientState::Idle;
        }
        true
    }

    /// Timers B, F and H, and the limit of an INVITE that has had provisional responses alone.
    fn give_up(&mut self, script: &Script, index: u32, now: Time) {
        let trigger = Trigger::at(now);
        let mut failure = None;
        if self.end_proceeding(index, now) {
            failure = Some(Failure::NoResponse);
        }
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        let is_other_silent = session.other.timers.give_up_at <= now;
        if is_other_silent {
            session.other.timers.stop();
            session.other.state = ClientState::Idle;
        }
        let is_cancel = session.other.method == sip::Method::Cancel;
        let is_invite_silent = session.invite.timers.give_up_at <= now;
        if is_invite_silent {
            session.invite.timers.stop();
            session.invite.state = ClientState::Idle;
        }
        let cancel = session.invite.cancel;
        if is_other_silent && !is_cancel && !self.tries_elsewhere(script, index, false, &trigger) {
            failure = Some(Failure::NoResponse);
        }
        if is_invite_silent && !self.tries_elsewhere(script, index, true, &trigger) {
            failure = Some(silence(cancel));
        }
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        let mut is_unacknowledged = false;
        if session.invited.timers.give_up_at <= now {
            session.invited.timers.stop();
            is_unacknowledged = matches!(session.invited.state, ServerState::Answered(200..300));
            // A change that was refused leaves the call as it was (section 14.2), unless the script
            // waits for the ACK.
            let is_change = !is_unacknowledged && session.dialog.is_confirmed;
            if !is_change || waits_for_ack(script, session) {
                failure = Some(Failure::NoAck);
            }
        }
        if is_unacknowledged && session.notes.is_bye_wanted {
            session.notes.is_bye_wanted = false;
            self.hang_up(script, index, now);
        }
        if let Some(failure) = failure {
            self.finish(script, index, Outcome::Failed(failure), &trigger);
        }
    }

    /// Nobody has answered: where another next hop is asked, or the next place that a 3xx had named, nothing has
    /// failed.
    fn tries_elsewhere(
        &mut self,
        script: &Script,
        index: u32,
        is_invite: bool,
        trigger: &Trigger<'_>,
    ) -> bool {
        let tries = self.fail_over(script, index, is_invite, trigger)
            || self.redirect(script, index, is_invite, None, trigger);
        if tries {
            self.wait_anew(script, index, trigger);
        }
        tries
    }

    /// The end of a pause, or of waiting for a message.
    fn end_wait(&mut self, script: &Script, index: u32, now: Time) {
        let trigger = Trigger::at(now);
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        if session.wait_until > now {
            return;
        }
        session.wait_until = Time::NEVER;
        match (session.state, script.step(session.step)) {
            (State::Pausing, _) => session.step.0 = session.step.0.saturating_add(1),
            (State::Expecting, Some(Step::Expect(expect))) => match expect.on_timeout {
                Some(to) => session.step = to,
                None => {
                    let outcome = Outcome::Failed(Failure::NoResponse);
                    self.finish(script, index, outcome, &trigger);
                    return;
                }
            },
            _ => return,
        }
        session.state = State::Running;
        self.advance(script, index, &trigger);
    }

    /// Does what is due of a user.
    pub(super) fn handle_due_user(&mut self, place: u32, now: Time) {
        let retry_after = self.config.registration.retry_after;
        let Some(user) = self.users.get_mut(place) else {
            return;
        };
        let is_expired = user.expires_at <= now;
        if is_expired {
            user.expires_at = Time::NEVER;
        }
        let due = user.refresh_at;
        let refreshes = due <= now;
        if refreshes {
            user.refresh_at = Time::NEVER;
        }
        let returns = user.return_at <= now;
        if returns {
            user.return_at = Time::NEVER;
        }
        if is_expired {
            self.users.set_registered(place, false);
        }
        if refreshes
            && self.begin_registration(now, due, place, false).is_err()
            && let Some(user) = self.users.get_mut(place)
            && user.registering == NOBODY
        {
            user.refresh_at = now.after(retry_after);
        }
        if returns {
            self.returning.push_back(place);
        }
        self.users.arm(place);
    }

    /// Begins the next attempts of users who come back: of those who are waiting now, so that attempts which
    /// end at once do not keep this going.
    pub(super) fn let_return(&mut self, now: Time) {
        for _ in 0..self.returning.len() {
            let Some(place) = self.returning.pop_front() else {
                return;
            };
            let Some(Repeat { script, peer }) = self.users.get(place).and_then(|user| user.repeats)
            else {
                continue;
            };
            match &mut self.repetitions_left {
                Some(0) => continue,
                Some(left) => *left -= 1,
                None => {}
            }
            if self
                .start(now, now, script, place, peer, super::Cause::Return)
                .is_err()
            {
                if let Some(left) = &mut self.repetitions_left {
                    *left += 1;
                }
                self.come_back(place, false, now);
            }
        }
    }

    /// Lets a user come back: at once, or after a pause.
    pub(super) fn come_back(&mut self, place: u32, at_once: bool, now: Time) {
        let pause = self.config.pause_after_failure;
        let Some(user) = self.users.get_mut(place) else {
            return;
        };
        if user.repeats.is_none() {
            return;
        }
        if at_once {
            self.returning.push_back(place);
        } else {
            user.return_at = now.after(pause);
            self.users.arm(place);
        }
    }
}

/// Whether a session is at a step that takes an ACK.
fn waits_for_ack(script: &Script, session: &Session) -> bool {
    let Some(Step::Expect(expect)) = script.step(session.step) else {
        return false;
    };
    let is_ack = |expected: &Expected| *expected == Expected::Request(sip::Method::Ack);
    session.state == State::Expecting
        && expect
            .alternatives
            .iter()
            .any(|alternative| is_ack(&alternative.expected))
}
