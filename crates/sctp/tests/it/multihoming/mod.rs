//! Peers with several addresses (RFC 9260 sections 5.1.2, 5.2, 5.4, 6.4 and 8; RFC 7829).

pub(crate) mod network;

mod failover;
mod path_mtu;
mod random_faults;
mod setup;
mod spoofing;
mod verification;
