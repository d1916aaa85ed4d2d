//! How handles reach the driver, of which each worker of a stack is one.
//!
//! A handle never waits for the driver to send, read or drop: it does its part in a box shared with
//! the driver, and puts a name on the list of what needs attention. A name is on the list once, so
//! the list is bounded by what exists. Questions that want an answer are [`Command`]s.

use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sctp::{
    AssociationId, AssociationStatistics, AssociationStatus, Connect, EndpointConfig, PathConfig,
    PathError,
};
use tokio::sync::{Notify, oneshot};

use crate::association::{AssociationShared, Established};
use crate::endpoint::{AcceptInbox, EventInbox, Item};
use crate::error::ConnectError;
use crate::kernel;
use crate::statistics::StackStatistics;

/// Names an endpoint of a stack. Its port alone would not do: another endpoint may be opened there
/// when it is closed, while handles of it still exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndpointKey {
    pub(crate) port: u16,
    /// How many endpoints the stack had opened before it.
    pub(crate) number: u64,
}

/// Names an association of a stack: its endpoint, the worker that owns it, and its name there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) endpoint: EndpointKey,
    pub(crate) worker: usize,
    pub(crate) id: AssociationId,
}

/// Where the one who asked for an association waits for it.
pub(crate) type ConnectReply = oneshot::Sender<Result<Established, ConnectError>>;

/// What a handle asks of the driver.
#[derive(Debug)]
pub(crate) enum Command {
    Connect {
        endpoint: EndpointKey,
        to: Box<Connect>,
        reply: ConnectReply,
    },
    Control {
        key: Key,
        control: Control,
        reply: oneshot::Sender<Result<(), PathError>>,
    },
    Status {
        key: Key,
        reply: oneshot::Sender<Option<AssociationStatus>>,
    },
    AssociationStatistics {
        key: Key,
        reply: oneshot::Sender<Option<AssociationStatistics>>,
    },
    Statistics {
        reply: oneshot::Sender<StackStatistics>,
    },
    CloseEndpoint {
        endpoint: EndpointKey,
        reply: oneshot::Sender<()>,
    },
    CloseStack {
        reply: oneshot::Sender<()>,
    },
}

/// What a handle wants changed about its association.
#[derive(Debug)]
pub(crate) enum Control {
    SetPrimary(IpAddr),
    RequestHeartbeat(IpAddr),
    Configure(Box<EndpointConfig>),
    ConfigurePath(IpAddr, PathConfig),
}

/// An endpoint that the driver is to create.
#[derive(Debug)]
pub(crate) struct NewEndpoint {
    pub(crate) key: EndpointKey,
    pub(crate) config: EndpointConfig,
    pub(crate) style: Style,
    /// Its socket, where the SCTP is the kernel's.
    pub(crate) socket: Option<kernel::Socket>,
}

/// Where the associations and messages of an endpoint go.
#[derive(Clone, Debug)]
pub(crate) enum Style {
    /// Each association is accepted, and its messages are read from it.
    OneToOne(Arc<AcceptInbox>),
    /// Everything goes to one inbox.
    OneToMany(Arc<EventInbox>),
}

impl Style {
    /// Hands an association that has come up to `asked`, who wanted it, or else to those who
    /// accept. Gives what the inbox of everything is to be told, which may be locked right now.
    pub(crate) fn announce(
        &self,
        shared: Arc<AssociationShared>,
        asked: Option<ConnectReply>,
    ) -> Option<Item> {
        let established = Established::new(&shared);
        match (asked, self) {
            // When the one who asked has gone, the guard comes back and shuts down.
            (Some(asked), _) => drop(asked.send(Ok(established))),
            (None, Style::OneToOne(accepts)) => {
                accepts.waiting.fetch_add(1, Ordering::Relaxed);
                accepts.inbox.push(established);
            }
            (None, Style::OneToMany(events)) => {
                drop(established.without_guard());
                events.waiting.fetch_add(1, Ordering::Relaxed);
                return Some(Item::Accepted(shared));
            }
        }
        None
    }

    /// How many new associations nobody has taken yet.
    pub(crate) fn waiting(&self) -> usize {
        let waiting = match self {
            Style::OneToOne(accepts) => &accepts.waiting,
            Style::OneToMany(events) => &events.waiting,
        };
        waiting.load(Ordering::Relaxed)
    }

    /// A worker has nothing more for the endpoint.
    pub(crate) fn worker_finished(&self) {
        match self {
            Style::OneToOne(accepts) => accepts.worker_finished(),
            Style::OneToMany(events) => events.worker_finished(),
        }
    }
}

/// What needs the driver's attention.
#[derive(Debug, Default)]
pub(crate) struct Attention {
    pub(crate) new_endpoints: Vec<NewEndpoint>,
    /// Associations with something to send, room to receive, or an end.
    pub(crate) associations: Vec<Key>,
    /// One-to-many endpoints whose inbox has room again.
    pub(crate) endpoints: Vec<EndpointKey>,
    /// Endpoints of which somebody does not wait for an association any more.
    pub(crate) abandoned_connects: Vec<EndpointKey>,
    /// Endpoints whose last handle is gone.
    pub(crate) dropped_endpoints: Vec<EndpointKey>,
}

impl Attention {
    fn is_empty(&self) -> bool {
        self.new_endpoints.is_empty()
            && self.associations.is_empty()
            && self.endpoints.is_empty()
            && self.abandoned_connects.is_empty()
            && self.dropped_endpoints.is_empty()
    }
}

/// Shared by all handles of a stack and one of its workers.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    attention: Attention,
    closed: bool,
    last_statistics: StackStatistics,
}

impl Mailbox {
    /// Asks the driver for an endpoint; false when it opens no further one.
    pub(crate) fn open_endpoint(&self, endpoint: NewEndpoint) -> bool {
        let mut state = self.state();
        if state.closed {
            return false;
        }
        state.attention.new_endpoints.push(endpoint);
        drop(state);
        self.wake.notify_one();
        true
    }

    pub(crate) fn attend_association(&self, key: Key) {
        self.state().attention.associations.push(key);
        self.wake.notify_one();
    }

    /// The same where the caller sees to it that somebody looks at the list.
    pub(crate) fn list_association(&self, key: Key) {
        self.state().attention.associations.push(key);
    }

    pub(crate) fn attend_endpoint(&self, endpoint: EndpointKey) {
        self.state().attention.endpoints.push(endpoint);
        self.wake.notify_one();
    }

    pub(crate) fn connect_abandoned(&self, endpoint: EndpointKey) {
        let mut state = self.state();
        let abandoned = &mut state.attention.abandoned_connects;
        if !abandoned.contains(&endpoint) {
            abandoned.push(endpoint);
        }
        drop(state);
        self.wake.notify_one();
    }

    pub(crate) fn endpoint_dropped(&self, endpoint: EndpointKey) {
        self.state().attention.dropped_endpoints.push(endpoint);
        self.wake.notify_one();
    }

    /// Wakes the driver's task: what it waits for has changed.
    pub(crate) fn call(&self) {
        self.wake.notify_one();
    }

    /// Whether there is something on the list.
    pub(crate) fn has_mail(&self) -> bool {
        !self.state().attention.is_empty()
    }

    /// The driver waits for something to attend to.
    pub(crate) async fn wait(&self) {
        self.wake.notified().await;
    }

    /// The driver takes the list.
    pub(crate) fn take(&self) -> Attention {
        std::mem::take(&mut self.state().attention)
    }

    /// The driver opens no further endpoint.
    pub(crate) fn close(&self) {
        self.state().closed = true;
    }

    /// The driver ends, and leaves what the stack has counted.
    pub(crate) fn leave_statistics(&self, statistics: StackStatistics) {
        self.state().last_statistics = statistics;
    }

    /// What the driver left when it ended.
    pub(crate) fn last_statistics(&self) -> StackStatistics {
        self.state().last_statistics
    }

    /// No panic can happen while the lock is held that would leave the lists in disorder.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
