//! The screen of a run: rates, calls in flight, responses, delays, and the keys that steer it.

use std::io;
use std::time::Duration;

use load::statistics::{Delays, Interval, Sketch};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Sparkline, Table, Widget};
use ratatui::{DefaultTerminal, crossterm};
use report::{format_count, format_milliseconds, format_number};
use tokio::sync::mpsc;

use super::tables;
use super::view::{View, quantile};

/// A terminal that shows a run, and hears the keys of whoever watches.
pub(super) struct Screen {
    terminal: DefaultTerminal,
    keys: mpsc::UnboundedReceiver<Key>,
}

/// What a key asks for. They are those of SIPp.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Key {
    /// `cset rate N`: this rate. Only a remote control has it.
    SetRate(f64),
    /// `+` and `-`: so many steps of the rate more or less.
    Rate(i32),
    /// `p`: no arrivals, or arrivals again.
    Pause,
    /// `q` and Ctrl-C: no more arrivals; what is under way ends. The second time: at once.
    Quit,
    /// `Q`: at once.
    QuitNow,
}

impl Screen {
    /// Takes the terminal.
    pub(super) fn open() -> io::Result<Screen> {
        let terminal = ratatui::try_init()?;
        let (sender, keys) = mpsc::unbounded_channel();
        std::thread::Builder::new()
            .name("keys".to_owned())
            .spawn(move || read_keys(&sender))?;
        Ok(Screen { terminal, keys })
    }

    /// Shows how the run stands, beneath a title.
    pub(super) fn show(&mut self, title: &str, view: &View<'_>) -> io::Result<()> {
        self.terminal.draw(|frame| {
            let area = frame.area();
            draw(title, view, area, frame.buffer_mut());
        })?;
        Ok(())
    }

    /// Waits for a key.
    pub(super) async fn key(&mut self) -> Key {
        match self.keys.recv().await {
            Some(key) => key,
            // Nobody can type any more.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Reads keys until nobody listens. A thread, since a terminal is read by waiting for it.
fn read_keys(sender: &mpsc::UnboundedSender<Key>) {
    use crossterm::event;
    const LOOK_AGAIN: Duration = Duration::from_millis(100);
    while !sender.is_closed() {
        match event::poll(LOOK_AGAIN) {
            Ok(false) => continue,
            Ok(true) => {}
            Err(_) => return,
        }
        let Ok(event) = event::read() else { return };
        if let Some(key) = key_of(&event) {
            let _ = sender.send(key);
        }
    }
}

fn key_of(event: &crossterm::event::Event) -> Option<Key> {
    use crossterm::event::{KeyCode, KeyModifiers};
    let event = event.as_key_press_event()?;
    let is_control = event.modifiers.contains(KeyModifiers::CONTROL);
    match event.code {
        KeyCode::Char('c') if is_control => Some(Key::Quit),
        _ if is_control => None,
        KeyCode::Char(character) => key_of_character(character),
        _ => None,
    }
}

/// What a character asks for.
pub(super) fn key_of_character(character: char) -> Option<Key> {
    Some(match character {
        '+' => Key::Rate(1),
        '-' => Key::Rate(-1),
        '*' => Key::Rate(10),
        '/' => Key::Rate(-10),
        'p' => Key::Pause,
        'q' => Key::Quit,
        'Q' => Key::QuitNow,
        _ => return None,
    })
}

/// Columns of a terminal that leave room for the steps of a scenario.
const ROOMY: u16 = 116;

const LABEL: Style = Style::new().fg(Color::DarkGray);
const GOOD: Style = Style::new().fg(Color::Green);
const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);

/// Draws the run.
fn draw(title: &str, view: &View<'_>, area: Rect, buffer: &mut Buffer) {
    // Sparklines are as high as there is room.
    let history = 2 + 5 * (area.height.saturating_sub(20) / 6).clamp(1, 8);
    let [head, counts, tables, history, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(5),
        Constraint::Min(6),
        Constraint::Length(history),
        Constraint::Length(1),
    ])
    .areas(area);
    draw_head(title, view, head, buffer);
    draw_counts(view, counts, buffer);
    if !view.steps.is_empty() && area.width >= ROOMY {
        let [codes, delays, steps] = Layout::horizontal([
            Constraint::Length(26),
            Constraint::Length(54),
            Constraint::Min(36),
        ])
        .areas(tables);
        draw_codes(view, codes, buffer);
        draw_delays(view, delays, buffer);
        draw_steps(view, steps, buffer);
    } else {
        let [codes, delays] =
            Layout::horizontal([Constraint::Length(26), Constraint::Min(40)]).areas(tables);
        draw_codes(view, codes, buffer);
        draw_delays(view, delays, buffer);
    }
    draw_history(view, history, buffer);
    Line::from(vec![
        " + - ".bold(),
        Span::styled("rate by 1   ", LABEL),
        "* / ".bold(),
        Span::styled("by 10   ", LABEL),
        "p ".bold(),
        Span::styled("pause   ", LABEL),
        "q ".bold(),
        Span::styled("quit after calls in progress; again: now", LABEL),
    ])
    .render(foot, buffer);
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

fn draw_delays(view: &View<'_>, area: Rect, buffer: &mut Buffer) {
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
    let rows = rows
        .into_iter()
        .filter(|(_, delays)| delays.count() > 0)
        .map(|(name, delays)| {
            let numbers = [
                delays.quantile(0.5),
                delays.quantile(0.95),
                delays.quantile(0.99),
                delays.maximum(),
            ]
            .map(|delay| match delay {
                Some(delay) => format_milliseconds(delay.as_secs_f64() * 1e3),
                None => "–".to_owned(),
            });
            let name = Line::from(name);
            let numbers = numbers.map(|number| Line::from(number).right_aligned());
            Row::new(std::iter::once(name).chain(numbers))
        });
    let header =
        ["", "p50", "p95", "p99", "max"].map(|text| Line::styled(text, LABEL).right_aligned());
    let widths = [16, 8, 8, 8, 8].map(Constraint::Length);
    let table = Table::new(rows, widths)
        .header(Row::new(header))
        .block(Block::bordered().title(" Delays, ms "));
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
    let delay = |interval: &Interval| super::view::main_delay(interval).1.clone();
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
mod tests {
    use std::time::Instant;

    use load::engine::StepCount;
    use load::statistics::Statistics;

    use super::*;
    use crate::load::view::Planned;

    fn drawn(width: u16, height: u16, statistics: &Statistics) -> String {
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
            steps: &[("INVITE →".to_owned(), StepCount::default())],
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

    /// SIPp's keys.
    #[test]
    fn keys_steer_the_run() {
        use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
        let pressed = |character, modifiers| {
            key_of(&Event::Key(KeyEvent::new(
                KeyCode::Char(character),
                modifiers,
            )))
        };
        for (character, key) in [
            ('+', Some(Key::Rate(1))),
            ('-', Some(Key::Rate(-1))),
            ('*', Some(Key::Rate(10))),
            ('/', Some(Key::Rate(-10))),
            ('p', Some(Key::Pause)),
            ('q', Some(Key::Quit)),
            ('Q', Some(Key::QuitNow)),
            ('c', None),
        ] {
            assert_eq!(pressed(character, KeyModifiers::NONE), key, "{character}");
        }
        assert_eq!(pressed('c', KeyModifiers::CONTROL), Some(Key::Quit));
        assert_eq!(pressed('p', KeyModifiers::CONTROL), None);
        assert_eq!(key_of(&Event::Resize(80, 24)), None);
        let enter = KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE);
        assert_eq!(key_of(&Event::Key(enter)), None);
    }

    /// Whoever makes the window tiny sees little, and nothing breaks.
    #[test]
    fn no_window_is_too_small() {
        let statistics = Statistics::new(Instant::now(), Duration::from_secs(1));
        for (width, height) in [(1, 1), (5, 3), (20, 10), (300, 2), (2, 100)] {
            drawn(width, height, &statistics);
        }
    }
}
