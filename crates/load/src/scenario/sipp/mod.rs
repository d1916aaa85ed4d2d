//! SIPp's scenarios: XML, one reader a file, every message written out.
//!
//! SIPp sends what is written and matches what comes message by message; it has no transactions. So its
//! scenarios send the ACK to every final response themselves, and a request that they do not expect ends
//! the call.

mod action;
mod document;
mod keyword;
mod message;
mod posix;

use std::time::Duration;

use sip::Method;

use self::document::{Element, File};
use super::assembly::{Assembly, Awaited, Next, Presence};
use super::problem::{Problem, Problems, hint};
use super::{METHODS, Options, expression};
use crate::script::{Action, Condition, Expected, Pause, Script, Send, Step};

/// What a file says.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) name: Option<String>,
    pub(super) script: Option<Script>,
    pub(super) remarks: Vec<Problem>,
}

/// What stands in a scenario.
const COMMANDS: [&str; 6] = ["send", "recv", "pause", "nop", "label", "timewait"];

/// Attributes that say what a screen or a file of SIPp's shows.
const SHOWN: [&str; 6] = ["crlf", "hide", "display", "counter", "repeat_rtd", "index"];

/// A scenario while it is read.
struct ScriptReader {
    assembly: Assembly,
    hold: Pause,
    /// Names of timers by their numbers, and whether something starts them.
    timers: Vec<(String, bool)>,
    /// Methods of transactions that have names.
    transactions: Vec<(String, Method)>,
    expressions: usize,
    remarks: Problems,
}

/// Reads the octets of a file.
pub(super) fn read(octets: &[u8], options: &Options) -> (Read, Problems) {
    let text = document::decoded(octets);
    let mut problems = Problems::of(octets);
    let Some(document) = document::parsed(&text, &mut problems) else {
        return (Read::default(), problems);
    };
    let file = File::new(&text, problems);
    let root = Element::new(&file, document.root_element());
    let mut reader = ScriptReader {
        assembly: Assembly::default(),
        hold: options.hold.clone(),
        timers: Vec::new(),
        transactions: Vec::new(),
        expressions: 0,
        remarks: Problems::of(octets),
    };
    let name = root.attribute("name").map(str::to_owned);
    if root.name() == "scenario" {
        reader.scenario(&root);
    } else {
        root.problem(format_args!(
            "the outermost element is <{}>: <scenario> is expected",
            root.name()
        ));
    }
    let script = reader.finish(name.as_deref().unwrap_or("scenario"), &file);
    let read = Read {
        name,
        script,
        remarks: reader.remarks.into_found(),
    };
    (read, file.problems.into_inner())
}

impl ScriptReader {
    fn scenario(&mut self, root: &Element<'_, '_, '_>) {
        self.start_timers(root);
        for element in root.children() {
            self.command(&element);
            element.finish();
        }
        root.finish();
    }

    fn command(&mut self, element: &Element<'_, '_, '_>) {
        element.ignore(&SHOWN);
        match element.name() {
            "send" => self.send(element),
            "recv" => self.receive(element),
            "pause" => {
                if let Some(pause) = self.pause(element) {
                    self.push(element, vec![Step::Pause(pause)]);
                }
            }
            "nop" => {
                let mut actions = self.timer_actions(element);
                actions.extend(self.actions(element));
                self.push(element, vec![Step::Do(actions)]);
            }
            "label" => {
                if let Some(label) = element.required("id") {
                    self.assembly.label(label, element.line());
                }
            }
            // Afterwards repeated requests are answered as before, which the engine does anyway.
            "timewait" => {
                element.ignore(&["milliseconds"]);
                self.push(element, vec![Step::Complete]);
            }
            "Global" | "User" => {
                self.variables(element.required("variables").unwrap_or_default());
                self.remark(element, "every call has variables of its own, also these");
            }
            "Reference" => element.ignore(&["variables"]),
            "ResponseTimeRepartition" | "CallLengthRepartition" => element.ignore(&["value"]),
            known @ ("sendCmd" | "recvCmd") => {
                element.ignore(&["dest", "src"]);
                element.problem(format_args!(
                    "<{known}> talks to another SIPp (third party call control), which is not supported"
                ));
            }
            "init" => element
                .problem("<init> is not supported: put its actions into a <nop> at the beginning"),
            unknown => element.problem(format_args!(
                "there is no command <{unknown}>: {}",
                hint(unknown, &COMMANDS)
            )),
        }
    }

    fn send(&mut self, element: &Element<'_, '_, '_>) {
        let repeated_after = element.number::<u32>("retrans");
        if repeated_after.is_some_and(|milliseconds| milliseconds != 0 && milliseconds != 500) {
            self.remark(
                element,
                "the time of the first retransmission is that of the run, RFC 3261's T1",
            );
        }
        let loss = self.loss(element);
        let begins = element.attribute("start_txn");
        element.ignore(&["ack_txn"]);
        let actions = self.timer_actions(element);
        let Some((template, before)) = self.template(element) else {
            // Conditions and labels are looked at nevertheless.
            self.push(element, Vec::new());
            return;
        };
        if let (Some(name), Some(method)) = (begins, template.method()) {
            self.transactions.push((name.to_owned(), method.clone()));
        }
        let mut send = Send::new(template);
        send.is_repeated = repeated_after.is_some_and(|milliseconds| milliseconds != 0);
        send.loss = loss;
        send.actions = actions;
        let mut steps = Vec::new();
        if !before.is_empty() {
            steps.push(Step::Do(before));
        }
        steps.push(Step::Send(send));
        self.push(element, steps);
    }

    fn receive(&mut self, element: &Element<'_, '_, '_>) {
        let expected = self.expected(element);
        let presence = match element.attribute("optional") {
            None | Some("false" | "0") => Presence::Required,
            Some("true" | "1") => Presence::Optional,
            Some("global") => Presence::Anytime,
            Some(_) => {
                element.refuse("optional", "\"true\", \"false\" or \"global\"");
                Presence::Optional
            }
        };
        // The engine keeps route set and challenge in any case.
        element.flag("rrs");
        element.flag("auth");
        element.flag("ignoresdp");
        if self.loss(element) > 0.0 {
            self.remark(
                element,
                "loss of received messages is not supported: let the network lose them",
            );
        }
        let mut actions = self.timer_actions(element);
        actions.extend(self.actions(element));
        let only_if = self.condition(element);
        if only_if.is_some() && presence != Presence::Required {
            element
                .problem("condexec of an optional message is not supported: use next and labels");
        }
        let timeout = element
            .number("timeout")
            .filter(|milliseconds| *milliseconds > 0)
            .map(Duration::from_millis);
        let on_timeout = element.attribute("ontimeout").map(str::to_owned);
        if on_timeout.is_some() && timeout.is_none() {
            element.problem(
                "ontimeout needs timeout=\"…\": how many milliseconds the message is waited for",
            );
        }
        let awaited = Awaited {
            line: element.line(),
            expected,
            actions,
            presence,
            next: self.next(element),
            timeout,
            on_timeout,
        };
        let problems = &mut element.file.problems.borrow_mut();
        self.assembly.only_if(
            only_if.as_slice(),
            awaited.line,
            problems,
            |assembly, problems| {
                assembly.expect(awaited.clone(), problems);
            },
        );
    }

    fn expected(&mut self, element: &Element<'_, '_, '_>) -> Vec<Expected> {
        let transaction = element.attribute("response_txn");
        let is_expression = element.flag("regexp_match");
        match (element.attribute("response"), element.attribute("request")) {
            (Some(_), None) => {
                let Some(status @ 100..=699) = element.number("response") else {
                    element.refuse("response", "a status from 100 to 699");
                    return Vec::new();
                };
                let method = transaction.and_then(|name| {
                    let mut known = self.transactions.iter().rev();
                    let found = known.find(|(known, _)| known == name);
                    if found.is_none() {
                        element.problem(format_args!(
                            "no <send> before this has start_txn=\"{name}\""
                        ));
                    }
                    Some(found?.1.clone())
                });
                vec![Expected::Response {
                    statuses: status..=status,
                    method,
                }]
            }
            (None, Some(expression)) if is_expression => methods(element, expression),
            (None, Some(method)) => {
                let is_method =
                    |octet: u8| octet.is_ascii_alphanumeric() || octet == b'_' || octet == b'-';
                if method.is_empty() || !method.bytes().all(is_method) {
                    element.refuse("request", "a method, or regexp_match=\"true\" beside it");
                }
                vec![Expected::Request(Method::from_name(method))]
            }
            _ => {
                element.problem("<recv> needs one of response=\"STATUS\" and request=\"METHOD\"");
                Vec::new()
            }
        }
    }

    fn pause(&mut self, element: &Element<'_, '_, '_>) -> Option<Pause> {
        element.ignore(&["sanity_check"]);
        let milliseconds = element.number::<u64>("milliseconds");
        let variable = element.attribute("variable");
        if let Some(name) = variable {
            return Some(Pause::Variable(self.assembly.variable(name)));
        }
        let time = |name| {
            let milliseconds = element.real(name)?;
            let time = Duration::try_from_secs_f64(milliseconds / 1000.0).ok();
            if time.is_none() {
                element.refuse(name, "a number of milliseconds");
            }
            time
        };
        let pause = match element.attribute("distribution") {
            None => match milliseconds {
                Some(milliseconds) => Some(Pause::Fixed(Duration::from_millis(milliseconds))),
                None => Some(self.hold.clone()),
            },
            Some("fixed") => time("value").map(Pause::Fixed),
            Some("uniform") => match (time("min"), time("max")) {
                (Some(least), Some(most)) if least <= most => Some(Pause::Uniform(least, most)),
                _ => None,
            },
            Some("normal") => match (time("mean"), time("stdev")) {
                (Some(mean), Some(deviation)) => Some(Pause::Normal { mean, deviation }),
                _ => None,
            },
            Some("exponential") => time("mean").map(|mean| Pause::Exponential { mean }),
            Some(_) => {
                element.refuse("distribution", "fixed, uniform, normal or exponential");
                element.ignore(&[
                    "value", "min", "max", "mean", "stdev", "lambda", "k", "x_m", "theta", "p", "n",
                ]);
                return None;
            }
        };
        if pause.is_none() {
            element.problem(
                "a pause has value (fixed), min and max (uniform), mean and stdev (normal) or mean (exponential), \
                 in milliseconds",
            );
        }
        pause
    }

    /// Adds the steps of a command with its conditions.
    fn push(&mut self, element: &Element<'_, '_, '_>, steps: Vec<Step>) {
        let only_if = self.condition(element);
        let next = self.next(element);
        let line = element.line();
        let problems = &mut element.file.problems.borrow_mut();
        self.assembly
            .only_if(only_if.as_slice(), line, problems, |assembly, problems| {
                for step in steps {
                    assembly.push(step, line, problems);
                }
                if let Some(next) = &next {
                    assembly.jump(next, line, problems);
                }
            });
    }

    /// When a command is carried out at all.
    fn condition(&mut self, element: &Element<'_, '_, '_>) -> Option<Condition> {
        let is_inverse = element.flag("condexec_inverse");
        let name = element.attribute("condexec")?;
        let variable = self.assembly.variable(name);
        Some(match is_inverse {
            true => Condition::IsUnset(variable),
            false => Condition::IsSet(variable),
        })
    }

    /// Where it goes on behind a command.
    fn next(&mut self, element: &Element<'_, '_, '_>) -> Option<Next> {
        let mut when = Vec::new();
        if let Some(name) = element.attribute("test") {
            when.push(Condition::IsSet(self.assembly.variable(name)));
        }
        if let Some(chance) = element.real("chance") {
            when.push(Condition::Chance(chance.clamp(0.0, 1.0)));
        }
        Some(Next {
            label: element.attribute("next")?.to_owned(),
            when,
        })
    }

    /// The share of messages that are lost, given in per cent.
    fn loss(&self, element: &Element<'_, '_, '_>) -> f64 {
        match element.real("lost") {
            Some(percent) if (0.0..=100.0).contains(&percent) => percent / 100.0,
            Some(_) => {
                element.refuse("lost", "per cent, 0 to 100,");
                0.0
            }
            None => 0.0,
        }
    }

    /// Timers that nothing starts run from the beginning of the call.
    fn start_timers(&mut self, root: &Element<'_, '_, '_>) {
        for element in root.children() {
            for name in names(element.attribute("start_rtd")) {
                self.timer(name, true);
            }
            for name in names(element.attribute("rtd")) {
                self.timer(name, false);
            }
        }
        let mut actions = Vec::new();
        for (number, (_, is_started)) in (0..).zip(&self.timers) {
            if !is_started {
                actions.push(Action::StartTimer(number));
            }
        }
        if !actions.is_empty() {
            self.push(root, vec![Step::Do(actions)]);
        }
    }

    fn timer_actions(&mut self, element: &Element<'_, '_, '_>) -> Vec<Action> {
        let mut actions = Vec::new();
        for name in names(element.attribute("start_rtd")) {
            actions.push(Action::StartTimer(self.timer(name, true)));
        }
        for name in names(element.attribute("rtd")) {
            actions.push(Action::StopTimer(self.timer(name, false)));
        }
        actions
    }

    fn timer(&mut self, name: &str, is_started: bool) -> u8 {
        // SIPp's first timer has no other name.
        let name = if name == "true" { "1" } else { name };
        let known = self.timers.iter().position(|(known, _)| known == name);
        let number = known.unwrap_or_else(|| {
            // One too many is refused with the script.
            if self.timers.len() < usize::from(u8::MAX) {
                self.timers.push((name.to_owned(), false));
            }
            self.timers.len() - 1
        });
        if let Some((_, started)) = self.timers.get_mut(number) {
            *started |= is_started;
        }
        u8::try_from(number).unwrap_or(u8::MAX)
    }

    /// Notes what is not done, or done otherwise.
    fn remark(&mut self, element: &Element<'_, '_, '_>, message: &str) {
        self.remarks.add(element.line(), message);
    }

    fn finish(&mut self, name: &str, file: &File) -> Option<Script> {
        let assembly = std::mem::take(&mut self.assembly);
        let script = assembly.finish(name, &mut file.problems.borrow_mut())?;
        let timers = self.timers.iter().map(|(name, _)| name.clone());
        let script = script.with_timer_names(timers.collect());
        Some(script.acknowledging_failures().strict())
    }
}

/// Timers are named in a list; `false` names none.
fn names(list: Option<&str>) -> impl Iterator<Item = &str> {
    let names = list.unwrap_or_default().split(',').map(str::trim);
    names.filter(|name| !name.is_empty() && *name != "false")
}

/// The methods that an expression means.
fn methods(element: &Element<'_, '_, '_>, posix: &str) -> Vec<Expected> {
    let compiled =
        posix::translated(posix).and_then(|expression| expression::compiled(&expression));
    let expression = match compiled {
        Ok(expression) => expression,
        Err(error) => {
            element.problem(format_args!("request=\"{posix}\": {error}"));
            return Vec::new();
        }
    };
    let meant = METHODS
        .into_iter()
        .filter(|method| expression.is_match(method.as_bytes()));
    let expected: Vec<Expected> = meant
        .map(|method| Expected::Request(Method::from_name(method)))
        .collect();
    if expected.is_empty() {
        element.problem(format_args!(
            "request=\"{posix}\" means none of {}",
            METHODS.join(", ")
        ));
    }
    expected
}

#[cfg(test)]
mod tests;
