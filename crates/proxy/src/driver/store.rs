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

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use rand::SeedableRng;
    use sip::{ConnectionId, Flow, Message, Method, Name, Transport};

    use super::*;
    use crate::core::{Config, Domain, Listener, Proxy, Query};

    /// The address of record and the update that a core makes of a REGISTER.
    fn registering(
        user: &str,
        cseq: u32,
        contact: &str,
        now: Instant,
    ) -> (AddressOfRecord, Update) {
        let address = ([127, 0, 0, 1], 5060).into();
        let config = Config {
            listeners: vec![Listener {
                transport: Transport::Udp,
                address,
            }],
            domains: vec![Domain {
                name: "example.com".parse().expect("a host"),
                aliases: Vec::new(),
            }],
            ..Config::default()
        };
        let mut core = Proxy::new(config, ChaCha12Rng::seed_from_u64(1));
        let request = Message::request(Method::Register, "sip:example.com")
            .with(Name::Via, "SIP/2.0/UDP 127.0.0.1:9;branch=z9hG4bK1")
            .with(Name::From, "<sip:x@example.com>;tag=1")
            .with(Name::To, format!("<sip:{user}@example.com>"))
            .with(Name::CallId, user)
            .with(Name::CSeq, format!("{cseq} REGISTER"))
            .with(Name::Contact, contact);
        let flow = Flow {
            transport: Transport::Udp,
            local: address,
            remote: ([127, 0, 0, 1], 9).into(),
            connection: ConnectionId(0),
            stream: 0,
        };
        core.handle_message(now, flow, request);
        match core.poll_query() {
            Some((_, Query::Update(address, update))) => (address, update),
            other => panic!("an update expected: {other:?}"),
        }
    }

    fn store(maximum: usize) -> MemoryStore {
        MemoryStore::new(maximum, &mut ChaCha12Rng::seed_from_u64(1))
    }

    fn register(
        store: &mut MemoryStore,
        user: &str,
        cseq: u32,
        contact: &str,
        now: Instant,
    ) -> Answer {
        let (address, update) = registering(user, cseq, contact, now);
        store.update(now, address, &update)
    }

    #[test]
    fn what_has_expired_goes_and_its_user_stays_known() {
        let now = Instant::now();
        let mut store = store(10);
        register(
            &mut store,
            "bob",
            1,
            "<sip:a@127.0.0.1>;expires=60, <sip:b@127.0.0.1>;expires=90",
            now,
        );
        assert_eq!((store.addresses_of_record(), store.bindings()), (1, 2));
        store.sweep(now);
        store.sweep(now + Duration::from_secs(70));
        assert_eq!((store.addresses_of_record(), store.bindings()), (1, 1));
        store.sweep(now + Duration::from_secs(140));
        assert_eq!((store.addresses_of_record(), store.bindings()), (1, 0));
        let (bob, _) = registering("bob", 2, "<sip:a@127.0.0.1>", now);
        assert_eq!(store.look_up(&bob), Answer::Bindings([].into()));
        let (alice, _) = registering("alice", 1, "<sip:a@127.0.0.1>", now);
        assert_eq!(store.look_up(&alice), Answer::Unknown);
    }

    #[test]
    fn a_full_store_refuses_new_users_until_others_have_left() {
        let now = Instant::now();
        let mut store = store(2);
        for user in ["alice", "bob"] {
            let answer = register(&mut store, user, 1, "<sip:a@127.0.0.1>;expires=60", now);
            assert!(matches!(answer, Answer::Bindings(bindings) if bindings.len() == 1));
        }
        assert_eq!(
            register(&mut store, "carol", 1, "<sip:a@127.0.0.1>", now),
            Answer::Full
        );
        assert!(matches!(
            register(&mut store, "bob", 2, "<sip:a@127.0.0.1>;expires=600", now),
            Answer::Bindings(_)
        ));
        let later = now + Duration::from_secs(61);
        assert!(matches!(
            register(&mut store, "carol", 2, "<sip:a@127.0.0.1>", later),
            Answer::Bindings(_)
        ));
        assert_eq!((store.addresses_of_record(), store.bindings()), (2, 2));
    }

    #[test]
    fn removing_what_is_not_there_makes_nobody_known() {
        let now = Instant::now();
        let mut store = store(2);
        let answer = register(&mut store, "bob", 1, "<sip:a@127.0.0.1>;expires=0", now);
        assert_eq!(answer, Answer::Bindings([].into()));
        assert_eq!(store.addresses_of_record(), 0);
    }
}
