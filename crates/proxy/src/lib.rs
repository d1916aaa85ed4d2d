//! SIP proxy and registrar: decisions as a core, and the driver that carries them.
//!
//! [`Server`] is what a program starts: it joins the [`core`](mod@crate::core) to sockets, to a location
//! store and to name resolution.
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
#[cfg(feature = "driver")]
mod records;
mod text;

#[cfg(feature = "driver")]
pub use driver::{ProxyConfig, Server, ServerStatistics, StartError, use_small_pages};
pub use host_port::{HostPort, HostPortError};
