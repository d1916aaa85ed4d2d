//! `tandem perf sweep`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use ::perf::sweep::{SIZES, SweepConfig, sweep};
use ::perf::{ServerProcess, units};
use clap::Args;
use report::{format_count, format_number};

use super::output::{Progress, Written, check_writable, print, usage_error, width};
use super::{Carrier, interrupts, server_command};
use crate::demo::command_line;
use crate::pcap;
use crate::values::positive_duration;

/// Sweep message sizes over UDP, TCP and SCTP on this host, in one table and one page.
///
/// Sends messages of each size over each transport as fast as possible, to a server process on loopback, as in Pang
/// 2003.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Message sizes in bytes (K for 1,024) [default: 64,128,… doubling to 65536]
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',',
          value_parser = |text: &str| units::bytes(text, 1 << 20).map(|size| size as usize))]
    sizes: Vec<usize>,

    /// Length of each test
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, value_parser = positive_duration, default_value = "2s")]
    seconds: Duration,

    #[command(flatten)]
    carrier: Carrier,

    /// Where to write the page with plots
    #[arg(long, value_name = "FILE", default_value = "tandem-sweep.html")]
    html: PathBuf,

    /// Write the results as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  tandem perf sweep                                     33 tests of 2 s each; tandem-sweep.html
  tandem perf sweep --html sweep.html --json sweep.json
  tandem perf sweep --sizes 64,1K,64K --seconds 10
  tandem perf sweep --over ip                           SCTP directly over IP, as root

Exit status: 0 all tests went well, 1 one did not, 2 usage error, 130 interrupted: what was
measured until then is shown and written.";

/// Runs all tests, shows the table, writes the files.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let config = SweepConfig {
        sizes: match arguments.sizes.is_empty() {
            true => SIZES.to_vec(),
            false => arguments.sizes,
        },
        seconds: arguments.seconds.as_secs_f64(),
        carrier: arguments.carrier.config(1, &["perf", "sweep"])?,
    };
    if let Err(reason) = config.check() {
        usage_error("sweep", &reason);
    }
    check_writable(std::iter::once(&arguments.html).chain(&arguments.json))?;
    let interrupts = interrupts()?;
    let interrupted = interrupts.clone();
    let command = server_command(&["udp", "tcp", "sctp"], &config.carrier, false)?;
    let server = ServerProcess::start(command, 3).await?;
    let tests = config.sizes.len() * 3;
    let progress = Progress::new(Some(tests as f64 * config.seconds));
    let mut done = 0;
    let swept = sweep(&config, &server, interrupts, |run| {
        done += 1;
        let line = format!(
            "{done:>3}/{tests}  {:>4}  {:>7} bytes  {:>10} Mbit/s",
            run.protocol.to_string(),
            format_count(run.size_bytes as u64),
            format_number(run.goodput_bits_per_second.unwrap_or(f64::NAN) / 1e6, 1)
        );
        progress.interval(f64::from(done) * config.seconds, &line);
        for error in &run.errors {
            progress.line(&format!("tandem: {error}"));
        }
    })
    .await;
    progress.end();
    server.end().await;
    // What the capture lacks is told of a measurement that failed, too.
    let captured = pcap::finish(config.carrier.tap.as_ref());
    let swept = swept?;
    print(&swept.to_terminal(width()));
    let mut written = Written::default();
    written.check(captured);
    let page = swept.to_html(&command_line());
    written.write("Page with plots", &arguments.html, anyhow::Ok(page));
    if let Some(path) = &arguments.json {
        written.write("Results as JSON", path, swept.to_json());
    }
    written.end()?;
    Ok(match swept.has_errors() {
        _ if *interrupted.borrow() > 0 => crate::interrupts::exit_code(),
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}
