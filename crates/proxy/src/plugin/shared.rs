//! What all workers have in common: a dictionary whose entries expire, and what is counted.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::HookName;

/// What the workers of a server share.
#[derive(Debug, Default)]
pub struct Shared {
    dictionary: Mutex<Dictionary>,
    plugins: Mutex<BTreeMap<Arc<str>, Arc<Counters>>>,
}

/// How many entries the dictionary has at the most.
pub const MAXIMUM_ENTRIES: usize = 100_000;

/// How many octets the keys and values have at the most.
pub const MAXIMUM_OCTETS: usize = 64 << 20;

/// How many names a plugin may count under.
const MAXIMUM_COUNTS: usize = 1000;

/// A value in the dictionary.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SharedValue {
    Boolean(bool),
    Integer(i64),
    Number(f64),
    Octets(Arc<[u8]>),
}

/// A plugin and a key of its own.
type Key = (Arc<str>, Box<[u8]>);

#[derive(Debug, Default)]
struct Dictionary {
    entries: HashMap<Key, Entry>,
    /// Those that expire, the next one first.
    expiries: BTreeSet<(Instant, u64)>,
    keys: HashMap<u64, Key>,
    next_number: u64,
    octets: usize,
}

#[derive(Debug)]
struct Entry {
    value: SharedValue,
    expires: Option<Instant>,
    number: u64,
}

/// What a plugin counts.
#[derive(Debug, Default)]
pub(super) struct Counters {
    calls: [AtomicU64; HookName::COUNT],
    errors: [AtomicU64; HookName::COUNT],
    counts: Mutex<BTreeMap<Box<str>, u64>>,
}

/// What the plugins of a server have counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginStatistics {
    /// Those that there are or were.
    pub plugins: Vec<PluginCounts>,
    /// Entries of the shared dictionary.
    pub entries: usize,
    /// Their octets.
    pub octets: usize,
}

/// What a plugin has counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginCounts {
    /// Its name.
    pub plugin: Arc<str>,
    /// How often each hook was called, and has failed.
    pub hooks: Vec<(&'static str, u64, u64)>,
    /// What it counts itself, by names.
    pub counts: Vec<(Box<str>, u64)>,
}

impl Shared {
    /// What is counted so far.
    pub fn statistics(&self) -> PluginStatistics {
        let plugins = lock(&self.plugins);
        let plugins = plugins
            .iter()
            .map(|(plugin, counters)| counters.read(plugin));
        let plugins = plugins.collect();
        let dictionary = lock(&self.dictionary);
        PluginStatistics {
            plugins,
            entries: dictionary.entries.len(),
            octets: dictionary.octets,
        }
    }

    pub(super) fn counters(&self, plugin: &Arc<str>) -> Arc<Counters> {
        let mut plugins = lock(&self.plugins);
        Arc::clone(plugins.entry(Arc::clone(plugin)).or_default())
    }

    pub(super) fn get(&self, now: Instant, plugin: &Arc<str>, key: &[u8]) -> Option<SharedValue> {
        let dictionary = lock(&self.dictionary);
        let entry = dictionary.entries.get(&(Arc::clone(plugin), key.into()))?;
        entry.is_valid(now).then(|| entry.value.clone())
    }

    /// Returns whether there was room.
    pub(super) fn set(
        &self,
        now: Instant,
        plugin: &Arc<str>,
        key: &[u8],
        value: SharedValue,
        lifetime: Option<Duration>,
    ) -> bool {
        let mut dictionary = lock(&self.dictionary);
        dictionary.set(now, (Arc::clone(plugin), key.into()), value, lifetime)
    }

    /// Adds to a number, which begins with 0 and expires a lifetime after it has begun. Returns the sum; `None` where there
    /// is no room, or something else is there.
    pub(super) fn add(
        &self,
        now: Instant,
        plugin: &Arc<str>,
        key: &[u8],
        number: i64,
        lifetime: Option<Duration>,
    ) -> Option<i64> {
        let mut dictionary = lock(&self.dictionary);
        let key = (Arc::clone(plugin), key.into());
        if let Some(entry) = dictionary.entries.get_mut(&key)
            && entry.is_valid(now)
        {
            let SharedValue::Integer(sum) = &mut entry.value else {
                return None;
            };
            *sum = sum.saturating_add(number);
            return Some(*sum);
        }
        let is_set = dictionary.set(now, key, SharedValue::Integer(number), lifetime);
        is_set.then_some(number)
    }

    pub(super) fn delete(&self, plugin: &Arc<str>, key: &[u8]) {
        lock(&self.dictionary).remove(&(Arc::clone(plugin), key.into()));
    }
}

impl Dictionary {
    fn set(
        &mut self,
        now: Instant,
        key: Key,
        value: SharedValue,
        lifetime: Option<Duration>,
    ) -> bool {
        self.remove(&key);
        self.expire(now);
        let octets = octets_of(&key, &value);
        if self.entries.len() >= MAXIMUM_ENTRIES || self.octets + octets > MAXIMUM_OCTETS {
            return false;
        }
        let number = self.next_number;
        self.next_number += 1;
        let expires = lifetime.and_then(|lifetime| now.checked_add(lifetime));
        if let Some(expires) = expires {
            self.expiries.insert((expires, number));
            self.keys.insert(number, key.clone());
        }
        self.octets += octets;
        let entry = Entry {
            value,
            expires,
            number,
        };
        self.entries.insert(key, entry);
        true
    }

    fn remove(&mut self, key: &Key) {
        let Some(entry) = self.entries.remove(key) else {
            return;
        };
        self.octets -= octets_of(key, &entry.value);
        if let Some(expires) = entry.expires {
            self.expiries.remove(&(expires, entry.number));
            self.keys.remove(&entry.number);
        }
    }

    fn expire(&mut self, now: Instant) {
        while let Some(&(expires, number)) = self.expiries.first()
            && expires <= now
        {
            self.expiries.pop_first();
            if let Some(key) = self.keys.remove(&number) {
                self.remove(&key);
            }
        }
    }
}

impl Entry {
    fn is_valid(&self, now: Instant) -> bool {
        self.expires.is_none_or(|expires| expires > now)
    }
}

fn octets_of((_, key): &Key, value: &SharedValue) -> usize {
    let value = match value {
        SharedValue::Octets(octets) => octets.len(),
        _ => 8,
    };
    key.len() + value
}

impl Counters {
    pub(super) fn note_call(&self, hook: HookName) {
        if let Some(count) = self.calls.get(hook as usize) {
            count.fetch_add(1, Relaxed);
        }
    }

    pub(super) fn note_error(&self, hook: HookName) {
        if let Some(count) = self.errors.get(hook as usize) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Returns whether there was room for another name.
    pub(super) fn count(&self, name: &str, number: u64) -> bool {
        let mut counts = lock(&self.counts);
        if let Some(count) = counts.get_mut(name) {
            *count = count.saturating_add(number);
            return true;
        }
        let has_room = counts.len() < MAXIMUM_COUNTS;
        if has_room {
            counts.insert(name.into(), number);
        }
        has_room
    }

    fn read(&self, plugin: &Arc<str>) -> PluginCounts {
        let hooks = HookName::ALL
            .into_iter()
            .zip(self.calls.iter().zip(&self.errors))
            .map(|(hook, (calls, errors))| {
                (hook.as_str(), calls.load(Relaxed), errors.load(Relaxed))
            });
        let counts = lock(&self.counts);
        PluginCounts {
            plugin: Arc::clone(plugin),
            hooks: hooks.filter(|(_, calls, _)| *calls > 0).collect(),
            counts: counts
                .iter()
                .map(|(name, count)| (name.clone(), *count))
                .collect(),
        }
    }
}

/// What a panic elsewhere has left is as good as before.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_expire_and_belong_to_their_plugin() {
        let now = Instant::now();
        let shared = Shared::default();
        let (one, other): (Arc<str>, Arc<str>) = ("one".into(), "other".into());
        let minute = Some(Duration::from_secs(60));
        assert!(shared.set(now, &one, b"key", SharedValue::Boolean(true), minute));
        let later = now + Duration::from_secs(59);
        let value = Some(SharedValue::Boolean(true));
        assert_eq!(shared.get(later, &one, b"key"), value);
        assert_eq!(shared.get(later, &other, b"key"), None);
        let after = now + Duration::from_secs(60);
        assert_eq!(shared.get(after, &one, b"key"), None);
        assert_eq!(shared.statistics().entries, 1);
        // What has expired makes room for the next.
        assert!(shared.set(after, &one, b"next", SharedValue::Integer(1), None));
        assert_eq!(shared.statistics().entries, 1);
        shared.delete(&one, b"next");
        assert_eq!(
            (shared.statistics().entries, shared.statistics().octets),
            (0, 0)
        );
    }

    #[test]
    fn a_sum_begins_anew_when_it_has_expired() {
        let now = Instant::now();
        let shared = Shared::default();
        let plugin: Arc<str> = "plugin".into();
        let add = |at| shared.add(at, &plugin, b"calls", 2, Some(Duration::from_secs(60)));
        assert_eq!(
            (add(now), add(now + Duration::from_secs(59))),
            (Some(2), Some(4))
        );
        assert_eq!(add(now + Duration::from_secs(60)), Some(2));
        shared.set(
            now,
            &plugin,
            b"text",
            SharedValue::Octets((*b"x").into()),
            None,
        );
        assert_eq!(shared.add(now, &plugin, b"text", 1, None), None);
    }

    #[test]
    fn there_is_room_for_so_much_and_no_more() {
        let now = Instant::now();
        let shared = Shared::default();
        let plugin: Arc<str> = "plugin".into();
        let large: Arc<[u8]> = vec![0; MAXIMUM_OCTETS / 2].into();
        let set = |at, key: &[u8]| {
            let value = SharedValue::Octets(Arc::clone(&large));
            shared.set(at, &plugin, key, value, Some(Duration::from_secs(1)))
        };
        assert!(set(now, b"one"));
        assert!(!set(now, b"two"));
        assert!(set(now, b"one"));
        assert!(set(now + Duration::from_secs(1), b"two"));
        let counters = shared.counters(&plugin);
        assert!((0..MAXIMUM_COUNTS).all(|number| counters.count(&number.to_string(), 1)));
        assert!(!counters.count("one too many", 1));
        assert!(counters.count("7", 1));
    }
}
