#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz_targets::load_scenario_toml::run(input));
