//! The location store in memory.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use ahash::RandomState;
use rand::Rng;
use rand_chacha::ChaCha12Rng;

use crate::core::{AddressOfRecord, Answer, Bindings, Update};

/// Bindings by address of record. An address of record that has been registered stays known when its
/// bindings are gone, for as long as there is room: calls to it are answered 480, not 404.
#[derive(Debug)]
pub(super) struct MemoryStore {
    bindings: HashMap<AddressOfRecord, Bindings, RandomState>,
    maximum_addresses: usize,
    swept: Option<Instant>,
    count: usize,
}

/// How often bindings that have expired are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// How often at most a store that is full looks for addresses of record without bindings.
const FULL_SWEEP_INTERVAL: Duration = Duration::from_secs(1);

impl MemoryStore {
    /// A store with room for so many addresses of record.
    pub(super) fn new(maximum_addresses: usize, rng: &mut ChaCha12Rng) -> MemoryStore {
        let state = RandomState::with_seeds(
            rng.next_u64(),
            rng.next_u64(),
            rng.next_u64(),
            rng.next_u64(),
        );
        MemoryStore {
            bindings: HashMap::with_hasher(state),
            maximum_addresses,
            swept: None,
            count: 0,
        }
    }

    pub(super) fn look_up(&self, address: &AddressOfRecord) -> Answer {
        self.bindings
            .get(address)
            .map_or(Answer::Unknown, |bindings| {
                Answer::Bindings(bindings.clone())
            })
    }

    pub(super) fn update(
        &mut self,
        now: Instant,
        address: AddressOfRecord,
        update: &Update,
    ) -> Answer {
        let current = self.bindings.get(&address);
        let known = current.is_some();
        let before = current.map_or(0, |bindings| bindings.len());
        let changed: Bindings = match update.apply(current.map_or(&[], |bindings| bindings)) {
            Ok(bindings) => bindings.into(),
            Err(error) => return Answer::Refused(error),
        };
        if !known && changed.is_empty() {
            // Nobody becomes known by removing what is not there.
            return Answer::Bindings(changed);
        }
        if !known && !self.has_room(now) {
            return Answer::Full;
        }
        self.count = self.count - before + changed.len();
        self.bindings.insert(address, changed.clone());
        Answer::Bindings(changed)
    }

    /// Removes what has expired, if it is time to.
    pub(super) fn sweep(&mut self, now: Instant) {
        if self.is_due(now, SWEEP_INTERVAL) {
            self.remove_expired(now);
        }
    }

    /// How many addresses of record are known.
    pub(super) fn addresses_of_record(&self) -> usize {
        self.bindings.len()
    }

    /// How many bindings there are, those included that have expired and were not removed yet.
    pub(super) fn bindings(&self) -> usize {
        self.count
    }

    /// Whether another address of record can be stored; forgets those without bindings if need be.
    fn has_room(&mut self, now: Instant) -> bool {
        if self.bindings.len() >= self.maximum_addresses && self.is_due(now, FULL_SWEEP_INTERVAL) {
            self.remove_expired(now);
            self.bindings.retain(|_, bindings| !bindings.is_empty());
        }
        self.bindings.len() < self.maximum_addresses
    }

    fn is_due(&self, now: Instant, interval: Duration) -> bool {
        self.swept
            .is_none_or(|swept| now.saturating_duration_since(swept) >= interval)
    }

    fn remove_expired(&mut self, now: Instant) {
        self.swept = Some(now);
        for bindings in self.bindings.values_mut() {
            if bindings.iter().any(|binding| binding.expires <= now) {
                let left: Bindings = bindings
                    .iter()
                    .filter(|binding| binding.expires > now)
                    .cloned()
                    .collect();
                self.count -= bindings.len() - left.len();
                *bindings = left;
            }
        }
    }
}
