//! The integration tests of `link`, all in one program: each module is a topic.

mod link;
mod model;
