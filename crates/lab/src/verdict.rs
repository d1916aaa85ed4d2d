//! How an experiment ends, in a word.

use std::fmt;

use serde::{Deserialize, Serialize};

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
