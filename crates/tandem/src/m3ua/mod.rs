//! `tandem m3ua`.

mod perf;

use std::io::{self, BufRead};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use clap::{Args, Subcommand};
use m3ua::message::ServiceIndicator;
use sigtran::console::{Line, MAX_RATE, Options, Traffic};
use sigtran::{Configuration, ConfigurationError, StartError, console};
use tokio::sync::mpsc;

use crate::interrupts;
use crate::output_style::is_quiet;
use crate::perf::output::print;
use crate::terminal::complain;
use crate::{fail, logging};

/// Carry SS7 signalling over SCTP (M3UA): gateways and application servers.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a signalling gateway: ASPs come to it, and it relays between them and other gateways
    Sg(Common),
    /// Run an application server process: it comes up at gateways, and sends and receives
    As(WithTraffic),
    /// Run an IP server process: it talks to another one without a gateway
    Ipsp(WithTraffic),
    /// Measure messages a second, delays and a fail-over through a gateway, all in this program on loopback
    Perf(perf::Arguments),
}

#[derive(Args, Debug)]
struct Common {
    /// Configuration file (TOML); see docs/m3ua.md
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    /// Write the packets to a pcapng file for Wireshark
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,

    /// Address of /metrics (for Prometheus), /status (JSON), a page at /, /healthz and /readyz
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
}

#[derive(Args, Debug)]
struct WithTraffic {
    #[command(flatten)]
    common: Common,

    /// Send so many messages a second, such as 1000/s
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "to")]
    send: Option<f64>,

    /// Where they go: a point code, such as 2-45-3
    #[arg(long, value_name = "POINT-CODE")]
    to: Option<String>,

    /// Their MTP3 user: isup, sccp, or a number
    #[arg(long, value_name = "USER", value_parser = user, default_value = "sccp")]
    si: ServiceIndicator,

    /// How many, instead of without end
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

const EXAMPLES: &str = "\
Examples:
  tandem m3ua sg --config sg.toml
  tandem m3ua as --config asp1.toml --send 1000/s --to 2-45-3 --si isup
  tandem m3ua perf --rate 10000/s --duration 10s --fail-over

Commands are typed: /help lists them. Exit status: 0 done, 1 failure, 2 usage error.";

/// Runs the command to its end.
pub(crate) fn run(arguments: Arguments) -> ExitCode {
    logging::start("warn");
    let mut builder = match arguments.command {
        Command::Perf(_) => tokio::runtime::Builder::new_multi_thread(),
        // One engine does all in turn: a thread for it and its associations need not be woken by others.
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = match builder.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    let code = match arguments.command {
        Command::Sg(common) => by_hand(common, None, &runtime),
        Command::As(with) | Command::Ipsp(with) => {
            let (common, traffic) = with.split();
            by_hand(common, traffic, &runtime)
        }
        Command::Perf(arguments) => perf::run(&arguments, &runtime),
    };
    // A terminal that nobody types on ends with us.
    runtime.shutdown_background();
    code
}

fn by_hand(
    common: Common,
    traffic: Option<Traffic>,
    runtime: &tokio::runtime::Runtime,
) -> ExitCode {
    let text = match std::fs::read_to_string(&common.config) {
        Ok(text) => text,
        Err(error) => {
            complain!("tandem: {}: {error}", common.config.display());
            return ExitCode::FAILURE;
        }
    };
    let is_wrong = |error: ConfigurationError| {
        complain!("tandem: {}: {error}", common.config.display());
        ExitCode::FAILURE
    };
    let mut configuration = match Configuration::read(&text) {
        Ok(configuration) => configuration,
        Err(error) => return is_wrong(error),
    };
    if common.pcap.is_some() {
        configuration.sctp.pcap = common.pcap.clone();
    }
    if common.metrics.is_some() {
        configuration.metrics.listen = common.metrics;
    }
    let options = Options {
        traffic,
        // Messages that arrive are counted then, and not shown.
        quiet: is_quiet(),
    };
    match runtime.block_on(talk(&configuration, options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(StartError::Configuration(error)) => is_wrong(error),
        Err(error) => fail(&error),
    }
}

async fn talk(configuration: &Configuration, options: Options) -> Result<(), StartError> {
    let (commands, typed) = mpsc::channel(16);
    let (lines, mut shown) = mpsc::unbounded_channel();
    let on_interrupt = commands.clone();
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if commands.blocking_send(line).is_err() {
                return;
            }
        }
        // At the end of the input it goes on, until it is interrupted.
    });
    tokio::spawn(async move {
        if interrupts::first().await.is_ok() {
            let _ = on_interrupt.send("/quit".to_owned()).await;
        }
    });
    let printer = tokio::spawn(async move {
        while let Some(line) = shown.recv().await {
            match line {
                Line::Output(text) => print(&format!("{text}\n")),
                Line::Refusal(text) => complain!("{text}"),
            }
        }
    });
    let result = console::run(configuration, options, typed, lines).await;
    let _ = printer.await;
    result
}

impl WithTraffic {
    fn split(self) -> (Common, Option<Traffic>) {
        let traffic = self.send.zip(self.to).map(|(rate, to)| Traffic {
            rate,
            to,
            user: self.si,
            count: self.count,
        });
        (self.common, traffic)
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    match number.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= MAX_RATE => Ok(rate),
        _ => Err(format!(
            "\"{text}\" is no rate up to {MAX_RATE}/s: write 1000/s"
        )),
    }
}

fn user(text: &str) -> Result<ServiceIndicator, String> {
    ServiceIndicator::named(text).ok_or_else(|| format!("\"{text}\" is no MTP3 user"))
}
