//! A table as HTML, in a frame that scrolls sideways where it is too wide.

use std::fmt::Write as _;

use super::{Alignment, Cell, Column, Row, Table};
use crate::text::{escape, one_line};

/// Together no wider than this many characters, key columns stay in sight when the frame is scrolled.
const WIDEST_STICKY_KEYS: usize = 26;

/// Type for print is shrunk until this many characters of a table fit across a sheet in landscape.
const CHARACTERS_ACROSS_A_SHEET: usize = 150;

/// The style sheet has a class for the first, second and third key column.
const STICKY_CLASSES: [&str; MOST_STICKY_KEYS] = ["sticky key-0", "sticky key-1", "sticky key-2"];
const MOST_STICKY_KEYS: usize = 3;

/// A table from which a page is better printed in landscape, characters across.
pub(super) const WIDE: usize = 90;

pub(super) fn render(table: &Table) -> String {
    let title = escape(&table.title);
    let keys = KeyColumns::of(table);
    let mut out = String::new();
    let _ = write!(
        out,
        "<figure class=\"table{}\">",
        if characters_across(table) > WIDE {
            " wide"
        } else {
            ""
        }
    );
    if !title.is_empty() {
        let _ = write!(out, "<figcaption>{title}</figcaption>");
    }
    let print_size = (9.0 * CHARACTERS_ACROSS_A_SHEET as f64
        / characters_across(table).max(1) as f64)
        .clamp(4.5, 9.0);
    // A region that scrolls must take the keyboard's focus to be scrolled by it.
    let _ = write!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\">\
         <table style=\"--print-size:{print_size:.1}pt{}\">\n<thead>\n",
        keys.properties()
    );
    render_header(table, &keys, &mut out);
    let _ = writeln!(out, "</thead>");
    let mut is_open = false;
    for row in &table.rows {
        if row.begins_block || !is_open {
            let _ = writeln!(out, "{}<tbody>", if is_open { "</tbody>\n" } else { "" });
            is_open = true;
        }
        render_row(table, row, &keys, &mut out);
    }
    let _ = writeln!(
        out,
        "{}</table></div>",
        if is_open { "</tbody>\n" } else { "" }
    );
    for note in &table.notes {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(note));
    }
    let _ = writeln!(out, "</figure>");
    out
}

/// About how many characters wide the table is.
pub(super) fn characters_across(table: &Table) -> usize {
    (0..table.columns.len())
        .map(|column| column_width(table, column) + 2)
        .sum()
}

/// One header row, or two where columns are grouped.
fn render_header(table: &Table, keys: &KeyColumns, out: &mut String) {
    let groups = table.column_groups();
    let is_grouped = groups.iter().any(|group| group.label.is_some());
    let mut second_row = String::new();
    let _ = write!(out, "<tr>");
    for group in &groups {
        match &group.label {
            Some(label) => {
                let count = group.columns.len();
                let label = escape(label);
                let _ = write!(
                    out,
                    "<th class=\"group\" colspan=\"{count}\" scope=\"colgroup\">{label}</th>"
                );
            }
            None if is_grouped => {
                for index in group.columns.clone() {
                    header_cell(table, index, true, " rowspan=\"2\"", keys, out);
                }
            }
            None => {
                for index in group.columns.clone() {
                    header_cell(table, index, true, "", keys, out);
                }
            }
        }
        if group.label.is_some() {
            for index in group.columns.clone() {
                header_cell(
                    table,
                    index,
                    group.unit.is_none(),
                    "",
                    keys,
                    &mut second_row,
                );
            }
        }
    }
    let _ = writeln!(out, "</tr>");
    if is_grouped {
        let _ = writeln!(out, "<tr>{second_row}</tr>");
    }
}

fn header_cell(
    table: &Table,
    index: usize,
    shows_unit: bool,
    span: &str,
    keys: &KeyColumns,
    out: &mut String,
) {
    let column = &table.columns[index];
    let attributes = keys.attributes(table, index);
    let _ = write!(
        out,
        "<th scope=\"col\"{span}{attributes}>{}",
        escape(&column.header)
    );
    if let Some(unit) = column.unit.as_ref().filter(|_| shows_unit) {
        let _ = write!(out, " <span class=\"unit\">{}</span>", escape(unit));
    }
    let _ = write!(out, "</th>");
}

fn render_row(table: &Table, row: &Row, keys: &KeyColumns, out: &mut String) {
    let _ = write!(
        out,
        "<tr{}>",
        if row.is_reference {
            " class=\"reference\""
        } else {
            ""
        }
    );
    for (index, (column, cell)) in table.columns.iter().zip(&row.cells).enumerate() {
        let tag = if column.is_key { "th" } else { "td" };
        let scope = if column.is_key { " scope=\"row\"" } else { "" };
        let attributes = keys.attributes(table, index);
        let text = escape(&cell.display());
        let text = match cell {
            Cell::Absent | Cell::Note(_) => format!("<span class=\"faint\">{text}</span>"),
            Cell::Link { section, .. } => format!("<a href=\"#{}\">{text}</a>", escape(section)),
            _ => text,
        };
        let _ = write!(out, "<{tag}{scope}{attributes}>{text}</{tag}>");
    }
    let _ = writeln!(out, "</tr>");
}

/// Key columns that stay where they are when the rest is scrolled away under them.
struct KeyColumns {
    /// Width of each, in characters; none when they would cover too much.
    widths: Vec<usize>,
}

impl KeyColumns {
    fn of(table: &Table) -> KeyColumns {
        let keys = table
            .columns
            .iter()
            .take_while(|column| column.is_key)
            .count();
        // The padding of the style sheet is about two characters.
        let widths: Vec<usize> = (0..keys)
            .map(|index| column_width(table, index) + 2)
            .collect();
        let fits = keys <= MOST_STICKY_KEYS && widths.iter().sum::<usize>() <= WIDEST_STICKY_KEYS;
        KeyColumns {
            widths: if fits { widths } else { Vec::new() },
        }
    }

    /// The widths as properties for the style sheet, which knows where that puts each column.
    fn properties(&self) -> String {
        self.widths
            .iter()
            .enumerate()
            .map(|(index, width)| format!(";--key-{index}:{width}ch"))
            .collect()
    }

    fn attributes(&self, table: &Table, index: usize) -> String {
        let mut classes = Vec::new();
        match table.columns[index].alignment {
            Alignment::Left => {}
            Alignment::Centre => classes.push("centre"),
            Alignment::Right => classes.push("right"),
        }
        if starts_group(&table.columns, index) {
            classes.push("start");
        }
        if index < self.widths.len() {
            classes.push(STICKY_CLASSES[index]);
        }
        if table.columns[index].wraps {
            classes.push("wraps");
        }
        if classes.is_empty() {
            String::new()
        } else {
            format!(" class=\"{}\"", classes.join(" "))
        }
    }
}

/// Whether a column is the first of a labelled group, or the first after one.
fn starts_group(columns: &[Column], index: usize) -> bool {
    index > 0 && columns[index].group != columns[index - 1].group
}

/// Characters of the widest cell, or of the header with the unit; of a column whose texts wrap no more than it needs.
fn column_width(table: &Table, index: usize) -> usize {
    /// The least width of such a column in the style sheet.
    const WRAPPED: usize = 24;
    let column = &table.columns[index];
    let most = if column.wraps { WRAPPED } else { usize::MAX };
    let header = one_line(&column.header).chars().count();
    let unit = column
        .unit
        .as_ref()
        .map_or(0, |unit| unit.chars().count() + 1);
    let cells = table
        .rows
        .iter()
        .filter_map(|row| row.cells.get(index))
        .map(|cell| cell.display().chars().count());
    cells.max().unwrap_or(0).max(header + unit).min(most)
}
