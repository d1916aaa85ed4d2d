//! The program as people and peers meet it.

mod capture;
mod capture_live;
mod demo;
mod location;
mod operation;
mod perf;
mod proxy;
mod sctp;
mod sipp;
mod support;
mod tshark;
mod users;
