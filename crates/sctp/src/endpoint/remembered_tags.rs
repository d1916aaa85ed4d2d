//! The verification tags of associations that have ended. A copy of a COOKIE ECHO that the network
//! kept back must not make an association that nobody wants: its cookie is still fresh, but its
//! tag was used (RFC 9260 section 5.3.1).

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use ahash::RandomState;

/// A bounded memory of tags.
#[derive(Debug)]
pub(crate) struct RememberedTags {
    /// In the order in which they were remembered, with the time until which they are.
    queue: VecDeque<(Instant, u32)>,
    tags: HashSet<u32, RandomState>,
    max: usize,
    forgotten: u64,
}

impl RememberedTags {
    /// Remembers `max` tags at most.
    pub(crate) fn new(max: usize, hasher: RandomState) -> RememberedTags {
        RememberedTags {
            queue: VecDeque::new(),
            tags: HashSet::with_hasher(hasher),
            max,
            forgotten: 0,
        }
    }

    /// Remembers a tag for as long as a cookie with it may be fresh; the oldest one makes room.
    pub(crate) fn remember(&mut self, now: Instant, tag: u32, life: Duration) {
        self.forget_old(now);
        while self.queue.len() >= self.max {
            self.forgotten += 1;
            let Some((_, oldest)) = self.queue.pop_front() else {
                return;
            };
            self.tags.remove(&oldest);
        }
        if self.tags.insert(tag) {
            self.queue.push_back((now + life, tag));
        }
    }

    /// Whether the tag belonged to an association that has ended.
    pub(crate) fn contains(&mut self, now: Instant, tag: u32) -> bool {
        self.forget_old(now);
        self.tags.contains(&tag)
    }

    /// How many tags had to make room before their time.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    fn forget_old(&mut self, now: Instant) {
        while let Some((until, tag)) = self.queue.front().copied() {
            if until > now {
                break;
            }
            self.queue.pop_front();
            self.tags.remove(&tag);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: Duration = Duration::from_secs(60);

    fn remembered(max: usize) -> RememberedTags {
        RememberedTags::new(max, RandomState::with_seeds(1, 2, 3, 4))
    }

    #[test]
    fn forgets_after_the_life_of_a_cookie() {
        let now = Instant::now();
        let mut tags = remembered(10);
        tags.remember(now, 5, LIFE);
        assert!(tags.contains(now + LIFE / 2, 5));
        assert!(!tags.contains(now + LIFE, 5));
        assert_eq!(tags.forgotten(), 0, "it was time");
    }

    #[test]
    fn keeps_no_more_than_its_bound() {
        let now = Instant::now();
        let mut tags = remembered(2);
        for tag in [1, 2, 3] {
            tags.remember(now, tag, LIFE);
        }
        assert!(!tags.contains(now, 1));
        assert!(tags.contains(now, 2));
        assert!(tags.contains(now, 3));
        assert_eq!(tags.forgotten(), 1);
        let mut none = remembered(0);
        none.remember(now, 1, LIFE);
        assert!(!none.contains(now, 1));
        assert_eq!(none.forgotten(), 1);
    }
}
