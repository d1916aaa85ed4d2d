//! How the messages in a connection's queue are written.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sip::Flow;
use tcp_info::tcp_info;
use tokio::time::sleep;

use super::link::{Link, Written};
use super::octets::would_block;
use super::unanswered::Unanswered;
use crate::connections::{Connection, Flush};
use crate::message_log::MessageLog;
use crate::outbound_message::OutboundMessage;
use crate::send_queue::Flushed;

/// Writes the messages in a connection's queue, all that are there by one call to the kernel.
#[derive(Debug)]
pub(super) struct StreamSender {
    pub(super) link: Link,
    pub(super) flow: Flow,
    pub(super) unanswered: Unanswered,
    log: Arc<MessageLog>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// How many octets of the first message are written.
    written: usize,
    /// Responses written since the peer has closed its half, until it has acknowledged them: it may have closed the
    /// other one, too.
    unconfirmed: Vec<OutboundMessage>,
    /// How writing has failed: the connection's task ends the connection with it.
    failure: Option<String>,
}

impl Flush for StreamSender {
    fn flush(&self, connection: &Connection, flushed: &mut Flushed) {
        let Some(mut queue) = connection.queue.begin_flush() else {
            return;
        };
        let mut state = self.lock();
        let mut written = Ok(());
        while written.is_ok() && !queue.is_empty() {
            written = self.write_some(&mut queue, &mut state, connection);
        }
        if written.is_ok() && self.link.wants_write() {
            // What TLS and the WebSocket have taken they may keep until then.
            written = self.link.flush();
            if written.is_ok() {
                connection.activity.touch(Instant::now());
            }
        }
        if let Err(error) = written {
            let is_kept = state.written == 0 || queue.keep_begun();
            if !would_block(&error) {
                state.failure = Some(error.to_string());
            } else if !is_kept {
                state.failure = Some("no room for the rest of a message".to_owned());
            }
            queue.block(&mut flushed.failed);
        }
    }
}

impl StreamSender {
    pub(super) fn new(link: Link, flow: Flow, log: Arc<MessageLog>) -> Arc<StreamSender> {
        Arc::new(StreamSender {
            link,
            flow,
            unanswered: Unanswered::default(),
            log,
            state: Mutex::default(),
        })
    }

    /// How writing has failed.
    pub(super) fn failure(&self) -> Option<String> {
        self.lock().failure.clone()
    }

    /// Takes the messages that are written and not known to have arrived.
    pub(super) fn take_unconfirmed(&self) -> Vec<OutboundMessage> {
        mem::take(&mut self.lock().unconfirmed)
    }

    /// Ends when a peer that has closed its half has acknowledged all that was written.
    pub(super) async fn confirmed(&self) {
        let mut interval = CONFIRMATION;
        loop {
            {
                let mut state = self.lock();
                if state.unconfirmed.is_empty() {
                    return;
                }
                let info = tcp_info(self.link.socket().as_fd());
                // Where the kernel tells nothing, nothing is waited for.
                if !self.link.wants_write() && info.is_none_or(|info| info.is_acknowledged) {
                    state.unconfirmed.clear();
                    return;
                }
            }
            sleep(interval).await;
            interval = (interval * 2).min(LONGEST_CONFIRMATION);
        }
    }

    /// Writes as much as one call takes.
    fn write_some(
        &self,
        queue: &mut VecDeque<OutboundMessage>,
        state: &mut State,
        connection: &Connection,
    ) -> io::Result<()> {
        let written = self.link.write(queue, state.written)?;
        let now = Instant::now();
        let whole = match written {
            Written::Messages(count) => count,
            Written::Octets(length) => {
                state.written += length;
                let mut count = 0;
                for message in queue.iter() {
                    let bytes = message.payload.len();
                    if state.written < bytes {
                        break;
                    }
                    state.written -= bytes;
                    count += 1;
                }
                count
            }
        };
        let messages = || queue.iter().take(whole);
        connection.sent(now, messages());
        self.log
            .sent(self.flow.transport, messages(), |_| self.flow);
        for message in queue.drain(..whole) {
            self.unanswered.sent(&message);
            if connection.is_half_closed() {
                state.unconfirmed.push(message);
            }
        }
        Ok(())
    }

    /// No panic can happen while the lock is held that would leave the state in disorder.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How soon the kernel is asked again what has been acknowledged: after a usual round trip at first, then less often.
const CONFIRMATION: Duration = Duration::from_millis(10);
const LONGEST_CONFIRMATION: Duration = Duration::from_secs(1);
