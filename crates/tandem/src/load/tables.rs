//! What a run measured, as tables.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use load::engine::StepCount;
use load::script::Script;
use load::statistics::{Codes, Delays, Ends, Statistics};
use report::{Cell, Column, Row, Table};

/// Every table that has something in it, in the order in which they are read.
pub(super) fn all(
    statistics: &Statistics,
    timers: &[(&str, &Delays)],
    lasted: Duration,
) -> Vec<Table> {
    let tables = [
        attempts(statistics, lasted),
        delays(statistics, timers),
        ratios(statistics),
        codes(statistics),
        failures(statistics),
        lost(statistics),
    ];
    tables.into_iter().flatten().collect()
}

/// The lines of scripts that did something, with what became of each.
pub(super) fn step_rows(
    scripts: &[Arc<Script>],
    counts: &[Vec<StepCount>],
) -> Vec<(String, StepCount)> {
    let mut rows = Vec::new();
    for (script, counts) in scripts.iter().zip(counts) {
        if counts.iter().all(|count| *count == StepCount::default()) {
            continue;
        }
        let lines = script.lines().iter().zip(counts);
        rows.extend(lines.map(|(line, count)| (line.to_string(), *count)));
    }
    rows
}

/// What became of each step of a scenario.
pub(super) fn steps(rows: &[(String, StepCount)]) -> Option<Table> {
    let mut table = Table::new("Steps")
        .column(Column::text("Message").key())
        .columns(["count", "retransmitted", "timeouts", "unexpected"].map(Column::number));
    for (line, count) in rows {
        table.push(Row::new([
            Cell::from(line.as_str()),
            Cell::from(count.done),
            Cell::from(count.retransmitted),
            Cell::from(count.timeouts),
            Cell::from(count.unexpected),
        ]));
    }
    (!rows.is_empty()).then_some(table)
}

/// What was begun and how it ended, a row for each kind. The rate of registrations is shown where nothing
/// else was done: others came before the time that is counted.
fn attempts(statistics: &Statistics, lasted: Duration) -> Option<Table> {
    let is_alone = statistics.calls == Ends::default() && statistics.requests == Ends::default();
    let mut table = Table::new("Attempts")
        .column(Column::text("Kind").key())
        .columns(["completed", "failed", "unfinished"].map(Column::number))
        .column(Column::number("completed").unit("1/s").group("Rate"));
    let per_second = |count: u64| {
        let seconds = lasted.as_secs_f64();
        Cell::number((seconds > 0.0).then(|| count as f64 / seconds), 1)
    };
    let mut is_empty = true;
    for (name, ends) in kinds(statistics) {
        let Ends {
            completed,
            failed,
            unfinished,
        } = ends;
        if completed + failed + unfinished == 0 {
            continue;
        }
        is_empty = false;
        table.push(Row::new([
            Cell::from(name),
            Cell::from(completed),
            Cell::from(failed),
            Cell::from(unfinished),
            match name {
                REGISTRATIONS if !is_alone => Cell::Absent,
                _ => per_second(completed),
            },
        ]));
    }
    (!is_empty).then_some(table)
}

const REGISTRATIONS: &str = "registrations";

/// The kinds of attempts.
fn kinds(statistics: &Statistics) -> [(&'static str, Ends); 4] {
    [
        ("calls", statistics.calls),
        ("answered by callees", statistics.served),
        (REGISTRATIONS, statistics.registrations),
        ("requests", statistics.requests),
    ]
}

/// Every delay that was measured, a row each; those that a scenario takes have the names of its timers.
fn delays(statistics: &Statistics, timers: &[(&str, &Delays)]) -> Option<Table> {
    let mut table = Table::new("Delays")
        .columns([
            Column::text("Delay").key(),
            Column::text("By").key(),
            Column::number("Samples"),
        ])
        .columns(
            ["min", "mean", "p50", "p90", "p95", "p99", "max"]
                .map(|header| Column::number(header).unit("ms").group("Delay")),
        );
    let metrics = &statistics.metrics;
    let published = &statistics.published;
    let blocks: [(&str, &[(&str, &Delays)]); 4] = [
        (
            "RFC 6076",
            &[
                ("registration (RRD)", &metrics.registration_request_delay),
                ("session request (SRD)", &metrics.session_request_delay),
                (
                    "session request, failed",
                    &metrics.failed_session_request_delay,
                ),
                ("disconnect (SDD)", &metrics.session_disconnect_delay),
                (
                    "disconnect, failed",
                    &metrics.failed_session_disconnect_delay,
                ),
                ("session duration (SDT)", &metrics.session_duration),
                ("session duration, failed", &metrics.failed_session_duration),
            ],
        ),
        (
            "Adnan 2012",
            &[
                ("REGISTER", &published.register_delay),
                ("INVITE", &published.invite_delay),
                ("call set-up", &published.call_setup_delay),
            ],
        ),
        ("scenario", timers),
        (
            "tandem",
            &[
                ("other request", &statistics.request_delay),
                ("lateness", &statistics.lateness),
            ],
        ),
    ];
    let mut count = 0;
    for (by, rows) in blocks {
        let mut begins_block = count > 0;
        for (name, delays) in rows {
            if delays.count() == 0 {
                continue;
            }
            count += 1;
            let row = delay_row(name, by, delays);
            table.push(match std::mem::take(&mut begins_block) {
                true => row.begins_block(),
                false => row,
            });
        }
    }
    table.note(
        "SRD: INVITE to the first response beyond 100; SDD: BYE to its response; SDT: 200 to BYE. Lateness is the \
         generator's own. Adnan 2012's delays are measured by the users here, and include the way to the server \
         and back.",
    );
    (count > 0).then_some(table)
}

fn delay_row(name: &str, by: &str, delays: &Delays) -> Row {
    let summary = delays.milliseconds();
    let cells = [
        summary.min,
        summary.mean,
        summary.p50,
        summary.p90,
        summary.p95,
        summary.p99,
        summary.max,
    ];
    let keys = [Cell::from(name), Cell::from(by), Cell::from(summary.count)];
    Row::new(keys.into_iter().chain(cells.map(Cell::milliseconds)))
}

/// The ratios of RFC 6076.
fn ratios(statistics: &Statistics) -> Option<Table> {
    let metrics = &statistics.metrics;
    let rows = [
        (
            "Session establishment ratio (SER)",
            metrics.session_establishment_ratio(),
        ),
        (
            "Session establishment effectiveness ratio (SEER)",
            metrics.session_establishment_effectiveness_ratio(),
        ),
        (
            "Ineffective session attempts (ISA)",
            metrics.ineffective_session_attempts(),
        ),
        (
            "Session completion ratio (SCR)",
            metrics.session_completion_ratio(),
        ),
        (
            "Ineffective registration attempts (IRA)",
            metrics.ineffective_registration_attempts(),
        ),
    ];
    let mut table = Table::new("Ratios by RFC 6076").columns([
        Column::text("Ratio").key(),
        Column::number("Value").unit("%"),
    ]);
    let mut is_empty = true;
    for (name, percent) in rows {
        if percent.is_some() {
            is_empty = false;
            table.push(Row::new([Cell::from(name), Cell::number(percent, 3)]));
        }
    }
    (!is_empty).then_some(table)
}

/// How requests were answered, a column for each method.
fn codes(statistics: &Statistics) -> Option<Table> {
    let methods = methods(statistics);
    let mut rows: BTreeMap<String, [u64; 4]> = BTreeMap::new();
    for (index, (_, codes)) in methods.iter().enumerate() {
        for (name, count) in named(codes) {
            rows.entry(name).or_default()[index] += count;
        }
    }
    let is_used = |index: usize| rows.values().any(|counts| counts[index] > 0);
    let used: Vec<usize> = (0..methods.len()).filter(|index| is_used(*index)).collect();
    let mut table = Table::new("Final responses")
        .column(Column::text("Response").key())
        .columns(used.iter().map(|index| Column::number(methods[*index].0)));
    for (name, counts) in &rows {
        let cells = used.iter().map(|index| match counts[*index] {
            0 => Cell::Absent,
            count => Cell::from(count),
        });
        table.push(Row::new(
            std::iter::once(Cell::from(name.as_str())).chain(cells),
        ));
    }
    (!rows.is_empty()).then_some(table)
}

/// Responses under names that people read: `200`, and `none`.
pub(super) fn named(codes: &Codes) -> impl Iterator<Item = (String, u64)> + '_ {
    let responses = codes.responses().iter();
    let silent = Some(codes.without_response()).filter(|count| *count > 0);
    responses
        .map(|(status, count)| (status.to_string(), *count))
        .chain(silent.map(|count| ("none".to_owned(), count)))
}

/// The requests whose responses are counted apart.
pub(super) fn methods(statistics: &Statistics) -> [(&'static str, &Codes); 4] {
    [
        ("INVITE", &statistics.invite_codes),
        ("BYE", &statistics.bye_codes),
        ("REGISTER", &statistics.register_codes),
        ("other", &statistics.request_codes),
    ]
}

/// Why attempts failed.
fn failures(statistics: &Statistics) -> Option<Table> {
    let reasons = statistics.failures.reasons();
    let mut table =
        Table::new("Failures").columns([Column::text("Reason").key(), Column::number("Attempts")]);
    for (failure, count) in reasons {
        table.push(Row::new([
            Cell::from(failure.to_string()),
            Cell::from(*count),
        ]));
    }
    (!reasons.is_empty()).then_some(table)
}

/// What was lost or had to be repeated.
fn lost(statistics: &Statistics) -> Option<Table> {
    let published = &statistics.published;
    let rows = [
        ("Messages retransmitted", statistics.retransmissions),
        (
            "Requests repeated with credentials",
            statistics.authentications,
        ),
        ("Lost REGISTERs", published.lost_registers),
        ("Lost INVITEs", published.lost_invites),
        ("Lost sessions", published.lost_sessions()),
        (
            "Arrivals not begun: the maximum was in progress",
            statistics.arrivals.held_back,
        ),
        (
            "Arrivals not begun: no connection",
            statistics.arrivals.not_started - statistics.arrivals.held_back,
        ),
    ];
    let mut table = Table::new("Losses and retransmissions")
        .columns([Column::text("Event").key(), Column::number("Count")]);
    for (name, count) in rows {
        table.push(Row::new([Cell::from(name), Cell::from(count)]));
    }
    Some(table)
}
