//! SIPp's scenarios: XML, one reader a file, every message written out.
//!
//! SIPp sends what is written and matches what comes message by message; it has no transactions. So its
//! scenarios send the ACK to every final response themselves, and a request that they do not expect ends
//! the call.

mod action;
mod distribution;
mod document;
mod injection;
mod keyword;
mod media;
mod message;
mod posix;

use std::ops::RangeInclusive;
use std::time::Duration;

use sip::Method;

use self::document::{Element, File};
use super::assembly::{Assembly, Awaited, Next, Presence};
use super::problem::{Problem, Problems, hint};
use super::{Companions, METHODS, Options, expression};
use crate::script::{
    Action, Comparison, Condition, Expected, Pause, Script, Send, Slot, Step, TemplateBuilder,
    Variable,
};

/// What a file says.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) name: Option<String>,
    pub(super) script: Option<Script>,
    pub(super) remarks: Vec<Problem>,
}

/// What stands in a scenario.
const COMMANDS: [&str; 9] = [
    "send", "recv", "pause", "nop", "label", "timewait", "init", "sendCmd", "recvCmd",
];

/// Attributes that say what a screen or a file of SIPp's shows.
const SHOWN: [&str; 7] = [
    "crlf",
    "hide",
    "hiderest",
    "display",
    "counter",
    "repeat_rtd",
    "index",
];

/// The label behind the last command: no file can have a name with this character.
const THE_END: &str = "\0";

/// The variable of `<jump>`, and how many commands it reaches.
const JUMP: &str = "\0jump";
const MOST_JUMPS: usize = 500;

/// The label before a command, for `<jump>`.
fn numbered(command: usize) -> String {
    format!("\0{command}")
}

/// Whether a command has a number of its own.
fn is_counted(element: &Element<'_>) -> bool {
    matches!(
        element.name(),
        "send" | "recv" | "pause" | "nop" | "sendCmd" | "recvCmd" | "timewait"
    )
}

/// Whether a command has this action.
fn has_jump(element: &Element<'_>) -> bool {
    let mut actions = element.children().flat_map(|action| action.children());
    actions.any(|action| action.name() == "jump")
}

/// A scenario while it is read.
struct ScriptReader {
    assembly: Assembly,
    hold: Pause,
    /// Names of timers by their numbers, and whether something starts them.
    timers: Vec<(String, bool)>,
    /// Methods of transactions that have names.
    transactions: Vec<(String, Method)>,
    expressions: usize,
    /// Whether an action of the command that is read ends the call.
    ends_call: bool,
    /// Keywords of the run: `-key NAME VALUE`.
    keywords: Vec<(String, String)>,
    /// How long a message is waited for where its command does not say it.
    receive_timeout: Option<Duration>,
    auto_answers: bool,
    companions: Companions,
    tables: injection::Tables,
    /// How many commands there are that `<jump>` counts, and how many have been read.
    commands: usize,
    commands_read: usize,
    has_jumps: bool,
    /// Whether an action of the command that is read jumps.
    jumps: bool,
}

/// Reads the octets of a file.
pub(super) fn read(octets: &[u8], options: &Options) -> (Read, Problems) {
    let text = document::decoded(octets);
    let mut problems = Problems::of(octets);
    let mut remarks = Problems::of(octets);
    let Some(document) = document::parsed(&text, &mut problems, &mut remarks) else {
        return (Read::default(), problems);
    };
    let file = File::new(document, problems, remarks);
    let Some(root) = file.root() else {
        return (Read::default(), file.problems.into_inner());
    };
    let mut reader = ScriptReader {
        assembly: Assembly::default(),
        hold: options.hold.clone(),
        timers: Vec::new(),
        transactions: Vec::new(),
        expressions: 0,
        ends_call: false,
        keywords: options.keywords.clone(),
        receive_timeout: options.receive_timeout,
        auto_answers: options.auto_answers,
        companions: options.companions.clone(),
        tables: injection::Tables::new(),
        commands: root.children().filter(is_counted).count(),
        commands_read: 0,
        has_jumps: root.children().any(|command| has_jump(&command)),
        jumps: false,
    };
    let name = root.attribute("name").map(str::to_owned);
    if root.name() == "scenario" {
        reader.set_variables(&root, &options.variables);
        reader.scenario(&root);
    } else {
        root.problem(format_args!(
            "the outermost element is <{}>: <scenario> is expected",
            root.name()
        ));
    }
    let script = reader.finish(name.as_deref().unwrap_or("scenario"), &file);
    let File {
        problems, remarks, ..
    } = file;
    let read = Read {
        name,
        script,
        remarks: remarks.into_inner().into_found(),
    };
    (read, problems.into_inner())
}

impl ScriptReader {
    fn scenario(&mut self, root: &Element<'_>) {
        self.start_timers(root);
        for element in root.children() {
            self.command(&element);
            element.finish();
        }
        root.finish();
    }

    /// The variables of the run (`-set`).
    fn set_variables(&mut self, root: &Element<'_>, variables: &[(String, String)]) {
        let set = |(name, value): &(String, String)| Action::Set {
            variable: self.assembly.variable(name),
            to: TemplateBuilder::default().literal(value).into_text(),
        };
        let actions: Vec<Action> = variables.iter().map(set).collect();
        if !actions.is_empty() {
            self.push(root, vec![Step::Do(actions)]);
        }
    }

    fn command(&mut self, element: &Element<'_>) {
        element.ignore(&SHOWN);
        if is_counted(element) {
            let number = self.commands_read;
            self.commands_read += 1;
            // Only where something may lead there: before a label messages are no longer waited for together.
            if self.has_jumps {
                self.assembly.label(&numbered(number), element.line());
            }
        }
        match element.name() {
            "send" => self.send(element),
            "recv" => self.receive(element),
            "pause" => {
                let mut steps = self.work(element);
                if let Some(pause) = self.pause(element) {
                    steps.push(Step::Pause(pause));
                }
                self.push(element, steps);
            }
            "nop" => {
                let steps = self.work(element);
                self.push(element, steps);
            }
            "label" => {
                if let Some(label) = element.required("id") {
                    self.assembly.label(label, element.line());
                }
            }
            // Afterwards repeated requests are answered as before, which the engine does anyway.
            "timewait" => {
                element.ignore(&["milliseconds"]);
                let mut steps = self.work(element);
                steps.push(Step::Complete);
                self.push(element, steps);
            }
            "Global" | "User" => {
                self.variables(element.required("variables").unwrap_or_default());
                element.remark("every call has variables of its own, also these");
            }
            "Reference" => element.ignore(&["variables"]),
            "ResponseTimeRepartition" | "CallLengthRepartition" => element.ignore(&["value"]),
            "sendCmd" => self.send_command(element),
            "recvCmd" => {
                let from = element.attribute("src").map(Box::from);
                self.awaited(element, vec![Expected::Command { from }]);
            }
            "init" => {
                element.remark("every call begins with the actions of <init>");
                for child in element.children() {
                    self.command(&child);
                    child.finish();
                }
            }
            "DefaultMessage" => {
                element.ignore(&["id"]);
                element.remark("<DefaultMessage> changes nothing: RFC 3261 says what is sent");
            }
            unknown => element.problem(format_args!(
                "there is no command <{unknown}>: {}",
                hint(unknown, &COMMANDS)
            )),
        }
    }

    fn send(&mut self, element: &Element<'_>) {
        let repeated_after = element.integer("retrans");
        element.ignore(&["timeout"]);
        if repeated_after.is_some_and(|milliseconds| milliseconds != 0 && milliseconds != 500) {
            element
                .remark("the time of the first retransmission is that of the run, RFC 3261's T1");
        }
        let loss = self.loss(element);
        let begins = element.attribute("start_txn");
        element.ignore(&["ack_txn"]);
        let mut actions = self.timer_actions(element);
        actions.extend(self.actions(element));
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

    /// `<sendCmd>`: a message to another generator beside the call.
    fn send_command(&mut self, element: &Element<'_>) {
        let to = element.attribute("dest").map(Into::into);
        let mut actions = self.timer_actions(element);
        actions.extend(self.actions(element));
        let (text, line) = element.text();
        let (text, line) = message::unindented(text, line);
        let (text, before) = self.text(&text, line, &mut element.file.problems.borrow_mut());
        actions.extend(before);
        actions.push(Action::Command { to, text });
        self.push(element, vec![Step::Do(actions)]);
    }

    fn receive(&mut self, element: &Element<'_>) {
        let expected = self.expected(element);
        self.awaited(element, expected);
    }

    /// What is waited for, and what is done when it comes.
    fn awaited(&mut self, element: &Element<'_>, expected: Vec<Expected>) {
        let presence = match element.attribute("optional") {
            None | Some("false" | "0" | "") => Presence::Required,
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
        // What does not advance the state of a call may come at any time.
        let presence = match element.attribute("advance_state") {
            Some("false" | "0") if presence == Presence::Optional => Presence::Anytime,
            _ => presence,
        };
        if self.loss(element) > 0.0 {
            element.remark("loss of received messages is not supported: let the network lose them");
        }
        let mut actions = self.timer_actions(element);
        actions.extend(self.actions(element));
        let mut only_if = self.condition(element);
        let is_together = presence != Presence::Required || self.assembly.is_gathering();
        if only_if.is_some() && is_together {
            element.remark(
                "condexec is not looked at here: SIPp takes optional messages, and the one before which they may come, as they come",
            );
            only_if = None;
        }
        let timeout = element
            .integer("timeout")
            .and_then(|milliseconds| u64::try_from(milliseconds).ok())
            .filter(|milliseconds| *milliseconds > 0)
            .map(Duration::from_millis)
            .or(self.receive_timeout);
        let on_timeout = element.attribute("ontimeout").map(str::to_owned);
        if on_timeout.is_some() && timeout.is_none() {
            element.remark(
                "ontimeout is not reached without timeout=\"…\": how many milliseconds the message is waited for",
            );
        }
        let next = self.next(element);
        let next = match std::mem::take(&mut self.ends_call) {
            true => Some(Next {
                label: THE_END.to_owned(),
                when: Vec::new(),
            }),
            false => next,
        };
        let awaited = Awaited {
            line: element.line(),
            expected,
            actions,
            presence,
            next,
            timeout,
            on_timeout,
        };
        let jumps = self.jumps_now();
        if !jumps.is_empty() && awaited.presence != Presence::Required {
            element.remark(
                "<jump> behind an optional message is not followed: next=\"…\" leads to a label",
            );
        }
        let problems = &mut element.file.problems.borrow_mut();
        self.assembly.only_if(
            only_if.as_slice(),
            awaited.line,
            problems,
            |assembly, problems| {
                assembly.expect(awaited.clone(), problems);
                if awaited.presence == Presence::Required {
                    for next in &jumps {
                        assembly.jump(next, awaited.line, problems);
                    }
                }
            },
        );
    }

    fn expected(&mut self, element: &Element<'_>) -> Vec<Expected> {
        let transaction = element.attribute("response_txn");
        let is_expression = element.flag("regexp_match");
        let response = element.attribute("response").map(str::trim);
        let response = response.filter(|status| !matches!(*status, "" | "0"));
        let request = element.attribute("request");
        if response.is_none() && request.is_none() {
            element.remark("no message is what this <recv> waits for: response=\"STATUS\" or request=\"METHOD\" is missing");
        }
        let mut expected = Vec::new();
        let response_transaction = |reader: &Self| {
            let name = transaction?;
            let mut known = reader.transactions.iter().rev();
            let found = known.find(|(known, _)| known == name);
            if found.is_none() {
                element.problem(format_args!(
                    "no <send> before this has start_txn=\"{name}\""
                ));
            }
            Some(found?.1.clone())
        };
        let is_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
        if let Some(posix) = response.filter(|text| is_expression && !is_number(text)) {
            let method = response_transaction(self);
            let ranges = statuses(element, posix);
            expected.extend(ranges.into_iter().map(|statuses| Expected::Response {
                statuses,
                method: method.clone(),
            }));
        } else if response.is_some() {
            let status = element.integer("response");
            if status.is_some_and(|status| !(100..=699).contains(&status)) {
                element.remark("no response has this status: it is from 100 to 699");
            }
            if let Some(Ok(status)) = status.map(u16::try_from) {
                let method = response_transaction(self);
                expected.push(Expected::Response {
                    statuses: status..=status,
                    method,
                });
            }
        }
        match request {
            Some(expression) if is_expression => expected.extend(methods(element, expression)),
            Some(method) => {
                let is_method =
                    |octet: u8| octet.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&octet);
                if !method.bytes().all(is_method) {
                    element.remark(format_args!(
                        "no request has the method {method:?}: for an expression, regexp_match=\"true\" stands beside it"
                    ));
                }
                expected.push(Expected::Request(Method::from_name(method)));
            }
            None => {}
        }
        expected
    }

    /// The timers and actions of a command that does nothing else with messages.
    fn work(&mut self, element: &Element<'_>) -> Vec<Step> {
        let mut actions = self.timer_actions(element);
        actions.extend(self.actions(element));
        match actions.is_empty() && element.name() != "nop" {
            true => Vec::new(),
            false => vec![Step::Do(actions)],
        }
    }

    fn pause(&mut self, element: &Element<'_>) -> Option<Pause> {
        element.ignore(&["sanity_check"]);
        if let Some(name) = element.attribute("variable") {
            return Some(Pause::Variable(self.assembly.variable(name)));
        }
        distribution::pause(element, &self.hold)
    }

    /// Adds the steps of a command with its conditions.
    fn push(&mut self, element: &Element<'_>, mut steps: Vec<Step>) {
        if std::mem::take(&mut self.ends_call) {
            steps.push(Step::Complete);
        }
        let jumps = self.jumps_now();
        let only_if = self.condition(element);
        let next = self.next(element);
        let line = element.line();
        let problems = &mut element.file.problems.borrow_mut();
        self.assembly
            .only_if(only_if.as_slice(), line, problems, |assembly, problems| {
                for step in steps {
                    assembly.push(step, line, problems);
                }
                for next in jumps.iter().chain(&next) {
                    assembly.jump(next, line, problems);
                }
            });
    }

    /// Where `<jump>` counts from.
    fn jump_variable(&mut self) -> Variable {
        self.assembly.variable(JUMP)
    }

    /// What follows a command with a `<jump>`: a way to each command, for the number that the variable has.
    fn jumps_now(&mut self) -> Vec<Next> {
        if !std::mem::take(&mut self.jumps) {
            return Vec::new();
        }
        let variable = self.jump_variable();
        let equals = |number: usize| Condition::Compares {
            left: TemplateBuilder::default()
                .slot(Slot::Variable(variable))
                .into_text(),
            comparison: Comparison::Equal,
            right: TemplateBuilder::default()
                .literal(number.to_string())
                .into_text(),
        };
        // A jump behind the last command ends the call.
        let ends = (0..self.commands).map(|number| (number, numbered(number)));
        let ends = ends.chain([(self.commands, THE_END.to_owned())]);
        ends.take(MOST_JUMPS)
            .map(|(number, label)| Next {
                label,
                when: vec![equals(number)],
            })
            .collect()
    }

    /// When a command is carried out at all.
    fn condition(&mut self, element: &Element<'_>) -> Option<Condition> {
        let is_inverse = element.flag("condexec_inverse");
        let name = element.attribute("condexec")?;
        let variable = self.assembly.variable(name);
        Some(match is_inverse {
            true => Condition::IsUnset(variable),
            false => Condition::IsSet(variable),
        })
    }

    /// Where it goes on behind a command.
    fn next(&mut self, element: &Element<'_>) -> Option<Next> {
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
    fn loss(&self, element: &Element<'_>) -> f64 {
        match element.real("lost") {
            // Beyond 100 all are lost, below 0 none.
            Some(percent) => (percent / 100.0).clamp(0.0, 1.0),
            None => 0.0,
        }
    }

    /// Timers that nothing starts run from the beginning of the call.
    fn start_timers(&mut self, root: &Element<'_>) {
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

    fn timer_actions(&mut self, element: &Element<'_>) -> Vec<Action> {
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

    fn finish(&mut self, name: &str, file: &File) -> Option<Script> {
        let mut assembly = std::mem::take(&mut self.assembly);
        if assembly.is_gathering() {
            let message = "nothing follows the last message, which is optional: the call is complete without it";
            file.remarks.borrow_mut().add(1, message);
        }
        assembly.expect_to_the_end(&mut file.problems.borrow_mut());
        assembly.label(THE_END, 1);
        let script = assembly.finish(name, &mut file.problems.borrow_mut())?;
        let timers = self.timers.iter().map(|(name, _)| name.clone());
        let script = script.with_timer_names(timers.collect());
        let script = script
            .acknowledging_failures()
            .strict()
            .expecting_provisional()
            .with_fractions();
        Some(match self.auto_answers {
            true => script.auto_answering(),
            false => script,
        })
    }
}

/// Timers are named in a list; `false` names none.
fn names(list: Option<&str>) -> impl Iterator<Item = &str> {
    let names = list.unwrap_or_default().split(',').map(str::trim);
    names.filter(|name| !name.is_empty() && *name != "false")
}

/// The expression of an attribute for which `regexp_match` stands beside it.
fn matching(element: &Element<'_>, name: &str, posix: &str) -> Option<regex::bytes::Regex> {
    let compiled =
        posix::translated(posix).and_then(|expression| expression::compiled(&expression.text));
    compiled
        .map_err(|error| element.problem(format_args!("{name}=\"{posix}\": {error}")))
        .ok()
}

/// The statuses that an expression means (SIPp 3.7).
fn statuses(element: &Element<'_>, posix: &str) -> Vec<RangeInclusive<u16>> {
    let Some(expression) = matching(element, "response", posix) else {
        return Vec::new();
    };
    let mut ranges: Vec<RangeInclusive<u16>> = Vec::new();
    for status in 100..=699u16 {
        if !expression.is_match(status.to_string().as_bytes()) {
            continue;
        }
        match ranges.last_mut() {
            Some(last) if *last.end() + 1 == status => *last = *last.start()..=status,
            _ => ranges.push(status..=status),
        }
    }
    if ranges.is_empty() {
        element.remark(format_args!(
            "response=\"{posix}\" means no status from 100 to 699"
        ));
    }
    ranges
}

/// The methods that an expression means.
fn methods(element: &Element<'_>, posix: &str) -> Vec<Expected> {
    let Some(expression) = matching(element, "request", posix) else {
        return Vec::new();
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
