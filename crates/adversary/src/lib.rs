//! Tests: somebody on the wire who knows the verification tags, and somebody who talks SIP to a proxy.
//!
//! An adversary without the tags gets nowhere; his packets are dropped at once. These are the games
//! of one who has them, and who computes right checksums: what he does is drawn from arbitrary
//! bytes, by a fuzzer that looks for paths through the engine or by a property test that rolls
//! dice. No game has a winner. What is asked of the engine is that it neither panics, nor runs
//! without end, nor answers with floods, nor holds more than its settings allow; and that each
//! packet that it sends is sound.
//!
//! - [`Calls`]: one engine that is called from everywhere, with INITs and cookies of every kind.
//! - [`Interleaving`]: two engines with an association between them, and an arbitrary order of
//!   packets that arrive or are made up, calls of users, ICMP messages and time that passes.
//! - [`Tampering`]: two engines that talk to each other while their packets are changed.
//! - [`Extending`]: the same with extensions in use.
//! - [`values`]: no game, but what header fields are made of, read from anything.
//! - [`Proxying`]: a SIP proxy's core between user agents and servers that send it anything.
#![forbid(unsafe_code)]

mod calls;
mod chunks;
mod engine;
mod extending;
mod interleaving;
mod lists;
mod pair;
mod proxying;
mod tampering;
pub mod values;

pub use calls::Calls;
pub use extending::Extending;
pub use interleaving::Interleaving;
pub use proxying::Proxying;
pub use tampering::Tampering;
