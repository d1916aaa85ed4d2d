//! Tests of the stores: what both do, what is in a file, and both against a naive model.

mod files;
mod memory;
mod model;
mod pages;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use rand::SeedableRng;
use sip::{ConnectionId, Flow, Message, Method, Name, Transport};

use super::*;
use crate::core::{AddressOfRecord, Config, Domain, Listener, Proxy, Query, Update};

/// Makes of REGISTERs what a core makes of them.
struct Registering {
    core: Proxy,
    requests: u32,
    address: SocketAddr,
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
        self.requests += 1;
        let via = format!("SIP/2.0/UDP 127.0.0.1:9;branch=z9hG4bK{}", self.requests);
        let mut request = Message::request(Method::Register, "sip:example.com")
            .with(Name::Via, via)
            .with(Name::From, "<sip:x@example.com>;tag=1")
            .with(Name::To, format!("<sip:{user}@example.com>"))
            .with(Name::CallId, user)
            .with(Name::CSeq, format!("{cseq} REGISTER"))
            .with(Name::Contact, contact);
        if contact == "*" {
            request = request.with(Name::Expires, "0");
        }
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
        let (answered, answer) = self.next();
        assert_eq!(answered, id);
        answer
    }

    fn next(&mut self) -> (QueryId, Answer) {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime").block_on(self.handle.next())
    }

    /// Looks through everything, as has happened in the course of the last minute.
    fn maintain(&mut self, now: Instant) {
        for before in (0..64).rev() {
            let earlier = now.checked_sub(Duration::from_secs(before));
            self.handle.maintain(earlier.unwrap_or(now));
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

fn url(path: &Path) -> Url {
    Url::sqlite(path.to_str().expect("UTF-8"))
}

#[test]
fn a_url_is_read_as_it_is_written() {
    for text in ["memory:", "sqlite:tandem.db", "sqlite:/var/lib/x/y.db"] {
        let url: Url = text.parse().expect("a store");
        assert_eq!(url.to_string(), text);
    }
    assert_eq!("SQLite:a".parse(), Ok(Url::sqlite("a")));
}

#[test]
fn what_chooses_no_store_is_told_what_there_is() {
    for text in [
        "",
        "memory",
        "memory:x",
        "sqlite:",
        "redis://localhost",
        "tandem.db",
    ] {
        let error = text.parse::<Url>().expect_err(text).to_string();
        let expected = format!("{text:?} is not a location store; use sqlite:PATH or memory:");
        assert_eq!(error, expected);
    }
}

/// The settings of a store in a file, which does not wait for others to write with.
fn in_file(path: &Path) -> LocationConfig {
    LocationConfig {
        url: url(path),
        synchronous: Synchronous::Normal,
        ..LocationConfig::default()
    }
}
