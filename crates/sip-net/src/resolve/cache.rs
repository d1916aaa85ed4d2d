//! Records that are known, for as long as their TTLs say.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use super::records::{Found, Key};

/// A bounded number of answers. When it is full, that which would be forgotten first makes room.
#[derive(Debug)]
pub(super) struct Cache<S = RandomState> {
    entries: HashMap<Key, Entry, S>,
    by_end: BTreeSet<(Instant, Key)>,
    maximum: usize,
}

#[derive(Debug)]
struct Entry {
    found: Found,
    end: Instant,
}

impl<S: BuildHasher> Cache<S> {
    pub(super) fn new(maximum: usize, state: S) -> Cache<S> {
        Cache {
            entries: HashMap::with_hasher(state),
            by_end: BTreeSet::new(),
            maximum,
        }
    }

    /// What is known; `None` where nothing is, or not any more.
    pub(super) fn get(&self, now: Instant, key: &Key) -> Option<Found> {
        let entry = self.entries.get(key)?;
        (now < entry.end).then(|| entry.found.clone())
    }

    /// Remembers an answer for so long.
    pub(super) fn insert(&mut self, now: Instant, key: Key, found: Found, ttl: Duration) {
        self.remove(&key);
        while let Some((end, _)) = self.by_end.first()
            && (*end <= now || self.entries.len() >= self.maximum)
        {
            if let Some((_, oldest)) = self.by_end.pop_first() {
                self.entries.remove(&oldest);
            }
        }
        let Some(end) = now.checked_add(ttl) else {
            return;
        };
        if ttl.is_zero() || self.maximum == 0 {
            return;
        }
        self.by_end.insert((end, key.clone()));
        self.entries.insert(key, Entry { found, end });
    }

    /// How many answers are remembered, those included that are not valid any more.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    fn remove(&mut self, key: &Key) {
        if let Some((key, entry)) = self.entries.remove_entry(key) {
            self.by_end.remove(&(entry.end, key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::records::Kind;
    use super::*;

    fn key(name: &str) -> Key {
        Key::new(Kind::A, name)
    }

    #[test]
    fn an_answer_lives_as_long_as_its_ttl() {
        let now = Instant::now();
        let mut cache = Cache::new(10, RandomState::new());
        let ttl = Duration::from_secs(30);
        cache.insert(now, key("a"), Found::Nothing, ttl);
        let just_before = now + ttl - Duration::from_millis(1);
        assert_eq!(cache.get(just_before, &key("A.")), Some(Found::Nothing));
        assert_eq!(cache.get(now + ttl, &key("a")), None);
        // What is learnt anew counts, however long the old would have lived.
        cache.insert(now, key("a"), Found::Unreachable, Duration::from_secs(1));
        assert_eq!(cache.get(now, &key("a")), Some(Found::Unreachable));
        assert_eq!(cache.get(now + ttl / 2, &key("a")), None);
        cache.insert(now, key("b"), Found::Nothing, Duration::ZERO);
        assert_eq!(cache.get(now, &key("b")), None);
    }

    #[test]
    fn it_is_bounded_and_the_shortest_lived_goes_first() {
        let now = Instant::now();
        let mut cache = Cache::new(3, RandomState::new());
        for (name, seconds) in [("a", 30), ("b", 10), ("c", 20), ("d", 5)] {
            cache.insert(now, key(name), Found::Nothing, Duration::from_secs(seconds));
        }
        assert_eq!(cache.len(), 3);
        assert_eq!(cache.get(now, &key("b")), None);
        for name in ["a", "c", "d"] {
            assert!(cache.get(now, &key(name)).is_some(), "{name}");
        }
        // What is over goes when something comes.
        let later = now + Duration::from_secs(25);
        cache.insert(later, key("e"), Found::Nothing, Duration::from_secs(1));
        assert_eq!((cache.len(), cache.by_end.len()), (2, 2));
    }
}
