//! The demo's results as one table, for the terminal and for the page.

use measures::DelaySummary;
use report::{Cell, Column, Row, Table};
use sip::Transport;

use super::{Measurement, Options};
use crate::published::calls_relative_to_udp_at_5_percent;

/// The table of all runs, with the published counts beside those of UDP and SCTP.
pub(super) fn table(options: &Options, runs: &[Measurement]) -> Table {
    let mut table = Table::new("Calls through the proxy")
        .columns([
            Column::text("Transport").key(),
            Column::text("Profile").key(),
            Column::number("Loss").unit("%").key(),
        ])
        .columns(
            [
                "attempted",
                "completed",
                "failed",
                "unfinished",
                "per second",
            ]
            .map(|header| Column::number(header).group("Calls")),
        );
    for group in DELAYS {
        table = table.columns(
            ["mean", "p50", "p95", "max"]
                .map(|header| Column::number(header).unit("ms").group(group)),
        );
    }
    table = table
        .columns(["packets", "bytes"].map(|header| Column::number(header).group("Wire, per call")))
        .columns(["SIP", "transport"].map(|header| Column::number(header).group("Retransmissions")))
        .columns(
            ["here", "published"]
                .map(|header| Column::number(header).group("Calls, UDP at 5 % = 1")),
        );

    let reference = udp_at_5_percent(runs);
    let mut previous = None;
    for run in runs {
        let row = Row::new(cells(run, reference));
        let begins_block = previous.is_some_and(|previous| previous != run.line());
        table.push(if begins_block {
            row.begins_block()
        } else {
            row
        });
        previous = Some(run.line());
    }
    for note in notes(options, runs) {
        table.note(note);
    }
    table
}

const DELAYS: [&str; 3] = [
    "Registration delay",
    "Session request delay",
    "Session disconnect delay",
];

/// Calls per second over UDP at 5 % loss, to which Pang 2003's counts are scaled.
fn udp_at_5_percent(runs: &[Measurement]) -> Option<f64> {
    runs.iter()
        .find(|run| run.transport == Transport::Udp && run.loss_percent == 5.0)
        .map(|run| run.calls_per_second)
        .filter(|calls| *calls > 0.0)
}

fn cells(run: &Measurement, udp_at_5_percent: Option<f64>) -> Vec<Cell> {
    let mut cells = vec![
        Cell::from(run.transport.to_string()),
        run.profile
            .map_or(Cell::Absent, |profile| Cell::from(profile.to_string())),
        Cell::number(run.loss_percent, decimals_of(run.loss_percent)),
        Cell::from(run.attempted),
        Cell::from(run.completed),
        Cell::from(run.failed),
        Cell::from(run.unfinished),
        Cell::number(run.calls_per_second, 1),
    ];
    for delays in [
        run.registration_delay_ms,
        run.session_request_delay_ms,
        run.session_disconnect_delay_ms,
    ] {
        let DelaySummary {
            mean,
            p50,
            p95,
            max,
            ..
        } = delays;
        cells.extend([mean, p50, p95, max].map(Cell::milliseconds));
    }
    cells.push(Cell::number(run.packets_per_call, 1));
    cells.push(Cell::number(run.bytes_per_call, 0));
    cells.push(Cell::from(run.sip_retransmissions));
    cells.push(if run.transport == Transport::Udp {
        Cell::Absent
    } else {
        Cell::from(run.transport_retransmissions)
    });
    let published = calls_relative_to_udp_at_5_percent(run.transport, run.loss_percent);
    let here = udp_at_5_percent
        .filter(|_| published.is_some())
        .map(|reference| run.calls_per_second / reference);
    cells.extend([here, published].map(|ratio| Cell::number(ratio, 2)));
    cells
}

/// Decimals with which a percentage such as 0.5 is shown in full.
pub(super) fn decimals_of(percent: f64) -> u8 {
    (0..3)
        .find(|decimals| {
            let scaled = percent * 10f64.powi(i32::from(*decimals));
            (scaled - scaled.round()).abs() < 1e-9
        })
        .unwrap_or(3)
}

fn notes(options: &Options, runs: &[Measurement]) -> Vec<String> {
    let mut notes = vec![
        "Delays are those of RFC 6076, of successful requests only. Packets and bytes are those of IP between \
         users and proxy during the calls, including lost ones, for each completed call."
            .to_owned(),
        "Published: Pang 2003, table 5.3, calls completed in a fixed time by eight user agents on each side, \
         relative to UDP at 5 % loss; beside it Tandem's, by the same rule."
            .to_owned(),
    ];
    for run in runs.iter().filter(|run| run.registered < run.users) {
        notes.push(format!(
            "{} at {} % loss: {} of {} users were registered at the end; calls from and to the others fail.",
            run.line().label(), run.loss_percent, run.registered, run.users
        ));
    }
    for run in runs {
        if let Some(failures) = run.failures() {
            let (line, loss) = (run.line().label(), run.loss_percent);
            notes.push(format!("{line} at {loss} % loss, failures: {failures}."));
        }
    }
    if runs.iter().any(|run| run.failures().is_some()) {
        notes.push("Causes include registrations that succeeded later.".to_owned());
    }
    if options.transports.contains(&Transport::Tcp) {
        let also = if options.delay.is_zero() {
            ""
        } else {
            " nor delayed"
        };
        notes.push(format!(
            "TCP runs at 0 % loss only: its packets are the kernel's and cannot be dropped{also} from \
             user space."
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use sip_net::Profile;

    use super::*;

    fn run(transport: Transport, loss_percent: f64, calls_per_second: f64) -> Measurement {
        Measurement {
            transport,
            profile: (transport == Transport::Sctp).then_some(Profile::Signalling),
            loss_percent,
            attempted: 10,
            completed: 9,
            failed: 0,
            causes: BTreeMap::new(),
            unfinished: 1,
            not_started: 0,
            seconds: 1.0,
            calls_per_second,
            users: 2,
            registered: 2,
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
    fn counts_stand_beside_the_published_ones() {
        let runs = [
            run(Transport::Udp, 5.0, 20.0),
            run(Transport::Sctp, 10.0, 30.0),
        ];
        let csv = table(&Options::default(), &runs).to_csv();
        let last: Vec<&str> = csv.lines().nth(2).unwrap().rsplit(',').take(2).collect();
        assert_eq!(last[1], "1.5");
        assert!(
            last[0].starts_with("0.614"),
            "43 of 70 calls, not {}",
            last[0]
        );
    }

    #[test]
    fn without_udp_at_5_percent_nothing_is_scaled() {
        let csv = table(&Options::default(), &[run(Transport::Udp, 10.0, 20.0)]).to_csv();
        let last: Vec<&str> = csv.lines().nth(1).unwrap().rsplit(',').take(2).collect();
        assert_eq!(last[1], "");
    }

    #[test]
    fn the_table_says_why_tcp_stands_alone() {
        let text = table(&Options::default(), &[]).to_terminal(120);
        assert!(text.contains("TCP runs at 0 % loss only"), "{text}");
    }

    #[test]
    fn the_table_says_who_was_not_registered() {
        let mut runs = [run(Transport::Sctp, 30.0, 0.0)];
        let notes = |runs: &[Measurement]| table(&Options::default(), runs).to_terminal(120);
        assert!(!notes(&runs).contains("registered"));
        runs[0].registered = 1;
        assert!(
            notes(&runs).contains("SCTP, signalling at 30 % loss: 1 of 2 users were registered")
        );
    }

    #[test]
    fn the_table_and_the_error_say_what_calls_failed_for() {
        let mut runs = [run(Transport::Udp, 0.0, 9.0)];
        assert_eq!(runs[0].failed_without_loss(), None);
        runs[0].causes = BTreeMap::from([("REGISTER not answered".to_owned(), 1)]);
        let text = table(&Options::default(), &runs).to_terminal(160);
        assert!(!text.contains("auses"), "{text}");
        runs[0].failed = 3;
        runs[0].causes = BTreeMap::from([
            ("INVITE answered 503".to_owned(), 2),
            ("given up".to_owned(), 1),
        ]);
        let failures = "3 of 10 calls (INVITE answered 503: 2, given up: 1)";
        let text = table(&Options::default(), &runs).to_terminal(160);
        let note = format!("UDP at 0 % loss, failures: {failures}.");
        assert!(text.contains(&note), "{text}");
        let line = runs[0].failed_without_loss();
        assert_eq!(line, Some(format!("UDP: {failures}")));
        runs[0].registered = 1;
        runs[0].failed = 0;
        runs[0].causes.clear();
        let line = runs[0].failed_without_loss();
        assert_eq!(line.unwrap(), "UDP: registrations of 1 of 2 users");
        runs[0].loss_percent = 5.0;
        assert_eq!(runs[0].failed_without_loss(), None);
    }

    #[test]
    fn percentages_keep_their_decimals() {
        assert_eq!(decimals_of(5.0), 0);
        assert_eq!(decimals_of(0.5), 1);
        assert_eq!(decimals_of(0.25), 2);
    }
}
