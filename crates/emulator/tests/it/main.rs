//! The integration tests of `emulator`, all in one program: each module is a topic.

mod core;
mod the_box;
