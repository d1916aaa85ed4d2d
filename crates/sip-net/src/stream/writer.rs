//! The half of a connection that writes what is queued.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::timeout;

use super::link::WRITE_BATCH;
use super::octets::would_block;
use super::outbox::Outbox;
use crate::connections::{Connection, Outgoing};
use crate::incoming::CloseReason;
use crate::shared::Shared;

/// Writes what is queued, and what those who write themselves had to leave.
pub(super) struct Writer<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) connection: &'a Connection,
    pub(super) outbox: &'a Outbox,
    pub(super) queue: mpsc::Receiver<Outgoing>,
    pub(super) batch: Vec<Outgoing>,
}

impl Writer<'_> {
    /// Writes until the queue is closed and empty, or the connection is to end, and tells why.
    /// Dropping the future loses nothing.
    pub(super) async fn run(&mut self) -> CloseReason {
        let stalled = self.shared.config.limits.stalled_write_timeout;
        let Outbox { link, .. } = self.outbox;
        loop {
            if !self.outbox.wants_write() {
                tokio::select! {
                    biased;
                    taken = self.queue.recv_many(&mut self.batch, WRITE_BATCH) => {
                        if taken == 0 {
                            return CloseReason::Local;
                        }
                        self.outbox.add(self.batch.drain(..));
                    }
                    () = link.unwritten() => {}
                }
            }
            match self.outbox.write(self.shared, self.connection) {
                Ok(()) => {}
                Err(error) if would_block(&error) => {
                    match timeout(stalled, link.socket().writable()).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => return CloseReason::Failed(error.to_string()),
                        Err(_) => return CloseReason::Stalled,
                    }
                }
                Err(error) => return CloseReason::Failed(error.to_string()),
            }
        }
    }
}
