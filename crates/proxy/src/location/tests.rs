//! What every store does, shown with the one in memory.

use std::time::Duration;

use rand::SeedableRng;
use sip::{ConnectionId, Flow, Message, Method, Name, Transport};

use super::*;
use crate::core::{AddressOfRecord, Config, Domain, Listener, Proxy, Query, Update};

/// Makes of REGISTERs what a core makes of them.
struct Registering {
    core: Proxy,
    requests: u32,
    address: std::net::SocketAddr,
}

impl Registering {
    fn new() -> Registering {
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
        Registering {
            core: Proxy::new(config, ChaCha12Rng::seed_from_u64(1)),
            requests: 0,
            address,
        }
    }

    fn update(
        &mut self,
        user: &str,
        cseq: u32,
        contact: &str,
        now: Instant,
    ) -> (QueryId, AddressOfRecord, Update) {
        let request = Message::request(Method::Register, "sip:example.com")
            .with(
                Name::Via,
                format!("SIP/2.0/UDP 127.0.0.1:9;branch=z9hG4bK{user}{cseq}"),
            )
            .with(Name::From, "<sip:x@example.com>;tag=1")
            .with(Name::To, format!("<sip:{user}@example.com>"))
            .with(Name::CallId, user)
            .with(Name::CSeq, format!("{cseq} REGISTER"))
            .with(Name::Contact, contact);
        let flow = Flow {
            transport: Transport::Udp,
            local: self.address,
            remote: ([127, 0, 0, 1], 9).into(),
            connection: ConnectionId(0),
            stream: 0,
        };
        self.core.handle_message(now, flow, request);
        match self.core.poll_query() {
            Some((id, Query::Update(address, update))) => {
                self.core.handle_answer(now, id, Answer::Failed);
                (id, address, update)
            }
            other => panic!("an update expected: {other:?}"),
        }
    }
}

/// A store and one worker's handle.
struct Worker {
    registering: Registering,
    store: Store,
    handle: Handle,
}

impl Worker {
    fn new(config: &LocationConfig) -> Worker {
        let store = Store::open(config, &mut ChaCha12Rng::seed_from_u64(1)).expect("it opens");
        Worker {
            registering: Registering::new(),
            handle: store.handle(),
            store,
        }
    }

    fn in_memory(addresses: usize) -> Worker {
        Worker::new(&LocationConfig {
            maximum_addresses_of_record: addresses,
            ..LocationConfig::default()
        })
    }

    fn register(&mut self, user: &str, cseq: u32, contact: &str, now: Instant) -> Answer {
        let (id, address, update) = self.registering.update(user, cseq, contact, now);
        self.ask(now, id, StoreQuery::Update(address, update))
    }

    fn look_up(&mut self, user: &str, now: Instant) -> Answer {
        let (id, address, _) = self.registering.update(user, 1, "<sip:a@127.0.0.1>", now);
        self.ask(now, id, StoreQuery::Lookup(address))
    }

    fn ask(&mut self, now: Instant, id: QueryId, query: StoreQuery) -> Answer {
        self.handle.submit(now, id, query);
        match self.handle.next_now() {
            Some((answered, answer)) if answered == id => answer,
            other => panic!("the answer expected: {other:?}"),
        }
    }

    /// Looks through everything, as happens in the course of a minute.
    fn maintain(&mut self, now: Instant) {
        for turn in 0..64 {
            self.handle.maintain(now + Duration::from_secs(turn));
        }
    }

    /// How many addresses of record are known, and how many bindings there are.
    fn counts(&self) -> (u64, u64) {
        let statistics = self.store.statistics();
        (statistics.addresses_of_record, statistics.bindings)
    }
}

fn count(answer: &Answer) -> Option<usize> {
    match answer {
        Answer::Bindings(bindings) => Some(bindings.len()),
        _ => None,
    }
}

#[test]
fn what_has_expired_goes_and_its_user_stays_known() {
    let now = Instant::now();
    let mut worker = Worker::in_memory(10);
    worker.register(
        "bob",
        1,
        "<sip:a@127.0.0.1>;expires=90, <sip:b@127.0.0.1>;expires=600",
        now,
    );
    worker.maintain(now);
    assert_eq!(worker.counts(), (1, 2));
    worker.maintain(now + Duration::from_secs(100));
    assert_eq!(worker.counts(), (1, 1));
    worker.maintain(now + Duration::from_secs(700));
    assert_eq!(worker.counts(), (1, 0));
    let later = now + Duration::from_secs(800);
    assert_eq!(count(&worker.look_up("bob", later)), Some(0));
    assert_eq!(worker.look_up("alice", later), Answer::Unknown);
}

#[test]
fn a_full_store_refuses_new_users_until_others_have_left() {
    let now = Instant::now();
    let mut worker = Worker::in_memory(2);
    for user in ["alice", "bob"] {
        let answer = worker.register(user, 1, "<sip:a@127.0.0.1>;expires=60", now);
        assert_eq!(count(&answer), Some(1));
    }
    let contact = "<sip:a@127.0.0.1>;expires=600";
    assert_eq!(worker.register("carol", 1, contact, now), Answer::Full);
    assert_eq!(count(&worker.register("bob", 2, contact, now)), Some(1));
    let later = now + Duration::from_secs(61);
    assert_eq!(count(&worker.register("carol", 2, contact, later)), Some(1));
    assert_eq!(worker.counts(), (2, 2));
    assert_eq!(worker.look_up("alice", later), Answer::Unknown);
}

#[test]
fn octets_are_bounded_and_what_takes_no_more_is_refreshed() {
    let now = Instant::now();
    let long = |user: &str| format!("<sip:{user}{}@127.0.0.1>;expires=60", "x".repeat(900));
    let mut worker = Worker::new(&LocationConfig {
        maximum_octets: 2500,
        ..LocationConfig::default()
    });
    for user in ["alice", "bob"] {
        assert_eq!(count(&worker.register(user, 1, &long("a"), now)), Some(1));
    }
    let full = worker.store.statistics().octets;
    assert!((2000..=2500).contains(&full), "{full}");
    assert_eq!(worker.register("carol", 1, &long("a"), now), Answer::Full);
    let two = format!("{}, {}", long("a"), long("b"));
    assert_eq!(worker.register("bob", 2, &two, now), Answer::Full);
    assert_eq!(count(&worker.register("bob", 3, &long("a"), now)), Some(1));
    assert_eq!(worker.store.statistics().octets, full);
    assert_eq!(worker.counts(), (2, 2));

    // Room is made by what has expired, and by those who are gone.
    let later = now + Duration::from_secs(61);
    for user in ["carol", "dave"] {
        assert_eq!(count(&worker.register(user, 2, &long("a"), later)), Some(1));
    }
    assert_eq!(worker.counts(), (2, 2));
    worker.maintain(later + Duration::from_secs(61));
    assert_eq!(worker.counts(), (2, 0));
    let octets = worker.store.statistics().octets;
    assert!(octets < 200, "{octets}");
}

#[test]
fn removing_what_is_not_there_makes_nobody_known() {
    let now = Instant::now();
    let mut worker = Worker::in_memory(2);
    let answer = worker.register("bob", 1, "<sip:a@127.0.0.1>;expires=0", now);
    assert_eq!(answer, Answer::Bindings([].into()));
    assert_eq!(worker.counts(), (0, 0));
}

#[test]
fn two_workers_see_the_same_bindings() {
    let now = Instant::now();
    let mut worker = Worker::in_memory(2);
    worker.register("bob", 1, "<sip:a@127.0.0.1>", now);
    let mut other = worker.store.handle();
    let (id, bob, _) = worker
        .registering
        .update("bob", 2, "<sip:a@127.0.0.1>", now);
    other.submit(now, id, StoreQuery::Lookup(bob));
    let (_, answer) = other.next_now().expect("an answer at once");
    assert_eq!(count(&answer), Some(1));
}
