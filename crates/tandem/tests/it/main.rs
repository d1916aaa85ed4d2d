//! The integration tests of `tandem`, all in one program: each module is a topic.

mod documented;
mod interop;
mod program;
