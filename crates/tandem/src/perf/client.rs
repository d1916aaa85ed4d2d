//! `tandem perf client`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use ::perf::{
    Bitrate, ClientConfig, DEFAULT_UDP_BITS_PER_SECOND, Limit, Over, PAYLOAD_SEED, Protocol,
    RateLimit, Target, TestParameters, TestResult, limits, text, units,
};
use clap::Args;
use report::{Document, Machine};
use sctp_net::{BufferSplitting, CongestionControl, PathScheduler, Profile, StreamScheduler};
use serde::Serialize;

use super::output::{Progress, check_writable, print, print_line, usage_error, write};
use super::{Carrier, interrupts};
use crate::pcap;
use crate::terminal::complain;
use crate::values::{count, duration, seconds};

/// Measure against a server.
///
/// Prints a line a second, then the results of both sides: goodput, messages a second, processor time for each
/// GByte on both ends, retransmissions, loss for UDP, round-trip time and congestion window of each path for
/// SCTP. Ctrl-C ends the test early and still gives the result so far.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The server: udp:HOST, tcp:HOST or sctp:HOST,HOST…, with :PORT if it is not 5211
    #[arg(value_name = "TARGET")]
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

    /// Length of the test, in seconds or with a unit (1min) [default: 10]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = seconds)]
    seconds: Option<f64>,

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

    /// Send and receive buffer of each flow, in bytes (K, M)
    #[arg(long, value_name = "BYTES",
          value_parser = |text: &str| units::bytes(text, limits::MAX_WINDOW as u64).map(|size| size as usize))]
    window: Option<usize>,

    /// Write the result as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

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

Exit status: 0 measured (also when interrupted), 1 the server cannot be reached, or another
failure, 2 usage error.";

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
    print_line(&text::plan_line(&config.target.to_string(), &test));
    let progress = Progress::new(match test.limit {
        Limit::Seconds(seconds) => Some(seconds),
        Limit::Count(_) => None,
    });
    let run = ::perf::run(&config, interrupts()?, |interval| {
        progress.interval(interval.to_seconds, &text::interval_line(interval));
    })
    .await?;
    progress.end();
    pcap::finish(config.carrier.tap.as_ref())?;
    print(&text::summary(&run));
    if let Some(path) = &arguments.json {
        write(path, &document(&config, &run)?)?;
    }
    for error in &run.errors {
        complain!("tandem: {error}");
    }
    Ok(match run.errors.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn test(arguments: &Arguments) -> TestParameters {
    let protocol = arguments.target.protocol;
    TestParameters {
        protocol,
        size: arguments.size,
        limit: match (arguments.count, arguments.seconds) {
            (Some(count), _) => Limit::Count(count),
            (None, seconds) => Limit::Seconds(seconds.unwrap_or(10.0)),
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
    }
}

fn document(config: &ClientConfig, run: &TestResult) -> anyhow::Result<String> {
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
    };
    Ok(Document::new(Machine::detect(), PAYLOAD_SEED, parameters, vec![run]).to_json()?)
}
