//! The integration tests of `testbed`, all in one program: each module is a topic.

mod control;
mod up;
mod web;
