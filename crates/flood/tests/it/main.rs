//! The integration tests of `flood`, all in one program: each module is a topic.

mod against_the_engine;
mod on_loopback;
