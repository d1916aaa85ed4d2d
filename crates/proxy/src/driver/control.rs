//! Commands to the workers, and their reports: a few messages a minute, never one a call.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::traffic::Traffic;
use crate::core::{Latencies, MemberHealth, MemberState, OverloadPolicy, Policy, Statistics};

/// A command to a worker.
#[derive(Debug)]
pub(super) enum Command {
    /// Decide by these settings from now on.
    SetPolicy(Arc<Policy>),
    /// Refuse what would begin a dialog from now on.
    Drain,
    /// Report what is counted.
    Report(oneshot::Sender<Report>),
}

/// What a worker reports of its core.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    /// The counters of the core.
    pub(crate) statistics: Statistics,
    /// How long clients have waited.
    pub(crate) latencies: Box<Latencies>,
    /// The messages that came and went.
    pub(crate) traffic: Box<Traffic>,
    /// Client and server transactions that have not ended.
    pub(crate) transactions: usize,
    /// What it knows of the members of groups.
    pub(crate) members: Vec<MemberHealth>,
}

/// The channels to all workers; a handle that is cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkerHandles {
    all: Arc<[mpsc::Sender<Command>]>,
}

/// How many commands wait for a worker; more of them wait with their senders.
const QUEUE: usize = 16;

/// The channel to one worker.
pub(super) fn channel() -> (mpsc::Sender<Command>, mpsc::Receiver<Command>) {
    mpsc::channel(QUEUE)
}

impl WorkerHandles {
    pub(super) fn new(all: Vec<mpsc::Sender<Command>>) -> WorkerHandles {
        WorkerHandles { all: all.into() }
    }

    /// How many workers there are.
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// Gives all workers the same settings, and each its share of what all together may take.
    pub(super) async fn set_policy(&self, policy: &Policy) {
        let policy = Arc::new(share_of_worker(policy, self.count()));
        self.send_all(|| Command::SetPolicy(Arc::clone(&policy)))
            .await;
    }

    pub(super) async fn drain(&self) {
        self.send_all(|| Command::Drain).await;
    }

    /// The reports of the workers, added up; a worker that has ended reports nothing.
    pub(crate) async fn report(&self) -> Report {
        let mut sum = Report::default();
        for worker in &*self.all {
            let (sender, receiver) = oneshot::channel();
            if worker.send(Command::Report(sender)).await.is_ok()
                && let Ok(report) = receiver.await
            {
                sum.statistics += report.statistics;
                *sum.latencies += &report.latencies;
                *sum.traffic += &report.traffic;
                sum.transactions += report.transactions;
                sum.members = merge_health(sum.members, report.members);
            }
        }
        sum
    }

    async fn send_all(&self, command: impl Fn() -> Command) {
        for worker in &*self.all {
            // A worker that has ended needs no command.
            let _ = worker.send(command()).await;
        }
    }
}

/// The settings of one of so many workers.
pub(super) fn share_of_worker(policy: &Policy, workers: usize) -> Policy {
    let overload: OverloadPolicy = policy.overload.shared_among(workers);
    Policy {
        overload,
        ..policy.clone()
    }
}

/// The health of the members of groups as two workers know it: a member that is down for either is down.
fn merge_health(one: Vec<MemberHealth>, other: Vec<MemberHealth>) -> Vec<MemberHealth> {
    if one.is_empty() {
        return other;
    }
    let join = |health: MemberHealth| {
        let its = other
            .iter()
            .find(|other| other.group == health.group && other.uri == health.uri);
        let is_down = |its: &&MemberHealth| its.state != MemberState::Up;
        MemberHealth {
            state: its.filter(is_down).map_or(health.state, |its| its.state),
            chosen: health.chosen + its.map_or(0, |its| its.chosen),
            failed: health.failed + its.map_or(0, |its| its.failed),
            ..health
        }
    };
    one.into_iter().map(join).collect()
}
