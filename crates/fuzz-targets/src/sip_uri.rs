//! Reads arbitrary bytes as a URI.

use adversary::values;

/// Feeds the target an input.
pub fn run(octets: &[u8]) {
    values::uri(octets);
}
