//! The two styles of RFC 6458, as the workers see them: where the associations and messages of an endpoint go.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sctp::ReceivedMessage;
use tokio::sync::oneshot;

use crate::association_shared::{AssociationShared, Established};
use crate::error::{CloseCause, ConnectError};
use crate::inbox::Inbox;

/// Where the caller of `connect` for an association waits for it.
pub(crate) type ConnectReply = oneshot::Sender<Result<Established, ConnectError>>;

/// Where the associations and messages of an endpoint go.
#[derive(Clone, Debug)]
pub(crate) enum Style {
    /// Each association is accepted, and its messages are read from it.
    OneToOne(Arc<AcceptInbox>),
    /// Everything goes to one inbox.
    OneToMany(Arc<EventInbox>),
}

impl Style {
    /// Hands an association that has come up to the caller of `connect`, if there is one, or else to
    /// those who accept. Returns the event for the inbox of a one-to-many endpoint, which may be locked right now.
    pub(crate) fn announce(
        &self,
        shared: Arc<AssociationShared>,
        reply: Option<ConnectReply>,
    ) -> Option<InboxEvent> {
        let established = Established::new(&shared);
        match (reply, self) {
            // When the caller of `connect` has gone, the guard comes back and shuts down.
            (Some(reply), _) => drop(reply.send(Ok(established))),
            (None, Style::OneToOne(accepts)) => {
                accepts.waiting.fetch_add(1, Ordering::Relaxed);
                accepts.inbox.push(established);
            }
            (None, Style::OneToMany(events)) => {
                drop(established.without_guard());
                events.waiting.fetch_add(1, Ordering::Relaxed);
                return Some(InboxEvent::Accepted(shared));
            }
        }
        None
    }

    /// How many new associations have not been taken yet.
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

/// The associations that wait to be accepted.
pub(crate) type AcceptInbox = CountedInbox<Established>;

/// The events that wait to be taken.
pub(crate) type EventInbox = CountedInbox<InboxEvent>;

/// An inbox that knows how many of its items are new associations, and how many workers fill it.
#[derive(Debug)]
pub(crate) struct CountedInbox<T> {
    pub(crate) inbox: Inbox<T>,
    pub(crate) waiting: AtomicUsize,
    workers: AtomicUsize,
}

/// An [`EndpointEvent`] before it has handles.
#[derive(Debug)]
pub(crate) enum InboxEvent {
    Accepted(Arc<AssociationShared>),
    Message(Arc<AssociationShared>, ReceivedMessage),
    Restarted(Arc<AssociationShared>),
    Closed(Arc<AssociationShared>, CloseCause),
}

impl<T> CountedInbox<T> {
    pub(crate) fn new(workers: usize) -> Arc<Self> {
        Arc::new(Self {
            inbox: Inbox::new(),
            waiting: AtomicUsize::new(0),
            workers: AtomicUsize::new(workers),
        })
    }

    /// A worker has nothing more for it; when none has, it ends.
    pub(crate) fn worker_finished(&self) {
        if self.workers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.inbox.end();
        }
    }
}
