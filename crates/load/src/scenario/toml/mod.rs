//! Scenarios in Tandem's own words. `docs/scenarios.md` describes them.

mod finding;
mod message;
mod step;
mod table;

use std::collections::BTreeMap;

use ::toml::de::DeTable;

use self::step::ScriptReader;
use self::table::{File, Table};
use super::Options;
use super::assembly::Assembly;
use super::problem::Problems;
use crate::script::{Action, Script, Slot, Step, Text};

/// What a file says.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    pub(super) caller: Option<Script>,
    pub(super) callee: Option<Script>,
}

/// Reads the text of a file.
pub(super) fn read(text: &str, options: &Options) -> (Read, Problems) {
    let file = File::new(text);
    let read = match DeTable::parse(text) {
        Ok(table) => whole(&Table::new(&file, "the file", 0, table.get_ref()), options),
        Err(error) => {
            let line = file.line(error.span().map_or(0, |span| span.start));
            file.problem(line, error.message().replace('\n', ", "));
            Read::default()
        }
    };
    (read, file.into_problems())
}

fn whole(table: &Table<'_, '_>, options: &Options) -> Read {
    let mut read = Read {
        name: table.text("name").map(str::to_owned),
        description: table.text("description").map(str::to_owned),
        ..Read::default()
    };
    let within = table.duration("within");
    let initial = table.value("variables");
    let initial = initial.map_or_else(Vec::new, |value| value.entries());
    let name = read.name.clone();
    // Both sides number them alike: a name is one timer, whichever side it is of.
    let mut timers = Vec::new();
    let mut side = |key, step_name: &'static str| {
        let steps = table.tables(key, step_name);
        if steps.is_empty() {
            return None;
        }
        let mut names: BTreeMap<String, usize> = step::assigned(&steps);
        names.extend(initial.iter().map(step::name));
        let mut side = ScriptReader {
            assembly: Assembly::default(),
            names,
            within,
            hold: options.hold.clone(),
            first_method: None,
            last_method: None,
            timers: std::mem::take(&mut timers),
            expressions: 0,
        };
        side.check_names(table.file);
        let actions: Vec<Action> = initial
            .iter()
            .filter_map(|value| {
                let variable = side.assembly.variable(value.key());
                let to = side.value_text(value)?;
                Some(Action::Set { variable, to })
            })
            .collect();
        if !actions.is_empty() {
            side.push(Step::Do(actions), table);
        }
        for step in steps {
            side.step(&step);
            step.finish();
        }
        let name = name.as_deref().unwrap_or("scenario");
        timers.clone_from(&side.timers);
        side.finish(name, table)
    };
    read.caller = side("caller", "a step of the caller");
    read.callee = side("callee", "a step of the callee");
    if !table.has("caller") && !table.has("callee") {
        table.problem("there are no steps: [[caller]] has those of the caller, [[callee]] those of the callee");
    }
    table.finish();
    read
}

/// Pieces of a text that are the same always.
fn literal(text: &str) -> Text {
    crate::script::Template::builder().literal(text).into_text()
}

/// A text that is one slot.
fn slot(slot: Slot) -> Text {
    crate::script::Template::builder().slot(slot).into_text()
}
