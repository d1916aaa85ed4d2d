//! Two engines that talk to each other while somebody who knows the verification tags changes their
//! packets.

use adversary::Tampering;

/// Feeds the target an input.
pub fn run(input: &[u8]) {
    crate::drawn(input, Tampering::play);
}
