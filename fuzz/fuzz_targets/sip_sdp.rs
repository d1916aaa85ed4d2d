//! Reads arbitrary bytes as a session description.
#![no_main]

use adversary::values;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| values::session_description(octets));
