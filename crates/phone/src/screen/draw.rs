//! Drawing accounts, calls, news and the line that is typed.

use std::time::Instant;

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Position, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Widget;

use super::{Call, PhoneScreen, State, Typed};

/// What a screen can do at least.
const LEAST: (u16, u16) = (40, 10);
/// Accounts that are shown at once.
const MAX_ACCOUNTS: usize = 5;
/// Lines of a call.
const CALL_LINES: usize = 2;
/// Signs of a level from silence to full.
const LEVEL_WIDTH: usize = 10;
/// What counts as silence, in decibels.
const SILENCE: f64 = -60.0;

const FAINT: Style = Style::new().fg(Color::DarkGray);
const POINTED_AT: Style = Style::new().add_modifier(Modifier::BOLD);

const HELP: [&str; 20] = [
    "d or Enter   call: Tab completes from history and contacts, Enter calls",
    "a or Enter   answer          b or Esc   hang up, refuse, give up",
    "x   hold                     X   go on",
    "m   mute                     + -   volume",
    "0-9 * # A-D   keys           R   record into call-N.wav, or no more",
    "r   transfer to another URI  j   join the other sides of two calls, and leave",
    "y n   do or refuse a transfer that the other side asks for",
    "c   conference of all calls, or no more",
    "Up Down   the call that keys are for",
    "Tab   the account that is called from",
    "N   do not disturb           T   answer at once",
    "?   this help                q or Ctrl-C   switch off",
    "",
    "Of each call: its state and time, the codec, then",
    "out, in   levels of what is sent and heard",
    "loss      packets that were lost or came too late",
    "jitter    of their arrival; rtt: there and back, told by reports",
    "mos       the mean opinion score, estimated: 4.4 at best",
    "",
    "Any key leads back.",
];

pub(super) fn draw(
    screen: &PhoneScreen,
    now: Instant,
    area: Rect,
    buffer: &mut Buffer,
) -> Option<Position> {
    if area.width < LEAST.0 || area.height < LEAST.1 {
        write("the window is too small", area, buffer);
        return None;
    }
    let shown = screen.accounts.len().clamp(1, MAX_ACCOUNTS);
    let [head, accounts, calls, news, line, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(shown as u16),
        Constraint::Min(4),
        Constraint::Max(8),
        Constraint::Length(1),
        Constraint::Length(1),
    ])
    .areas(area);
    draw_head(screen, head, buffer);
    if screen.shows_help {
        let page = Rect {
            height: accounts.height + calls.height + news.height,
            ..accounts
        };
        for (place, text) in HELP.iter().enumerate() {
            write(text, row(page, place), buffer);
        }
    } else {
        draw_accounts(screen, accounts, buffer);
        draw_calls(screen, now, calls, buffer);
        draw_news(screen, news, buffer);
    }
    let hint = "d call  a answer  b hang up  x X hold  m mute  r transfer  ? help  q quit";
    Line::from(hint).style(FAINT).render(foot, buffer);
    draw_line(screen, line, buffer)
}

fn draw_head(screen: &PhoneScreen, area: Rect, buffer: &mut Buffer) {
    let mut head = " tandem phone".to_owned();
    for (is_on, name) in [
        (screen.does_not_disturb, "do not disturb"),
        (screen.answers, "answers at once"),
        (screen.is_conference, "conference"),
    ] {
        if is_on {
            head.push_str(&format!("  [{name}]"));
        }
    }
    for (_, address) in &screen.failed_paths {
        head.push_str(&format!("  [path to {address} failed]"));
    }
    buffer.set_style(area, Style::new().add_modifier(Modifier::REVERSED));
    write(&head, area, buffer);
}

fn draw_accounts(screen: &PhoneScreen, area: Rect, buffer: &mut Buffer) {
    let height = usize::from(area.height).max(1);
    // The one that is called from is among those that are shown.
    let first = (screen.account + 1).saturating_sub(height);
    let shown = screen.accounts.iter().enumerate().skip(first).take(height);
    for (place, (number, account)) in shown.enumerate() {
        let mark = if number == screen.account { '>' } else { ' ' };
        let mail = if account.messages_wait {
            "  messages wait"
        } else {
            ""
        };
        let text = format!("{mark} {}  {}{mail}", account.uri, account.state);
        write(&text, row(area, place), buffer);
    }
}

fn draw_calls(screen: &PhoneScreen, now: Instant, area: Rect, buffer: &mut Buffer) {
    write(&"─".repeat(usize::from(area.width)), row(area, 0), buffer);
    if screen.calls.is_empty() {
        write("  no calls", row(area, 1), buffer);
        return;
    }
    let height = (usize::from(area.height) - 1) / CALL_LINES;
    let current = screen
        .calls
        .keys()
        .position(|call| Some(*call) == screen.current);
    let first = (current.unwrap_or(0) + 1).saturating_sub(height.max(1));
    let shown = screen.calls.iter().skip(first).take(height);
    for (place, (number, call)) in shown.enumerate() {
        let is_current = Some(*number) == screen.current;
        let mark = if is_current { '>' } else { ' ' };
        let seconds = now.saturating_duration_since(call.since).as_secs();
        let (minutes, seconds) = (seconds / 60, seconds % 60);
        let state = words(call);
        let text = format!("{mark} {minutes:>2}:{seconds:02}  {state:<22} {}", call.who);
        let line = row(area, 1 + CALL_LINES * place);
        write(&text, line, buffer);
        if is_current {
            buffer.set_style(line, POINTED_AT);
        }
        write(&measures(call), row(area, 2 + CALL_LINES * place), buffer);
    }
}

fn words(call: &Call) -> String {
    let mut words = match call.state {
        State::Calling => "calling",
        State::Ringing => "ringing",
        State::Incoming => "is calling",
        State::Up if call.is_held_by_us => "on hold",
        State::Up if call.is_held_by_them => "held by the other side",
        State::Up => "up",
    }
    .to_owned();
    if call.is_muted {
        words.push_str(", muted");
    }
    if call.is_recorded {
        words.push_str(", rec");
    }
    words
}

fn measures(call: &Call) -> String {
    let Some(quality) = &call.quality else {
        return format!("        {}", call.codec);
    };
    let round_trip = quality
        .round_trip_ms
        .map_or("-".to_owned(), |time| format!("{time:.0}"));
    format!(
        "        {:<5} out {} in {} loss {:.1}% jitter {:.0} rtt {round_trip} mos {:.1}",
        call.codec,
        level(quality.sent_db),
        level(quality.heard_db),
        quality.lost * 100.0,
        quality.jitter_ms,
        quality.mos,
    )
}

fn level(db: f64) -> String {
    let part = ((db - SILENCE) / -SILENCE).clamp(0.0, 1.0);
    let full = (part * LEVEL_WIDTH as f64).round() as usize;
    format!("{}{}", "█".repeat(full), "·".repeat(LEVEL_WIDTH - full))
}

fn draw_news(screen: &PhoneScreen, area: Rect, buffer: &mut Buffer) {
    write(&"─".repeat(usize::from(area.width)), row(area, 0), buffer);
    let height = usize::from(area.height).saturating_sub(1);
    let first = screen.news.len().saturating_sub(height);
    for (place, text) in screen.news.iter().skip(first).enumerate() {
        write(&format!("  {text}"), row(area, 1 + place), buffer);
    }
}

fn draw_line(screen: &PhoneScreen, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    let typing = screen.typing.as_ref()?;
    let prompt = match typing.what {
        Typed::Dial => "call: ",
        Typed::Transfer(_) => "transfer to: ",
    };
    // The end of a long line is shown.
    let room = usize::from(area.width).saturating_sub(prompt.len() + 1);
    let excess = typing.text.chars().count().saturating_sub(room);
    let text: String = typing.text.chars().skip(excess).collect();
    let line = Line::from(format!("{prompt}{text}"));
    let width = line.width().min(usize::from(area.width.saturating_sub(1)));
    line.render(area, buffer);
    Some(Position::new(area.x + width as u16, area.y))
}

/// A line of an area; one without height beyond its end.
fn row(area: Rect, place: usize) -> Rect {
    let place = u16::try_from(place).unwrap_or(u16::MAX).min(area.height);
    Rect {
        y: area.y + place,
        height: (area.height - place).min(1),
        ..area
    }
}

/// Writes a text; ratatui leaves out what could steer the terminal.
fn write(text: &str, area: Rect, buffer: &mut Buffer) {
    Line::from(text).render(area, buffer);
}
