//! `tandem load capacity`.

mod benchmark;
mod measured;
mod output;
mod sipstone;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::ensure;
use clap::Args;
use load::capacity::outlook;
use load::capacity::{
    Ladder, LadderParameters, LimitSearchParameters, Outlook, Part, Procedure, SearchParameters,
    Setup, Sipstone, SipstoneParameters, Step, StepResult, StepRunner, StepSummary, Workload,
};
use load::driver::{Background, GeneratorConfig, Role, TaskKind};
use load::engine::{Directory, EngineConfig, RegistrationPlan};
use load::script::builtin::{self, AnswerPlan, CallPlan};
use load::script::{Pause, Script, ScriptId};
use report::{Stopwatch, format_count, format_number};
use sip::Transport;
use tokio::signal::unix::Signal;

use super::background::{self, Traffic};
use super::common::{Network, ResolvedTarget};
use super::exit::Ending;
use super::population::Population;
use super::signals::{ending_signals, next_signal};
use super::usage_error;
use super::view::clock;
use crate::perf::output::check_writable;
use crate::usage::refused;
use crate::values::{count, duration, positive};
use measured::Measured;

/// Find the capacity of a server.
///
/// By default, this is the benchmark of RFC 7502: the highest rate of session attempts, and of registrations, at
/// which all of 50,000 attempts succeed, found by the algorithm of section 4.10, with the report of section 5. With
/// --ladder, it measures a growing number of users, each rung several times, as in Adnan 2012; with --sipstone, the
/// rates of SIPstone's transactions within its limits. A step in which the generator itself was too slow is repeated,
/// and never counts against the server.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    network: Network,

    #[command(flatten)]
    population: Population,

    /// Users who call each other in turn, and as many who answer [default: 100, or half of --users-file]
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "ladder", help_heading = "Users",
          value_parser = |text: &str| count(text, 1..=1_000_000).map(|users| users as u32))]
    users: Option<u32>,

    /// Attempts a second in the first step
    #[arg(long, value_name = "CPS", default_value_t = 100, value_parser = |text: &str| count(text, 1..=1_000_000),
          help_heading = "Search")]
    start: u64,

    /// Attempts in each step; the report names a number other than the default
    #[arg(long, value_name = "N", default_value_t = SearchParameters::ATTEMPTS,
          value_parser = |text: &str| count(text, 1..=10_000_000), help_heading = "Search")]
    sessions: u64,

    /// The rates to find: sessions, registrations, reregistrations
    #[arg(long, value_name = "WHAT,…", value_delimiter = ',', value_parser = workload,
          default_value = "sessions,registrations", help_heading = "Search")]
    of: Vec<Workload>,

    /// Duration of a session; of -d, as SIPp has it, a number alone is in milliseconds
    #[arg(long, short = 'd', value_name = "TIME", value_parser = duration, default_value = "0s",
          help_heading = "Search")]
    hold: Duration,

    /// Pause between two steps
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "2s", help_heading = "Search")]
    settle: Duration,

    /// Measure a ladder of users instead
    #[arg(long, value_name = "N,…", value_delimiter = ',', num_args = 0..=1,
          default_missing_value = "10,100,200,400,500,600,800,1000", help_heading = "Ladder",
          value_parser = |text: &str| count(text, 1..=1_000_000).map(|users| users as u32))]
    ladder: Option<Vec<u32>>,

    /// Measurements of each rung
    #[arg(long, value_name = "N", default_value_t = 5, requires = "ladder", help_heading = "Ladder",
          value_parser = |text: &str| count(text, 1..=1000).map(|repeat| repeat as u32))]
    repeat: u32,

    /// Calls a second on each rung [default: all within a second]
    #[arg(long, value_name = "CPS", requires = "ladder", value_parser = positive, help_heading = "Ladder")]
    ladder_rate: Option<f64>,

    /// Measure SIPstone instead
    #[arg(long, conflicts_with = "ladder", help_heading = "SIPstone")]
    sipstone: bool,

    /// All of SIPstone's transactions at once, instead of one kind after another
    #[arg(long, requires = "sipstone", help_heading = "SIPstone")]
    mix: bool,

    /// Duration of each step
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s", requires = "sipstone",
          help_heading = "SIPstone")]
    step_time: Duration,

    /// A user for whom the server answers 302; without it, that part is omitted
    #[arg(
        long,
        value_name = "USER",
        requires = "sipstone",
        help_heading = "SIPstone"
    )]
    redirected: Option<String>,

    #[command(flatten)]
    traffic: Traffic,

    /// Write the results as JSON
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    json: Option<PathBuf>,

    /// Write a line for each step
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    csv: Option<PathBuf>,

    /// Write a page with plots
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    html: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  tandem load capacity --via 127.0.0.1 --start 1000 --sessions 10000 --html capacity.html
  tandem load capacity --via 127.0.0.1 --of registrations --start 2000 --sessions 20000
  tandem load capacity --via 10.0.0.1 --ladder 10,100,200,400,500,600,800,1000 --repeat 5
  tandem load capacity --via 10.0.0.1 --ladder --background 50Mbit/s --background-to 10.0.0.3
  tandem load capacity --via 10.0.0.1 --sipstone --start 500 --redirected moved

Exit status: 0 measured, 3 the generator was too slow to find the server's limit, 97 interrupted,
99 nothing was found or no attempt succeeded, 254 a socket cannot be bound, 255 other failure, 2
usage error.";

/// Measures.
pub(super) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    if let Err(reason) = check(&arguments) {
        usage_error("capacity", &reason);
    }
    let files = [&arguments.json, &arguments.csv, &arguments.html];
    check_writable(files.into_iter().flatten())?;
    let transport = arguments.network.transport().map_err(refused)?;
    let found = arguments.network.find(transport).await?;
    let is_interrupted = Arc::new(AtomicBool::new(false));
    tokio::spawn(heed_signals(ending_signals()?, is_interrupted.clone()));
    let measuring = Measuring {
        arguments: &arguments,
        found: &found,
        transport,
        seed: arguments.population.seed(),
        background: arguments.traffic.plan(&arguments.network.i_may_test)?,
        is_interrupted: &is_interrupted,
    };
    let stopwatch = Stopwatch::start();
    let measured = match (&arguments.ladder, arguments.sipstone) {
        (Some(rungs), _) => measuring.ladder(rungs).await?,
        (None, true) => measuring.sipstone().await?,
        (None, false) => measuring.benchmark().await?,
    };
    let written = measuring.show_and_write(&measured, stopwatch.period());
    for step in measured.without_success() {
        say(&measuring.none_succeeded(step));
    }
    written?;
    let ending = match is_interrupted.load(Relaxed) {
        true => Ending::Interrupted,
        false => measured.ending(),
    };
    Ok(ending.into())
}

/// Lets the step under way be the last one when a signal asks for an end.
async fn heed_signals(mut signals: [Signal; 3], is_interrupted: Arc<AtomicBool>) {
    while next_signal(&mut signals).await {
        if is_interrupted.swap(true, Relaxed) {
            // Whoever asks twice does not want to wait for the step.
            std::process::exit(97);
        }
        say("ending after this step; again to end now");
    }
}

fn check(arguments: &Arguments) -> Result<(), String> {
    if arguments.network.via.is_none() {
        return Err(
            "--via PROXY-URI is missing: the server to measure, such as --via 127.0.0.1".to_owned(),
        );
    }
    arguments.network.transport().map(drop)
}

/// What every measurement needs.
struct Measuring<'a> {
    arguments: &'a Arguments,
    found: &'a ResolvedTarget,
    transport: Transport,
    seed: u64,
    /// What goes on beside the steps.
    background: Option<Background>,
    is_interrupted: &'a AtomicBool,
}

/// Callers, and who they are.
#[derive(Clone, Debug)]
struct Callers {
    count: u32,
    directory: Arc<Directory>,
}

/// The place of the caller's script among those of a run.
const CALLER: ScriptId = ScriptId(0);

impl Measuring<'_> {
    /// What came where everything failed, and what to do about it.
    fn none_succeeded(&self, step: &StepSummary) -> String {
        let has = |codes: &[u16]| codes.iter().any(|code| step.responses.contains_key(code));
        let advice = match () {
            () if has(&[503]) => {
                "The server refuses everything: wait until it is no longer draining or overloaded, and check its \
                 limits."
            }
            () if has(&[401, 403, 407]) => "It requires other names or passwords: give --auth.",
            () if has(&[404, 480]) => {
                "It does not know the callees: check that it accepts registrations, and that --domain is one of \
                 its domains."
            }
            () if step.responses.is_empty() => {
                "No answer: check that the server runs, and check --via and --transport."
            }
            () => "The server's log may show the reason.",
        };
        format!(
            "tandem: not one of {} {} succeeded at the starting rate of {}/s, of {}:{}: {}. {advice}",
            format_count(step.attempted),
            name_of(step.workload),
            format_number(step.per_second, 0),
            self.transport,
            self.found.name,
            step.what_came(),
        )
    }

    /// A ladder of users.
    async fn ladder(&self, rungs: &[u32]) -> anyhow::Result<Measured> {
        let largest = rungs.iter().copied().max().unwrap_or(1);
        let setup = self.calls(self.callers(Some(largest), "--ladder")?)?;
        let mut runner = StepRunner::new(vec![(Workload::RegistrationsAndSessions, setup)])
            .settle(self.arguments.settle);
        let mut ladder = Ladder::new(self.ladder_parameters(rungs));
        self.run(&mut runner, &mut ladder).await?;
        runner.shutdown().await;
        Ok(Measured::Ladder {
            rungs: ladder.rungs(),
            steps: ladder.steps().to_vec(),
            notes: self.background_notes(),
        })
    }

    fn ladder_parameters(&self, rungs: &[u32]) -> LadderParameters {
        LadderParameters {
            rungs: rungs.to_vec(),
            repeat: self.arguments.repeat,
            per_second: self.arguments.ladder_rate,
        }
    }

    /// SIPstone.
    async fn sipstone(&self) -> anyhow::Result<Measured> {
        let mut notes = self.background_notes();
        if self.arguments.redirected.is_none() {
            notes.push("Redirection is left out: --redirected USER was not given.".to_owned());
        }
        let mut runner = StepRunner::new(self.sipstone_setups()?).settle(self.arguments.settle);
        let mut sipstone = Sipstone::new(self.sipstone_parameters());
        self.run(&mut runner, &mut sipstone).await?;
        runner.shutdown().await;
        let mut table = sipstone.table();
        for note in &notes {
            table.note(note.clone());
        }
        Ok(Measured::Sipstone {
            table,
            parts: sipstone.results().to_vec(),
            figure: sipstone.figure(),
            steps: sipstone.steps().to_vec(),
            notes,
        })
    }

    fn sipstone_parameters(&self) -> SipstoneParameters {
        let defaults = SipstoneParameters::default();
        let has_redirection = self.arguments.redirected.is_some();
        SipstoneParameters {
            parts: defaults
                .parts
                .into_iter()
                .filter(|(part, _)| has_redirection || *part != Part::Redirect)
                .collect(),
            is_mixed: self.arguments.mix,
            search: LimitSearchParameters {
                start: self.arguments.start,
                ..defaults.search
            },
            step_seconds: self.arguments.step_time.as_secs_f64(),
            limits: defaults.limits,
        }
    }

    /// Callers, so many or as many as are listed, and who they and their callees are.
    ///
    /// # Errors
    /// When fewer are listed; `option` is the one that asked for so many.
    fn callers(&self, wanted: Option<u32>, option: &str) -> anyhow::Result<Callers> {
        let count = |listed: Option<u32>| {
            let in_file = listed.map(|listed| listed / 2);
            let callers = wanted.or(in_file).unwrap_or(100);
            ensure!(
                callers > 0,
                "--users-file has too few users: callers and callees are needed"
            );
            if let (Some(listed), Some(in_file)) = (listed, in_file) {
                ensure!(
                    callers <= in_file,
                    refused(format!(
                        "--users-file names {listed} users, and {option} needs {callers} callers and as many \
                         callees: add more to it, or go up to {in_file} with {option}"
                    ))
                );
            }
            Ok(2 * callers)
        };
        let (all, directory) = self
            .arguments
            .population
            .directory("capacity", count, None, false)?;
        Ok(Callers {
            count: all / 2,
            directory: Arc::new(directory),
        })
    }

    /// Users who register and call each other.
    fn calls(&self, callers: Callers) -> anyhow::Result<Setup> {
        let hold = self.arguments.hold;
        let call = builtin::call(&CallPlan {
            hold: Pause::Fixed(hold),
            ..CallPlan::default()
        })?;
        let scripts = vec![
            call,
            builtin::answer(&AnswerPlan::for_calls_of(hold))?,
            builtin::register()?,
        ];
        let config = self.config(Role::Both, callers, scripts);
        Ok(Setup::new(config, TaskKind::Script(CALLER)))
    }

    fn config(&self, role: Role, users: Callers, scripts: Vec<Script>) -> GeneratorConfig {
        let Arguments {
            network,
            population,
            ..
        } = self.arguments;
        GeneratorConfig {
            role,
            users: users.count,
            background: self.background,
            engine: EngineConfig {
                directory: users.directory,
                domain: population.domain(self.found),
                is_repeating: !network.no_retransmit,
                registration: RegistrationPlan {
                    expires: population.expires,
                    ..RegistrationPlan::default()
                },
                process: std::process::id(),
                ..EngineConfig::default()
            },
            scripts: scripts.into_iter().map(Arc::new).collect(),
            ..network.config(self.found, self.transport, self.seed)
        }
    }

    /// What is to be known of the traffic beside.
    fn background_notes(&self) -> Vec<String> {
        let background = self.background.iter();
        background
            .map(|background| format!("Beside the steps: {}.", background::in_words(background)))
            .collect()
    }

    /// Runs a procedure and tells of each step.
    async fn run(
        &self,
        runner: &mut StepRunner,
        procedure: &mut (impl Procedure + Clone),
    ) -> anyhow::Result<()> {
        // What is said of the steps to come is computed beside the procedure, which the runner has.
        let mut beside = procedure.clone();
        let look = |step: &Step, result: Option<&StepResult>| {
            if let Some(result) = result {
                beside.handle_result(result.clone());
            }
            let eta = match outlook(&beside) {
                Some(Outlook { steps: 0, .. }) => String::new(),
                Some(Outlook { steps, time }) => {
                    let time = time + self.arguments.settle * steps;
                    format!(", about {} to go", clock(time))
                }
                None => ", time to go unknown until a step fails".to_owned(),
            };
            match result {
                None => say(&format!(
                    "step {:>3}  {}  {}/s, {} attempts, {} s{eta}",
                    step.number + 1,
                    name_of(step.workload),
                    format_number(step.per_second, 0),
                    format_count(step.attempts),
                    format_number(step.duration().as_secs_f64(), 1),
                )),
                Some(result) => say(&format!(
                    "          {} succeeded, {} failed, {}",
                    format_count(result.succeeded),
                    format_count(result.failed),
                    result.validity
                )),
            }
            !self.is_interrupted.load(Relaxed)
        };
        runner.run(procedure, look).await?;
        Ok(())
    }
}

fn workload(text: &str) -> Result<Workload, String> {
    match text {
        "sessions" => Ok(Workload::Sessions),
        "registrations" => Ok(Workload::Registrations),
        "reregistrations" => Ok(Workload::Reregistrations),
        _ => Err(format!(
            "\"{text}\" is none of sessions, registrations, reregistrations"
        )),
    }
}

fn name_of(workload: Workload) -> &'static str {
    match workload {
        Workload::Sessions => "sessions",
        Workload::Registrations => "registrations",
        Workload::Reregistrations => "re-registrations",
        Workload::RegistrationsAndSessions => "registrations and sessions",
        Workload::Sipstone(part) => part.name(),
        Workload::SipstoneMix => "all at once",
    }
}

/// A line of progress. Nobody may be reading any more; the measurement goes on.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
