//! Emulated SIP users: callers that call, callees that answer, and what they measure.
//!
//! What users do is a [`script`]; an [`engine`] runs scripts for the users of one worker and does no I/O; a
//! [`driver`] joins engines to sockets: [`LoadGenerator`] is where to begin. [`arrivals`] say when attempts begin,
//! [`record`]s what became of each, [`statistics`] what became of all. User *i* of *n* callers (1 to n)
//! calls user *n + i*.
#![forbid(unsafe_code)]

pub mod arrivals;
pub mod capacity;
pub mod driver;
pub mod engine;
pub mod media;
pub mod record;
pub mod scenario;
pub mod script;
pub mod statistics;

pub use driver::{
    Background, BackgroundTotal, ConnectError, Connections, Control, GeneratorConfig, LoadError,
    LoadGenerator, LoadModel, LoadPlan, Outcome, Peers, ProcessorTime, Role, Snapshot, Task,
    TaskKind,
};
