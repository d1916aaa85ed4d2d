//! Tables: columns with units under grouped headers, rows of cells, notes beneath.

mod csv;
mod html;
mod record;
mod terminal;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::format::{format_count, format_number, milliseconds_decimals};
use crate::text::one_line;

pub use csv::Decimal;
pub use record::CsvRecord;

/// A table, to be shown in a terminal, on a page, or written as CSV.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Table {
    pub(crate) title: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Row>,
    pub(crate) notes: Vec<String>,
}

impl Table {
    /// A table without columns, under a title (which may be empty).
    pub fn new(title: impl Into<String>) -> Table {
        Table {
            title: title.into(),
            columns: Vec::new(),
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds a column to the right.
    #[must_use]
    pub fn column(mut self, column: Column) -> Table {
        self.columns.push(column);
        self
    }

    /// Adds several columns to the right.
    #[must_use]
    pub fn columns(mut self, columns: impl IntoIterator<Item = Column>) -> Table {
        self.columns.extend(columns);
        self
    }

    /// Adds a row at the bottom; cells that it lacks at its end are absent.
    ///
    /// # Panics
    ///
    /// When the row has more cells than the table has columns.
    pub fn push(&mut self, mut row: Row) {
        assert!(
            row.cells.len() <= self.columns.len(),
            "a row has more cells than the table has columns"
        );
        row.cells.resize(self.columns.len(), Cell::Absent);
        self.rows.push(row);
    }

    /// Adds a remark beneath the table.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// The table in a terminal of this many columns. What is too wide is split into tables one below the
    /// other, each with the key columns again; a group of columns stays together where it fits.
    pub fn to_terminal(&self, width: usize) -> String {
        terminal::render(self, width)
    }

    /// The table as HTML, for a [`Page`](crate::Page).
    pub fn to_html(&self) -> String {
        html::render(self)
    }

    /// The table as CSV (RFC 4180): one header line, numbers in full and without thousands separators,
    /// nothing for absent cells.
    pub fn to_csv(&self) -> String {
        csv::render(self, Decimal::Point)
    }

    /// The header line of [`to_csv`](Table::to_csv), for rows that are written one by one
    /// ([`CsvRecord`]) because there are too many to keep.
    pub fn csv_header(&self, decimal: Decimal) -> String {
        csv::header_line(self, decimal)
    }

    /// Whether the table is better printed across a sheet than down it.
    pub(crate) fn is_wide(&self) -> bool {
        html::characters_across(self) > html::WIDE
    }

    /// Neighbouring columns with a common header.
    fn column_groups(&self) -> Vec<ColumnGroup> {
        let mut groups: Vec<ColumnGroup> = Vec::new();
        let belong_together = |one: &Column, other: &Column| {
            one.group.is_some() && one.group == other.group && one.is_key == other.is_key
        };
        for (index, column) in self.columns.iter().enumerate() {
            match groups.last_mut() {
                Some(group) if belong_together(&self.columns[index - 1], column) => {
                    group.columns.end = index + 1
                }
                _ => groups.push(ColumnGroup {
                    label: column.group.as_deref().map(one_line),
                    unit: None,
                    columns: index..index + 1,
                }),
            }
        }
        for group in groups.iter_mut().filter(|group| group.label.is_some()) {
            let columns = &self.columns[group.columns.clone()];
            let unit = columns[0].unit.clone().filter(|unit| {
                columns
                    .iter()
                    .all(|other| other.unit.as_ref() == Some(unit))
            });
            if let (Some(label), Some(unit)) = (&mut group.label, &unit) {
                *label = format!("{label}, {}", one_line(unit));
            }
            group.unit = unit;
        }
        groups
    }
}

/// Neighbouring columns with a common header, or a single column without one.
struct ColumnGroup {
    /// The common header on one line, with the unit where all columns have the same.
    label: Option<String>,
    /// The unit that the label already says.
    unit: Option<String>,
    columns: Range<usize>,
}

/// A column of a [`Table`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    pub(crate) header: String,
    pub(crate) unit: Option<String>,
    pub(crate) group: Option<String>,
    pub(crate) alignment: Alignment,
    pub(crate) is_key: bool,
    pub(crate) wraps: bool,
}

impl Column {
    /// A column of text, aligned left.
    pub fn text(header: impl Into<String>) -> Column {
        Column {
            header: header.into(),
            unit: None,
            group: None,
            alignment: Alignment::Left,
            is_key: false,
            wraps: false,
        }
    }

    /// A column of numbers, aligned right.
    pub fn number(header: impl Into<String>) -> Column {
        Column {
            alignment: Alignment::Right,
            ..Column::text(header)
        }
    }

    /// States the unit of the column's numbers.
    #[must_use]
    pub fn unit(mut self, unit: impl Into<String>) -> Column {
        self.unit = Some(unit.into());
        self
    }

    /// Puts the column under a common header with those beside it that name the same group.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Column {
        self.group = Some(group.into());
        self
    }

    /// Marks a column that says what a row is about: it is repeated when a wide table is split and stays in
    /// sight when a page is scrolled sideways. Key columns stand first.
    #[must_use]
    pub fn key(mut self) -> Column {
        self.is_key = true;
        self
    }

    /// Lets long texts of the column go over several lines of a page where there is no room for them.
    #[must_use]
    pub fn wraps(mut self) -> Column {
        self.wraps = true;
        self
    }

    /// Aligns the column's cells otherwise.
    #[must_use]
    pub fn align(mut self, alignment: Alignment) -> Column {
        self.alignment = alignment;
        self
    }
}

/// Where a column's cells stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Alignment {
    /// At the left edge.
    Left,
    /// In the middle.
    Centre,
    /// At the right edge.
    Right,
}

/// A row of a [`Table`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub(crate) cells: Vec<Cell>,
    pub(crate) is_reference: bool,
    pub(crate) begins_block: bool,
}

impl Row {
    /// A row of cells, from the left.
    pub fn new(cells: impl IntoIterator<Item = Cell>) -> Row {
        Row {
            cells: cells.into_iter().collect(),
            is_reference: false,
            begins_block: false,
        }
    }

    /// Marks figures that were not measured here (published ones), shown fainter.
    #[must_use]
    pub fn reference(mut self) -> Row {
        self.is_reference = true;
        self
    }

    /// Draws a line above the row: a new block of rows begins.
    #[must_use]
    pub fn begins_block(mut self) -> Row {
        self.begins_block = true;
        self
    }
}

/// A cell of a [`Row`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Cell {
    /// A text.
    Text(String),
    /// A text that leads to the [named](crate::Section::named) section of the page.
    Link {
        /// The text.
        text: String,
        /// The name of the section.
        section: String,
    },
    /// A whole number.
    Count(u64),
    /// A number shown with so many decimals.
    Number {
        /// The number itself; CSV holds it in full.
        value: f64,
        /// Decimals to show.
        decimals: u8,
    },
    /// A remark instead of a value, shown fainter.
    Note(String),
    /// No value: `–`.
    Absent,
}

impl Cell {
    /// A number with decimals, absent when there is none or it is not finite.
    pub fn number(value: impl Into<Option<f64>>, decimals: u8) -> Cell {
        match value.into() {
            Some(value) if value.is_finite() => Cell::Number { value, decimals },
            _ => Cell::Absent,
        }
    }

    /// A duration in milliseconds with three significant figures, absent when there is none.
    pub fn milliseconds(milliseconds: impl Into<Option<f64>>) -> Cell {
        let milliseconds = milliseconds.into();
        Cell::number(milliseconds, milliseconds.map_or(0, milliseconds_decimals))
    }

    /// What a reader sees.
    fn display(&self) -> String {
        match self {
            Cell::Text(text) | Cell::Note(text) | Cell::Link { text, .. } => one_line(text),
            Cell::Count(count) => format_count(*count),
            Cell::Number { value, decimals } => format_number(*value, *decimals),
            Cell::Absent => "–".to_owned(),
        }
    }

    /// A text that leads to a section of the page.
    pub fn link(text: impl Into<String>, section: impl Into<String>) -> Cell {
        Cell::Link {
            text: text.into(),
            section: section.into(),
        }
    }

    /// A remark instead of a value.
    pub fn note(text: impl Into<String>) -> Cell {
        Cell::Note(text.into())
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Cell {
        Cell::Count(count)
    }
}

impl From<Option<u64>> for Cell {
    fn from(count: Option<u64>) -> Cell {
        count.map_or(Cell::Absent, Cell::Count)
    }
}
