//! `tandem flood`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use ::flood::{
    Config, Counts, DEFAULT_COUNT, DEFAULT_RATE, Kind, Limits, MOST_PACKETS, MOST_PER_SECOND, Over,
    ProbeResult, Report, check_target, run as send,
};
use anyhow::Context;
use clap::Args;
use indicatif::ProgressBar;
use report::{Cell, Column, Document, Machine, Row, Table};
use sctp_net::DEFAULT_ENCAPSULATION_PORT;
use serde::Serialize;

use crate::output_style::shows_progress;
use crate::perf::output::{Written, check_writable, print, width};
use crate::target::flooded;
use crate::values::{count, ports_without_udp};
use crate::{fail, interrupts, logging};

/// Flood your own SCTP listener, and check whether a real client can still connect.
///
/// init sends INITs from forged addresses (where raw sockets are allowed; else from many ports and
/// loopback addresses), cookie sends INITs and a COOKIE ECHO for each answer, from peers that are then silent, and
/// replay opens one association, ends it, and replays its cookie unchanged, altered, and from other ports. Meanwhile
/// a client opens and ends associations; the result shows how often it succeeded, and its delays.
///
/// The target must be on loopback, or be reached from a host of a testbed of `tandem net`, whose
/// network leads nowhere else. Floods are limited in packets, rate and time; answers to the target, such as a COOKIE
/// ECHO, count, too.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The kind of flood: init, cookie or replay
    #[arg(value_name = "init|cookie|replay")]
    kind: Kind,

    /// The listener's address and SCTP port
    #[arg(value_name = "TARGET", value_parser = flooded)]
    target: SocketAddr,

    /// Packets in all, including answers to the target
    #[arg(long, value_name = "N", default_value_t = DEFAULT_COUNT,
          value_parser = |text: &str| count(text, 1..=MOST_PACKETS))]
    count: u64,

    /// Packets a second
    #[arg(long, value_name = "N", default_value_t = DEFAULT_RATE,
          value_parser = |text: &str| count(text, 1..=MOST_PER_SECOND))]
    rate: u64,

    /// The carrier of SCTP: udp or ip (raw sockets)
    #[arg(long, value_name = "udp|ip", default_value = "udp")]
    over: Over,

    /// The target's UDP port, with --over udp [default: 9899]
    #[arg(long, value_name = "PORT")]
    peer_encapsulation_port: Option<u16>,

    /// Seed of addresses, ports and tags
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = |text: &str| count(text, 0..=u64::MAX))]
    seed: u64,

    /// Run no client during the flood
    #[arg(long)]
    no_client: bool,

    /// Also report memory and processor time of this process, the listener's
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,

    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  tandem sctp listen --service discard &             a listener on SCTP port 9000 in UDP port 9899
  tandem flood init 127.0.0.1:9000
  tandem flood cookie 127.0.0.1:9000 --count 50000 --rate 5000 --json cookie.json
  tandem net exec client -- tandem flood replay 10.2.0.2:9000 --over ip

Exit status: 0 done, 1 failure, or a replayed cookie was accepted, 2 usage error, 130 interrupted: the
table shows what was done until then.";

/// What was asked for, for the document.
#[derive(Serialize)]
struct Asked {
    kind: Kind,
    target: SocketAddr,
    over: Over,
    count: u64,
    rate: u64,
}

/// What was seen.
#[derive(Serialize)]
struct Seen {
    #[serde(flatten)]
    report: Report,
    /// Of the process that was watched.
    listener: Option<Usage>,
}

/// What a process has used.
#[derive(Clone, Copy, Serialize)]
struct Usage {
    memory_before_kib: u64,
    memory_after_kib: u64,
    processor_seconds: f64,
}

/// Runs the command.
pub(crate) fn run(arguments: Arguments) -> ExitCode {
    logging::start("error");
    let limits = match Limits::new(arguments.count, arguments.rate) {
        Ok(limits) => limits,
        Err(error) => usage_error(&error.to_string()),
    };
    if let Err(refused) = check_target(arguments.target.ip()) {
        usage_error(&refused.to_string());
    }
    let port = (
        "--peer-encapsulation-port",
        arguments.peer_encapsulation_port,
    );
    if arguments.over == Over::Ip
        && let Some(reason) = ports_without_udp("ip", &[port])
    {
        usage_error(&reason);
    }
    let interrupted = interrupts::flag();
    match flood(&arguments, limits, &interrupted) {
        Ok(_) if interrupted.load(Ordering::Relaxed) => interrupts::exit_code(),
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => fail(error.as_ref()),
    }
}

/// Says whether the listener withstood.
fn flood(arguments: &Arguments, limits: Limits, interrupted: &AtomicBool) -> anyhow::Result<bool> {
    check_writable(&arguments.json)?;
    let over = match arguments.over {
        Over::Udp { .. } => Over::Udp {
            port: arguments
                .peer_encapsulation_port
                .unwrap_or(DEFAULT_ENCAPSULATION_PORT),
        },
        Over::Ip => Over::Ip,
    };
    let config = Config {
        kind: arguments.kind,
        target: arguments.target,
        over,
        limits,
        seed: arguments.seed,
        probe: !arguments.no_client,
    };
    let before = arguments.pid.map(watched).transpose()?;
    let bar = match shows_progress() {
        true => ProgressBar::new(limits.count()),
        false => ProgressBar::hidden(),
    };
    let report = send(&config, |sent| {
        bar.set_position(sent);
        !interrupted.load(Ordering::Relaxed)
    })?;
    bar.finish_and_clear();
    let after = arguments.pid.map(watched).transpose()?;
    let listener = before.zip(after).map(|(before, after)| Usage {
        memory_before_kib: before.0,
        memory_after_kib: after.0,
        processor_seconds: after.1 - before.1,
    });
    let withstood = report.counts.accepted == 0;
    let seen = Seen { report, listener };
    print(&table(&seen).to_terminal(width()));
    if let Some(path) = &arguments.json {
        let asked = Asked {
            kind: config.kind,
            target: config.target,
            over,
            count: limits.count(),
            rate: limits.rate(),
        };
        let machine = Machine::detect();
        let document = Document::new(machine, arguments.seed, asked, vec![seen]);
        let mut written = Written::default();
        written.write("Figures as JSON", path, document.to_json());
        written.end()?;
    }
    Ok(withstood)
}

/// Memory in KiB and processor time in seconds of a process.
fn watched(pid: u32) -> anyhow::Result<(u64, f64)> {
    let what = || format!("process {pid} (--pid) cannot be watched");
    let memory = ::perf::usage::proportional_set_size_kib(pid).with_context(what)?;
    let time = ::perf::usage::CpuTime::of(pid).with_context(what)?;
    Ok((memory, time.total_seconds()))
}

fn table(seen: &Seen) -> Table {
    let Seen { report, listener } = seen;
    let mut table = Table::new(format!("Flood of {}", packets_of(report.kind)))
        .column(Column::text("What").key())
        .column(Column::number("Figure"))
        .column(Column::text("Unit"));
    let mut row = |what: &str, figure: f64, decimals, unit: &str| {
        table.push(Row::new([
            Cell::from(what),
            Cell::number(figure, decimals),
            Cell::from(unit),
        ]));
    };
    row("sent", report.sent as f64, 0, "packets");
    row("rate", report.sent as f64 / report.seconds, 0, "packets/s");
    for (what, number) in counted(&report.counts) {
        if number > 0 {
            row(what, number as f64, 0, "packets");
        }
    }
    if let Some(client) = &report.client {
        client_rows(client, &mut row);
    }
    if let Some(listener) = listener {
        row(
            "listener, memory before",
            listener.memory_before_kib as f64,
            0,
            "KiB",
        );
        row(
            "listener, memory after",
            listener.memory_after_kib as f64,
            0,
            "KiB",
        );
        row(
            "listener, processor time",
            listener.processor_seconds,
            2,
            "s",
        );
    }
    if report.forged {
        table.note("The addresses were forged, so answers were not received.");
    }
    if report.kind == Kind::Replay && report.counts.replayed == 0 {
        table.note("No association was opened and ended: nothing was replayed.");
    }
    if report.counts.accepted > 0 {
        table.note("A COOKIE ACK came for a cookie that was replayed, altered or moved.");
    }
    table
}

fn client_rows(client: &ProbeResult, row: &mut impl FnMut(&str, f64, u8, &str)) {
    row("client, attempts", client.attempts as f64, 0, "");
    row("client, got in", client.successes as f64, 0, "");
    for (what, part) in [
        ("client, set-up, median", 0.5),
        ("client, set-up, longest", 1.0),
    ] {
        if let Some(delay) = client.quantile_ms(part) {
            row(what, delay, 3, "ms");
        }
    }
}

fn counted(counts: &Counts) -> [(&'static str, u64); 12] {
    [
        ("INIT", counts.inits),
        ("COOKIE ECHO", counts.cookies),
        ("replayed", counts.replayed),
        ("altered", counts.altered),
        ("from another port", counts.moved),
        ("to end the association", counts.endings),
        ("answered: INIT ACK", counts.init_acks),
        ("answered: COOKIE ACK", counts.cookie_acks),
        ("answered: COOKIE ACK to a replay", counts.accepted),
        ("answered: ABORT", counts.aborts),
        ("answered: ERROR", counts.errors),
        ("answered: other", counts.other),
    ]
}

fn packets_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Init => "INITs",
        Kind::Cookie => "INITs and COOKIE ECHOs",
        Kind::Replay => "replayed cookies",
    }
}

/// Says what makes no sense in the arguments, and ends the program.
fn usage_error(reason: &str) -> ! {
    crate::usage::error(&["flood"], reason)
}
