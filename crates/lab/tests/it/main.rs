//! The integration tests of `lab`, all in one program: each module is a topic.

mod common;
mod experiments;
mod kamailio_sctp;
mod kernel_sctp;
