//! Questions answered from what is known, or after asking name servers.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ahash::RandomState;
use rand::Rng;
use rand_chacha::ChaCha12Rng;
use sip::Transport;
use tokio::sync::{OnceCell, Semaphore};

use super::cache::Cache;
use super::config::ResolverConfig;
use super::dns::Dns;
use super::health::{Health, HopFailure, HopHealth};
use super::locate::{Hop, Located, Question, Reach, locate};
use super::records::{Found, Key, Records};

/// Finds next hops by RFC 3263. A handle that is cheap to clone; all clones know the same.
#[derive(Clone, Debug)]
pub struct Resolver {
    shared: Arc<Shared>,
}

/// What a [`Resolver`] has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResolverStatistics {
    /// Questions answered from what was known.
    pub answered_from_cache: u64,
    /// Questions for which name servers were asked.
    pub answered_by_servers: u64,
    /// Questions to name servers.
    pub lookups: u64,
    /// Of these, those that no server has answered, or only that it cannot say.
    pub unreachable: u64,
    /// Now: sets of records that are remembered.
    pub cached: u64,
}

#[derive(Debug)]
struct Shared {
    config: ResolverConfig,
    dns: Dns,
    cache: Mutex<Cache<RandomState>>,
    health: Mutex<Health<RandomState>>,
    rng: Mutex<ChaCha12Rng>,
    /// What name servers are being asked: several questions wait for one answer.
    asked: Mutex<HashMap<Key, Arc<OnceCell<Found>>, RandomState>>,
    slots: Semaphore,
    answered_from_cache: AtomicU64,
    answered_by_servers: AtomicU64,
    lookups: AtomicU64,
    unreachable: AtomicU64,
}

/// How many times the procedure goes on with what name servers have said: NAPTR, SRV and address
/// records, and some more where a cache forgets meanwhile.
const MAXIMUM_ROUNDS: usize = 8;

impl Resolver {
    /// A resolver by these settings. The generator draws among equals, and gives the keys of tables.
    pub fn new(config: ResolverConfig, mut rng: ChaCha12Rng) -> Resolver {
        let mut state = || {
            RandomState::with_seeds(
                rng.next_u64(),
                rng.next_u64(),
                rng.next_u64(),
                rng.next_u64(),
            )
        };
        let shared = Shared {
            dns: Dns::new(&config),
            cache: Mutex::new(Cache::new(config.maximum_cached, state())),
            health: Mutex::new(Health::new(config.maximum_suspects, state())),
            asked: Mutex::new(HashMap::with_hasher(state())),
            slots: Semaphore::new(config.maximum_parallel.max(1)),
            rng: Mutex::new(rng),
            config,
            answered_from_cache: AtomicU64::new(0),
            answered_by_servers: AtomicU64::new(0),
            lookups: AtomicU64::new(0),
            unreachable: AtomicU64::new(0),
        };
        Resolver {
            shared: Arc::new(shared),
        }
    }

    /// The next hops, if no name server has to be asked.
    pub fn resolve_now(&self, question: &Question, reach: &Reach) -> Option<Vec<Hop>> {
        let now = Instant::now();
        let seed = self.draw(question);
        match self.locate(now, question, reach, &[], seed) {
            Located::Hops(hops) => {
                self.shared
                    .answered_from_cache
                    .fetch_add(1, Ordering::Relaxed);
                Some(self.ordered(now, question, hops))
            }
            Located::Needs(_) => None,
        }
    }

    /// The next hops, the most preferred first; none where there are none, or name servers do not
    /// answer.
    pub async fn resolve(&self, question: &Question, reach: &Reach) -> Vec<Hop> {
        let seed = self.draw(question);
        // Kept beside the cache, which may forget at once what has no time to live.
        let mut learnt: Vec<(Key, Found)> = Vec::new();
        for _ in 0..MAXIMUM_ROUNDS {
            let now = Instant::now();
            match self.locate(now, question, reach, &learnt, seed) {
                Located::Hops(hops) => {
                    self.shared
                        .answered_by_servers
                        .fetch_add(1, Ordering::Relaxed);
                    return self.ordered(now, question, hops);
                }
                Located::Needs(keys) => {
                    let found = keys.into_iter().map(async |key| {
                        let found = self.shared.look_up(&key).await;
                        (key, found)
                    });
                    learnt.extend(futures_util::future::join_all(found).await);
                }
            }
        }
        Vec::new()
    }

    /// Takes in that a next hop has failed: for `pause`, or else the time of the settings, it is tried
    /// after all others.
    pub fn note_failure(
        &self,
        transport: Transport,
        remote: SocketAddr,
        failure: HopFailure,
        pause: Option<Duration>,
    ) {
        let pause = pause.unwrap_or(self.shared.config.suspicion);
        lock(&self.shared.health).note(Instant::now(), (transport, remote), failure, pause);
    }

    /// The next hops that have failed and are tried after all others.
    pub fn suspects(&self) -> Vec<HopHealth> {
        lock(&self.shared.health).suspects(Instant::now())
    }

    /// The counters as they stand.
    pub fn statistics(&self) -> ResolverStatistics {
        let Shared {
            answered_from_cache,
            answered_by_servers,
            lookups,
            unreachable,
            cache,
            ..
        } = &*self.shared;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ResolverStatistics {
            answered_from_cache: read(answered_from_cache),
            answered_by_servers: read(answered_by_servers),
            lookups: read(lookups),
            unreachable: read(unreachable),
            cached: lock(cache).len() as u64,
        }
    }

    fn draw(&self, question: &Question) -> u64 {
        match question.choice {
            Some(choice) => choice,
            None => lock(&self.shared.rng).next_u64(),
        }
    }

    fn locate(
        &self,
        now: Instant,
        question: &Question,
        reach: &Reach,
        learnt: &[(Key, Found)],
        seed: u64,
    ) -> Located {
        let known = Known {
            now,
            learnt,
            cache: &lock(&self.shared.cache),
        };
        locate(question, reach, &known, seed)
    }

    /// Puts next hops that have failed behind the others, unless the order must be the same every time.
    fn ordered(&self, now: Instant, question: &Question, mut hops: Vec<Hop>) -> Vec<Hop> {
        if question.choice.is_none() && hops.len() > 1 {
            let health = lock(&self.shared.health);
            hops.sort_by_key(|hop| health.is_suspect(now, (hop.transport, hop.remote)));
        }
        hops
    }
}

impl Shared {
    /// Asks name servers, once for all that want to know at a time, and remembers the answer.
    async fn look_up(&self, key: &Key) -> Found {
        let asking = Asking::begin(self, key);
        let look_up = async {
            let slot = self.slots.acquire().await;
            self.lookups.fetch_add(1, Ordering::Relaxed);
            let answer = self.dns.look_up(key, &self.config).await;
            drop(slot);
            if matches!(answer.found, Found::Unknown | Found::Unreachable) {
                self.unreachable.fetch_add(1, Ordering::Relaxed);
            }
            let found = answer.found;
            let now = Instant::now();
            lock(&self.cache).insert(now, key.clone(), found.clone(), answer.ttl);
            found
        };
        asking.cell.get_or_init(|| look_up).await.clone()
    }
}

/// One of those that wait for an answer. Who asks may give up; then the next one asks.
struct Asking<'a> {
    shared: &'a Shared,
    key: &'a Key,
    cell: Arc<OnceCell<Found>>,
}

impl<'a> Asking<'a> {
    fn begin(shared: &'a Shared, key: &'a Key) -> Asking<'a> {
        let mut asked = lock(&shared.asked);
        let cell = asked.entry(key.clone()).or_default();
        Asking {
            shared,
            key,
            cell: Arc::clone(cell),
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut asked = lock(&self.shared.asked);
        let is_last = |cell: &Arc<OnceCell<Found>>| {
            // Ours and the table's; or the answer is there, and whoever comes later asks anew.
            Arc::ptr_eq(cell, &self.cell) && (cell.initialized() || Arc::strong_count(cell) == 2)
        };
        if asked.get(self.key).is_some_and(is_last) {
            asked.remove(self.key);
        }
    }
}

/// What is known while one question is answered.
struct Known<'a> {
    now: Instant,
    learnt: &'a [(Key, Found)],
    cache: &'a Cache<RandomState>,
}

impl Records for Known<'_> {
    fn find(&self, key: &Key) -> Option<Found> {
        let learnt = self.learnt.iter().find(|(known, _)| known == key);
        match learnt {
            Some((_, found)) => Some(found.clone()),
            None => self.cache.get(self.now, key),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
