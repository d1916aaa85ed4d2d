//! The integration tests of `m3ua`, all in one program: each module is a topic.

mod common;
mod destinations;
mod errors;
mod example_notes;
mod examples;
mod page;
mod procedures;
mod registration;
mod simulation;
mod transfer;
