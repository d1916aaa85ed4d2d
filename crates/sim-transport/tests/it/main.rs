//! The integration tests of `sim-transport`, all in one program: each module is a topic.

mod transport;
