//! The integration tests of `adversary`, all in one program: each module is a topic.

mod games;
