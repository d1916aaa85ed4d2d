//! Keep-alives to user agents that have registered before there were any: before the server was restarted, or before a
//! reload that begins to want them (RFC 5626 section 4.4.2).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{self, Bench, flow, register};
use proxy::core::{
    Answer, Config, Domain, KeepAliveMethod, KeepAlivePolicy, Keys, Policy, Proxy, Query, QueryId,
};
use proxy::location::{LocationConfig, Url};
use proxy::{ProxyConfig, Server};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sip::Flow;
use sip_net::SipNetConfig;
use tokio::net::UdpSocket;

const HERE: &str = "udp:192.0.2.1:5060";

fn policy(method: Option<KeepAliveMethod>) -> Arc<Policy> {
    Arc::new(Policy {
        keep_alive: KeepAlivePolicy {
            method,
            ..KeepAlivePolicy::default()
        },
        ..Policy::default()
    })
}

const WANTED: Option<KeepAliveMethod> = Some(KeepAliveMethod::LineEnds);

fn bench(method: Option<KeepAliveMethod>) -> Bench {
    Bench::with(&[HERE, "tcp:192.0.2.1:5060"], &["example.com"], |config| {
        change(config, method)
    })
}

fn change(config: &mut Config, method: Option<KeepAliveMethod>) {
    config.policy = policy(method);
    config.keys = Some(Keys::from_bytes([7; 32]));
    // Nobody else is asked for so long.
    config.queries.maximum_parked = 4;
}

/// Another core in place of that of a bench, which has what the store has.
fn restarted(bench: &mut Bench, method: Option<KeepAliveMethod>) {
    bench.proxy = another(method);
}

fn another(method: Option<KeepAliveMethod>) -> Proxy {
    let mut config = Config {
        listeners: vec![common::listener(HERE)],
        domains: vec![Domain {
            name: "example.com".parse().expect("a host"),
            aliases: Vec::new(),
        }],
        ..Config::default()
    };
    change(&mut config, method);
    Proxy::new(config, ChaCha12Rng::seed_from_u64(8))
}

/// A phone behind a NAT, by its number.
fn phone(number: u16) -> Flow {
    let address = format!("198.51.100.{}:{}", number % 200, 40_000 + number);
    flow(HERE, &address)
}

fn register_phones(bench: &mut Bench, phones: std::ops::Range<u16>) {
    for number in phones {
        bench.register(
            phone(number),
            &format!("user{number}"),
            "<sip:x@10.0.0.1:5060>;expires=3600",
        );
    }
}

/// What is sent, and when, until a time is over. The store answers at once.
fn sent(bench: &mut Bench, time: Duration) -> Vec<(Duration, String)> {
    let (start, end) = (bench.now, bench.now + time);
    let mut sent = Vec::new();
    while let Some(due) = bench.proxy.next_timeout().filter(|due| *due <= end) {
        bench.now = bench.now.max(due);
        bench.proxy.handle_timeout(bench.now);
        while let Some((id, query)) = bench.proxy.poll_query() {
            let answer = bench.own_answer(query);
            bench.proxy.handle_answer(bench.now, id, answer);
        }
        while let Some(transmit) = bench.proxy.poll_transmit() {
            let sip::Target::Flow(flow) = transmit.target else {
                panic!("{transmit:?}");
            };
            assert_eq!(&transmit.payload[..], b"\r\n\r\n");
            sent.push((bench.now - start, flow.remote.to_string()));
        }
    }
    bench.now = end;
    sent
}

/// How many keep-alives each has got.
fn counted(sent: &[(Duration, String)]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for (_, remote) in sent {
        *counts.entry(remote.as_str()).or_insert(0) += 1;
    }
    counts
}

#[test]
fn flows_are_kept_open_again_after_a_restart() {
    let mut bench = bench(WANTED);
    register_phones(&mut bench, 0..3);
    let short = "<sip:x@10.0.0.1:5060>;expires=60";
    bench.register(phone(7), "carol", short);
    // Not behind a NAT, and over a connection, which is gone.
    bench.register(
        flow(HERE, "192.0.2.9:5060"),
        "alice",
        "<sip:alice@192.0.2.9:5060>",
    );
    bench.register(
        flow("tcp:192.0.2.1:5060", "198.51.100.9:40000"),
        "bob",
        "<sip:bob@10.0.0.1;transport=tcp>",
    );
    restarted(&mut bench, WANTED);
    assert_eq!(bench.proxy.next_timeout(), None);
    bench.proxy.start_keep_alives(bench.now, 0, 1);
    // It is not known when they have sent something last: the first one goes out at once.
    let first = sent(&mut bench, Duration::from_millis(100));
    let phones = [0, 1, 2, 7].map(|number| phone(number).remote.to_string());
    let expected: BTreeMap<&str, usize> = phones.iter().map(|phone| (phone.as_str(), 1)).collect();
    assert_eq!(counted(&first), expected);
    let rest = sent(&mut bench, Duration::from_secs(100));
    let expected = [4, 4, 4, 2];
    let expected = phones.iter().map(String::as_str).zip(expected).collect();
    assert_eq!(counted(&rest), expected);
    sent(&mut bench, Duration::from_secs(4000));
    bench.assert_idle();
    assert_eq!(bench.proxy.statistics().keep_alives, 0);

    // Nobody wants any.
    restarted(&mut bench, None);
    bench.proxy.start_keep_alives(bench.now, 0, 1);
    bench.assert_idle();
}

#[test]
fn a_reload_begins_them_for_those_who_are_registered() {
    let mut bench = bench(None);
    register_phones(&mut bench, 0..3);
    let now = bench.now;
    bench.proxy.set_policy(now, policy(None));
    assert!(sent(&mut bench, Duration::from_secs(60)).is_empty());
    let now = bench.now;
    bench.proxy.set_policy(now, policy(WANTED));
    assert_eq!(sent(&mut bench, Duration::from_secs(1)).len(), 3);
    // Another change of settings changes nothing of them.
    let now = bench.now;
    bench.proxy.set_policy(now, policy(WANTED));
    assert_eq!(sent(&mut bench, Duration::from_secs(10)).len(), 0);
    assert_eq!(sent(&mut bench, Duration::from_secs(20)).len(), 3);
    let now = bench.now;
    bench.proxy.set_policy(now, policy(None));
    assert_eq!(bench.proxy.statistics().keep_alives, 0);
    bench.assert_idle();
    // One leaves while nobody looks.
    bench.receive(
        phone(1),
        register("user1", 2, &["<sip:x@10.0.0.1:5060>;expires=0"]),
    );
    bench.one().answers(200);
    let now = bench.now;
    bench.proxy.set_policy(now, policy(WANTED));
    let again = sent(&mut bench, Duration::from_secs(1));
    assert_eq!(again.len(), 2);
    assert!(!counted(&again).contains_key(&*phone(1).remote.to_string()));
}

#[test]
fn the_walk_is_paced_and_meets_everybody_once() {
    let mut bench = bench(None);
    register_phones(&mut bench, 0..1000);
    restarted(&mut bench, WANTED);
    bench.proxy.start_keep_alives(bench.now, 0, 1);
    let sent = sent(&mut bench, Duration::from_secs(10));
    let counts = counted(&sent);
    assert_eq!(counts.len(), 1000);
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    // Four pages, and a rest after each and after so many keep-alives.
    let mut at_once = BTreeMap::new();
    for (time, _) in &sent {
        *at_once.entry(*time).or_insert(0) += 1;
    }
    assert!(at_once.values().all(|count| *count <= 64), "{at_once:?}");
    let first_page = sent.iter().filter(|(time, _)| time.as_millis() < 50);
    assert_eq!(first_page.count(), 256);
}

#[test]
fn each_flow_is_kept_by_one_worker() {
    let mut bench = bench(None);
    register_phones(&mut bench, 0..300);
    let mut seen = BTreeMap::new();
    for number in 0..3 {
        bench.proxy = another(WANTED);
        bench.proxy.start_keep_alives(bench.now, number, 3);
        let sent = sent(&mut bench, Duration::from_secs(5));
        assert!(sent.len() > 50, "{number}: {}", sent.len());
        for (_, remote) in sent {
            *seen.entry(remote).or_insert(0) += 1;
        }
    }
    assert_eq!(seen.len(), 300);
    assert!(seen.values().all(|count| *count == 1));
}

/// The question that is asked now, if there is one.
fn asked(bench: &mut Bench) -> Option<(QueryId, Query)> {
    bench.proxy.handle_timeout(bench.now);
    bench.proxy.poll_query()
}

#[test]
fn a_store_that_fails_is_asked_again_and_one_that_is_silent_too() {
    let mut bench = bench(None);
    register_phones(&mut bench, 0..2);
    restarted(&mut bench, WANTED);
    bench.proxy.start_keep_alives(bench.now, 0, 1);
    for answer in [Answer::Failed, Answer::Full, Answer::Unknown] {
        let (id, _) = asked(&mut bench).expect("a question");
        assert!(asked(&mut bench).is_none());
        bench.proxy.handle_answer(bench.now, id, answer);
        assert!(asked(&mut bench).is_none());
        bench.now += Duration::from_secs(1);
    }
    let (late, _) = asked(&mut bench).expect("a question");
    bench.now += Duration::from_secs(10);
    assert!(asked(&mut bench).is_none());
    assert_eq!(bench.proxy.statistics().questions, 0);
    bench.now += Duration::from_secs(1);
    let (id, query) = asked(&mut bench).expect("a question");
    // What comes too late is not taken for the answer to another question.
    bench.proxy.handle_answer(bench.now, late, Answer::Unknown);
    let answer = bench.own_answer(query);
    bench.proxy.handle_answer(bench.now, id, answer);
    assert_eq!(bench.proxy.statistics().keep_alives, 2);

    // It ends when nobody wants it any more, and an answer then is for nobody.
    restarted(&mut bench, WANTED);
    bench.proxy.start_keep_alives(bench.now, 0, 1);
    let (id, query) = asked(&mut bench).expect("a question");
    bench.proxy.set_policy(bench.now, policy(None));
    bench.assert_idle();
    let answer = bench.own_answer(query);
    bench.proxy.handle_answer(bench.now, id, answer);
    assert_eq!(bench.proxy.statistics().keep_alives, 0);
    bench.assert_idle();
}

#[test]
fn what_a_register_says_meanwhile_counts() {
    let mut bench = bench(None);
    bench.register(phone(1), "user1", "<sip:x@10.0.0.1:5060>;expires=60");
    restarted(&mut bench, WANTED);
    bench.proxy.start_keep_alives(bench.now, 0, 1);
    let (id, query) = asked(&mut bench).expect("a question");
    let old = bench.own_answer(query);
    bench.receive(
        phone(1),
        register("user1", 2, &["<sip:x@10.0.0.1:5060>;expires=600"]),
    );
    bench.one().answers(200);
    bench.proxy.handle_answer(bench.now, id, old);
    assert_eq!(bench.proxy.statistics().keep_alives, 1);
    assert_eq!(sent(&mut bench, Duration::from_secs(299)).len(), 11);
}

#[test]
fn there_is_room_for_so_many_flows() {
    let mut bench = bench(None);
    register_phones(&mut bench, 0..5);
    restarted(&mut bench, None);
    let mut wanted = (*policy(WANTED)).clone();
    wanted.keep_alive.maximum_flows = 3;
    bench.proxy.set_policy(bench.now, Arc::new(wanted));
    assert_eq!(sent(&mut bench, Duration::from_secs(5)).len(), 3);
    let statistics = bench.proxy.statistics();
    assert_eq!(
        (statistics.keep_alives, statistics.keep_alives_refused),
        (3, 2)
    );
}

/// How many phones there are on loopback.
const PHONES: usize = 20;

/// How long something may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

async fn serve(
    listener: &str,
    database: &std::path::Path,
    method: Option<KeepAliveMethod>,
) -> Server {
    let transports = SipNetConfig {
        listeners: vec![listener.parse().expect("a listener")],
        ..SipNetConfig::default()
    };
    let keep_alive = KeepAlivePolicy {
        // One each is what is looked for.
        interval: Duration::from_secs(600),
        method,
        ..KeepAlivePolicy::default()
    };
    Server::start(ProxyConfig {
        transports,
        workers: 2,
        location: LocationConfig {
            url: Url::sqlite(database.to_str().expect("UTF-8")),
            ..LocationConfig::default()
        },
        policy: Arc::new(Policy {
            keep_alive,
            ..Policy::default()
        }),
        ..ProxyConfig::default()
    })
    .await
    .expect("it starts")
}

async fn received(socket: &UdpSocket, patience: Duration) -> Option<Vec<u8>> {
    let mut buffer = [0; 4096];
    let received = tokio::time::timeout(patience, socket.recv(&mut buffer)).await;
    let length = received.ok()?.expect("a datagram");
    Some(buffer[..length].to_vec())
}

#[tokio::test]
async fn a_server_on_a_database_file_keeps_flows_open_after_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = directory.path().join("location.db");
    // Without keep-alives: its walk through the store could come across those that register meanwhile.
    let server = serve("udp:127.0.0.1:0", &database, None).await;
    let address = server.listening()[0].address;
    let mut phones = Vec::new();
    for number in 0..PHONES {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        socket.connect(address).await.expect("an address");
        let register = format!(
            "REGISTER sip:localhost SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.1:5060;rport;branch=z9hG4bK{number}\r\n\
             From: <sip:u{number}@localhost>;tag=1\r\nTo: <sip:u{number}@localhost>\r\n\
             Call-ID: {number}\r\nCSeq: 1 REGISTER\r\nContact: <sip:u{number}@10.0.0.1:5060>\r\n\
             Content-Length: 0\r\n\r\n"
        );
        socket.send(register.as_bytes()).await.expect("it is sent");
        let answer = received(&socket, PATIENCE).await.expect("an answer");
        assert!(answer.starts_with(b"SIP/2.0 200 "), "{number}");
        phones.push(socket);
    }
    server.shutdown().await;

    let server = serve(&format!("udp:{address}"), &database, WANTED).await;
    for phone in &phones {
        let keep_alive = received(phone, PATIENCE).await;
        assert_eq!(keep_alive.as_deref(), Some(&b"\r\n\r\n"[..]));
    }
    // Of the workers one does it.
    for phone in &phones {
        assert_eq!(received(phone, Duration::from_millis(10)).await, None);
    }
    assert_eq!(server.statistics().await.proxy.keep_alives, PHONES as u64);
    server.shutdown().await;
}
