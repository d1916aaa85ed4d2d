//! The integration tests of `sigtran`, all in one program: each module is a topic.

mod console;
mod over_udp;
