//! The integration tests of `traffic`, all in one program: each module is a topic.

mod loopback;
