//! The half of a connection's task that sends what others had to leave.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::sender::StreamSender;
use crate::connections::Connection;
use crate::incoming::CloseReason;
use crate::outbound::Outbound;

/// Waits for room in the kernel's buffer for what is in the connection's queue.
pub(super) struct Writer<'a> {
    pub(super) outbound: &'a Arc<Outbound>,
    pub(super) connection: &'a Connection,
    pub(super) sender: &'a StreamSender,
    /// How long the peer may take nothing.
    pub(super) stalled_timeout: Duration,
}

impl Writer<'_> {
    /// Writes until the queue is closed and empty, or the connection is to end, and tells why.
    /// Dropping the future loses nothing.
    pub(super) async fn run(&self) -> CloseReason {
        let queue = &self.connection.queue;
        let link = &self.sender.link;
        loop {
            self.outbound.flush(self.connection);
            if let Some(failure) = self.sender.failure() {
                return CloseReason::Failed(failure);
            }
            if queue.is_blocked() {
                match timeout(self.stalled_timeout, link.socket().writable()).await {
                    Ok(Ok(())) => queue.unblock(),
                    Ok(Err(error)) => return CloseReason::Failed(error.to_string()),
                    Err(_) => return CloseReason::Stalled,
                }
            } else if queue.is_finished() && !link.wants_write() {
                return CloseReason::Local;
            } else {
                queue.woken().await;
            }
        }
    }
}
