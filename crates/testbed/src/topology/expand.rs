//! Entries that stand for several: `name = "sender{n}"`, `count = "senders"`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::MAXIMUM_LINKS;

/// How many an entry stands for.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Count {
    /// So many.
    Number(u32),
    /// As many as the parameter of that name says.
    Parameter(String),
}

/// The `[parameters]` of a text, with what was given instead.
#[derive(Debug)]
pub(super) struct Parameters(BTreeMap<String, u32>);

impl Parameters {
    pub(super) fn new(
        mut written: BTreeMap<String, u32>,
        given: &[(&str, u32)],
    ) -> Result<Parameters, String> {
        for (name, value) in given {
            let names: Vec<String> = written.keys().cloned().collect();
            let Some(entry) = written.get_mut(*name) else {
                return Err(match names.as_slice() {
                    [] => format!("this topology has no parameters, and so no \"{name}\""),
                    names => format!(
                        "this topology has no parameter \"{name}\", but {}",
                        names.join(", ")
                    ),
                });
            };
            *entry = *value;
        }
        Ok(Parameters(written))
    }

    /// How many that is: bounded, so that a short text cannot ask for a long list.
    pub(super) fn value(&self, count: &Count) -> Result<u32, String> {
        let number = match count {
            Count::Number(number) => *number,
            Count::Parameter(name) => *self
                .0
                .get(name)
                .ok_or_else(|| format!("there is no \"{name}\" in [parameters]"))?,
        };
        if usize::try_from(number).is_ok_and(|number| (1..=MAXIMUM_LINKS).contains(&number)) {
            return Ok(number);
        }
        Err(format!(
            "a count of {number} is not between 1 and {MAXIMUM_LINKS}"
        ))
    }
}

/// The text with the number where `{n}` stands.
pub(super) fn numbered(text: &str, number: Option<u32>) -> String {
    match number {
        Some(number) => text.replace("{n}", &number.to_string()),
        None => text.to_owned(),
    }
}
