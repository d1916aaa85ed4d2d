//! The picture of a run.

use std::time::Duration;

use load::statistics::{Delays, Interval, Sketch};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Sparkline, Table, Widget};
use report::{format_count, format_milliseconds, format_number};

use crate::load::tables;
use crate::load::view::{View, main_delay, quantile};

/// Columns of a terminal that leave room for the steps of a scenario, or for why attempts failed, and for single seconds.
const ROOMY: u16 = 116;

/// Columns that leave room for both, and for more of the delays.
const ROOMIER: u16 = 176;

/// Widths of the tables.
const CODES: Constraint = Constraint::Length(26);
const DELAYS: Constraint = Constraint::Length(54);
const DELAYS_WITH_MORE: Constraint = Constraint::Length(83);
const FAILURES: u16 = 30;
const SECONDS: u16 = 64;

const LABEL: Style = Style::new().fg(Color::DarkGray);
const GOOD: Style = Style::new().fg(Color::Green);
const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);

/// Draws the run.
pub(super) fn draw(title: &str, view: &View<'_>, area: Rect, buffer: &mut Buffer) {
    // What happened over time has a sixth of the height at least, and all that the tables leave.
    let least = 2 + 5 * (area.height.saturating_sub(20) / 6).max(1);
    let others = 7 + least;
    let tables = table_lines(view).clamp(6, area.height.saturating_sub(others).max(6));
    let [head, counts, tables, history, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(5),
        Constraint::Length(tables),
        Constraint::Min(7),
        Constraint::Length(1),
    ])
    .areas(area);
    draw_head(title, view, head, buffer);
    draw_counts(view, counts, buffer);
    draw_tables(view, tables, buffer);
    if area.width >= ROOMY {
        let [lines, seconds] =
            Layout::horizontal([Constraint::Min(40), Constraint::Length(SECONDS)]).areas(history);
        draw_history(view, lines, buffer);
        draw_seconds(view, seconds, buffer);
    } else {
        draw_history(view, history, buffer);
    }
    Line::from(vec![
        " + - ".bold(),
        Span::styled("rate by 1   ", LABEL),
        "* / ".bold(),
        Span::styled("by 10  ", LABEL),
        "p ".bold(),
        Span::styled("pause  ", LABEL),
        "q ".bold(),
        Span::styled("quit after calls in progress; again: now", LABEL),
    ])
    .render(foot, buffer);
}

/// Lines that the longest of the tables has, with its frame.
fn table_lines(view: &View<'_>) -> u16 {
    let codes = tables::named(&view.statistics.codes()).count();
    let failures = view.statistics.failures.reasons().len();
    let delays = delay_rows(view).count() + 1;
    let steps = view.steps.len() + 1;
    let lines = [codes, failures, delays, steps].into_iter().max();
    u16::try_from(lines.unwrap_or(0) + 2).unwrap_or(u16::MAX)
}

/// The tables side by side, as many as there is room for.
fn draw_tables(view: &View<'_>, area: Rect, buffer: &mut Buffer) {
    let has_steps = !view.steps.is_empty();
    let with_failures = match has_steps {
        true => ROOMIER,
        false => ROOMY,
    };
    let (has_steps, has_failures) = (
        has_steps && area.width >= ROOMY,
        area.width >= with_failures,
    );
    let delays = match area.width {
        ROOMIER.. => DELAYS_WITH_MORE,
        _ => DELAYS,
    };
    let widths = match (has_steps, has_failures) {
        (true, true) => [
            CODES,
            delays,
            Constraint::Length(FAILURES),
            Constraint::Min(36),
        ],
        (true, false) => [CODES, delays, Constraint::Length(0), Constraint::Min(36)],
        (false, true) => [
            CODES,
            delays,
            Constraint::Min(FAILURES),
            Constraint::Length(0),
        ],
        (false, false) => [
            CODES,
            Constraint::Min(40),
            Constraint::Length(0),
            Constraint::Length(0),
        ],
    };
    let [codes, delays, failures, steps] = Layout::horizontal(widths).areas(area);
    draw_codes(view, codes, buffer);
    draw_delays(view, delays, buffer);
    if has_failures {
        draw_failures(view, failures, buffer);
    }
    if has_steps {
        draw_steps(view, steps, buffer);
    }
}

fn draw_head(title: &str, view: &View<'_>, area: Rect, buffer: &mut Buffer) {
    let state = match (view.is_ending, view.is_paused) {
        (true, _) => "ending",
        (false, true) => "paused",
        (false, false) => view.phase,
    };
    let right = format!("{state}  {} ", view.progress());
    let [left, side] = Layout::horizontal([
        Constraint::Min(10),
        Constraint::Length(right.chars().count() as u16),
    ])
    .areas(area);
    buffer.set_style(area, Style::new().reversed());
    Line::from(format!(" {title}")).bold().render(left, buffer);
    Line::from(right).render(side, buffer);
}

fn draw_counts(view: &View<'_>, area: Rect, buffer: &mut Buffer) {
    let interval = view.last_interval();
    let per_second = |count: &dyn Fn(&Interval) -> u64| match interval {
        Some(interval) => format!("{}/s", format_number(view.per_second(count(interval)), 0)),
        None => "–".to_owned(),
    };
    let (completed, failed) = (view.statistics.completed(), view.statistics.failed());
    let arrivals = &view.statistics.arrivals;
    let asked = match view.rate {
        Some(rate) => format!("{}/s", format_number(rate, if rate < 10.0 { 1 } else { 0 })),
        None => "back to back".to_owned(),
    };
    let late = interval.map_or("–".to_owned(), |interval| {
        quantile(&interval.lateness, 0.99)
    });
    let users = match view.registered {
        all if all == view.users => format!("all {}", format_count(all)),
        some => format!("{} of {}", format_count(some), format_count(view.users)),
    };
    let lines = [
        vec![
            ("Asked", asked, Style::new()),
            (
                "offered",
                per_second(&|interval| interval.offered),
                Style::new(),
            ),
            (
                "begun",
                per_second(&|interval| view.begun(interval)),
                Style::new(),
            ),
            (
                "completed",
                per_second(&|interval| interval.completed),
                GOOD,
            ),
        ],
        vec![
            ("Begun", format_count(view.all_begun()), Style::new()),
            ("in flight", format_count(view.in_flight), Style::new()),
            ("completed", format_count(completed), GOOD),
            ("failed", format_count(failed), style_of_failures(failed)),
        ],
        vec![
            ("Users", users, Style::new()),
            (
                "repeated",
                format_count(view.statistics.retransmissions),
                Style::new(),
            ),
            (
                "not begun",
                format_count(arrivals.not_started),
                style_of_failures(arrivals.not_started),
            ),
            ("late p99", format!("{late} ms"), Style::new()),
        ],
    ];
    let rows = lines.into_iter().map(|cells| {
        Row::new(cells.into_iter().flat_map(|(label, value, style)| {
            [
                Cell::from(Span::styled(label, LABEL)),
                Cell::from(Span::styled(value, style)),
            ]
        }))
    });
    // All of it fits into 80 columns.
    let widths = [6, 13, 9, 8, 9, 8, 9, 8].map(Constraint::Length);
    let table = Table::new(rows, widths).block(Block::new().padding(ratatui::widgets::Padding {
        left: 1,
        right: 1,
        top: 1,
        bottom: 1,
    }));
    Widget::render(table, area, buffer);
}

fn style_of_failures(count: u64) -> Style {
    match count {
        0 => Style::new(),
        _ => BAD,
    }
}

fn draw_codes(view: &View<'_>, area: Rect, buffer: &mut Buffer) {
    let codes = view.statistics.codes();
    let rows = tables::named(&codes).map(|(name, count)| {
        let style = match name.as_bytes().first() {
            Some(b'2') => GOOD,
            Some(b'1' | b'3') => Style::new(),
            _ => BAD,
        };
        Row::new([
            Line::styled(name, style),
            Line::from(format_count(count)).right_aligned(),
        ])
    });
    let block = Block::bordered().title(" Final responses ");
    let table = Table::new(rows, [Constraint::Min(10), Constraint::Length(12)]).block(block);
    Widget::render(table, area, buffer);
}

/// The delays that were measured.
fn delay_rows<'v>(view: &View<'v>) -> impl Iterator<Item = (&'static str, &'v Delays)> {
    let statistics = view.statistics;
    let metrics = &statistics.metrics;
    let rows: [(&str, &Delays); 7] = [
        ("registration", &metrics.registration_request_delay),
        ("session request", &metrics.session_request_delay),
        ("  failed", &metrics.failed_session_request_delay),
        ("call set-up", &statistics.published.call_setup_delay),
        ("disconnect", &metrics.session_disconnect_delay),
        ("other request", &statistics.request_delay),
        ("lateness", &statistics.lateness),
    ];
    rows.into_iter().filter(|(_, delays)| delays.count() > 0)
}

fn draw_delays(view: &View<'_>, area: Rect, buffer: &mut Buffer) {
    type Of = fn(&Delays) -> Option<Duration>;
    const USUAL: [(&str, Of); 4] = [
        ("p50", |delays| delays.quantile(0.5)),
        ("p95", |delays| delays.quantile(0.95)),
        ("p99", |delays| delays.quantile(0.99)),
        ("max", Delays::maximum),
    ];
    const MORE: [(&str, Of); 6] = [
        ("mean", Delays::mean),
        USUAL[0],
        USUAL[1],
        USUAL[2],
        ("p99.9", |delays| delays.quantile(0.999)),
        USUAL[3],
    ];
    let has_more = area.width > 80;
    let columns = if has_more { &MORE[..] } else { &USUAL };
    let rows = delay_rows(view).map(|(name, delays)| {
        let samples = has_more.then(|| format_count(delays.count()));
        let numbers = columns.iter().map(|(_, of)| match of(delays) {
            Some(delay) => format_milliseconds(delay.as_secs_f64() * 1e3),
            None => "–".to_owned(),
        });
        let numbers = samples.into_iter().chain(numbers);
        let numbers = numbers.map(|number| Line::from(number).right_aligned());
        Row::new(std::iter::once(Line::from(name)).chain(numbers))
    });
    let samples = has_more.then_some("samples");
    let names = columns.iter().map(|(name, _)| *name);
    let header = std::iter::once("").chain(samples).chain(names);
    let header = header.map(|text| Line::styled(text, LABEL).right_aligned());
    let widths = samples.map(|_| 10).into_iter();
    let widths = std::iter::once(16)
        .chain(widths)
        .chain(columns.iter().map(|_| 8));
    let table = Table::new(rows, widths.map(Constraint::Length))
        .header(Row::new(header))
        .block(Block::bordered().title(" Delays, ms "));
    Widget::render(table, area, buffer);
}

/// Why attempts failed.
fn draw_failures(view: &View<'_>, area: Rect, buffer: &mut Buffer) {
    let rows = view.statistics.failures.reasons().iter();
    let rows = rows.map(|(reason, count)| {
        Row::new([
            Line::styled(reason.to_string(), BAD),
            Line::from(format_count(*count)).right_aligned(),
        ])
    });
    let block = Block::bordered().title(" Failures ");
    let table = Table::new(rows, [Constraint::Min(10), Constraint::Length(12)]).block(block);
    Widget::render(table, area, buffer);
}

/// The last seconds one by one, the newest first.
fn draw_seconds(view: &View<'_>, area: Rect, buffer: &mut Buffer) {
    let room = usize::from(area.height.saturating_sub(3));
    let intervals = view.last_intervals(room);
    let rows = intervals.iter().rev().map(|interval| {
        let per_second = |count| format_number(view.per_second(count), 0);
        let (_, delay) = main_delay(interval);
        let plain = Style::new();
        [
            (per_second(interval.offered), plain),
            (per_second(view.begun(interval)), plain),
            (per_second(interval.completed), GOOD),
            (
                per_second(interval.failed),
                style_of_failures(interval.failed),
            ),
            (quantile(delay, 0.5), plain),
            (quantile(delay, 0.99), plain),
            (quantile(&interval.lateness, 0.99), plain),
        ]
        .map(|(text, style)| Line::styled(text, style).right_aligned())
    });
    let header = [
        "offered", "begun", "done", "failed", "p50", "p99", "late p99",
    ];
    let header = header.map(|text| Line::styled(text, LABEL).right_aligned());
    let table = Table::new(rows.map(Row::new), [Constraint::Ratio(1, 7); 7])
        .header(Row::new(header))
        .block(Block::bordered().title(" Seconds, the newest first; 1/s, ms "));
    Widget::render(table, area, buffer);
}

/// What became of each step of a scenario; the last ones where there are more than lines.
fn draw_steps(view: &View<'_>, area: Rect, buffer: &mut Buffer) {
    let room = usize::from(area.height.saturating_sub(3));
    let hidden = view.steps.len().saturating_sub(room);
    let rows = view.steps.iter().skip(hidden).map(|(line, count)| {
        let troubles = count.timeouts + count.unexpected;
        let numbers = [
            Line::from(format_count(count.done)),
            Line::from(format_count(count.retransmitted)),
            Line::styled(format_count(troubles), style_of_failures(troubles)),
        ];
        let numbers = numbers.map(Line::right_aligned);
        Row::new(std::iter::once(Line::from(line.as_str())).chain(numbers))
    });
    let header =
        ["", "count", "again", "trouble"].map(|text| Line::styled(text, LABEL).right_aligned());
    let widths = [
        Constraint::Min(14),
        Constraint::Length(9),
        Constraint::Length(7),
        Constraint::Length(8),
    ];
    let table = Table::new(rows, widths)
        .header(Row::new(header))
        .block(Block::bordered().title(" Steps "));
    Widget::render(table, area, buffer);
}

/// Sparklines: the last seconds, the newest at the right.
fn draw_history(view: &View<'_>, area: Rect, buffer: &mut Buffer) {
    let delay = |interval: &Interval| main_delay(interval).1.clone();
    type Value<'a> = Box<dyn Fn(&Interval) -> Option<u64> + 'a>;
    let microseconds = |sketch: &Sketch, part| {
        sketch
            .quantile(part)
            .map(|delay: Duration| delay.as_micros() as u64)
    };
    let lines: [(&str, Value<'_>, Color); 5] = [
        (
            "begun/s",
            Box::new(|interval| Some(view.begun(interval))),
            Color::Blue,
        ),
        (
            "failed/s",
            Box::new(|interval| Some(interval.failed)),
            Color::Red,
        ),
        (
            "delay p50",
            Box::new(move |interval| microseconds(&delay(interval), 0.5)),
            Color::Green,
        ),
        (
            "delay p99",
            Box::new(move |interval| microseconds(&delay(interval), 0.99)),
            Color::Yellow,
        ),
        (
            "late p99",
            Box::new(move |interval| microseconds(&interval.lateness, 0.99)),
            Color::Magenta,
        ),
    ];
    let block = Block::bordered().title(" Over time ");
    let inner = block.inner(area);
    block.render(area, buffer);
    let rows = Layout::vertical([Constraint::Ratio(1, 5); 5]).split(inner);
    for ((name, value, colour), row) in lines.into_iter().zip(rows.iter()) {
        let [label, line, most] = Layout::horizontal([
            Constraint::Length(11),
            Constraint::Min(10),
            Constraint::Length(14),
        ])
        .areas(*row);
        let intervals = view.last_intervals(usize::from(line.width));
        let values: Vec<Option<u64>> = intervals.iter().map(&value).collect();
        let highest = values.iter().flatten().max().copied();
        Paragraph::new(Line::styled(format!(" {name}"), LABEL)).render(label, buffer);
        Sparkline::default()
            .data(values)
            .style(Style::new().fg(colour))
            .render(line, buffer);
        let is_delay = name.ends_with("p50") || name.ends_with("p99");
        let most_text = match highest {
            Some(highest) if is_delay => {
                format!(" ≤ {} ms", format_milliseconds(highest as f64 / 1e3))
            }
            Some(highest) => format!(" ≤ {}", format_number(view.per_second(highest), 0)),
            None => String::new(),
        };
        Paragraph::new(Line::styled(most_text, LABEL)).render(most, buffer);
    }
}

#[cfg(test)]
mod tests;
