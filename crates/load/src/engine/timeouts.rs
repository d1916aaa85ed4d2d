//! What is due: repetitions, timeouts, the ends of pauses, refreshes, callers who come back.

use super::Engine;
use super::ending::silence;
use super::run::{Cancel, ClientState, NOBODY, Run, ServerState, State};
use super::sending::Which;
use super::steps::Turn;
use super::time::Time;
use super::users::Repeat;
use crate::record::{Failure, Outcome};
use crate::script::{Expected, Script, Step};

impl Engine {
    /// Does what is due of a run.
    pub(super) fn handle_due_run(&mut self, index: u32, now: Time) {
        let Some(script) = self.script_of(index) else {
            return;
        };
        if self.runs.get(index).is_some_and(|run| run.next() <= now) {
            self.repeat_requests(index, now);
            self.repeat_answer(index, now);
            self.give_up(&script, index, now);
            self.end_wait(&script, index, now);
        }
        self.settle(&script, index, now);
    }

    /// Timers A and E.
    fn repeat_requests(&mut self, index: u32, now: Time) {
        let t2 = self.config.timers.t2;
        let Some(run) = self.runs.get_mut(index) else {
            return;
        };
        let is_invite_due =
            run.invite.timers.repeat_at <= now && run.invite.timers.give_up_at > now;
        if is_invite_due {
            run.invite.timers.interval *= 2;
            run.invite.timers.repeat_at = now.after(run.invite.timers.interval);
        }
        let is_other_due = run.other.timers.repeat_at <= now && run.other.timers.give_up_at > now;
        if is_other_due {
            run.other.timers.interval = (run.other.timers.interval * 2).min(t2);
            run.other.timers.repeat_at = now.after(run.other.timers.interval);
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
        let Some(run) = self.runs.get_mut(index) else {
            return;
        };
        if run.invited.timers.repeat_at > now || run.invited.timers.give_up_at <= now {
            return;
        }
        run.invited.timers.interval = (run.invited.timers.interval * 2).min(t2);
        run.invited.timers.repeat_at = now.after(run.invited.timers.interval);
        self.resend(index, Which::Answer, None);
    }

    /// An INVITE has had nothing but provisional responses for too long: it is cancelled. Returns whether
    /// that is so.
    fn end_proceeding(&mut self, index: u32, now: Time) -> bool {
        let give_up = self.config.timers.give_up;
        let Some(run) = self.runs.get_mut(index) else {
            return false;
        };
        let is_proceeding =
            run.invite.state == ClientState::Proceeding && run.invite.cancel == Cancel::No;
        if !is_proceeding || run.invite.timers.give_up_at > now {
            return false;
        }
        if run.wait_until.is_known() {
            // The script has a limit of its own, after which it may want to do something.
            run.invite.timers.give_up_at = run.wait_until.max(now).after(give_up);
            return false;
        }
        run.invite.timers.stop();
        self.cancel(index, now);
        if let Some(run) = self.runs.get_mut(index)
            && run.invite.cancel != Cancel::Sent
        {
            run.invite.state = ClientState::Idle;
        }
        true
    }

    /// Timers B, F and H, and the limit of an INVITE that has had provisional responses alone.
    fn give_up(&mut self, script: &Script, index: u32, now: Time) {
        let turn = Turn::at(now);
        let mut failure = None;
        if self.end_proceeding(index, now) {
            failure = Some(Failure::NoResponse);
        }
        let Some(run) = self.runs.get_mut(index) else {
            return;
        };
        let is_other_silent = run.other.timers.give_up_at <= now;
        if is_other_silent {
            run.other.timers.stop();
            run.other.state = ClientState::Idle;
        }
        let is_cancel = run.other.method == sip::Method::Cancel;
        let is_invite_silent = run.invite.timers.give_up_at <= now;
        if is_invite_silent {
            run.invite.timers.stop();
            run.invite.state = ClientState::Idle;
        }
        let cancel = run.invite.cancel;
        if is_other_silent && !is_cancel && !self.tries_elsewhere(script, index, false, &turn) {
            failure = Some(Failure::NoResponse);
        }
        if is_invite_silent && !self.tries_elsewhere(script, index, true, &turn) {
            failure = Some(silence(cancel));
        }
        let Some(run) = self.runs.get_mut(index) else {
            return;
        };
        let mut is_unacknowledged = false;
        if run.invited.timers.give_up_at <= now {
            run.invited.timers.stop();
            is_unacknowledged = matches!(run.invited.state, ServerState::Answered(200..300));
            // A change that was refused leaves the call as it was (section 14.2), unless the script
            // waits for the ACK.
            let is_change = !is_unacknowledged && run.dialog.is_confirmed;
            if !is_change || waits_for_ack(script, run) {
                failure = Some(Failure::NoAck);
            }
        }
        if is_unacknowledged && run.notes.is_bye_wanted {
            run.notes.is_bye_wanted = false;
            self.hang_up(script, index, now);
        }
        if let Some(failure) = failure {
            self.finish(script, index, Outcome::Failed(failure), &turn);
        }
    }

    /// Nobody has answered: where another next hop is asked, or the next place that a 3xx had named, nothing has
    /// failed.
    fn tries_elsewhere(
        &mut self,
        script: &Script,
        index: u32,
        is_invite: bool,
        turn: &Turn<'_>,
    ) -> bool {
        let tries = self.fail_over(script, index, is_invite, turn)
            || self.redirect(script, index, is_invite, None, turn);
        if tries {
            self.wait_anew(script, index, turn);
        }
        tries
    }

    /// The end of a pause, or of waiting for a message.
    fn end_wait(&mut self, script: &Script, index: u32, now: Time) {
        let turn = Turn::at(now);
        let Some(run) = self.runs.get_mut(index) else {
            return;
        };
        if run.wait_until > now {
            return;
        }
        run.wait_until = Time::NEVER;
        match (run.state, script.step(run.step)) {
            (State::Pausing, _) => run.step.0 = run.step.0.saturating_add(1),
            (State::Expecting, Some(Step::Expect(expect))) => match expect.on_timeout {
                Some(to) => run.step = to,
                None => {
                    let outcome = Outcome::Failed(Failure::NoResponse);
                    self.finish(script, index, outcome, &turn);
                    return;
                }
            },
            _ => return,
        }
        run.state = State::Running;
        self.advance(script, index, &turn);
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

/// Whether a run is at a step that takes an ACK.
fn waits_for_ack(script: &Script, run: &Run) -> bool {
    let Some(Step::Expect(expect)) = script.step(run.step) else {
        return false;
    };
    let is_ack = |expected: &Expected| *expected == Expected::Request(sip::Method::Ack);
    run.state == State::Expecting
        && expect
            .alternatives
            .iter()
            .any(|alternative| is_ack(&alternative.expected))
}
