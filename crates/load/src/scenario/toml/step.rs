//! One step of a file, which says with one of its keys what it does.

use std::collections::BTreeMap;
use std::time::Duration;

use ::toml::de::DeValue;
use sip::Method;

use super::super::METHODS;
use super::table::{File, Table, Value};
use crate::scenario::assembly::{Assembly, Awaited, Next, Presence};
use crate::scenario::problem::hint;
use crate::script::{
    Action, Arithmetic, Condition, Distribution, Expected, Pause, Script, Send, Slot, Source,
    Start, Step, Template, Text, Variable,
};

/// What of a step says what it does.
const KINDS: [&str; 9] = [
    "send", "message", "expect", "pause", "set", "add", "check", "goto", "end",
];
/// Those that only work on variables.
const OF_VARIABLES: [&str; 3] = ["set", "add", "check"];
/// More regular expressions than any scenario has.
const MOST_EXPRESSIONS: usize = 200;

/// One side of a scenario while it is read.
pub(super) struct ScriptReader {
    pub(super) assembly: Assembly,
    /// Names of all variables of this side, with a line on which each is assigned.
    pub(super) names: BTreeMap<String, usize>,
    /// How long a message is waited for where the step does not say.
    pub(super) within: Option<Duration>,
    /// What `pause = "hold"` means.
    pub(super) hold: Pause,
    /// The request with which the side begins, when it waits for one.
    pub(super) first_method: Option<Method>,
    /// The request that was waited for last.
    pub(super) last_method: Option<Method>,
    /// Names of timers, by their numbers.
    pub(super) timers: Vec<String>,
    /// Regular expressions so far.
    pub(super) expressions: usize,
}

/// Names of the variables that steps assign.
pub(super) fn assigned(steps: &[Table<'_, '_>]) -> BTreeMap<String, usize> {
    let keys = ["set", "add", "save"].into_iter();
    let tables = steps.iter().flat_map(|step| {
        keys.clone()
            .filter(|key| step.has(key))
            .filter_map(|key| step.value(key))
            .filter(|value| value.get().is_table())
    });
    tables
        .flat_map(|value| value.entries())
        .map(|entry| name(&entry))
        .collect()
}

/// The name of a variable, and where it stands.
pub(super) fn name(entry: &Value<'_, '_>) -> (String, usize) {
    (entry.key().to_owned(), entry.line())
}

impl ScriptReader {
    /// Whether names of variables can be told from those that there are anyway.
    pub(super) fn check_names(&self, file: &File<'_>) {
        for (name, line) in &self.names {
            let mut characters = name.chars();
            let is_name = characters
                .next()
                .is_some_and(|first| first.is_ascii_alphabetic())
                && characters.all(|other| other.is_ascii_alphanumeric() || other == '_');
            if !is_name {
                let message = format_args!(
                    "\"{name}\" is not a name of a variable: letters, digits and _ are, a letter first"
                );
                file.problem(*line, message);
            } else if Slot::by_name(name).is_some() {
                let message =
                    format_args!("a variable cannot be called \"{name}\": {{{name}}} is a slot");
                file.problem(*line, message);
            }
        }
    }

    /// Reads a step.
    pub(super) fn step(&mut self, table: &Table<'_, '_>) {
        if let Some(label) = table.value("label")
            && let Some(name) = label.text()
        {
            self.assembly.label(name, label.line());
        }
        let conditions = self.conditions(table);
        let kinds: Vec<&str> = KINDS
            .into_iter()
            .filter(|kind| table.has(kind) && *kind != "goto")
            .collect();
        let goto = self.goto(table);
        // What works on variables can follow a message that was expected.
        let is_one = match kinds.as_slice() {
            ["expect", others @ ..] => others.iter().all(|kind| OF_VARIABLES.contains(kind)),
            all => all.len() <= 1 || all.iter().all(|kind| OF_VARIABLES.contains(kind)),
        };
        if !is_one {
            let kinds = kinds.join(" and ");
            table.problem(format_args!(
                "a step does one thing: {kinds} are steps of their own"
            ));
            return;
        }
        let Some(kind) = kinds.first() else {
            match goto {
                Some(label) => self.leave(table, label, conditions),
                None if table.has("label") => {}
                None => table.problem(format_args!(
                    "the step does nothing: it needs one of {}",
                    KINDS.join(", ")
                )),
            }
            return;
        };
        if *kind == "expect" {
            self.expect(table, goto, conditions);
            return;
        }
        let Some(steps) = self.steps(table, kind) else {
            return;
        };
        let line = table.line;
        let file = table.file;
        let goto = goto.map(|label| Next {
            label,
            when: Vec::new(),
        });
        file.with_problems(|problems| {
            self.assembly
                .only_if(&conditions, line, problems, |assembly, problems| {
                    for step in steps {
                        assembly.push(step, line, problems);
                    }
                    if let Some(next) = &goto {
                        assembly.jump(next, line, problems);
                    }
                });
        });
    }

    /// Adds a step.
    pub(super) fn push(&mut self, step: Step, table: &Table<'_, '_>) {
        table
            .file
            .with_problems(|problems| self.assembly.push(step, table.line, problems));
    }

    /// The script.
    pub(super) fn finish(self, name: &str, table: &Table<'_, '_>) -> Option<Script> {
        let ScriptReader {
            assembly, timers, ..
        } = self;
        let script = table
            .file
            .with_problems(|problems| assembly.finish(name, problems))?;
        Some(script.with_timer_names(timers).expecting_provisional())
    }

    /// The steps that one of a kind stands for.
    fn steps(&mut self, table: &Table<'_, '_>, kind: &str) -> Option<Vec<Step>> {
        Some(match kind {
            "send" => vec![self.send(table)?],
            "message" => {
                let template = self.whole_message(table)?;
                vec![self.sending(table, template)]
            }
            "pause" => vec![Step::Pause(self.pause(table.value("pause")?)?)],
            "end" => vec![end(&table.value("end")?)?],
            // What works on variables.
            _ => vec![Step::Do(self.actions(table))],
        })
    }

    fn send(&mut self, table: &Table<'_, '_>) -> Option<Step> {
        let value = table.value("send")?;
        if let DeValue::Integer(_) = value.get() {
            let status = value
                .integer()
                .and_then(|status| u16::try_from(status).ok());
            let Some(status @ 100..=699) = status else {
                value.refuse("a method in quotes or a status from 100 to 699");
                return None;
            };
            let template = self.response(table, status)?;
            return Some(self.sending(table, template));
        }
        let method = self.method(&value)?;
        if method == Method::Cancel {
            return Some(Step::Cancel);
        }
        let template = self.request(table, &method)?;
        Some(self.sending(table, template))
    }

    fn sending(&mut self, table: &Table<'_, '_>, template: Template) -> Step {
        let is_response = matches!(template.start(), Start::Response(_));
        let mut send = Send::new(template);
        send.is_repeated = table.flag("repeat", true);
        if let Some(value) = table.value("loss")
            && let Some(loss) = probability(&value)
        {
            send.loss = loss;
        }
        if is_response && let Some(value) = table.value("answering") {
            send.answers = self.answered(&value).unwrap_or(Source::Last);
        }
        send.actions = self.timer_actions(table);
        Step::Send(send)
    }

    /// Which request is meant by its method.
    fn answered(&self, value: &Value<'_, '_>) -> Option<Source> {
        let method = Some(self.method(value)?);
        if method == self.last_method {
            return Some(Source::Last);
        }
        if method == self.first_method {
            return Some(Source::First);
        }
        value.problem(
            "a response answers the request that was expected last, or the one with which the steps begin: \
             neither has this method",
        );
        None
    }

    fn expect(&mut self, table: &Table<'_, '_>, goto: Option<String>, conditions: Vec<Condition>) {
        let Some(value) = table.value("expect") else {
            return;
        };
        let answering = table.value("answering");
        let answering = answering.and_then(|value| self.method(&value));
        let expected: Vec<Expected> = value
            .each()
            .iter()
            .filter_map(|value| self.expected(value, answering.as_ref()))
            .collect();
        if let Some(Expected::Request(method)) = expected.first() {
            self.last_method = Some(method.clone());
            if self.assembly.is_empty() {
                self.first_method = Some(method.clone());
            }
        }
        let presence = match (table.flag("optional", false), table.flag("anytime", false)) {
            (_, true) => Presence::Anytime,
            (true, false) => Presence::Optional,
            (false, false) => Presence::Required,
        };
        if presence != Presence::Required && !conditions.is_empty() {
            table.problem("an optional message cannot have \"if\": jump around it");
        }
        let mut actions = self.timer_actions(table);
        actions.extend(self.actions(table));
        let otherwise = table.text("otherwise").map(str::to_owned);
        let awaited = Awaited {
            line: table.line,
            expected,
            actions,
            presence,
            next: goto.map(|label| Next {
                label,
                when: Vec::new(),
            }),
            timeout: table.duration("within").or(self.within),
            on_timeout: otherwise,
        };
        if awaited.on_timeout.is_some() && awaited.timeout.is_none() {
            table.problem("\"otherwise\" needs \"within\": how long the message is waited for");
        }
        let line = table.line;
        table.file.with_problems(|problems| {
            let only_if = conditions.as_slice();
            self.assembly
                .only_if(only_if, line, problems, |assembly, problems| {
                    assembly.expect(awaited, problems);
                });
        });
    }

    /// `"BYE"`, `200`, `"2xx"`, `"180-189"`.
    fn expected(&self, value: &Value<'_, '_>, answering: Option<&Method>) -> Option<Expected> {
        let range = match value.get() {
            DeValue::Integer(_) => value
                .integer()
                .and_then(|status| u16::try_from(status).ok())
                .map(|status| status..=status),
            _ => value.text().and_then(statuses),
        };
        match range {
            Some(statuses) if *statuses.start() >= 100 && *statuses.end() <= 699 => {
                Some(Expected::Response {
                    statuses,
                    method: answering.cloned(),
                })
            }
            Some(_) => {
                value.refuse("a status from 100 to 699");
                None
            }
            None => self.method(value).map(Expected::Request),
        }
    }

    fn method(&self, value: &Value<'_, '_>) -> Option<Method> {
        let text = value.text()?;
        let is_token = |octet: u8| octet.is_ascii_uppercase() || octet == b'_' || octet == b'-';
        if text.is_empty() || text.len() > 32 || !text.bytes().all(is_token) {
            value.refuse("a method in capitals, such as \"INVITE\", or a status");
            return None;
        }
        let method = Method::from_name(text);
        // Names that nobody has heard of are allowed, unless they are slips.
        if matches!(method, Method::Other(_)) {
            let hint = hint(text, &METHODS);
            if hint.starts_with("did") {
                value.problem(format_args!("there is no method {text}: {hint}"));
                return None;
            }
        }
        Some(method)
    }

    fn pause(&mut self, value: Value<'_, '_>) -> Option<Pause> {
        if value.get().is_table() {
            let table = value.table("pause")?;
            let pause = match (
                table.duration("from"),
                table.duration("to"),
                table.duration("mean"),
                table.duration("deviation"),
                table.text("variable"),
            ) {
                (Some(from), Some(to), None, None, None) if from <= to => {
                    Some(Pause::Distributed(Distribution::Uniform {
                        least: milliseconds(from),
                        most: milliseconds(to),
                    }))
                }
                (None, None, Some(mean), None, None) => {
                    Some(Pause::Distributed(Distribution::Exponential {
                        mean: milliseconds(mean),
                    }))
                }
                (None, None, Some(mean), Some(deviation), None) => {
                    Some(Pause::Distributed(Distribution::Normal {
                        mean: milliseconds(mean),
                        deviation: milliseconds(deviation),
                    }))
                }
                (None, None, None, None, Some(name)) => {
                    self.known_variable(&value, name).map(Pause::Variable)
                }
                _ => {
                    value.problem(
                        "a pause is \"2s\", { from = \"1s\", to = \"3s\" }, { mean = \"2s\" } (exponential), \
                         { mean = \"2s\", deviation = \"1s\" } (normal) or { variable = \"name\" } (milliseconds)",
                    );
                    None
                }
            };
            table.finish();
            return pause;
        }
        match value.get().as_str() {
            Some("hold") => Some(self.hold.clone()),
            Some("forever") => Some(Pause::Forever),
            _ => value.duration().map(Pause::Fixed),
        }
    }

    /// What a step does with variables, and what it demands.
    fn actions(&mut self, table: &Table<'_, '_>) -> Vec<Action> {
        let mut actions = Vec::new();
        if let Some(save) = table.value("save") {
            for entry in save.entries() {
                actions.extend(self.save(&entry));
            }
        }
        if let Some(set) = table.value("set") {
            for entry in set.entries() {
                let variable = self.assembly.variable(entry.key());
                let set = self.value_text(&entry);
                actions.extend(set.map(|to| Action::Set { variable, to }));
            }
        }
        if let Some(add) = table.value("add") {
            for entry in add.entries() {
                let variable = self.assembly.variable(entry.key());
                let operand = self.value_text(&entry);
                actions.extend(operand.map(|operand| Action::Calculate {
                    variable,
                    operation: Arithmetic::Add,
                    operand,
                }));
            }
        }
        if let Some(check) = table.value("check") {
            for check in check.each() {
                actions.extend(self.check(&check));
            }
        }
        actions
    }

    fn timer_actions(&mut self, table: &Table<'_, '_>) -> Vec<Action> {
        let mut actions = Vec::new();
        if let Some(name) = table.text("start_timer") {
            actions.push(Action::StartTimer(self.timer(name)));
        }
        if let Some(name) = table.text("stop_timer") {
            actions.push(Action::StopTimer(self.timer(name)));
        }
        actions
    }

    fn timer(&mut self, name: &str) -> u8 {
        let known = self.timers.iter().position(|known| known == name);
        let number = known.unwrap_or_else(|| {
            // One too many is refused with the script.
            if self.timers.len() < usize::from(u8::MAX) {
                self.timers.push(name.to_owned());
            }
            self.timers.len() - 1
        });
        u8::try_from(number).unwrap_or(u8::MAX)
    }

    /// A value as text with slots: a number stands for its digits.
    pub(super) fn value_text(&mut self, value: &Value<'_, '_>) -> Option<Text> {
        match value.get() {
            DeValue::Integer(_) | DeValue::Float(_) => {
                let number = value.number()?;
                Some(super::literal(&number.to_string()))
            }
            _ => self.text(value),
        }
    }

    /// Where a step leads.
    fn goto(&mut self, table: &Table<'_, '_>) -> Option<String> {
        table.text("goto").map(str::to_owned)
    }

    fn leave(&mut self, table: &Table<'_, '_>, label: String, when: Vec<Condition>) {
        let next = Next { label, when };
        table
            .file
            .with_problems(|problems| self.assembly.jump(&next, table.line, problems));
    }

    /// The variable of a name that some step assigns.
    pub(super) fn known_variable(&mut self, value: &Value<'_, '_>, name: &str) -> Option<Variable> {
        if self.names.contains_key(name) {
            return Some(self.assembly.variable(name));
        }
        let known: Vec<&str> = self.names.keys().map(String::as_str).collect();
        let hint = match known.is_empty() {
            true => "no step sets or saves one".to_owned(),
            false => hint(name, &known),
        };
        value.problem(format_args!(
            "no step assigns a variable \"{name}\": {hint}"
        ));
        None
    }

    /// Notes that there is one more regular expression.
    pub(super) fn count_expression(&mut self, value: &Value<'_, '_>) -> bool {
        self.expressions += 1;
        if self.expressions == MOST_EXPRESSIONS + 1 {
            value.problem(format_args!(
                "more than {MOST_EXPRESSIONS} regular expressions"
            ));
        }
        self.expressions <= MOST_EXPRESSIONS
    }
}

/// `2xx`, `180-189`, `200` as a text.
fn statuses(text: &str) -> Option<std::ops::RangeInclusive<u16>> {
    if let Some(class) = text.strip_suffix("xx") {
        let class: u16 = class.parse().ok()?;
        let first = class.checked_mul(100)?;
        return Some(first..=first.checked_add(99)?);
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some(first..=last)
}

/// `0.1` or `"10%"`.
pub(super) fn probability(value: &Value<'_, '_>) -> Option<f64> {
    let number = match value.get().as_str().and_then(|text| text.strip_suffix('%')) {
        Some(percent) => percent
            .trim()
            .parse()
            .ok()
            .map(|percent: f64| percent / 100.0),
        None => value.number(),
    };
    match number {
        Some(number) if (0.0..=1.0).contains(&number) => Some(number),
        _ => {
            value.refuse("a probability from 0 to 1, or a share such as \"10%\",");
            None
        }
    }
}

fn end(value: &Value<'_, '_>) -> Option<Step> {
    match value.text()? {
        "complete" => Some(Step::Complete),
        "failed" => Some(Step::Fail),
        _ => {
            value.refuse("\"complete\" or \"failed\"");
            None
        }
    }
}

fn milliseconds(duration: std::time::Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}
