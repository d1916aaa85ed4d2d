//! A proxy's core between user agents and servers that send it anything, answers of stores and resolvers,
//! failures, other policies and time, in any order.
#![no_main]

use adversary::Proxying;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|game: Proxying| game.play());
