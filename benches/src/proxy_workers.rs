//! `proxy-workers`: what a call costs our proxy with two workers, beside one, driven by SIPp.

use std::time::Duration;

use crate::output::{Output, Row};
use crate::proxy_kamailio::cost_of_call;
use crate::rounds::{Better, Rounds};
use crate::sip_servers::SipServer;
use crate::sipp::{Calls, Over, Sipp};

/// Two workers may take a tenth more than one.
const GOAL: f64 = 1.0 / 1.1;

const PAUSE: Duration = Duration::from_millis(20);

pub(crate) fn run(rounds: &Rounds, output: &mut dyn Output) -> anyhow::Result<()> {
    let (users, calls) = match rounds.is_quick() {
        true => (2_000, 8_000),
        false => (10_000, 60_000),
    };
    let sipp = Sipp::find(users)?;
    for over in [Over::Udp, Over::Tcp] {
        let two = SipServer::ours(2, "memory:")?;
        let one = SipServer::ours(1, "memory:")?;
        for server in [&two, &one] {
            sipp.register(server.ports.sip, over)?;
        }
        let _callees = sipp.answer(over, PAUSE)?;
        let calls = Calls {
            count: calls,
            per_second: 4_000,
            pause: PAUSE,
        };
        let [cpu, median, late] = rounds.alternate(
            || cost_of_call(&sipp, &two, over, calls),
            || cost_of_call(&sipp, &one, over, calls),
        )?;
        for (metric, (two, one), goal) in [
            ("cpu_us_per_call", cpu, GOAL),
            ("p50_ms", median, 0.0),
            ("p99_ms", late, 0.0),
        ] {
            output.row(Row {
                case: format!("2 workers beside 1, {}", over.name()),
                metric,
                better: Better::Lower,
                ours: two,
                peer: one,
                goal,
            })?;
        }
    }
    Ok(())
}
