//! Reads arbitrary bytes as the value of each header field that has a type: Via, addresses, digest challenges
//! and credentials, CSeq, and what else a message is asked for.

use adversary::values;

/// Feeds the target an input.
pub fn run(octets: &[u8]) {
    values::header(octets);
}
