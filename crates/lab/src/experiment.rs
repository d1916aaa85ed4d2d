//! What an experiment is.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::context::Context;
use crate::outcome::Outcome;

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
