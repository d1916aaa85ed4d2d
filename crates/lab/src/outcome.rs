//! What came out of an experiment.

use report::{Ladder, Plot, Table};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::checks::Checks;
use crate::verdict::Verdict;

/// What came out of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The verdict.
    pub verdict: Verdict,
    /// Why: what was checked and held, or what did not.
    pub why: String,
    /// Our figures.
    pub ours: Value,
    /// The published ones, or the law where the publication shows no numbers.
    pub published: Value,
    /// Tables to show, the checks last.
    pub tables: Vec<Table>,
    /// Plots to show.
    pub plots: Vec<Plot>,
    /// Ladder diagrams to show.
    #[serde(default)]
    pub ladders: Vec<Ladder>,
    /// Remarks to show.
    pub notes: Vec<String>,
    /// Whether all that it fails for depends on the time that this machine had.
    #[serde(default)]
    pub(crate) is_by_time_alone: bool,
}

impl Outcome {
    /// An outcome of checked figures.
    pub fn judged(checks: Checks) -> Outcome {
        let (verdict, why) = checks.verdict();
        Outcome {
            is_by_time_alone: checks.is_broken_by_time_alone(),
            tables: vec![checks.into_table()],
            ..Outcome::bare(verdict, why)
        }
    }

    /// An experiment that could not be run, and why.
    pub fn skipped(why: impl Into<String>) -> Outcome {
        Outcome::bare(Verdict::Skipped, why.into())
    }

    /// An experiment that broke down.
    pub(crate) fn failed(why: String) -> Outcome {
        Outcome::bare(Verdict::Fails, why)
    }

    /// States our figures.
    #[must_use]
    pub fn ours(mut self, ours: Value) -> Outcome {
        self.ours = ours;
        self
    }

    /// States the published figures.
    #[must_use]
    pub fn published(mut self, published: Value) -> Outcome {
        self.published = published;
        self
    }

    /// Adds a table, before that of the checks.
    #[must_use]
    pub fn table(mut self, table: Table) -> Outcome {
        self.tables
            .insert(self.tables.len().saturating_sub(1), table);
        self
    }

    /// Adds a plot.
    #[must_use]
    pub fn plot(mut self, plot: Plot) -> Outcome {
        self.plots.push(plot);
        self
    }

    /// Adds a ladder diagram.
    #[must_use]
    pub fn ladder(mut self, ladder: Ladder) -> Outcome {
        self.ladders.push(ladder);
        self
    }

    /// Adds a remark.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Outcome {
        self.notes.push(note.into());
        self
    }

    fn bare(verdict: Verdict, why: String) -> Outcome {
        Outcome {
            verdict,
            why,
            ours: Value::Null,
            published: Value::Null,
            tables: Vec::new(),
            plots: Vec::new(),
            ladders: Vec::new(),
            notes: Vec::new(),
            is_by_time_alone: false,
        }
    }
}
