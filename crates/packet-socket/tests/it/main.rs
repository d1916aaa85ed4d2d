//! The integration tests of `packet-socket`, all in one program: each module is a topic.

mod loopback;
