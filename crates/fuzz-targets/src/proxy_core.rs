//! A proxy's core between user agents and servers that send it anything, answers of stores and resolvers,
//! failures, other policies and time, in any order.

use adversary::Proxying;

/// Feeds the target an input.
pub fn run(input: &[u8]) {
    crate::drawn(input, Proxying::play);
}
