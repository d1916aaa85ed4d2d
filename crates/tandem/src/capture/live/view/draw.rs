//! Drawing the list, ladders, messages and figures.

use capture::{ChunkArrows, Dialog, DialogState, Journal, Recorded};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Position, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row, Table, Widget};
use report::{ArrowKind, format_count, format_number};

use super::{Besides, Page, Typed, View};

const FAINT: Style = Style::new().fg(Color::DarkGray);
const POINTED_AT: Style = Style::new().add_modifier(Modifier::REVERSED);

/// What a screen can do at least.
const LEAST: (u16, u16) = (40, 6);

pub(super) fn draw(
    view: &mut View,
    journal: &Journal,
    besides: Besides<'_>,
    area: Rect,
    buffer: &mut Buffer,
) -> Option<Position> {
    if area.width < LEAST.0 || area.height < LEAST.1 {
        Line::from("the window is too small").render(area, buffer);
        return None;
    }
    let [head, middle, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(area);
    draw_head(view, journal, besides.captured, head, buffer);
    view.height = usize::from(middle.height).saturating_sub(2).max(1);
    // A dialog that has gone leaves its pages.
    while let Some(Page::Ladder { dialog, .. } | Page::Message { dialog, .. }) = view.pages.last()
        && journal.dialog(*dialog).is_none()
    {
        view.pages.pop();
    }
    match view.pages.last_mut() {
        None => draw_list(view, journal, middle, buffer),
        Some(Page::Figures { line }) => {
            let tables = besides.analysis.tables();
            let texts = tables
                .iter()
                .map(|table| table.to_terminal(usize::from(middle.width)));
            let text = texts.collect::<Vec<_>>().join("\n");
            let text = match text.is_empty() {
                true => "Nothing is over yet.",
                false => &text,
            };
            draw_text(text, line, middle, buffer);
        }
        Some(Page::Ladder { dialog, at }) => {
            if let Some(dialog) = journal.dialog(*dialog) {
                draw_ladder(dialog, besides.chunks, at, middle, buffer);
            }
        }
        Some(Page::Message { dialog, at, line }) => {
            let message = journal
                .dialog(*dialog)
                .and_then(|dialog| dialog.messages.get(*at));
            if let Some(message) = message {
                draw_message(message, line, middle, buffer);
            }
        }
    }
    draw_foot(view, foot, buffer)
}

fn draw_head(
    view: &View,
    journal: &Journal,
    (captured, dropped): (u64, u64),
    area: Rect,
    buffer: &mut Buffer,
) {
    buffer.set_style(area, Style::new().reversed());
    let mut text = format!(
        " {}: {} packets, {} calls and other dialogs",
        clean(&view.interface),
        format_count(captured),
        format_count(journal.dialogs().len() as u64)
    );
    for (count, what) in [
        (dropped, "packets lost"),
        (journal.left_out(), "old ones gone"),
        (view.selected.len() as u64, "selected"),
    ] {
        if count > 0 {
            text.push_str(&format!(", {} {what}", format_count(count)));
        }
    }
    if !view.search.text.is_empty() {
        text.push_str(&format!(", with \"{}\"", clean(&view.search.text)));
    }
    if view.is_paused {
        text.push_str(", paused");
    }
    Line::from(text).bold().render(area, buffer);
}

fn draw_foot(view: &View, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    if let Some(typing) = &view.typing {
        let what = match typing.what {
            Typed::Search => "Search: ",
            Typed::FileName => "Save as: ",
        };
        let line = Line::from(vec![what.bold(), clean(&typing.text).into()]);
        let width = line.width() as u16;
        line.render(area, buffer);
        return Some(Position::new(
            area.x + width.min(area.width.saturating_sub(1)),
            area.y,
        ));
    }
    if !view.note.is_empty() {
        Line::from(clean(&view.note)).bold().render(area, buffer);
        return None;
    }
    let keys: &[(&str, &str)] = match view.pages.last() {
        None => &[
            ("Enter", "ladder"),
            ("Space", "select"),
            ("/", "search"),
            ("s", "save"),
            ("i", "metrics"),
            ("p", "pause"),
            ("c", "clear"),
            ("q", "quit"),
        ],
        Some(Page::Ladder { .. }) => &[
            ("Enter", "message"),
            ("Space", "select"),
            ("s", "save"),
            ("Esc", "back"),
        ],
        Some(_) => &[("↑ ↓", "scroll"), ("Esc", "back")],
    };
    let spans = keys
        .iter()
        .flat_map(|(key, what)| [format!(" {key} ").bold(), Span::styled(*what, FAINT)]);
    Line::from(spans.collect::<Vec<_>>()).render(area, buffer);
    None
}

fn draw_list(view: &mut View, journal: &Journal, area: Rect, buffer: &mut Buffer) {
    let (rows, at) = view.rows(journal);
    let room = usize::from(area.height).saturating_sub(1).max(1);
    let top = at.saturating_sub(room - 1);
    let header = [
        "",
        "#",
        "Method",
        "From",
        "To",
        "Msgs",
        "Source",
        "Destination",
        "Over",
        "State",
        "Seconds",
    ];
    let shown = rows.iter().enumerate().skip(top).take(room);
    let lines = shown.filter_map(|(place, number)| {
        let dialog = journal.dialog(*number)?;
        let is_selected = view.selected.contains(number);
        let style = match place == at {
            true => POINTED_AT,
            false => Style::new(),
        };
        Some(row_of(dialog, is_selected).style(style))
    });
    let widths = [
        Constraint::Length(1),
        Constraint::Length(6),
        Constraint::Length(9),
        Constraint::Fill(3),
        Constraint::Fill(3),
        Constraint::Length(5),
        Constraint::Fill(2),
        Constraint::Fill(2),
        Constraint::Length(8),
        Constraint::Length(11),
        Constraint::Length(9),
    ];
    let table = Table::new(lines, widths)
        .header(Row::new(header).style(FAINT))
        .column_spacing(1);
    Widget::render(table, area, buffer);
}

fn row_of(dialog: &Dialog, is_selected: bool) -> Row<'static> {
    let (source, destination, over) = match dialog.first_hop() {
        Some((source, destination, carrier)) => (
            source.to_string(),
            destination.to_string(),
            carrier.transport().name(),
        ),
        None => Default::default(),
    };
    let seconds = (dialog.latest() - dialog.began()) as f64 / 1e9;
    let state = Style::new().fg(match dialog.state {
        DialogState::Completed => Color::Green,
        DialogState::Standing | DialogState::Ringing => Color::Cyan,
        DialogState::Refused(401 | 407) | DialogState::Waiting => Color::Yellow,
        DialogState::Refused(_) | DialogState::Cancelled => Color::Red,
    });
    Row::new([
        Cell::from(if is_selected { "*" } else { "" }),
        Cell::from(dialog.number.to_string()),
        Cell::from(clean(&dialog.method)),
        Cell::from(without_scheme(&dialog.from)),
        Cell::from(without_scheme(&dialog.to)),
        Cell::from((dialog.messages.len() as u64 + dialog.left_out).to_string()),
        Cell::from(source),
        Cell::from(destination),
        Cell::from(over),
        Cell::from(dialog.state.text()).style(state),
        Cell::from(format_number(seconds, 3)),
    ])
}

fn draw_ladder(
    dialog: &Dialog,
    chunks: Option<&ChunkArrows>,
    at: &mut usize,
    area: Rect,
    buffer: &mut Buffer,
) {
    let (ladder, places) = dialog.ladder(chunks);
    *at = (*at).min(dialog.messages.len().saturating_sub(1));
    // The diagram, and beneath it the message that is pointed at, where there is room for both.
    let wanted = u16::try_from(places.len() + 2).unwrap_or(u16::MAX);
    let height = match area.height {
        0..16 => area.height,
        high => wanted.clamp(8, high / 2),
    };
    let [ladder_area, message_area] =
        Layout::vertical([Constraint::Length(height), Constraint::Min(0)]).areas(area);
    let lines = ladder.to_lines(usize::from(area.width));
    let room = usize::from(ladder_area.height).saturating_sub(2).max(1);
    let pointed_at = places.iter().position(|place| *place == Some(*at));
    let top = pointed_at.unwrap_or(0).saturating_sub(room - 1);
    let title = format!(
        "{} → {}  {}",
        without_scheme(&dialog.from),
        without_scheme(&dialog.to),
        clean(&dialog.call_id)
    );
    let mut drawn = vec![
        Line::from(title).bold(),
        Line::from(lines.heads).style(FAINT),
    ];
    let arrows = places.iter().zip(lines.arrows).skip(top).take(room);
    drawn.extend(arrows.map(|(place, arrow)| {
        let message = place.and_then(|place| dialog.messages.get(place));
        let colour = match message.map_or(ArrowKind::Transport, Recorded::kind) {
            ArrowKind::Request => Color::Blue,
            ArrowKind::Good => Color::Green,
            ArrowKind::Bad => Color::Red,
            ArrowKind::Transport => Color::DarkGray,
        };
        let style = match *place == Some(*at) {
            true => POINTED_AT,
            false => Style::new(),
        };
        Line::from(arrow).style(style.fg(colour))
    }));
    for (line, row) in drawn.into_iter().zip(ladder_area.rows()) {
        line.render(row, buffer);
    }
    if let Some(message) = dialog.messages.get(*at)
        && message_area.height > 1
    {
        draw_message(message, &mut 0, message_area, buffer);
    }
}

fn draw_message(message: &Recorded, line: &mut usize, area: Rect, buffer: &mut Buffer) {
    let [head, text] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let title = format!(
        "#{}  {} → {}  {}  {} octets",
        message.packet,
        message.source,
        message.destination,
        message.carrier.transport(),
        message.octets.len()
    );
    Line::from(title).style(FAINT).render(head, buffer);
    draw_text(
        &String::from_utf8_lossy(&message.octets),
        line,
        text,
        buffer,
    );
}

/// Draws lines of text from one of them on, and keeps that within the text.
fn draw_text(text: &str, from: &mut usize, area: Rect, buffer: &mut Buffer) {
    let lines: Vec<&str> = text.lines().collect();
    *from = (*from).min(lines.len().saturating_sub(usize::from(area.height)));
    for (line, row) in lines.iter().skip(*from).zip(area.rows()) {
        Line::from(clean(line)).render(row, buffer);
    }
}

/// A URI without `sip:` or `sips:`.
fn without_scheme(uri: &str) -> String {
    let short = uri
        .strip_prefix("sips:")
        .or_else(|| uri.strip_prefix("sip:"));
    clean(short.unwrap_or(uri))
}

/// Text from the network that cannot steer the terminal, nor reorder what stands beside it.
fn clean(text: &str) -> String {
    let harmless = |character: char| match character {
        '\t' => ' ',
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        other if other.is_control() => '\u{fffd}',
        other => other,
    };
    text.chars().map(harmless).collect()
}
