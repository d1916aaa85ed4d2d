//! Where an experiment reports its progress: on a bar, or to the process that has started it.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;

/// Where an experiment reports its progress.
#[derive(Clone, Debug)]
pub(crate) enum Progress {
    /// On a bar, for people.
    Bar(ProgressBar),
    /// In lines on the standard output, for the process that has started this one.
    Lines,
}

/// What the process of an experiment reports to the one that has started it, as a line of JSON.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ProgressEvent {
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
    pub(crate) fn report(&self, event: ProgressEvent) {
        match self {
            Progress::Bar(bar) => show(bar, event),
            Progress::Lines => {
                // An experiment whose reports nobody reads goes on until its end.
                let line = serde_json::to_string(&event).unwrap_or_default();
                let _ = writeln!(std::io::stdout().lock(), "{line}");
            }
        }
    }
}

/// Shows an event.
pub(crate) fn show(bar: &ProgressBar, event: ProgressEvent) {
    match event {
        ProgressEvent::Steps(steps) => bar.set_length(steps),
        ProgressEvent::Begin(what) => bar.set_message(what),
        ProgressEvent::Done => bar.inc(1),
        ProgressEvent::Ended(_) => bar.finish_and_clear(),
    }
}

static IS_HIDDEN: AtomicBool = AtomicBool::new(false);

/// Shows no progress from now on, in this process.
pub fn hide_progress() {
    IS_HIDDEN.store(true, Ordering::Relaxed);
}

/// Whether progress is not to be shown.
pub(crate) fn is_hidden() -> bool {
    IS_HIDDEN.load(Ordering::Relaxed)
}

/// A bar that does not move yet.
pub(crate) fn bar() -> ProgressBar {
    if is_hidden() {
        return ProgressBar::hidden();
    }
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
