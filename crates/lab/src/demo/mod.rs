//! The demo: users register, call each other through a proxy and hang up, over UDP, TCP and SCTP, on a
//! network that loses packets (Pang 2003, section 5.4).

mod condition;
mod headline;
mod options;
mod page;
mod results;
mod run;
mod table;

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use report::{Document, Machine, Period, Stopwatch};
use sip::Transport;
use sip_net::Tap;
use tokio::task::JoinSet;

use crate::progress::is_hidden;
use condition::Condition;

pub use options::{Associations, End, Options};
pub use results::Measurement;

/// Everything that a demo measured.
#[derive(Clone, Debug)]
pub struct Results {
    options: Options,
    machine: Machine,
    period: Period,
    /// How many runs there were to be.
    planned: usize,
    runs: Vec<Measurement>,
}

impl Results {
    /// The table, for a terminal of this many columns.
    pub fn to_terminal(&self, width: usize) -> String {
        table::table(&self.options, &self.runs).to_terminal(width)
    }

    /// The self-contained page; `command` is what repeats the demo.
    pub fn to_html(&self, command: &str) -> String {
        page::page(self, command).to_html()
    }

    /// The JSON document.
    ///
    /// # Errors
    /// None that is known; serialisation could fail in principle.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        Document::new(
            self.machine.clone(),
            self.options.seed,
            self.options.clone(),
            self.runs.clone(),
        )
        .to_json()
    }

    /// Whether it was interrupted before all runs had finished.
    pub fn is_interrupted(&self) -> bool {
        self.runs.len() < self.planned
    }

    /// What failed in the runs that lost no packet, a line for each in which a call or a registration did.
    pub fn failed_without_loss(&self) -> Vec<String> {
        self.runs
            .iter()
            .filter_map(Measurement::failed_without_loss)
            .collect()
    }
}

/// Runs every combination of transport and loss that can be had.
///
/// Runs without loss keep the processors busy and follow one another; those with loss mostly wait for
/// timers and go side by side. `tap` gets the SCTP packets of the users' side. When `interrupted` is ready, the runs that
/// have finished are the result.
///
/// # Errors
/// When a socket cannot be opened or a run breaks down.
pub async fn run(
    options: &Options,
    tap: Option<&Tap>,
    interrupted: impl Future<Output = ()>,
) -> anyhow::Result<Results> {
    let stopwatch = Stopwatch::start();
    let plan = plan(options);
    let mut runs = Vec::new();
    tokio::select! {
        finished = run_all(options, tap, &plan, &mut runs) => finished?,
        () = interrupted => {}
    }
    let place = |run: &Measurement| plan.iter().position(|planned| *planned == run.condition());
    runs.sort_by_key(place);
    Ok(Results {
        options: options.clone(),
        machine: Machine::detect(),
        period: stopwatch.period(),
        planned: plan.len(),
        runs,
    })
}

/// Adds each run to `runs` when it has finished.
async fn run_all(
    options: &Options,
    tap: Option<&Tap>,
    plan: &[Condition],
    runs: &mut Vec<Measurement>,
) -> anyhow::Result<()> {
    let (alone, together): (Vec<_>, Vec<_>) = plan
        .iter()
        .copied()
        .partition(|condition| condition.loss_percent == 0.0);
    let progress = progress(options, alone.len(), together.len());

    for condition in alone {
        progress.set_message(format!("{} without loss", condition.line().label()));
        runs.push(run::run(options, tap, condition).await?);
    }
    if !together.is_empty() {
        progress.set_message(format!("{} runs with loss side by side", together.len()));
        let mut side_by_side = JoinSet::new();
        for condition in together {
            let (options, tap) = (options.clone(), tap.cloned());
            side_by_side.spawn(async move { run::run(&options, tap.as_ref(), condition).await });
        }
        while let Some(finished) = side_by_side.join_next().await {
            runs.push(finished??);
        }
    }
    progress.finish_and_clear();
    Ok(())
}

/// The runs, in the order in which they are shown.
fn plan(options: &Options) -> Vec<Condition> {
    let mut plan = Vec::new();
    for &transport in &options.transports {
        let profiles = match transport {
            Transport::Sctp => options.profiles.iter().copied().map(Some).collect(),
            _ => vec![None],
        };
        for profile in profiles {
            for &loss_percent in &options.loss {
                let condition = Condition {
                    transport,
                    profile,
                    loss_percent,
                };
                let can_be_had = transport != Transport::Tcp || loss_percent == 0.0;
                if can_be_had && !plan.contains(&condition) {
                    plan.push(condition);
                }
            }
        }
    }
    plan
}

/// A bar over the time that the runs will take, where that is known.
fn progress(options: &Options, alone: usize, together: usize) -> ProgressBar {
    const TICK: Duration = Duration::from_millis(100);
    let bar = match options.end {
        _ if is_hidden() => ProgressBar::hidden(),
        End::Seconds(seconds) => {
            let turns = alone + usize::from(together > 0);
            let total = Duration::from_secs_f64(seconds * turns as f64);
            let bar = ProgressBar::new(total.as_millis() as u64);
            bar.set_style(style("{spinner} [{wide_bar}] {msg} {elapsed}"));
            bar
        }
        End::Calls(_) => {
            let bar = ProgressBar::new_spinner();
            bar.set_style(style("{spinner} {msg} {elapsed}"));
            bar
        }
    };
    bar.enable_steady_tick(TICK);
    let moving = bar.downgrade();
    let started = tokio::time::Instant::now();
    tokio::spawn(async move {
        while let Some(bar) = moving.upgrade() {
            let length = bar.length().unwrap_or(u64::MAX);
            bar.set_position((started.elapsed().as_millis() as u64).min(length));
            tokio::time::sleep(TICK).await;
        }
    });
    bar
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates are constant and well-formed")
}

#[cfg(test)]
mod tests {
    use sip_net::Profile;

    use super::*;

    #[test]
    fn tcp_runs_without_loss_only() {
        let plan = plan(&Options::default());
        assert_eq!(plan.len(), 16);
        let tcp = plan
            .iter()
            .filter(|condition| condition.transport == Transport::Tcp);
        let tcp: Vec<f64> = tcp.map(|condition| condition.loss_percent).collect();
        assert_eq!(tcp, [0.0]);
    }

    #[test]
    fn a_run_asked_for_twice_runs_once() {
        let options = Options {
            loss: vec![5.0, 5.0],
            profiles: vec![Profile::Signalling; 2],
            ..Options::default()
        };
        assert_eq!(plan(&options).len(), 2);
    }

    #[test]
    fn sctp_runs_with_each_profile() {
        let plan = plan(&Options::default());
        for profile in Profile::ALL {
            let with = plan
                .iter()
                .filter(|condition| condition.profile == Some(profile));
            assert_eq!(with.count(), 5, "{profile}");
        }
    }

    #[test]
    fn nothing_to_run_is_an_error_that_names_the_option() {
        let options = Options {
            transports: vec![Transport::Tcp],
            loss: vec![5.0],
            ..Options::default()
        };
        assert!(options.check().unwrap_err().contains("--loss"));
    }
}
