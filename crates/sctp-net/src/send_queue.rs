//! Messages on their way from the application to the engine.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use sctp::SendInfo;
use tokio::sync::{MutexGuard as Turn, Semaphore, SemaphorePermit};

/// How many bytes of messages may wait for the driver. Beyond them, senders wait; the engine's
/// own send buffer is another bound behind this one.
const FULL_BYTES: usize = 64 * 1024;

/// What a message counts for besides its payload, so that tiny ones are bounded too.
const MESSAGE_BYTES: usize = 64;

/// Messages of one association on their way from senders to the engine. Senders that find no room
/// wait in a queue, first come first served.
#[derive(Debug)]
pub(crate) struct SendQueue {
    /// Its holder waits for room, the other senders wait for it. Without it, the first sender to run when
    /// there is room again would take all of that room, time and again.
    turn: tokio::sync::Mutex<()>,
    room: Semaphore,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<OutgoingMessage>,
    ending: Option<Ending>,
    closed: bool,
}

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutgoingMessage {
    pub(crate) info: SendInfo,
    pub(crate) payload: Bytes,
}

/// What the application wants done with its association.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// SHUTDOWN after the last message.
    Shutdown,
    /// ABORT at once, with this reason.
    Abort(Bytes),
}

/// A queue without messages.
#[derive(Debug)]
pub(crate) struct Emptied<'a> {
    _turn: Turn<'a, ()>,
    _room: SemaphorePermit<'a>,
}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PushError {
    /// There is no room now.
    Full,
    /// The association is ending or has ended.
    Ending,
}

impl SendQueue {
    pub(crate) fn new() -> Self {
        Self {
            turn: tokio::sync::Mutex::new(()),
            room: Semaphore::new(FULL_BYTES),
            state: Mutex::default(),
        }
    }

    /// Leaves a message, after waiting for room.
    pub(crate) async fn push(&self, message: OutgoingMessage) -> Result<(), PushError> {
        let permits = message.permits();
        let _turn = self.turn.lock().await;
        let permit = self.room.acquire_many(permits).await;
        permit.map_err(|_| PushError::Ending)?.forget();
        self.append(message)
    }

    /// Leaves a message if there is room.
    pub(crate) fn try_push(&self, message: OutgoingMessage) -> Result<(), PushError> {
        let permits = message.permits();
        let permit = self.room.try_acquire_many(permits);
        permit
            .map_err(|error| match error {
                tokio::sync::TryAcquireError::NoPermits => PushError::Full,
                tokio::sync::TryAcquireError::Closed => PushError::Ending,
            })?
            .forget();
        self.append(message)
    }

    /// Waits until the driver has taken all messages, and keeps further ones out until what comes back is dropped;
    /// `None` when no further one is taken anyway.
    pub(crate) async fn emptied(&self) -> Option<Emptied<'_>> {
        let turn = self.turn.lock().await;
        let room = self.room.acquire_many(FULL_BYTES as u32).await.ok()?;
        Some(Emptied {
            _turn: turn,
            _room: room,
        })
    }

    /// No further message is taken, and the driver ends the association. An abort overrules a
    /// shutdown.
    pub(crate) fn end(&self, ending: Ending) {
        self.room.close();
        let mut state = self.state();
        match ending {
            Ending::Shutdown => {
                state.ending.get_or_insert(ending);
            }
            Ending::Abort(_) => state.ending = Some(ending),
        }
    }

    /// No further message is taken: the association has ended. Gives back the messages that did not
    /// reach the driver, in their order.
    pub(crate) fn close(&self) -> VecDeque<OutgoingMessage> {
        self.room.close();
        let mut state = self.state();
        state.closed = true;
        std::mem::take(&mut state.messages)
    }

    /// The driver gives messages to `send` until it refuses one, which then stays first. Returns
    /// what the application wants done next: an abort at once, a shutdown when all is sent. What an
    /// abort leaves behind comes back from [`close`](Self::close).
    pub(crate) fn drain(&self, mut send: impl FnMut(&OutgoingMessage) -> bool) -> Option<Ending> {
        let mut state = self.state();
        if let Some(Ending::Abort(reason)) = &state.ending {
            return Some(Ending::Abort(reason.clone()));
        }
        while let Some(message) = state.messages.front() {
            if !send(message) {
                return None;
            }
            self.room.add_permits(message.permits() as usize);
            state.messages.pop_front();
        }
        state.ending.clone()
    }

    fn append(&self, message: OutgoingMessage) -> Result<(), PushError> {
        let mut state = self.state();
        if state.closed || state.ending.is_some() {
            return Err(PushError::Ending);
        }
        state.messages.push_back(message);
        Ok(())
    }

    /// No panic can happen while the lock is held that would leave the queue in disorder.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutgoingMessage {
    /// A message larger than the queue takes all of it.
    fn permits(&self) -> u32 {
        (self.payload.len() + MESSAGE_BYTES).min(FULL_BYTES) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: usize) -> OutgoingMessage {
        OutgoingMessage {
            info: SendInfo::default(),
            payload: vec![0; bytes].into(),
        }
    }

    #[tokio::test]
    async fn senders_wait_for_room_in_their_order() {
        let send_queue = std::sync::Arc::new(SendQueue::new());
        send_queue.push(message(FULL_BYTES * 2)).await.unwrap();
        assert_eq!(send_queue.try_push(message(1)), Err(PushError::Full));
        let waiting: Vec<_> = [40_000, 1]
            .map(|bytes| {
                let send_queue = std::sync::Arc::clone(&send_queue);
                tokio::spawn(async move { send_queue.push(message(bytes)).await })
            })
            .into();
        tokio::task::yield_now().await;

        assert_eq!(send_queue.drain(|_| true), None);
        for task in waiting {
            task.await.unwrap().unwrap();
        }
        let mut sizes = Vec::new();
        send_queue.drain(|message| {
            sizes.push(message.payload.len());
            true
        });
        assert_eq!(sizes, [40_000, 1]);
    }

    #[tokio::test]
    async fn what_waits_for_all_messages_is_before_those_that_come_later() {
        let send_queue = std::sync::Arc::new(SendQueue::new());
        send_queue.push(message(10)).await.unwrap();
        let waiting = tokio::spawn({
            let send_queue = std::sync::Arc::clone(&send_queue);
            async move {
                let emptied = send_queue.emptied().await;
                let refused = send_queue.try_push(message(1));
                drop(emptied);
                (refused, send_queue.try_push(message(2)))
            }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        send_queue.drain(|_| true);
        let results = waiting.await.unwrap();
        assert_eq!(results, (Err(PushError::Full), Ok(())));
        send_queue.end(Ending::Shutdown);
        assert!(send_queue.emptied().await.is_none());
    }

    #[tokio::test]
    async fn shutdown_comes_after_the_last_message() {
        let send_queue = SendQueue::new();
        send_queue.push(message(10)).await.unwrap();
        send_queue.end(Ending::Shutdown);
        assert_eq!(send_queue.push(message(1)).await, Err(PushError::Ending));
        assert_eq!(send_queue.try_push(message(1)), Err(PushError::Ending));
        assert_eq!(
            send_queue.drain(|_| false),
            None,
            "the engine has no room yet"
        );
        assert_eq!(send_queue.drain(|_| true), Some(Ending::Shutdown));
    }

    #[tokio::test]
    async fn abort_does_not_wait_for_messages() {
        let send_queue = SendQueue::new();
        send_queue.push(message(10)).await.unwrap();
        send_queue.end(Ending::Shutdown);
        send_queue.end(Ending::Abort("enough".into()));
        send_queue.end(Ending::Shutdown);
        let ending = send_queue.drain(|_| panic!("nothing is sent any more"));
        assert_eq!(ending, Some(Ending::Abort("enough".into())));
        assert_eq!(send_queue.close(), [message(10)]);
    }

    /// Whatever happens in whatever order, each message that was taken is sent or comes back.
    #[test]
    fn what_was_taken_is_sent_or_comes_back() {
        use rand::{RngExt, SeedableRng};
        for seed in 0..1000 {
            let mut rng = rand_chacha::ChaCha12Rng::seed_from_u64(seed);
            let send_queue = SendQueue::new();
            let mut accepted = Vec::new();
            let mut known = Vec::new();
            for context in 0..rng.random_range(0..60) {
                let mut outgoing = message(rng.random_range(1..20_000));
                outgoing.info.context = context;
                if send_queue.try_push(outgoing.clone()).is_ok() {
                    accepted.push(outgoing);
                }
                match rng.random_range(0..40) {
                    0 => send_queue.end(Ending::Shutdown),
                    1 => send_queue.end(Ending::Abort("enough".into())),
                    2 => known.extend(send_queue.close()),
                    3..10 => {
                        let mut room = rng.random_range(0..5);
                        send_queue.drain(|message| {
                            let takes = room > 0;
                            if takes {
                                room -= 1;
                                known.push(message.clone());
                            }
                            takes
                        });
                    }
                    _ => {}
                }
            }
            known.extend(send_queue.close());
            assert_eq!(known, accepted, "seed {seed}");
        }
    }
}
