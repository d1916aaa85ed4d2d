//! What a speaker plays, for microphones beside it, which capture its echo.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Samples a second.
pub(crate) const RATE: u32 = 16_000;
/// Samples that wait for a reader: half a second, which is as late as an echo may be. Older ones give way.
const MAX_WAITING: usize = RATE as usize / 2;

type Queue = Arc<Mutex<VecDeque<i16>>>;

/// What a speaker plays.
#[derive(Clone, Debug, Default)]
pub(crate) struct Played(Arc<Mutex<Vec<Queue>>>);

/// Reads it from when it is made.
#[derive(Debug)]
pub(crate) struct PlayedReader(Queue);

impl Played {
    /// Another reader; it is forgotten when it is dropped.
    pub(crate) fn reader(&self) -> PlayedReader {
        let queue = Queue::default();
        lock(&self.0).push(Arc::clone(&queue));
        PlayedReader(queue)
    }

    /// This is about to be played.
    pub(crate) fn push(&self, samples: &[i16]) {
        let mut queues = lock(&self.0);
        queues.retain(|queue| Arc::strong_count(queue) > 1);
        for queue in queues.iter() {
            let mut queue = lock(queue);
            queue.extend(samples);
            let excess = queue.len().saturating_sub(MAX_WAITING);
            queue.drain(..excess);
        }
    }
}

impl PlayedReader {
    /// What was played since the last time.
    pub(crate) fn take(&self) -> Vec<i16> {
        lock(&self.0).drain(..).collect()
    }
}

/// A thread that panicked leaves samples, no more.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reader_has_all_since_it_is_there() {
        let played = Played::default();
        let one = played.reader();
        played.push(&[1, 2]);
        let other = played.reader();
        played.push(&[3]);
        assert_eq!((one.take(), other.take()), (vec![1, 2, 3], vec![3]));
        assert!(one.take().is_empty());
        drop(other);
        played.push(&[4]);
        assert_eq!(lock(&played.0).len(), 1);
        assert_eq!(one.take(), [4]);
    }

    #[test]
    fn what_nobody_takes_does_not_grow() {
        let played = Played::default();
        let reader = played.reader();
        for _ in 0..100 {
            played.push(&[7; 320]);
        }
        assert_eq!(reader.take().len(), MAX_WAITING);
    }
}
