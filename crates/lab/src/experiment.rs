//! What an experiment is, and what comes out of it.

use std::fmt;
use std::str::FromStr;

use report::{Plot, Table};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::checks::Checks;
use crate::context::Context;

/// A published experiment that can be repeated here: one file each, under [`crate::experiments`].
pub trait Experiment: Sync {
    /// Its name on the command line, in lower case with hyphens.
    fn name(&self) -> &'static str;

    /// Where it was published, such as `Jungmaier 2000, figure 4`.
    fn source(&self) -> &'static str;

    /// What it is about, in a few words.
    fn title(&self) -> &'static str;

    /// How it is done.
    fn about(&self) -> About;

    /// Where it can be run.
    fn on(&self) -> &'static [On];

    /// Why it is not among [`Experiment::on`] there.
    fn why_not(&self, on: On) -> &'static str {
        match on {
            On::Sim => "it has no meaning on a virtual clock",
            On::Net => "it is defined on the virtual clock alone",
        }
    }

    /// Whether it leaves the processor idle there, so that it is no matter if others run beside it.
    fn is_light(&self, _: On) -> bool {
        false
    }

    /// Runs it. What is random comes from the context alone, and on [`On::Sim`] nothing comes from
    /// the clock of this machine: the same seed gives the same outcome.
    ///
    /// # Errors
    ///
    /// When it broke down in the middle. What the machine lacks is no error but
    /// [`Outcome::skipped`].
    fn run(&self, on: On, context: &Context) -> anyhow::Result<Outcome>;
}

/// On what an experiment runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum On {
    /// Simulated hosts on a virtual clock; TCP there is smoltcp's.
    Sim,
    /// Real sockets in network namespaces, joined by the emulator; TCP there is the kernel's.
    Net,
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            On::Sim => "sim",
            On::Net => "net",
        })
    }
}

impl FromStr for On {
    type Err = String;

    fn from_str(text: &str) -> Result<On, String> {
        match text {
            "sim" => Ok(On::Sim),
            "net" => Ok(On::Net),
            _ => Err(format!("\"{text}\" is neither sim nor net")),
        }
    }
}

/// What an experiment says, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The published finding is found again.
    Holds,
    /// Tandem obeys the law, but the published finding is not found on today's software or
    /// machines.
    Differs,
    /// It could not be run here.
    Skipped,
    /// Ours breaks the law.
    Fails,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Holds => "holds",
            Verdict::Differs => "differs",
            Verdict::Skipped => "skipped",
            Verdict::Fails => "fails",
        })
    }
}

/// How an experiment is done, in whole sentences for the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// Hosts, links and their settings.
    pub topology: &'static str,
    /// What runs there.
    pub runs: &'static str,
    /// What is measured, and how.
    pub measures: &'static str,
    /// What must come out of it by the RFC or by arithmetic, and the published finding.
    pub law: &'static str,
    /// How ours is held against the law, and where the tolerance comes from.
    pub check: &'static str,
}

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
            notes: Vec::new(),
            is_by_time_alone: false,
        }
    }
}
