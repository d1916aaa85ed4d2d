//! What KTH 2004 measured, embedded so that ours can stand beside it.

use serde::Serialize;

/// A row of KTH 2004, tests 3 and 4.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Published {
    /// `start_up` (test 3) or `transfer` (test 4).
    pub test: String,
    /// What ran.
    pub setup: String,
    /// What was measured.
    pub metric: String,
    /// The figure.
    pub value: f64,
    /// Its unit.
    pub unit: String,
}

/// All rows.
pub fn published() -> Vec<Published> {
    include_str!("../../published/streams_or_associations.csv")
        .lines()
        .skip(1)
        .filter_map(|line| {
            let mut fields = line.split(',').map(str::trim);
            Some(Published {
                test: fields.next()?.to_owned(),
                setup: fields.next()?.to_owned(),
                metric: fields.next()?.to_owned(),
                value: fields.next()?.parse().ok()?,
                unit: fields.next()?.to_owned(),
            })
        })
        .collect()
}

/// The figure of a metric in a test whose set-up reads like this.
pub(super) fn figure(test: &str, setup: &str, metric: &str) -> Option<f64> {
    published()
        .into_iter()
        .find(|row| row.test == test && row.setup == setup && row.metric == metric)
        .map(|row| row.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read() {
        assert_eq!(published().len(), 9);
        assert_eq!(
            figure("start_up", "10000 associations of 1 stream", "run_time"),
            Some(28.644)
        );
        assert_eq!(figure("start_up", "nothing", "run_time"), None);
    }
}
