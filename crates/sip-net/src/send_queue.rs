//! The messages that wait to be sent on a connection or a UDP socket.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sctp_net::FlushGuard;
use sip::{ConnectionId, Transport};
use tokio::sync::Notify;

use crate::budget::QueueBudget;
use crate::incoming::SendError;
use crate::outbound_message::{OutboundMessage, SendFailure};

/// A connection or a UDP socket to send by.
pub(crate) trait Sink {
    fn id(&self) -> ConnectionId;

    fn transport(&self) -> Transport;

    /// Puts a message into the queue, to be [flushed](Sink::flush); gives it back with the reason where that fails.
    fn push(&self, message: OutboundMessage) -> Result<(), SendFailure>;

    /// Sends what is in the queue and there is room for, without waiting.
    fn flush(&self, flushed: &mut Flushed);
}

/// What is left to be done after queues were flushed, once none of them is locked.
#[derive(Debug, Default)]
pub(crate) struct Flushed {
    /// Messages that can never be sent.
    pub(crate) failed: Vec<SendFailure>,
    /// The user messages of associations leave when these are dropped: those of all associations of a stack by one call to
    /// the kernel.
    pub(crate) guards: Vec<FlushGuard>,
}

/// The messages that wait to be sent on a connection or a UDP socket, in their order. Every message goes through it.
///
/// Once the queue is [open](SendQueue::open), the thread that has pushed messages flushes them: it sends those that the
/// system has room for, without waiting and without waking the task of the connection. Then the queue is
/// [blocked](Flushing::block) until that task has found room again, so that nothing overtakes.
#[derive(Debug)]
pub(crate) struct SendQueue {
    state: Mutex<State>,
    budget: Arc<QueueBudget>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<OutboundMessage>,
    is_open: bool,
    is_blocked: bool,
    is_closed: bool,
}

/// The messages of a locked queue, to be sent. The lock is held while they are handed to the system and never while
/// something is waited for.
#[derive(Debug)]
pub(crate) struct Flushing<'a> {
    queue: &'a SendQueue,
    state: MutexGuard<'a, State>,
}

impl SendQueue {
    /// A queue whose messages wait for its task.
    pub(crate) fn new(budget: Arc<QueueBudget>) -> SendQueue {
        SendQueue {
            state: Mutex::default(),
            budget,
            wake: Notify::new(),
        }
    }

    /// From now on the thread that pushes messages flushes them.
    pub(crate) fn open(&self) {
        self.lock().is_open = true;
    }

    /// Puts a message behind all others; gives it back with the reason where that fails.
    pub(crate) fn push(&self, mut message: OutboundMessage) -> Result<(), SendFailure> {
        // It gives back what it may have in another queue.
        message.room = None;
        let mut state = self.lock();
        if state.is_closed {
            return Err(message.failed(SendError::Gone));
        }
        // What is flushed at once takes no room.
        if (!state.is_open || state.is_blocked) && !self.reserve(&mut message) {
            return Err(message.failed(SendError::QueueFull));
        }
        state.messages.push_back(message);
        Ok(())
    }

    /// Puts a message behind all others that is not flushed at once: the task is woken to send it.
    pub(crate) fn push_for_task(&self, mut message: OutboundMessage) -> Result<(), SendFailure> {
        if !self.reserve(&mut message) {
            return Err(message.failed(SendError::QueueFull));
        }
        let mut state = self.lock();
        if state.is_closed {
            return Err(message.failed(SendError::Gone));
        }
        state.messages.push_back(message);
        self.wake();
        Ok(())
    }

    /// Locks the messages, to send them; `None` while the queue is blocked.
    pub(crate) fn begin_flush(&self) -> Option<Flushing<'_>> {
        let state = self.lock();
        (!state.is_blocked).then_some(Flushing { queue: self, state })
    }

    /// Whether its task has to wait for room in the system.
    pub(crate) fn is_blocked(&self) -> bool {
        self.lock().is_blocked
    }

    /// The system may have room again.
    pub(crate) fn unblock(&self) {
        self.lock().is_blocked = false;
    }

    /// Looks at the first message.
    pub(crate) fn first<T>(&self, look: impl FnOnce(&OutboundMessage) -> T) -> Option<T> {
        self.lock().messages.front().map(look)
    }

    /// Takes the first message.
    pub(crate) fn pop_first(&self) -> Option<OutboundMessage> {
        self.lock().messages.pop_front()
    }

    /// Takes the first message, waiting for one; `None` when the queue is closed and empty. It keeps its room until it is
    /// dropped.
    pub(crate) async fn pop(&self) -> Option<OutboundMessage> {
        loop {
            {
                let mut state = self.lock();
                if let Some(message) = state.messages.pop_front() {
                    state.shrink();
                    return Some(message);
                }
                if state.is_closed {
                    return None;
                }
            }
            self.woken().await;
        }
    }

    /// Refuses messages from now on. Those that are there already can still be sent.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.wake();
    }

    /// Refuses messages from now on, and takes those that are there.
    pub(crate) fn take_all(&self) -> VecDeque<OutboundMessage> {
        self.close();
        std::mem::take(&mut self.lock().messages)
    }

    /// Whether everything was sent and no more comes.
    pub(crate) fn is_finished(&self) -> bool {
        let state = self.lock();
        state.is_closed && state.messages.is_empty()
    }

    /// Wakes the task of the connection or socket.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Ends when the task has been woken since the last time.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    fn reserve(&self, message: &mut OutboundMessage) -> bool {
        message.room = self.budget.reserve(message.payload.len());
        message.room.is_some()
    }

    /// No panic can happen while the lock is held that would leave the state in disorder.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flushing<'_> {
    /// Lets the first message, of which the peer has got a part, stay. Returns whether there is room for it, of which it may
    /// take more than others.
    pub(crate) fn keep_begun(&mut self) -> bool {
        let Some(first) = self.state.messages.front_mut() else {
            return true;
        };
        if first.room.is_none() {
            first.room = self.queue.budget.reserve_begun(first.payload.len());
        }
        first.room.is_some()
    }

    /// The system has no room: the task is woken to wait for that. What is left has to have room in the queue; messages
    /// without are added to `failed`.
    pub(crate) fn block(&mut self, failed: &mut Vec<SendFailure>) {
        self.state.is_blocked = true;
        for mut message in std::mem::take(&mut self.state.messages) {
            if message.room.is_some() || self.queue.reserve(&mut message) {
                self.state.messages.push_back(message);
            } else {
                failed.push(message.failed(SendError::QueueFull));
            }
        }
        self.queue.wake();
    }
}

impl Drop for Flushing<'_> {
    fn drop(&mut self) {
        self.state.shrink();
    }
}

impl State {
    /// A queue that was long once does not hold the memory of that for as long as its connection lives.
    fn shrink(&mut self) {
        if self.messages.is_empty() && self.messages.capacity() > KEPT_CAPACITY {
            self.messages = VecDeque::new();
        }
    }
}

/// For how many messages an empty queue holds memory.
const KEPT_CAPACITY: usize = 16;

impl Deref for Flushing<'_> {
    type Target = VecDeque<OutboundMessage>;

    fn deref(&self) -> &VecDeque<OutboundMessage> {
        &self.state.messages
    }
}

impl DerefMut for Flushing<'_> {
    fn deref_mut(&mut self) -> &mut VecDeque<OutboundMessage> {
        &mut self.state.messages
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::budget::Budget;

    fn queue(max_messages: usize, max_bytes: usize) -> SendQueue {
        let all = Budget::new(usize::MAX);
        SendQueue::new(QueueBudget::new(max_messages, max_bytes, all))
    }

    fn message(bytes: usize) -> OutboundMessage {
        let payload = Bytes::from(vec![b'x'; bytes]);
        OutboundMessage::new(payload, ([192, 0, 2, 1], 5060).into())
    }

    fn lengths(queue: &SendQueue) -> Vec<usize> {
        let messages = queue.take_all();
        messages
            .iter()
            .map(|message| message.payload.len())
            .collect()
    }

    #[test]
    fn what_is_flushed_at_once_takes_no_room() {
        let queue = queue(1, 10);
        queue.open();
        for bytes in [8, 9, 11] {
            queue.push(message(bytes)).expect("an open queue");
        }
        let mut flushing = queue.begin_flush().expect("not blocked");
        assert_eq!(flushing.drain(..).count(), 3);
    }

    #[tokio::test]
    async fn an_empty_queue_holds_little_memory() {
        let queue = queue(usize::MAX, usize::MAX);
        for _ in 0..1_000 {
            queue.push(message(1)).expect("room");
        }
        while queue.first(|_| ()).is_some() {
            queue.pop().await.expect("a message");
        }
        assert!(queue.lock().messages.capacity() <= KEPT_CAPACITY);
        for _ in 0..1_000 {
            queue.push(message(1)).expect("room");
        }
        queue.begin_flush().expect("not blocked").clear();
        assert!(queue.lock().messages.capacity() <= KEPT_CAPACITY);
    }

    #[test]
    fn what_the_system_has_no_room_for_is_bounded() {
        let queue = queue(2, 10);
        queue.open();
        for bytes in [12, 8, 9, 2] {
            queue.push(message(bytes)).expect("an open queue");
        }
        let mut failed = Vec::new();
        let mut flushing = queue.begin_flush().expect("not blocked");
        flushing.pop_front();
        flushing.block(&mut failed);
        drop(flushing);
        let refused: Vec<usize> = failed
            .iter()
            .map(|failure| failure.message.payload.len())
            .collect();
        assert_eq!(refused, [9]);
        assert!(
            failed
                .iter()
                .all(|failure| failure.error == SendError::QueueFull)
        );
        // Nothing overtakes what waits, and it is within the same bounds.
        assert!(queue.is_blocked() && queue.begin_flush().is_none());
        let failure = queue.push(message(1)).expect_err("two messages wait");
        assert_eq!(failure.error, SendError::QueueFull);
        queue.unblock();
        assert!(queue.begin_flush().is_some());
        assert_eq!(lengths(&queue), [8, 2]);
    }

    #[test]
    fn a_message_of_which_a_part_is_sent_stays() {
        let queue = queue(2, 10);
        queue.open();
        for bytes in [100, 1] {
            queue.push(message(bytes)).expect("an open queue");
        }
        let mut failed = Vec::new();
        let mut flushing = queue.begin_flush().expect("not blocked");
        assert!(flushing.keep_begun());
        flushing.block(&mut failed);
        drop(flushing);
        assert_eq!(failed.len(), 1);
        assert_eq!(lengths(&queue), [100]);
    }

    #[tokio::test]
    async fn a_closed_queue_is_emptied() {
        let queue = queue(2, 10);
        queue.push(message(3)).expect("room");
        queue.push_for_task(message(4)).expect("room");
        queue.close();
        let failure = queue.push(message(1)).expect_err("closed");
        assert_eq!(failure.error, SendError::Gone);
        assert!(!queue.is_finished());
        assert_eq!(
            queue.pop().await.map(|message| message.payload.len()),
            Some(3)
        );
        assert_eq!(
            queue.pop().await.map(|message| message.payload.len()),
            Some(4)
        );
        assert!(queue.pop().await.is_none());
        assert!(queue.is_finished());
    }
}
