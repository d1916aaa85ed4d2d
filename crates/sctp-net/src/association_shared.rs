//! What the handles of an association and the worker that owns it share.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, OnceLock};

use sctp::ReceivedMessage;
use tokio::sync::Notify;

use crate::error::CloseCause;
use crate::inbox::Inbox;
use crate::keys::AssociationKey;
use crate::notifications::{Notification, NotificationQueue};
use crate::send_queue::{Ending, OutgoingMessage, SendQueue};
use crate::service_queue::ServiceQueue;

/// What the handles of an association and its worker share.
#[derive(Debug)]
pub(crate) struct AssociationShared {
    pub(crate) key: AssociationKey,
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
    pub(crate) peer_encapsulation_port: Option<u16>,
    pub(crate) max_message_size: usize,
    pub(crate) send_queue: SendQueue,
    pub(crate) inbox: Inbox<ReceivedMessage>,
    pub(crate) notifications: Arc<NotificationQueue>,
    outbound_streams: AtomicU16,
    cause: OnceLock<CloseCause>,
    ended: Notify,
    /// There is no receiver any more: the worker discards what arrives.
    released: AtomicBool,
    /// The worker has been asked for service, and has not begun it.
    service_requested: AtomicBool,
    service: Arc<ServiceQueue>,
}

/// The properties of an association when it comes up.
#[derive(Debug)]
pub(crate) struct AssociationParameters {
    pub(crate) key: AssociationKey,
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
    pub(crate) peer_encapsulation_port: Option<u16>,
    pub(crate) outbound_streams: u16,
    pub(crate) max_message_size: usize,
}

impl AssociationShared {
    pub(crate) fn new(parameters: AssociationParameters, service: Arc<ServiceQueue>) -> Self {
        Self {
            key: parameters.key,
            local: parameters.local,
            peer: parameters.peer,
            peer_encapsulation_port: parameters.peer_encapsulation_port,
            max_message_size: parameters.max_message_size,
            send_queue: SendQueue::new(),
            inbox: Inbox::new(),
            notifications: Arc::default(),
            outbound_streams: AtomicU16::new(parameters.outbound_streams),
            cause: OnceLock::new(),
            ended: Notify::new(),
            released: AtomicBool::new(false),
            service_requested: AtomicBool::new(false),
            service,
        }
    }

    /// Requests service of the worker, unless that has been done.
    pub(crate) fn request_service(&self) {
        if self.mark_requested() {
            self.service.request(self.key);
        }
    }

    /// The same where the caller wakes the worker later, or does its work. Returns whether there was no request yet.
    pub(crate) fn request_service_later(&self) -> bool {
        let is_new = self.mark_requested();
        if is_new {
            self.service.request_later(self.key);
        }
        is_new
    }

    /// The worker serves the association after this: what comes now needs another request.
    pub(crate) fn service_begins(&self) {
        self.service_requested.swap(false, Ordering::AcqRel);
    }

    fn mark_requested(&self) -> bool {
        !self.service_requested.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn end(&self, ending: Ending) {
        self.send_queue.end(ending);
        self.request_service_later();
        // Whoever has requested service before may have left the waking for later.
        self.service.wake();
    }

    pub(crate) fn outbound_streams(&self) -> u16 {
        self.outbound_streams.load(Ordering::Relaxed)
    }

    /// How the association has ended, if it has.
    pub(crate) fn close_cause(&self) -> Option<&CloseCause> {
        self.cause.get()
    }

    /// Waits until the association has ended.
    pub(crate) async fn closed(&self) -> CloseCause {
        loop {
            let ended = self.ended.notified();
            if let Some(cause) = self.cause.get() {
                return cause.clone();
            }
            ended.await;
        }
    }

    /// There is no receiver any more.
    pub(crate) fn release(&self) {
        self.released.store(true, Ordering::Release);
        self.end(Ending::Shutdown);
    }

    pub(crate) fn is_released(&self) -> bool {
        self.released.load(Ordering::Acquire)
    }

    pub(crate) fn set_outbound_streams(&self, streams: u16) {
        self.outbound_streams.store(streams, Ordering::Relaxed);
    }

    /// The worker reports a message that was accepted and can never be sent.
    pub(crate) fn notify_send_failed(&self, message: &OutgoingMessage) {
        self.notifications.push(Notification::SendFailed {
            info: message.info,
            payload: message.payload.clone(),
            was_sent: false,
        });
    }

    /// The worker reports that the association has ended.
    pub(crate) fn set_ended(&self, cause: CloseCause) {
        // The first cause is the true one.
        self.cause.set(cause).ok();
        for message in self.send_queue.close() {
            self.notify_send_failed(&message);
        }
        self.notifications.end();
        self.ended.notify_waiters();
    }
}

/// A new association on its way from the worker to the application.
#[derive(Debug)]
pub(crate) struct Established {
    pub(crate) shared: Arc<AssociationShared>,
    /// Missing where the association is to outlive its handles.
    pub(crate) guard: Option<ReleaseGuard>,
}

impl Established {
    pub(crate) fn new(shared: &Arc<AssociationShared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            guard: Some(ReleaseGuard::new(shared)),
        }
    }

    /// Lets the association outlive its handles.
    pub(crate) fn without_guard(mut self) -> Self {
        if let Some(mut guard) = self.guard.take() {
            guard.0 = None;
        }
        self
    }
}

/// Releases an association when it is dropped.
#[derive(Debug)]
pub(crate) struct ReleaseGuard(Option<Arc<AssociationShared>>);

impl ReleaseGuard {
    pub(crate) fn new(shared: &Arc<AssociationShared>) -> Self {
        Self(Some(Arc::clone(shared)))
    }
}

impl Drop for ReleaseGuard {
    fn drop(&mut self) {
        if let Some(shared) = &self.0 {
            shared.release();
        }
    }
}
