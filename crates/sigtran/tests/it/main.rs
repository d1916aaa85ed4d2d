//! The integration tests of `sigtran`, all in one program: each module is a topic.

mod captures;
mod console;
mod observer;
mod osmo_stp;
mod over_udp;
mod perf;
