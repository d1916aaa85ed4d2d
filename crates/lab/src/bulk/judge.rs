//! Runs held against the law. Of many runs those are told that are nearest to its ends: where they hold, all do.

use super::{Bulk, Carried, Transport};
use crate::checks::Checks;
use crate::experiment::On;

/// Holds all runs of one kind against the law; `what` says in words which.
pub(crate) fn check_runs(checks: &mut Checks, on: On, what: &str, bulk: &Bulk, runs: &[Carried]) {
    let missing = runs.iter().map(|run| run.sent.abs_diff(run.received));
    checks.law(
        format!("bytes sent that did not come, or came too often, {what}"),
        missing.max().unwrap_or(u64::MAX) as f64,
        0.0..=0.0,
        "bytes",
    );
    match bulk.transport {
        Transport::Sctp => {
            check_times(checks, on, what, bulk, runs);
            check_repeats(checks, what, runs);
        }
        // What another's TCP waits for is its own affair, but no link carries more than it does.
        Transport::Tcp => {
            let share = |run: &Carried| bulk.allowed(on, run).start() / run.took.as_secs_f64();
            checks.law(
                format!("greatest share of the link that user data and headers take, {what}"),
                runs.iter().map(share).fold(f64::NAN, f64::max),
                0.0..=1.0,
                "",
            );
            checks.depends_on_time();
        }
    }
}

fn check_times(checks: &mut Checks, on: On, what: &str, bulk: &Bulk, runs: &[Carried]) {
    let judged = runs
        .iter()
        .map(|run| (run.under_way().as_secs_f64(), bulk.allowed(on, run)));
    let judged: Vec<_> = judged.collect();
    let nearest_least = judged.iter().min_by(|(one, law), (other, others)| {
        (one / law.start()).total_cmp(&(other / others.start()))
    });
    let nearest_most = judged
        .iter()
        .max_by(|(one, law), (other, others)| (one / law.end()).total_cmp(&(other / others.end())));
    for (end, nearest) in [("least", nearest_least), ("most", nearest_most)] {
        if let Some((took, allowed)) = nearest {
            checks.law(
                format!("time once it is up, of the run nearest to the {end}, {what}"),
                *took,
                allowed.clone(),
                "s",
            );
        }
    }
}

/// Nothing is overtaken on these links: three reports that a chunk is missing (RFC 9260 section 7.2.4), or one that a later
/// one has arrived (RFC 8985), say the truth. A tail loss probe says nothing.
fn check_repeats(checks: &mut Checks, what: &str, runs: &[Carried]) {
    let counted = runs.iter().filter_map(|run| {
        let counted = run.sctp?;
        let fast = counted.retransmitted_fast - counted.tail_loss_probes;
        Some((fast, run.there.dropped_packets()))
    });
    let worst = counted.max_by_key(|(fast, lost)| i128::from(*fast) - i128::from(*lost));
    if let Some((fast, lost)) = worst {
        checks.law(
            format!("chunks that fast retransmit repeated, of the run with the most beyond the losses, {what}"),
            fast as f64,
            0.0..=lost as f64,
            "chunks",
        );
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use link::{Bottleneck, LinkConfig, LinkStatistics};
    use sctp::{EndpointStatistics, LossDetection};

    use super::*;
    use crate::bulk::Until;
    use crate::congestion::Congestion;
    use crate::net::Lateness;
    use crate::verdict::Verdict;

    fn bulk() -> Bulk {
        Bulk {
            link: LinkConfig {
                bottleneck: Some(Bottleneck::new(8_000_000)),
                delay: Duration::from_millis(2),
                ..LinkConfig::default()
            },
            transport: Transport::Sctp,
            congestion: Congestion::Reno,
            loss_detection: LossDetection::GapReports,
            flows: 1,
            until: Until::Messages(1000),
            window: 1 << 16,
        }
    }

    /// A thousand messages of 1,452 bytes in packets of 1,500, a second and a half on the link.
    fn run() -> Carried {
        let there = LinkStatistics {
            offered_bytes: 1_500_000,
            lost_packets: 2,
            ..LinkStatistics::default()
        };
        Carried {
            sent: 1_452_000,
            received: 1_452_000,
            set_up: Duration::from_millis(10),
            sending: Duration::from_millis(1400),
            receiving: Duration::from_millis(1510),
            took: Duration::from_millis(1515),
            there,
            back: LinkStatistics::default(),
            sctp: Some(EndpointStatistics::default()),
            tcp_retransmissions: None,
            late: Lateness::default(),
        }
    }

    fn verdict(run: Carried) -> Verdict {
        let mut checks = Checks::new();
        check_runs(&mut checks, On::Sim, "sample", &bulk(), &[self::run(), run]);
        checks.verdict().0
    }

    #[test]
    fn each_law_can_be_broken() {
        let late = |milliseconds| Duration::from_millis(milliseconds);
        assert_eq!(verdict(run()), Verdict::Holds);
        let incomplete = Carried {
            received: 1_450_548,
            ..run()
        };
        assert_eq!(verdict(incomplete), Verdict::Fails);
        // The link takes 1.5 s for it.
        let too_fast = Carried {
            took: late(1500),
            ..run()
        };
        assert_eq!(verdict(too_fast), Verdict::Fails);
        // A link that is idle for a tenth of a second, and nobody knows why.
        let too_slow = Carried {
            took: late(1615),
            ..run()
        };
        assert_eq!(verdict(too_slow.clone()), Verdict::Fails);
        // Unless it was the machine, at both ends.
        let stalled = Carried {
            late: Lateness {
                stalled: late(50),
                ..Lateness::default()
            },
            took: late(1615),
            ..run()
        };
        assert_eq!(verdict(stalled), Verdict::Holds);
        let counted = EndpointStatistics {
            retransmitted_fast: 2,
            t3_expiries: 1,
            t3_waited: Duration::from_secs(1),
            ..EndpointStatistics::default()
        };
        let explained = Carried {
            sctp: Some(counted),
            ..too_slow
        };
        assert_eq!(verdict(explained), Verdict::Holds);
        let spurious = EndpointStatistics {
            retransmitted_fast: 3,
            ..EndpointStatistics::default()
        };
        let spurious = Carried {
            sctp: Some(spurious),
            ..run()
        };
        assert_eq!(verdict(spurious), Verdict::Fails);
    }
}
