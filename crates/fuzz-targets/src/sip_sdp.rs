//! Reads arbitrary bytes as a session description.

use adversary::values;

/// Feeds the target an input.
pub fn run(octets: &[u8]) {
    values::session_description(octets);
}
