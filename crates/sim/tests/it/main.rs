//! The integration tests of `sim`, all in one program: each module is a topic.

mod closed_loop;
mod engines;
mod simulation;
mod two_engines;
