//! The program as people and peers meet it.

mod capture;
mod capture_live;
mod demo;
mod load;
mod location;
mod operation;
mod pages;
mod perf;
mod proxy;
mod sctp;
mod sipp;
mod support;
mod traffic;
mod tshark;
mod users;
