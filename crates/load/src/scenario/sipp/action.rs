//! SIPp's actions.

use regex::bytes::Regex;

use super::ScriptReader;
use super::document::Element;
use super::posix;
use crate::scenario::expression;
use crate::scenario::problem::hint;
use crate::script::{
    Action, Arithmetic, Check, Comparison, Condition, Slot, TemplateBuilder, Text, Variable, Within,
};

/// What is known here.
const NAMES: [&str; 15] = [
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
    "jump",
];
/// More regular expressions than any scenario has.
const MOST_EXPRESSIONS: usize = 200;

impl ScriptReader {
    /// The actions within a command.
    pub(super) fn actions(&mut self, command: &Element<'_, '_, '_>) -> Vec<Action> {
        let mut actions = Vec::new();
        for child in command.children() {
            if child.name() != "action" {
                child.problem(format_args!(
                    "<{}> within <{}>: only <action> can stand there",
                    child.name(),
                    command.name()
                ));
                continue;
            }
            for action in child.children() {
                self.action(&action, &mut actions);
                action.finish();
            }
            child.finish();
        }
        actions
    }

    fn action(&mut self, element: &Element<'_, '_, '_>, actions: &mut Vec<Action>) {
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
            "test" => actions.extend(self.test(element)),
            "trim" => actions.extend(self.trim(element)),
            "log" | "warning" => {
                element.ignore(&["message"]);
                self.remark(element, "the output of <log> and <warning> is discarded");
            }
            "exec" => self.exec(element),
            known @ ("strcmp" | "jump") => {
                element.problem(format_args!(
                    "<{known}> is not supported: use <test> with next and labels"
                ));
            }
            known @ ("sample" | "gettimeofday" | "lookup" | "insert" | "replace" | "setdest"
            | "closecon" | "verifyauth" | "index" | "urlencode" | "urldecode"
            | "rtp_echo") => {
                element.problem(format_args!("<{known}> is not supported"));
            }
            unknown => element.problem(format_args!(
                "there is no action <{unknown}>: {}",
                hint(unknown, &NAMES)
            )),
        }
    }

    fn ereg(&mut self, element: &Element<'_, '_, '_>) -> Option<Action> {
        let pattern = element
            .required("regexp")
            .and_then(|text| self.expression(element, text));
        let header = element.attribute("header");
        let variable = element.attribute("variable");
        // A typing error that SIPp's own documentation has.
        let occurrence = element
            .number::<usize>("occurrence")
            .or_else(|| element.number("occurence"));
        element.ignore(&["case_indep", "start_line"]);
        let within = match element.attribute("search_in").unwrap_or("msg") {
            "msg" => Some(Within::Message),
            "body" => Some(Within::Body),
            "hdr" => header_name(element, header).map(|name| Within::Header {
                name,
                occurrence: occurrence.unwrap_or(1).saturating_sub(1),
            }),
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
        let check = match (element.flag("check_it"), element.flag("check_it_inverse")) {
            (true, true) => {
                element.problem("check_it and check_it_inverse together cannot hold");
                None
            }
            (true, false) => Some(Check::Matches),
            (false, true) => Some(Check::MatchesNot),
            (false, false) => None,
        };
        let into = self.variables(element.attribute("assign_to").unwrap_or_default());
        Some(Action::Extract {
            within: within?,
            pattern: pattern?,
            into,
            check,
        })
    }

    fn expression(&mut self, element: &Element<'_, '_, '_>, posix: &str) -> Option<Regex> {
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
        let expression = posix::translated(posix)
            .and_then(|expression| expression::compiled(&format!("(?s-u){expression}")));
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
        element: &Element<'_, '_, '_>,
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

    fn test(&mut self, element: &Element<'_, '_, '_>) -> Option<Action> {
        let variable = self.assigned(element);
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
        Some(Action::Test {
            variable: variable?,
            condition: Condition::Compares {
                left: left?,
                comparison: comparison?,
                right: right?,
            },
        })
    }

    /// White space around what is in a variable goes.
    fn trim(&mut self, element: &Element<'_, '_, '_>) -> Option<Action> {
        let variable = self.assigned(element)?;
        let pattern = expression::compiled(r"(?s-u)^\s*(.*?)\s*$").ok()?;
        let all = self.assembly.variable("");
        Some(Action::Extract {
            within: Within::Variable(variable),
            pattern,
            into: vec![all, variable],
            check: None,
        })
    }

    fn exec(&mut self, element: &Element<'_, '_, '_>) {
        const MEDIA: [&str; 9] = [
            "play_pcap_audio",
            "play_pcap_video",
            "play_pcap_image",
            "play_pcap_text",
            "play_dtmf",
            "rtp_stream",
            "rtp_echo",
            "start_rtp_echo",
            "stop_rtp_echo",
        ];
        for name in MEDIA {
            if element.attribute(name).is_some() {
                self.remark(
                    element,
                    "media of <exec> is not played: ask the run itself for media",
                );
                element.ignore(&MEDIA);
                return;
            }
        }
        element.ignore(&["int_cmd", "command"]);
        element.problem("<exec> commands are not supported");
    }

    fn assigned(&mut self, element: &Element<'_, '_, '_>) -> Option<Variable> {
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
        element: &Element<'_, '_, '_>,
        [value, variable]: [&'static str; 2],
    ) -> Option<Text> {
        match (element.attribute(value), element.attribute(variable)) {
            (Some(_), None) => element.real(value).map(|number| {
                TemplateBuilder::default()
                    .literal(number.to_string())
                    .into_text()
            }),
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
        element: &Element<'_, '_, '_>,
        text: &str,
        actions: &mut Vec<Action>,
    ) -> Text {
        let problems = &mut element.file.problems.borrow_mut();
        let (text, before) = self.text(text, element.line(), problems);
        actions.extend(before);
        text
    }
}

fn slot(slot: Slot) -> Text {
    TemplateBuilder::default().slot(slot).into_text()
}

/// The name of a header field, which SIPp wants with its colon.
fn header_name(element: &Element<'_, '_, '_>, header: Option<&str>) -> Option<String> {
    let Some(header) = header else {
        element.problem("search_in=\"hdr\" needs an attribute header=\"…\"");
        return None;
    };
    let name = header.trim().trim_end_matches(':').trim_end();
    let is_token = |octet: u8| octet.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&octet);
    if name.is_empty() || !name.bytes().all(is_token) {
        element.refuse("header", "the name of a header field");
        return None;
    }
    Some(name.to_owned())
}
