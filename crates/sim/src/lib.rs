//! Driver: the link model between simulated hosts, on a virtual clock.
//!
//! A [`Simulation`] does for cores what sockets and an executor do in service, but in no time, and
//! the same on every run: it hands datagrams and time-outs to [`Host`]s and carries what they send
//! over a [`Network`] of [`link::Link`]s. Hosts have as many addresses as they like, links join
//! addresses, and whatever shall happen to either is planned on the same clock
//! ([`Simulation::at`]). Whatever happens is ordered by time, and what happens at one time by the
//! order in which it was caused, or by a seed ([`Simulation::shuffle`]). Nothing else, neither a
//! clock nor a thread nor the memory layout, has any influence.
//!
//! What was sent can be looked at in Wireshark ([`write_capture`]).
#![forbid(unsafe_code)]

mod capture;
mod network;
mod schedule;
mod simulation;

pub use capture::write_capture;
pub use network::{Datagram, Fate, LinkId, Mtu, Network, NetworkStatistics};
pub use simulation::{Host, HostId, Sent, Simulation, Stalled, Stop};
