//! The command line of Tandem, nothing else: what a command does lives in the library that bears its
//! name.
#![forbid(unsafe_code)]

mod capture;
mod completions;
mod demo;
mod flood;
mod hidden_input;
mod interrupts;
mod lab;
mod load;
mod logging;
mod m3ua;
mod man;
mod net;
mod output_style;
mod pcap;
mod perf;
mod phone;
mod proxy;
mod proxy_users;
mod sctp;
mod target;
mod terminal;
mod traffic;
mod usage;
mod values;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use output_style::OutputStyle;
use terminal::complain;

/// A proxy allocates dozens of times a message, and frees on other threads than it has allocated on.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// SIP over SCTP, and the instruments that measure it.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, max_term_width = 100, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    style: OutputStyle,
}

const EXAMPLES: &str = "\
Examples:
  tandem demo                                calls over UDP, TCP and SCTP on a lossy network
  tandem proxy                               a proxy and registrar on 127.0.0.1:5060, until Ctrl-C
  tandem proxy --listen udp:0.0.0.0:5060 --domain example.org --advertise sip.example.org
  tandem sctp listen --service echo          a peer for: tandem sctp connect 127.0.0.1:9000
  tandem m3ua sg --config sg.toml            an SS7 signalling gateway (M3UA)
  tandem perf server                         a server, for: tandem perf client sctp:127.0.0.1
  tandem perf sweep --html sweep.html        throughput of UDP, TCP and SCTP by message size
  tandem load calls --via 127.0.0.1 -r 100   emulated users register and call each other
  tandem phone sip:alice@127.0.0.1 --answer --echo   a phone that sends back what it hears
  tandem traffic send udp                    packets on a schedule: losses and delays
  tandem capture analyze calls.pcap          analyses the calls in a capture
  tandem net up router                       a network emulator: hosts, a router, impaired links
  tandem lab run all                         published transport experiments, on a virtual clock

Targets are written [TRANSPORT:]HOST[:PORT] or as SIP URIs, times in seconds or with a unit (500ms,
2min). Exit status: 0 done, 1 failure, 2 usage error.";

#[derive(Debug, Subcommand)]
enum Command {
    Capture(capture::Arguments),
    Completions(completions::Arguments),
    Demo(demo::Arguments),
    Flood(flood::Arguments),
    Lab(lab::Arguments),
    Load(load::Arguments),
    M3ua(m3ua::Arguments),
    Man(man::Arguments),
    Net(net::Arguments),
    Perf(perf::Arguments),
    Phone(phone::Arguments),
    Proxy(proxy::Arguments),
    Sctp(sctp::Arguments),
    Traffic(traffic::Arguments),
}

/// The same where it is known which command is meant: what others would take need not be found out, which takes
/// longer than to read a small capture.
#[derive(Debug, Parser)]
#[command(
    name = "tandem",
    version,
    propagate_version = true,
    max_term_width = 100
)]
struct CaptureArguments {
    #[command(subcommand)]
    command: CaptureCommand,

    #[command(flatten)]
    style: OutputStyle,
}

#[derive(Debug, Subcommand)]
enum CaptureCommand {
    Capture(capture::Arguments),
}

fn main() -> ExitCode {
    let code = run();
    // What was measured is nowhere then.
    match perf::output::is_cut() && code == ExitCode::SUCCESS {
        true => ExitCode::FAILURE,
        false => code,
    }
}

fn run() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    output_style::prepare(&arguments);
    let arguments = output_style::behind(arguments);
    if arguments.get(1).is_some_and(|command| command == "capture") {
        let CaptureArguments { command, style } = read::<CaptureArguments>(arguments);
        style.apply();
        let CaptureCommand::Capture(arguments) = command;
        return capture::run(arguments);
    }
    let arguments = match perf::spelled_out(load::spelled_out(arguments)) {
        Ok(arguments) => arguments,
        Err(reason) => usage::error(&["perf"], &reason),
    };
    let Arguments { command, style } = read::<Arguments>(arguments);
    style.apply();
    match command {
        Command::Capture(arguments) => capture::run(arguments),
        Command::Completions(arguments) => completions::run(arguments),
        Command::Demo(arguments) => demo::run(arguments),
        Command::Flood(arguments) => flood::run(arguments),
        Command::Lab(arguments) => lab::run(arguments),
        Command::Load(arguments) => load::run(arguments),
        Command::M3ua(arguments) => m3ua::run(arguments),
        Command::Man(arguments) => man::run(arguments),
        Command::Net(arguments) => net::run(arguments),
        Command::Perf(arguments) => perf::run(arguments),
        Command::Phone(arguments) => phone::run(arguments),
        Command::Proxy(arguments) => proxy::run(arguments),
        Command::Sctp(arguments) => sctp::run(arguments),
        Command::Traffic(arguments) => traffic::run(arguments),
    }
}

/// Reads the arguments. Ends the program where they are wrong, and where help is all that they ask for: it fails when that cannot
/// be printed, unless nobody reads it.
fn read<A: Parser>(arguments: Vec<OsString>) -> A {
    A::try_parse_from(arguments).unwrap_or_else(|error| {
        let printed = error.print().and_then(|()| io::stdout().flush());
        match printed.map_err(|unprinted| unprinted.kind()) {
            Ok(()) | Err(io::ErrorKind::BrokenPipe) => std::process::exit(error.exit_code()),
            Err(kind) => {
                complain!("tandem: cannot write to standard output: {kind}");
                std::process::exit(1)
            }
        }
    })
}

/// Says what went wrong in one line and fails.
fn fail(error: &(dyn std::error::Error + 'static)) -> ExitCode {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = match cause.downcast_ref::<io::Error>().map(io::Error::kind) {
            Some(io::ErrorKind::AddrNotAvailable) if line.starts_with("cannot listen") => {
                sip_net::StartProblem::NoSuchAddress.to_string()
            }
            _ => cause.to_string(),
        };
        // Errors that print their cause themselves would say it twice.
        if !line.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        source = cause.source();
    }
    complain!("tandem: {line}");
    match usage::is_usage(error) {
        true => ExitCode::from(usage::STATUS),
        false => ExitCode::FAILURE,
    }
}
