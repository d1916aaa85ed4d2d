//! Scenarios from files, carried out on loopback: both sides ours, through our proxy, and against SIPp.

mod files;
mod options;
mod rfc3665;
mod sipp;

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use load::driver::{GeneratorConfig, LoadGenerator, LoadModel, LoadPlan, Role, TaskKind};
use load::record::{Attempt, Outcome, Party, Record};
use load::scenario::Scenario;
use load::script::{Pause, ScriptId};

/// How long anything may take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What a run says beside its scenario.
fn options() -> load::scenario::Options {
    load::scenario::Options {
        hold: Pause::Fixed(Duration::from_millis(20)),
        ..load::scenario::Options::default()
    }
}

/// A run of both sides of a scenario, or of the one that it has.
fn config(scenario: &Scenario) -> GeneratorConfig {
    let scripts = [&scenario.caller, &scenario.callee];
    let scripts = scripts.into_iter().flatten().cloned().map(Arc::new);
    GeneratorConfig {
        users: 4,
        workers: 2,
        role: match (&scenario.caller, &scenario.callee) {
            (Some(_), Some(_)) => Role::Both,
            (_, None) => Role::Callers,
            (None, _) => Role::Callees,
        },
        scripts: scripts.collect(),
        local_ip: Some([127, 0, 0, 1].into()),
        seed: 3665,
        ..GeneratorConfig::default()
    }
}

/// Begins this many attempts and returns what became of each, on both sides.
async fn attempts(config: GeneratorConfig, count: u64) -> Vec<Attempt> {
    attempts_after(config, count, false).await
}

/// The same, once all users have registered.
async fn registered_attempts(config: GeneratorConfig, count: u64) -> Vec<Attempt> {
    attempts_after(config, count, true).await
}

async fn attempts_after(mut config: GeneratorConfig, count: u64, registers: bool) -> Vec<Attempt> {
    let (sender, records) = mpsc::sync_channel(10_000);
    config.records = Some(sender);
    let mut load = LoadGenerator::start(config).await.expect("it starts");
    if registers {
        let registered = load.register(None, TIMEOUT).await.expect("it registers");
        assert_eq!(registered.registered, 8);
    }
    let plan = LoadPlan::at_rate(TaskKind::Script(ScriptId(0)), 50.0, count);
    let outcome = tokio::time::timeout(TIMEOUT, load.run(plan)).await;
    outcome.expect("in time").expect("it runs");
    load.shutdown().await;
    collected(&records)
}

fn collected(records: &Receiver<Vec<Record>>) -> Vec<Attempt> {
    let ended = |record: Record| match record {
        Record::Established(_) => None,
        other => Some(other.attempt().clone()),
    };
    records.try_iter().flatten().filter_map(ended).collect()
}

/// Callees that serve until they are told to stop.
struct Callees {
    control: load::driver::Control,
    serving: tokio::task::JoinHandle<()>,
    records: Receiver<Vec<Record>>,
    port: u16,
}

impl Callees {
    /// Where a peer calls them directly.
    async fn start(config: GeneratorConfig) -> Callees {
        let config = GeneratorConfig {
            direct: true,
            // One socket that a peer can be told of.
            workers: 1,
            ..config
        };
        Callees::serve(config, false).await
    }

    /// At a proxy.
    async fn registered(config: GeneratorConfig) -> Callees {
        Callees::serve(config, true).await
    }

    async fn serve(mut config: GeneratorConfig, registers: bool) -> Callees {
        let (sender, records) = mpsc::sync_channel(10_000);
        config.records = Some(sender);
        config.role = Role::Callees;
        let mut load = LoadGenerator::start(config).await.expect("it starts");
        if registers {
            let registered = load.register(None, TIMEOUT).await.expect("it registers");
            assert_eq!(registered.registered, 4);
        }
        let port = load.listening().first().map_or(0, |address| address.port());
        let control = load.control();
        let serving = tokio::spawn(async move {
            let pace = LoadModel::Serve {
                count: None,
                time: None,
            };
            let plan = LoadPlan::new(TaskKind::Script(ScriptId(0)), pace);
            load.run(plan).await.expect("it serves");
            load.shutdown().await;
        });
        Callees {
            control,
            serving,
            records,
            port,
        }
    }

    async fn stop(self) -> Vec<Attempt> {
        self.control.stop();
        let ended = tokio::time::timeout(TIMEOUT, self.serving).await;
        ended.expect("in time").expect("no panic");
        collected(&self.records)
    }
}

/// Demands that all attempts of a side at a scenario were completed, and as many as this. A callee who has the
/// last word may not have been heard any more when the run ended.
fn assert_completed(attempts: &[Attempt], party: Party, count: usize, name: &str) {
    let is_of_scenario = |one: &&Attempt| one.party == party && one.script.0 < 2;
    let of_side: Vec<&Attempt> = attempts.iter().filter(is_of_scenario).collect();
    for attempt in &of_side {
        let is_cut_off = party == Party::Callee && attempt.outcome == Outcome::Unfinished;
        assert!(attempt.is_completed() || is_cut_off, "{name}: {attempt:#?}");
    }
    assert_eq!(of_side.len(), count, "{name}, {party:?}: {attempts:#?}");
}
