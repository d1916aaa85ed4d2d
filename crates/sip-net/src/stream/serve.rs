//! The task of a connection, from when messages can go over it until its end.

use std::sync::Arc;
use std::time::Duration;

use sip::Flow;
use tokio::io::Interest;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::link::Link;
use super::reader::Reader;
use super::sender::StreamSender;
use super::transport::StreamTransport;
use super::websocket::CloseCode;
use super::writer::Writer;
use crate::connections::Connection;
use crate::incoming::CloseReason;
use crate::outbound::Outbound;

/// How long a connection that is to end is kept for what is still on its way: the answer to a
/// message that broke the framing, queued messages, the peer's FIN.
pub(super) const FAREWELL: Duration = Duration::from_secs(1);

impl StreamTransport {
    /// Serves a connection from when messages can go over it until its end.
    pub(super) async fn serve(
        &self,
        outbound: Arc<Outbound>,
        connection: Arc<Connection>,
        link: Link,
    ) {
        // This fails only on a connection that has ended already, which reading will tell.
        let local = link.socket().local_addr().unwrap_or(connection.remote);
        let flow = Flow {
            transport: connection.transport,
            local,
            remote: connection.remote,
            connection: connection.id,
            stream: 0,
        };
        let sender = StreamSender::new(link, flow, self.log.clone());
        // Opening it is no idleness.
        connection.activity.touch(std::time::Instant::now());
        connection.flushed_by(sender.clone());
        connection.opened(flow);

        let mut reader = Reader::new(self, &connection, &sender);
        let writer = Writer {
            outbound: &outbound,
            connection: &connection,
            sender: &sender,
            stalled_timeout: self.limits.stalled_write_timeout,
        };
        let mut reason = tokio::select! {
            reason = reader.run() => reason,
            reason = writer.run() => reason,
            reason = self.ping(&connection, &sender.link) => reason,
            () = self.tasks.stopped() => CloseReason::Local,
            reason = connection.close_requested() => reason,
        };
        // What has come in part is of no more use, and what follows may take a while.
        drop(reader);
        self.connections.retire(&connection);
        outbound.report_awaiting_response(&connection).await;
        if reason == CloseReason::Peer && sender.link.can_be_half_closed() {
            reason = self.answer(&writer).await;
        }
        farewell(&writer, &reason).await;
        let unconfirmed = sender.take_unconfirmed().into_iter();
        outbound
            .connection_ended(&connection, unconfirmed, reason)
            .await;
    }

    /// Sends pings over a WebSocket from which nothing has come for a while, and ends when nothing has
    /// come then either (RFC 7118 section 6). A browser that is gone is not noticed otherwise.
    async fn ping(&self, connection: &Connection, link: &Link) -> CloseReason {
        let interval = self.websocket.ping_interval;
        if link.is_stream() || interval.is_zero() {
            return std::future::pending().await;
        }
        let mut received = link.received();
        loop {
            sleep_until(Instant::now() + interval).await;
            let now_received = link.received();
            if now_received == received {
                link.ping();
                connection.queue.wake();
                sleep(interval).await;
                if link.received() == received {
                    return CloseReason::NoPong;
                }
            }
            received = now_received;
        }
    }

    /// Goes on writing to a peer that has closed its half, and may wait for responses, until they have
    /// been acknowledged; tells why the connection ends.
    async fn answer(&self, writer: &Writer<'_>) -> CloseReason {
        let Writer {
            connection, sender, ..
        } = *writer;
        connection.half_closed();
        tokio::select! {
            biased;
            () = async {
                sender.unanswered.none().await;
                sender.confirmed().await;
            } => CloseReason::Peer,
            reason = writer.run() => reason,
            // It had closed the other half too, and what was written was refused (RST): that and the rest take
            // another connection (RFC 3261 section 18.2.2).
            _ = sender.link.socket().ready(Interest::ERROR) => CloseReason::Peer,
            () = sleep(self.limits.half_closed_timeout) => CloseReason::Peer,
            () = self.tasks.stopped() => CloseReason::Local,
            reason = connection.close_requested() => reason,
        }
    }
}

/// Ends a connection so that what was sent arrives.
async fn farewell(writer: &Writer<'_>, reason: &CloseReason) {
    let link = &writer.sender.link;
    match reason {
        CloseReason::Failed(_)
        | CloseReason::Stalled
        | CloseReason::NoPong
        | CloseReason::PartialMessages
        | CloseReason::Displaced => return,
        CloseReason::Framing(_) => {
            // The user may answer what it could read (400, RFC 3261 section 18.3).
            let _ = timeout(FAREWELL, async {
                tokio::select! {
                    _ = writer.run() => {}
                    () = link.discard() => {}
                }
            })
            .await;
        }
        CloseReason::Tls(_) | CloseReason::WebSocket(_) => {}
        CloseReason::Peer
        | CloseReason::Local
        | CloseReason::Idle
        | CloseReason::PartialMessage
        | CloseReason::Silent => {
            writer.connection.queue.close();
            let _ = timeout(FAREWELL, writer.run()).await;
        }
    }
    // What is sent from now on takes another connection.
    writer.connection.queue.close();
    let code = match reason {
        CloseReason::Peer | CloseReason::Idle => CloseCode::Normal,
        CloseReason::Local => CloseCode::Away,
        CloseReason::WebSocket(_) => CloseCode::Protocol,
        _ => CloseCode::Policy,
    };
    // Closing with octets unread would reset the connection and with it what the peer has not read
    // yet: first our FIN, then what still comes is thrown away until the peer's.
    if let Ok(Ok(())) = timeout(FAREWELL, link.close(code)).await {
        let _ = timeout(FAREWELL, link.discard()).await;
    }
}
