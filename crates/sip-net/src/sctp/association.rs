//! The task of one association.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bytes::Bytes;
use sctp_net::{Association, CloseCause, SendInfo};
use sip::{Flow, Message};
use tokio::sync::{Notify, mpsc};
use tokio::time::{sleep_until, timeout};

use crate::connections::{Connection, OpenedBy, Outgoing, WayOut};
use crate::incoming::{CloseReason, MalformedReason, SendError};
use crate::keep_alive::PONG;
use crate::shared::{NobodyListens, Shared};
use crate::trace;

use super::outbox::{Outbox, Refused, why};
use super::paths;
use super::secure::{Role, Secure};

/// How long an association that is to end may take to send what is queued.
const FAREWELL: Duration = Duration::from_secs(1);

/// Serves an association until it ends; with a role in TLS, secured by that.
pub(super) async fn serve(
    shared: Arc<Shared>,
    connection: Arc<Connection>,
    mut queue: mpsc::Receiver<Outgoing>,
    association: Association,
    role: Option<Role>,
) {
    let shown = shared.sctp.associations.show(&connection, &association);
    let contents = match role {
        Some(role) => {
            let secure = Secure::new(role, &association, &shared.config.limits).await;
            Contents::Records(Box::new(secure))
        }
        None => Contents::Messages,
    };
    let flow = flow_of(&shared, &connection, &association);
    let carrier = Carrier {
        shared: &shared,
        connection: &connection,
        flow,
        association: &association,
        contents,
        outbox: Outbox::new(association.clone(), flow, shared.config.stream_policy),
        deadline_moved: Notify::new(),
        is_open: AtomicBool::new(false),
        awaits_first_message: AtomicBool::new(connection.opened_by == OpenedBy::Peer),
        first_message_by: Instant::now() + shared.config.limits.first_message_timeout,
    };
    if let Contents::Messages = carrier.contents {
        connection.written_by(WayOut::Sctp(carrier.outbox.clone()));
        carrier.opened();
    }
    let mut sending = None;
    let reason = tokio::select! {
        reason = carrier.receive() => reason,
        reason = carrier.send(&mut queue, &mut sending) => reason,
        reason = carrier.idle() => reason,
        reason = paths::follow(&carrier, &shown) => reason,
        () = shared.tasks.stopped() => CloseReason::Local,
        reason = connection.close_requested() => reason,
    };
    shared.connections.retire(&connection);
    carrier.outbox.close();
    shared.not_answered(&mut carrier.outbox.take_asked()).await;
    carrier.farewell(&mut queue, &mut sending, &reason).await;
    // And what was sent meanwhile.
    shared.not_answered(&mut carrier.outbox.take_asked()).await;
    drop(shown);
    let was_open = carrier.is_open.load(Relaxed);
    let unsent = carrier.into_unsent().chain(sending);
    if was_open || connection.opened_by == OpenedBy::Peer {
        shared
            .connection_ended(&connection, queue, unsent, reason)
            .await;
    } else {
        let error = match reason {
            CloseReason::Tls(problem) => SendError::Tls(problem),
            other => SendError::Sctp(other.to_string()),
        };
        for outgoing in unsent {
            shared.send_failed(connection.transport, outgoing.transaction, error.clone());
        }
        shared.connect_failed(&connection, queue, error).await;
    }
}

/// The way along the association.
fn flow_of(shared: &Shared, connection: &Connection, association: &Association) -> Flow {
    Flow {
        transport: connection.transport,
        local: shared
            .routes
            .specific(association.local(), connection.remote),
        remote: connection.remote,
        connection: connection.id,
        stream: 0,
    }
}

/// What user messages are.
pub(super) enum Contents {
    /// SIP messages, on streams that are chosen.
    Messages,
    /// TLS records.
    Records(Box<Secure>),
}

/// One association with what its task needs.
pub(super) struct Carrier<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) connection: &'a Connection,
    pub(super) flow: Flow,
    pub(super) association: &'a Association,
    pub(super) contents: Contents,
    pub(super) outbox: Arc<Outbox>,
    /// Told when a nearer deadline may have come up.
    pub(super) deadline_moved: Notify,
    /// It can be used: with TLS, a handshake is over.
    is_open: AtomicBool,
    /// Whether the peer has yet to send its first message, by that time.
    awaits_first_message: AtomicBool,
    first_message_by: Instant,
}

impl Carrier<'_> {
    /// Messages can be sent and received from now on.
    pub(super) fn opened(&self) {
        if !self.is_open.swap(true, Relaxed) {
            match (self.connection.opened_by, &self.contents) {
                (OpenedBy::Us, _) => {
                    let counters = self.shared.counters(self.flow.transport);
                    counters.connections_opened.increment();
                }
                (OpenedBy::Peer, Contents::Records(_)) => {
                    self.shared.connections.proved(self.connection);
                }
                (OpenedBy::Peer, Contents::Messages) => {}
            }
            self.connection.opened(self.flow);
        }
    }

    /// How the association has ended.
    pub(super) async fn ended(&self) -> CloseReason {
        match self.association.closed().await {
            CloseCause::Shutdown => CloseReason::Peer,
            CloseCause::Lost(cause) => CloseReason::Failed(format!("{cause:?}")),
            CloseCause::StackClosed => CloseReason::Local,
        }
    }

    /// The peer has sent a message.
    pub(super) fn has_heard(&self) {
        self.awaits_first_message.store(false, Relaxed);
    }

    /// Hands a message to the user. What is none is handed over as that, and its reason comes back.
    pub(super) async fn take_message(
        &self,
        flow: Flow,
        octets: Bytes,
        now: Instant,
    ) -> Result<Option<MalformedReason>, CloseReason> {
        match Message::read(octets.clone()) {
            Ok(message) => {
                self.has_heard();
                trace::received(&flow, &octets);
                let delivered = self.shared.deliver(flow, message, now).await;
                delivered.map_err(|NobodyListens| CloseReason::Local)?;
                Ok(None)
            }
            Err(error) => {
                let reason = MalformedReason::Read(error);
                self.take_malformed(flow, octets, reason).await?;
                Ok(Some(reason))
            }
        }
    }

    /// Hands octets that are no message to the user.
    pub(super) async fn take_malformed(
        &self,
        flow: Flow,
        octets: Bytes,
        reason: MalformedReason,
    ) -> Result<(), CloseReason> {
        let delivered = self.shared.deliver_malformed(flow, octets, reason).await;
        delivered.map_err(|NobodyListens| CloseReason::Local)
    }

    /// Counts a keep-alive and answers it where it is a ping (RFC 5626 section 3.5.1). A peer whose
    /// queue is full gets something anyway.
    pub(super) fn take_keep_alive(&self, stream: u16, is_ping: bool) {
        let counters = self.shared.counters(self.flow.transport);
        counters.keep_alives.increment();
        if is_ping {
            let _ = self.connection.push(Outgoing {
                payload: Bytes::from_static(PONG),
                stream,
                call: 0,
                transaction: None,
                fallback: None,
                reserved: None,
                is_last_resort: false,
            });
        }
    }

    /// Gives a user message to the association. It may be refused, which is told; where the peer
    /// takes nothing for long, the association is to end.
    pub(super) async fn put(
        &self,
        info: SendInfo,
        payload: Bytes,
    ) -> Result<Option<SendError>, CloseReason> {
        let stalled = self.shared.config.limits.stalled_write_timeout;
        let sent = timeout(stalled, self.association.send(info, payload)).await;
        match sent {
            Ok(Ok(())) => Ok(None),
            Ok(Err(error)) => match why(error) {
                Refused::Never(error) => Ok(Some(error)),
                // An association that ends is found by `receive`, which knows why.
                Refused::Ended => std::future::pending().await,
                Refused::Full => Ok(Some(SendError::QueueFull)),
            },
            Err(_) => Err(CloseReason::Stalled),
        }
    }

    /// A message from the queue has been given to the association, or was refused.
    pub(super) fn sent(&self, outgoing: Outgoing, refused: Option<SendError>) {
        self.connection.popped(outgoing.payload.len());
        match refused {
            None => self.outbox.sent(self.shared, &outgoing),
            Some(error) => self.shared.not_sent(self.flow.transport, outgoing, error),
        }
    }

    /// Hands what comes to the user until the association ends, and tells why.
    async fn receive(&self) -> CloseReason {
        match &self.contents {
            Contents::Messages => self.receive_messages().await,
            Contents::Records(secure) => self.receive_secure(secure).await,
        }
    }

    /// Sends what is queued until the queue is closed and empty or the association ends. What is
    /// taken from the queue is in `sending`, or with the sessions of TLS, until the association has
    /// it.
    async fn send(
        &self,
        queue: &mut mpsc::Receiver<Outgoing>,
        sending: &mut Option<Outgoing>,
    ) -> CloseReason {
        match &self.contents {
            Contents::Messages => self.send_messages(queue, sending).await,
            Contents::Records(secure) => self.send_secure(secure, queue).await,
        }
    }

    /// Ends when nothing has gone over the association for long, or something else is overdue.
    async fn idle(&self) -> CloseReason {
        loop {
            let (deadline, _) = self.deadline();
            tokio::select! {
                () = sleep_until(deadline.into()) => {}
                () = self.deadline_moved.notified() => continue,
            }
            let (now_due, overdue) = self.deadline();
            if now_due <= deadline && !self.goes_on_without() {
                return overdue;
            }
        }
    }

    /// Whether what is overdue concerns a part of the association only, which is given up.
    fn goes_on_without(&self) -> bool {
        match &self.contents {
            Contents::Messages => false,
            Contents::Records(secure) => secure.give_up_overdue(),
        }
    }

    /// When the peer must have sent something, and what becomes of the association otherwise.
    fn deadline(&self) -> (Instant, CloseReason) {
        let idle = self.outbox.activity.last() + self.shared.config.limits.idle_timeout;
        let first = self.awaits_first_message.load(Relaxed);
        let first = first.then_some((self.first_message_by, CloseReason::Silent));
        let of_tls = match &self.contents {
            Contents::Messages => None,
            Contents::Records(secure) => secure.deadline(),
        };
        let all = first.into_iter().chain(of_tls);
        all.chain([(idle, CloseReason::Idle)])
            .min_by_key(|(by, _)| *by)
            .unwrap_or((idle, CloseReason::Idle))
    }

    /// Ends the association so that what was sent arrives.
    async fn farewell(
        &self,
        queue: &mut mpsc::Receiver<Outgoing>,
        sending: &mut Option<Outgoing>,
        reason: &CloseReason,
    ) {
        if self.association.close_cause().is_some() {
            return;
        }
        match reason {
            CloseReason::Stalled => return self.association.abort(b"the peer does not read"),
            CloseReason::Displaced => return self.association.abort(b"too many associations"),
            CloseReason::Failed(_) => return,
            CloseReason::Framing(_) => {
                // The user may answer what it could read (400, RFC 3261 section 18.3).
                let _ = timeout(FAREWELL, self.send(queue, sending)).await;
            }
            CloseReason::Tls(_) | CloseReason::Peer => {}
            _ => {
                queue.close();
                let _ = timeout(FAREWELL, self.send(queue, sending)).await;
            }
        }
        if let Contents::Records(secure) = &self.contents {
            secure.close();
            let _ = timeout(FAREWELL, self.flush(secure)).await;
        }
        let limit = self.shared.config.limits.shutdown_timeout;
        if timeout(limit, self.association.shutdown()).await.is_err() {
            self.association.abort(b"shutdown took too long");
        }
    }

    /// What was taken from the queue and is not sent.
    fn into_unsent(self) -> impl Iterator<Item = Outgoing> {
        let secure = match self.contents {
            Contents::Messages => None,
            Contents::Records(secure) => Some(secure),
        };
        secure.into_iter().flat_map(|secure| secure.into_unsent())
    }
}
