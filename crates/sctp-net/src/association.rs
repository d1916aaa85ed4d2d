//! Handles of associations.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use sctp::{
    AssociationConfig, AssociationStatistics, AssociationStatus, ConfigureError, PathConfig,
    PathError, ReceivedMessage, SendError, SendInfo,
};
use tokio::sync::oneshot;

use crate::association_shared::{AssociationShared, Established, ReleaseGuard};
use crate::error::CloseCause;
use crate::keys::AssociationKey;
use crate::mailbox::{Command, Control};
use crate::notifications::Notifications;
use crate::send_queue::{Emptied, Ending, OutgoingMessage, PushError};
use crate::stack_handle::{PortSource, StackHandle};

/// Names an association of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AssociationId {
    worker: usize,
    id: sctp::AssociationId,
}

impl AssociationId {
    /// Which of the stack's workers owns the association.
    pub fn worker(&self) -> usize {
        self.worker
    }
}

impl fmt::Display for AssociationId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.worker {
            0 => self.id.fmt(formatter),
            worker => write!(formatter, "{}.{worker}", self.id),
        }
    }
}

/// An association with a peer. Cheap to clone; all clones are the same association.
///
/// An association of an [`Endpoint`](crate::Endpoint) is shut down in good order when its last
/// handle is dropped, as a socket is when it is closed: what was sent is still delivered, what was
/// not received is discarded. An association of a [`OneToMany`](crate::OneToMany) endpoint lives on
/// without handles.
#[derive(Clone, Debug)]
pub struct Association {
    shared: Arc<AssociationShared>,
    stack: Arc<StackHandle>,
    _guard: Option<Arc<ReleaseGuard>>,
}

impl Association {
    pub(crate) fn new(established: Established, stack: Arc<StackHandle>) -> Self {
        Self {
            shared: established.shared,
            stack,
            _guard: established.guard.map(Arc::new),
        }
    }

    /// The association's name, which its endpoint never gives again.
    pub fn id(&self) -> AssociationId {
        let AssociationKey { worker, id, .. } = self.shared.key;
        AssociationId { worker, id }
    }

    /// The peer's address and SCTP port.
    pub fn peer(&self) -> SocketAddr {
        self.shared.peer
    }

    /// The peer's UDP encapsulation port when the association came up; `None` without
    /// encapsulation.
    pub fn peer_encapsulation_port(&self) -> Option<u16> {
        self.shared.peer_encapsulation_port
    }

    /// Our address, as far as it is known, and our SCTP port.
    pub fn local(&self) -> SocketAddr {
        self.shared.local
    }

    /// How many streams messages can be sent on; the first one is stream 0.
    pub fn outbound_streams(&self) -> u16 {
        self.shared.outbound_streams()
    }

    /// Sends a message. Waits while much is waiting to be sent already; those who wait go first
    /// come first served. A message is on its way when this returns, not at the peer. By the end of
    /// the association it has been acknowledged, or comes back as a
    /// [`Notification::SendFailed`](crate::Notification::SendFailed): also after an end in good order, if
    /// the peer began it while the message still waited here.
    ///
    /// Dropping the future before it is ready sends nothing.
    ///
    /// # Errors
    ///
    /// When the message can never be sent on this association, or the association is ending.
    pub async fn send(&self, info: SendInfo, payload: Bytes) -> Result<(), SendError> {
        self.check(info, &payload)?;
        let message = OutgoingMessage { info, payload };
        let result = self.shared.send_queue.push(message).await;
        self.after_push(result)
    }

    /// Sends a message without waiting.
    ///
    /// # Errors
    ///
    /// Those of [`send`](Self::send), and [`SendError::BufferFull`] where `send` would wait.
    pub fn try_send(&self, info: SendInfo, payload: Bytes) -> Result<(), SendError> {
        self.check(info, &payload)?;
        let message = OutgoingMessage { info, payload };
        let result = self.shared.send_queue.try_push(message);
        self.after_push(result)
    }

    /// Sends several messages without waiting, in their order, as many as there is room for. Tells how many, and why the
    /// next one was not sent, if there is one.
    ///
    /// They share packets (RFC 9260 section 6.10) and calls to the kernel, and leave before this returns where nobody
    /// else is at work with the stack, as far as the peer's window and the network allow.
    pub fn try_send_all(
        &self,
        messages: impl IntoIterator<Item = (SendInfo, Bytes)>,
    ) -> (usize, Option<SendError>) {
        let (count, refused, _flush) = self.queue_all(messages);
        (count, refused)
    }

    /// As [`try_send_all`](Self::try_send_all), but the messages leave when what is returned with the rest is dropped, by
    /// the same call to the kernel as those that have been given to other associations of the stack until then. What others
    /// send along the association meanwhile may wait for that, too.
    pub fn queue_all(
        &self,
        messages: impl IntoIterator<Item = (SendInfo, Bytes)>,
    ) -> (usize, Option<SendError>, FlushGuard) {
        let mut count = 0;
        let refused = messages.into_iter().find_map(|(info, payload)| {
            let pushed = self.check(info, &payload).and_then(|()| {
                let message = OutgoingMessage { info, payload };
                let pushed = self.shared.send_queue.try_push(message);
                pushed.map_err(|refused| self.send_error(refused))
            });
            match pushed {
                Ok(()) => {
                    count += 1;
                    None
                }
                Err(error) => Some(error),
            }
        });
        let mut flush = FlushGuard(None);
        if count > 0 && self.shared.request_service_later() {
            let AssociationKey { worker, .. } = self.shared.key;
            flush = FlushGuard(Some((Arc::clone(&self.stack), worker)));
        }
        (count, refused, flush)
    }

    /// Waits for the next message; `None` when the association has ended and all messages have been
    /// taken. Each message goes to one caller. What is not taken fills the window that the
    /// peer sees, and finally stops it.
    ///
    /// The messages of a one-to-many endpoint come from [`OneToMany::next`](crate::OneToMany::next)
    /// instead: here is only the end.
    pub async fn receive(&self) -> Option<ReceivedMessage> {
        let taken = self.shared.inbox.next().await?;
        if taken.driver_waits {
            self.shared.request_service();
        }
        Some(taken.item)
    }

    /// As [`receive`](Self::receive), for all messages that are there, which are appended to `messages`. Tells how many;
    /// 0 when the association has ended and all messages have been taken.
    pub async fn receive_all(&self, messages: &mut Vec<ReceivedMessage>) -> usize {
        let taken = self.shared.inbox.next_all(messages).await;
        if taken.driver_waits {
            self.shared.request_service();
        }
        taken.item
    }

    /// Ends the association in good order (RFC 9260 section 9.2): sends what is waiting, takes no
    /// further message, and returns how the association ended.
    pub async fn shutdown(&self) -> CloseCause {
        self.begin_shutdown();
        self.closed().await
    }

    /// Begins [`shutdown`](Self::shutdown) without waiting for its end.
    pub fn begin_shutdown(&self) {
        self.shared.end(Ending::Shutdown);
    }

    /// Ends the association at once (RFC 9260 section 9.1). `reason` goes to the peer.
    pub fn abort(&self, reason: &[u8]) {
        self.shared
            .end(Ending::Abort(Bytes::copy_from_slice(reason)));
    }

    /// Waits until the association has ended.
    pub async fn closed(&self) -> CloseCause {
        self.shared.closed().await
    }

    /// How the association has ended, if it has.
    pub fn close_cause(&self) -> Option<CloseCause> {
        self.shared.close_cause().cloned()
    }

    /// A snapshot (RFC 9260 section 11.1, STATUS); `None` when it has ended.
    pub async fn status(&self) -> Option<AssociationStatus> {
        let (reply, answer) = oneshot::channel();
        let key = self.shared.key;
        let worker = key.worker;
        self.stack
            .ask(worker, Command::Status { key, reply })
            .await?;
        answer.await.ok()?
    }

    /// The association's counters; `None` when it has ended.
    pub async fn statistics(&self) -> Option<AssociationStatistics> {
        let (reply, answer) = oneshot::channel();
        let key = self.shared.key;
        let command = Command::AssociationStatistics { key, reply };
        self.stack.ask(key.worker, command).await?;
        answer.await.ok()?
    }

    /// Makes the path to this address of the peer the primary one (RFC 9260 section 11.1.6).
    ///
    /// # Errors
    ///
    /// When the address is not one of the peer's or not confirmed yet, or the association has ended.
    pub async fn set_primary(&self, remote: IpAddr) -> Result<(), PathError> {
        self.control(Control::SetPrimary(remote)).await
    }

    /// Sends a HEARTBEAT to this address of the peer now (RFC 9260 section 11.1.10); a
    /// [`Notification`](crate::Notification) tells when it changes the state of the path.
    ///
    /// # Errors
    ///
    /// When the address is not one of the peer's, or the association has ended.
    pub async fn request_heartbeat(&self, remote: IpAddr) -> Result<(), PathError> {
        self.control(Control::RequestHeartbeat(remote)).await
    }

    /// Changes the settings of this association alone. Paths that were given settings of their own
    /// keep them.
    ///
    /// # Errors
    ///
    /// When the association has ended.
    pub async fn configure(&self, config: AssociationConfig) -> Result<(), ConfigureError> {
        let control = Control::Configure(Box::new(config));
        let done = self.control(control).await;
        done.map_err(|_| ConfigureError::UnknownAssociation)
    }

    /// Gives one path settings of its own, in place of those of the association.
    ///
    /// # Errors
    ///
    /// When the address is not one of the peer's, or the association has ended.
    pub async fn configure_path(
        &self,
        remote: IpAddr,
        config: PathConfig,
    ) -> Result<(), PathError> {
        let control = Control::ConfigurePath(remote, Box::new(config));
        self.control(control).await
    }

    /// The notifications of the association. All receivers share one queue:
    /// each notification goes to one of them.
    pub fn notifications(&self) -> Notifications {
        Notifications::new(Arc::clone(&self.shared.notifications))
    }

    /// Where the association is.
    pub(crate) fn key(&self) -> AssociationKey {
        self.shared.key
    }

    /// Whether it is one of the kernel's SCTP.
    pub(crate) fn is_of_kernel(&self) -> bool {
        matches!(self.stack.ports, PortSource::Kernel(_))
    }

    /// Waits until the engine has all that was sent, and keeps back what is sent further until what comes back is
    /// dropped.
    pub(crate) async fn all_taken(&self) -> Option<Emptied<'_>> {
        self.shared.send_queue.emptied().await
    }

    /// Hands a command to a worker; `None` when it has ended.
    pub(crate) async fn ask(&self, worker: usize, command: Command) -> Option<()> {
        self.stack.ask(worker, command).await
    }

    async fn control(&self, control: Control) -> Result<(), PathError> {
        let (reply, answer) = oneshot::channel();
        let command = Command::Control {
            key: self.shared.key,
            control,
            reply,
        };
        let gone = PathError::UnknownAssociation;
        let worker = self.shared.key.worker;
        self.stack.ask(worker, command).await.ok_or(gone)?;
        answer.await.map_err(|_| gone)?
    }

    /// The errors that are known without the engine.
    fn check(&self, info: SendInfo, payload: &Bytes) -> Result<(), SendError> {
        if self.shared.close_cause().is_some() {
            return Err(SendError::UnknownAssociation);
        }
        if info.stream >= self.outbound_streams() {
            return Err(SendError::InvalidStream);
        }
        if payload.is_empty() {
            return Err(SendError::Empty);
        }
        if payload.len() > self.shared.max_message_size {
            return Err(SendError::TooLarge);
        }
        Ok(())
    }

    fn after_push(&self, result: Result<(), PushError>) -> Result<(), SendError> {
        result.map_err(|refused| self.send_error(refused))?;
        self.shared.request_service();
        Ok(())
    }

    fn send_error(&self, refused: PushError) -> SendError {
        match refused {
            PushError::Full => SendError::BufferFull,
            PushError::Ending if self.shared.close_cause().is_some() => {
                SendError::UnknownAssociation
            }
            PushError::Ending => SendError::ShuttingDown,
        }
    }
}

/// Messages that leave when this is dropped; see [`Association::queue_all`].
#[derive(Debug)]
#[must_use = "the messages leave when it is dropped"]
pub struct FlushGuard(Option<(Arc<StackHandle>, usize)>);

impl Drop for FlushGuard {
    fn drop(&mut self) {
        if let Some((stack, worker)) = &self.0 {
            stack.serve(*worker);
        }
    }
}
