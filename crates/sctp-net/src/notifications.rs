//! Notifications of an association (RFC 6458 section 6.1).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use sctp::{
    AddressChange, AddressChangeRefusal, AuthenticationIndication, PathAddress, PathChange,
    PathState, ReConfigurationOutcome, SendInfo, StreamDirection,
};
use tokio::sync::Notify;

/// Something that happened to an association (RFC 6458 section 6.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notification {
    /// Something happened to a path (`SCTP_PEER_ADDR_CHANGE`).
    PathChanged {
        /// The path.
        path: PathAddress,
        /// What happened.
        change: PathChange,
        /// What its state is now.
        state: PathState,
    },
    /// The peer reported an error that does not end the association (`SCTP_REMOTE_ERROR`).
    RemoteError {
        /// The error causes as they came: code, length and value of each.
        causes: Bytes,
    },
    /// A message was not delivered, as far as we know (`SCTP_SEND_FAILED_EVENT`).
    SendFailed {
        /// How it was to be sent.
        info: SendInfo,
        /// The message, as far as it was not acknowledged.
        payload: Bytes,
        /// Whether some of it was sent: then the peer may have it, too.
        was_sent: bool,
    },
    /// The peer began to shut down: it takes no new messages (`SCTP_SHUTDOWN_EVENT`).
    PeerShutdown,
    /// The peer restarted (`SCTP_RESTART`): what was under way in either direction may be lost, and
    /// streams begin anew.
    Restarted {
        /// Streams that we may send on from now on.
        outbound_streams: u16,
        /// Streams that the peer may send on from now on.
        inbound_streams: u16,
    },
    /// Everything that was sent is acknowledged (`SCTP_SENDER_DRY_EVENT`). Only when
    /// [`AssociationConfig::sender_dry_events`](field@crate::AssociationConfig::sender_dry_events) asks for it.
    SenderDry,
    /// Something happened to the authentication of the association, or to one of its keys
    /// (`SCTP_AUTHENTICATION_EVENT`).
    Authentication(AuthenticationIndication),
    /// The peer has answered a change of our addresses that it was asked for (RFC 5061).
    AddressChangeAnswered {
        /// The change.
        change: AddressChange,
        /// Whether it has come about.
        outcome: Result<(), AddressChangeRefusal>,
    },
    /// The peer has an adaptation layer above SCTP, and says which (`SCTP_ADAPTATION_INDICATION`, RFC 5061
    /// section 4.2.6).
    AdaptationLayer {
        /// Adaptation Code Point.
        code_point: u32,
    },
    /// Streams were reset at the peer's request or ours, or the peer refused that
    /// (`SCTP_STREAM_RESET_EVENT`, RFC 6525 section 6.1.1).
    StreamReset {
        /// Which way they lead.
        direction: StreamDirection,
        /// The streams; all of that direction when there is none.
        streams: Vec<u16>,
        /// What came of it.
        outcome: ReConfigurationOutcome,
    },
    /// All SSNs and TSNs begin anew at the peer's request or ours, or the peer refused that
    /// (`SCTP_ASSOC_RESET_EVENT`, RFC 6525 section 6.1.2).
    AssociationReset {
        /// The TSN of our next DATA chunk.
        local_tsn: u32,
        /// The TSN of the peer's next DATA chunk.
        remote_tsn: u32,
        /// What came of it.
        outcome: ReConfigurationOutcome,
    },
    /// Streams were added at the peer's request or ours, or the peer refused that
    /// (`SCTP_STREAM_CHANGE_EVENT`, RFC 6525 section 6.1.3).
    StreamChange {
        /// Streams that we may send on from now on.
        outbound_streams: u16,
        /// Streams that the peer may send on from now on.
        inbound_streams: u16,
        /// What came of it.
        outcome: ReConfigurationOutcome,
    },
    /// The rest of a message of which a part was received will not come
    /// (`SCTP_PARTIAL_DELIVERY_EVENT`).
    PartialDeliveryAborted {
        /// The message's stream.
        stream: u16,
        /// Whether it was sent without regard to order.
        unordered: bool,
        /// Its stream sequence number; without meaning when `unordered`.
        ssn: u16,
    },
}

/// The [`Notification`]s of an association, in their order. Each goes to one receiver.
///
/// At most [`Notifications::BACKLOG`] bytes of them wait; when they are not taken the oldest are dropped
/// and counted. What happened before the first receiver was made is there as far as its last
/// [`Notifications::EARLY`] bytes, but for [`Notification::SendFailed`], which nobody wanted then.
#[derive(Clone, Debug)]
pub struct Notifications {
    queue: Arc<NotificationQueue>,
}

impl Notifications {
    /// How much may wait, in bytes: the messages and error causes in it, and [`Notifications::EACH`]
    /// for each notification. Enough for the messages of a full send buffer, even small ones.
    pub const BACKLOG: usize = 16 << 20;
    /// How much is kept while there is no receiver yet, in bytes counted so.
    pub const EARLY: usize = 4096;
    /// What a notification counts besides the message or error causes in it, in bytes.
    pub const EACH: usize = 128;

    pub(crate) fn new(queue: Arc<NotificationQueue>) -> Self {
        queue.wanted.store(true, Ordering::Release);
        Self { queue }
    }

    /// Waits for the next notification; `None` when the association has ended and all have been
    /// taken.
    pub async fn next(&self) -> Option<Notification> {
        loop {
            let changed = self.queue.changed.notified();
            {
                let mut state = self.queue.state();
                if let Some(notification) = state.take() {
                    return Some(notification);
                }
                if state.ended {
                    return None;
                }
            }
            changed.await;
        }
    }

    /// How many notifications were dropped because too many waited.
    pub fn missed(&self) -> u64 {
        self.queue.state().missed
    }
}

/// What waits to be taken by [`Notifications`].
#[derive(Debug, Default)]
pub(crate) struct NotificationQueue {
    state: Mutex<State>,
    changed: Notify,
    /// The application has asked for notifications.
    wanted: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Notification>,
    /// The sizes of those that wait.
    bytes: usize,
    missed: u64,
    ended: bool,
}

impl State {
    fn take(&mut self) -> Option<Notification> {
        let notification = self.waiting.pop_front()?;
        self.bytes -= size(&notification);
        Some(notification)
    }

    /// `false` when there is none.
    fn drop_oldest(&mut self) -> bool {
        let dropped = self.take().is_some();
        self.missed += u64::from(dropped);
        dropped
    }
}

/// What a notification holds, in bytes.
fn size(notification: &Notification) -> usize {
    let carried = match notification {
        Notification::RemoteError { causes } => causes.len(),
        Notification::SendFailed { payload, .. } => payload.len(),
        Notification::StreamReset { streams, .. } => size_of_val(&streams[..]),
        _ => 0,
    };
    Notifications::EACH + carried
}

impl NotificationQueue {
    /// Appends a notification.
    pub(crate) fn push(&self, notification: Notification) {
        let wanted = self.wanted.load(Ordering::Acquire);
        if !wanted && matches!(notification, Notification::SendFailed { .. }) {
            return;
        }
        let bound = if wanted {
            Notifications::BACKLOG
        } else {
            Notifications::EARLY
        };
        let size = size(&notification);
        let mut state = self.state();
        if size > bound {
            state.missed += 1;
            return;
        }
        while state.bytes + size > bound && state.drop_oldest() {}
        state.bytes += size;
        state.waiting.push_back(notification);
        drop(state);
        self.changed.notify_one();
    }

    /// Nothing more will come.
    pub(crate) fn end(&self) {
        self.state().ended = true;
        self.changed.notify_waiters();
    }

    /// No panic can happen while the lock is held that would leave the queue in disorder.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(number: u8) -> Notification {
        let causes = Bytes::copy_from_slice(&[number]);
        Notification::RemoteError { causes }
    }

    #[tokio::test]
    async fn early_ones_are_kept_within_bounds_and_the_end_is_told() {
        let queue = Arc::new(NotificationQueue::default());
        let fit = (Notifications::EARLY / (Notifications::EACH + 1)) as u8;
        for number in 0..fit + 4 {
            queue.push(error(number));
        }
        let notifications = Notifications::new(Arc::clone(&queue));
        assert_eq!(notifications.missed(), 4);
        for number in 4..fit + 4 {
            assert_eq!(notifications.next().await, Some(error(number)));
        }
        queue.push(Notification::PeerShutdown);
        queue.end();
        let last = notifications.next().await;
        assert_eq!(last, Some(Notification::PeerShutdown));
        assert_eq!(notifications.next().await, None);
    }

    #[tokio::test]
    async fn what_peers_report_holds_no_more_than_the_bound_says() {
        let queue = Arc::new(NotificationQueue::default());
        queue.push(error(1));
        let causes = Bytes::from(vec![0; 60_000]);
        let large = Notification::RemoteError { causes };
        queue.push(large.clone());
        let notifications = Notifications::new(Arc::clone(&queue));
        assert_eq!(notifications.missed(), 1, "too large to be kept early");
        assert_eq!(notifications.next().await, Some(error(1)));
        for _ in 0..1000 {
            queue.push(large.clone());
        }
        let kept = Notifications::BACKLOG / (Notifications::EACH + 60_000);
        assert_eq!(notifications.missed(), 1 + 1000 - kept as u64);
    }

    #[tokio::test]
    async fn messages_not_sent_are_kept_for_who_wants_them() {
        let queue = Arc::new(NotificationQueue::default());
        let failed = Notification::SendFailed {
            info: SendInfo::default(),
            payload: Bytes::from_static(b"lost"),
            was_sent: false,
        };
        queue.push(failed.clone());
        let notifications = Notifications::new(Arc::clone(&queue));
        queue.push(failed.clone());
        queue.end();
        assert_eq!(notifications.next().await, Some(failed));
        assert_eq!(notifications.next().await, None);
        assert_eq!(notifications.missed(), 0);
    }
}
