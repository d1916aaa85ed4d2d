//! The half of a connection that writes what is queued.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use sip::Flow;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::link::{Link, WRITE_BATCH, Written};
use super::octets::would_block;
use crate::activity::Activity;
use crate::asked::Asked;
use crate::connections::{Connection, Outgoing};
use crate::incoming::CloseReason;
use crate::shared::Shared;
use crate::unanswered::Unanswered;

/// Writes what is queued.
pub(super) struct Writer<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) connection: &'a Connection,
    pub(super) flow: Flow,
    pub(super) queue: mpsc::Receiver<Outgoing>,
    pub(super) link: &'a Link,
    pub(super) activity: &'a Activity,
    pub(super) unanswered: &'a Unanswered,
    pub(super) asked: Asked,
    /// Taken from the queue and not wholly written; of the first one `written` bytes are.
    pub(super) pending: VecDeque<Outgoing>,
    pub(super) written: usize,
    pub(super) batch: Vec<Outgoing>,
}

impl Writer<'_> {
    /// Writes until the queue is closed and empty, or the connection is to end, and tells why.
    /// Dropping the future loses nothing.
    pub(super) async fn run(&mut self) -> CloseReason {
        let stalled = self.shared.config.limits.stalled_write_timeout;
        loop {
            if self.pending.is_empty() && !self.link.wants_write() {
                tokio::select! {
                    biased;
                    taken = self.queue.recv_many(&mut self.batch, WRITE_BATCH) => {
                        if taken == 0 {
                            return CloseReason::Local;
                        }
                        self.pending.extend(self.batch.drain(..));
                    }
                    () = self.link.unwritten() => {}
                }
            }
            let written = if self.pending.is_empty() {
                self.link.flush().map(|()| Instant::now())
            } else {
                let written = self.link.write(&self.pending, self.written);
                written.map(|written| {
                    let now = Instant::now();
                    self.advance(now, written);
                    now
                })
            };
            match written {
                Ok(now) => self.activity.touch(now),
                Err(error) if would_block(&error) => {
                    match timeout(stalled, self.link.socket().writable()).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => return CloseReason::Failed(error.to_string()),
                        Err(_) => return CloseReason::Stalled,
                    }
                }
                Err(error) => return CloseReason::Failed(error.to_string()),
            }
        }
    }

    /// So much has been written.
    fn advance(&mut self, now: Instant, written: Written) {
        match written {
            Written::Messages(count) => (0..count).for_each(|_| self.sent_first(now)),
            Written::Octets(length) => {
                self.written += length;
                while let Some(first) = self.pending.front() {
                    let bytes = first.payload.len();
                    if self.written < bytes {
                        break;
                    }
                    self.written -= bytes;
                    self.sent_first(now);
                }
            }
        }
    }

    /// The first message is written.
    fn sent_first(&mut self, now: Instant) {
        let Some(first) = self.pending.pop_front() else {
            return;
        };
        self.unanswered.sent(&first.payload);
        self.asked.sent(now, first.transaction);
        self.connection.popped(first.payload.len());
        self.shared.sent(&self.flow, &first.payload);
    }
}
