//! The task of one association: a user message is a SIP message (RFC 4168).

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use sctp_net::{Association, CloseCause, SendInfo};
use sip::{Flow, Message};
use tokio::sync::mpsc;
use tokio::time::{sleep_until, timeout};

use crate::activity::Activity;
use crate::connections::{Connection, OpenedBy, Outgoing};
use crate::incoming::{CloseReason, MalformedReason, SendError};
use crate::keep_alive::{PONG, is_keep_alive, is_ping};
use crate::shared::{NobodyListens, Shared};
use crate::trace;

use super::paths;
use super::streams::Streams;

/// How long an association that is to end may take to send what is queued.
const FAREWELL: Duration = Duration::from_secs(1);

/// Serves an association until it ends.
pub(super) async fn serve(
    shared: Arc<Shared>,
    connection: Arc<Connection>,
    mut queue: mpsc::Receiver<Outgoing>,
    association: Association,
) {
    let _shown = shared.sctp.associations.show(&connection, &association);
    let carrier = Carrier {
        shared: &shared,
        connection: &connection,
        flow: flow_of(&shared, &connection, &association),
        association: &association,
        streams: Mutex::new(Streams::new(shared.config.stream_policy)),
        activity: Activity::new(),
        awaits_first_message: AtomicBool::new(connection.opened_by == OpenedBy::Peer),
        first_message_by: Instant::now() + shared.config.limits.first_message_timeout,
    };
    connection.opened(carrier.flow);

    let mut sending = None;
    let reason = tokio::select! {
        reason = carrier.receive() => reason,
        reason = carrier.send(&mut queue, &mut sending) => reason,
        reason = carrier.idle() => reason,
        () = paths::follow(&shared.connections, &connection, &association) => CloseReason::Local,
        () = shared.tasks.stopped() => CloseReason::Local,
        () = connection.close_requested() => CloseReason::Local,
    };
    shared.connections.retire(&connection);
    match reason {
        CloseReason::Local | CloseReason::Idle | CloseReason::Silent => {
            queue.close();
            let _ = timeout(FAREWELL, carrier.send(&mut queue, &mut sending)).await;
            let limit = shared.config.limits.shutdown_timeout;
            if timeout(limit, association.shutdown()).await.is_err() {
                association.abort(b"shutdown took too long");
            }
        }
        CloseReason::Stalled => association.abort(b"the peer does not read"),
        _ => {}
    }
    shared
        .connection_ended(&connection, queue, sending.into_iter(), reason)
        .await;
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

/// One association with what its task needs.
struct Carrier<'a> {
    shared: &'a Arc<Shared>,
    connection: &'a Connection,
    flow: Flow,
    association: &'a Association,
    /// No panic can happen while the lock is held.
    streams: Mutex<Streams>,
    activity: Activity,
    /// Whether the peer has yet to send its first message, by that time.
    awaits_first_message: AtomicBool,
    first_message_by: Instant,
}

impl Carrier<'_> {
    /// Hands what comes to the user until the association ends, and tells why.
    async fn receive(&self) -> CloseReason {
        while let Some(received) = self.association.receive().await {
            let now = Instant::now();
            self.activity.touch(now);
            let flow = Flow {
                stream: received.stream,
                ..self.flow
            };
            if self.take(flow, received.payload, now).await.is_err() {
                return CloseReason::Local;
            }
        }
        match self.association.closed().await {
            CloseCause::Shutdown => CloseReason::Peer,
            CloseCause::Lost(cause) => CloseReason::Failed(format!("{cause:?}")),
            CloseCause::StackClosed => CloseReason::Local,
        }
    }

    async fn take(&self, flow: Flow, payload: Bytes, now: Instant) -> Result<(), NobodyListens> {
        if is_keep_alive(&payload) {
            self.shared
                .counters(self.flow.transport)
                .keep_alives
                .increment();
            if is_ping(&payload) {
                self.pong(flow.stream);
            }
            return Ok(());
        }
        match Message::read(payload.clone()) {
            Ok(message) => {
                self.awaits_first_message.store(false, Relaxed);
                trace::received(&flow, &payload);
                self.shared.deliver(flow, message, now).await
            }
            // The next user message is one of its own: the association stays.
            Err(error) => {
                let reason = MalformedReason::Read(error);
                self.shared.deliver_malformed(flow, payload, reason).await
            }
        }
    }

    /// Answers a ping (RFC 5626 section 3.5.1). A peer whose queue is full gets something anyway.
    fn pong(&self, stream: u16) {
        let _ = self.connection.push(Outgoing {
            payload: Bytes::from_static(PONG),
            stream,
            call: 0,
            transaction: None,
            fallback: None,
            reserved: None,
        });
    }

    /// Sends what is queued until the queue is closed and empty or the association ends. What is
    /// taken from the queue is in `sending` until the association has it.
    async fn send(
        &self,
        queue: &mut mpsc::Receiver<Outgoing>,
        sending: &mut Option<Outgoing>,
    ) -> CloseReason {
        loop {
            if sending.is_none() {
                *sending = queue.recv().await;
            }
            let Some(outgoing) = sending.as_ref() else {
                return CloseReason::Local;
            };
            let info = self.send_info(outgoing);
            let stalled = self.shared.config.limits.stalled_write_timeout;
            let sent = timeout(
                stalled,
                self.association.send(info, outgoing.payload.clone()),
            )
            .await;
            let error = match sent {
                Ok(Ok(())) => None,
                Ok(Err(sctp_net::SendError::TooLarge)) => Some(SendError::TooLarge),
                // An association that ends is found by `receive`, which knows why.
                Ok(Err(
                    sctp_net::SendError::UnknownAssociation | sctp_net::SendError::ShuttingDown,
                )) => return std::future::pending().await,
                Ok(Err(error)) => Some(SendError::Sctp(error.to_string())),
                Err(_) => return CloseReason::Stalled,
            };
            let Some(outgoing) = sending.take() else {
                continue;
            };
            self.connection.popped(outgoing.payload.len());
            match error {
                None => {
                    self.activity.touch(Instant::now());
                    self.shared
                        .counters(self.flow.transport)
                        .messages_sent
                        .increment();
                }
                Some(error) => self.shared.not_sent(self.flow.transport, outgoing, error),
            }
        }
    }

    /// How a message is sent.
    fn send_info(&self, outgoing: &Outgoing) -> SendInfo {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.choose(outgoing, self.association.outbound_streams())
    }

    /// Ends when nothing has gone over the association for long, or the first message is overdue.
    async fn idle(&self) -> CloseReason {
        loop {
            let (deadline, overdue) = self.deadline();
            sleep_until(deadline.into()).await;
            if self.deadline().0 <= deadline {
                return overdue;
            }
        }
    }

    /// When the peer must have sent something, and what becomes of the association otherwise.
    fn deadline(&self) -> (Instant, CloseReason) {
        let idle = self.activity.last() + self.shared.config.limits.idle_timeout;
        if self.awaits_first_message.load(Relaxed) && self.first_message_by < idle {
            (self.first_message_by, CloseReason::Silent)
        } else {
            (idle, CloseReason::Idle)
        }
    }
}
