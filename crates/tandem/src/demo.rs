//! `tandem demo`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use lab::demo::{Associations, End, Options};
use sctp_net::Profile;
use sip::Transport;

use crate::pcap::{self, PcapOptions};
use crate::perf::output::{Written, check_writable, print, width};
use crate::terminal::complain;
use crate::values::{count, duration, percentage, positive, positive_duration, transport};
use crate::{fail, interrupts, logging};

/// Make calls through a proxy over UDP, TCP and SCTP on a lossy network.
///
/// Starts a proxy and registrar on this machine and registers users. Each caller calls its callee back to back, over
/// each transport at each loss. The results are a table, and a page with plots. It needs no root, no configuration
/// and no other program, and takes a minute and a half.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Callers, and as many callees
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = |text: &str| count(text, 1..=10_000).map(|users| users as u32))]
    users: u32,

    /// Length of a run [default: 15s]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, value_parser = positive_duration, conflicts_with = "calls")]
    seconds: Option<Duration>,

    /// End a run after this number of calls
    #[arg(long, value_name = "N", value_parser = |text: &str| count(text, 1..=u64::MAX))]
    calls: Option<u64>,

    /// Begin this number of calls per second, instead of back to back
    #[arg(long, value_name = "CPS", allow_negative_numbers = true, value_parser = positive)]
    rate: Option<f64>,

    /// Whether the users of a side share a connection to the proxy
    #[arg(long, value_enum, default_value_t = Sharing::Shared)]
    associations: Sharing,

    /// Packet losses to run at, in percent of each direction
    #[arg(long, value_name = "PERCENT,…", value_delimiter = ',', allow_negative_numbers = true, value_parser = percentage,
          default_value = "0,5,10,20,30")]
    loss: Vec<f64>,

    /// Delay of each packet, each way
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "0ms")]
    delay: Duration,

    /// Seed that decides which packets are lost
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = |text: &str| count(text, 0..=u64::MAX))]
    seed: u64,

    /// Transports to run over, of udp, tcp and sctp
    #[arg(long, value_name = "TRANSPORT,…", value_delimiter = ',', value_parser = transport,
          default_value = "udp,tcp,sctp")]
    transport: Vec<Transport>,

    /// Timers and loss recovery of SCTP, of signalling and rfc9260
    #[arg(
        long,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "signalling,rfc9260"
    )]
    profile: Vec<Profile>,

    /// Write the results as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Where to write the page
    #[arg(long, value_name = "FILE", default_value = "tandem-demo.html")]
    html: PathBuf,

    #[command(flatten)]
    pcap: PcapOptions,

    /// Log the proxy's activity; given twice: every message, too
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Sharing {
    /// One association, connection or socket for each side, with a stream for each user
    Shared,
    /// One for each user
    PerUser,
}

const EXAMPLES: &str = "\
Examples:
  tandem demo                                       the whole comparison
  tandem demo --transport udp,sctp --loss 0,2,5 --delay 25ms --seconds 30
  tandem demo --calls 1000 --loss 0 --json results.json
  tandem demo --rate 50 --associations per-user     an open loop, one association for each user

Exit status: 0 every run finished, 1 a call or a registration failed at 0 % loss, or nothing could
be measured, 2 usage error, 130 interrupted: what was finished is shown and written.";

/// Runs the demo, shows the table, writes the files.
pub(crate) fn run(arguments: Arguments) -> ExitCode {
    logging::start(match arguments.verbose {
        0 => "error",
        1 => "info",
        _ => "debug",
    });
    let options = Options {
        users: arguments.users,
        end: match (arguments.calls, arguments.seconds) {
            (Some(calls), _) => End::Calls(calls),
            (None, Some(time)) => End::Seconds(time.as_secs_f64()),
            (None, None) => Options::default().end,
        },
        rate: arguments.rate,
        associations: match arguments.associations {
            Sharing::Shared => Associations::Shared,
            Sharing::PerUser => Associations::PerUser,
        },
        loss: arguments.loss,
        delay: arguments.delay,
        transports: arguments.transport,
        profiles: arguments.profile,
        seed: arguments.seed,
    };
    if let Err(error) = options.check() {
        crate::usage::error(&["demo"], &error.to_string());
    }
    // Found out before minutes of work, not after.
    if let Err(error) = check_writable(std::iter::once(&arguments.html).chain(&arguments.json)) {
        return fail(error.as_ref());
    }

    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    let tap = match arguments.pcap.open() {
        Ok(tap) => tap,
        Err(error) => return fail(error.as_ref()),
    };
    let results = runtime.block_on(async {
        // Without the signals the program ends as ever.
        let interrupted = async {
            if interrupts::first().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        lab::demo::run(&options, tap.as_ref(), interrupted).await
    });
    let results = match results {
        Ok(results) => results,
        Err(error) => return fail(error.as_ref()),
    };
    print(&results.to_terminal(width()));
    let mut written = Written::default();
    written.check(pcap::finish(tap.as_ref()));
    let html = results.to_html(&command_line());
    written.write("Page with plots", &arguments.html, anyhow::Ok(html));
    if let Some(path) = &arguments.json {
        written.write("Results as JSON", path, results.to_json());
    }
    if let Err(error) = written.end() {
        return fail(error.as_ref());
    }
    if results.is_interrupted() {
        return interrupts::exit_code();
    }
    let failed = results.failed_without_loss();
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    complain!("tandem: calls or registrations failed although no packet was lost:");
    for line in &failed {
        complain!("  {line}");
    }
    complain!(
        "A busy machine may be the reason: the proxy answers 503 if messages wait too long. If it happens on an \
         idle machine, too, please report it; --verbose logs each call."
    );
    ExitCode::FAILURE
}

/// The command that repeats what this process does, for pages. Others may read those: passwords are left out.
pub(crate) fn command_line() -> String {
    let arguments = without_secrets(std::env::args().skip(1));
    let command: Vec<String> = std::iter::once("tandem".to_owned())
        .chain(arguments.iter().map(|argument| quoted(argument)))
        .collect();
    command.join(" ")
}

/// Options whose values are passwords or, the first, names and passwords; also as SIPp writes them.
const NAME_AND_PASSWORD: &str = "--auth";
const PASSWORDS: [&str; 2] = ["--auth-password", "-ap"];

/// What stands where a password was.
const MASK: &str = "***";

/// Arguments with a mask in place of each password.
fn without_secrets(arguments: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut shown: Vec<String> = Vec::new();
    // The option whose value comes next.
    let mut option: Option<String> = None;
    for argument in arguments {
        if let Some(option) = option.take() {
            shown.push(masked(&option, &argument));
            continue;
        }
        match argument.split_once('=') {
            Some((option, value)) if is_secret(option) => {
                shown.push(format!("{option}={}", masked(option, value)));
            }
            _ => {
                option = is_secret(&argument).then(|| argument.clone());
                shown.push(argument);
            }
        }
    }
    shown
}

fn is_secret(option: &str) -> bool {
    option == NAME_AND_PASSWORD || PASSWORDS.contains(&option)
}

/// The value of an option without its password: that of a name and a password begins after the first colon.
fn masked(option: &str, value: &str) -> String {
    match value.split_once(':') {
        Some((name, _)) if option == NAME_AND_PASSWORD => format!("{name}:{MASK}"),
        _ => MASK.to_owned(),
    }
}

/// An argument as a shell would need it.
fn quoted(argument: &str) -> String {
    let is_plain = !argument.is_empty()
        && argument
            .chars()
            .all(|character| character.is_ascii_alphanumeric() || "-_=,./:%@+".contains(character));
    if is_plain {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_in_no_page() {
        let cases = [
            ("load --auth user%d:a:b -r 5", "load --auth user%d:*** -r 5"),
            ("load --auth=user%d:a -r 5", "load --auth=user%d:*** -r 5"),
            (
                "load --auth-user bob --auth-password s:t",
                "load --auth-user bob --auth-password ***",
            ),
            (
                "load --auth-password=--auth -au bob",
                "load --auth-password=*** -au bob",
            ),
            ("load -ap -ap -au bob", "load -ap *** -au bob"),
            ("load -ap", "load -ap"),
            (
                "demo --html out.html --seed=7",
                "demo --html out.html --seed=7",
            ),
        ];
        for (typed, shown) in cases {
            let arguments = typed.split(' ').map(str::to_owned);
            assert_eq!(without_secrets(arguments).join(" "), shown);
        }
    }
}
