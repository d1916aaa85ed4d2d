//! SIP proxy and registrar: decisions as a core, and the driver that carries them.
//!
//! [`Server`] is what a program starts: it joins the [`core`](mod@crate::core) to sockets, to a location
//! store and to name resolution.
//!
//! # Parts
//!
//! The core decides: it admits, authenticates, registers and forwards, a part each. All that an operator can change at run
//! time is one policy, replaced as a whole. [`location`] is the store of bindings behind one interface: a query goes in with
//! a number, and the answer comes back with it, at once or later.
//!
//! Plugins are scripts that decide at the core's hooks; they need no driver either.
//!
//! The driver runs workers. A worker is a thread with a core, and with sockets of its own on the common ports. A call belongs to
//! one worker, by a keyed hash of its Call-ID, so that workers share no state of calls; a message that another one has read is
//! handed over once. A worker takes the messages that have arrived, up to 128, and leads them together: the core decides, then
//! all queries are asked and answered, then everything is sent by one system call for each socket.
#![forbid(unsafe_code)]

#[cfg(feature = "driver")]
pub mod config;
pub mod core;
#[cfg(feature = "driver")]
mod driver;
mod host_port;
#[cfg(feature = "driver")]
pub mod location;
#[cfg(feature = "driver")]
pub mod metrics;
mod octets;
#[cfg(feature = "plugins")]
pub mod plugin;
#[cfg(feature = "driver")]
mod records;
mod text;

#[cfg(feature = "driver")]
pub use driver::{ProxyConfig, Server, ServerStatistics, StartError, use_small_pages};
pub use host_port::{HostPort, HostPortError};
