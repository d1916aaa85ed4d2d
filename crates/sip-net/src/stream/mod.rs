//! SIP over streams of octets: TCP, TLS over TCP, WebSocket over either.
//!
//! A connection is one task: [`serve`], whose two halves, `reader` and `writer`, share a `link`,
//! which is what differs between the transports. `accept` and `open` make it from a socket. By the `outbox` others write to
//! it, too: the task is left what finds no room.

mod accept;
mod frames;
mod handshake;
mod link;
mod octets;
mod open;
mod outbox;
mod partial;
mod reader;
mod received;
mod websocket;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use sip::Flow;
use tokio::io::Interest;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::connections::{Connection, Outgoing, WayOut};
use crate::incoming::CloseReason;
use crate::shared::Shared;
use link::Link;
use reader::Reader;
use websocket::CloseCode;
use writer::Writer;

pub(crate) use accept::{StreamListener, accept, bind_workers};
pub(crate) use open::open;
pub(crate) use outbox::Outbox;
pub(crate) use partial::PartialMessages;
pub use websocket::WebSocketConfig;

/// How long a connection that is to end is kept for what is still on its way: the answer to a
/// message that broke the framing, queued messages, the peer's FIN.
const FAREWELL: Duration = Duration::from_secs(1);

/// Serves a connection from when messages can go over it until its end.
async fn serve(
    shared: Arc<Shared>,
    connection: Arc<Connection>,
    queue: mpsc::Receiver<Outgoing>,
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
    let outbox = Outbox::new(link, flow);
    let link = &outbox.link;
    connection.written_by(WayOut::Stream(outbox.clone()));
    connection.opened(flow);

    let mut reader = Reader::new(&shared, &connection, &outbox);
    let mut writer = Writer {
        shared: &shared,
        connection: &connection,
        outbox: &outbox,
        queue,
        batch: Vec::new(),
    };
    let mut reason = tokio::select! {
        reason = reader.run() => reason,
        reason = writer.run() => reason,
        reason = ping(&shared, link) => reason,
        () = shared.tasks.stopped() => CloseReason::Local,
        reason = connection.close_requested() => reason,
    };
    // What has come in part is of no more use, and what follows may take a while.
    drop(reader);
    shared.connections.retire(&connection);
    outbox.close();
    shared.not_answered(&mut outbox.take_asked()).await;
    if reason == CloseReason::Peer && link.can_be_half_closed() {
        reason = answer(&mut writer).await;
    }
    farewell(&mut writer, &reason).await;
    // And what was written meanwhile.
    shared.not_answered(&mut outbox.take_asked()).await;
    let Writer { queue, .. } = writer;
    let unsent = outbox.take_unsent();
    shared
        .connection_ended(&connection, queue, unsent, reason)
        .await;
}

/// Sends pings over a WebSocket from which nothing has come for a while, and ends when nothing has
/// come then either (RFC 7118 section 6). A browser that is gone is not noticed otherwise.
async fn ping(shared: &Shared, link: &Link) -> CloseReason {
    let interval = shared.config.websocket.ping_interval;
    if link.is_stream() || interval.is_zero() {
        return std::future::pending().await;
    }
    let mut received = link.received();
    loop {
        sleep_until(Instant::now() + interval).await;
        let now_received = link.received();
        if now_received == received {
            link.ping();
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
async fn answer(writer: &mut Writer<'_>) -> CloseReason {
    let Writer {
        shared,
        connection,
        outbox,
        ..
    } = *writer;
    connection.half_closed();
    tokio::select! {
        biased;
        () = async {
            outbox.unanswered.none().await;
            outbox.confirmed().await;
        } => CloseReason::Peer,
        reason = writer.run() => reason,
        // It had closed the other half too, and what was written was refused (RST): that and the rest take
        // another connection (RFC 3261 section 18.2.2).
        _ = outbox.link.socket().ready(Interest::ERROR) => CloseReason::Peer,
        () = sleep(shared.config.limits.half_closed_timeout) => CloseReason::Peer,
        () = shared.tasks.stopped() => CloseReason::Local,
        reason = connection.close_requested() => reason,
    }
}

/// Ends a connection so that what was sent arrives.
async fn farewell(writer: &mut Writer<'_>, reason: &CloseReason) {
    let link = &writer.outbox.link;
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
            writer.queue.close();
            let _ = timeout(FAREWELL, writer.run()).await;
        }
    }
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
