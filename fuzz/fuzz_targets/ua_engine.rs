#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz_targets::ua_engine::run(input));
