//! Two engines that use every extension, while somebody who knows the verification tags changes their
//! packets.

use adversary::Extending;

/// Feeds the target an input.
pub fn run(input: &[u8]) {
    crate::drawn(input, Extending::play);
}
