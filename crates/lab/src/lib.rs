//! Experiments: what runs, what is measured, and the published figures beside it.
//!
//! The [`demo`] makes SIP calls through a proxy over UDP, TCP and SCTP on a network that loses
//! packets. The [`experiments`] repeat published measurements of transports, on simulated hosts
//! or on real ones, and hold it against the law: [`run()`] gives [`Results`], with a [`Verdict`] each.
#![forbid(unsafe_code)]

mod bulk;
mod calls;
mod checks;
mod context;
pub mod demo;
mod difference;
mod experiment;
pub mod experiments;
mod isolated_process;
mod laws;
mod machine_load;
mod net;
mod options;
mod outcome;
mod page;
mod pair;
mod progress;
mod published;
mod results;
mod run;
mod stage;
mod two_hosts;
mod verdict;

pub use checks::Checks;
pub use context::Context;
pub use experiment::{About, Experiment, On};
pub use isolated_process::run_isolated;
pub use options::Options;
pub use outcome::Outcome;
pub use results::{Result as ExperimentResult, Results};
pub use run::{run, run_in_this_process};
pub use verdict::Verdict;
