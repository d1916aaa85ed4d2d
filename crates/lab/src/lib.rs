//! Experiments: what runs, what is measured, and the published figures beside it.
//!
//! The [`demo`] makes SIP calls through a proxy over UDP, TCP and SCTP on a network that loses
//! packets. The [`experiments`] repeat published measurements of transports, on simulated hosts
//! or on real ones, and compare them with the law that they obey: [`run()`] gives [`Results`], with a [`Verdict`] each.
//!
//! An experiment is a file in [`experiments`]: its topology, its runs, its measurement. Experiments share
//!
//! - hosts: `stage` (Jungmaier 2000), `pair` (two simulated hosts), `two_hosts` (two real ones, with the kernel's TCP and our
//!   SCTP in UDP), `calls` (users behind two proxies: cores in [`sim`], or whole programs in a [`testbed`]), `one_proxy`
//!   (users of one), `sip_carrier` (SIP on a simulated host),
//! - load: `bulk`, which is data on TCP connections or SCTP streams,
//! - judgement: `laws` has the formulas, `checks` make a verdict of figures, and `difference` decides whether two results
//!   differ by more than the scatter of their trials.
//!
//! On real sockets, each experiment is a process of its own (`isolated_process`), which reports its progress and its outcome
//! as lines of JSON: its namespaces disappear with it. Servers whose memory and processor time are measured are processes of
//! `tandem` itself ([`Context::program`]). `machine_load` tells how busy the machine was with other work: an experiment that
//! failed on a busy machine is repeated.
#![forbid(unsafe_code)]

mod bulk;
mod calls;
mod checks;
mod congestion;
mod context;
pub mod demo;
mod difference;
mod experiment;
pub mod experiments;
mod isolated_process;
mod laws;
mod machine_load;
mod net;
mod one_proxy;
mod options;
mod outcome;
mod page;
mod pair;
mod progress;
mod published;
mod results;
mod run;
mod sip_carrier;
mod stage;
mod two_hosts;
mod verdict;

pub use checks::Checks;
pub use context::Context;
pub use experiment::{About, Experiment, On};
pub use isolated_process::run_isolated;
pub use options::Options;
pub use outcome::Outcome;
pub use progress::hide_progress;
pub use results::{Result as ExperimentResult, Results};
pub use run::{run, run_in_this_process};
pub use verdict::Verdict;
