//! What goes out over a connection, and who writes it.

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
use crate::activity::Activity;
use crate::asked::Asked;
use crate::budget::Reservation;
use crate::connections::{Connection, Outgoing};
use crate::incoming::SendError;
use crate::shared::Shared;
use crate::unanswered::Unanswered;

/// A connection to those who send along it.
///
/// Whoever has messages for it writes them at once, all that it has in one call to the kernel, where nothing waits to be
/// written before them: that wakes nobody, be it that the connection belongs to another worker. What there is no room for
/// is left to the connection's task, behind which everything else queues then.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub(super) link: Link,
    pub(super) flow: Flow,
    pub(super) activity: Activity,
    pub(super) unanswered: Unanswered,
    /// Held while octets are handed to the kernel and never while something is waited for.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Whether others than the connection's task may write.
    is_open: bool,
    /// What is to be written; of the first one `written` bytes are.
    pending: VecDeque<Outgoing>,
    written: usize,
    asked: Asked,
    /// Responses written since the peer has closed its half, until it has acknowledged them: it may have closed the
    /// other one, too.
    unconfirmed: Vec<Outgoing>,
    /// What the kernel has said to somebody else than the connection's task, which ends the connection with it.
    failed: Option<io::Error>,
}

impl Outbox {
    pub(super) fn new(link: Link, flow: Flow) -> Arc<Outbox> {
        Arc::new(Outbox {
            link,
            flow,
            activity: Activity::new(),
            unanswered: Unanswered::default(),
            state: Mutex::new(State {
                is_open: true,
                pending: VecDeque::new(),
                written: 0,
                asked: Asked::default(),
                unconfirmed: Vec::new(),
                failed: None,
            }),
        })
    }

    /// Writes messages, or leaves to the connection's task what the kernel has no room for. Gives them back where they have
    /// to take the connection's queue: others wait before them, or it is about to end.
    pub(crate) fn send(
        &self,
        shared: &Arc<Shared>,
        connection: &Connection,
        messages: Vec<Outgoing>,
    ) -> Vec<Outgoing> {
        let mut state = self.lock();
        if !state.is_open || !state.pending.is_empty() || connection.has_queue() {
            return messages;
        }
        // Whatever of them the kernel takes a part of has to be kept.
        let longest = messages.iter().map(|outgoing| outgoing.payload.len()).max();
        let Some(reserved) = connection.room_for(longest.unwrap_or(0)) else {
            return messages;
        };
        state.pending = messages.into();
        for outgoing in &mut state.pending {
            // It is in no queue any more.
            outgoing.reserved = None;
        }
        let mut written = Ok(());
        while written.is_ok() && !state.pending.is_empty() {
            written = self.write_some(&mut state, shared, connection);
        }
        if written.is_ok() && self.link.wants_write() {
            // What a WebSocket has taken it may keep until then.
            written = self.link.flush();
        }
        if let Err(error) = written
            && !would_block(&error)
        {
            // The kernel tells it once.
            state.is_open = false;
            state.failed = Some(error);
        }
        let without_room = state.keep(connection, reserved);
        let is_left = state.wants_write();
        drop(state);
        if is_left || self.link.wants_write() {
            self.link.wake_writer();
        }
        for outgoing in without_room {
            shared.not_sent(self.flow.transport, outgoing, SendError::QueueFull);
        }
        Vec::new()
    }

    /// From now on nobody writes but the connection's task.
    pub(super) fn close(&self) {
        self.lock().is_open = false;
    }

    /// Takes messages that have waited in the connection's queue.
    pub(super) fn add(&self, messages: impl Iterator<Item = Outgoing>) {
        self.lock().pending.extend(messages);
    }

    /// Whether there is something to be written.
    pub(super) fn wants_write(&self) -> bool {
        self.lock().wants_write() || self.link.wants_write()
    }

    /// Writes as much as one call takes.
    ///
    /// # Errors
    /// `WouldBlock` where there is no room; what has failed when others wrote.
    pub(super) fn write(&self, shared: &Shared, connection: &Connection) -> io::Result<()> {
        let mut state = self.lock();
        match state.failed.take() {
            Some(error) => Err(error),
            None => self.write_some(&mut state, shared, connection),
        }
    }

    /// Takes what was asked along the connection.
    pub(super) fn take_asked(&self) -> Asked {
        mem::take(&mut self.lock().asked)
    }

    /// Takes what is not wholly written, and what is not known to have arrived.
    pub(super) fn take_unsent(&self) -> impl Iterator<Item = Outgoing> + use<> {
        let mut state = self.lock();
        let unconfirmed = mem::take(&mut state.unconfirmed);
        let pending = mem::take(&mut state.pending);
        unconfirmed.into_iter().chain(pending)
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

    fn write_some(
        &self,
        state: &mut State,
        shared: &Shared,
        connection: &Connection,
    ) -> io::Result<()> {
        if state.pending.is_empty() {
            self.link.flush()?;
            self.activity.touch(Instant::now());
            return Ok(());
        }
        let written = self.link.write(&state.pending, state.written)?;
        let now = Instant::now();
        let sent = |state: &mut State| self.sent_first(state, shared, connection, now);
        match written {
            Written::Messages(count) => (0..count).for_each(|_| sent(state)),
            Written::Octets(length) => {
                state.written += length;
                while let Some(first) = state.pending.front() {
                    let bytes = first.payload.len();
                    if state.written < bytes {
                        break;
                    }
                    state.written -= bytes;
                    sent(state);
                }
            }
        }
        self.activity.touch(now);
        Ok(())
    }

    /// The first message is written.
    fn sent_first(
        &self,
        state: &mut State,
        shared: &Shared,
        connection: &Connection,
        now: Instant,
    ) {
        let Some(first) = state.pending.pop_front() else {
            return;
        };
        self.unanswered.sent(&first.payload);
        state.asked.sent(now, first.transaction);
        if first.reserved.is_some() {
            connection.popped(first.payload.len());
        }
        shared.sent(&self.flow, &first.payload);
        if connection.is_half_closed() {
            state.unconfirmed.push(first);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How soon the kernel is asked again what has been acknowledged: after a usual round trip at first, then less often.
const CONFIRMATION: Duration = Duration::from_millis(10);
const LONGEST_CONFIRMATION: Duration = Duration::from_secs(1);

impl State {
    fn wants_write(&self) -> bool {
        !self.pending.is_empty() || self.failed.is_some()
    }

    /// Keeps what is left to be written as what has come by the connection's queue is kept, within the same bounds. Returns
    /// what there is no room for. `reserved` is for the first one, of which the peer may have a part.
    fn keep(&mut self, connection: &Connection, reserved: Reservation) -> Vec<Outgoing> {
        let mut left = mem::take(&mut self.pending).into_iter();
        if self.written > 0
            && let Some(mut begun) = left.next()
        {
            connection.queued(begun.payload.len());
            begun.reserved = Some(reserved);
            self.pending.push_back(begun);
        } else {
            // Whole messages have room of their own.
            drop(reserved);
        }
        let mut without_room = Vec::new();
        for mut outgoing in left {
            if connection.take_room(&mut outgoing) {
                self.pending.push_back(outgoing);
            } else {
                without_room.push(outgoing);
            }
        }
        without_room
    }
}
