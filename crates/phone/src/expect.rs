//! Calls compared with what was expected of them: a test tool for dial plans.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::command::Command;
use crate::event::PhoneEvent;
use crate::event_names::events;
use crate::phone::Phone;

/// How long an event is waited for unless a step says otherwise.
const WITHIN: Duration = Duration::from_secs(10);
/// Events that are named beside the one that did not come.
const MAX_NAMED: usize = 20;
/// The longest wait, in seconds: a day.
const MAX_SECONDS: f64 = 86_400.0;

/// What is done, and which events are expected, in order.
#[derive(Clone, Debug)]
pub struct Scenario {
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
enum Step {
    Do(Command),
    Wait(Duration),
    /// An event with these fields comes in time.
    Expect(Wanted, Duration),
    /// It does not.
    Never(Wanted, Duration),
}

/// An event by its name and some of its fields.
#[derive(Clone, Debug)]
struct Wanted {
    event: String,
    fields: Map<String, Value>,
}

/// Why a scenario cannot be read; the text names the step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ScenarioError(String);

/// The first step that did not go as was expected.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Its number, from 1 on.
    pub step: usize,
    /// What was expected, and what came instead.
    pub problem: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "step {}: {}", self.step, self.problem)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    step: Vec<Map<String, Value>>,
}

impl Scenario {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn read(path: &Path) -> Result<Scenario, ScenarioError> {
        let problem = |problem: String| ScenarioError(format!("{}: {problem}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| problem(error.to_string()))?;
        Scenario::parse(&text).map_err(|error| problem(error.0))
    }

    /// Reads a text.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        let file: File = toml::from_str(text).map_err(|error| ScenarioError(error.to_string()))?;
        let steps = file.step.into_iter().enumerate().map(|(place, fields)| {
            Step::read(fields)
                .map_err(|problem| ScenarioError(format!("step {}: {problem}", place + 1)))
        });
        Ok(Scenario {
            steps: steps.collect::<Result<_, _>>()?,
        })
    }
}

impl Step {
    fn read(mut fields: Map<String, Value>) -> Result<Step, String> {
        let time = |value: Option<Value>, name: &str| match value {
            None => Ok(WITHIN),
            Some(value) => seconds(&value)
                .ok_or_else(|| format!("{name}: a number of seconds is expected, such as 2.5")),
        };
        if let Some(command) = fields.remove("do") {
            fields.insert("command".to_owned(), command);
            let command = serde_json::from_value(Value::Object(fields));
            return command.map(Step::Do).map_err(|error| error.to_string());
        }
        if let Some(wait) = fields.remove("wait") {
            return match fields.keys().next() {
                Some(other) => Err(format!("{other}: it does not go with wait")),
                None => Ok(Step::Wait(time(Some(wait), "wait")?)),
            };
        }
        let within = time(fields.remove("within"), "within")?;
        for (key, is_wanted) in [("expect", true), ("never", false)] {
            if let Some(event) = fields.remove(key) {
                let Value::String(event) = event else {
                    return Err(format!("{key}: the name of an event is expected"));
                };
                if fields.contains_key("expect") || fields.contains_key("never") {
                    return Err("expect and never exclude each other".to_owned());
                }
                check_names(&event, &fields)?;
                let wanted = Wanted { event, fields };
                return Ok(match is_wanted {
                    true => Step::Expect(wanted, within),
                    false => Step::Never(wanted, within),
                });
            }
        }
        Err("one of do, wait, expect and never is missing".to_owned())
    }
}

/// Says which events or fields there are instead of one that there is not.
fn check_names(event: &str, fields: &Map<String, Value>) -> Result<(), String> {
    let events = events();
    let Some(known) = events.get(event) else {
        let names: Vec<&str> = events.keys().map(String::as_str).collect();
        let names = names.join(", ");
        return Err(format!("there is no event `{event}`: {names}"));
    };
    match fields.keys().find(|field| !known.contains(field)) {
        Some(field) => Err(format!(
            "{event} has no field `{field}`: {}",
            known.join(", ")
        )),
        None => Ok(()),
    }
}

fn seconds(value: &Value) -> Option<Duration> {
    let seconds = value.as_f64()?;
    (0.0..=MAX_SECONDS)
        .contains(&seconds)
        .then(|| Duration::from_secs_f64(seconds))
}

impl Wanted {
    /// Whether an event is it; if it is one of its name, what differs.
    fn compare(&self, event: &Map<String, Value>) -> Option<Vec<String>> {
        let name = event.get("event").and_then(Value::as_str);
        if name != Some(&self.event) {
            return None;
        }
        let differs = |(field, wanted): (&String, &Value)| {
            let found = event.get(field).unwrap_or(&Value::Null);
            (!fits(wanted, found)).then(|| format!("{field} is {found}, expected was {wanted}"))
        };
        Some(self.fields.iter().filter_map(differs).collect())
    }
}

/// Whether a value is the one that is wanted: equal; above or below a number, as in `"> 4.0"`; or a text with `*` for any
/// part.
fn fits(wanted: &Value, found: &Value) -> bool {
    if let (Value::Number(wanted), Value::Number(found)) = (wanted, found) {
        return wanted.as_f64() == found.as_f64();
    }
    match (wanted, found) {
        (Value::String(wanted), Value::Number(found)) => {
            let limit = |sign| wanted.strip_prefix(sign)?.trim().parse::<f64>().ok();
            let found = found.as_f64().unwrap_or(f64::NAN);
            limit('>').is_some_and(|limit| found > limit)
                || limit('<').is_some_and(|limit| found < limit)
        }
        (Value::String(wanted), Value::String(found)) => matches(wanted, found),
        _ => wanted == found,
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Follows a scenario; `tell` hears each event. The phone is off afterwards.
///
/// # Errors
///
/// What went otherwise than expected first.
pub async fn check(
    phone: &Phone,
    events: &mut mpsc::Receiver<PhoneEvent>,
    scenario: &Scenario,
    mut tell: impl FnMut(&PhoneEvent),
) -> Result<(), Difference> {
    let mut outcome = Ok(());
    for (place, step) in scenario.steps.iter().enumerate() {
        if let Err(problem) = follow(phone, events, step, &mut tell).await {
            outcome = Err(Difference {
                step: place + 1,
                problem,
            });
            break;
        }
    }
    phone.command(Command::Quit).await;
    while let Some(event) = events.recv().await {
        tell(&event);
    }
    outcome
}

async fn follow(
    phone: &Phone,
    events: &mut mpsc::Receiver<PhoneEvent>,
    step: &Step,
    tell: &mut impl FnMut(&PhoneEvent),
) -> Result<(), String> {
    let (wanted, within, is_wanted) = match step {
        Step::Do(command) => {
            return match phone.command(command.clone()).await {
                true => Ok(()),
                false => Err("the phone is off".to_owned()),
            };
        }
        // Events wait meanwhile: a later step may expect one of them.
        Step::Wait(time) => {
            tokio::time::sleep(*time).await;
            return Ok(());
        }
        Step::Expect(wanted, within) => (wanted, within, true),
        Step::Never(wanted, within) => (wanted, within, false),
    };
    let limit = Instant::now() + *within;
    let (mut nearest, mut came): (Option<Vec<String>>, Vec<String>) = (None, Vec::new());
    while let Ok(event) = timeout_at(limit, events.recv()).await {
        let Some(event) = event else {
            return Err("the phone is off".to_owned());
        };
        tell(&event);
        let Ok(Value::Object(event)) = serde_json::to_value(&event) else {
            continue;
        };
        match (wanted.compare(&event), is_wanted) {
            (Some(differences), true) if differences.is_empty() => return Ok(()),
            (Some(differences), false) if differences.is_empty() => {
                return Err(format!("{} came", Value::Object(event)));
            }
            (Some(differences), true) => nearest = Some(differences),
            _ => {}
        }
        if came.len() < MAX_NAMED {
            came.extend(
                event
                    .get("event")
                    .and_then(Value::as_str)
                    .map(str::to_owned),
            );
        }
    }
    if !is_wanted {
        return Ok(());
    }
    let seconds = within.as_secs_f64();
    let event = &wanted.event;
    Err(match nearest {
        Some(differences) => format!("{event}: {}", differences.join("; ")),
        None if came.is_empty() => format!("{event} did not come in {seconds} s; nothing came"),
        None => format!(
            "{event} did not come in {seconds} s; what came: {}",
            came.join(", ")
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_compared_as_they_are_written() {
        let fit = |wanted: Value, found: Value| fits(&wanted, &found);
        assert!(fit(180.into(), 180_u16.into()) && !fit(180.into(), 183.into()));
        assert!(fit("> 4.0".into(), 4.2.into()) && !fit("< 4.0".into(), 4.2.into()));
        assert!(fit("sip:*@h".into(), "sip:bob@h".into()));
        assert!(fit("*b*d".into(), "abcd".into()) && !fit("*b*d".into(), "abc".into()));
        assert!(!fit("bob".into(), "bobby".into()) && fit(true.into(), true.into()));
    }

    #[test]
    fn what_is_wrong_with_a_step_is_said() {
        for (text, problem) in [
            ("[[step]]\nto = \"sip:a@b\"", "step 1: one of do, wait,"),
            (
                "[[step]]\ndo = \"shout\"",
                "step 1: unknown variant `shout`",
            ),
            (
                "[[step]]\nwait = \"long\"",
                "step 1: wait: a number of seconds",
            ),
            (
                "[[step]]\nexpect = \"answered\"\nwithin = -1",
                "step 1: within: a number",
            ),
            ("[[stop]]\nwait = 1", "unknown field `stop`"),
            (
                "[[step]]\nexpect = \"answred\"",
                "step 1: there is no event `answred`: answered, ",
            ),
            (
                "[[step]]\nnever = \"answered\"\ncodek = \"pcma\"",
                "step 1: answered has no field `codek`: call, codec",
            ),
        ] {
            let error = Scenario::parse(text).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
