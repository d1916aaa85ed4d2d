//! The flows of RFC 3665.

use load::driver::RunConfig;
use load::record::Side;
use load::scenario::Scenario;
use sip::Transport;

use crate::{assert_completed, attempts, config, options};

fn flow(name: &str) -> Scenario {
    let flow = Scenario::built_in(name, &options()).expect("a flow of that name");
    flow.unwrap_or_else(|error| panic!("{error}"))
}

/// Flows that need nobody between caller and callee.
#[tokio::test]
async fn caller_and_callee_carry_out_a_flow_directly() {
    for section in ["3.1", "3.5", "3.7", "3.8", "3.9", "3.11"] {
        for transport in [Transport::Udp, Transport::Tcp] {
            let scenario = flow(&format!("rfc3665-{section}"));
            let config = RunConfig {
                transport,
                direct: true,
                ..config(&scenario)
            };
            let attempts = attempts(config, 12).await;
            assert_completed(&attempts, Side::Caller, 12, section);
            assert_completed(&attempts, Side::Callee, 12, section);
        }
    }
}
