//! The integration tests of `load`, all in one program: each module is a topic.

mod capacity;
mod endings;
mod engine;
mod media;
mod runs;
mod scenarios;
mod srtp;
