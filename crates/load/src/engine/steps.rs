//! The interpreter of scripts: runs steps until one waits.

use std::time::Duration;

use rand::Rng;
use sip::Method;

use super::distribution::draw;
use super::received::Received;
use super::session::{Session, State};
use super::step_counts::StepCount;
use super::text::number;
use super::time::Time;
use super::trigger::Trigger;
use super::{Engine, Failed};
use crate::record::{Failure, Outcome};
use crate::script::{
    Alternative, Condition, Expect, Expected, Pause, Script, Step, StepNumber, Then,
};

/// How many steps a session may do without waiting: a script that goes round and round fails.
const MAXIMUM_STEPS: usize = 1_000;

/// How a session goes on after a step.
enum After {
    /// It goes on with the next step.
    GoesOn,
    /// It waits.
    Waits,
    /// It has ended.
    Ends(Outcome),
}

impl Engine {
    /// Does steps of a session until it waits or ends.
    pub(super) fn advance(&mut self, script: &Script, index: u32, trigger: &Trigger<'_>) {
        for _ in 0..MAXIMUM_STEPS {
            let Some(session) = self.sessions.get_mut(index) else {
                return;
            };
            if session.state == State::Lingering {
                return;
            }
            let number = session.step;
            let after = match script.step(number) {
                Some(step) => self.step(script, index, number, step, trigger),
                None => After::Ends(Outcome::Completed),
            };
            match after {
                After::GoesOn => {}
                After::Waits => {
                    self.keep_messages(script, index, number, trigger);
                    return;
                }
                After::Ends(outcome) => {
                    self.finish(script, index, outcome, trigger);
                    return;
                }
            }
        }
        let outcome = Outcome::Failed(Failure::Script);
        self.finish(script, index, outcome, trigger);
    }

    fn step(
        &mut self,
        script: &Script,
        index: u32,
        number: StepNumber,
        step: &Step,
        trigger: &Trigger<'_>,
    ) -> After {
        let next = StepNumber(number.0.saturating_add(1));
        let done = match step {
            Step::Send(send) => {
                self.set_step(index, next, State::Running);
                self.count_step(script, index, number, |count| count.done += 1);
                self.send(script, index, number, send, trigger)
                    .and_then(|()| self.act(script, index, &send.actions, trigger))
            }
            Step::Expect(expect) => return self.expect(script, index, expect, next, trigger),
            Step::Pause(pause) => {
                self.count_step(script, index, number, |count| count.done += 1);
                return self.pause(index, pause, next, trigger);
            }
            Step::Jump { to, when } => {
                let holds = self.holds(script, index, when, trigger);
                self.set_step(index, if holds { *to } else { next }, State::Running);
                Ok(())
            }
            Step::Do(actions) => {
                self.set_step(index, next, State::Running);
                self.count_step(script, index, number, |count| count.done += 1);
                self.act(script, index, actions, trigger)
            }
            Step::Cancel => {
                self.set_step(index, next, State::Running);
                self.cancel(index, trigger.moment.now);
                Ok(())
            }
            Step::GiveUp => return After::Ends(Outcome::Failed(Failure::GivenUp)),
            Step::Complete => return After::Ends(Outcome::Completed),
            Step::Fail => return After::Ends(Outcome::Failed(Failure::Check)),
        };
        match done {
            Ok(()) => After::GoesOn,
            Err(Failed(failure)) => After::Ends(Outcome::Failed(failure)),
        }
    }

    fn set_step(&mut self, index: u32, step: StepNumber, state: State) {
        if let Some(session) = self.sessions.get_mut(index) {
            session.step = step;
            session.state = state;
            session.wait_until = Time::NEVER;
        }
    }

    fn expect(
        &mut self,
        script: &Script,
        index: u32,
        expect: &Expect,
        next: StepNumber,
        trigger: &Trigger<'_>,
    ) -> After {
        let Some(session) = self.sessions.get_mut(index) else {
            return After::Waits;
        };
        session.state = State::Expecting;
        session.wait_until = expect
            .timeout
            .map_or(Time::NEVER, |timeout| trigger.moment.now.after(timeout));
        if !session.notes.has_early_ack {
            return After::Waits;
        }
        // The ACK was here before the script came to wait for it.
        let is_ack = |alternative: &&Alternative| {
            alternative.expected == Expected::Request(Method::Ack) && alternative.then != Then::Stay
        };
        let Some(place) = expect.alternatives.iter().position(|one| is_ack(&one)) else {
            return After::Waits;
        };
        let Some(alternative) = expect.alternatives.get(place) else {
            return After::Waits;
        };
        session.notes.has_early_ack = false;
        let line = script.line_of(session.step).map(|first| first + place);
        if let Some(count) = self.step_counts.line(session.script, line) {
            count.done += 1;
        }
        let to = match alternative.then {
            Then::Jump(to) => to,
            Then::Next | Then::Stay => next,
        };
        self.set_step(index, to, State::Running);
        match self.act(script, index, &alternative.actions, trigger) {
            Ok(()) => After::GoesOn,
            Err(Failed(failure)) => After::Ends(Outcome::Failed(failure)),
        }
    }

    fn pause(
        &mut self,
        index: u32,
        pause: &Pause,
        next: StepNumber,
        trigger: &Trigger<'_>,
    ) -> After {
        let duration = match pause {
            Pause::Forever => {
                self.set_waiting(index, State::Pausing, Time::NEVER);
                return After::Waits;
            }
            Pause::Variable(variable) => {
                let session = self.sessions.get(index);
                let value = session.and_then(|session| session.variable(*variable));
                let milliseconds = value.and_then(number);
                Duration::try_from_secs_f64(milliseconds.unwrap_or(0.0) / 1_000.0)
                    .unwrap_or_default()
            }
            Pause::Fixed(duration) => *duration,
            Pause::Distributed(distribution) => {
                let milliseconds = draw(distribution, &mut self.rng);
                Duration::try_from_secs_f64(milliseconds / 1_000.0).unwrap_or_default()
            }
        };
        if duration.is_zero() {
            self.set_step(index, next, State::Running);
            return After::GoesOn;
        }
        let until = trigger.moment.now.after(duration);
        self.set_waiting(index, State::Pausing, until);
        After::Waits
    }

    fn set_waiting(&mut self, index: u32, state: State, until: Time) {
        if let Some(session) = self.sessions.get_mut(index) {
            session.state = state;
            session.wait_until = until;
        }
    }

    /// Whether a condition holds.
    pub(super) fn holds(
        &mut self,
        script: &Script,
        index: u32,
        condition: &Condition,
        trigger: &Trigger<'_>,
    ) -> bool {
        match condition {
            Condition::Always => true,
            Condition::IsSet(variable) => self.variable(index, *variable).is_some(),
            Condition::IsUnset(variable) => self.variable(index, *variable).is_none(),
            Condition::Chance(probability) => {
                f64::from(self.rng.next_u32()) / 4_294_967_296.0 < *probability
            }
            Condition::Compares {
                left,
                comparison,
                right,
            } => {
                let left = self.text(script, index, left, trigger);
                let right = self.text(script, index, right, trigger);
                super::actions::compares(&left, *comparison, &right)
            }
        }
    }

    /// Gives a message to the script. Returns whether a step has taken it; then the session may have ended.
    pub(super) fn offer(&mut self, script: &Script, index: u32, trigger: &Trigger<'_>) -> bool {
        let (Some(session), Some(message)) = (self.sessions.get_mut(index), trigger.message) else {
            return false;
        };
        let Some((line, alternative)) = find_line(script, session, message) else {
            return false;
        };
        let number = session.step;
        if let Some(count) = self.step_counts.line(session.script, line) {
            count.done += 1;
        }
        let to = match alternative.then {
            Then::Stay => None,
            Then::Next => Some(StepNumber(number.0.saturating_add(1))),
            Then::Jump(to) => Some(to),
        };
        if let Some(to) = to {
            session.step = to;
            session.state = State::Running;
            session.wait_until = Time::NEVER;
        }
        if let Err(Failed(failure)) = self.act(script, index, &alternative.actions, trigger) {
            self.finish(script, index, Outcome::Failed(failure), trigger);
            return true;
        }
        if to.is_some() {
            self.advance(script, index, trigger);
        } else {
            self.keep_messages(script, index, number, trigger);
        }
        true
    }

    /// Counts something of a step.
    pub(super) fn count_step(
        &mut self,
        script: &Script,
        index: u32,
        step: StepNumber,
        count: impl FnOnce(&mut StepCount),
    ) {
        let line = script.line_of(step);
        if let Some(session) = self.sessions.get(index)
            && let Some(counted) = self.step_counts.line(session.script, line)
        {
            count(counted);
        }
    }

    /// Whether a step waits for this message.
    pub(super) fn is_expected(&self, script: &Script, index: u32, message: &Received<'_>) -> bool {
        self.sessions
            .get(index)
            .is_some_and(|session| find_alternative(script, session, message).is_some())
    }

    /// Keeps the message if the script may still use it while the session waits at a step.
    fn keep_messages(
        &mut self,
        script: &Script,
        index: u32,
        number: StepNumber,
        trigger: &Trigger<'_>,
    ) {
        let (Some(session), Some(message)) = (self.sessions.get_mut(index), trigger.message) else {
            return;
        };
        let begins = session.initial.is_empty() && session.notes.is_first_turn;
        session.notes.is_first_turn = false;
        if begins && (script.needs_initial(number) || session.is_unanswered()) {
            self.buffers.keep(&mut session.initial, message.octets);
        }
        if script.needs_last(number) {
            self.buffers.keep(&mut session.last, message.octets);
        } else {
            self.buffers.give_back(&mut session.last);
        }
    }
}

/// The alternative for a message: of the step at which the session waits, or of the script's for any time.
pub(super) fn find_alternative<'s>(
    script: &'s Script,
    session: &Session,
    message: &Received<'_>,
) -> Option<&'s Alternative> {
    Some(find_line(script, session, message)?.1)
}

/// The same with its line.
fn find_line<'s>(
    script: &'s Script,
    session: &Session,
    message: &Received<'_>,
) -> Option<(Option<usize>, &'s Alternative)> {
    let fits = |alternative: &Alternative| match &alternative.expected {
        Expected::Response { statuses, method } => {
            message
                .status()
                .is_some_and(|status| statuses.contains(&status))
                && method
                    .as_ref()
                    .is_none_or(|method| *method == message.cseq_method)
        }
        Expected::Request(method) => !message.is_command && message.method() == Some(method),
        Expected::Command { from } => {
            let is_his = |name: &str| message.sender() == name.as_bytes();
            message.is_command && from.as_deref().is_none_or(is_his)
        }
    };
    let here: &[Alternative] = match (session.state, script.step(session.step)) {
        (State::Expecting, Some(Step::Expect(expect))) => &expect.alternatives,
        _ => &[],
    };
    let anytime = match session.state {
        State::Expecting | State::Pausing => script.anytime(),
        State::Free | State::Running | State::Lingering => &[],
    };
    let among = |alternatives: &'s [Alternative], first: Option<usize>| {
        let mut alternatives = alternatives.iter().enumerate();
        let (place, alternative) = alternatives.find(|(_, alternative)| fits(alternative))?;
        Some((first.map(|first| first + place), alternative))
    };
    among(here, script.line_of(session.step)).or_else(|| among(anytime, script.line_of_anytime()))
}
