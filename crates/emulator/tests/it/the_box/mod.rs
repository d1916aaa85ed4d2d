//! Networks in a box with real hosts: network namespaces of this machine, with its kernel's TCP/IP.

mod hosts;
mod paths;
mod sctp;
mod topologies;
mod transfers;
mod wires;
