//! SIP messages right in user messages (RFC 4168 section 5).

use std::time::Instant;

use crate::incoming::CloseReason;
use crate::keep_alive::whole_frame;

use super::association::AssociationTask;
use super::sender::AssociationSender;

/// Hands what comes to the user until the association ends, and tells why.
pub(super) async fn receive(task: &AssociationTask<'_>) -> CloseReason {
    let mut received = Vec::new();
    while task.association.receive_all(&mut received).await > 0 {
        let now = Instant::now();
        task.connection.activity.touch(now);
        // For as long as this takes the queues do not end.
        let Ok(queues) = task.sctp.inbound.queues() else {
            return CloseReason::Local;
        };
        for message in received.drain(..) {
            // However much has come, others get their turn.
            tokio::task::coop::consume_budget().await;
            let frame = whole_frame(message.payload);
            let handed = task.take_frame(&queues, message.stream, frame, now);
            // After octets that are no message the next user message is one of its own: the association stays.
            if handed.await.is_err() {
                return CloseReason::Local;
            }
        }
    }
    task.ended().await
}

/// Sends what others had to leave in the queue, until the queue is closed and empty or the association ends.
pub(super) async fn send(task: &AssociationTask<'_>, sender: &AssociationSender) -> CloseReason {
    let queue = &task.connection.queue;
    loop {
        task.outbound.flush(task.connection);
        if queue.is_blocked() {
            // While the queue is blocked, only this task takes messages from it.
            let first = queue.first(|message| (sender.choose(message), message.payload.clone()));
            if let Some((info, payload)) = first {
                let refused = match task.put(info, payload).await {
                    Ok(refused) => refused,
                    Err(reason) => return reason,
                };
                if let Some(message) = queue.pop_first() {
                    task.sent(message, refused);
                }
            }
            queue.unblock();
        } else if queue.is_finished() {
            return CloseReason::Local;
        } else {
            queue.woken().await;
        }
    }
}
