#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz_targets::m3ua_engines::run(input));
