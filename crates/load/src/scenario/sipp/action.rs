//! SIPp's actions.

use super::ScriptReader;
use super::distribution;
use super::document::Element;
use super::posix::{self, Translated};
use crate::scenario::expression;
use crate::scenario::problem::hint;
use crate::script::{
    Action, Arithmetic, Check, Comparison, Condition, Login, Pattern, Slot, TemplateBuilder, Text,
    Variable, Within,
};

/// What is known here.
const NAMES: [&str; 26] = [
    "ereg",
    "assign",
    "assignstr",
    "todouble",
    "add",
    "subtract",
    "multiply",
    "divide",
    "test",
    "log",
    "warning",
    "exec",
    "trim",
    "strcmp",
    "verifyauth",
    "sample",
    "index",
    "gettimeofday",
    "error",
    "setdest",
    "closecon",
    "rtp_echo",
    "jump",
    "lookup",
    "insert",
    "replace",
];
/// More regular expressions than any scenario has.
const MOST_EXPRESSIONS: usize = 200;

impl ScriptReader {
    /// The actions within a command.
    pub(super) fn actions(&mut self, command: &Element<'_>) -> Vec<Action> {
        let mut actions = Vec::new();
        let mut children = command.children();
        let first = children.next();
        let (first, passed_over) = match first {
            Some(first) if first.name() != "action" => (None, Some(first)),
            first => (first, None),
        };
        for child in passed_over.into_iter().chain(children) {
            child.remark(format_args!(
                "<{}> within <{}> is passed over, as SIPp does: only one <action> is read, and nothing stands before it",
                child.name(),
                command.name()
            ));
        }
        if let Some(first) = first {
            for action in first.children() {
                self.action(&action, &mut actions);
                action.finish();
            }
            first.finish();
        }
        actions
    }

    fn action(&mut self, element: &Element<'_>, actions: &mut Vec<Action>) {
        match element.name() {
            "ereg" => actions.extend(self.ereg(element)),
            "assignstr" => {
                let variable = self.assigned(element);
                let text = element
                    .required("value")
                    .map(|text| self.attribute_text(element, text, actions));
                if let (Some(variable), Some(to)) = (variable, text) {
                    actions.push(Action::Set { variable, to });
                }
            }
            "assign" => self.calculate(element, Arithmetic::Assign, actions),
            "todouble" => self.calculate(element, Arithmetic::Assign, actions),
            "add" => self.calculate(element, Arithmetic::Add, actions),
            "subtract" => self.calculate(element, Arithmetic::Subtract, actions),
            "multiply" => self.calculate(element, Arithmetic::Multiply, actions),
            "divide" => self.calculate(element, Arithmetic::Divide, actions),
            "test" => self.test(element, actions),
            "strcmp" => self.compare_texts(element, actions),
            "verifyauth" => self.verify_credentials(element, actions),
            "sample" => {
                let variable = self.assigned(element);
                let distribution = distribution::named(element);
                if let (Some(variable), Some(distribution)) = (variable, distribution) {
                    actions.push(Action::Sample {
                        variable,
                        distribution,
                    });
                }
            }
            "index" => {
                let variable = self.assigned(element);
                actions.extend(variable.map(|variable| assigned_number(variable, Slot::Step)));
            }
            "gettimeofday" => self.get_time_of_day(element, actions),
            "trim" => actions.extend(self.trim(element)),
            "error" => {
                element.remark("<error> ends the call as failed, not the run");
                self.log(element, true, actions);
                actions.push(Action::Fail);
            }
            "setdest" => {
                element.ignore(&["host", "port", "protocol"]);
                element.remark(
                    "<setdest> is not followed: all messages go to where the run sends them",
                );
            }
            "closecon" => element.remark("<closecon> is not followed: the connection stays open"),
            "rtp_echo" => self.rtp_echo(element, actions),
            "log" => self.log(element, false, actions),
            "warning" => self.log(element, true, actions),
            "exec" => self.exec(element, actions),
            "jump" => self.jump_to(element, actions),
            "pauserestore" => {
                element.ignore(&["value", "variable"]);
                element.remark("<pauserestore> changes nothing: a pause that has ended is over");
            }
            "lookup" => self.lookup(element, actions),
            known @ ("insert" | "replace") => {
                element.ignore(&["file", "line", "value"]);
                element.remark(format_args!(
                    "<{known}> is not followed: injection files stay as they were read"
                ));
            }
            "urlencode" | "urldecode" => {
                let variable = element.required("variable");
                let variable = variable.map(|name| self.assembly.variable(name));
                actions.extend(variable.map(match element.name() {
                    "urlencode" => Action::UrlEncode,
                    _ => Action::UrlDecode,
                }));
            }
            unknown => element.problem(format_args!(
                "there is no action <{unknown}>: {}",
                hint(unknown, &NAMES)
            )),
        }
    }

    fn log(&mut self, element: &Element<'_>, is_warning: bool, actions: &mut Vec<Action>) {
        if let Some(text) = element.required("message") {
            let text = self.attribute_text(element, text, actions);
            actions.push(Action::Log { text, is_warning });
        }
    }

    fn ereg(&mut self, element: &Element<'_>) -> Option<Action> {
        let pattern = element
            .required("regexp")
            .and_then(|text| self.expression(element, text));
        let header = element.attribute("header");
        let variable = element.attribute("variable");
        // A typing error that SIPp's own documentation has.
        let occurrence = element
            .leading_digits("occurrence")
            .or_else(|| element.leading_digits("occurence"));
        element.ignore(&["case_indep", "start_line"]);
        let within = match element.attribute("search_in").unwrap_or("msg") {
            "msg" => Some(Within::Message),
            "body" => Some(Within::Body),
            "hdr" => header_field(element, header, occurrence.unwrap_or(1).saturating_sub(1)),
            "var" => match variable {
                Some(name) => Some(Within::Variable(self.assembly.variable(name))),
                None => {
                    element.problem("search_in=\"var\" needs an attribute variable=\"…\"");
                    None
                }
            },
            _ => {
                element.refuse("search_in", "\"msg\", \"hdr\", \"body\" or \"var\"");
                None
            }
        };
        let check = check(element);
        let into = self.variables(element.attribute("assign_to").unwrap_or_default());
        Some(Action::Extract {
            within: within?,
            pattern: pattern?,
            into,
            check,
        })
    }

    fn expression(&mut self, element: &Element<'_>, posix: &str) -> Option<Pattern> {
        self.expressions += 1;
        if self.expressions > MOST_EXPRESSIONS {
            if self.expressions == MOST_EXPRESSIONS + 1 {
                element.problem(format_args!(
                    "more than {MOST_EXPRESSIONS} regular expressions"
                ));
            }
            return None;
        }
        // What is within reach of a dot: SIPp's expressions know no lines.
        let translated = posix::translated(posix);
        let expression = translated.and_then(|translated| {
            let Translated {
                text,
                letters,
                refers_back,
            } = translated;
            for letter in letters {
                element.remark(format_args!(
                    "regexp=\"{posix}\": \\{letter} means the letter {letter}, as in SIPp: a digit is [0-9]"
                ));
            }
            match refers_back {
                true => Pattern::backtracking(&format!("(?s){text}")),
                false => expression::compiled(&format!("(?s-u){text}")).map(Pattern::from),
            }
        });
        match expression {
            Ok(expression) => Some(expression),
            Err(error) => {
                element.problem(format_args!("regexp=\"{posix}\": {error}"));
                None
            }
        }
    }

    fn calculate(
        &mut self,
        element: &Element<'_>,
        operation: Arithmetic,
        actions: &mut Vec<Action>,
    ) {
        let variable = self.assigned(element);
        let operand = self.operand(element, ["value", "variable"]);
        if let (Some(variable), Some(operand)) = (variable, operand) {
            actions.push(Action::Calculate {
                variable,
                operation,
                operand,
            });
        }
    }

    /// The variable that an action with a check assigns to: one of its own where it only checks.
    fn assigned_or_own(&mut self, element: &Element<'_>, has_check: bool) -> Option<Variable> {
        match element.attribute("assign_to") {
            None if has_check => Some(self.assembly.own_variable("of a check")),
            _ => self.assigned(element),
        }
    }

    fn test(&mut self, element: &Element<'_>, actions: &mut Vec<Action>) {
        let check = check(element);
        let variable = self.assigned_or_own(element, check.is_some());
        let condition = self.comparison(element);
        if let (Some(variable), Some(condition)) = (variable, condition) {
            actions.push(Action::Test {
                variable,
                condition,
            });
            actions.extend(check.map(|check| {
                Action::Require(match check {
                    Check::Matches => Condition::IsSet(variable),
                    Check::MatchesNot => Condition::IsUnset(variable),
                })
            }));
        }
    }

    /// Texts are equal where the result is 0.
    fn compare_texts(&mut self, element: &Element<'_>, actions: &mut Vec<Action>) {
        let check = check(element);
        let variable = self.assigned_or_own(element, check.is_some());
        let left = element.required("variable");
        let left = left.map(|name| self.assembly.variable(name));
        let right = match (element.attribute("value"), element.attribute("variable2")) {
            (Some(value), None) => Some(TemplateBuilder::default().literal(value).into_text()),
            (None, Some(name)) => Some(slot(Slot::Variable(self.assembly.variable(name)))),
            _ => {
                element.problem("<strcmp> needs one of value=\"…\" and variable2=\"…\"");
                None
            }
        };
        let (Some(variable), Some(left), Some(right)) = (variable, left, right) else {
            return;
        };
        actions.push(Action::CompareTexts {
            variable,
            left,
            right,
        });
        actions.extend(check.map(|check| {
            Action::Require(Condition::Compares {
                left: slot(Slot::Variable(variable)),
                comparison: match check {
                    Check::Matches => Comparison::Equal,
                    Check::MatchesNot => Comparison::NotEqual,
                },
                right: TemplateBuilder::default().literal("0").into_text(),
            })
        }));
    }

    fn verify_credentials(&mut self, element: &Element<'_>, actions: &mut Vec<Action>) {
        let variable = self.assigned(element);
        let username = element.required("username");
        let password = element.required("password");
        let (Some(variable), Some(username), Some(password)) = (variable, username, password)
        else {
            return;
        };
        let login = Login {
            username: self.attribute_text(element, username, actions),
            password: self.attribute_text(element, password, actions),
        };
        actions.push(Action::VerifyCredentials { variable, login });
    }

    /// `<jump value="N"/>`: it goes on with the command of this number, counted from 0, labels apart.
    fn jump_to(&mut self, element: &Element<'_>, actions: &mut Vec<Action>) {
        if let Some(operand) = self.operand(element, ["value", "variable"]) {
            actions.push(Action::Calculate {
                variable: self.jump_variable(),
                operation: Arithmetic::Assign,
                operand,
            });
            self.jumps = true;
        }
    }

    /// `<lookup assign_to="row" file="users.csv" key="[$name]"/>`.
    fn lookup(&mut self, element: &Element<'_>, actions: &mut Vec<Action>) {
        let variable = self.assigned(element);
        let key = element.required("key");
        let key = key.map(|key| self.attribute_text(element, key, actions));
        let table = element.required("file").map(|file| self.table(file));
        match table {
            Some(Err(error)) => element.problem(error),
            Some(Ok(Some(table))) => {
                if let (Some(variable), Some(key)) = (variable, key) {
                    actions.push(Action::Lookup {
                        variable,
                        table,
                        key,
                    });
                }
            }
            Some(Ok(None)) | None => {}
        }
    }

    fn get_time_of_day(&mut self, element: &Element<'_>, actions: &mut Vec<Action>) {
        let variables = self.variables(element.attribute("assign_to").unwrap_or_default());
        let [seconds, microseconds] = variables.as_slice() else {
            element.refuse("assign_to", "two variables, for seconds and microseconds,");
            return;
        };
        for (variable, part) in [
            (*seconds, Slot::UnixSeconds),
            (*microseconds, Slot::Microseconds),
        ] {
            actions.push(assigned_number(variable, part));
        }
    }

    fn comparison(&mut self, element: &Element<'_>) -> Option<Condition> {
        let left = element.required("variable");
        let left = left.map(|name| slot(Slot::Variable(self.assembly.variable(name))));
        let comparison = match element.required("compare")? {
            "equal" => Some(Comparison::Equal),
            "not_equal" => Some(Comparison::NotEqual),
            "less_than" => Some(Comparison::Less),
            "less_than_equal" => Some(Comparison::LessOrEqual),
            "greater_than" => Some(Comparison::Greater),
            "greater_than_equal" => Some(Comparison::GreaterOrEqual),
            _ => {
                element.refuse(
                    "compare",
                    "equal, not_equal, less_than, less_than_equal, greater_than or greater_than_equal",
                );
                None
            }
        };
        let right = self.operand(element, ["value", "variable2"]);
        Some(Condition::Compares {
            left: left?,
            comparison: comparison?,
            right: right?,
        })
    }

    /// White space around what is in a variable goes.
    fn trim(&mut self, element: &Element<'_>) -> Option<Action> {
        let variable = self.assigned(element)?;
        let pattern = expression::compiled(r"(?s-u)^\s*(.*?)\s*$").ok()?;
        let all = self.assembly.variable("");
        Some(Action::Extract {
            within: Within::Variable(variable),
            pattern: pattern.into(),
            into: vec![all, variable],
            check: None,
        })
    }

    fn exec(&mut self, element: &Element<'_>, actions: &mut Vec<Action>) {
        if self.media(element, actions) {
            return;
        }
        match element.attribute("int_cmd") {
            Some("stop_now" | "stop_gracefully") => {
                element.remark("the run is not stopped: its schedule says when it ends");
            }
            Some(_) => self.ends_call = true,
            None if element.attribute("command").is_some() => {
                element.remark("commands of <exec> are not run");
            }
            None => element.problem(
                "<exec> needs one of int_cmd, command, play_pcap_audio, play_dtmf, rtp_stream, rtp_echo",
            ),
        }
    }

    fn assigned(&mut self, element: &Element<'_>) -> Option<Variable> {
        let name = element.required("assign_to")?;
        self.variables(name).first().copied()
    }

    /// The variables of a list of names.
    pub(super) fn variables(&mut self, names: &str) -> Vec<Variable> {
        let names = names
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        names.map(|name| self.assembly.variable(name)).collect()
    }

    /// A number, or what is in a variable.
    fn operand(
        &mut self,
        element: &Element<'_>,
        [value, variable]: [&'static str; 2],
    ) -> Option<Text> {
        match (element.attribute(value), element.attribute(variable)) {
            // No number is 0.
            (Some(_), None) => {
                let number = element.real(value).unwrap_or(0.0);
                let text = TemplateBuilder::default().literal(number.to_string());
                Some(text.into_text())
            }
            (None, Some(name)) => Some(slot(Slot::Variable(self.assembly.variable(name)))),
            _ => {
                element.problem(format_args!(
                    "<{}> needs one of {value}=\"…\" and {variable}=\"…\"",
                    element.name()
                ));
                None
            }
        }
    }

    fn attribute_text(
        &mut self,
        element: &Element<'_>,
        text: &str,
        actions: &mut Vec<Action>,
    ) -> Text {
        let problems = &mut element.file.problems.borrow_mut();
        let (text, before) = self.text(text, element.line(), problems);
        actions.extend(before);
        text
    }
}

/// What an action checks.
fn check(element: &Element<'_>) -> Option<Check> {
    match (element.flag("check_it"), element.flag("check_it_inverse")) {
        (true, true) => {
            element.problem("check_it and check_it_inverse together cannot hold");
            None
        }
        (true, false) => Some(Check::Matches),
        (false, true) => Some(Check::MatchesNot),
        (false, false) => None,
    }
}

/// Assigns what a slot stands for as a number.
fn assigned_number(variable: Variable, number: Slot) -> Action {
    Action::Calculate {
        variable,
        operation: Arithmetic::Assign,
        operand: slot(number),
    }
}

fn slot(slot: Slot) -> Text {
    TemplateBuilder::default().slot(slot).into_text()
}

/// A header field by its name, which SIPp wants with its colon; of what is no name, the line that begins with it.
fn header_field(element: &Element<'_>, header: Option<&str>, occurrence: usize) -> Option<Within> {
    let Some(header) = header else {
        element.problem("search_in=\"hdr\" needs an attribute header=\"…\"");
        return None;
    };
    let name = header.trim().trim_end_matches(':').trim_end();
    let is_token = |octet: u8| octet.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&octet);
    if name.is_empty() || !name.bytes().all(is_token) {
        element.remark(format_args!(
            "header={header:?} is not the name of a header field: what follows it on the line that begins with it is taken, as with SIPp"
        ));
        return Some(Within::Line {
            begin: header.to_owned(),
            occurrence,
        });
    }
    Some(Within::Header {
        name: name.to_owned(),
        occurrence,
    })
}
