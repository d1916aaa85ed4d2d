//! Measures what UDP, TCP and SCTP carry: as ttcp and iperf3 do, with SCTP.
//!
//! A [`Server`] waits, [`run`] asks it for a test and measures that from both ends. [`sweep`](sweep::sweep)
//! does so for many message sizes, and [`scale`] measures many associations against many streams.
//!
//! The data loops are the same on both sides, a file a transport in `flow/`; `control/` is the conversation
//! beside them.
#![forbid(unsafe_code)]

mod carrier;
mod client;
mod control;
mod flow;
pub mod iperf3;
mod pacer;
mod parameters;
mod result;
pub mod scale;
mod sequence;
mod server;
mod server_process;
pub mod sweep;
mod target;
mod test_side;
pub mod text;
pub mod units;
pub mod usage;

pub use carrier::{CarrierConfig, Over};
pub use client::{ClientConfig, Interrupts, resolve, run, wildcards};
pub use control::{FlowTotal, PathCondition, PathReport, SILENCE, VERSION};
pub use flow::PAYLOAD_SEED;
pub use pacer::Pacer;
pub use parameters::{DEFAULT_UDP_BITS_PER_SECOND, Limit, TestParameters, limits};
pub use result::{Cpu, Datagrams, Interval, TestResult, Traffic};
pub use sequence::{Reception, SequenceTracker};
pub use server::{Server, ServerConfig, ServerEvent};
pub use server_process::{LISTENING, ServerProcess};
pub use target::{DEFAULT_PORT, Listen, Protocol, Target, TargetError};
pub use units::{Bitrate, RateLimit};
