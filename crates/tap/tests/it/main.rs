//! The integration tests of `tap`, all in one program: each module is a topic.

mod message;
mod tshark;
