//! Joins engines to the network: workers, connections, schedules.
//!
//! A [`LoadGenerator`] is a population of emulated users on real sockets. It is started once, registers its users
//! where that is wanted, and then fulfils one plan after the other; the connections and registrations
//! stay in between:
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use std::time::Duration;
//! # use load::script::{ScriptId, builtin};
//! # use load::{LoadPlan, LoadGenerator, GeneratorConfig, TaskKind};
//! # async fn calls() -> Result<(), Box<dyn std::error::Error>> {
//! let config = GeneratorConfig {
//!     users: 100,
//!     scripts: vec![
//!         Arc::new(builtin::call(&builtin::CallPlan::default())?), // ScriptId(0)
//!         Arc::new(builtin::answer(&builtin::AnswerPlan::default())?), // ScriptId(1)
//!         Arc::new(builtin::register()?),                          // ScriptId(2)
//!     ],
//!     ..GeneratorConfig::default()
//! };
//! let mut load = LoadGenerator::start(config).await?;
//! let registration = load.register(None, Duration::from_secs(10)).await?;
//! assert_eq!(registration.registered, 200);
//! let outcome = load.run(LoadPlan::at_rate(TaskKind::Script(ScriptId(0)), 500.0, 10_000)).await?;
//! println!("{} calls in {:?}", outcome.statistics.calls.completed, outcome.time);
//! load.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! [`LoadGenerator::live`] shows what has been measured so far, once an interval; [`LoadGenerator::control`] changes the
//! rate, pauses and ends it while it goes on.
//!
//! # Workers
//!
//! Each worker is a thread with an engine, sockets and connections of its own, and every n-th arrival of the
//! schedule; they share nothing. Users *i* and *n + i* are worker *(i - 1) mod w*'s, who tells the system
//! under test an address of its own as their contact: what is meant for them comes to the right worker by
//! itself. Where callees are called directly at one port, the workers' sockets share it, and the kernel
//! keeps what comes from one peer at one of them.
//!
//! # Safety
//!
//! Nothing here asks whether the target's owner has agreed: a program does so before it starts a run, by
//! [`allowed_targets::check`].

mod background;
mod carrier;
mod coalescing;
mod command;
mod command_writer;
mod config;
mod error;
mod generator;
mod media;
mod open_files;
mod phase;
mod plan;
mod population;
mod setup;
mod start;
mod traces;
mod twins;
mod usage;
mod users;
mod worker;

pub use background::{Background, BackgroundSummary, BackgroundTotal};
pub use command::Control;
pub use config::{Connections, GeneratorConfig, MediaPlan, Role};
pub use error::{ConnectError, LoadError};
pub use generator::{LoadGenerator, Outcome, Snapshot};
pub use media::MediaTotal;
pub use plan::{LoadModel, LoadPlan, Peers, Task, TaskKind};
pub use traces::{TraceFile, Traces};
pub use twins::TwinPlan;
pub use usage::ProcessorTime;
