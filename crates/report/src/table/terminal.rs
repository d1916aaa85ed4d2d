//! A table in a terminal: thin rules, numbers flush right, split where it is too wide.

use std::ops::Range;

use comfy_table::{
    Cell as TerminalCell, CellAlignment, ColumnConstraint, Row as TerminalRow,
    Table as TerminalTable, TableStyle, Width,
};
use unicode_width::UnicodeWidthStr;

use super::{Alignment, Cell, Column, ColumnGroup, Row, Table};
use crate::text::{one_line, wrap};

/// Spaces between two columns of a group, and before a group.
const COLUMN_GAP: usize = 2;
const GROUP_GAP: usize = 3;

/// A header is not broken into lines narrower than this for the sake of narrow cells.
const COMFORTABLE_HEADER: usize = 8;

/// A column that wraps its text has room for the widest character at least.
const NARROWEST_COLUMN: usize = 2;

/// No terminal is taken to be narrower.
const NARROWEST: usize = 40;

pub(super) fn render(table: &Table, width: usize) -> String {
    let width = width.max(NARROWEST);
    let layout = Layout::new(table, width);
    let parts = layout.even_parts(width);
    let mut out = String::new();
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let title = one_line(&table.title);
        let title = match parts.len() {
            1 => title,
            count => format!("{title} ({} of {count})", index + 1),
        };
        push_lines(&mut out, wrap(title.trim_start(), width));
        layout.render_part(part, &mut out);
    }
    for note in &table.notes {
        push_lines(&mut out, wrap(&one_line(note), width));
    }
    out
}

/// What does not depend on how the columns are split.
struct Layout<'a> {
    table: &'a Table,
    columns: Vec<LaidColumn>,
    groups: Vec<ColumnGroup>,
}

struct LaidColumn {
    /// Lines of the header, the unit on the last one if it is not said by the group.
    header: Vec<String>,
    cells: Vec<String>,
    width: usize,
}

/// Columns that are shown side by side: stretches of groups.
type Part = Vec<Fragment>;

/// Neighbouring columns of one group, with the group's label.
#[derive(Clone)]
struct Fragment {
    label: Option<String>,
    columns: Range<usize>,
}

impl<'a> Layout<'a> {
    fn new(table: &'a Table, width: usize) -> Layout<'a> {
        let groups = table.column_groups();
        let columns = groups
            .iter()
            .flat_map(|group| {
                group
                    .columns
                    .clone()
                    .map(|index| (index, group.unit.is_none()))
            })
            .map(|(index, shows_unit)| LaidColumn::new(table, index, shows_unit))
            .collect();
        let mut layout = Layout {
            table,
            columns,
            groups,
        };

        // Long texts are wrapped: the keys together get half of the width, another column what is left.
        let keys = table.columns.iter().filter(|column| column.is_key).count();
        let widest_key = (width / 2 / keys.max(1)).saturating_sub(GROUP_GAP);
        layout.narrow(true, widest_key);
        let widest = width.saturating_sub(layout.key_width());
        layout.narrow(false, widest);
        layout.make_room_for_labels(widest);
        layout
    }

    /// Narrows the columns that are keys, or those that are not, to this width.
    fn narrow(&mut self, keys: bool, width: usize) {
        for (laid, column) in self.columns.iter_mut().zip(&self.table.columns) {
            if column.is_key == keys {
                laid.width = laid.width.min(width.max(NARROWEST_COLUMN));
            }
        }
    }

    /// Width of all key columns and of the gaps after them.
    fn key_width(&self) -> usize {
        let keys = self
            .columns
            .iter()
            .zip(&self.table.columns)
            .filter(|(_, column)| column.is_key);
        keys.map(|(laid, _)| laid.width + GROUP_GAP).sum()
    }

    /// Widens groups whose label has a word wider than all their columns, or would only just not fit.
    fn make_room_for_labels(&mut self, widest: usize) {
        let is_key = |group: &&ColumnGroup| self.table.columns[group.columns.start].is_key;
        for group in self.groups.iter().filter(|group| !is_key(group)) {
            let Some(label) = &group.label else { continue };
            let span = self.span(&group.columns);
            let comfortable = match label.width() {
                width if width <= span + COMFORTABLE_HEADER / 2 => width,
                _ => longest_word(label),
            };
            self.columns[group.columns.start].width += comfortable.min(widest).saturating_sub(span);
        }
    }

    /// Width of neighbouring columns of a group.
    fn span(&self, columns: &Range<usize>) -> usize {
        let contents: usize = self.columns[columns.clone()]
            .iter()
            .map(|column| column.width)
            .sum();
        contents + COLUMN_GAP * columns.len().saturating_sub(1)
    }

    /// The fewest parts that fit, about equally wide.
    fn even_parts(&self, width: usize) -> Vec<Part> {
        let parts = self.parts(width);
        let keys = self.key_width();
        let widest_group = self
            .groups
            .iter()
            .map(|group| keys + self.span(&group.columns))
            .max()
            .unwrap_or(0);
        // Anything narrower than the widest group would split it.
        (widest_group.min(width)..width)
            .map(|narrower| self.parts(narrower))
            .find(|even| even.len() == parts.len())
            .unwrap_or(parts)
    }

    /// Splits the columns so that each part fits, starting with the keys.
    fn parts(&self, width: usize) -> Vec<Part> {
        let is_key = |group: &&ColumnGroup| self.table.columns[group.columns.start].is_key;
        let keys: Part = self
            .groups
            .iter()
            .filter(is_key)
            .map(Fragment::whole)
            .collect();
        let mut finished = Vec::new();
        let mut part = keys.clone();
        for group in self.groups.iter().filter(|group| !is_key(group)) {
            for fragment in self.fragments(group, &keys, width) {
                let longer = self.part_width(&part) + GROUP_GAP + self.span(&fragment.columns);
                if part.len() > keys.len() && longer > width {
                    finished.push(std::mem::replace(&mut part, keys.clone()));
                }
                part.push(fragment);
            }
        }
        finished.push(part);
        finished
    }

    /// The group as it is, or in pieces where it does not fit beside the keys.
    fn fragments(&self, group: &ColumnGroup, keys: &Part, width: usize) -> Vec<Fragment> {
        let fits = |columns: &Range<usize>| {
            self.part_width(keys) + GROUP_GAP + self.span(columns) <= width
        };
        let mut fragments: Vec<Fragment> = Vec::new();
        for column in group.columns.clone() {
            match fragments.last_mut() {
                Some(last) if fits(&(last.columns.start..column + 1)) => {
                    last.columns.end = column + 1
                }
                _ => fragments.push(Fragment {
                    label: group.label.clone(),
                    columns: column..column + 1,
                }),
            }
        }
        fragments
    }

    fn part_width(&self, part: &Part) -> usize {
        let spans: usize = part
            .iter()
            .map(|fragment| self.span(&fragment.columns))
            .sum();
        spans + GROUP_GAP * part.len().saturating_sub(1)
    }

    fn render_part(&self, part: &Part, out: &mut String) {
        let rule = |character: char| character.to_string().repeat(self.part_width(part));
        push_lines(out, [rule('─')]);
        push_lines(out, self.group_header(part));
        self.render_header(part, out);
        push_lines(out, [rule('─')]);

        let mut block_start = 0;
        for (index, row) in self.table.rows.iter().enumerate() {
            if row.begins_block && index > block_start {
                self.render_rows(part, block_start..index, out);
                push_lines(out, [rule('┈')]);
                block_start = index;
            }
        }
        self.render_rows(part, block_start..self.table.rows.len(), out);
        push_lines(out, [rule('─')]);
    }

    /// The lines that span several columns: a group's label between dashes.
    fn group_header(&self, part: &Part) -> Vec<String> {
        let labels: Vec<Vec<String>> = part
            .iter()
            .map(|fragment| match &fragment.label {
                Some(label) => wrap(label, self.span(&fragment.columns)),
                None => Vec::new(),
            })
            .collect();
        let height = labels.iter().map(Vec::len).max().unwrap_or(0);
        (0..height)
            .map(|line| {
                let mut text = String::new();
                for (fragment, label) in part.iter().zip(&labels) {
                    if !text.is_empty() {
                        text.push_str(&" ".repeat(GROUP_GAP));
                    }
                    let span = self.span(&fragment.columns);
                    // Labels stand at the bottom, on the columns that they span.
                    let words = (line + label.len())
                        .checked_sub(height)
                        .and_then(|index| label.get(index));
                    let is_last = line + 1 == height && words.is_some();
                    text.push_str(&centre(
                        words.map_or("", String::as_str),
                        span,
                        if is_last { '─' } else { ' ' },
                    ));
                }
                text
            })
            .collect()
    }

    fn render_header(&self, part: &Part, out: &mut String) {
        let height = shown(part)
            .map(|column| self.columns[column].header.len())
            .max()
            .unwrap_or(0);
        let row = self.terminal_row(part, |column| {
            let header = &self.columns[column].header;
            // Headers stand at the bottom, on their columns.
            "\n".repeat(height - header.len()) + &header.join("\n")
        });
        push_lines(out, self.terminal_table(part, [row]).lines());
    }

    fn render_rows(&self, part: &Part, rows: Range<usize>, out: &mut String) {
        let rows = rows
            .filter(|&index| !self.says_nothing(part, &self.table.rows[index]))
            .map(|index| {
                self.terminal_row(part, |column| self.columns[column].cells[index].clone())
            });
        push_lines(out, self.terminal_table(part, rows).lines());
    }

    /// Whether a row of references has nothing to compare with in this part.
    fn says_nothing(&self, part: &Part, row: &Row) -> bool {
        row.is_reference
            && shown(part).all(|column| {
                self.table.columns[column].is_key || row.cells[column] == Cell::Absent
            })
    }

    fn terminal_row(&self, part: &Part, text_of: impl Fn(usize) -> String) -> TerminalRow {
        let cells = shown(part).map(|column| {
            TerminalCell::new_owned(text_of(column))
                .set_alignment(alignment_of(&self.table.columns[column]))
        });
        TerminalRow::from(cells.collect::<Vec<_>>())
    }

    /// Rows in columns of the part's widths. The rules between are drawn by hand: a library's would cut
    /// the columns apart, or stand between all rows.
    fn terminal_table(
        &self,
        part: &Part,
        rows: impl IntoIterator<Item = TerminalRow>,
    ) -> TerminalTable {
        let mut terminal = TerminalTable::new();
        terminal.load_style(TableStyle::new());
        terminal.add_rows(rows);
        let starts: Vec<usize> = part.iter().map(|fragment| fragment.columns.start).collect();
        for (position, column) in shown(part).enumerate() {
            let gap = match position {
                0 => 0,
                _ if starts.contains(&column) => GROUP_GAP,
                _ => COLUMN_GAP,
            };
            if let Some(terminal_column) = terminal.column_mut(position) {
                let full = to_u16(self.columns[column].width + gap);
                terminal_column.set_padding((to_u16(gap), 0));
                terminal_column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(full)));
            }
        }
        terminal
    }
}

/// The columns of a part, from the left.
fn shown(part: &Part) -> impl Iterator<Item = usize> + '_ {
    part.iter().flat_map(|fragment| fragment.columns.clone())
}

impl LaidColumn {
    fn new(table: &Table, index: usize, shows_unit: bool) -> LaidColumn {
        let column = &table.columns[index];
        let cells: Vec<String> = table.rows.iter().map(|row| cell_text(row, index)).collect();
        let contents = cells.iter().map(|cell| cell.width()).max().unwrap_or(0);
        let label = one_line(&column.header);
        let comfortable = contents.max(longest_word(&label)).max(COMFORTABLE_HEADER);
        let unit = column
            .unit
            .as_ref()
            .filter(|_| shows_unit)
            .map(|unit| one_line(unit));
        let mut header = wrap(&label, comfortable);
        if let Some(unit) = unit {
            match header.last_mut() {
                Some(last) if last.width() + 2 + unit.width() <= comfortable => {
                    last.push_str(", ");
                    last.push_str(&unit);
                }
                _ => header.push(unit),
            }
        }
        let widest_line = header.iter().map(|line| line.width()).max().unwrap_or(0);
        LaidColumn {
            header,
            cells,
            width: contents.max(widest_line).max(NARROWEST_COLUMN),
        }
    }
}

impl Fragment {
    fn whole(group: &ColumnGroup) -> Fragment {
        Fragment {
            label: group.label.clone(),
            columns: group.columns.clone(),
        }
    }
}

fn cell_text(row: &Row, column: usize) -> String {
    row.cells.get(column).map(Cell::display).unwrap_or_default()
}

fn alignment_of(column: &Column) -> CellAlignment {
    match column.alignment {
        Alignment::Left => CellAlignment::Left,
        Alignment::Centre => CellAlignment::Center,
        Alignment::Right => CellAlignment::Right,
    }
}

fn longest_word(text: &str) -> usize {
    text.split_whitespace()
        .map(|word| word.width())
        .max()
        .unwrap_or(0)
}

/// The text in the middle of a line of this width, with the rest filled.
fn centre(text: &str, width: usize, fill: char) -> String {
    let spare = width.saturating_sub(text.width());
    // Without room for a space on both sides there is none for dashes either.
    let (fill, text) = match (fill, spare, text.is_empty()) {
        (' ', _, _) | (_, _, true) => (fill, text.to_owned()),
        (_, 0..=2, false) => (' ', text.to_owned()),
        (_, _, false) => (fill, format!(" {text} ")),
    };
    let spare = width.saturating_sub(text.width());
    let fill_of = |count: usize| fill.to_string().repeat(count);
    format!("{}{text}{}", fill_of(spare / 2), fill_of(spare - spare / 2))
}

fn push_lines(out: &mut String, lines: impl IntoIterator<Item = impl AsRef<str>>) {
    for line in lines {
        out.push_str(line.as_ref().trim_end());
        out.push('\n');
    }
}

fn to_u16(width: usize) -> u16 {
    u16::try_from(width).unwrap_or(u16::MAX)
}
