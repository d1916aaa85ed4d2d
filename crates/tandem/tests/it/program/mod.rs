//! The program as people and peers meet it.

mod capture;
mod capture_live;
mod capture_sctp;
mod demo;
mod flood;
mod installation;
mod lab;
mod lab_on_net;
mod load;
mod location;
mod m3ua;
mod multi_homed;
mod net;
mod operation;
mod pages;
mod perf;
mod phone;
mod proxy;
mod sctp;
mod sipp;
mod standard_output;
mod style;
pub(crate) mod support;
mod tmux;
mod traffic;
mod tshark;
mod users;
