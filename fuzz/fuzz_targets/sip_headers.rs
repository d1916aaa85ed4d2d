//! Reads arbitrary bytes as the value of each header field that has a type: Via, addresses, digest challenges
//! and credentials, CSeq, and what else a message is asked for.
#![no_main]

use adversary::values;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| values::header(octets));
