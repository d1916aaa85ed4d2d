//! Timers: retransmissions, timeouts, the ends of pauses, refreshes, repeated calls.

use std::time::Duration;

use sip::Method;

use super::Engine;
use super::sending::Sent;
use super::session::{Cancel, ClientState, Session, State};
use super::time::Time;
use super::trigger::Trigger;
use super::users::{Due, Repeat};
use crate::record::{Failure, Outcome};
use crate::script::{Expected, Script, Step};

impl Engine {
    /// Handles the timers of a session that are due.
    pub(super) fn handle_due_session(&mut self, index: u32, now: Time) {
        let Some(script) = self.script_of(index) else {
            return;
        };
        if self
            .sessions
            .get(index)
            .is_some_and(|session| session.next() <= now)
        {
            self.retransmit(&script, index, now);
            self.give_up(&script, index, now);
            self.end_wait(&script, index, now);
        }
        self.end_turn(&script, index, now);
    }

    /// Timers A, E and G, and the retransmission of a 2xx (RFC 3261 section 13.3.1.4).
    fn retransmit(&mut self, script: &Script, index: u32, now: Time) {
        let t2 = self.config.timers.t2;
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        let timers = [
            (
                &mut session.invite_client.timers,
                Duration::MAX,
                Sent::Invite,
            ),
            (&mut session.non_invite_client.timers, t2, Sent::Request),
            (&mut session.invite_server.timers, t2, Sent::InviteResponse),
        ];
        let due =
            timers.map(|(timers, longest, sent)| timers.retransmits(now, longest).then_some(sent));
        for sent in due.into_iter().flatten() {
            self.resend(index, sent, None);
            let session = self.sessions.get(index);
            let step = session.and_then(|session| match sent {
                Sent::Invite => Some(session.invite_client.request.step),
                Sent::Request => Some(session.non_invite_client.request.step),
                Sent::InviteResponse | Sent::Response => None,
            });
            if let Some(step) = step {
                self.count_step(script, index, step, |count| count.retransmitted += 1);
            }
        }
    }

    /// An INVITE has had nothing but provisional responses for too long: it is cancelled. Returns whether
    /// that is so.
    fn end_proceeding(&mut self, index: u32, now: Time) -> bool {
        let give_up = self.config.timers.give_up;
        let Some(session) = self.sessions.get_mut(index) else {
            return false;
        };
        let wait_until = session.wait_until;
        let invite = &mut session.invite_client;
        let is_proceeding = invite.state == ClientState::Proceeding && invite.cancel == Cancel::No;
        if !is_proceeding || !invite.timers.has_expired(now) {
            return false;
        }
        if wait_until.is_known() {
            // The script has a limit of its own, after which it may want to do something.
            invite.timers.expire_at(wait_until.max(now).after(give_up));
            return false;
        }
        invite.timers.stop();
        self.cancel(index, now);
        if let Some(session) = self.sessions.get_mut(index)
            && session.invite_client.cancel != Cancel::Sent
        {
            session.invite_client.abandon();
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
        let is_cancel = session.non_invite_client.request.method == Method::Cancel;
        let is_request_silent = session.non_invite_client.times_out(now) && !is_cancel;
        let is_invite_silent = session.invite_client.times_out(now);
        let cancel = session.invite_client.cancel;
        if is_request_silent && !self.tries_elsewhere(script, index, false, &trigger) {
            failure = Some(Failure::NoResponse);
        }
        if is_invite_silent && !self.tries_elsewhere(script, index, true, &trigger) {
            // Nothing has come, or only after it was cancelled.
            failure = Some(match cancel {
                Cancel::No => Failure::NoResponse,
                Cancel::Wanted | Cancel::Sent => Failure::GivenUp,
            });
        }
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        let mut is_unacknowledged = false;
        if session.invite_server.timers.has_expired(now) {
            session.invite_server.timers.stop();
            is_unacknowledged = session.invite_server.is_accepted();
            // A change that was refused leaves the call as it was (section 14.2), unless the script
            // waits for the ACK.
            let is_change = !is_unacknowledged && session.dialog.is_confirmed;
            if !is_change || waits_for_ack(script, session) {
                failure = Some(Failure::NoAck);
            }
        }
        if is_unacknowledged && std::mem::take(&mut session.notes.is_bye_wanted) {
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
                Some(to) => {
                    let step = std::mem::replace(&mut session.step, to);
                    self.count_step(script, index, step, |count| count.timeouts += 1);
                }
                None => {
                    let outcome = Outcome::Failed(Failure::NoResponse);
                    self.finish(script, index, outcome, &trigger);
                    return;
                }
            },
            _ => return,
        }
        if let Some(session) = self.sessions.get_mut(index) {
            session.state = State::Running;
        }
        self.advance(script, index, &trigger);
    }

    /// Handles the timers of a user that are due.
    pub(super) fn handle_due_user(&mut self, place: u32, now: Time) {
        let retry_at = now.after(self.config.registration.retry_after);
        let Some(Due { refresh }) = self.users.take_due(place, now) else {
            return;
        };
        if let Some(due) = refresh
            && self.begin_registration(now, due, place, false).is_err()
        {
            self.users.postpone_refresh(place, retry_at);
        }
        self.users.arm(place);
    }

    /// Begins the next attempts of users who call repeatedly: only of users who wait now, so that attempts which
    /// end at once do not keep this going.
    pub(super) fn let_return(&mut self, now: Time) {
        for _ in 0..self.users.returning() {
            let Some((place, repeat)) = self.users.pop_returning() else {
                return;
            };
            let Some(Repeat { script, peer }) = repeat else {
                continue;
            };
            if self
                .start(now, now, script, place, peer, super::Cause::Return)
                .is_err()
            {
                self.users.give_repetition_back();
                self.come_back(place, false, now);
            }
        }
    }

    /// Lets a user come back: at once, or after a pause.
    pub(super) fn come_back(&mut self, place: u32, at_once: bool, now: Time) {
        let later = now.after(self.config.pause_after_failure);
        self.users.come_back(place, (!at_once).then_some(later));
    }
}

/// Whether a session is at a step that takes an ACK.
fn waits_for_ack(script: &Script, session: &Session) -> bool {
    let Some(Step::Expect(expect)) = script.step(session.step) else {
        return false;
    };
    let is_ack = |expected: &Expected| *expected == Expected::Request(Method::Ack);
    session.state == State::Expecting
        && expect
            .alternatives
            .iter()
            .any(|alternative| is_ack(&alternative.expected))
}
