//! The demo's results in a sentence.

use report::format_number;

use super::Measurement;
use super::table::decimals_of;

/// How many calls a second each transport completed at the highest loss at which several ran, the most first; before
/// that, what went wrong.
pub(super) fn headline(runs: &[Measurement], planned: usize) -> String {
    let mut parts = Vec::new();
    if runs.len() < planned {
        parts.push(format!(
            "interrupted after {} of {planned} runs",
            runs.len()
        ));
    }
    let failed = runs.iter().filter_map(Measurement::failed_without_loss);
    parts.extend(failed.map(|line| format!("failed without loss: {line}")));
    parts.extend(comparison(runs));
    parts.join("; ")
}

fn comparison(runs: &[Measurement]) -> Option<String> {
    let losses = runs.iter().map(|run| run.loss_percent);
    let at = |loss: f64| runs.iter().filter(move |run| run.loss_percent == loss);
    // Where each loss has one run, there is nothing to compare: the highest loss stands for all.
    let most_runs = losses.clone().map(|loss| at(loss).count()).max()?.min(2);
    let loss = losses
        .filter(|loss| at(*loss).count() >= most_runs)
        .max_by(f64::total_cmp)?;
    let mut runs: Vec<&Measurement> = at(loss).collect();
    runs.sort_by(|one, other| other.calls_per_second.total_cmp(&one.calls_per_second));
    let rates = runs.into_iter().map(|run| {
        let rate = run.calls_per_second;
        let decimals = if rate < 100.0 { 1 } else { 0 };
        let rate = format_number(rate, decimals);
        format!("{rate} over {}", run.line().label().replace(", ", " "))
    });
    let rates: Vec<String> = rates.collect();
    Some(format!(
        "calls completed a second at {} % packet loss: {}",
        format_number(loss, decimals_of(loss)),
        rates.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use measures::DelaySummary;
    use sip::Transport;
    use sip_net::Profile;

    use super::*;

    fn run(transport: Transport, loss_percent: f64, calls_per_second: f64) -> Measurement {
        Measurement {
            transport,
            profile: (transport == Transport::Sctp).then_some(Profile::Signalling),
            loss_percent,
            calls_per_second,
            attempted: 9,
            completed: 7,
            failed: 0,
            causes: BTreeMap::new(),
            unfinished: 0,
            not_started: 0,
            seconds: 1.0,
            users: 16,
            registered: 16,
            registration_delay_ms: DelaySummary::default(),
            session_request_delay_ms: DelaySummary::default(),
            failed_session_request_delay_ms: DelaySummary::default(),
            session_disconnect_delay_ms: DelaySummary::default(),
            packets_per_call: None,
            bytes_per_call: None,
            sip_retransmissions: 0,
            transport_retransmissions: 0,
        }
    }

    #[test]
    fn transports_are_compared_at_the_highest_loss_that_several_have() {
        let mut runs = vec![
            run(Transport::Udp, 0.0, 3000.4),
            run(Transport::Tcp, 0.0, 2500.0),
            run(Transport::Udp, 10.0, 5.31),
            run(Transport::Sctp, 10.0, 30.04),
            run(Transport::Sctp, 30.0, 3.0),
        ];
        let compared =
            "calls completed a second at 10 % packet loss: 30.0 over SCTP signalling, 5.3 over UDP";
        assert_eq!(headline(&runs, 5), compared);
        runs[1].failed = 2;
        assert_eq!(
            headline(&runs, 7),
            format!(
                "interrupted after 5 of 7 runs; failed without loss: TCP: 2 of 9 calls; {compared}"
            )
        );
    }

    #[test]
    fn one_transport_is_told_at_its_highest_loss() {
        let runs = [
            run(Transport::Udp, 0.0, 3000.4),
            run(Transport::Udp, 0.25, 80.0),
        ];
        assert_eq!(
            headline(&runs, 2),
            "calls completed a second at 0.25 % packet loss: 80.0 over UDP"
        );
        assert_eq!(headline(&[], 2), "interrupted after 0 of 2 runs");
    }
}
