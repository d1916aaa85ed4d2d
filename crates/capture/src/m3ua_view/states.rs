//! States of ASPs and ASs over time, as an association tells of them (RFC 4666 section 4.3).

use m3ua::AspState;
use m3ua::message::{Message, Status};

use super::latest::{Context, Latest};
use crate::Time;

/// Changes of one association that are kept.
const MOST_CHANGES: usize = 256;

/// A change of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateChange {
    /// When.
    pub time: Time,
    /// The number of the packet that tells.
    pub packet: u64,
    /// Whether it is the state of the association's `source`, or of its AS.
    pub is_source: bool,
    /// What has which state now.
    pub state: SignallingState,
}

/// What has which state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignallingState {
    /// An ASP (section 4.3.1), in the ASs of these routing contexts; empty: all.
    Asp(AspState, Vec<u32>),
    /// An ASP whose association ended.
    AspLost,
    /// The ASs of these routing contexts (section 4.3.2), as an SGP has notified them; empty: all of the ASP's.
    As(Status, Vec<u32>),
}

/// The states of both ends of an association.
#[derive(Debug, Default)]
pub(super) struct States {
    ends: [End; 2],
    changes: Vec<StateChange>,
    omitted: u64,
}

/// One end, as far as it is an ASP.
#[derive(Debug, Default)]
struct End {
    state: Option<AspState>,
    /// The ASs in which it is active.
    active: Latest<()>,
    /// What it was told of its ASs.
    servers: Latest<Status>,
}

impl States {
    /// Takes note of a message from `source`, or to it.
    pub(super) fn observe(&mut self, time: Time, packet: u64, message: &Message, by_source: bool) {
        // An acknowledgement changes the state of its receiver (sections 4.3.4.1 to 4.3.4.4).
        let is_source = !by_source;
        let Some(end) = self.ends.get_mut(usize::from(!is_source)) else {
            return;
        };
        let new = match message {
            Message::AspUpAck(_) => {
                end.active.clear();
                end.set(AspState::Inactive)
                    .then(|| SignallingState::Asp(AspState::Inactive, Vec::new()))
            }
            Message::AspDownAck(_) => {
                end.active.clear();
                end.set(AspState::Down)
                    .then(|| SignallingState::Asp(AspState::Down, Vec::new()))
            }
            Message::AspActiveAck(ack) => {
                let contexts = &ack.routing_contexts;
                let is_new = end.activate(contexts);
                (end.set(AspState::Active) || is_new)
                    .then(|| SignallingState::Asp(AspState::Active, contexts.clone()))
            }
            Message::AspInactiveAck(ack) => {
                let contexts = &ack.routing_contexts;
                let is_new = end.deactivate(contexts);
                if end.active.is_empty() {
                    end.set(AspState::Inactive);
                }
                is_new.then(|| SignallingState::Asp(AspState::Inactive, contexts.clone()))
            }
            Message::Notify(notify) => match notify.status {
                Status::AS_INACTIVE | Status::AS_ACTIVE | Status::AS_PENDING => {
                    let contexts = &notify.routing_contexts;
                    end.tell(contexts, notify.status)
                        .then(|| SignallingState::As(notify.status, contexts.clone()))
                }
                _ => None,
            },
            _ => None,
        };
        if let Some(state) = new {
            self.push(StateChange {
                time,
                packet,
                is_source,
                state,
            });
        }
    }

    /// The association has ended: its ASPs are down (section 4.3.1, SCTP-CDI).
    pub(super) fn lose(&mut self, time: Time, packet: u64) {
        for (at, is_source) in [(0, true), (1, false)] {
            let Some(end) = self.ends.get_mut(at) else {
                continue;
            };
            let was_up = end.state.is_some_and(|state| state != AspState::Down);
            if was_up {
                *end = End {
                    state: Some(AspState::Down),
                    ..End::default()
                };
                self.push(StateChange {
                    time,
                    packet,
                    is_source,
                    state: SignallingState::AspLost,
                });
            }
        }
    }

    /// The state of one end as an ASP; `None` where nothing told.
    pub(super) fn state(&self, is_source: bool) -> Option<AspState> {
        self.ends.get(usize::from(!is_source))?.state
    }

    /// The changes, and how many more there were.
    pub(super) fn changes(&self) -> (&[StateChange], u64) {
        (&self.changes, self.omitted)
    }

    fn push(&mut self, change: StateChange) {
        match self.changes.len() < MOST_CHANGES {
            true => self.changes.push(change),
            false => self.omitted += 1,
        }
    }
}

impl End {
    /// Whether that is a change.
    fn set(&mut self, state: AspState) -> bool {
        self.state.replace(state) != Some(state)
    }

    /// Notes that it is active in these ASs. Whether that is a change.
    fn activate(&mut self, contexts: &[u32]) -> bool {
        let mut is_new = false;
        for context in these(contexts) {
            is_new |= self.active.set(context, ()).is_none();
        }
        is_new
    }

    /// Notes that it is not active any more in these ASs. Whether that is a change.
    fn deactivate(&mut self, contexts: &[u32]) -> bool {
        if contexts.is_empty() {
            let was_active = !self.active.is_empty();
            self.active.clear();
            return was_active;
        }
        let mut was_active = false;
        for context in these(contexts) {
            was_active |= self.active.remove(context).is_some();
        }
        was_active
    }

    /// Notes what it was told of these ASs. Whether that is a change.
    fn tell(&mut self, contexts: &[u32], status: Status) -> bool {
        let mut is_new = false;
        for context in these(contexts) {
            is_new |= self.servers.set(context, status) != Some(status);
        }
        is_new
    }
}

/// Routing contexts; `None` where there are none, which stands for all.
fn these(contexts: &[u32]) -> impl Iterator<Item = Context> {
    let all = contexts.is_empty().then_some(None);
    all.into_iter().chain(contexts.iter().copied().map(Some))
}
