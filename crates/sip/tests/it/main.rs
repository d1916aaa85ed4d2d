//! The integration tests of `sip`, all in one program: each module is a topic.

mod calls;
mod digest;
mod examples;
mod properties;
mod rfc4475;
mod sdp;
