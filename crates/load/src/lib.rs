//! Emulated SIP users: callers that call, callees that answer, and what they measure.
//!
//! What users do is a [`script`]; an [`engine`] runs scripts for the users of one worker and does no I/O; a
//! [`driver`] joins engines to sockets: [`LoadGenerator`] is where to begin. [`arrivals`] say when attempts begin,
//! [`record`]s what became of each, [`statistics`] what became of all. User *i* of *n* callers (1 to n)
//! calls user *n + i*.
//!
//! # Parts
//!
//! Calls, registrations and requests are built-in scripts; [`scenario`] makes scripts from TOML and from SIPp's XML. The engine
//! does what RFC 3261 requires of user agents whatever the script says: retransmission, ACK and CANCEL, dialogs, digest. A
//! session is found by the number in its Call-ID or tag, without a table. A session that has ended is a record, from which
//! [`statistics`] computes the metrics of RFC 6076 and those of Adnan 2012. [`capacity`] runs steps of load and decides (RFC 7502,
//! SIPstone), and [`media`] is RTP.
//!
//! The driver has a worker for each core: a thread with an engine and sockets of its own, which shares nothing with the others.
//! UDP and TCP are read by epoll, all other transports through `sip-net`.
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
pub mod trace;

pub use driver::{
    Background, BackgroundTotal, ConnectError, Connections, Control, GeneratorConfig, LoadError,
    LoadGenerator, LoadModel, LoadPlan, Outcome, Peers, ProcessorTime, Role, Snapshot, Task,
    TaskKind,
};
