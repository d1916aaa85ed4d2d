//! Reads arbitrary bytes as a scenario of SIPp: it is read, or refused with lines that the file has.

use load::scenario::{Options, Scenario};

/// Feeds the target an input.
pub fn run(octets: &[u8]) {
    let lines = 1 + octets.iter().filter(|octet| **octet == b'\n').count();
    match Scenario::read("fuzzed.xml".as_ref(), octets, &Options::default()) {
        Ok(scenario) => assert!(scenario.caller.is_some() || scenario.callee.is_some()),
        Err(error) => {
            assert!(!error.problems().is_empty());
            for problem in error.problems() {
                assert!((1..=lines).contains(&problem.line), "{error}");
            }
        }
    }
}
