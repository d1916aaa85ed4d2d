//! The states of the members of groups, shared by the workers.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

use crate::core::{MemberState, Proxy};

type States = BTreeMap<(Arc<str>, Arc<str>), MemberState>;

/// The latest state of each member, shared by all workers. A worker that sees a member go up or down sets its state; a
/// worker that reads late misses intermediate states, but never the latest.
#[derive(Debug)]
pub(super) struct Members {
    states: watch::Sender<States>,
    changes: watch::Receiver<States>,
    /// There are states that our core does not know.
    has_changed: bool,
}

impl Members {
    /// No member has a state.
    pub(super) fn new() -> Members {
        let (states, changes) = watch::channel(States::new());
        Members {
            states,
            changes,
            has_changed: false,
        }
    }

    /// A handle for another worker.
    pub(super) fn subscribe(&self) -> Members {
        Members {
            states: self.states.clone(),
            changes: self.states.subscribe(),
            has_changed: true,
        }
    }

    /// A member has gone up or down.
    pub(super) fn set(&mut self, group: Arc<str>, uri: Arc<str>, state: MemberState) {
        self.states.send_modify(|states| {
            states.insert((group, uri), state);
        });
    }

    /// Returns when there is something new.
    pub(super) async fn changed(&mut self) {
        // We hold a sender ourselves: it cannot end.
        let _ = self.changes.changed().await;
        // It counts as seen now.
        self.has_changed = true;
    }

    /// Sets the states in a core, if there is something new.
    pub(super) fn apply_to(&mut self, core: &mut Proxy) {
        if !self.has_changed && !self.changes.has_changed().unwrap_or(false) {
            return;
        }
        self.has_changed = false;
        for ((group, uri), state) in self.changes.borrow_and_update().iter() {
            core.set_member_state(group, uri, *state);
        }
    }
}
