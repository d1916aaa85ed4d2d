//! What is measured of a gateway in this program.

use std::time::Duration;

use sigtran::perf::{Plan, run};

const PLAN: Plan = Plan {
    rate: 1_000.0,
    duration: Duration::from_millis(500),
    octets: 40,
    asps: 2,
    fails_over: false,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_message_is_counted_and_timed() {
    let report = run(&PLAN).await.expect("a report");
    assert_eq!((report.sent, report.received, report.lost()), (500, 500, 0));
    assert_eq!(
        (report.duplicates, report.out_of_order, report.refused),
        (0, 0, 0)
    );
    assert_eq!(report.delays.count(), 500);
    assert!(report.delays.maximum() > report.delays.minimum());
    assert!(
        (500.0..1_500.0).contains(&report.throughput()),
        "{report:?}"
    );
    assert_eq!(report.outage, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fail_over_has_an_end() {
    let plan = Plan {
        fails_over: true,
        ..PLAN
    };
    let report = run(&plan).await.expect("a report");
    assert_eq!(report.sent, 500);
    // The other one takes all: what is lost was under way to the one that has ended.
    assert!(report.received > 375, "{report:?}");
    assert!(report.outage.is_some(), "{report:?}");
    assert_eq!((report.duplicates, report.out_of_order), (0, 0));
}
