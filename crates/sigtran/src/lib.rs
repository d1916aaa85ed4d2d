//! Driver: M3UA signalling processes on SCTP, over IP, in UDP or with the kernel's SCTP.
//!
//! A [`Configuration`] is read from TOML: networks, peers, application servers and routes. [`start`] opens the SCTP endpoint and
//! runs the process: one task owns the engine of `m3ua`, and each association has a task that receives and one that sends.
//!
//! - What is received fills a bounded queue to the engine. When the engine does not keep up, receivers wait, and the window that
//!   the peer sees closes.
//! - What is to be sent waits in a bounded queue of the association. When that is half full, the engine is told that the
//!   association is congested; what does not fit is counted.
//! - An [`Observer`] has the task that owns the engine take a snapshot down, and puts it into words: as metrics, a page and JSON.
//! - The user is called by the task that owns the engine, and sees every primitive and indication in order.
#![forbid(unsafe_code)]

mod carrier;
mod configuration;
pub mod console;
mod link;
mod observer;
pub mod perf;
mod process;
mod snapshot;
mod status;
mod watch;

pub use carrier::{CarrierConfiguration, Over};
pub use configuration::{Configuration, ConfigurationError, Names};
pub use observer::Observer;
pub use process::{Event, Process, StartError, Stopped, start};
pub use snapshot::Counts;
pub use status::{
    ApplicationServerStatus, AspStatus, Count, DestinationStatus, MessageCount, PeerStatus, Status,
    TrafficCount,
};
