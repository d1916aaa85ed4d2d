//! One engine that is called from everywhere: INITs, cookies and everything else that can begin an
//! association.

use adversary::Calls;

/// Feeds the target an input.
pub fn run(input: &[u8]) {
    crate::drawn(input, Calls::play);
}
