//! The end of a connection: its messages take another way, the workers are told.

use std::sync::Arc;

use crate::connections::Connection;
use crate::incoming::{CloseReason, Incoming, SendError};
use crate::outbound::Outbound;
use crate::outbound_message::{OutboundMessage, OwnedTransaction};
use crate::statistics::Counters;

impl Outbound {
    /// The end of every connection: out of the table, what was not sent takes another way, then its end is reported.
    /// `unsent` were taken out of its queue.
    pub(crate) async fn connection_ended(
        self: &Arc<Self>,
        connection: &Connection,
        unsent: impl Iterator<Item = OutboundMessage>,
        reason: CloseReason,
    ) {
        let transport = connection.transport;
        // Counted first, so that the reason is there as soon as the connection is gone.
        count(self.log.counters(transport), &reason);
        self.connections.remove(connection);
        connection.failed(SendError::Gone);
        for message in unsent.chain(connection.queue.take_all()) {
            self.not_sent(transport, message.failed(SendError::Gone));
        }
        self.report_awaiting_response(connection).await;
        tracing::debug!(%transport, remote = %connection.remote, %reason, "connection closed");
        self.report_closed(connection, reason).await;
    }

    /// The end of a connection that was never open.
    pub(crate) fn connect_failed(self: &Arc<Self>, connection: &Connection, error: &SendError) {
        let transport = connection.transport;
        self.connections.remove(connection);
        connection.failed(error.clone());
        let counters = self.log.counters(transport);
        counters.connects_failed.increment();
        tracing::debug!(%transport, remote = %connection.remote, %error, "not connected");
        for message in connection.queue.take_all() {
            self.not_sent(transport, message.failed(error.clone()));
        }
    }

    /// A connection is gone by which requests went: no response comes by it any more (RFC 3261 section 18.4).
    pub(crate) async fn report_awaiting_response(&self, connection: &Connection) {
        for OwnedTransaction { worker, key } in connection.take_awaiting_response() {
            let event = Incoming::SendFailed {
                transaction: key,
                error: SendError::Gone,
            };
            self.inbound.report(worker, event).await;
        }
    }

    /// Tells every worker which names the certificate of a connection's peer has proved.
    pub(crate) async fn report_names(&self, connection: &Connection, mut names: Vec<Box<str>>) {
        tracing::debug!(remote = %connection.remote, ?names, "certificate");
        names.truncate(MAXIMUM_NAMES);
        let names: Arc<[Box<str>]> = names.into();
        connection.set_names(names.clone());
        for worker in 0..self.inbound.workers() {
            let event = Incoming::ConnectionIdentified {
                connection: connection.id,
                names: names.clone(),
            };
            self.inbound.report(worker, event).await;
        }
    }

    async fn report_closed(&self, connection: &Connection, reason: CloseReason) {
        for worker in 0..self.inbound.workers() {
            let event = Incoming::ConnectionClosed {
                connection: connection.id,
                transport: connection.transport,
                remote: connection.remote,
                reason: reason.clone(),
            };
            if !self.inbound.report(worker, event).await {
                let counters = self.log.counters(connection.transport);
                counters.reports_dropped.increment();
            }
        }
    }
}

fn count(counters: &Counters, reason: &CloseReason) {
    match reason {
        CloseReason::PartialMessage => counters.partial_message_timeouts.increment(),
        CloseReason::PartialMessages => counters.partial_messages_given_up.increment(),
        CloseReason::Displaced => counters.connections_displaced.increment(),
        CloseReason::Silent => counters.first_message_timeouts.increment(),
        CloseReason::Idle => counters.idle_timeouts.increment(),
        CloseReason::Stalled => counters.stalled_write_timeouts.increment(),
        CloseReason::NoPong => counters.unanswered_pings.increment(),
        _ => {}
    }
}

/// How many names of a certificate are told.
const MAXIMUM_NAMES: usize = 64;
