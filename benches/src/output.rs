//! What is printed: a table for people, or one JSON object a line.

use std::io::Write;

use anyhow::Context;
use comfy_table::{CellAlignment, Table as Grid, TableStyle};
use serde::Serialize;

use crate::rounds::{Better, Spread};

/// One metric of one case.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) case: String,
    pub(crate) metric: &'static str,
    pub(crate) better: Better,
    pub(crate) ours: Spread,
    pub(crate) peer: Spread,
    /// The advantage that is aimed at; 0 when the distance is merely told.
    pub(crate) goal: f64,
}

/// Takes rows as they are measured.
pub(crate) trait Output {
    fn row(&mut self, row: Row) -> anyhow::Result<()>;

    /// All rows are there.
    fn finish(&mut self) -> anyhow::Result<()>;
}

/// For people.
pub(crate) struct Table {
    grid: Grid,
}

/// For programs.
pub(crate) struct JsonLines {
    name: &'static str,
}

#[derive(Serialize)]
struct JsonRow<'a> {
    name: &'a str,
    case: &'a str,
    metric: &'a str,
    ours: f64,
    ours_min: f64,
    ours_max: f64,
    peer: f64,
    peer_min: f64,
    peer_max: f64,
    advantage: f64,
    goal: f64,
}

impl Table {
    pub(crate) fn new(name: &str) -> Table {
        let mut grid = Grid::new();
        grid.load_style(TableStyle::new());
        grid.set_header(vec![
            name,
            "metric",
            "ours",
            "(min - max)",
            "peer",
            "(min - max)",
            "advantage",
            "goal",
        ]);
        for column in grid.column_iter_mut().skip(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        Table { grid }
    }
}

impl Output for Table {
    fn row(&mut self, row: Row) -> anyhow::Result<()> {
        // Measuring takes a while: who waits sees that it goes on.
        eprintln!("{} {}: {}", row.case, row.metric, times(row.advantage()));
        let goal = match row.goal {
            0.0 => "-".to_owned(),
            goal if row.advantage() >= goal => format!("{} reached", times(goal)),
            goal => format!("{} missed", times(goal)),
        };
        self.grid.add_row(vec![
            row.case.clone(),
            row.metric.to_owned(),
            number(row.ours.median),
            format!("({} - {})", number(row.ours.min), number(row.ours.max)),
            number(row.peer.median),
            format!("({} - {})", number(row.peer.min), number(row.peer.max)),
            times(row.advantage()),
            goal,
        ]);
        Ok(())
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        writeln!(std::io::stdout(), "{}", self.grid).context("standard output")
    }
}

impl JsonLines {
    pub(crate) fn new(name: &'static str) -> JsonLines {
        JsonLines { name }
    }
}

impl Output for JsonLines {
    fn row(&mut self, row: Row) -> anyhow::Result<()> {
        let line = serde_json::to_string(&JsonRow {
            name: self.name,
            case: &row.case,
            metric: row.metric,
            ours: row.ours.median,
            ours_min: row.ours.min,
            ours_max: row.ours.max,
            peer: row.peer.median,
            peer_min: row.peer.min,
            peer_max: row.peer.max,
            advantage: row.advantage(),
            goal: row.goal,
        })?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}").context("standard output")?;
        out.flush().context("standard output")
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
}

impl Row {
    fn advantage(&self) -> f64 {
        self.better.advantage(self.ours.median, self.peer.median)
    }
}

/// Three significant digits, large numbers whole.
fn number(value: f64) -> String {
    let digits = (2 - value.abs().max(1e-9).log10().floor() as i32).clamp(0, 6);
    format!("{value:.*}", digits as usize)
}

fn times(value: f64) -> String {
    format!("{} x", number(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_that_count() {
        assert_eq!(number(1234567.8), "1234568");
        assert_eq!(number(12.345), "12.3");
        assert_eq!(number(0.012345), "0.0123");
    }
}
