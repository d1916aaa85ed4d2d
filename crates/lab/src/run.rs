//! Runs experiments one after the other.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use report::Stopwatch;

use crate::context::Context;
use crate::experiment::{Experiment, On};
use crate::options::Options;
use crate::outcome::Outcome;
use crate::progress::{self, Progress, ProgressEvent};
use crate::results::{Result as Ran, Results};
use crate::two_hosts::try_hosts;

/// Runs experiments on simulated hosts, in the order given. One that breaks down fails, and the others go on. When
/// `interrupted` is set, those that have not finished are skipped; the one under way goes on in a thread of its own
/// until the process ends.
pub fn run(
    experiments: &[&'static dyn Experiment],
    options: Options,
    interrupted: &AtomicBool,
) -> Results {
    let stopwatch = Stopwatch::start();
    let run = |experiment: &&'static dyn Experiment| {
        let bar = progress::bar();
        progress::begin(&bar, experiment.name());
        let outcome = run_in_thread(
            *experiment,
            options,
            Progress::Bar(bar.clone()),
            interrupted,
        );
        bar.finish_and_clear();
        Ran {
            experiment: *experiment,
            outcome: outcome.unwrap_or_else(|| Outcome::skipped("it was interrupted")),
        }
    };
    let results = experiments.iter().map(run).collect();
    Results::new(options, stopwatch.period(), results)
}

/// How often it is looked whether an experiment is over, or to be left.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The outcome of an experiment; `None` when it was interrupted.
fn run_in_thread(
    experiment: &'static dyn Experiment,
    options: Options,
    progress: Progress,
    interrupted: &AtomicBool,
) -> Option<Outcome> {
    if interrupted.load(Ordering::Relaxed) {
        return None;
    }
    let thread = thread::spawn(move || run_one(experiment, options, &Ok(()), progress, None));
    while !thread.is_finished() {
        if interrupted.load(Ordering::Relaxed) {
            return None;
        }
        thread::sleep(POLL_INTERVAL);
    }
    let outcome = thread.join();
    Some(outcome.unwrap_or_else(|_| Outcome::failed("its thread has panicked".into())))
}

/// Runs an experiment as the process that [`run_isolated`](crate::run_isolated) has started for it: its progress
/// goes to the standard output. It ends when the process that has started it does. `program` is `tandem`: servers run
/// as it whose memory and processor time are looked at.
pub fn run_in_this_process(experiment: &'static dyn Experiment, options: Options, program: &Path) {
    // Whoever started it is there: without him nobody reads what it tells, and it goes on until its end.
    let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL);
    let network = network(options);
    let outcome = run_one(
        experiment,
        options,
        &network,
        Progress::Lines,
        Some(program),
    );
    Progress::Lines.report(ProgressEvent::Ended(Box::new(outcome)));
}

/// Whether there can be networks, if there have to be.
fn network(options: Options) -> anyhow::Result<()> {
    match options.on {
        On::Sim => Ok(()),
        On::Net => try_network(options.seed),
    }
}

/// Finds out whether networks of namespaces can be had, and their kernel's settings be changed.
fn try_network(seed: u64) -> anyhow::Result<()> {
    testbed::become_root()?;
    try_hosts(seed)
}

fn run_one(
    experiment: &'static dyn Experiment,
    options: Options,
    network: &anyhow::Result<()>,
    progress: Progress,
    program: Option<&Path>,
) -> Outcome {
    let Options {
        on,
        seed,
        quick,
        profile,
    } = options;
    if !experiment.on().contains(&on) {
        return Outcome::skipped(experiment.why_not(on));
    }
    if let Err(why) = network {
        return Outcome::skipped(format!("there can be no network here: {why:#}"));
    }
    let context = Context::new(experiment.name(), seed, quick, progress)
        .with_profile(profile)
        .with_program(program);
    let outcome = experiment.run(on, &context);
    let mut outcome =
        outcome.unwrap_or_else(|error| Outcome::failed(format!("it broke down: {error:#}")));
    outcome.notes.append(&mut context.take_notes());
    outcome
}

#[cfg(test)]
mod tests {
    use sctp::Profile;

    use super::*;
    use crate::checks::Checks;
    use crate::experiment::About;
    use crate::verdict::Verdict;

    struct Sample;

    impl Experiment for Sample {
        fn name(&self) -> &'static str {
            "sample"
        }

        fn source(&self) -> &'static str {
            "none"
        }

        fn title(&self) -> &'static str {
            "A sample"
        }

        fn about(&self) -> About {
            About {
                topology: "None.",
                runs: "Nothing.",
                measures: "Nothing.",
                law: "None.",
                check: "None.",
            }
        }

        fn on(&self) -> &'static [On] {
            &[On::Sim]
        }

        fn run(&self, _: On, context: &Context) -> anyhow::Result<Outcome> {
            context.note("something was refused".to_owned());
            anyhow::ensure!(context.seed() != 13, "thirteen");
            let mut checks = Checks::new();
            checks.law("seed", context.seed() as f64, 0.0..=9.0, "");
            Ok(Outcome::judged(checks).ours(serde_json::json!({ "seed": context.seed() })))
        }
    }

    fn verdict(on: On, seed: u64) -> (Verdict, String) {
        let options = Options {
            on,
            seed,
            quick: true,
            profile: Profile::Signalling,
        };
        let results = run(&[&Sample], options, &AtomicBool::new(false));
        let outcome = &results.results()[0].outcome;
        if on == On::Sim {
            assert_eq!(outcome.notes, ["something was refused"]);
        }
        (outcome.verdict, outcome.why.clone())
    }

    #[test]
    fn each_way_to_end_has_its_verdict() {
        assert_eq!(verdict(On::Sim, 1).0, Verdict::Holds);
        assert_eq!(verdict(On::Sim, 10).0, Verdict::Fails);
        assert_eq!(
            verdict(On::Sim, 13),
            (Verdict::Fails, "it broke down: thirteen".to_owned())
        );
        assert_eq!(verdict(On::Net, 1).0, Verdict::Skipped);
    }

    #[test]
    fn the_json_has_the_members_that_programs_read() {
        let options = Options {
            on: On::Sim,
            seed: 3,
            quick: true,
            profile: Profile::Signalling,
        };
        let results = run(&[&Sample], options, &AtomicBool::new(false));
        let json: serde_json::Value = serde_json::from_str(&results.to_json().unwrap()).unwrap();
        let expected = serde_json::json!([{
            "name": "sample", "source": "none", "on": "sim", "verdict": "holds",
            "why": "the law holds", "ours": { "seed": 3 }, "published": null,
        }]);
        assert_eq!(json, expected);
        assert!(!results.any_failed());
        let failed = run(
            &[&Sample],
            Options {
                seed: 99,
                ..options
            },
            &AtomicBool::new(false),
        );
        assert!(failed.any_failed());
    }
}
