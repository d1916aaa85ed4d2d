//! Two engines with an association between them, and an arbitrary order of packets that arrive or
//! are made up, calls of users, ICMP messages and time that passes.

use adversary::Interleaving;

/// Feeds the target an input.
pub fn run(input: &[u8]) {
    crate::drawn(input, Interleaving::play);
}
