//! Messages and events on their way from the driver to the application.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The driver stops filling an inbox that holds this many bytes.
///
/// What lies here has left the engine, so the peer's window does not show it: the bound keeps the
/// window honest, and is large enough that the application is not woken for each message.
const FULL_BYTES: usize = 64 * 1024;

/// The driver is told that there is room again when an inbox that was full has fallen to this.
const ROOM_BYTES: usize = FULL_BYTES / 2;

/// What an item counts for besides its payload, so that tiny ones are bounded too.
const ITEM_BYTES: usize = 64;

/// A queue bounded in bytes, which is filled by the driver and emptied by the application.
#[derive(Debug)]
pub(crate) struct Inbox<T> {
    state: Mutex<State<T>>,
    changed: Notify,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<(T, usize)>,
    bytes: usize,
    full: bool,
    ended: bool,
}

/// How far [`Inbox::fill`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    /// The source had no more.
    Exhausted,
    /// The inbox is full; the one who makes room again learns that the driver waits.
    Full,
}

/// What [`Inbox::next`] took, or how many [`Inbox::next_all`] did.
#[derive(Debug)]
pub(crate) struct Taken<T> {
    pub(crate) item: T,
    /// The driver found the inbox full and waits to be told that there is room again.
    pub(crate) driver_waits: bool,
}

impl<T> Inbox<T> {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                items: VecDeque::new(),
                bytes: 0,
                full: false,
                ended: false,
            }),
            changed: Notify::new(),
        }
    }

    /// Appends an item whatever the inbox holds.
    pub(crate) fn push(&self, item: T) {
        self.state().push(item, 0);
        self.changed.notify_one();
    }

    /// Takes items and the bytes of their payloads from `source` until it has no more or the
    /// inbox is full.
    pub(crate) fn fill(&self, mut source: impl FnMut() -> Option<(T, usize)>) -> Filled {
        let mut state = self.state();
        loop {
            if state.bytes >= FULL_BYTES {
                state.full = true;
                return Filled::Full;
            }
            let Some((item, bytes)) = source() else {
                return Filled::Exhausted;
            };
            state.push(item, bytes);
            self.changed.notify_one();
        }
    }

    /// Nothing more will come.
    pub(crate) fn end(&self) {
        self.state().ended = true;
        self.changed.notify_waiters();
    }

    /// Drops what has not been taken.
    pub(crate) fn clear(&self) {
        let items = {
            let mut state = self.state();
            state.bytes = 0;
            std::mem::take(&mut state.items)
        };
        drop(items);
    }

    /// Waits for the next item; `None` when the inbox is empty and has ended.
    pub(crate) async fn next(&self) -> Option<Taken<T>> {
        loop {
            let changed = self.changed.notified();
            {
                let mut state = self.state();
                if let Some(taken) = state.take() {
                    return Some(taken);
                }
                if state.ended {
                    return None;
                }
            }
            changed.await;
        }
    }

    /// Waits until there are items and appends all of them to `taken`. Tells how many; none when the inbox is empty and
    /// has ended.
    pub(crate) async fn next_all(&self, taken: &mut Vec<T>) -> Taken<usize> {
        loop {
            let changed = self.changed.notified();
            {
                let mut state = self.state();
                if !state.items.is_empty() || state.ended {
                    return state.take_all(taken);
                }
            }
            changed.await;
        }
    }

    /// No panic can happen while the lock is held that would leave the queue in disorder.
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> State<T> {
    fn push(&mut self, item: T, bytes: usize) {
        let bytes = bytes + ITEM_BYTES;
        self.bytes += bytes;
        self.items.push_back((item, bytes));
    }

    fn take(&mut self) -> Option<Taken<T>> {
        let (item, bytes) = self.items.pop_front()?;
        self.bytes -= bytes;
        let driver_waits = self.full && self.bytes <= ROOM_BYTES;
        if driver_waits {
            self.full = false;
        }
        Some(Taken { item, driver_waits })
    }

    fn take_all(&mut self, taken: &mut Vec<T>) -> Taken<usize> {
        let count = self.items.len();
        taken.extend(self.items.drain(..).map(|(item, _)| item));
        self.bytes = 0;
        Taken {
            item: count,
            driver_waits: std::mem::take(&mut self.full),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn fills_up_to_its_bound_and_tells_once_that_there_is_room() {
        let inbox = Inbox::new();
        let mut offered = 0;
        let filled = inbox.fill(|| {
            offered += 1;
            Some((offered, 1000))
        });
        assert_eq!(filled, Filled::Full);
        assert_eq!(offered, FULL_BYTES.div_ceil(1000 + ITEM_BYTES));

        let mut room = Vec::new();
        for number in 1..=offered {
            let taken = inbox.next().await.unwrap();
            assert_eq!(taken.item, number);
            if taken.driver_waits {
                room.push(number);
            }
        }
        assert_eq!(room.len(), 1);
        assert!(
            (offered / 2 - 1..=offered / 2 + 1).contains(&room[0]),
            "{room:?}"
        );
    }

    #[tokio::test]
    async fn all_that_is_there_is_taken_at_once_and_makes_room() {
        let inbox = Inbox::new();
        let mut offered = 0;
        let fill = |offered: &mut usize| {
            inbox.fill(|| {
                *offered += 1;
                Some((*offered, 1000))
            })
        };
        assert_eq!(fill(&mut offered), Filled::Full);
        let mut items = Vec::new();
        let taken = inbox.next_all(&mut items).await;
        assert_eq!((taken.item, taken.driver_waits), (offered, true));
        assert!(items.iter().copied().eq(1..=offered));
        inbox.push(0);
        inbox.end();
        let taken = inbox.next_all(&mut items).await;
        assert_eq!((taken.item, taken.driver_waits), (1, false));
        assert_eq!(inbox.next_all(&mut items).await.item, 0);
        assert_eq!(items.len(), offered + 1);
        // The room is counted right.
        let before = offered;
        assert_eq!(fill(&mut offered), Filled::Full);
        assert_eq!(offered - before, before);
    }

    #[tokio::test]
    async fn what_is_there_is_taken_before_the_end() {
        let inbox = Inbox::new();
        inbox.push("last");
        inbox.end();
        assert_eq!(inbox.next().await.map(|taken| taken.item), Some("last"));
        assert!(inbox.next().await.is_none());
    }

    #[tokio::test]
    async fn everyone_who_waits_sees_the_end() {
        let inbox = std::sync::Arc::new(Inbox::<()>::new());
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let inbox = std::sync::Arc::clone(&inbox);
                tokio::spawn(async move { inbox.next().await.is_none() })
            })
            .collect();
        tokio::task::yield_now().await;
        inbox.end();
        for task in waiting {
            assert!(task.await.unwrap());
        }
    }
}
