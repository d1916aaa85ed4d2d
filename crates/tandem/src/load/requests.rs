//! `tandem load options` and `tandem load message`.

use std::process::ExitCode;

use clap::Args;
use load::script::builtin;
use sip::Method;

use super::common::{Network, Outputs};
use super::population::Population;
use super::schedule::Schedule;
use super::usage_error;
use super::user_options::{self, UserOptions, Workload};

/// Send OPTIONS to a server, or to users: a ping.
///
/// OPTIONS go to the server itself; with --to-users from user i to user n+i, who are registered before, or to
/// the user whom --service names.
#[derive(Args, Debug)]
#[command(after_help = OPTIONS_EXAMPLES)]
pub(super) struct Options {
    /// Ask user n+i, through the proxy
    #[arg(long, help_heading = "Users")]
    to_users: bool,

    #[command(flatten)]
    common: Common,
}

/// Send instant messages: user i to user n+i.
///
/// Registers the users, who answer MESSAGE with 200 (RFC 3428).
#[derive(Args, Debug)]
#[command(after_help = MESSAGE_EXAMPLES)]
pub(super) struct Messages {
    #[command(flatten)]
    common: Common,
}

impl Options {
    pub(super) fn outputs(&self) -> &Outputs {
        &self.common.outputs
    }
}

impl Messages {
    pub(super) fn outputs(&self) -> &Outputs {
        &self.common.outputs
    }
}

#[derive(Args, Debug)]
struct Common {
    #[command(flatten)]
    network: Network,

    #[command(flatten)]
    user_options: UserOptions,

    #[command(flatten)]
    population: Population,

    #[command(flatten)]
    schedule: Schedule,

    #[command(flatten)]
    outputs: Outputs,
}

const OPTIONS_EXAMPLES: &str = "\
Examples:
  tandem load options --via 127.0.0.1 -r 1 -m 5                 five pings
  tandem load options --via 127.0.0.1 --rate 2000 --duration 10s --html options.html
  tandem load options --via 127.0.0.1 --to-users --users 100    to each other's phones
  tandem load options --via 127.0.0.1 -s alice                  to alice

Exit status: 0 every request was answered 2xx, 1 one was not, 3 the generator did not keep its
schedule, 97 interrupted, 99 nothing was sent, 254 a socket cannot be bound, 255 other failure, 2
usage error.";

const MESSAGE_EXAMPLES: &str = "\
Examples:
  tandem load message --via 127.0.0.1 --users 1000 --rate 500 --duration 1min
  tandem load message --via 127.0.0.1 -s alice -r 1 -m 10       to alice

Exit status: 0 every message was answered 2xx, 1 one was not, 3 the generator did not keep its
schedule, 97 interrupted, 99 nothing was sent, 254 a socket cannot be bound, 255 other failure, 2
usage error.";

/// Sends OPTIONS.
pub(super) async fn options(mut arguments: Options) -> anyhow::Result<ExitCode> {
    let user_options = &mut arguments.common.user_options;
    let goes_to_users = arguments.to_users || user_options.service.is_some();
    if !goes_to_users {
        // The server is asked: nobody has to be registered for that.
        user_options.no_register = true;
        user_options.users = user_options.users.or(Some(1));
    }
    let script = match goes_to_users {
        true => builtin::options()?,
        false => builtin::ping()?,
    };
    let workload = Workload {
        command: "options",
        noun: "requests",
        scripts: vec![
            script,
            builtin::accept(Method::Options)?,
            builtin::register()?,
        ],
        uses_fields: false,
        name: "options".to_owned(),
        shows_steps: false,
        is_closed: false,
    };
    run(workload, &arguments.common).await
}

/// Sends MESSAGE.
pub(super) async fn messages(arguments: Messages) -> anyhow::Result<ExitCode> {
    let workload = Workload {
        command: "message",
        noun: "messages",
        scripts: vec![
            builtin::message()?,
            builtin::accept(Method::Message)?,
            builtin::register()?,
        ],
        uses_fields: false,
        name: "message".to_owned(),
        shows_steps: false,
        is_closed: false,
    };
    run(workload, &arguments.common).await
}

async fn run(workload: Workload, arguments: &Common) -> anyhow::Result<ExitCode> {
    let Common {
        network,
        user_options,
        population,
        schedule,
        outputs,
    } = arguments;
    if let Err(reason) = user_options.check(network, schedule) {
        usage_error(workload.command, &reason);
    }
    outputs.check()?;
    let job = user_options
        .job(workload, network, population, schedule)
        .await?;
    let parameters =
        user_options::Parameters::new(Some(user_options), network, population, schedule, &job);
    let results = job.run(outputs).await?;
    results.show_and_write(outputs, &parameters)
}
