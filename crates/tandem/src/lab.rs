//! `tandem lab`.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Args, Subcommand};
use lab::{Experiment, On, Options, experiments};
use report::{Cell, Column, Row, Table};
use sctp_net::Profile;

use crate::demo::command_line;
use crate::perf::output::{Written, check_writable, print, width};
use crate::values::count;
use crate::{fail, interrupts, logging};

/// Repeat published transport experiments.
///
/// Each experiment names its publication, runs on simulated hosts or on real sockets, compares its measurements with
/// a law, and ends with a verdict: holds (the published finding is found again), differs (Tandem obeys the law, but
/// the published finding is not found today), fails (Tandem breaks the law), or skipped (it cannot run here).
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

const EXAMPLES: &str = "\
Examples:
  tandem lab list
  tandem lab run all                                  on simulated hosts, with a virtual clock
  tandem lab run failover --html failover.html        tables, plots, methods
  tandem lab run all --quick --json results.json --html lab/
  tandem lab run fairness --on net                    real sockets in network namespaces

Exit status: 0 no experiment fails, 1 one fails, 2 usage error, 130 interrupted.";

#[derive(Debug, Subcommand)]
enum Action {
    /// List the experiments, their publications, and where they run
    List,
    Run(RunArguments),
}

/// Run experiments, and show their verdicts.
#[derive(Args, Debug)]
struct RunArguments {
    /// An experiment of `tandem lab list`, or all
    #[arg(value_name = "NAME|all")]
    name: String,

    /// On simulated hosts and a virtual clock, or on real sockets through the emulator: sim or net
    #[arg(long, value_name = "sim|net", default_value = "sim")]
    on: On,

    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = |text: &str| count(text, 0..=u64::MAX))]
    seed: u64,

    /// Fewer points and shorter runs
    #[arg(long)]
    quick: bool,

    /// Timers and loss recovery of SIP over SCTP, where an experiment does not compare them: signalling or rfc9260
    #[arg(long, value_name = "NAME", default_value_t = Profile::Signalling)]
    profile: Profile,

    /// Write the results as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write the page: to this file, or to index.html in this directory
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Be the process of one experiment, and tell the one that has started it what comes out
    #[arg(long, hide = true)]
    part: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: Arguments) -> ExitCode {
    logging::start("error");
    match arguments.action {
        Action::List => {
            print(&list().to_terminal(width()));
            ExitCode::SUCCESS
        }
        Action::Run(arguments) => {
            let chosen = match chosen(&arguments.name) {
                Ok(chosen) => chosen,
                Err(error) => refuse(&error),
            };
            if let (true, [experiment]) = (arguments.part, chosen.as_slice()) {
                return match std::env::current_exe() {
                    Ok(program) => {
                        lab::run_in_this_process(*experiment, arguments.options(), &program);
                        ExitCode::SUCCESS
                    }
                    Err(error) => fail(&error),
                };
            }
            run_chosen(&chosen, &arguments).unwrap_or_else(|error| fail(error.as_ref()))
        }
    }
}

fn run_chosen(
    chosen: &[&'static dyn Experiment],
    arguments: &RunArguments,
) -> anyhow::Result<ExitCode> {
    let html = arguments.html.as_deref().map(page_file).transpose()?;
    // Found out before minutes of work, not after.
    check_writable(html.iter().chain(&arguments.json))?;
    let options = arguments.options();
    let interrupted = interrupts::flag();
    let results = match options.on {
        On::Sim => lab::run(chosen, options, &interrupted),
        On::Net => {
            let program = std::env::current_exe()?;
            let command = |name| Ok(part(&program, name, options));
            lab::run_isolated(chosen, options, longest(options), &command, &interrupted)
        }
    };
    print(&results.to_terminal(width()));
    let mut written = Written::default();
    if let Some(path) = &html {
        let page = results.to_html(&command_line());
        written.write("Page with plots", path, anyhow::Ok(page));
    }
    if let Some(path) = &arguments.json {
        written.write("Results as JSON", path, results.to_json());
    }
    written.end()?;
    Ok(if interrupted.load(Ordering::Relaxed) {
        interrupts::exit_code()
    } else if results.any_failed() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// The command of the process of one experiment.
fn part(program: &Path, name: &str, options: Options) -> Command {
    let mut command = Command::new(program);
    command
        .args(["lab", "run", name, "--part"])
        .args(["--on", &options.on.to_string()])
        .args(["--seed", &options.seed.to_string()])
        .args(["--profile", &options.profile.to_string()])
        .args(options.quick.then_some("--quick"));
    command
}

/// How long an experiment may take at the most: several times what it needs on an idle machine.
fn longest(options: Options) -> Duration {
    Duration::from_secs(if options.quick { 240 } else { 3600 })
}

impl RunArguments {
    fn options(&self) -> Options {
        Options {
            on: self.on,
            seed: self.seed,
            quick: self.quick,
            profile: self.profile,
        }
    }
}

/// The experiments of that name, or all.
fn chosen(name: &str) -> Result<Vec<&'static dyn Experiment>, String> {
    if name == "all" {
        return Ok(experiments::all().to_vec());
    }
    experiments::by_name(name)
        .map(|experiment| vec![experiment])
        .ok_or_else(|| {
            let names = experiments::all()
                .iter()
                .map(|experiment| experiment.name());
            let names: Vec<&str> = names.collect();
            format!(
                "there is no experiment \"{name}\": all, or {}",
                names.join(", ")
            )
        })
}

/// The file of the page: `index.html` in what is a directory, or ends like one and is made one.
fn page_file(path: &Path) -> anyhow::Result<PathBuf> {
    let ends_like_one = path.as_os_str().as_encoded_bytes().ends_with(b"/");
    if ends_like_one {
        std::fs::create_dir_all(path)?;
    }
    Ok(if path.is_dir() {
        path.join("index.html")
    } else {
        path.to_owned()
    })
}

fn list() -> Table {
    let mut table = Table::new("")
        .column(Column::text("Experiment").key())
        .column(Column::text("Source"))
        .column(Column::text("On"))
        .column(Column::text("What"));
    for experiment in experiments::all() {
        let on: Vec<String> = experiment.on().iter().map(On::to_string).collect();
        table.push(Row::new([
            Cell::from(experiment.name()),
            Cell::from(experiment.source()),
            Cell::from(on.join(", ")),
            Cell::from(experiment.title()),
        ]));
    }
    table
}

/// Says that the arguments make no sense, and ends.
fn refuse(reason: &str) -> ! {
    crate::usage::error(&["lab", "run"], reason)
}
