//! The picture of a run in memory.

use std::time::Instant;

use load::engine::StepCount;
use load::statistics::Statistics;

use super::*;
use crate::load::view::Planned;

fn drawn(width: u16, height: u16, statistics: &Statistics) -> String {
    drawn_with(
        &[("INVITE →".to_owned(), StepCount::default())],
        (width, height),
        statistics,
    )
}

fn drawn_with(
    steps: &[(String, StepCount)],
    (width, height): (u16, u16),
    statistics: &Statistics,
) -> String {
    let view = View {
        phase: "calls",
        elapsed: Duration::from_secs(12),
        planned: Planned::Time(Duration::from_secs(30)),
        rate: Some(250.0),
        is_paused: false,
        is_ending: false,
        in_flight: 7,
        registered: 1000,
        users: 1000,
        statistics,
        steps,
    };
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    draw("tandem load calls: udp:127.0.0.1", &view, area, &mut buffer);
    let rows = (0..height).map(|y| {
        let cells = (0..width).map(|x| buffer[(x, y)].symbol());
        cells.collect::<String>() + "\n"
    });
    rows.collect()
}

#[test]
fn a_run_fits_a_terminal_of_80_columns_and_24_lines() {
    let started = Instant::now();
    let mut statistics = Statistics::new(started, Duration::from_secs(1));
    for millisecond in 0..12_000 {
        let due = started + Duration::from_millis(millisecond);
        statistics.note_started(due, due + Duration::from_micros(250));
    }
    let screen = drawn(80, 24, &statistics);
    for said in [
        "tandem load calls: udp:127.0.0.1",
        "calls  0:12 of 0:30",
        "250/s",
        "1,000/s",
        "12,000",
        "all 1,000",
        "in flight 7",
        "lateness",
        "Final responses",
        "q quit",
    ] {
        assert!(screen.contains(said), "{said} in\n{screen}");
    }
}

/// Whoever makes the window tiny sees little, and nothing breaks.
#[test]
fn no_window_is_too_small() {
    let statistics = Statistics::new(Instant::now(), Duration::from_secs(1));
    for (width, height) in [(1, 1), (5, 3), (20, 10), (300, 2), (2, 100)] {
        drawn(width, height, &statistics);
    }
}

/// Whoever has a large one sees why attempts failed, and the last seconds one by one.
#[test]
fn a_large_terminal_has_more() {
    let started = Instant::now();
    let mut statistics = Statistics::new(started, Duration::from_secs(1));
    for millisecond in 0..12_000 {
        let due = started + Duration::from_millis(millisecond);
        statistics.note_started(due, due + Duration::from_micros(250));
    }
    statistics.failures.count(load::record::Failure::Refused);
    let large = drawn_with(&[], (200, 60), &statistics);
    for said in ["Failures", "refused", "Seconds", "p99.9", "samples"] {
        assert!(large.contains(said), "{said} in\n{large}");
    }
    // No column of the delays is cut: their names have 16, the numbers of samples 10, all others 8, and a space before each.
    let header = large.lines().find(|line| line.contains("p99.9")).unwrap();
    let names = ["samples", "mean", "p50", "p95", "p99", "p99.9", "max"];
    let ends = names.map(|name| {
        let at = header
            .find(&format!(" {name} "))
            .or(header.find(&format!(" {name}│")));
        at.unwrap() + 1 + name.len()
    });
    assert!(
        ends.windows(2).all(|pair| pair[1] - pair[0] == 9),
        "{large}"
    );
    let first = header[..ends[0]].rsplit('│').next();
    assert_eq!(first.map(str::len), Some(16 + 1 + 10), "{large}");
    // Each of the twelve seconds that are over.
    let seconds = large
        .lines()
        .filter(|line| line.contains("1,000    1,000 "));
    assert_eq!(seconds.count(), 12, "{large}");
    // The panels end where their contents do: nearly all of the height is what happened over time.
    let top = large.lines().position(|line| line.contains("Over time"));
    assert!(top.is_some_and(|top| top < 20), "{large}");
    let with_steps = drawn(200, 60, &statistics);
    assert!(
        with_steps.contains("Steps") && with_steps.contains("Failures"),
        "{with_steps}"
    );
    let small = drawn(100, 30, &statistics);
    assert!(
        !small.contains("Failures") && !small.contains("Seconds"),
        "{small}"
    );
}
