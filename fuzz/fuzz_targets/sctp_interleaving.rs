//! Two engines with an association between them, and an arbitrary order of packets that arrive or
//! are made up, calls of users, ICMP messages and time that passes.
#![no_main]

use adversary::Interleaving;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|game: Interleaving| game.play());
