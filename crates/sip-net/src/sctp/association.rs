//! One association: what the parts of its task share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use bytes::Bytes;
use sctp_net::{Association, CloseCause, SendInfo};
use sip::{Flow, Frame, Message};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::connections::{Connection, OpenedBy};
use crate::inbound::{ReceiverGone, WorkerQueues};
use crate::incoming::{CloseReason, MalformedReason, SendError};
use crate::outbound::Outbound;
use crate::outbound_message::OutboundMessage;

use super::secure::Secure;
use super::sender::{AssociationSender, Refused, why};
use super::transport::SctpTransport;

/// One association with what its task needs.
pub(super) struct AssociationTask<'a> {
    pub(super) sctp: &'a SctpTransport,
    pub(super) outbound: &'a Arc<Outbound>,
    pub(super) connection: &'a Connection,
    pub(super) flow: Flow,
    pub(super) association: &'a Association,
    pub(super) payload: Payload,
    /// Told when a nearer deadline may have come up.
    pub(super) deadline_moved: Notify,
    /// It can be used: with TLS, a handshake is over.
    pub(super) is_open: AtomicBool,
    /// Whether the peer has yet to send its first message, by that time.
    pub(super) awaits_first_message: AtomicBool,
    pub(super) first_message_by: Instant,
}

/// What user messages are.
pub(super) enum Payload {
    /// SIP messages, on streams that are chosen.
    Messages(Arc<AssociationSender>),
    /// TLS records.
    Records(Box<Secure>),
}

impl AssociationTask<'_> {
    /// Messages can be sent and received from now on.
    pub(super) fn opened(&self) {
        if !self.is_open.swap(true, Relaxed) {
            match (self.connection.opened_by, &self.payload) {
                (OpenedBy::Us, _) => {
                    let counters = self.sctp.log.counters(self.flow.transport);
                    counters.connections_opened.increment();
                }
                (OpenedBy::Peer, Payload::Records(_)) => {
                    self.sctp.connections.handshake_done(self.connection);
                }
                (OpenedBy::Peer, Payload::Messages(_)) => {}
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

    /// Hands a message that has come over a stream to its worker, or answers a ping. Tells where it is no message.
    pub(super) async fn take_frame(
        &self,
        queues: &WorkerQueues,
        stream: u16,
        frame: Frame,
        now: Instant,
    ) -> Result<Option<MalformedReason>, ReceiverGone> {
        let flow = self.flow_of_stream(stream);
        let note = |message: Option<&Message>| {
            if message.is_some() {
                self.awaits_first_message.store(false, Relaxed);
            }
        };
        let inbound = &self.sctp.inbound;
        inbound
            .frame(queues, self.connection, flow, frame, now, note)
            .await
    }

    /// The flow of what goes over a stream.
    pub(super) fn flow_of_stream(&self, stream: u16) -> Flow {
        Flow {
            stream,
            ..self.flow
        }
    }

    /// Gives a user message to the association. It may be refused, which is told; where the peer
    /// takes nothing for long, the association is to end.
    pub(super) async fn put(
        &self,
        info: SendInfo,
        payload: Bytes,
    ) -> Result<Option<SendError>, CloseReason> {
        let stalled = self.sctp.limits.stalled_write_timeout;
        let sent = timeout(stalled, self.association.send(info, payload)).await;
        match sent {
            Ok(Ok(())) => Ok(None),
            Ok(Err(error)) => match why(error) {
                Refused::Never(error) => Ok(Some(error)),
                // An association that ends is found where it is received from, which tells why.
                Refused::Ended => std::future::pending().await,
                Refused::Full => Ok(Some(SendError::QueueFull)),
            },
            Err(_) => Err(CloseReason::Stalled),
        }
    }

    /// A message has been given to the association, or was refused.
    pub(super) fn sent(&self, message: OutboundMessage, refused: Option<SendError>) {
        match refused {
            None => {
                let message = || std::iter::once(&message);
                self.connection.sent(Instant::now(), message());
                let log = &self.sctp.log;
                log.sent(self.flow.transport, message(), |_| self.flow);
            }
            Some(error) => {
                let failure = message.failed(error);
                self.outbound.not_sent(self.flow.transport, failure);
            }
        }
    }
}
