//! Drawing the list, ladders, messages and figures.

use capture::{ChunkArrows, Dialog, DialogState, Journal, Recorded, RtpStream, rtp_table};
use m3ua::AspState;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Position, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row, Table, Widget};
use report::{ArrowKind, format_count};

use super::columns::{Column, Order, fitted};
use super::difference::{DiffLine, difference};
use super::help::HELP;
use super::text::{clean, without_scheme};
use super::{Besides, Page, Typed, View};

const FAINT: Style = Style::new().fg(Color::DarkGray);
const POINTED_AT: Style = Style::new().add_modifier(Modifier::REVERSED);

/// From how many columns on a ladder and a message have room beside each other.
const BESIDE: u16 = 120;

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
    while let Some(
        Page::Ladder { dialog, .. }
        | Page::Message { dialog, .. }
        | Page::Streams { dialog, .. }
        | Page::Difference { dialog, .. },
    ) = view.pages.last()
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
                let streams = journal.rtp(dialog.number);
                let beside = (besides.chunks, streams.as_slice());
                draw_ladder(dialog, beside, at, middle, buffer);
            }
        }
        Some(Page::Streams { dialog, line }) => {
            let streams = journal.rtp(*dialog);
            let text = match streams.is_empty() {
                true => {
                    "No RTP of this call was seen: streams are found by its session descriptions."
                        .to_owned()
                }
                false => rtp_table(&streams).to_terminal(usize::from(middle.width)),
            };
            draw_text(&text, line, middle, buffer);
        }
        Some(Page::Difference {
            dialog,
            messages,
            line,
        }) => {
            if let Some(dialog) = journal.dialog(*dialog) {
                draw_difference(dialog, *messages, line, middle, buffer);
            }
        }
        Some(Page::Help { line }) => draw_text(HELP, line, middle, buffer),
        Some(Page::Columns { at }) => {
            let at = *at;
            draw_columns(&view.columns, at, middle, buffer);
        }
        Some(Page::Message { dialog, at, line }) => {
            if let Some(dialog) = journal.dialog(*dialog)
                && let Some(message) = dialog.messages.get(*at)
            {
                draw_message(dialog, message, line, middle, buffer);
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
        " {}: {} packets, {}",
        clean(&view.interface),
        format_count(captured),
        match journal.dialogs().len() {
            1 => "1 call or other dialog".to_owned(),
            count => format!("{} calls and other dialogs", format_count(count as u64)),
        }
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
    if !view.filter.is_empty() {
        text.push_str(&format!(", {}", clean(&view.filter.to_string())));
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
            Typed::Filter => "Filter (method: from: to: address: state: call-id:): ",
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
            ("/", "search"),
            ("f", "filter"),
            ("< >", "sort"),
            ("s", "save"),
            ("i", "metrics"),
            ("?", "help"),
            ("q", "quit"),
        ],
        Some(Page::Ladder { .. }) => &[
            ("Enter", "message"),
            ("d", "difference"),
            ("r", "RTP"),
            ("s", "save"),
            ("?", "help"),
            ("Esc", "back"),
        ],
        Some(Page::Columns { .. }) => &[("Space", "show or hide"), ("Esc", "back")],
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
    let shown: Vec<&Dialog> = rows
        .iter()
        .skip(top)
        .take(room)
        .filter_map(|number| journal.dialog(*number))
        .collect();
    // The mark of those that are selected, and a space.
    const MARK: usize = 2;
    let columns = fitted(
        &view.columns,
        usize::from(area.width).saturating_sub(MARK),
        |column| {
            let widths = shown
                .iter()
                .map(|dialog| Span::raw(column.text(dialog)).width());
            let head = Span::raw(head_of(column, view.order)).width();
            widths.max().unwrap_or(0).max(head)
        },
    );
    let lines = shown.iter().enumerate().map(|(place, dialog)| {
        let is_selected = view.selected.contains(&dialog.number);
        let style = match top + place == at {
            true => POINTED_AT,
            false => Style::new(),
        };
        row_of(dialog, is_selected, &columns).style(style)
    });
    let heads = columns
        .iter()
        .map(|(column, _)| head_of(*column, view.order));
    let header = std::iter::once(String::new()).chain(heads);
    let widths = std::iter::once(1).chain(columns.iter().map(|(_, width)| *width as u16));
    let table = Table::new(lines, widths.map(Constraint::Length))
        .header(Row::new(header).style(FAINT))
        .column_spacing(1);
    Widget::render(table, area, buffer);
}

/// The name of a column, with an arrow where the list is sorted by it.
fn head_of(column: Column, order: Order) -> String {
    let arrow = match (order.column == column, order.is_descending) {
        (false, _) => "",
        (true, false) => "▲",
        (true, true) => "▼",
    };
    format!("{arrow}{}", column.name())
}

fn row_of(dialog: &Dialog, is_selected: bool, columns: &[(Column, usize)]) -> Row<'static> {
    let state = Style::new().fg(match dialog.state {
        DialogState::Completed | DialogState::Asp(AspState::Active) => Color::Green,
        DialogState::Standing | DialogState::Ringing | DialogState::Asp(AspState::Inactive) => {
            Color::Cyan
        }
        DialogState::Refused(401 | 407) | DialogState::Waiting => Color::Yellow,
        DialogState::Refused(_) | DialogState::Cancelled | DialogState::Asp(AspState::Down) => {
            Color::Red
        }
    });
    let cells = columns.iter().map(|(column, _)| {
        let cell = Cell::from(column.text(dialog));
        match column {
            Column::State => cell.style(state),
            _ => cell,
        }
    });
    let mark = Cell::from(if is_selected { "*" } else { "" });
    Row::new(std::iter::once(mark).chain(cells))
}

fn draw_columns(shown: &[Column], at: usize, area: Rect, buffer: &mut Buffer) {
    let top = at.saturating_sub(usize::from(area.height).saturating_sub(1));
    let columns = Column::ALL.iter().enumerate().skip(top);
    for ((place, column), row) in columns.zip(area.rows()) {
        let mark = if shown.contains(column) { "x" } else { " " };
        let style = match place == at {
            true => POINTED_AT,
            false => Style::new(),
        };
        Line::from(format!("[{mark}] {}", column.name()))
            .style(style)
            .render(row, buffer);
    }
}

fn draw_difference(
    dialog: &Dialog,
    messages: [usize; 2],
    line: &mut usize,
    area: Rect,
    buffer: &mut Buffer,
) {
    let [Some(first), Some(second)] = messages.map(|at| dialog.messages.get(at)) else {
        return;
    };
    let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let title = format!("- #{}   + #{}", first.packet, second.packet);
    Line::from(title).style(FAINT).render(head, buffer);
    let texts = [first, second].map(|message| dialog.text(message));
    let lines = difference(&texts[0], &texts[1]);
    *line = (*line).min(lines.len().saturating_sub(usize::from(body.height)));
    for (line, row) in lines.iter().skip(*line).zip(body.rows()) {
        let (mark, text, style) = match line {
            DiffLine::Both(text) => (' ', text, Style::new()),
            DiffLine::First(text) => ('-', text, Style::new().fg(Color::Red)),
            DiffLine::Second(text) => ('+', text, Style::new().fg(Color::Green)),
        };
        Line::from(format!("{mark} {}", clean(text)))
            .style(style)
            .render(row, buffer);
    }
}

fn draw_ladder(
    dialog: &Dialog,
    (chunks, streams): (Option<&ChunkArrows>, &[RtpStream]),
    at: &mut usize,
    area: Rect,
    buffer: &mut Buffer,
) {
    let (ladder, places) = dialog.ladder(chunks, streams);
    *at = (*at).min(dialog.messages.len().saturating_sub(1));
    // The message that is pointed at stands beside the diagram, or beneath it, where there is room for both.
    let wanted = u16::try_from(places.len() + 2).unwrap_or(u16::MAX);
    let [ladder_area, message_area] = match (area.width, area.height) {
        (BESIDE.., _) => Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)])
            .spacing(1)
            .areas(area),
        (_, 0..16) => Layout::vertical([Constraint::Min(0), Constraint::Length(0)]).areas(area),
        (_, high) => {
            let height = Constraint::Length(wanted.clamp(8, high / 2));
            Layout::vertical([height, Constraint::Min(0)]).areas(area)
        }
    };
    let lines = ladder.to_lines(usize::from(ladder_area.width));
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
        let colour = match message.map_or(ArrowKind::Transport, |message| message.kind) {
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
        draw_message(dialog, message, &mut 0, message_area, buffer);
    }
}

fn draw_message(
    dialog: &Dialog,
    message: &Recorded,
    line: &mut usize,
    area: Rect,
    buffer: &mut Buffer,
) {
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
    draw_text(&dialog.text(message), line, text, buffer);
}

/// Draws lines of text from one of them on, and keeps that within the text.
fn draw_text(text: &str, from: &mut usize, area: Rect, buffer: &mut Buffer) {
    let lines: Vec<&str> = text.lines().collect();
    *from = (*from).min(lines.len().saturating_sub(usize::from(area.height)));
    for (line, row) in lines.iter().skip(*from).zip(area.rows()) {
        Line::from(clean(line)).render(row, buffer);
    }
}
