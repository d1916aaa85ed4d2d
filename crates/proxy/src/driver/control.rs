//! What a running service is told and asked: a few messages a minute, never one a call.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use crate::core::{Latencies, MemberHealth, MemberState, OverloadPolicy, Policy, Statistics};
use crate::metrics::Traffic;

/// A message to the task that owns a core.
#[derive(Debug)]
pub(super) enum Command {
    /// Decide by these settings from now on.
    SetPolicy(Arc<Policy>),
    /// Refuse what would begin a dialog from now on.
    Drain,
    /// Tell what is counted.
    Report(oneshot::Sender<Report>),
}

/// What the owner of a core tells of it.
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

/// The ways to all workers; a handle that is cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Commanders {
    all: Arc<[mpsc::Sender<Command>]>,
}

/// How many messages wait for an owner; more of them wait with their senders.
const QUEUE: usize = 16;

/// The two ends of the way to one owner.
pub(super) fn channel() -> (mpsc::Sender<Command>, mpsc::Receiver<Command>) {
    mpsc::channel(QUEUE)
}

impl Commanders {
    pub(super) fn new(all: Vec<mpsc::Sender<Command>>) -> Commanders {
        Commanders { all: all.into() }
    }

    /// How many workers there are.
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// Gives all workers the same settings, and each its share of what all together may take.
    pub(super) async fn set_policy(&self, policy: &Policy) {
        let policy = Arc::new(share(policy, self.count()));
        self.tell(|| Command::SetPolicy(Arc::clone(&policy))).await;
    }

    pub(super) async fn drain(&self) {
        self.tell(|| Command::Drain).await;
    }

    /// What the workers tell, summed up; one that has ended tells nothing.
    pub(crate) async fn report(&self) -> Report {
        let mut sum = Report::default();
        for commander in &*self.all {
            let (sender, receiver) = oneshot::channel();
            if commander.send(Command::Report(sender)).await.is_ok()
                && let Ok(report) = receiver.await
            {
                sum.statistics += report.statistics;
                *sum.latencies += &report.latencies;
                *sum.traffic += &report.traffic;
                sum.transactions += report.transactions;
                sum.members = joined(sum.members, report.members);
            }
        }
        sum
    }

    async fn tell(&self, command: impl Fn() -> Command) {
        for commander in &*self.all {
            // A service that has ended need not be told.
            let _ = commander.send(command()).await;
        }
    }
}

/// The settings of one of so many workers.
pub(super) fn share(policy: &Policy, workers: usize) -> Policy {
    let overload: OverloadPolicy = policy.overload.shared_among(workers);
    Policy {
        overload,
        ..policy.clone()
    }
}
/// What two workers know of the members of the groups that both have: one that is down for either is down.
fn joined(one: Vec<MemberHealth>, other: Vec<MemberHealth>) -> Vec<MemberHealth> {
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
