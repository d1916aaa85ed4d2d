//! What came out of a run of experiments: the JSON that programs read, and the table for people.

use report::{Cell, Column, Period, Row, Table};
use serde::Serialize;
use serde_json::Value;

use crate::experiment::{Experiment, On};
use crate::options::Options;
use crate::outcome::Outcome;
use crate::verdict::Verdict;

/// An experiment and what came out of it.
#[derive(Clone)]
pub struct Result {
    /// What was run.
    pub experiment: &'static dyn Experiment,
    /// What came out.
    pub outcome: Outcome,
}

/// What came out of all.
#[derive(Clone)]
pub struct Results {
    options: Options,
    period: Period,
    results: Vec<Result>,
}

/// One element of the JSON array.
#[derive(Serialize)]
struct Record<'a> {
    name: &'a str,
    source: &'a str,
    on: On,
    verdict: Verdict,
    why: &'a str,
    ours: &'a Value,
    published: &'a Value,
}

impl Results {
    pub(crate) fn new(options: Options, period: Period, results: Vec<Result>) -> Results {
        Results {
            options,
            period,
            results,
        }
    }

    /// Each by itself.
    pub fn results(&self) -> &[Result] {
        &self.results
    }

    /// How they were run.
    pub fn options(&self) -> Options {
        self.options
    }

    /// When they were run.
    pub fn period(&self) -> Period {
        self.period
    }

    /// Whether one breaks the law.
    pub fn any_failed(&self) -> bool {
        self.results
            .iter()
            .any(|result| result.outcome.verdict == Verdict::Fails)
    }

    /// The JSON array: name, source, on, verdict, why, ours, published of each.
    ///
    /// # Errors
    ///
    /// None that is known; serialisation could fail in principle.
    pub fn to_json(&self) -> std::result::Result<String, serde_json::Error> {
        let records: Vec<Record<'_>> = self
            .results
            .iter()
            .map(
                |Result {
                     experiment,
                     outcome,
                 }| Record {
                    name: experiment.name(),
                    source: experiment.source(),
                    on: self.options.on,
                    verdict: outcome.verdict,
                    why: &outcome.why,
                    ours: &outcome.ours,
                    published: &outcome.published,
                },
            )
            .collect();
        let mut json = serde_json::to_string_pretty(&records)?;
        json.push('\n');
        Ok(json)
    }

    /// The tables of each experiment for a terminal of this many columns, and a line with the verdict
    /// of each.
    pub fn to_terminal(&self, width: usize) -> String {
        let mut text = String::new();
        for Result {
            experiment,
            outcome,
        } in &self.results
        {
            if outcome.tables.is_empty() {
                continue;
            }
            text.push_str(&format!(
                "{} ({})\n",
                experiment.title(),
                experiment.source()
            ));
            for table in &outcome.tables {
                text.push('\n');
                text.push_str(&table.to_terminal(width));
            }
            text.push('\n');
        }
        for Result {
            experiment,
            outcome,
        } in &self.results
        {
            text.push_str(&format!(
                "{:<8} {} ({}, on {}): {}\n",
                outcome.verdict.to_string(),
                experiment.name(),
                experiment.source(),
                self.options.on,
                outcome.why
            ));
        }
        text
    }

    /// A row an experiment.
    pub(crate) fn verdicts(&self) -> Table {
        let mut table = Table::new("Verdicts")
            .column(Column::text("Experiment").key())
            .column(Column::text("Verdict"))
            .column(Column::text("What").wraps())
            .column(Column::text("Source"))
            .column(Column::text("On"));
        for Result {
            experiment,
            outcome,
        } in &self.results
        {
            table.push(Row::new([
                Cell::link(experiment.name(), experiment.name()),
                Cell::from(outcome.verdict.to_string()),
                Cell::from(experiment.title()),
                Cell::from(experiment.source()),
                Cell::from(self.options.on.to_string()),
            ]));
        }
        table
    }
}
