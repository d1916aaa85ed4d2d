//! A table as comma-separated values (RFC 4180).

use super::{Cell, Column, Table};
use crate::text::one_line;

pub(super) fn render(table: &Table) -> String {
    let mut out = String::new();
    push_record(&mut out, table.columns.iter().map(header));
    for row in &table.rows {
        push_record(&mut out, row.cells.iter().map(field));
    }
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

fn field(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) | Cell::Note(text) => one_line(text),
        Cell::Count(count) => count.to_string(),
        Cell::Number { value, .. } => value.to_string(),
        Cell::Absent => String::new(),
    }
}

/// A record ends with CRLF (RFC 4180 section 2, rule 1); a field with a comma, quote or line end is quoted
/// and its quotes are doubled (rules 6 and 7).
fn push_record(out: &mut String, fields: impl Iterator<Item = String>) {
    for (index, field) in fields.enumerate() {
        if index > 0 {
            out.push(',');
        }
        if field.contains([',', '"', '\r', '\n']) {
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
        render(&table(cells)).lines().nth(1).unwrap().to_owned()
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
    fn a_header_says_group_and_unit() {
        let table = Table::new("t")
            .column(Column::number("p50").unit("ms").group("Delay"))
            .column(Column::text("x"));
        assert_eq!(render(&table), "Delay p50 (ms),x\r\n");
    }

    #[test]
    fn a_line_end_within_a_cell_does_not_end_the_record() {
        assert_eq!(render(&table(["a\r\nb".into()])), "c\r\na  b\r\n");
    }
}
