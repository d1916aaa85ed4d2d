//! Driver: the link model between simulated hosts, on a virtual clock.
//!
//! A [`Simulation`] does for cores what sockets and an executor do in service, but in no time, and
//! the same on every run: it hands datagrams and time-outs to [`Host`]s and carries what they send
//! over a [`Network`] of [`link::Link`]s. Whatever happens is ordered by time, and what happens at
//! one time by the order in which it was caused. Nothing else, neither a clock nor a thread nor the
//! memory layout, has any influence.
#![forbid(unsafe_code)]

mod network;
mod simulation;

pub use network::{Datagram, Network, NetworkStatistics};
pub use simulation::{Host, HostId, Sent, Simulation, Stalled, Stop};
