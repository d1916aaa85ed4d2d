//! The task of one association.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use sctp_net::Association;
use sip::Flow;
use tokio::sync::Notify;
use tokio::time::{sleep_until, timeout};

use crate::connections::{Connection, OpenedBy};
use crate::incoming::{CloseReason, SendError};
use crate::outbound::Outbound;

use super::association::{AssociationTask, Payload};
use super::secure::{Role, Secure};
use super::sender::AssociationSender;
use super::transport::SctpTransport;
use super::{messages, paths, records};

/// How long an association that is to end may take to send what is queued.
const FAREWELL: Duration = Duration::from_secs(1);

impl SctpTransport {
    /// Serves an association until it ends; with a role in TLS, secured by that.
    pub(super) async fn serve(
        &self,
        outbound: Arc<Outbound>,
        connection: Arc<Connection>,
        association: Association,
        role: Option<Role>,
    ) {
        // Opening it is no idleness.
        connection.activity.touch(Instant::now());
        let shown = self.associations.show(&connection, &association);
        let local = self.routes.specific(association.local(), connection.remote);
        let flow = Flow {
            transport: connection.transport,
            local,
            remote: connection.remote,
            connection: connection.id,
            stream: 0,
        };
        let payload = match role {
            Some(role) => {
                let secure = Secure::new(role, &association, &self.limits).await;
                Payload::Records(Box::new(secure))
            }
            None => {
                let (log, policy) = (self.log.clone(), self.stream_policy);
                let sender = AssociationSender::new(association.clone(), flow, log, policy);
                Payload::Messages(sender)
            }
        };
        let task = AssociationTask {
            sctp: self,
            outbound: &outbound,
            connection: &connection,
            flow,
            association: &association,
            payload,
            deadline_moved: Notify::new(),
            is_open: AtomicBool::new(false),
            awaits_first_message: AtomicBool::new(connection.opened_by == OpenedBy::Peer),
            first_message_by: Instant::now() + self.limits.first_message_timeout,
        };
        if let Payload::Messages(sender) = &task.payload {
            connection.flushed_by(sender.clone());
            task.opened();
        }
        let reason = tokio::select! {
            reason = receive(&task) => reason,
            reason = send(&task) => reason,
            reason = idle(&task) => reason,
            reason = paths::follow(&task, &shown) => reason,
            () = self.tasks.stopped() => CloseReason::Local,
            reason = connection.close_requested() => reason,
        };
        self.connections.retire(&connection);
        outbound.report_awaiting_response(&connection).await;
        farewell(&task, &reason).await;
        drop(shown);
        let was_open = task.is_open.load(Relaxed);
        let unsent = match task.payload {
            Payload::Messages(_) => None,
            Payload::Records(secure) => Some(secure.into_unsent()),
        };
        let unsent = unsent.into_iter().flatten();
        if was_open || connection.opened_by == OpenedBy::Peer {
            outbound.connection_ended(&connection, unsent, reason).await;
        } else {
            let error = match reason {
                CloseReason::Tls(problem) => SendError::Tls(problem),
                other => SendError::Sctp(other.to_string()),
            };
            for message in unsent {
                outbound.send_failed(connection.transport, message.transaction, error.clone());
            }
            outbound.connect_failed(&connection, &error);
        }
    }
}

/// Hands what comes to the user until the association ends, and tells why.
async fn receive(task: &AssociationTask<'_>) -> CloseReason {
    match &task.payload {
        Payload::Messages(_) => messages::receive(task).await,
        Payload::Records(secure) => records::receive(task, secure).await,
    }
}

/// Sends what is queued until the queue is closed and empty or the association ends.
async fn send(task: &AssociationTask<'_>) -> CloseReason {
    match &task.payload {
        Payload::Messages(sender) => messages::send(task, sender).await,
        Payload::Records(secure) => records::send(task, secure).await,
    }
}

/// Ends when nothing has gone over the association for long, or something else is overdue.
async fn idle(task: &AssociationTask<'_>) -> CloseReason {
    loop {
        let (due, _) = deadline(task);
        tokio::select! {
            () = sleep_until(due.into()) => {}
            () = task.deadline_moved.notified() => continue,
        }
        let (now_due, overdue) = deadline(task);
        if now_due <= due && !goes_on_without(task) {
            return overdue;
        }
    }
}

/// Whether what is overdue concerns a part of the association only, which is given up.
fn goes_on_without(task: &AssociationTask<'_>) -> bool {
    match &task.payload {
        Payload::Messages(_) => false,
        Payload::Records(secure) => secure.give_up_overdue(),
    }
}

/// When the peer must have sent something, and what becomes of the association otherwise.
fn deadline(task: &AssociationTask<'_>) -> (Instant, CloseReason) {
    let idle = task.connection.activity.last() + task.sctp.limits.idle_timeout;
    let first = task.awaits_first_message.load(Relaxed);
    let first = first.then_some((task.first_message_by, CloseReason::Silent));
    let of_tls = match &task.payload {
        Payload::Messages(_) => None,
        Payload::Records(secure) => secure.deadline(),
    };
    let all = first.into_iter().chain(of_tls);
    all.chain([(idle, CloseReason::Idle)])
        .min_by_key(|(by, _)| *by)
        .unwrap_or((idle, CloseReason::Idle))
}

/// Ends the association so that what was sent arrives.
async fn farewell(task: &AssociationTask<'_>, reason: &CloseReason) {
    let association = task.association;
    if association.close_cause().is_some() {
        return;
    }
    match reason {
        CloseReason::Stalled => return association.abort(b"the peer does not read"),
        CloseReason::Displaced => return association.abort(b"too many associations"),
        CloseReason::Failed(_) => return,
        CloseReason::Framing(_) => {
            // The user may answer what it could read (400, RFC 3261 section 18.3).
            let _ = timeout(FAREWELL, send(task)).await;
        }
        CloseReason::Tls(_) | CloseReason::Peer => {}
        _ => {
            task.connection.queue.close();
            let _ = timeout(FAREWELL, send(task)).await;
        }
    }
    if let Payload::Records(secure) = &task.payload {
        secure.close();
        let _ = timeout(FAREWELL, records::send_records(task, secure)).await;
    }
    let limit = task.sctp.limits.shutdown_timeout;
    if timeout(limit, association.shutdown()).await.is_err() {
        association.abort(b"shutdown took too long");
    }
}
