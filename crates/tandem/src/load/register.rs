//! `tandem load register`.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use clap::Args;
use load::driver::{GeneratorConfig, LoadModel, LoadPlan, Role, TaskKind};
use load::engine::{EngineConfig, RegistrationPlan};
use load::script::builtin;
use serde::Serialize;

use super::common::{Network, Outputs};
use super::job::{Job, Registration};
use super::population::Population;
use super::schedule::Schedule;
use super::usage_error;
use super::user_options;
use crate::usage::refused;
use crate::values::{count, duration, percentage};

/// Register users repeatedly, or keep a large population registered.
///
/// Users register on the schedule, each --cycles times in succession. With --keep-alive, all register once and stay
/// registered for that time; their refreshes are spread. They remain registered until their bindings expire.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    network: Network,

    /// How many users [default: 100, or those of --users-file]
    #[arg(long, short = 'n', value_name = "N", help_heading = "Users",
          value_parser = |text: &str| count(text, 1..=10_000_000).map(|users| users as u32))]
    users: Option<u32>,

    #[command(flatten)]
    population: Population,

    #[command(flatten)]
    schedule: Schedule,

    /// How often each user registers
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = |text: &str| count(text, 1..=1_000_000),
          conflicts_with_all = ["calls", "duration", "keep_alive"], help_heading = "Schedule")]
    cycles: u64,

    /// Register all users once, at --rate, and keep them registered for so long
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["calls", "duration"],
          help_heading = "Schedule")]
    keep_alive: Option<Duration>,

    /// When a binding is refreshed: after this part of its time …
    #[arg(long, value_name = "PERCENT", value_parser = percentage, default_value = "90", help_heading = "Schedule")]
    refresh_after: f64,

    /// … or up to this part of its time earlier, at random for each user
    #[arg(long, value_name = "PERCENT", value_parser = percentage, default_value = "40", help_heading = "Schedule")]
    refresh_spread: f64,

    #[command(flatten)]
    pub(super) outputs: Outputs,
}

const EXAMPLES: &str = "\
Examples:
  tandem load register --via 127.0.0.1 --users 10000 --rate 500
  tandem load register --via 127.0.0.1 --users 100 --cycles 50 --rate 200 --csv registrations.csv
  tandem load register --via 10.0.0.1 --users 100000 --rate 2000 --expires 10min --keep-alive 1h
  tandem load register --via proxy.example --users-file users.csv -t tls --connections per-user

Exit status: 0 every registration succeeded, 1 one did not, 3 the generator did not keep its
schedule, 97 ended before its time, 99 nobody registered, 254 a socket cannot be bound, 255
something else failed, 2 usage error.";

/// What was asked for, for the document.
#[derive(Debug, Serialize)]
struct Parameters {
    #[serde(flatten)]
    common: user_options::Parameters,
    cycles: u64,
    keep_alive_seconds: Option<f64>,
    refresh_after_percent: f64,
    refresh_spread_percent: f64,
}

/// Registers.
pub(super) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let Arguments {
        network,
        population,
        schedule,
        outputs,
        ..
    } = &arguments;
    if let Err(reason) = check(&arguments) {
        usage_error("register", &reason);
    }
    outputs.check()?;
    let job = job(&arguments).await?;
    let parameters = Parameters {
        common: user_options::Parameters::new(None, network, population, schedule, &job),
        cycles: arguments.cycles,
        keep_alive_seconds: arguments.keep_alive.map(|time| time.as_secs_f64()),
        refresh_after_percent: arguments.refresh_after,
        refresh_spread_percent: arguments.refresh_spread,
    };
    let results = job.run(outputs).await?;
    results.show_and_write(outputs, &parameters)
}

fn check(arguments: &Arguments) -> Result<(), String> {
    if arguments.network.via.is_none() {
        return Err("--via URI is missing: the registrar, such as --via 127.0.0.1".to_owned());
    }
    arguments.network.transport()?;
    arguments.schedule.plan().map(drop)
}

async fn job(arguments: &Arguments) -> anyhow::Result<Job> {
    let Arguments {
        network,
        population,
        schedule,
        ..
    } = arguments;
    let transport = network.transport().map_err(refused)?;
    let found = network.find(transport).await?;
    let (users, directory) = population.directory(
        "register",
        |listed| {
            let users = arguments.users.or(listed).unwrap_or(100);
            ensure!(users > 0, "the file names no user");
            Ok(users)
        },
        None,
        false,
    )?;
    let config = GeneratorConfig {
        role: Role::Callers,
        users,
        engine: EngineConfig {
            directory: Arc::new(directory),
            domain: population.domain(&found),
            is_repeating: !network.no_retransmit,
            registration: RegistrationPlan {
                expires: population.expires,
                refresh_after: Some(arguments.refresh_after / 100.0),
                spread: arguments.refresh_spread / 100.0,
                ..RegistrationPlan::default()
            },
            process: std::process::id(),
            ..EngineConfig::default()
        },
        scripts: vec![Arc::new(builtin::register()?)],
        ..network.config(&found, transport, population.seed())
    };
    let (registration, pace) = match arguments.keep_alive {
        Some(time) => {
            let per_second = Some(schedule.per_second());
            (
                Some(Registration {
                    per_second,
                    is_measured: true,
                }),
                LoadModel::Serve {
                    count: None,
                    time: Some(time),
                },
            )
        }
        None => {
            let mut plan = schedule.plan().map_err(refused)?;
            if !schedule.names_end() {
                plan.count = Some(u64::from(users) * arguments.cycles);
                plan.time = None;
            }
            (None, LoadModel::Open(plan))
        }
    };
    let mut plan = LoadPlan::new(TaskKind::Register, pace);
    if let Some(limit) = schedule.limit {
        plan.in_flight = limit as usize;
    }
    Ok(Job {
        title: format!("tandem load register: {transport}:{}", found.name),
        noun: "registrations",
        name: "register".to_owned(),
        shows_steps: false,
        calls_the_target: true,
        config,
        registration,
        // Who registers users wants them registered.
        unregisters: false,
        plan,
    })
}
