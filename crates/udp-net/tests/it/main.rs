//! The integration tests of `udp-net`, all in one program: each module is a topic.

mod descriptors;
mod loopback;
