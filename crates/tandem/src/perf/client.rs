//! `tandem perf client`.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use ::perf::{
    Bitrate, ClientConfig, DEFAULT_PORT, DEFAULT_UDP_BITS_PER_SECOND, Interval, Limit, Over,
    PAYLOAD_SEED, Protocol, RateLimit, Target, TestParameters, TestResult, limits, text, units,
};
use clap::Args;
use report::{Document, Machine};
use sctp_net::{BufferSplitting, CongestionControl, PathScheduler, Profile, StreamScheduler};
use serde::Serialize;

use super::output::{self, Progress, Written, check_writable, print, print_line, usage_error};
use super::{Carrier, interrupts};
use crate::pcap;
use crate::target::measured;
use crate::terminal::complain;
use crate::values::{count, duration, positive_duration};

/// Measure against a server.
///
/// Prints a line a second, then the results of both sides: goodput, messages a second, processor time for each
/// GByte on both ends, retransmissions, loss for UDP, round-trip time and congestion window of each path for
/// SCTP. Ctrl-C ends the test early and still gives the result so far.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The server: udp:HOST, tcp:HOST or sctp:HOST,HOST…, with :PORT if it is not 5211
    #[arg(value_name = "TARGET", value_parser = |text: &str| measured(text, DEFAULT_PORT))]
    target: Target,

    #[command(flatten)]
    carrier: Carrier,

    /// Local address for SCTP; may be given several times
    #[arg(long, value_name = "IP", help_heading = "SCTP")]
    address: Vec<IpAddr>,

    /// Message size in bytes: of a datagram, a write, or a user message (K and M for 1,024 and its square)
    #[arg(long, value_name = "BYTES", default_value = "1024",
          value_parser = |text: &str| units::bytes(text, limits::MAX_TCP_SIZE as u64).map(|size| size as usize))]
    size: usize,

    /// Number of messages, over all flows together
    #[arg(long, value_name = "N", conflicts_with = "seconds",
          value_parser = |text: &str| count(text, 1..=u64::MAX))]
    count: Option<u64>,

    /// Length of the test [default: 10s]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, value_parser = positive_duration)]
    seconds: Option<Duration>,

    /// User data a second in bits, over all flows together (k, M, G), or unlimited
    ///
    /// By default TCP and SCTP send as fast as they can, and UDP, which has no congestion control, sends 1 Mbit/s.
    #[arg(long, value_name = "RATE")]
    bitrate: Option<RateLimit>,

    /// SCTP streams, used in turn
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..), help_heading = "SCTP")]
    streams: u16,

    /// Sockets, connections or associations side by side
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = |text: &str| count(text, 1..=limits::MAX_PARALLEL as u64).map(|flows| flows as usize))]
    parallel: usize,

    /// Send SCTP messages unordered
    #[arg(long, help_heading = "SCTP")]
    unordered: bool,

    /// The scheduler of SCTP streams (RFC 8260): fcfs, rr, rr-pkt, prio, fc or wfq [default: fcfs]
    #[arg(long, value_name = "NAME", help_heading = "SCTP")]
    scheduler: Option<StreamScheduler>,

    /// Timers and loss recovery of SCTP: rfc9260 or signalling [default: rfc9260]
    #[arg(long, value_name = "NAME", help_heading = "SCTP")]
    profile: Option<Profile>,

    /// The congestion controller of SCTP: rfc9260, cubic, lia, olia, balia, rpv1 or rpv2 [default: rfc9260]
    #[arg(long, value_name = "NAME", help_heading = "SCTP")]
    congestion: Option<CongestionControl>,

    /// Send over all paths of the association at a time, with this congestion controller
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with = "congestion",
        help_heading = "SCTP"
    )]
    cmt: Option<CongestionControl>,

    /// Which path takes the next packet: round-robin, min-rtt, ecf, blest or redundant [default: ecf]
    #[arg(long, value_name = "NAME", requires = "cmt", help_heading = "SCTP")]
    path_scheduler: Option<PathScheduler>,

    /// Which buffers the paths share: none, send, receive or both [default: none]
    #[arg(long, value_name = "NAME", requires = "cmt", help_heading = "SCTP")]
    buffer_splitting: Option<BufferSplitting>,

    /// Interleave SCTP messages of different streams (I-DATA, RFC 8260)
    #[arg(long, help_heading = "SCTP")]
    interleave: bool,

    /// Give SCTP messages up after this time (RFC 3758): sent and received messages then differ
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "SCTP")]
    lifetime: Option<Duration>,

    /// Send small messages at once: no Nagle algorithm (tcp, sctp)
    #[arg(long)]
    nodelay: bool,

    /// The server sends, the client receives
    #[arg(long)]
    reverse: bool,

    /// The client and the server send at the same time: two tests, one in each direction
    #[arg(long, conflicts_with_all = ["reverse", "encapsulation_port"])]
    bidir: bool,

    /// Leave this time of the beginning out of the result; the test takes so much longer
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "count")]
    omit: Option<Duration>,

    /// Type of service of packets with data, or the traffic class of IPv6: 0 to 255, also 0x… (tcp, udp)
    #[arg(long, value_name = "TOS", value_parser = type_of_service)]
    tos: Option<u8>,

    /// Send and receive buffer of each flow, in bytes (K, M)
    #[arg(long, value_name = "BYTES",
          value_parser = |text: &str| units::bytes(text, limits::MAX_WINDOW as u64).map(|size| size as usize))]
    window: Option<usize>,

    /// Write the result as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Print the result as iperf3 -J does
    #[arg(long, conflicts_with = "json")]
    iperf3_json: bool,

    /// Allow HOST as a target outside of loopback and private networks: its owner has agreed
    #[arg(long, value_name = "HOST")]
    i_may_test: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  tandem perf client sctp:127.0.0.1
  tandem perf client sctp:10.0.0.1,10.1.0.1:5211 --over ip --size 200 --streams 16 --seconds 60
  tandem perf client tcp:192.168.1.7 --reverse --parallel 4 --json tcp.json
  tandem perf client udp:192.168.1.7 --bitrate 50M --size 172      RTP-sized datagrams
  tandem perf client udp:127.0.0.1 --bitrate unlimited --count 1000000

Exit status: 0 measured, 1 the server cannot be reached, or another failure, 2 usage error,
130 interrupted: what was measured is shown and written.";

/// What was asked for, for the document.
#[derive(Clone, Debug, Serialize)]
struct Parameters {
    target: String,
    over: Option<Over>,
    size_bytes: usize,
    seconds: Option<f64>,
    count: Option<u64>,
    bitrate_bits_per_second: Option<Bitrate>,
    streams: u16,
    parallel: usize,
    unordered: bool,
    nodelay: bool,
    reverse: bool,
    window_bytes: Option<usize>,
    scheduler: Option<String>,
    profile: Option<String>,
    congestion: Option<String>,
    cmt: Option<String>,
    path_scheduler: Option<String>,
    buffer_splitting: Option<String>,
    interleave: bool,
    lifetime_ms: Option<f64>,
    omit_seconds: f64,
    tos: Option<u8>,
    bidir: bool,
}

/// Runs the test.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let test = test(&arguments);
    if let Err(reason) = test.check() {
        usage_error("client", &reason);
    }
    let is_sctp = arguments.target.protocol == Protocol::Sctp;
    if !is_sctp && arguments.carrier.is_unusual() {
        usage_error("client", "--over and --pcap are for sctp targets");
    }
    if !is_sctp && !arguments.address.is_empty() {
        usage_error("client", "--address is for sctp targets");
    }
    check_writable(&arguments.json)?;
    let config = ClientConfig {
        target: arguments.target.clone(),
        test: test.clone(),
        carrier: arguments
            .carrier
            .config(arguments.parallel, &["perf", "client"])?,
        local_addresses: arguments.address.clone(),
        may_test: arguments.i_may_test.clone(),
    };
    if arguments.iperf3_json {
        output::keep_for_document();
    }
    print_line(&text::plan_line(&config.target.to_string(), &test));
    let progress = Progress::new(match test.limit {
        Limit::Seconds(seconds) => Some(seconds),
        Limit::Count(_) => None,
    });
    let interrupts = interrupts()?;
    let show = |arrow: &str, interval: &Interval| {
        let line = text::interval_line(interval);
        progress.interval(interval.to_seconds, &format!("{arrow}{line}"));
    };
    let runs = match arguments.bidir {
        false => vec![::perf::run(&config, interrupts, |interval| show("", interval)).await?],
        true => {
            let back = backwards(&config);
            let (forth, back) = tokio::try_join!(
                ::perf::run(&config, interrupts.clone(), |interval| show("→ ", interval)),
                ::perf::run(&back, interrupts, |interval| show("← ", interval)),
            )?;
            vec![forth, back]
        }
    };
    progress.end();
    for run in &runs {
        if arguments.bidir {
            let direction = if run.reverse { "from" } else { "to" };
            print_line(&format!("\n{direction} {}:", run.target));
        }
        print(&text::summary(run));
    }
    let mut written = Written::default();
    written.check(pcap::finish(config.carrier.tap.as_ref()));
    if let (true, [forth, back @ ..]) = (arguments.iperf3_json, runs.as_slice()) {
        let document = ::perf::iperf3::document(&test, forth, back.first());
        let text = anyhow::Ok(format!("{document:#}\n"));
        written.write("Results as iperf3's JSON", Path::new("-"), text);
    }
    if let Some(path) = &arguments.json {
        written.write("Results as JSON", path, document(&config, &runs));
    }
    written.end()?;
    let mut errors = runs.iter().flat_map(|run| &run.errors).peekable();
    let status = match errors.peek() {
        _ if runs.iter().any(|run| run.interrupted) => crate::interrupts::exit_code(),
        None => ExitCode::SUCCESS,
        Some(_) => ExitCode::FAILURE,
    };
    for error in errors {
        complain!("tandem: {error}");
    }
    Ok(status)
}

/// The same test in the other direction.
fn backwards(config: &ClientConfig) -> ClientConfig {
    let test = TestParameters {
        reverse: !config.test.reverse,
        ..config.test.clone()
    };
    ClientConfig {
        test,
        ..config.clone()
    }
}

/// Reads a type of service.
fn type_of_service(text: &str) -> Result<u8, String> {
    let read = match text.strip_prefix("0x") {
        Some(digits) => u8::from_str_radix(digits, 16),
        None => text.parse(),
    };
    read.map_err(|_| {
        format!("\"{text}\" is not a type of service: 0 to 255, or 0x00 to 0xff, is expected")
    })
}

fn test(arguments: &Arguments) -> TestParameters {
    let protocol = arguments.target.protocol;
    TestParameters {
        protocol,
        size: arguments.size,
        limit: match (arguments.count, arguments.seconds) {
            (Some(count), _) => Limit::Count(count),
            (None, time) => {
                let time = time.unwrap_or(Duration::from_secs(10));
                let omit = arguments.omit.unwrap_or_default();
                Limit::Seconds(time.as_secs_f64() + omit.as_secs_f64())
            }
        },
        bitrate: match (arguments.bitrate, protocol) {
            (Some(RateLimit::Limited(rate)), _) => Some(rate),
            (Some(RateLimit::Unlimited), _) => None,
            (None, Protocol::Udp) => Bitrate::new(DEFAULT_UDP_BITS_PER_SECOND),
            (None, Protocol::Tcp | Protocol::Sctp) => None,
        },
        streams: arguments.streams,
        parallel: arguments.parallel,
        unordered: arguments.unordered,
        nodelay: arguments.nodelay,
        reverse: arguments.reverse,
        window: arguments.window,
        scheduler: arguments.scheduler,
        profile: arguments.profile,
        congestion: arguments.congestion,
        cmt: arguments.cmt,
        path_scheduler: arguments.path_scheduler,
        buffer_splitting: arguments.buffer_splitting,
        interleave: arguments.interleave,
        lifetime: arguments.lifetime,
        tos: arguments.tos,
        omit: arguments.omit,
    }
}

fn document(config: &ClientConfig, runs: &[TestResult]) -> anyhow::Result<String> {
    let test = &config.test;
    let parameters = Parameters {
        target: config.target.to_string(),
        over: (test.protocol == Protocol::Sctp).then_some(config.carrier.over),
        size_bytes: test.size,
        seconds: match test.limit {
            Limit::Seconds(seconds) => Some(seconds),
            Limit::Count(_) => None,
        },
        count: match test.limit {
            Limit::Count(count) => Some(count),
            Limit::Seconds(_) => None,
        },
        bitrate_bits_per_second: test.bitrate,
        streams: test.streams,
        parallel: test.parallel,
        unordered: test.unordered,
        nodelay: test.nodelay,
        reverse: test.reverse,
        window_bytes: test.window,
        scheduler: test.scheduler.map(|scheduler| scheduler.to_string()),
        profile: test.profile.map(|profile| profile.to_string()),
        congestion: test.congestion.map(|congestion| congestion.to_string()),
        cmt: test.cmt.map(|congestion| congestion.to_string()),
        path_scheduler: test.path_scheduler.map(|scheduler| scheduler.to_string()),
        buffer_splitting: test.buffer_splitting.map(|splitting| splitting.to_string()),
        interleave: test.interleave,
        lifetime_ms: test.lifetime.map(|lifetime| lifetime.as_secs_f64() * 1e3),
        omit_seconds: test.omit_seconds(),
        tos: test.tos,
        bidir: runs.len() > 1,
    };
    Ok(Document::new(
        Machine::detect(),
        PAYLOAD_SEED,
        parameters,
        runs.iter().collect(),
    )
    .to_json()?)
}
