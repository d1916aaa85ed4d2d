//! `tandem m3ua perf`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use measures::DelaySummary;
use report::{Cell, Column, Document, Machine, Row, Table};
use serde::Serialize;
use sigtran::perf::{MAX_ASPS, Plan, Report, run as measure};

use crate::fail;
use crate::perf::output::{check_writable, print, width, write};
use crate::values::duration;

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Messages a second, such as 1000/s
    #[arg(long, value_name = "RATE", value_parser = super::rate, default_value = "1000/s")]
    rate: f64,

    /// How long they are sent
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    duration: Duration,

    /// User data of each message, in octets
    #[arg(long, value_name = "OCTETS", default_value_t = 64, value_parser = clap::value_parser!(u16).range(16..=4096))]
    size: u16,

    /// ASPs that share the load
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=MAX_ASPS as i64))]
    asps: u16,

    /// Half way, an ASP ends without a word, and the others take its messages
    #[arg(long)]
    fail_over: bool,

    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Serialize)]
struct Asked {
    rate: f64,
    duration_s: f64,
    octets: usize,
    asps: usize,
    fails_over: bool,
}

#[derive(Serialize)]
struct Figures {
    sent: u64,
    received: u64,
    lost: u64,
    refused: u64,
    duplicates: u64,
    out_of_order: u64,
    messages_per_second: f64,
    delay_ms: DelaySummary,
    outage_ms: Option<f64>,
}

/// Measures to the end, and shows what came of it.
pub(super) fn run(arguments: &Arguments, runtime: &tokio::runtime::Runtime) -> ExitCode {
    match try_run(arguments, runtime) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(error.as_ref()),
    }
}

fn try_run(arguments: &Arguments, runtime: &tokio::runtime::Runtime) -> anyhow::Result<()> {
    check_writable(&arguments.json)?;
    let plan = Plan {
        rate: arguments.rate,
        duration: arguments.duration,
        octets: usize::from(arguments.size),
        asps: usize::from(arguments.asps),
        fails_over: arguments.fail_over,
    };
    let figures = figures(&runtime.block_on(measure(&plan))?);
    print(&table(&figures).to_terminal(width()));
    if let Some(path) = &arguments.json {
        let asked = Asked {
            rate: plan.rate,
            duration_s: plan.duration.as_secs_f64(),
            octets: plan.octets,
            asps: plan.asps,
            fails_over: plan.fails_over,
        };
        let document = Document::new(Machine::detect(), 0, asked, vec![figures]);
        write(path, &document.to_json()?)?;
    }
    Ok(())
}

fn figures(report: &Report) -> Figures {
    Figures {
        sent: report.sent,
        received: report.received,
        lost: report.lost(),
        refused: report.refused,
        duplicates: report.duplicates,
        out_of_order: report.out_of_order,
        messages_per_second: report.throughput(),
        delay_ms: report.delays.milliseconds(),
        outage_ms: report.outage.map(|outage| outage.as_secs_f64() * 1e3),
    }
}

fn table(figures: &Figures) -> Table {
    let mut table = Table::new("Messages through a gateway")
        .column(Column::text("What").key())
        .column(Column::number("Figure"))
        .column(Column::text("Unit"));
    let mut row = |what: &str, figure: Option<f64>, decimals, unit: &str| {
        table.push(Row::new([
            Cell::from(what),
            Cell::number(figure, decimals),
            Cell::from(unit),
        ]));
    };
    for (what, count) in [
        ("sent", figures.sent),
        ("received", figures.received),
        ("lost", figures.lost),
        ("without a way", figures.refused),
        ("received twice", figures.duplicates),
        ("out of order", figures.out_of_order),
    ] {
        row(what, Some(count as f64), 0, "messages");
    }
    row(
        "throughput",
        Some(figures.messages_per_second),
        0,
        "messages/s",
    );
    let delay = &figures.delay_ms;
    for (what, time) in [
        ("delay, mean", delay.mean),
        ("delay, median", delay.p50),
        ("delay, 99 %", delay.p99),
        ("delay, longest", delay.max),
        ("outage at fail-over", figures.outage_ms),
    ] {
        row(what, time, 3, "ms");
    }
    table
}
