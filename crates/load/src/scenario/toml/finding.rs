//! What of a message is looked at, kept, and demanded; and conditions.

use ::toml::de::DeValue;
use regex::bytes::Regex;

use super::step::{ScriptReader, probability};
use super::table::{Table, Value};
use crate::scenario::expression;
use crate::script::{Action, Check, Comparison, Condition, Slot, Text, Variable, Within};

/// Keys that compare, and how.
const COMPARISONS: [(&str, Comparison); 6] = [
    ("equals", Comparison::Equal),
    ("differs", Comparison::NotEqual),
    ("below", Comparison::Less),
    ("at_most", Comparison::LessOrEqual),
    ("above", Comparison::Greater),
    ("at_least", Comparison::GreaterOrEqual),
];

/// What is looked at.
enum Subject {
    /// A part of a message, or a variable.
    Within(Within),
    /// A text with slots.
    Text(Text),
}

impl ScriptReader {
    /// `name = { header = "Contact", matches = "<(.*)>" }` of `save`.
    pub(super) fn save(&mut self, entry: &Value<'_, '_>) -> Option<Action> {
        let table = entry.table("what is saved")?;
        let subject = self.subject(&table);
        let pattern = match table.value("matches") {
            Some(value) => self.expression(&value),
            // All of it.
            None => expression::compiled("(?s).*").ok(),
        };
        let group = table.value("group").map(|value| {
            let group = value
                .integer()
                .and_then(|group| usize::try_from(group).ok());
            if group.is_none() {
                value.refuse("the number of a group in parentheses");
            }
            (value, group.unwrap_or_default())
        });
        let is_required = table.flag("required", true);
        table.finish();
        let within = match subject? {
            Subject::Within(within) => within,
            Subject::Text(_) => {
                entry.problem("what is saved is found in a header, the body, the message or a variable; set = { … } writes texts");
                return None;
            }
        };
        let pattern = pattern?;
        let groups = pattern.captures_len() - 1;
        let group = match group {
            Some((value, group)) if group > groups => {
                value.refuse(&format!(
                    "a group up to {groups}, as many as the expression has,"
                ));
                return None;
            }
            Some((_, group)) => group,
            None => groups.min(1),
        };
        let variable = self.assembly.variable(entry.key());
        // Groups before the one that is wanted go where nobody looks.
        let mut into: Vec<Variable> = (0..group).map(|_| self.assembly.variable(UNUSED)).collect();
        into.push(variable);
        Some(Action::Extract {
            within,
            pattern: pattern.into(),
            into,
            check: is_required.then_some(Check::Matches),
        })
    }

    /// `{ header = "Expires", equals = "60" }` of `check`.
    pub(super) fn check(&mut self, value: &Value<'_, '_>) -> Vec<Action> {
        let Some(table) = value.table("a check") else {
            return Vec::new();
        };
        let subject = self.subject(&table);
        let mut actions = Vec::new();
        for (key, check) in [
            ("matches", Check::Matches),
            ("matches_not", Check::MatchesNot),
        ] {
            let Some(value) = table.value(key) else {
                continue;
            };
            let pattern = self.expression(&value);
            actions.extend(self.extract(&value, subject.as_ref(), pattern, check));
        }
        if let Some(value) = table.value("present") {
            let check = match table.flag("present", true) {
                true => Check::Matches,
                false => Check::MatchesNot,
            };
            let pattern = expression::compiled("").ok();
            actions.extend(self.extract(&value, subject.as_ref(), pattern, check));
        }
        let compared = self.comparisons(&table, subject.as_ref());
        actions.extend(compared.into_iter().map(Action::Require));
        table.finish();
        let demands = COMPARISONS.iter().map(|(key, _)| *key);
        let mut demands = demands.chain(["matches", "matches_not", "present"]);
        if !demands.any(|key| table.has(key)) {
            value.problem(
                "a check says what is to hold: matches, matches_not, present, equals, differs, below, at_most, \
                 above or at_least",
            );
        }
        actions
    }

    /// The conditions of `if`, all of which are to hold.
    pub(super) fn conditions(&mut self, table: &Table<'_, '_>) -> Vec<Condition> {
        let Some(value) = table.value("if") else {
            return Vec::new();
        };
        let mut conditions = Vec::new();
        for value in value.each() {
            conditions.extend(self.condition(&value));
        }
        conditions
    }

    fn condition(&mut self, value: &Value<'_, '_>) -> Vec<Condition> {
        let Some(table) = value.table("a condition") else {
            return Vec::new();
        };
        let mut conditions = Vec::new();
        if let Some(chance) = table.value("chance") {
            conditions.extend(probability(&chance).map(Condition::Chance));
            table.finish();
            return conditions;
        }
        let subject = self.subject(&table);
        if let Some(set) = table.value("set") {
            let is_set = table.flag("set", true);
            match &subject {
                Some(Subject::Within(Within::Variable(variable))) if is_set => {
                    conditions.push(Condition::IsSet(*variable));
                }
                Some(Subject::Within(Within::Variable(variable))) => {
                    conditions.push(Condition::IsUnset(*variable));
                }
                _ => set.problem("\"set\" asks whether a variable has a value"),
            }
        }
        conditions.extend(self.comparisons(&table, subject.as_ref()));
        table.finish();
        if conditions.is_empty() && subject.is_some() {
            value.problem("a condition compares: set, equals, differs, below, at_most, above, at_least, or it is a chance");
        }
        conditions
    }

    fn comparisons(&mut self, table: &Table<'_, '_>, subject: Option<&Subject>) -> Vec<Condition> {
        let mut conditions = Vec::new();
        for (key, comparison) in COMPARISONS {
            let Some(value) = table.value(key) else {
                continue;
            };
            let Some(right) = self.value_text(&value) else {
                continue;
            };
            let left = match subject {
                None => continue,
                Some(Subject::Text(text)) => text.clone(),
                Some(Subject::Within(Within::Variable(variable))) => {
                    super::slot(Slot::Variable(*variable))
                }
                Some(Subject::Within(Within::Header {
                    name,
                    occurrence: 0,
                })) => super::slot(Slot::LastValue(name.as_str().into())),
                Some(Subject::Within(_)) => {
                    value.problem(
                        "the first field of a name, a variable or a text can be compared; of anything else \
                         save a part first",
                    );
                    continue;
                }
            };
            conditions.push(Condition::Compares {
                left,
                comparison,
                right,
            });
        }
        conditions
    }

    fn extract(
        &mut self,
        value: &Value<'_, '_>,
        subject: Option<&Subject>,
        pattern: Option<Regex>,
        check: Check,
    ) -> Option<Action> {
        match subject? {
            Subject::Within(within) => Some(Action::Extract {
                within: within.clone(),
                pattern: pattern?.into(),
                into: Vec::new(),
                check: Some(check),
            }),
            Subject::Text(_) => {
                value.problem(
                    "this is asked of a header, the body, the message or a variable: set one first",
                );
                None
            }
        }
    }

    /// What is looked at: one of the keys that say so.
    fn subject(&mut self, table: &Table<'_, '_>) -> Option<Subject> {
        let mut subjects = Vec::new();
        if let Some(value) = table.value("header")
            && let Some(name) = value.text()
        {
            let is_token =
                |octet: u8| octet.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&octet);
            if name.is_empty() || !name.bytes().all(is_token) {
                value.refuse("the name of a header field, without the colon,");
            }
            subjects.push(Subject::Within(Within::Header {
                name: name.to_owned(),
                occurrence: self.occurrence(table),
            }));
        }
        if let Some(value) = table.value("in") {
            match value.text() {
                Some("body") => subjects.push(Subject::Within(Within::Body)),
                Some("message") => subjects.push(Subject::Within(Within::Message)),
                Some(_) => value.refuse("\"body\" or \"message\""),
                None => {}
            }
        }
        if let Some(value) = table.value("variable")
            && let Some(name) = value.text()
        {
            let variable = self.known_variable(&value, name)?;
            subjects.push(Subject::Within(Within::Variable(variable)));
        }
        if let Some(value) = table.value("text") {
            subjects.push(Subject::Text(self.text(&value)?));
        }
        if subjects.len() == 1 {
            return subjects.pop();
        }
        table.problem(format_args!(
            "{} needs one of header = \"NAME\", in = \"body\", in = \"message\", variable = \"NAME\" and text = \"…\"",
            table.name
        ));
        None
    }

    /// Which field of a name: the first is 1 for people.
    fn occurrence(&mut self, table: &Table<'_, '_>) -> usize {
        let Some(value) = table.value("occurrence") else {
            return 0;
        };
        match value.integer() {
            Some(number @ 1..=100) => usize::try_from(number - 1).unwrap_or_default(),
            _ => {
                value.refuse("a number from 1 to 100");
                0
            }
        }
    }

    fn expression(&mut self, value: &Value<'_, '_>) -> Option<Regex> {
        let DeValue::String(_) = value.get() else {
            value.refuse("a regular expression in quotes");
            return None;
        };
        if !self.count_expression(value) {
            return None;
        }
        match expression::compiled(value.text()?) {
            Ok(expression) => Some(expression),
            Err(error) => {
                value.problem(error);
                None
            }
        }
    }
}

/// Where groups go that nobody has asked for.
const UNUSED: &str = " unused";
