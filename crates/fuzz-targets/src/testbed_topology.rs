//! Topologies: whatever the text, reading it ends with a topology that can be planned and emulated, or with an
//! error that tells a line of it.

use std::time::Instant;

use testbed::{Plan, Topology};

/// Feeds the target an input.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match Topology::parse(text, &[]) {
        Ok(topology) => {
            // Without a plan there is no network left for a link: its error says so.
            if let Ok(plan) = Plan::new(topology) {
                let network = emulator::Network::new(&plan.network(), 1, Instant::now());
                // Whether a rule can be is the emulator's to say; all else was looked at.
                let is_good = matches!(network, Ok(_) | Err(emulator::ConfigError::Rule(_)));
                assert!(is_good, "{:?}", network.err());
            }
        }
        Err(error) => {
            let lines = text.lines().count();
            assert!(error.line.is_none_or(|line| line <= lines + 1), "{error}");
        }
    }
    // The same text as what somebody asks a network for.
    if let Ok(request) = serde_json::from_str::<testbed::control::Request>(text)
        && let testbed::control::Request::AddRule { rule, .. } = request
        && let Ok(rule) = rule.into_rule()
    {
        match testbed::RuleWords::of(&rule).into_rule() {
            Ok(again) => assert_eq!(again, rule),
            // Words name a table or a trace, and do not have its text.
            Err(error) => assert!(error.contains("cannot be read from here"), "{error}"),
        }
    }
}
