//! Things that all wait equally long.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A queue whose entries become due a fixed time after they were put in, so that its front is always
/// what is due first.
#[derive(Clone, Debug)]
pub(super) struct Waits<T> {
    wait: Duration,
    queue: VecDeque<(Instant, T)>,
}

impl<T> Waits<T> {
    /// A queue in which everything waits for `wait`.
    pub(super) fn new(wait: Duration) -> Waits<T> {
        Waits {
            wait,
            queue: VecDeque::new(),
        }
    }

    /// Puts something in.
    pub(super) fn push(&mut self, now: Instant, item: T) {
        self.queue.push_back((now + self.wait, item));
    }

    /// Takes the first thing out that is due, if there is one.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<T> {
        match self.queue.front() {
            Some((due, _)) if *due <= now => self.queue.pop_front().map(|(_, item)| item),
            _ => None,
        }
    }

    /// When something becomes due next.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.queue.front().map(|(due, _)| *due)
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.queue.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_first_is_due_first() {
        let start = Instant::now();
        let mut waits = Waits::new(Duration::from_secs(2));
        waits.push(start, 'a');
        waits.push(start + Duration::from_secs(1), 'b');
        assert_eq!(waits.next_timeout(), Some(start + Duration::from_secs(2)));
        assert_eq!(waits.pop_due(start + Duration::from_millis(1_999)), None);
        assert_eq!(waits.pop_due(start + Duration::from_secs(2)), Some('a'));
        assert_eq!(waits.pop_due(start + Duration::from_secs(2)), None);
        assert_eq!(waits.pop_due(start + Duration::from_secs(9)), Some('b'));
        assert_eq!(waits.next_timeout(), None);
    }
}
