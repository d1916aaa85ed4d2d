//! `tandem perf associations` and `tandem perf streams`.

use std::path::PathBuf;
use std::process::ExitCode;

use ::perf::scale::{Case, MAX_ASSOCIATIONS, MAX_STREAMS, ScaleConfig, measure};
use ::perf::{ServerProcess, limits, units};
use clap::Args;

use super::output::{Progress, Written, check_writable, print, usage_error, width};
use super::{Carrier, interrupts, server_command};
use crate::pcap;
use crate::values::count;

/// Set up many associations and send a message on each: start-up time, server memory, transfer time.
///
/// The server is a process on loopback; its memory is the proportional set size. The result also shows the figures of
/// KTH 2004 for 10,000 associations and for 10,000 streams of one.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Associations {
    /// Number of associations
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = |text: &str| count(text, 1..=MAX_ASSOCIATIONS as u64).map(|count| count as usize))]
    count: usize,

    /// Streams of each association
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    streams: u16,

    #[command(flatten)]
    common: Common,
}

/// Set up one association with many streams and send a message on each: start-up time, server memory,
/// transfer time.
///
/// To be compared with `tandem perf associations`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Streams {
    /// Number of streams
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = |text: &str| count(text, 1..=MAX_STREAMS as u64).map(|count| count as usize))]
    count: usize,

    #[command(flatten)]
    common: Common,
}

#[derive(Args, Debug)]
struct Common {
    /// Message size in bytes
    #[arg(long, value_name = "BYTES", default_value = "64",
          value_parser = |text: &str| units::bytes(text, limits::MAX_SCTP_SIZE as u64).map(|size| size as usize))]
    size: usize,

    #[command(flatten)]
    carrier: Carrier,

    /// Write the result as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  tandem perf associations --count 10000
  tandem perf streams --count 10000
  tandem perf associations --count 100000 --json associations.json";

/// Measures many associations.
pub(crate) async fn associations(arguments: Associations) -> anyhow::Result<ExitCode> {
    let Associations {
        count,
        streams,
        common,
    } = arguments;
    run("associations", Case::Associations, count, streams, common).await
}

/// Measures many streams.
pub(crate) async fn streams(arguments: Streams) -> anyhow::Result<ExitCode> {
    let Streams { count, common } = arguments;
    run("streams", Case::Streams, count, 1, common).await
}

async fn run(
    name: &str,
    case: Case,
    count: usize,
    streams: u16,
    common: Common,
) -> anyhow::Result<ExitCode> {
    let config = ScaleConfig {
        case,
        count,
        streams,
        size: common.size,
        carrier: common.carrier.config(1, &["perf", name])?,
    };
    if let Err(reason) = config.check() {
        usage_error(name, &reason);
    }
    check_writable(&common.json)?;
    let interrupts = interrupts()?;
    let command = server_command(&["sctp"], &config.carrier, true)?;
    let server = ServerProcess::start(command, 1).await?;
    let progress = Progress::new(None);
    let measured = measure(&config, &server, interrupts, |stage| progress.line(stage)).await;
    progress.end();
    server.end().await;
    // What the capture lacks is told of a measurement that failed, too.
    let captured = pcap::finish(config.carrier.tap.as_ref());
    let measured = measured?;
    print(&measured.to_terminal(width()));
    let mut written = Written::default();
    written.check(captured);
    if let Some(path) = &common.json {
        written.write("Results as JSON", path, measured.to_json());
    }
    written.end()?;
    Ok(ExitCode::SUCCESS)
}
