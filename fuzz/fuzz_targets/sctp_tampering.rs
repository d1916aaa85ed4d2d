//! Two engines that talk to each other while somebody who knows the verification tags changes their
//! packets.
#![no_main]

use adversary::Tampering;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|game: Tampering| game.play());
