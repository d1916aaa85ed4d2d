//! What is looked at once, so that the interpreter need not: that steps lead to steps, that variables
//! exist, and which messages have to be kept.

use sip::Method;

use super::line::Lines;
use super::step::{Action, Alternative, Expected, Send, Source, Step, StepNumber, Then, Within};
use super::template::{Slot, Start, TemplatePart};
use super::value::Condition;
use super::variable::Variable;
use super::{First, Kind, Script};

/// How many steps a script may have.
const MAXIMUM_STEPS: usize = 65_000;

/// How many timers a script may have.
const MAXIMUM_TIMERS: u8 = 64;

/// Why steps are no script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// There is no step.
    #[error("a scenario needs at least one step")]
    Empty,
    /// There are too many.
    #[error("a scenario can have {MAXIMUM_STEPS} steps at most")]
    TooManySteps,
    /// A step leads to one that does not exist.
    #[error("step {step} leads to step {to}, which does not exist")]
    NoSuchStep {
        /// Which one.
        step: usize,
        /// Where to.
        to: u16,
    },
    /// A step uses a variable that does not exist.
    #[error("step {step} uses variable {variable}, which does not exist")]
    NoSuchVariable {
        /// Which one.
        step: usize,
        /// The number of the variable.
        variable: u16,
    },
    /// A step uses a timer beyond those that there are.
    #[error("step {step} uses timer {timer}: they go from 0 to {last}", last = MAXIMUM_TIMERS - 1)]
    NoSuchTimer {
        /// Which one.
        step: usize,
        /// The number of the timer.
        timer: u8,
    },
    /// A step answers, but no request can have come before.
    #[error("step {step} sends a response, but the scenario never waits for a request")]
    NothingToAnswer {
        /// Which one.
        step: usize,
    },
    /// A step answers the first request, but the scenario does not begin with one.
    #[error(
        "step {step} answers the first request, but the scenario does not begin with waiting for one"
    )]
    NoFirstRequest {
        /// Which one.
        step: usize,
    },
    /// Nothing is ever sent.
    #[error("the scenario neither sends a request nor waits for one")]
    NoRequest,
    /// The first thing waited for is a response.
    #[error("step {step} waits for a response before any request has been sent")]
    ResponseFirst {
        /// Which one.
        step: usize,
    },
}

impl ScriptError {
    /// The step that is wrong, counted from 0; `None` where it is the whole.
    pub fn step(&self) -> Option<usize> {
        match *self {
            ScriptError::Empty | ScriptError::TooManySteps | ScriptError::NoRequest => None,
            ScriptError::NoSuchStep { step, .. }
            | ScriptError::NoSuchVariable { step, .. }
            | ScriptError::NoSuchTimer { step, .. }
            | ScriptError::NothingToAnswer { step }
            | ScriptError::NoFirstRequest { step }
            | ScriptError::ResponseFirst { step } => Some(step),
        }
    }
}

/// By step: what is still used of messages that have been received.
#[derive(Clone, Debug, Default)]
pub(super) struct Needs {
    /// The last message, before another one is waited for.
    last: Vec<bool>,
    /// The message that began the run.
    initial: Vec<bool>,
}

impl Needs {
    pub(super) fn last(&self, step: StepNumber) -> bool {
        self.last
            .get(usize::from(step.0))
            .copied()
            .unwrap_or_default()
    }

    pub(super) fn initial(&self, step: StepNumber) -> bool {
        self.initial
            .get(usize::from(step.0))
            .copied()
            .unwrap_or_default()
    }
}

/// Makes a script of steps that are sound.
pub(super) fn check(
    name: String,
    steps: Vec<Step>,
    variables: Vec<String>,
    anytime: Vec<Alternative>,
) -> Result<Script, ScriptError> {
    if steps.is_empty() {
        return Err(ScriptError::Empty);
    }
    if steps.len() > MAXIMUM_STEPS {
        return Err(ScriptError::TooManySteps);
    }
    let waits = steps.iter().any(|step| match step {
        Step::Expect(expect) => expect.alternatives.iter().any(is_request),
        _ => false,
    }) || anytime.iter().any(is_request);
    let first = first(&steps)?;
    let mut checker = Checker {
        steps: steps.len(),
        variables: variables.len(),
        timers: 0,
        step: 0,
    };
    for (number, step) in steps.iter().enumerate() {
        checker.step = number;
        checker.step(step)?;
        if let Step::Send(send) = step
            && matches!(send.template.start(), Start::Response(_))
        {
            if !waits {
                return Err(ScriptError::NothingToAnswer { step: number });
            }
            if send.answers == Source::First && first == First::Sends {
                return Err(ScriptError::NoFirstRequest { step: number });
            }
        }
    }
    checker.step = steps.len();
    checker.alternatives(&anytime)?;
    let timers = checker.timers;
    let kind = kind(&steps).ok_or(ScriptError::NoRequest)?;
    let learns_early = steps.iter().any(|step| {
        let method = match step {
            Step::Send(send) => send.template.method(),
            _ => None,
        };
        let late = [Method::Invite, Method::Ack, Method::Bye, Method::Cancel];
        method.is_some_and(|method| !late.contains(method))
    });
    let needs = Needs {
        last: needs_last(&steps),
        initial: needs_initial(&steps, &anytime),
    };
    let lines = Lines::of(&steps, &anytime);
    let has_commands = steps.iter().any(|step| match step {
        Step::Do(actions) => actions.iter().any(is_command),
        Step::Expect(expect) => expect
            .alternatives
            .iter()
            .any(|one| matches!(one.expected, Expected::Command { .. })),
        _ => false,
    });
    Ok(Script {
        name,
        steps,
        lines,
        variables,
        kind,
        first,
        anytime,
        timers,
        timer_names: Vec::new(),
        acknowledges_failures: false,
        is_strict: false,
        expects_provisional: false,
        auto_answers: false,
        has_fractions: false,
        learns_early,
        asks_once: false,
        has_commands,
        needs,
    })
}

fn is_request(alternative: &Alternative) -> bool {
    matches!(alternative.expected, Expected::Request(_))
}

fn is_command(action: &Action) -> bool {
    matches!(action, Action::Command { .. })
}

/// Who begins: the first step that does more than work on variables.
fn first(steps: &[Step]) -> Result<First, ScriptError> {
    let first = steps.iter().enumerate().find(|(_, step)| match step {
        Step::Do(actions) => actions.iter().any(is_command),
        Step::Jump { .. } => false,
        _ => true,
    });
    let Some((number, Step::Expect(expect))) = first else {
        return Ok(First::Sends);
    };
    expect
        .alternatives
        .iter()
        .find_map(|alternative| match &alternative.expected {
            Expected::Request(method) => Some(First::Waits(method.clone())),
            Expected::Command { .. } => Some(First::Commanded),
            Expected::Response { .. } => None,
        })
        .ok_or(ScriptError::ResponseFirst { step: number })
}

/// What records the script gives, by the methods in it.
fn kind(steps: &[Step]) -> Option<Kind> {
    let mut methods = steps.iter().flat_map(|step| {
        let (sent, expected): (Option<&Method>, &[Alternative]) = match step {
            Step::Send(send) => (send.template.method(), &[]),
            Step::Expect(expect) => (None, &expect.alternatives),
            _ => (None, &[]),
        };
        sent.into_iter().chain(expected.iter().filter_map(
            |alternative| match &alternative.expected {
                Expected::Request(method) => Some(method),
                Expected::Response { .. } | Expected::Command { .. } => None,
            },
        ))
    });
    let first = methods.next()?;
    let mut has_register = *first == Method::Register;
    if *first == Method::Invite {
        return Some(Kind::Call);
    }
    for method in methods {
        match method {
            Method::Invite => return Some(Kind::Call),
            Method::Register => has_register = true,
            _ => {}
        }
    }
    Some(if has_register {
        Kind::Registration
    } else {
        Kind::Request(first.clone())
    })
}

/// Goes through the steps backwards until nothing changes: a step needs the first message if it answers it,
/// or if one does that may follow.
fn needs_initial(steps: &[Step], anytime: &[Alternative]) -> Vec<bool> {
    let mut needs = vec![false; steps.len() + 1];
    loop {
        let mut has_changed = false;
        let at = |needs: &[bool], step: StepNumber| {
            needs.get(usize::from(step.0)).copied().unwrap_or_default()
        };
        for (number, step) in steps.iter().enumerate().rev() {
            let next = needs.get(number + 1).copied().unwrap_or_default();
            let leads = |alternative: &Alternative| match alternative.then {
                Then::Jump(to) => at(&needs, to),
                Then::Next => next,
                Then::Stay => false,
            };
            let is_needed = match step {
                Step::Send(send) => send.answers == Source::First || next,
                Step::Expect(expect) => {
                    expect.alternatives.iter().chain(anytime).any(leads)
                        || expect.on_timeout.is_some_and(|to| at(&needs, to))
                }
                Step::Pause(_) => next || anytime.iter().any(leads),
                Step::Jump { to, .. } => at(&needs, *to) || next,
                Step::Cancel | Step::Do(_) => next,
                Step::GiveUp | Step::Complete | Step::Fail => false,
            };
            if let Some(known) = needs.get_mut(number)
                && *known != is_needed
            {
                *known = is_needed;
                has_changed = true;
            }
        }
        if !has_changed {
            return needs;
        }
    }
}

/// Goes through the steps backwards until nothing changes: a step needs the last message if it uses it, or
/// if one that follows it without another message does.
fn needs_last(steps: &[Step]) -> Vec<bool> {
    let mut needs = vec![false; steps.len() + 1];
    let at = |needs: &[bool], step: StepNumber| {
        needs.get(usize::from(step.0)).copied().unwrap_or_default()
    };
    loop {
        let mut has_changed = false;
        for (number, step) in steps.iter().enumerate().rev() {
            let next = needs.get(number + 1).copied().unwrap_or_default();
            let is_needed = match step {
                Step::Send(send) => uses_last(send) || next,
                Step::Expect(expect) => expect.on_timeout.is_some_and(|to| at(&needs, to)),
                Step::Pause(_) | Step::Cancel => next,
                Step::Jump { to, when } => condition_uses_last(when) || at(&needs, *to) || next,
                Step::Do(actions) => actions.iter().any(action_uses_last) || next,
                Step::GiveUp | Step::Complete | Step::Fail => false,
            };
            if let Some(known) = needs.get_mut(number)
                && *known != is_needed
            {
                *known = is_needed;
                has_changed = true;
            }
        }
        if !has_changed {
            return needs;
        }
    }
}

fn uses_last(send: &Send) -> bool {
    let is_response = send.template.status().is_some();
    let answers_last = is_response && send.answers == Source::Last;
    let uses = send.template.uses_last() && send.answers == Source::Last;
    answers_last || uses || send.actions.iter().any(action_uses_last)
}

fn text_uses_last(text: &[TemplatePart]) -> bool {
    text.iter()
        .any(|part| matches!(part, TemplatePart::Slot(slot) if slot.uses_last()))
}

fn condition_uses_last(condition: &Condition) -> bool {
    match condition {
        Condition::Compares { left, right, .. } => text_uses_last(left) || text_uses_last(right),
        _ => false,
    }
}

fn action_uses_last(action: &Action) -> bool {
    match action {
        Action::Set { to, .. } => text_uses_last(to),
        Action::Extract { within, .. } => !matches!(within, Within::Variable(_)),
        Action::Calculate { operand, .. } => text_uses_last(operand),
        Action::Test { condition, .. } | Action::Require(condition) => {
            condition_uses_last(condition)
        }
        Action::CompareTexts { right, .. } => text_uses_last(right),
        Action::VerifyCredentials { .. } => true,
        Action::Lookup { key, .. } => text_uses_last(key),
        Action::Log { text, .. } | Action::Command { text, .. } => text_uses_last(text),
        Action::StartTimer(_)
        | Action::StopTimer(_)
        | Action::Unset(_)
        | Action::Media(_)
        | Action::UrlEncode(_)
        | Action::UrlDecode(_)
        | Action::Sample { .. }
        | Action::Fail => false,
    }
}

/// Looks at what steps refer to.
struct Checker {
    steps: usize,
    variables: usize,
    timers: usize,
    step: usize,
}

impl Checker {
    fn step(&mut self, step: &Step) -> Result<(), ScriptError> {
        match step {
            Step::Send(send) => {
                self.text(send.template.parts())?;
                self.actions(&send.actions)
            }
            Step::Expect(expect) => {
                self.alternatives(&expect.alternatives)?;
                expect.on_timeout.map_or(Ok(()), |to| self.leads_to(to))
            }
            Step::Pause(super::Pause::Variable(variable)) => self.variable(*variable),
            Step::Pause(_) | Step::Cancel | Step::GiveUp | Step::Complete | Step::Fail => Ok(()),
            Step::Jump { to, when } => {
                self.leads_to(*to)?;
                self.condition(when)
            }
            Step::Do(actions) => self.actions(actions),
        }
    }

    fn alternatives(&mut self, alternatives: &[Alternative]) -> Result<(), ScriptError> {
        for alternative in alternatives {
            if let Then::Jump(to) = alternative.then {
                self.leads_to(to)?;
            }
            self.actions(&alternative.actions)?;
        }
        Ok(())
    }

    fn actions(&mut self, actions: &[Action]) -> Result<(), ScriptError> {
        for action in actions {
            match action {
                Action::Set { variable, to } => {
                    self.variable(*variable)?;
                    self.text(to)?;
                }
                Action::Extract { within, into, .. } => {
                    if let Within::Variable(variable) = within {
                        self.variable(*variable)?;
                    }
                    for variable in into {
                        self.variable(*variable)?;
                    }
                }
                Action::Calculate {
                    variable, operand, ..
                } => {
                    self.variable(*variable)?;
                    self.text(operand)?;
                }
                Action::Test {
                    variable,
                    condition,
                } => {
                    self.variable(*variable)?;
                    self.condition(condition)?;
                }
                Action::CompareTexts {
                    variable,
                    left,
                    right,
                } => {
                    self.variable(*variable)?;
                    self.variable(*left)?;
                    self.text(right)?;
                }
                Action::Sample { variable, .. } => self.variable(*variable)?,
                Action::VerifyCredentials { variable, login } => {
                    self.variable(*variable)?;
                    self.text(&login.username)?;
                    self.text(&login.password)?;
                }
                Action::Lookup { variable, key, .. } => {
                    self.variable(*variable)?;
                    self.text(key)?;
                }
                Action::Fail | Action::Media(_) => {}
                Action::Log { text, .. } | Action::Command { text, .. } => self.text(text)?,
                Action::Require(condition) => self.condition(condition)?,
                Action::StartTimer(timer) | Action::StopTimer(timer) => self.timer(*timer)?,
                Action::Unset(variable)
                | Action::UrlEncode(variable)
                | Action::UrlDecode(variable) => self.variable(*variable)?,
            }
        }
        Ok(())
    }

    fn condition(&self, condition: &Condition) -> Result<(), ScriptError> {
        match condition {
            Condition::Always | Condition::Chance(_) => Ok(()),
            Condition::IsSet(variable) | Condition::IsUnset(variable) => self.variable(*variable),
            Condition::Compares { left, right, .. } => {
                self.text(left)?;
                self.text(right)
            }
        }
    }

    fn text(&self, text: &[TemplatePart]) -> Result<(), ScriptError> {
        for part in text {
            if let TemplatePart::Slot(slot) = part {
                self.slot(slot)?;
            }
        }
        Ok(())
    }

    fn slot(&self, slot: &Slot) -> Result<(), ScriptError> {
        match slot {
            Slot::Variable(variable) | Slot::Fill(_, variable) => self.variable(*variable),
            Slot::Plus(slot, _) => self.slot(slot),
            Slot::TableField { row: Some(row), .. } | Slot::RowField { row, .. } => self.text(row),
            Slot::Authorization(Some(login)) => {
                self.text(&login.username)?;
                self.text(&login.password)
            }
            _ => Ok(()),
        }
    }

    fn variable(&self, variable: Variable) -> Result<(), ScriptError> {
        if usize::from(variable.0) < self.variables {
            return Ok(());
        }
        Err(ScriptError::NoSuchVariable {
            step: self.step,
            variable: variable.0,
        })
    }

    fn timer(&mut self, timer: u8) -> Result<(), ScriptError> {
        if timer >= MAXIMUM_TIMERS {
            return Err(ScriptError::NoSuchTimer {
                step: self.step,
                timer,
            });
        }
        self.timers = self.timers.max(usize::from(timer) + 1);
        Ok(())
    }

    fn leads_to(&self, to: StepNumber) -> Result<(), ScriptError> {
        if usize::from(to.0) <= self.steps {
            return Ok(());
        }
        Err(ScriptError::NoSuchStep {
            step: self.step,
            to: to.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{Expect, Pause, Template};
    use std::time::Duration;

    fn send(text: &str) -> Step {
        Step::Send(Send::new(Template::parse(text).unwrap()))
    }

    fn script(steps: Vec<Step>) -> Result<Script, ScriptError> {
        Script::new("test", steps, Vec::new())
    }

    #[test]
    fn what_a_script_is_shows_in_its_methods() {
        let call = script(vec![
            Step::Expect(Expect::request(Method::Invite)),
            send("SIP/2.0 200 OK\n{request_vias}\n"),
        ])
        .unwrap();
        assert_eq!(call.kind(), &Kind::Call);
        assert_eq!(call.first(), &First::Waits(Method::Invite));
        let register = script(vec![send("REGISTER sip:a SIP/2.0\n")]).unwrap();
        assert_eq!(register.kind(), &Kind::Registration);
        assert_eq!(register.first(), &First::Sends);
    }

    #[test]
    fn a_message_is_needed_until_it_has_been_answered() {
        let script = script(vec![
            Step::Expect(Expect::request(Method::Invite)),
            send("SIP/2.0 180 Ringing\n{request_vias}\n"),
            Step::Pause(Pause::Fixed(Duration::ZERO)),
            send("SIP/2.0 200 OK\n{request_vias}\n"),
            Step::Expect(Expect::request(Method::Ack)),
            Step::Complete,
        ])
        .unwrap();
        let needs: Vec<bool> = (0..6)
            .map(|step| script.needs_last(StepNumber(step)))
            .collect();
        assert_eq!(needs, [false, true, true, true, false, false]);
    }

    #[test]
    fn what_does_not_exist_is_an_error() {
        assert_eq!(script(Vec::new()).unwrap_err(), ScriptError::Empty);
        let jump = Step::Jump {
            to: StepNumber(3),
            when: Condition::IsSet(Variable(0)),
        };
        assert_eq!(
            script(vec![send("BYE sip:a SIP/2.0\n"), jump.clone()]).unwrap_err(),
            ScriptError::NoSuchStep { step: 1, to: 3 }
        );
        let steps = vec![send("BYE sip:a SIP/2.0\n"), Step::Complete, jump];
        assert_eq!(
            script(steps).unwrap_err(),
            ScriptError::NoSuchVariable {
                step: 2,
                variable: 0
            }
        );
        let steps = vec![send("BYE sip:a SIP/2.0\n"), send("SIP/2.0 200 OK\n")];
        assert_eq!(
            script(steps).unwrap_err(),
            ScriptError::NothingToAnswer { step: 1 }
        );
        let steps = vec![Step::Expect(Expect::response(200..=200))];
        assert_eq!(
            script(steps).unwrap_err(),
            ScriptError::ResponseFirst { step: 0 }
        );
    }
}
