//! What is read at a glance is what the long way finds.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sip::{ConnectionId, Transport};

use super::super::binding::Binding;
use super::super::query::{Answer, Query};
use super::super::update::Change;
use super::super::{Config, Domain, Listener};
use super::*;

const LOCALS: [&str; 2] = ["192.0.2.1:5060", "198.51.100.1:5070"];

fn proxy() -> Proxy {
    let listeners = LOCALS.map(|address| Listener {
        transport: Transport::Udp,
        address: address.parse().expect("an address"),
    });
    let config = Config {
        listeners: listeners.into(),
        domains: vec![
            Domain {
                name: "example.com".parse().expect("a name"),
                aliases: vec!["192.0.2.1".parse().expect("an address")],
            },
            Domain {
                name: "example.org:5070".parse().expect("a name"),
                aliases: Vec::new(),
            },
        ],
        ..Config::default()
    };
    Proxy::new(config, ChaCha12Rng::seed_from_u64(1))
}

/// A REGISTER of such parts.
#[derive(Clone, Debug)]
struct Parts {
    uri: &'static str,
    via: &'static str,
    to: (&'static str, &'static str),
    contact: &'static str,
    more: &'static str,
    local: &'static str,
}

const PLAIN: Parts = Parts {
    uri: "sip:example.com",
    via: "SIP/2.0/UDP 203.0.113.9:5062",
    to: ("alice", "@example.com>"),
    contact: "<sip:alice@203.0.113.9:5062>",
    more: "Expires: 600",
    local: LOCALS[0],
};

fn parts() -> impl Strategy<Value = Parts> {
    let uris = select(vec![
        "sip:example.com",
        "sip:192.0.2.1:5060",
        "sip:example.org:5070",
        "sip:example.org",
        "sip:example.com;lr",
        "sip:example.com;maddr=192.0.2.1",
        "sip:example.com;transport=tcp",
        "sips:example.com",
        "sip:elsewhere.example",
        "tel:+1",
    ]);
    let vias = select(vec![
        "SIP/2.0/UDP 203.0.113.9:5062",
        "SIP/2.0/UDP 192.0.2.1:5060",
        "SIP/2.0/UDP 203.0.113.9;rport, SIP/2.0/UDP 203.0.113.10",
        "SIP/2.0/UDP phone.example;rport",
        "SIP/2.0/UDP 203.0.113.8:5062;rport",
    ]);
    let users = select(vec![
        "alice", "bob", "%61lice", "a:secret", "", "a;b", "a@b", "+1-2", "a b", "\u{fc}",
    ]);
    let hosts = select(vec![
        "@example.com>",
        "@192.0.2.1:5060>",
        "@example.org:5070>",
        "@example.org>",
        "@EXAMPLE.com>",
        "@elsewhere.example>",
        "@example.com>;tag=1",
        "@example.com;transport=udp>",
        ">",
    ]);
    let contacts = select(vec![
        "<sip:alice@203.0.113.9:5062>",
        "<sip:alice@203.0.113.9:5062>;expires=70",
        "<sip:alice@203.0.113.9:5062>;expires=7",
        "<sip:alice@203.0.113.9:5062>;expires=99999999999",
        "<sip:alice@203.0.113.9:5062>;expires=",
        "<sip:alice@203.0.113.9:5062>;q=0.5",
        "<sip:alice@203.0.113.9:5062;ob>;reg-id=1;+sip.instance=\"<urn:uuid:1>\"",
        "<sip:a@192.0.2.9>, <sip:b@192.0.2.9>",
        "<sip:a,b@192.0.2.9>",
        "\"A\" <sip:a@192.0.2.9>",
        "sip:a@192.0.2.9",
        "<tel:+1>",
        "<sips:a@192.0.2.9>",
        "<sip:a@192.0.2.9?x=y>",
        "<sip:%61@192.0.2.9>",
        "*",
        "",
    ]);
    let more = select(vec![
        "Expires: 600",
        "Expires: 0",
        "Expires: 10",
        "Expires: soon",
        "User-Agent: Phone",
        "Require: path",
        "Require: x",
        "Proxy-Require: x",
        // Not `gruu`: what is in temporary ones is drawn at random.
        "Supported: outbound, path",
        "Path: <sip:p.example;lr>",
        "Max-Breadth: 0",
        "Max-Forwards: 0",
        "Route: <sip:192.0.2.1;lr>",
        "Route: <sip:elsewhere.example;lr>",
        "Contact: <sip:c@192.0.2.9>",
        "P-Asserted-Identity: <sip:a@example.com>",
    ]);
    // Nearly all parts are those of most REGISTERs: else none would be read at a glance.
    let or = |plain: &'static str, others: proptest::sample::Select<&'static str>| prop_oneof![3 => Just(plain), 1 => others];
    let to = (or(PLAIN.to.0, users), or(PLAIN.to.1, hosts));
    let local = or(PLAIN.local, select(LOCALS.to_vec()));
    let rest = (or(PLAIN.contact, contacts), or(PLAIN.more, more), local);
    (or(PLAIN.uri, uris), or(PLAIN.via, vias), to, rest).prop_map(
        |(uri, via, to, (contact, more, local))| Parts {
            uri,
            via,
            to,
            contact,
            more,
            local,
        },
    )
}

/// How a REGISTER comes to a proxy.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Coming {
    Read,
    Octets,
}

/// What a proxy asks its store, and what it sends when that has answered.
fn outcome(
    proxy: &mut Proxy,
    now: Instant,
    came: (usize, Coming),
    parts: &Parts,
) -> (Vec<Query>, Vec<String>) {
    outcome_of(proxy, now, came, parts, Store::Changes)
}

/// What a store does.
#[derive(Clone, Copy, Debug)]
enum Store {
    Changes,
    IsFull,
    Fails,
}

fn octets_of(number: usize, parts: &Parts) -> Bytes {
    let Parts {
        uri,
        via,
        to: (user, host),
        contact,
        more,
        local: _,
    } = parts;
    let text = format!(
        "REGISTER {uri} SIP/2.0\r\nVia: {via};branch=z9hG4bK{number}\r\nFrom: <sip:x@example.com>;tag=1\r\n\
         To: <sip:{user}{host}\r\nCall-ID: {number}\r\nCSeq: 1 REGISTER\r\nContact: {contact}\r\n{more}\r\n\
         Content-Length: 0\r\n\r\n"
    );
    text.into()
}

fn flow_of(parts: &Parts) -> Flow {
    Flow {
        transport: Transport::Udp,
        local: parts.local.parse().expect("an address"),
        remote: "203.0.113.9:5062".parse().expect("an address"),
        connection: ConnectionId(0),
        stream: 0,
    }
}

fn outcome_of(
    proxy: &mut Proxy,
    now: Instant,
    came: (usize, Coming),
    parts: &Parts,
    store: Store,
) -> (Vec<Query>, Vec<String>) {
    outcome_beside(proxy, now, came, parts, (store, &mut HashMap::new()))
}

/// The store knows what each REGISTER has made of an address of record without bindings.
fn outcome_beside(
    proxy: &mut Proxy,
    now: Instant,
    (number, coming): (usize, Coming),
    parts: &Parts,
    (store, made): (Store, &mut HashMap<usize, Vec<Binding>>),
) -> (Vec<Query>, Vec<String>) {
    let (flow, octets) = (flow_of(parts), octets_of(number, parts));
    match coming {
        Coming::Read => {
            let message = Message::read(octets).expect("a message");
            proxy.handle_message(now, flow, message);
        }
        Coming::Octets => {
            proxy.accept_octets(now, Duration::ZERO, flow, octets);
            proxy.process_accepted(now);
        }
    }
    let mut queries = Vec::new();
    while let Some((id, mut query)) = proxy.poll_query() {
        let answer = match (&mut query, store) {
            (Query::Update(_, update), Store::Changes) => {
                // Drawn at random, and for instances alone.
                update.new_gruus = 0;
                match update.apply(&[]) {
                    Ok(bindings) => {
                        made.insert(number, bindings.clone());
                        Answer::Bindings(bindings.into())
                    }
                    Err(error) => Answer::Refused(error),
                }
            }
            (Query::Lookup(_), _) if made.contains_key(&number) => {
                Answer::Bindings(made[&number].as_slice().into())
            }
            (Query::Update(_, update), _) => {
                update.new_gruus = 0;
                match store {
                    Store::IsFull => Answer::Full,
                    _ => Answer::Failed,
                }
            }
            _ => Answer::Unknown,
        };
        queries.push(query);
        proxy.handle_answer(now, id, answer);
    }
    let sent = std::iter::from_fn(|| proxy.poll_transmit());
    let sent = sent.map(|transmit| without_drawn(&String::from_utf8_lossy(&transmit.payload)));
    (queries, sent.collect())
}

/// A message without what is drawn at random for one that is forwarded: the first part of our branch.
fn without_drawn(message: &str) -> String {
    const BRANCH: &str = ";branch=z9hG4bK";
    let parts = message
        .split_once(BRANCH)
        .filter(|_| !message.starts_with("SIP/2.0"));
    match parts.and_then(|(before, behind)| Some((before, behind.split_once('.')?.1))) {
        Some((before, behind)) => format!("{before}{BRANCH}.{behind}"),
        None => message.to_owned(),
    }
}

proptest! {
    /// A proxy that has seen other REGISTERs does with each what one does that sees it first.
    #[test]
    fn what_is_familiar_is_what_the_long_way_finds(
        all in proptest::collection::vec(parts(), 1..8),
    ) {
        let now = Instant::now();
        let mut experienced = proxy();
        for (number, parts) in all.iter().enumerate() {
            let later = now + Duration::from_millis(number as u64);
            let came = (number, Coming::Read);
            let expected = outcome(&mut proxy(), later, came, parts);
            prop_assert_eq!(outcome(&mut experienced, later, came, parts), expected, "{:?}", parts);
        }
    }

    /// What is not read does what it does when it is, and leaves the same behind: to the counters of the proxy and of its
    /// transactions. What comes again is answered again, be it from the response that was kept or from the store.
    #[test]
    fn what_is_not_read_is_as_if_it_were(
        all in proptest::collection::vec((parts(), 0..20_usize), 1..12),
        answer in select(vec![Store::Changes, Store::IsFull, Store::Fails]),
        rate in select(vec![None, Some(3)]),
    ) {
        let now = Instant::now();
        let mut both = [proxy(), proxy()];
        for proxy in &mut both {
            let mut policy = (*proxy.policy).clone();
            policy.overload.requests_per_second = rate;
            proxy.set_policy(now, policy.into());
        }
        let [read, unread] = &mut both;
        let mut made = HashMap::new();
        let mut seen = HashSet::new();
        for (number, (_, repeated)) in all.iter().enumerate() {
            let later = now + Duration::from_millis(number as u64);
            // Some come a second time.
            let number = if *repeated == 0 { number / 2 } else { number };
            let parts = &all[number].0;
            let is_repeated = !seen.insert(number);
            let expected = outcome_of(read, later, (number, Coming::Read), parts, answer);
            let coming = (number, Coming::Octets);
            let mut found = outcome_beside(unread, later, coming, parts, (answer, &mut made));
            if is_repeated {
                found.0.retain(|query| !matches!(query, Query::Lookup(_)));
            }
            prop_assert_eq!(found, expected, "{:?}", parts);
            prop_assert_eq!(unread.statistics(), read.statistics(), "{:?}", parts);
        }
        let end = now + Duration::from_secs(60);
        for proxy in [read, unread] {
            proxy.handle_timeout(end);
            prop_assert_eq!((proxy.transactions(), proxy.statistics().held_octets), (0, 0));
        }
    }
}

#[test]
fn what_came_before_an_unread_register_is_done_before() {
    let now = Instant::now();
    let mut proxy = proxy();
    outcome(&mut proxy, now, (0, Coming::Read), &PLAIN);
    let flow = flow_of(&PLAIN);
    for (number, is_read) in [(1, true), (2, false), (3, true), (4, false)] {
        let octets = octets_of(number, &PLAIN);
        if is_read {
            let message = Message::read(octets).expect("a message");
            proxy.accept_message(now, Duration::ZERO, flow, message);
        } else {
            proxy.accept_octets(now, Duration::ZERO, flow, octets);
        }
    }
    proxy.process_accepted(now);
    let mut call_ids = Vec::new();
    while let Some((id, query)) = proxy.poll_query() {
        let Query::Update(_, update) = query else {
            panic!("{query:?}");
        };
        let Change::Contacts(contacts) = update.change else {
            panic!("{:?}", update.change);
        };
        call_ids.extend(contacts.iter().map(|contact| contact.call_id().to_owned()));
        proxy.handle_answer(now, id, Answer::Bindings([].into()));
    }
    assert_eq!(call_ids, ["1", "2", "3", "4"]);
}

/// A store that remembers, for a user who is registered by `PLAIN`.
#[derive(Default)]
struct Remembering(Vec<Binding>);

impl Remembering {
    /// What a proxy sends when this has come, once the store has answered.
    fn outcome(&mut self, proxy: &mut Proxy, now: Instant, octets: &Bytes) -> Vec<String> {
        proxy.accept_octets(now, Duration::ZERO, flow_of(&PLAIN), octets.clone());
        proxy.process_accepted(now);
        while let Some((id, query)) = proxy.poll_query() {
            if let Query::Update(_, update) = &query {
                self.0 = update.apply(&self.0).expect("it is in order");
            }
            proxy.handle_answer(now, id, Answer::Bindings(self.0.as_slice().into()));
        }
        let sent = std::iter::from_fn(|| proxy.poll_transmit());
        sent.map(|transmit| String::from_utf8_lossy(&transmit.payload).into_owned())
            .collect()
    }
}

/// A REGISTER of a user agent that counts its requests.
fn counted(cseq: u32, more: &'static str) -> Bytes {
    let parts = Parts { more, ..PLAIN };
    let text = String::from_utf8_lossy(&octets_of(cseq as usize, &parts)).into_owned();
    let one = text.replace(&format!("Call-ID: {cseq}"), "Call-ID: one");
    one.replace("CSeq: 1", &format!("CSeq: {cseq}")).into()
}

#[test]
fn what_was_answered_is_answered_again_and_changes_nothing() {
    let now = Instant::now();
    let mut proxy = proxy();
    let mut store = Remembering::default();
    // The first one goes the long way, and its response is kept.
    store.outcome(&mut proxy, now, &counted(1, "Expires: 600"));
    let kept = proxy.transactions();
    let second = counted(2, "Expires: 600");
    let first_answer = store.outcome(&mut proxy, now, &second);
    assert!(
        first_answer[0].starts_with("SIP/2.0 200 "),
        "{first_answer:?}"
    );
    assert_eq!(proxy.transactions(), kept);
    let updates = store.0.clone();
    let again = store.outcome(&mut proxy, now, &second);
    assert_eq!(again, first_answer);
    assert_eq!(store.0, updates);
    // In half a minute what is left of the interval is told.
    let later = now + Duration::from_secs(20);
    let again = store.outcome(&mut proxy, later, &second);
    assert!(again[0].contains("expires=580"), "{again:?}");

    // It is late, and nobody waits for it: it neither comes back to life nor gets an answer.
    let removal = counted(3, "Expires: 0");
    let removed = store.outcome(&mut proxy, later, &removal);
    assert!(removed[0].starts_with("SIP/2.0 200 "), "{removed:?}");
    assert_eq!(store.0, []);
    assert_eq!(store.outcome(&mut proxy, later, &second), [""; 0]);
    assert_eq!(store.0, []);
    assert_eq!(store.outcome(&mut proxy, later, &removal), removed);
    // Nor does one that was refreshed since.
    store.outcome(&mut proxy, later, &counted(4, "Expires: 600"));
    assert_eq!(store.outcome(&mut proxy, later, &removal), [""; 0]);
    assert_eq!(store.0.len(), 1);
}

/// When REGISTERs have to prove who sends them, one that was answered before they had to tells nothing any more.
#[test]
fn a_repetition_is_no_proof() {
    let now = Instant::now();
    let mut proxy = proxy();
    let mut store = Remembering::default();
    store.outcome(&mut proxy, now, &counted(1, "Expires: 600"));
    let second = counted(2, "Expires: 600");
    let answer = store.outcome(&mut proxy, now, &second);
    assert_eq!(store.outcome(&mut proxy, now, &second), answer);
    let mut policy = (*proxy.policy).clone();
    policy.authentication.register = true;
    proxy.set_policy(now, policy.into());
    assert_eq!(store.outcome(&mut proxy, now, &second), [""; 0]);
    let third = store.outcome(&mut proxy, now, &counted(3, "Expires: 600"));
    assert!(third[0].starts_with("SIP/2.0 401 "), "{third:?}");
}

/// While the store is at work there is a transaction as for every request, and what is no 200 is kept.
#[test]
fn what_the_store_has_not_answered_well_is_kept() {
    let now = Instant::now();
    let mut proxy = proxy();
    let mut store = Remembering::default();
    store.outcome(&mut proxy, now, &counted(1, "Expires: 600"));
    let second = counted(2, "Expires: 600");
    let accept = |proxy: &mut Proxy| {
        proxy.accept_octets(now, Duration::ZERO, flow_of(&PLAIN), second.clone());
        proxy.process_accepted(now);
    };
    accept(&mut proxy);
    let (id, _) = proxy.poll_query().expect("a question");
    accept(&mut proxy);
    assert!(proxy.poll_query().is_none());
    assert!(proxy.poll_transmit().is_none());
    proxy.handle_answer(now, id, Answer::Failed);
    let refusal = proxy.poll_transmit().expect("a response").payload;
    assert!(refusal.starts_with(b"SIP/2.0 500 "), "{refusal:?}");
    accept(&mut proxy);
    assert!(proxy.poll_query().is_none());
    assert_eq!(proxy.poll_transmit().expect("it again").payload, refusal);
}

#[test]
fn most_are_familiar_from_the_second_on() {
    let now = Instant::now();
    let mut proxy = proxy();
    let is_known = |proxy: &Proxy| {
        let Familiar { registrar, domain } = &proxy.familiar;
        (registrar.is_some(), domain.is_some())
    };
    assert_eq!(is_known(&proxy), (false, false));
    for number in 0..2 {
        let (queries, sent) = outcome(&mut proxy, now, (number, Coming::Read), &PLAIN);
        assert_eq!((queries.len(), sent.len()), (1, 1));
        assert_eq!(is_known(&proxy), (true, true));
    }
    let to = b"<sip:bob@example.com>";
    let local = PLAIN.local.parse().expect("an address");
    assert!(proxy.knows_registrars(&flow_of(&PLAIN)));
    let plain = PlainRegister::read(octets_of(3, &PLAIN)).expect("it is as most are");
    let read = proxy.read_plain_register(&plain, &flow_of(&PLAIN), now);
    assert!(read.is_some());
    let bob = proxy.familiar.address_of_record(to, local).expect("known");
    assert_eq!(bob.as_str(), "bob@example.com");
    // Settings may say otherwise from now on.
    let policy = proxy.policy.clone();
    proxy.set_policy(now, policy);
    assert_eq!(is_known(&proxy), (false, false));
}
