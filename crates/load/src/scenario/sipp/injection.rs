//! SIPp's injection files: what `[field0 file=…]` and `<lookup>` are about.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ScriptReader;
use super::keyword::{Keyword, Part};
use super::message::builder;
use crate::scenario::problem::Problems;
use crate::script::{Action, RowOrder, Slot, Table};

/// Tables by the names of their files; those that cannot be read are told once.
pub(super) type Tables = BTreeMap<String, Option<Arc<Table>>>;

impl ScriptReader {
    /// `[field3]`, of the user's row or of another file's.
    pub(super) fn field(
        &mut self,
        column: &str,
        keyword: &Keyword,
        before: &mut Vec<Action>,
        problems: &mut Problems,
    ) -> Result<Slot, String> {
        let column = column.parse().map_err(|_| {
            format!(
                "[{}]: columns are numbers from 0, as in [field0]",
                keyword.name
            )
        })?;
        let line = keyword.parameter("line").map(<[Part]>::to_vec);
        let line = line.map(|parts| self.template_parts(&parts, before, problems));
        let line = line.map(|pieces| builder(pieces).into_text());
        let file = match keyword.parameter("file") {
            Some([Part::Literal(name)]) => Some(String::from_utf8_lossy(name).into_owned()),
            Some(_) => return Err("the file of a [field…] is named without keywords".to_owned()),
            None => None,
        };
        let Some(file) = file else {
            return match line {
                None => Ok(Slot::Field(column)),
                Some(row) => Ok(Slot::RowField { column, row }),
            };
        };
        match self.table(&file) {
            Ok(Some(table)) => Ok(Slot::TableField {
                table,
                column,
                row: line,
            }),
            // It has been told.
            Ok(None) => Ok(Slot::Field(column)),
            Err(error) => Err(error),
        }
    }

    /// A table by the name of its file; nothing where it has been told that it cannot be read.
    pub(super) fn table(&mut self, file: &str) -> Result<Option<Arc<Table>>, String> {
        if let Some(known) = self.tables.get(file) {
            return Ok(known.clone());
        }
        let read = self.companions.read(file).and_then(|octets| {
            parsed(&octets).map_err(|error| format!("the file {file:?}: {error}"))
        });
        let (kept, result) = match read {
            Ok(table) => {
                let table = Some(Arc::new(table));
                (table.clone(), Ok(table))
            }
            Err(error) => (None, Err(error)),
        };
        self.tables.insert(file.to_owned(), kept);
        result
    }
}

/// Reads an injection file: an order, and a row a line, whose fields end with semicolons.
fn parsed(octets: &[u8]) -> Result<Table, String> {
    let text = super::document::decoded(octets);
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default().trim();
    let (order, option) = first.split_once(',').unwrap_or((first, ""));
    let order = match order.trim() {
        "SEQUENTIAL" => RowOrder::Sequential,
        "RANDOM" => RowOrder::Random,
        "USER" => RowOrder::User,
        _ => return Err("the first line is SEQUENTIAL, RANDOM or USER".to_owned()),
    };
    if !option.trim().is_empty() {
        return Err(format!(
            "{} behind the order is not supported",
            option.trim()
        ));
    }
    let rows = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let rows = rows.map(|line| line.trim_end().split(';').map(Into::into).collect());
    Ok(Table::new(rows.collect(), order))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_as_sipp_has_them() {
        let table = parsed(b"SEQUENTIAL\r\n# a comment\r\nalice;[x];\r\n\r\nbob;y;\r\n").unwrap();
        assert_eq!(table.field(1, 1, 0), Some("alice"));
        assert_eq!(table.field(2, 1, 1), Some("y"));
        assert_eq!(table.find(b"bob"), Some(1));
        for wrong in ["", "alice;\n", "SEQUENTIAL,PRINTF=5\n"] {
            assert!(parsed(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
