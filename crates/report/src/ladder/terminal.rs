//! Drawing a ladder with characters.

use unicode_width::UnicodeWidthStr as _;

use super::{Arrow, Ladder, LadderLines};
use crate::text::one_line;

const LEAST_COLUMN: usize = 12;

pub(super) fn render(ladder: &Ladder, width: usize) -> String {
    let LadderLines { heads, arrows } = lines(ladder, width);
    let mut out = format!("{}\n{heads}\n", one_line(&ladder.title));
    for arrow in arrows {
        out.push_str(&arrow);
        out.push('\n');
    }
    if let Some(note) = &ladder.note {
        out.push_str(&one_line(note));
        out.push('\n');
    }
    out
}

pub(super) fn lines(ladder: &Ladder, width: usize) -> LadderLines {
    let times = ladder.arrows.iter().map(|arrow| arrow.time.width());
    let time_width = times.max().unwrap_or(0);
    let column = column_width(ladder, width.saturating_sub(time_width + 2));
    let lane = Lane {
        time_width,
        column,
        hosts: ladder.hosts.len(),
    };
    let mut heads = " ".repeat(time_width + 2);
    for name in &ladder.hosts {
        let name = shortened(&one_line(name), column.saturating_sub(1));
        let before = (column - name.width().min(column)) / 2;
        heads.push_str(&" ".repeat(before));
        heads.push_str(&name);
        heads.push_str(&" ".repeat(column.saturating_sub(before + name.width())));
    }
    heads.truncate(heads.trim_end().len());
    LadderLines {
        heads,
        arrows: ladder
            .arrows
            .iter()
            .map(|arrow| lane.arrow(arrow))
            .collect(),
    }
}

struct Lane {
    time_width: usize,
    column: usize,
    hosts: usize,
}

impl Lane {
    /// Where the line of a host is, counted from the first column's left edge.
    fn place(&self, host: usize) -> usize {
        self.column / 2 + host * self.column
    }

    fn arrow(&self, arrow: &Arrow) -> String {
        let mut cells = vec![' '; self.place(self.hosts.saturating_sub(1)) + self.column / 2 + 1];
        for host in 0..self.hosts {
            cells[self.place(host)] = '│';
        }
        let (left, right) = match arrow.from == arrow.to {
            true => (
                self.place(arrow.from),
                self.place(arrow.from) + self.column / 2,
            ),
            false => (
                self.place(arrow.from.min(arrow.to)),
                self.place(arrow.from.max(arrow.to)),
            ),
        };
        let line = match arrow.is_repeated {
            true => '╌',
            false => '─',
        };
        for cell in &mut cells[left + 1..right] {
            *cell = line;
        }
        match arrow.from <= arrow.to {
            true => cells[right - 1] = '▶',
            false => cells[left + 1] = '◀',
        }
        let room = (right - left).saturating_sub(5);
        let label = shortened(&one_line(&arrow.label), room);
        let start = left + 1 + (right - left - 1).saturating_sub(label.width()) / 2;
        // A wide character takes the place of two.
        let label_cells = label.chars().count();
        let end = (start + label.width()).min(cells.len());
        cells.splice(start..end, label.chars());
        debug_assert!(label_cells <= label.width());
        let cells: String = cells.into_iter().collect();
        let time = &arrow.time;
        let indent = " ".repeat(self.time_width.saturating_sub(time.width()));
        format!("{indent}{time}  {}", cells.trim_end())
    }
}

/// As wide as the longest host or label needs, and not wider than there is room for.
fn column_width(ladder: &Ladder, width: usize) -> usize {
    let hosts = ladder.hosts.iter().map(|name| one_line(name).width() + 1);
    let labels = ladder
        .arrows
        .iter()
        .map(|arrow| one_line(&arrow.label).width() + 6);
    let wanted = hosts.chain(labels).max().unwrap_or(0);
    let room = width / ladder.hosts.len().max(1);
    wanted.min(room).max(LEAST_COLUMN)
}

/// The text in so many columns at most.
fn shortened(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut short = String::new();
    for character in text.chars() {
        let mut longer = short.clone();
        longer.push(character);
        if longer.width() + 1 > width {
            break;
        }
        short = longer;
    }
    if width > 0 {
        short.push('…');
    }
    short
}
