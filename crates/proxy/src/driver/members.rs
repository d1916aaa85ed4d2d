//! What one worker finds out about members of groups, for all others.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

use crate::core::{MemberState, Proxy};

type States = BTreeMap<(Arc<str>, Arc<str>), MemberState>;

/// A worker's end of the board on which the states of members stand. Only changes are written there,
/// by whoever sees them; what stands there is the latest of each member, so that nobody misses
/// anything however late he looks.
#[derive(Debug)]
pub(super) struct Members {
    board: watch::Sender<States>,
    changes: watch::Receiver<States>,
    /// There is something that our core has not been told.
    has_news: bool,
}

impl Members {
    /// An empty board.
    pub(super) fn new() -> Members {
        let (board, changes) = watch::channel(States::new());
        Members {
            board,
            changes,
            has_news: false,
        }
    }

    /// Another worker's end.
    pub(super) fn share(&self) -> Members {
        Members {
            board: self.board.clone(),
            changes: self.board.subscribe(),
            has_news: true,
        }
    }

    /// Writes that a member has gone up or down.
    pub(super) fn write(&mut self, group: Arc<str>, uri: Arc<str>, state: MemberState) {
        self.board.send_modify(|states| {
            states.insert((group, uri), state);
        });
    }

    /// Returns when there is something new.
    pub(super) async fn changed(&mut self) {
        // We hold a sender ourselves: it cannot end.
        let _ = self.changes.changed().await;
        // It counts as seen now.
        self.has_news = true;
    }

    /// Tells a core what stands there, if there is something new.
    pub(super) fn tell(&mut self, core: &mut Proxy) {
        if !self.has_news && !self.changes.has_changed().unwrap_or(false) {
            return;
        }
        self.has_news = false;
        for ((group, uri), state) in self.changes.borrow_and_update().iter() {
            core.set_member_state(group, uri, *state);
        }
    }
}
