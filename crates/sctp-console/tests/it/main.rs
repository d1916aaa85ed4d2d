//! The integration tests of `sctp-console`, all in one program: each module is a topic.

mod blocked_output;
