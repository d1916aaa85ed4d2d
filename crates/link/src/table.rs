//! Distributions from tables.

use crate::words::WordsError;
use std::sync::Arc;

/// A distribution as a table in netem's format (`/usr/lib/tc/*.dist`, made by `maketable` of
/// iproute2): deviations in 1/8192ths of the jitter, in order, each as likely as any other. Lines
/// that begin with `#` are comments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    name: Arc<str>,
    values: Arc<[i16]>,
}

/// How many values a table holds at most, as in netem.
pub const MAX_TABLE_VALUES: usize = 16384;

impl Table {
    /// Reads a table. Its name is how words refer to it: that of its file.
    ///
    /// # Errors
    ///
    /// When there is something else than numbers of 16 bits, none, or more than
    /// [`MAX_TABLE_VALUES`].
    pub fn parse(name: &str, text: &str) -> Result<Table, WordsError> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let mut values = Vec::new();
        for word in lines.flat_map(str::split_whitespace) {
            let value = word.parse().map_err(|_| {
                WordsError::new(format!(
                    "table {name}: \"{word}\" is not a number of 16 bits"
                ))
            })?;
            values.push(value);
            if values.len() > MAX_TABLE_VALUES {
                return Err(WordsError::new(format!(
                    "table {name}: more than {MAX_TABLE_VALUES} values"
                )));
            }
        }
        if values.is_empty() {
            return Err(WordsError::new(format!("table {name}: no values")));
        }
        Ok(Table {
            name: name.into(),
            values: values.into(),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Deviations, in 1/8192ths of the jitter.
    pub fn values(&self) -> &[i16] {
        &self.values
    }

    /// As netem does: one of the values, nothing between them.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let last = self.values.len() - 1;
        let index = (share * self.values.len() as f64) as usize;
        f64::from(self.values[index.min(last)]) / SCALE
    }
}

const SCALE: f64 = 8192.0;
