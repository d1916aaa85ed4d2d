//! The options that say what becomes of packets.

use std::path::Path;

use clap::Args;
use report::{Cell, Column, Table};
use testbed::Words;
use testbed::control::LineState;

use super::{Which, usage_error};
use crate::values::duration;

/// Treatment of packets, in words close to NIST Net's.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Treatment of packets")]
pub(super) struct Treatment {
    /// Delay: 50ms
    #[arg(long, value_name = "TIME", value_parser = delay)]
    delay: Option<String>,

    /// Variation of the delay: 5ms, "5ms normal 25%", "5ms pareto reorder", "5ms table FILE"
    #[arg(long, value_name = "TIME …")]
    jitter: Option<String>,

    /// Loss: 10%, "10% 25%" (correlated), "gilbert-elliott 1% 10% 70% 0.1%", "every 100"
    #[arg(long, visible_alias = "loss", value_name = "SHARE …")]
    drop: Option<String>,

    /// Duplicates: 1%
    #[arg(long, value_name = "SHARE …")]
    duplicate: Option<String>,

    /// Packets with flipped bits: 0.1%, "0.1% bits 3"
    #[arg(long, value_name = "SHARE …")]
    corrupt: Option<String>,

    /// Packets sent ahead of others: 25%, "25% gap 5"
    #[arg(long, value_name = "SHARE …")]
    reorder: Option<String>,

    /// Rate: 100kB/s, 1Mbit/s, "1Mbit/s overhead 28 burst 15kB", none
    #[arg(long, value_name = "RATE …")]
    bandwidth: Option<String>,

    /// Recorded rate: a file of times in milliseconds at which 1500 bytes may leave
    #[arg(long, value_name = "FILE", conflicts_with = "bandwidth")]
    trace: Option<String>,

    /// Queue and its management: 32kB, 100p, codel, "100p red 5p 15p 2% ecn"
    #[arg(long, value_name = "BYTES …")]
    queue: Option<String>,

    /// A link with known figures, which other options override: see tandem net presets
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
}

/// Reads a delay, in words of links.
fn delay(text: &str) -> Result<String, String> {
    duration(text).map(link::words::show_duration)
}

impl Treatment {
    /// The options as words, with the texts of the files that they name.
    pub(super) fn words(&self) -> anyhow::Result<Words> {
        let trace = self.trace.as_ref().map(|file| format!("trace {file}"));
        let bandwidth = trace.or_else(|| self.bandwidth.clone());
        let all = [
            ("preset", &self.preset),
            ("delay", &self.delay),
            ("jitter", &self.jitter),
            ("loss", &self.drop),
            ("duplicate", &self.duplicate),
            ("corrupt", &self.corrupt),
            ("reorder", &self.reorder),
            ("bandwidth", &bandwidth),
            ("queue", &self.queue),
        ];
        let given = all
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value.clone()?.into())));
        let read = |file: &str| testbed::read_file(Path::new(file));
        testbed::with_files(given.collect(), &mut { read }).map_err(anyhow::Error::msg)
    }
}

/// What is to become of the packets of a link or a rule from now on.
#[derive(Args, Debug)]
pub(super) struct NewTreatment {
    #[command(flatten)]
    treatment: Treatment,

    /// Reset all settings that are not given
    #[arg(long)]
    pub(super) replace: bool,

    #[command(flatten)]
    pub(super) which: Which,
}

impl NewTreatment {
    /// The words of the change, which `tandem net COMMAND` has to have.
    pub(super) fn words(&self, command: &str) -> anyhow::Result<Words> {
        let words = self.treatment.words()?;
        if words.is_empty() && !self.replace {
            let what = "nothing to change: give --delay, --drop, or another option";
            usage_error(command, what);
        }
        Ok(words)
    }
}

/// A table with the columns of what becomes of packets, behind others.
pub(super) fn table(columns: impl IntoIterator<Item = Column>) -> Table {
    Table::new("")
        .columns(columns)
        .column(Column::text("Does"))
        .column(Column::number("Offered"))
        .column(Column::number("Delivered"))
        .column(Column::number("Dropped"))
}

/// Their cells.
pub(super) fn cells(does: String, line: &LineState) -> [Cell; 4] {
    [
        Cell::from(does),
        Cell::from(line.offered_packets),
        Cell::from(line.delivered_packets),
        Cell::from(line.dropped_packets),
    ]
}

/// Words as they are shown.
pub(super) fn show(words: &Words) -> String {
    let shown: Vec<String> = words
        .iter()
        .map(|(name, value)| format!("{name} {}", value.as_str().unwrap_or_default()))
        .collect();
    if shown.is_empty() {
        return "nothing".to_owned();
    }
    shown.join(", ")
}
