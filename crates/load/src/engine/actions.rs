//! Working on variables and taking times.

use super::authentication::proves;
use super::commands::Command;
use super::distribution::draw;
use super::ending::MOST_TRACES;
use super::received::Received;
use super::render::{RenderContext, RenderState};
use super::text::{MAXIMUM_VALUE, number, url_decoded, url_encoded};
use super::trigger::Trigger;
use super::{Engine, Failed};
use crate::record::Failure;
use crate::script::{
    Action, Arithmetic, Check, Comparison, Pattern, Script, TemplatePart, Variable, Within,
};
use crate::trace::Trace;

impl Engine {
    /// Runs the actions of a step.
    pub(super) fn act(
        &mut self,
        script: &Script,
        index: u32,
        actions: &[Action],
        trigger: &Trigger<'_>,
    ) -> Result<(), Failed> {
        for action in actions {
            self.act_once(script, index, action, trigger)?;
        }
        Ok(())
    }

    fn act_once(
        &mut self,
        script: &Script,
        index: u32,
        action: &Action,
        trigger: &Trigger<'_>,
    ) -> Result<(), Failed> {
        match action {
            Action::Set { variable, to } => {
                let value = self.text(script, index, to, trigger);
                self.set_variable(script, index, *variable, Some(value));
            }
            Action::Unset(variable) => self.set_variable(script, index, *variable, None),
            Action::Extract {
                within,
                pattern,
                into,
                check,
            } => {
                let found = self.extract(script, index, within, pattern, into, trigger);
                let is_wrong = match check {
                    Some(Check::Matches) => !found,
                    Some(Check::MatchesNot) => found,
                    None => false,
                };
                if is_wrong {
                    return Err(Failed(Failure::Check));
                }
            }
            Action::Calculate {
                variable,
                operation,
                operand,
            } => {
                let operand = number(&self.text(script, index, operand, trigger)).unwrap_or(0.0);
                let value = self.variable(index, *variable).and_then(number);
                let value = calculate(value.unwrap_or(0.0), *operation, operand);
                self.set_variable(script, index, *variable, Some(script.written(value)));
            }
            Action::Test {
                variable,
                condition,
            } => {
                let holds = self.holds(script, index, condition, trigger);
                let value = holds.then(|| b"true".to_vec());
                self.set_variable(script, index, *variable, value);
            }
            Action::CompareTexts {
                variable,
                left,
                right,
            } => {
                let right = self.text(script, index, right, trigger);
                let left = self.variable(index, *left).unwrap_or_default();
                let order = left.cmp(right.as_slice()) as i8;
                let value = script.written(order.into());
                self.set_variable(script, index, *variable, Some(value));
            }
            Action::Sample {
                variable,
                distribution,
            } => {
                let value = script.written(draw(distribution, &mut self.rng));
                self.set_variable(script, index, *variable, Some(value));
            }
            Action::VerifyCredentials { variable, login } => {
                let username = self.text(script, index, &login.username, trigger);
                let password = self.text(script, index, &login.password, trigger);
                let kept = self.sessions.get(index).map(|session| &session.last);
                let kept = kept.and_then(|octets| Received::read(octets).ok());
                let request = trigger.message.or(kept.as_ref());
                let is_proved =
                    request.is_some_and(|request| proves(request, &username, &password));
                let value = is_proved.then(|| b"true".to_vec());
                self.set_variable(script, index, *variable, value);
            }
            Action::Lookup {
                variable,
                table,
                key,
            } => {
                let key = self.text(script, index, key, trigger);
                let row = table.find(&key).map_or(-1.0, |row| row as f64);
                self.set_variable(script, index, *variable, Some(script.written(row)));
            }
            Action::UrlEncode(variable) => {
                let value = self.variable(index, *variable).map(url_encoded);
                self.set_variable(script, index, *variable, value);
            }
            Action::UrlDecode(variable) => {
                let value = self.variable(index, *variable).map(url_decoded);
                self.set_variable(script, index, *variable, value);
            }
            Action::Command { to, text } => {
                let octets = self.text(script, index, text, trigger);
                let to = to.clone();
                self.send_command(Command { to, octets });
            }
            Action::Media(action) => self.media.act(index, action),
            Action::Fail => return Err(Failed(Failure::Check)),
            Action::Log { text, is_warning } => {
                if self.config.traces && self.traces.len() < MOST_TRACES {
                    let text = self.text(script, index, text, trigger);
                    let is_warning = *is_warning;
                    self.traces.push_back(Trace::Logged { text, is_warning });
                }
            }
            Action::Require(condition) => {
                if !self.holds(script, index, condition, trigger) {
                    return Err(Failed(Failure::Check));
                }
            }
            Action::StartTimer(timer) => self.start_timer(script, index, *timer, trigger),
            Action::StopTimer(timer) => self.stop_timer(script, index, *timer, trigger),
        }
        Ok(())
    }

    /// Renders a text.
    pub(super) fn text(
        &mut self,
        script: &Script,
        index: u32,
        text: &[TemplatePart],
        trigger: &Trigger<'_>,
    ) -> Vec<u8> {
        if let [TemplatePart::Literal(octets)] = text {
            return octets.to_vec();
        }
        let mut out = Vec::new();
        let session_context = self.session_context(script, index, trigger);
        let Some(session) = self.sessions.get(index) else {
            return out;
        };
        let Some(connection) = self.connections.get(session.connection) else {
            return out;
        };
        let kept = Received::read(&session.last).ok();
        let context = RenderContext {
            last: trigger.message.or(kept.as_ref()),
            answered: trigger.message,
            ..RenderContext::of(
                session,
                session_context,
                (&self.identity, &self.config),
                connection,
            )
        };
        let mut state = RenderState {
            rng: &mut self.rng,
            challenges: &mut Vec::new(),
        };
        super::render::write_text(text, &context, &mut state, &mut out);
        out
    }

    /// The value of a variable.
    pub(super) fn variable(&self, index: u32, variable: Variable) -> Option<&[u8]> {
        self.sessions.get(index)?.variable(variable)
    }

    fn set_variable(
        &mut self,
        script: &Script,
        index: u32,
        variable: Variable,
        value: Option<Vec<u8>>,
    ) {
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        let variables = &mut session.extra(script).variables;
        if let Some(place) = variables.get_mut(usize::from(variable.0)) {
            *place = value.map(|mut value| {
                value.truncate(MAXIMUM_VALUE);
                value
            });
        }
    }

    /// Takes parts of a text into variables. Returns whether the pattern was found.
    fn extract(
        &mut self,
        script: &Script,
        index: u32,
        within: &Within,
        pattern: &Pattern,
        into: &[Variable],
        trigger: &Trigger<'_>,
    ) -> bool {
        let groups: Option<Vec<Option<Vec<u8>>>> = {
            let kept = self
                .sessions
                .get(index)
                .and_then(|session| Received::read(&session.last).ok());
            let message = trigger.message.or(kept.as_ref());
            let text = match within {
                Within::Message => message.map(Received::text),
                Within::Body => message.map(|message| message.body),
                Within::Line { begin, occurrence } => message.and_then(|message| {
                    let lines = message.octets.split(|octet| *octet == b'\n').skip(1);
                    let mut found = lines.filter_map(|line| line.strip_prefix(begin.as_bytes()));
                    Some(found.nth(*occurrence)?.trim_ascii())
                }),
                Within::Header { name, occurrence } => message.and_then(|message| {
                    let mut left = *occurrence;
                    let mut found = None;
                    message.each_named(name, |value| {
                        if left == 0 && found.is_none() {
                            found = Some(value);
                        }
                        left = left.saturating_sub(1);
                    });
                    found
                }),
                Within::Variable(variable) => self.variable(index, *variable),
            };
            text.and_then(|text| pattern.groups(text, into.len()))
        };
        let is_found = groups.is_some();
        let mut groups = groups.unwrap_or_default().into_iter();
        for variable in into {
            self.set_variable(script, index, *variable, groups.next().flatten());
        }
        is_found
    }

    fn start_timer(&mut self, script: &Script, index: u32, timer: u8, trigger: &Trigger<'_>) {
        let now = trigger.moment.now;
        if let Some(session) = self.sessions.get_mut(index)
            && let Some((started, _)) = session.extra(script).timers.get_mut(usize::from(timer))
        {
            started.set_once(now);
        }
    }

    fn stop_timer(&mut self, script: &Script, index: u32, timer: u8, trigger: &Trigger<'_>) {
        let received = trigger.moment.received;
        if let Some(session) = self.sessions.get_mut(index)
            && let Some((started, stopped)) =
                session.extra(script).timers.get_mut(usize::from(timer))
            && started.is_known()
        {
            stopped.set_once(received);
        }
    }
}

fn calculate(value: f64, operation: Arithmetic, operand: f64) -> f64 {
    let result = match operation {
        Arithmetic::Add => value + operand,
        Arithmetic::Subtract => value - operand,
        Arithmetic::Multiply => value * operand,
        Arithmetic::Divide => value / operand,
        Arithmetic::Assign => operand,
    };
    if result.is_finite() { result } else { 0.0 }
}

/// Whether two texts compare like this: as numbers where both are, as octets otherwise.
pub(super) fn compares(left: &[u8], comparison: Comparison, right: &[u8]) -> bool {
    let order = match (number(left), number(right)) {
        (Some(left), Some(right)) => left.total_cmp(&right),
        _ => left.cmp(right),
    };
    match comparison {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_compare_as_numbers_and_texts_as_texts() {
        assert!(compares(b"10", Comparison::Greater, b"9"));
        assert!(compares(b" 1.0 ", Comparison::Equal, b"1"));
        assert!(compares(b"a10", Comparison::Less, b"a9"));
        assert!(compares(b"1", Comparison::NotEqual, b"x"));
        assert!(!compares(b"1", Comparison::LessOrEqual, b"0.5"));
        assert!(compares(b"b", Comparison::GreaterOrEqual, b"b"));
    }

    #[test]
    fn calculating_never_gives_what_is_no_number() {
        assert_eq!(calculate(1.0, Arithmetic::Divide, 0.0), 0.0);
        assert_eq!(calculate(f64::MAX, Arithmetic::Multiply, 2.0), 0.0);
        assert_eq!(calculate(1.0, Arithmetic::Subtract, 3.0), -2.0);
        assert_eq!(number(b"inf"), None);
    }
}
