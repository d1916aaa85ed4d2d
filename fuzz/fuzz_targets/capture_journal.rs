#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz_targets::capture_journal::run(input));
