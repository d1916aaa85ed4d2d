//! The integration tests of `capture`, all in one program: each module is a topic.

mod analysis;
mod reading;
