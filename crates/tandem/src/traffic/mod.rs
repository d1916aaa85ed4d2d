//! `tandem traffic`.

mod link;
mod receive;
mod send;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::{fail, logging};

/// Send raw traffic on a schedule, and measure losses and delays.
///
/// A sender sends packets of chosen sizes, rates, patterns and contents over UDP, TCP or SCTP, encrypted or not;
/// each packet carries the experiment, its number and its time. A receiver counts lost, duplicate and reordered
/// packets, and measures delays and the cost of encryption. Without a receiver on another host, the sender starts one
/// on loopback.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  tandem traffic send udp                                  to its own receiver on loopback
  tandem traffic receive --listen udp:0.0.0.0              on one host, and on the other:
  tandem traffic send udp:192.168.1.7 --rate 50 --size 172 --payload voice.wav
  tandem traffic send udp --encryption none,aes-256-gcm,chacha20-poly1305,des-cfb --html cost.html
  tandem traffic link --link-speed 100M                    how many packets a link can carry

Exit status: 0 done, 1 failure, 2 usage error.";

#[derive(Debug, Subcommand)]
enum Command {
    Send(Box<send::Arguments>),
    Receive(receive::Arguments),
    Link(link::Arguments),
}

/// Runs the command.
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
            Command::Send(arguments) => send::run(*arguments).await,
            Command::Receive(arguments) => receive::run(arguments).await,
            Command::Link(arguments) => link::run(&arguments),
        }
    });
    // Whoever is still waiting for a packet then waits in vain.
    runtime.shutdown_background();
    outcome.unwrap_or_else(|error| fail(error.as_ref()))
}

/// Says what makes no sense in the arguments of `tandem traffic COMMAND`, and ends the program.
fn usage_error(command: &str, reason: &str) -> ! {
    crate::usage::error(&["traffic", command], reason)
}
