//! SCTP engines on a virtual network: hosts with several addresses, cuts, restarts, many at once.

mod ends;
mod extensions;
mod failover;
mod fan_in;
mod faults;
mod full_endpoint;
mod history;
mod host;
mod path_mtu;
mod promises;
mod request;
mod restart;
mod scenario;
mod seeds;
mod world;
