//! `tandem load capacity`.

mod measured;
mod sipstone;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use clap::Args;
use load::capacity::{
    Benchmark, End, Ladder, LadderParameters, LimitSearchParameters, Part, Procedure,
    RegistrationBenchmark, Search, SearchParameters, SessionBenchmark, Setup, Sipstone,
    SipstoneParameters, Step, StepResult, StepRunner, StepSummary, TestSetup, Workload,
};
use load::driver::{Role, RunConfig, What};
use load::engine::{EngineConfig, RegistrationPlan};
use load::script::builtin::{self, AnswerPlan, CallPlan};
use load::script::{Pause, Script, ScriptId};
use report::{Document, Machine, Page, Provenance, Section, format_count, format_number};
use serde::Serialize;
use sip::Transport;
use tokio::signal::unix::{SignalKind, signal};

use super::common::{Found, Network, Population, Sharing};
use super::exit::Ending;
use super::results::{first_of, flat};
use super::schedule::milliseconds;
use super::usage_error;
use crate::demo::command_line;
use crate::perf::output::{check_writable, print, width, write};
use crate::values::{count, duration, positive};
use measured::Measured;

/// Find out how much a server takes.
///
/// By default the benchmark of RFC 7502: the highest rate of session attempts, and of registrations, at which
/// all of 50,000 attempts succeed, found by the algorithm of section 4.10, with the report of section 5. With
/// --ladder more and more users, each rung several times, as document 004 measured; with --sipstone the rates
/// of SIPstone's kinds of transactions within its limits. A step in which the generator itself was too slow is
/// repeated, and never counts against the server.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    network: Network,

    #[command(flatten)]
    population: Population,

    /// Users who call each other in turn, and as many who answer
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100, help_heading = "Users",
          value_parser = |text: &str| count(text, 1..=1_000_000).map(|users| users as u32))]
    users: u32,

    /// Attempts a second in the first step
    #[arg(long, value_name = "CPS", default_value_t = 100, value_parser = |text: &str| count(text, 1..=1_000_000),
          help_heading = "Search")]
    start: u64,

    /// Attempts in each step: fewer make the search shorter, which the report says
    #[arg(long, value_name = "N", default_value_t = SearchParameters::ATTEMPTS,
          value_parser = |text: &str| count(text, 1..=10_000_000), help_heading = "Search")]
    sessions: u64,

    /// What to find the rate of, of sessions, registrations and reregistrations
    #[arg(long, value_name = "WHAT,…", value_delimiter = ',', value_parser = workload,
          default_value = "sessions,registrations", help_heading = "Search")]
    of: Vec<Workload>,

    /// How long a session lasts; a number alone is milliseconds
    #[arg(long, short = 'd', value_name = "TIME", value_parser = milliseconds, default_value = "0s",
          help_heading = "Search")]
    hold: Duration,

    /// It is quiet for so long between two steps
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "2s", help_heading = "Search")]
    settle: Duration,

    /// Measure a ladder of users instead
    #[arg(long, value_name = "N,…", value_delimiter = ',', num_args = 0..=1,
          default_missing_value = "10,100,200,400,500,600,800,1000", help_heading = "Ladder",
          value_parser = |text: &str| count(text, 1..=1_000_000).map(|users| users as u32))]
    ladder: Option<Vec<u32>>,

    /// How often each rung is measured
    #[arg(long, value_name = "N", default_value_t = 5, requires = "ladder", help_heading = "Ladder",
          value_parser = |text: &str| count(text, 1..=1000).map(|repeat| repeat as u32))]
    repeat: u32,

    /// Calls a second on each rung [default: all within a second]
    #[arg(long, value_name = "CPS", requires = "ladder", value_parser = positive, help_heading = "Ladder")]
    ladder_rate: Option<f64>,

    /// Measure SIPstone instead
    #[arg(long, conflicts_with = "ladder", help_heading = "SIPstone")]
    sipstone: bool,

    /// All of SIPstone's transactions at once, instead of one kind after the other
    #[arg(long, requires = "sipstone", help_heading = "SIPstone")]
    mix: bool,

    /// How long each of its steps lasts
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s", requires = "sipstone",
          help_heading = "SIPstone")]
    step_time: Duration,

    /// A user for whom the server answers 302; without one that part is left out
    #[arg(
        long,
        value_name = "USER",
        requires = "sipstone",
        help_heading = "SIPstone"
    )]
    redirected: Option<String>,

    /// Write the results as JSON
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    json: Option<PathBuf>,

    /// Write a page with plots
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    html: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  tandem load capacity --via 127.0.0.1 --start 1000 --sessions 10000 --html capacity.html
  tandem load capacity --via 127.0.0.1 --of registrations --start 2000 --sessions 20000
  tandem load capacity --via 10.0.0.1 --ladder 10,100,200,400,500,600,800,1000 --repeat 5
  tandem load capacity --via 10.0.0.1 --sipstone --start 500 --redirected moved

Exit status: 0 measured, 3 the generator was too slow to find the server's limit, 97 ended before
its time, 99 nothing was found or the server let nothing succeed, 254 a socket cannot be bound, 255
something else failed, 2 the arguments make no sense.";

/// What was asked for, for the document.
#[derive(Debug, Serialize)]
struct Parameters {
    via: Option<String>,
    transport: String,
    connections: &'static str,
    users: u32,
    authenticates: bool,
    hold_seconds: f64,
    search: Option<SearchParameters>,
    ladder: Option<LadderParameters>,
    sipstone: Option<SipstoneParameters>,
}

/// Measures.
pub(super) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    if let Err(reason) = check(&arguments) {
        usage_error("capacity", &reason);
    }
    check_writable([&arguments.json, &arguments.html].into_iter().flatten())?;
    let transport = arguments.network.transport().map_err(anyhow::Error::msg)?;
    let found = arguments.network.find(transport).await?;
    let is_interrupted = Arc::new(AtomicBool::new(false));
    let stop = is_interrupted.clone();
    let mut interrupts = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        while interrupts.recv().await.is_some() {
            if stop.swap(true, Relaxed) {
                // Whoever asks twice does not want to wait for the step.
                std::process::exit(97);
            }
            eprintln!("ending after this step; once more ends now");
        }
    });
    let measuring = Measuring {
        arguments: &arguments,
        found: &found,
        transport,
        seed: arguments.population.seed(),
        is_interrupted: &is_interrupted,
    };
    let measured = match (&arguments.ladder, arguments.sipstone) {
        (Some(rungs), _) => measuring.ladder(rungs).await?,
        (None, true) => measuring.sipstone().await?,
        (None, false) => measuring.benchmark().await?,
    };
    let written = measuring.show_and_write(&measured);
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
    found: &'a Found,
    transport: Transport,
    seed: u64,
    is_interrupted: &'a AtomicBool,
}

/// The place of the caller's script among those of a run.
const CALLER: ScriptId = ScriptId(0);

/// Users whom a step of registrations may have where no file names them.
const REGISTRANTS: u32 = 200_000;

impl Measuring<'_> {
    /// The benchmark of RFC 7502.
    async fn benchmark(&self) -> anyhow::Result<Measured> {
        let arguments = self.arguments;
        let users = arguments.sessions as u32;
        let mut config = self.config(Role::Callers, users, vec![builtin::register()?])?;
        // A search may take longer than it is until the first of them would be refreshed, beside what is measured.
        config.engine.registration.refresh_after = None;
        // Steps that would be too short have more attempts, each of a user of its own.
        let registrants = match &arguments.population.users_file {
            Some(_) => config.engine.directory.listed.len() as u64,
            None => {
                let (count, directory) =
                    arguments
                        .population
                        .directory(|_| Ok(users.max(REGISTRANTS)), None, false)?;
                config.engine.directory = Arc::new(directory);
                u64::from(count)
            }
        };
        let registrations = Setup {
            registers: false,
            ..Setup::new(config, What::Register)
        };
        let mut runner = StepRunner::new(vec![
            (Workload::Sessions, self.calls()?),
            (Workload::Registrations, registrations.clone()),
            (
                Workload::Reregistrations,
                Setup {
                    registers: true,
                    ..registrations
                },
            ),
        ])
        .settle(arguments.settle);
        let mut steps = Vec::new();
        let mut ends = Vec::new();
        for workload in &arguments.of {
            let mut search = Search::new(SearchParameters {
                workload: *workload,
                most_attempts: match workload {
                    Workload::Registrations => Some(registrants),
                    _ => None,
                },
                ..self.search_parameters()
            });
            self.run(&mut runner, &mut search).await?;
            steps.extend_from_slice(search.steps());
            let end = search.end().unwrap_or(End::TooManySteps {
                best: best(search.steps()),
            });
            say(&format!("{}: {end}", name_of(*workload)));
            ends.push((*workload, end));
            if self.is_interrupted.load(Relaxed) {
                break;
            }
        }
        let tls_cipher_suite = runner.tls_cipher_suite().map(str::to_owned);
        runner.shutdown().await;
        let of = |wanted| {
            ends.iter()
                .find(|(workload, _)| *workload == wanted)
                .map(|(_, end)| *end)
        };
        let registration_rate = of(Workload::Registrations);
        let reregistration_rate = of(Workload::Reregistrations);
        Ok(Measured::Benchmark(Box::new(Benchmark {
            setup: TestSetup {
                tls_cipher_suite,
                ..self.setup()
            },
            sessions: of(Workload::Sessions).map(|end| SessionBenchmark {
                session_establishment_rate: end,
                is_media_relay: false,
            }),
            registrations: registration_rate.or(reregistration_rate).map(|_| {
                RegistrationBenchmark {
                    registration_rate,
                    reregistration_rate,
                    notes: Vec::new(),
                }
            }),
            deviations: self.deviations(&steps),
            steps,
        })))
    }

    fn search_parameters(&self) -> SearchParameters {
        SearchParameters {
            start: self.arguments.start,
            attempts: self.arguments.sessions,
            ..SearchParameters::default()
        }
    }

    /// What came where everything failed, and what to do about it.
    fn none_succeeded(&self, step: &StepSummary) -> String {
        let has = |codes: &[u16]| codes.iter().any(|code| step.responses.contains_key(code));
        let advice = match () {
            () if has(&[503]) => {
                "The server refuses everything: wait until it is drained or has its load behind it, and see what it limits."
            }
            () if has(&[401, 403, 407]) => "It wants other names or passwords: give --auth.",
            () if has(&[404, 480]) => {
                "It does not know who is called: see that it takes registrations, and that --domain is one of its own."
            }
            () if step.responses.is_empty() => {
                "Nobody answers: see that the server runs, and that --via and --transport are right."
            }
            () => "See in the server's log why it refuses them.",
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
        let mut runner = StepRunner::new(vec![(Workload::RegistrationsAndSessions, self.calls()?)])
            .settle(self.arguments.settle);
        let mut ladder = Ladder::new(self.ladder_parameters(rungs));
        self.run(&mut runner, &mut ladder).await?;
        runner.shutdown().await;
        Ok(Measured::Ladder {
            rungs: ladder.rungs(),
            steps: ladder.steps().to_vec(),
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
        let mut notes = Vec::new();
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

    /// Users who register and call each other.
    fn calls(&self) -> anyhow::Result<Setup> {
        let call = builtin::call(&CallPlan {
            hold: Pause::Fixed(self.arguments.hold),
            ..CallPlan::default()
        })?;
        let scripts = vec![
            call,
            builtin::answer(&AnswerPlan::default())?,
            builtin::register()?,
        ];
        let config = self.config(Role::Both, self.arguments.users, scripts)?;
        Ok(Setup::new(config, What::Script(CALLER)))
    }

    fn config(&self, role: Role, users: u32, scripts: Vec<Script>) -> anyhow::Result<RunConfig> {
        let Arguments {
            network,
            population,
            ..
        } = self.arguments;
        let sides = if role == Role::Callers { 1 } else { 2 };
        let (_, directory) = population.directory(|_| Ok(users * sides), None, false)?;
        Ok(RunConfig {
            role,
            users,
            engine: EngineConfig {
                directory: Arc::new(directory),
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
        })
    }

    /// Runs a procedure and tells of each step.
    async fn run(
        &self,
        runner: &mut StepRunner,
        procedure: &mut impl Procedure,
    ) -> anyhow::Result<()> {
        let look = |step: &Step, result: Option<&StepResult>| {
            match result {
                None => say(&format!(
                    "step {:>3}  {}  {}/s, {} attempts, {} s",
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

    fn setup(&self) -> TestSetup {
        let shares = self.arguments.network.connections == Sharing::Shared;
        TestSetup {
            transport_to_dut: self.transport.to_string(),
            transport_from_dut: self.transport.to_string(),
            receives_on_one_connection: shares,
            sends_on_one_connection: shares,
            session_attempt_rate: self.arguments.start,
            session_duration_s: self.arguments.hold.as_secs_f64(),
            total_sessions_attempted: self.arguments.sessions,
            establishment_threshold_s: 32.0,
            is_challenged: self.arguments.population.authenticates(),
            ..TestSetup::default()
        }
    }

    fn deviations(&self, steps: &[StepSummary]) -> Vec<String> {
        let mut deviations = Vec::new();
        if self.arguments.sessions != SearchParameters::ATTEMPTS {
            deviations.push(format!(
                "Each step attempts {} sessions or registrations; RFC 7502 section 4.10 has {}.",
                format_count(self.arguments.sessions),
                format_count(SearchParameters::ATTEMPTS)
            ));
        }
        let asked = self.arguments.sessions;
        if steps.iter().any(|step| step.attempted > asked) {
            let seconds = SearchParameters::LEAST_SECONDS;
            deviations.push(format!(
                "Steps beyond {} a second attempt more, so that each lasts at least {seconds} s and shows a rate, not \
                 a burst.",
                format_number(asked as f64 / seconds, 0)
            ));
        }
        deviations
    }

    fn show_and_write(&self, measured: &Measured) -> anyhow::Result<()> {
        let arguments = self.arguments;
        let mut text = String::new();
        for table in measured.tables() {
            text.push_str(&table.to_terminal(width()));
            text.push('\n');
        }
        let is_benchmark = matches!(measured, Measured::Benchmark(_));
        let parameters = Parameters {
            via: arguments.network.via.as_ref().map(|via| via.to_string()),
            transport: self.transport.to_string(),
            connections: arguments.network.connections.name(),
            users: arguments.users,
            authenticates: arguments.population.authenticates(),
            hold_seconds: arguments.hold.as_secs_f64(),
            search: is_benchmark.then(|| self.search_parameters()),
            ladder: arguments
                .ladder
                .as_deref()
                .map(|rungs| self.ladder_parameters(rungs)),
            sipstone: arguments.sipstone.then(|| self.sipstone_parameters()),
        };
        // What took minutes to measure is not kept back because a file cannot be written.
        print(&text);
        let mut text = String::new();
        let machine = Machine::detect();
        let mut troubles = Vec::new();
        let mut note = |written: anyhow::Result<()>, what: &str, path: &Path| match written {
            Ok(()) => text.push_str(&format!("{what}: {}\n", path.display())),
            Err(trouble) => troubles.push(trouble),
        };
        if let Some(path) = &arguments.json {
            let document = Document::new(machine.clone(), self.seed, &parameters, vec![measured]);
            let json = document.to_json().map_err(anyhow::Error::from);
            let written = json.and_then(|json| write(path, &json));
            note(written, "Results as JSON", path);
        }
        if let Some(path) = &arguments.html {
            let title = format!("Capacity of {}:{}", self.transport, self.found.name);
            let page = Page::new(title)
                .section(measured.plots())
                .section(
                    measured
                        .tables()
                        .into_iter()
                        .fold(Section::new("Figures"), Section::table),
                )
                .provenance(Provenance {
                    program: format!("tandem {}", env!("CARGO_PKG_VERSION")),
                    machine,
                    command: command_line(),
                    seed: self.seed,
                    parameters: flat(&parameters)?,
                });
            let written = write(path, &page.to_html());
            note(written, "Page with plots", path);
        }
        print(&text);
        first_of(troubles)
    }
}

fn best(steps: &[StepSummary]) -> Option<u64> {
    let passed = steps.iter().filter(|step| step.passed);
    passed.map(|step| step.per_second as u64).max()
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
