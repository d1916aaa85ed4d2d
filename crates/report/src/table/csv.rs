//! A table as comma-separated values (RFC 4180).

use super::{Cell, Column, Table};
use crate::text::one_line;

/// What stands before the decimals of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Decimal {
    /// A point; fields are separated by commas.
    #[default]
    Point,
    /// A comma, as spreadsheets of many countries have it; fields are separated by semicolons.
    Comma,
}

impl Decimal {
    pub(super) fn separator(self) -> char {
        match self {
            Decimal::Point => ',',
            Decimal::Comma => ';',
        }
    }
}

pub(super) fn render(table: &Table, decimal: Decimal) -> String {
    let mut out = header_line(table, decimal);
    for row in &table.rows {
        let fields = row.cells.iter().map(|cell| field(cell, decimal));
        push_record(&mut out, decimal, fields);
    }
    out
}

/// The line that names the columns.
pub(super) fn header_line(table: &Table, decimal: Decimal) -> String {
    let mut out = String::new();
    push_record(&mut out, decimal, table.columns.iter().map(header));
    out
}

/// Group, name and unit in one: `Session request delay p50 (ms)`.
fn header(column: &Column) -> String {
    let mut header = column
        .group
        .as_ref()
        .map_or_else(String::new, |group| format!("{group} "));
    header.push_str(&column.header);
    if let Some(unit) = &column.unit {
        header.push_str(&format!(" ({unit})"));
    }
    one_line(&header)
}

fn field(cell: &Cell, decimal: Decimal) -> String {
    match cell {
        Cell::Text(text) | Cell::Note(text) | Cell::Link { text, .. } => one_line(text),
        Cell::Count(count) => count.to_string(),
        Cell::Number { value, .. } => match decimal {
            Decimal::Point => value.to_string(),
            Decimal::Comma => value.to_string().replace('.', ","),
        },
        Cell::Absent => String::new(),
    }
}

/// A record ends with CRLF (RFC 4180 section 2, rule 1); a field with a comma, quote or line end is quoted
/// and its quotes are doubled (rules 6 and 7).
fn push_record(out: &mut String, decimal: Decimal, fields: impl Iterator<Item = String>) {
    let separator = decimal.separator();
    for (index, field) in fields.enumerate() {
        if index > 0 {
            out.push(separator);
        }
        if field.contains([separator, '"', '\r', '\n']) {
            out.push('"');
            out.push_str(&field.replace('"', "\"\""));
            out.push('"');
        } else {
            out.push_str(&field);
        }
    }
    out.push_str("\r\n");
}

#[cfg(test)]
mod tests {
    use super::super::Row;
    use super::*;

    fn table(cells: impl IntoIterator<Item = Cell>) -> Table {
        let cells: Vec<Cell> = cells.into_iter().collect();
        let mut table = Table::new("t").columns(cells.iter().map(|_| Column::text("c")));
        table.push(Row::new(cells));
        table
    }

    fn record(cells: impl IntoIterator<Item = Cell>) -> String {
        render(&table(cells), Decimal::Point)
            .lines()
            .nth(1)
            .unwrap()
            .to_owned()
    }

    #[test]
    fn commas_and_quotes_are_quoted() {
        assert_eq!(
            record(["a,b".into(), "say \"hi\"".into(), "plain".into()]),
            r#""a,b","say ""hi""",plain"#
        );
    }

    #[test]
    fn numbers_are_in_full_and_absent_cells_empty() {
        assert_eq!(
            record([
                Cell::number(1234.5678, 1),
                1_000_000_u64.into(),
                Cell::Absent
            ]),
            "1234.5678,1000000,"
        );
    }

    #[test]
    fn with_decimal_commas_semicolons_separate() {
        let table = table([Cell::number(0.5, 1), "a;b".into(), "c,d".into()]);
        let rendered = render(&table, Decimal::Comma);
        assert_eq!(rendered.lines().nth(1), Some(r#"0,5;"a;b";c,d"#));
    }

    #[test]
    fn a_header_says_group_and_unit() {
        let table = Table::new("t")
            .column(Column::number("p50").unit("ms").group("Delay"))
            .column(Column::text("x"));
        assert_eq!(render(&table, Decimal::Point), "Delay p50 (ms),x\r\n");
    }

    #[test]
    fn a_line_end_within_a_cell_does_not_end_the_record() {
        assert_eq!(
            render(&table(["a\r\nb".into()]), Decimal::Point),
            "c\r\na  b\r\n"
        );
    }
}
