//! The integration tests of `tap`, all in one program: each module is a topic.

mod sip;
mod tshark;
