//! `tandem load`.

mod background;
mod calls;
mod capacity;
mod common;
mod detach;
mod display;
mod document;
mod exit;
mod job;
mod media;
mod page;
mod perform;
mod population;
mod records;
mod register;
mod remote_control;
mod requests;
mod results;
mod scenarios;
mod schedule;
mod screen;
mod show;
mod signals;
mod sipp;
mod tables;
mod target;
mod traces;
mod twins;
mod user_options;
mod users;
mod view;

use std::process::ExitCode;

use clap::{Args, Subcommand};

pub(crate) use sipp::spelled_out;

use crate::logging;
use crate::perf::output::is_cut;
use crate::terminal::complain;

/// Emulate SIP users by the hundred thousand, and measure how a server copes.
///
/// Calls arrive on a schedule, whether or not earlier ones were answered. Retransmissions follow RFC 3261; delays are
/// those of RFC 6076 and of Adnan 2012. SIPp's short options (-r -l -m -d -s -i -p -t -au -ap -inf -sf) and exit
/// codes mean what they mean there.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  tandem proxy                       in another terminal: the server under test
  tandem load calls --via 127.0.0.1 --users 1000 --rate 100
  tandem load calls --via 127.0.0.1 -r 500 -m 10000 --html calls.html
  tandem load capacity --via 127.0.0.1 --start 500 --sessions 5000

docs/load.md has the details. Targets must be on this host, in a private network, or named by
--i-may-test.";

#[derive(Debug, Subcommand)]
enum Command {
    Calls(Box<calls::Arguments>),
    Register(Box<register::Arguments>),
    Options(Box<requests::Options>),
    Message(Box<requests::Messages>),
    Capacity(Box<capacity::Arguments>),
    Scenarios(scenarios::Arguments),
}

impl Command {
    /// Whether it is to run in the background.
    fn is_detached(&self) -> bool {
        match self {
            Command::Calls(arguments) => arguments.outputs.detach,
            Command::Register(arguments) => arguments.outputs.detach,
            Command::Options(arguments) => arguments.outputs().detach,
            Command::Message(arguments) => arguments.outputs().detach,
            Command::Capacity(_) | Command::Scenarios(_) => false,
        }
    }
}

/// Runs the command.
pub(crate) fn run(arguments: Arguments) -> ExitCode {
    if arguments.command.is_detached() {
        return detach::start().unwrap_or_else(|error| fail(&error));
    }
    logging::start("warn");
    proxy::use_small_pages();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.into()),
    };
    let outcome = runtime.block_on(async {
        match arguments.command {
            Command::Calls(arguments) => calls::run(*arguments).await,
            Command::Register(arguments) => register::run(*arguments).await,
            Command::Options(arguments) => requests::options(*arguments).await,
            Command::Message(arguments) => requests::messages(*arguments).await,
            Command::Capacity(arguments) => capacity::run(*arguments).await,
            Command::Scenarios(arguments) => scenarios::run(&arguments),
        }
    });
    runtime.shutdown_background();
    match outcome {
        // As where a file cannot be written. 1 would be that of calls that failed.
        Ok(_) if is_cut() => exit::unwritten(),
        Ok(code) => code,
        Err(error) => fail(&error),
    }
}

/// Says what went wrong, and ends as SIPp does.
fn fail(error: &anyhow::Error) -> ExitCode {
    crate::fail(error.as_ref());
    if let Some(advice) = advice(&format!("{error:#}")) {
        complain!("tandem: {advice}");
    }
    exit::of_error(error)
}

/// What to do about a certificate that is not believed, whose error names what was found in it, not why that is
/// not enough.
fn advice(error: &str) -> Option<&'static str> {
    const ADVICE: [(&str, &str); 4] = [
        (
            "CaUsedAsEndEntity",
            "the server shows the certificate of an authority (CA:TRUE), as `openssl req -x509` makes them: one \
             with -addext basicConstraints=critical,CA:FALSE is accepted with --ca FILE, any certificate with \
             --insecure",
        ),
        (
            "UnknownIssuer",
            "the issuer of the server's certificate is unknown: --ca FILE names the authority, --insecure accepts \
             any certificate (insecure)",
        ),
        (
            "BadSignature",
            "another authority of the same name has signed the server's certificate: --ca FILE names the right \
             one, --insecure accepts any certificate (insecure)",
        ),
        (
            "not valid for name",
            "the server's certificate is for another name: use a name in the certificate for --via, or --insecure \
             to accept any certificate (insecure)",
        ),
    ];
    ADVICE
        .into_iter()
        .find_map(|(found, advice)| error.contains(found).then_some(advice))
}

/// Says what makes no sense in the arguments of `tandem load COMMAND`, and ends the program.
fn usage_error(command: &str, reason: &str) -> ! {
    crate::usage::error(&["load", command], reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_certificate_lacks_is_told() {
        let authority = "cannot connect to tls:127.0.0.1:5061: TLS: invalid peer certificate: \
                         Other(OtherError(CaUsedAsEndEntity))";
        assert!(advice(authority).is_some_and(|advice| advice.contains("CA:FALSE")));
        let misnamed = "cannot connect to tls:127.0.0.1:5061: TLS: invalid peer certificate: certificate not \
                        valid for name \"127.0.0.1\"; certificate is only valid for localhost";
        assert!(advice(misnamed).is_some_and(|advice| advice.contains("--via")));
        let unknown = "TLS: invalid peer certificate: UnknownIssuer";
        assert!(advice(unknown).is_some_and(|advice| advice.contains("--ca FILE")));
        assert_eq!(
            advice("cannot connect to tcp:127.0.0.1:5060: Connection refused"),
            None
        );
    }
}
