//! `tandem perf`.

mod client;
mod iperf;
pub(crate) mod output;
mod scale;
mod server;
mod sweep;

use std::process::ExitCode;

use ::perf::{CarrierConfig, Over};
use clap::{Args, Subcommand};
use sctp_net::DEFAULT_ENCAPSULATION_PORT;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::pcap::PcapOptions;
use crate::values::ports_without_udp;
use crate::{fail, logging};

pub(crate) use iperf::spelled_out;

/// Measure the throughput of UDP, TCP and SCTP, between two hosts or on this one.
///
/// Start a server on one host and a client on the other; the client selects the test and prints the results of both.
/// The other commands start a server process on loopback.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  tandem perf server                                    udp, tcp and sctp on 127.0.0.1:5211
  tandem perf client sctp:127.0.0.1                     ten seconds of 1,024-byte messages
  tandem perf client udp:127.0.0.1 --bitrate 100M --size 1400
  tandem perf sweep                                     64 to 65,536 bytes over all three
  tandem perf associations --count 10000                and the same number of streams:
  tandem perf streams --count 10000

Options of iperf3 are understood: tandem perf -s; tandem perf -c HOST [-u | --sctp] -p -t -P -R --bidir -b -l
-i -O -S -J -1 -B

Exit status: 0 measured, 1 failure, 2 usage error.";

#[derive(Debug, Subcommand)]
enum Command {
    Server(server::Arguments),
    Client(client::Arguments),
    Sweep(sweep::Arguments),
    Associations(scale::Associations),
    Streams(scale::Streams),
}

/// Runs the measurement.
pub(crate) fn run(arguments: Arguments) -> ExitCode {
    logging::start("warn");
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    let outcome = runtime.block_on(async {
        match arguments.command {
            Command::Server(arguments) => server::run(arguments).await,
            Command::Client(arguments) => client::run(arguments).await,
            Command::Sweep(arguments) => sweep::run(arguments).await,
            Command::Associations(arguments) => scale::associations(arguments).await,
            Command::Streams(arguments) => scale::streams(arguments).await,
        }
    });
    // Whoever is still waiting for a packet then waits in vain.
    runtime.shutdown_background();
    outcome.unwrap_or_else(|error| fail(error.as_ref()))
}

/// What carries SCTP, for the commands that are clients.
#[derive(Args, Debug)]
pub(crate) struct Carrier {
    /// What carries SCTP: udp (RFC 6951), ip (needs CAP_NET_RAW), or the kernel's own SCTP
    #[arg(
        long,
        value_name = "CARRIER",
        default_value = "udp",
        help_heading = "SCTP"
    )]
    over: Over,

    /// Local UDP port of SCTP, with --over udp; 0 lets the system choose [default: 0]
    #[arg(long, value_name = "PORT", help_heading = "SCTP")]
    encapsulation_port: Option<u16>,

    /// UDP port of the server's SCTP, with --over udp [default: 9899]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..),
          help_heading = "SCTP")]
    peer_encapsulation_port: Option<u16>,

    /// With --over ip on a kernel with SCTP: confirm that a packet-filter rule hides the packets from it
    #[arg(long, help_heading = "SCTP")]
    kernel_kept_away: bool,

    #[command(flatten, next_help_heading = "SCTP")]
    pcap: PcapOptions,
}

impl Carrier {
    /// Whether something was asked for that only SCTP has.
    pub(crate) fn is_unusual(&self) -> bool {
        self.over != Over::Udp || self.pcap.is_wanted()
    }

    /// For so many associations side by side; ends the program, as the command with these names, where options
    /// contradict each other.
    pub(crate) fn config(
        &self,
        parallel: usize,
        command: &[&str],
    ) -> anyhow::Result<CarrierConfig> {
        let ports = [
            ("--encapsulation-port", self.encapsulation_port),
            ("--peer-encapsulation-port", self.peer_encapsulation_port),
        ];
        if let Some(reason) = ports_without_udp(&self.over.to_string(), &ports) {
            crate::usage::error(command, &reason);
        }
        Ok(CarrierConfig {
            over: self.over,
            encapsulation_port: self.encapsulation_port.unwrap_or(0),
            peer_encapsulation_port: self
                .peer_encapsulation_port
                .unwrap_or(DEFAULT_ENCAPSULATION_PORT),
            kernel_kept_away: self.kernel_kept_away,
            workers: parallel.min(cores()),
            tap: self.pcap.open()?,
        })
    }
}

/// Processors that this program may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Counts SIGINT and SIGTERM.
pub(crate) fn interrupts() -> std::io::Result<watch::Receiver<u32>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let (sender, receiver) = watch::channel(0);
    tokio::spawn(async move {
        while !sender.is_closed() {
            tokio::select! {
                Some(()) = interrupt.recv() => {}
                Some(()) = terminate.recv() => {}
                () = sender.closed() => {}
            }
            sender.send_modify(|count| *count += 1);
        }
    });
    Ok(receiver)
}

/// This program as a server on loopback ports that the system chooses, for the protocols named.
fn server_command(
    protocols: &[&str],
    carrier: &CarrierConfig,
    scale: bool,
) -> anyhow::Result<std::process::Command> {
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command.args(["perf", "server", "--child"]);
    command.args(["--over", &carrier.over.to_string()]);
    if carrier.over == Over::Udp {
        command.args(["--encapsulation-port", "0"]);
    }
    if carrier.kernel_kept_away {
        command.arg("--kernel-kept-away");
    }
    for protocol in protocols {
        command.args(["--listen", &format!("{protocol}:127.0.0.1:0")]);
    }
    if scale {
        command.arg("--allow-scale");
    }
    Ok(command)
}
