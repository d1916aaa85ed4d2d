//! What a running service is told and asked: a few messages a minute, never one a call.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use crate::core::{Policy, Statistics};

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
pub(super) struct Report {
    /// The counters of the core.
    pub(super) statistics: Statistics,
    /// Client and server transactions that have not ended.
    pub(super) transactions: usize,
}

/// How many messages wait for an owner; more of them wait with their senders.
const QUEUE: usize = 16;

/// The two ends of the way to one owner.
pub(super) fn channel() -> (mpsc::Sender<Command>, mpsc::Receiver<Command>) {
    mpsc::channel(QUEUE)
}
