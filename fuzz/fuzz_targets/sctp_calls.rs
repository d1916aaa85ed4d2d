//! One engine that is called from everywhere: INITs, cookies and everything else that can begin an
//! association.
#![no_main]

use adversary::Calls;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|game: Calls| game.play());
