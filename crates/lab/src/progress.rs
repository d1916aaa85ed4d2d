//! Where an experiment tells how far it is: on a bar, or to the process that has started it.

use std::io::Write;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;

/// Where an experiment tells how far it is.
#[derive(Clone, Debug)]
pub(crate) enum Progress {
    /// On a bar, for people.
    Bar(ProgressBar),
    /// In lines on the standard output, for the process that has started this one.
    Lines,
}

/// What the process of an experiment tells the one that has started it: a line of JSON each.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Told {
    /// It is divided into so many steps.
    Steps(u64),
    /// What begins now.
    Begin(String),
    /// A step is done.
    Done,
    /// What came out.
    Ended(Box<Outcome>),
}

impl Progress {
    pub(crate) fn tell(&self, told: Told) {
        match self {
            Progress::Bar(bar) => show(bar, told),
            Progress::Lines => {
                // One that nobody reads goes on until the end, and tells nobody.
                let line = serde_json::to_string(&told).unwrap_or_default();
                let _ = writeln!(std::io::stdout().lock(), "{line}");
            }
        }
    }
}

/// Shows what was told.
pub(crate) fn show(bar: &ProgressBar, told: Told) {
    match told {
        Told::Steps(steps) => bar.set_length(steps),
        Told::Begin(what) => bar.set_message(what),
        Told::Done => bar.inc(1),
        Told::Ended(_) => bar.finish_and_clear(),
    }
}

/// A bar that does not move yet.
pub(crate) fn bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    bar.set_style(
        ProgressStyle::with_template("{spinner} {prefix} [{wide_bar}] {pos}/{len} {msg} {elapsed}")
            .expect("the template is constant and well-formed"),
    );
    bar
}

/// Lets a bar move, under a name.
pub(crate) fn begin(bar: &ProgressBar, name: &'static str) {
    const TICK: Duration = Duration::from_millis(100);
    bar.set_prefix(name);
    bar.enable_steady_tick(TICK);
}
