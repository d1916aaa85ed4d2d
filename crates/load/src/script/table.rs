//! Tables of a scenario's own: SIPp's injection files.

use std::collections::HashMap;

/// Rows of fields, of which a session has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    rows: Vec<Vec<Box<str>>>,
    order: RowOrder,
    /// The first row with each text in its first field.
    by_key: HashMap<Box<str>, usize>,
}

/// Which row a session has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOrder {
    /// The next one, and the first one after the last.
    Sequential,
    /// Any.
    Random,
    /// That of its user's number.
    User,
}

impl Table {
    /// A table. Without rows it has no fields.
    pub fn new(rows: Vec<Vec<Box<str>>>, order: RowOrder) -> Table {
        let mut by_key = HashMap::with_capacity(rows.len());
        for (number, row) in rows.iter().enumerate() {
            if let Some(key) = row.first() {
                by_key.entry(key.clone()).or_insert(number);
            }
        }
        Table {
            rows,
            order,
            by_key,
        }
    }

    /// A field, by its place in a row, of a session: its number and that of its user are counted from 1.
    pub(crate) fn field(&self, session: u64, user: u32, column: u16) -> Option<&str> {
        let count = self.rows.len() as u64;
        let number = match self.order {
            RowOrder::Sequential => session.wrapping_sub(1),
            // Different for each session, always the same for one.
            RowOrder::Random => session.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32,
            RowOrder::User => u64::from(user).wrapping_sub(1),
        };
        self.field_at(number.checked_rem(count)?, column)
    }

    /// A field by its row, counted from 0, and its place in that.
    pub(crate) fn field_at(&self, row: u64, column: u16) -> Option<&str> {
        let row = self.rows.get(usize::try_from(row).ok()?)?;
        row.get(usize::from(column)).map(|field| &**field)
    }

    /// The first row, counted from 0, with this text in its first field.
    pub(crate) fn find(&self, key: &[u8]) -> Option<usize> {
        let key = std::str::from_utf8(key).ok()?;
        self.by_key.get(key).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_have_rows_in_the_order_of_the_table() {
        let rows = ["a", "b", "c"].map(|name| vec![name.into(), format!("{name}{name}").into()]);
        let table = |order| Table::new(rows.to_vec(), order);
        let sequential = table(RowOrder::Sequential);
        let fields: Vec<_> = (1..=4)
            .map(|session| sequential.field(session, 9, 0))
            .collect();
        assert_eq!(fields, [Some("a"), Some("b"), Some("c"), Some("a")]);
        assert_eq!(table(RowOrder::User).field(7, 2, 1), Some("bb"));
        let random = table(RowOrder::Random);
        let drawn = (1..100).filter_map(|session| random.field(session, 1, 0));
        let drawn: std::collections::BTreeSet<_> = drawn.collect();
        assert_eq!(drawn.len(), 3);
        assert_eq!(
            (sequential.find(b"c"), sequential.find(b"cc")),
            (Some(2), None)
        );
        // The first of several rows with a key is found.
        let twice = [&rows[..], &rows].concat();
        assert_eq!(Table::new(twice, RowOrder::User).find(b"b"), Some(1));
        assert_eq!(sequential.field(1, 1, 2), None);
        assert_eq!(Table::new(Vec::new(), RowOrder::User).field(1, 1, 0), None);
    }
}
