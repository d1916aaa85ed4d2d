//! The location store in memory.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use ahash::RandomState;
use rand::Rng;
use rand_chacha::ChaCha12Rng;

use crate::core::{AddressOfRecord, Answer, Binding, Bindings, Update};

/// Bindings by address of record. An address of record that has been registered stays known when its
/// bindings are gone, for as long as there is room: calls to it are answered 480, not 404.
#[derive(Debug)]
pub(super) struct MemoryStore {
    bindings: HashMap<AddressOfRecord, Bindings, RandomState>,
    maximum_addresses: usize,
    maximum_octets: usize,
    swept: Option<Instant>,
    /// How many bindings there are.
    count: usize,
    /// The sum of the [`octets`] of all.
    octets: usize,
}

/// How often bindings that have expired are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// How often at most a store that is full looks for addresses of record without bindings.
const FULL_SWEEP_INTERVAL: Duration = Duration::from_secs(1);

impl MemoryStore {
    /// A store with room for so many addresses of record, and for so many octets.
    pub(super) fn new(
        maximum_addresses: usize,
        maximum_octets: usize,
        rng: &mut ChaCha12Rng,
    ) -> MemoryStore {
        let state = RandomState::with_seeds(
            rng.next_u64(),
            rng.next_u64(),
            rng.next_u64(),
            rng.next_u64(),
        );
        MemoryStore {
            bindings: HashMap::with_hasher(state),
            maximum_addresses,
            maximum_octets,
            swept: None,
            count: 0,
            octets: 0,
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
        let changed: Bindings = match update.apply(current.map_or(&[], |bindings| bindings)) {
            Ok(bindings) => bindings.into(),
            Err(error) => return Answer::Refused(error),
        };
        if current.is_none() && changed.is_empty() {
            // Nobody becomes known by removing what is not there.
            return Answer::Bindings(changed);
        }
        if !self.has_room(now, &address, &changed) {
            return Answer::Full;
        }
        self.octets += octets(&address, &changed);
        self.count += changed.len();
        if let Some(old) = self.bindings.insert(address.clone(), changed.clone()) {
            self.octets -= octets(&address, &old);
            self.count -= old.len();
        }
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

    /// Whether an address of record can have these bindings. What takes no more room than before
    /// always finds it; otherwise those without bindings are forgotten if need be.
    fn has_room(&mut self, now: Instant, address: &AddressOfRecord, changed: &[Binding]) -> bool {
        if self.fits(address, changed) {
            return true;
        }
        if !self.is_due(now, FULL_SWEEP_INTERVAL) {
            return false;
        }
        self.remove_expired(now);
        let forgotten = &mut self.octets;
        self.bindings.retain(|other, bindings| {
            let is_kept = !bindings.is_empty();
            if !is_kept {
                *forgotten -= octets(other, bindings);
            }
            is_kept
        });
        self.fits(address, changed)
    }

    fn fits(&self, address: &AddressOfRecord, changed: &[Binding]) -> bool {
        let needed = octets(address, changed);
        match self.bindings.get(address) {
            Some(old) => {
                let old = octets(address, old);
                needed <= old || self.octets - old + needed <= self.maximum_octets
            }
            None => {
                self.bindings.len() < self.maximum_addresses
                    && self.octets + needed <= self.maximum_octets
            }
        }
    }

    fn is_due(&self, now: Instant, interval: Duration) -> bool {
        self.swept
            .is_none_or(|swept| now.saturating_duration_since(swept) >= interval)
    }

    fn remove_expired(&mut self, now: Instant) {
        self.swept = Some(now);
        for (address, bindings) in &mut self.bindings {
            if bindings.iter().any(|binding| binding.expires <= now) {
                let left: Bindings = bindings
                    .iter()
                    .filter(|binding| binding.expires > now)
                    .cloned()
                    .collect();
                self.count -= bindings.len() - left.len();
                self.octets -= octets(address, bindings) - octets(address, &left);
                *bindings = left;
            }
        }
    }
}

/// What an address of record and its bindings take.
fn octets(address: &AddressOfRecord, bindings: &[Binding]) -> usize {
    let bindings = bindings.iter().map(|binding| {
        size_of::<Binding>()
            + binding.contact.len()
            + binding.parameters.len()
            + binding.call_id.len()
    });
    size_of::<(AddressOfRecord, Bindings)>() + address.as_str().len() + bindings.sum::<usize>()
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
        MemoryStore::new(maximum, usize::MAX, &mut ChaCha12Rng::seed_from_u64(1))
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
    fn octets_are_bounded_and_what_takes_no_more_is_refreshed() {
        let now = Instant::now();
        let long = |user: &str| format!("<sip:{user}{}@127.0.0.1>;expires=60", "x".repeat(900));
        let mut store = MemoryStore::new(10, 2500, &mut ChaCha12Rng::seed_from_u64(1));
        for user in ["alice", "bob"] {
            let answer = register(&mut store, user, 1, &long("a"), now);
            assert!(matches!(answer, Answer::Bindings(_)));
        }
        let full = store.octets;
        assert!((2000..=2500).contains(&full), "{full}");
        assert_eq!(
            register(&mut store, "carol", 1, &long("a"), now),
            Answer::Full
        );
        assert_eq!(
            register(&mut store, "bob", 2, &long("b"), now),
            Answer::Full
        );
        let answer = register(&mut store, "bob", 3, &long("a"), now);
        assert!(matches!(answer, Answer::Bindings(_)));
        assert_eq!((store.octets, store.bindings()), (full, 2));

        // Room is made by what has expired, and by those who are gone.
        let later = now + Duration::from_secs(61);
        for user in ["carol", "dave"] {
            let answer = register(&mut store, user, 2, &long("a"), later);
            assert!(matches!(answer, Answer::Bindings(_)));
        }
        assert_eq!((store.addresses_of_record(), store.bindings()), (2, 2));
        let end = later + Duration::from_secs(61);
        store.sweep(end);
        assert_eq!(store.bindings(), 0);
        assert!(store.octets < 200, "{}", store.octets);
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
