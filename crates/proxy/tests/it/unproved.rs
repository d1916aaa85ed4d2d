//! What a datagram whose source may be forged draws from us: how often, how many octets, how many a second. The kinds of
//! requests and what they draw are the table of `docs/proxy.md`.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proxy::core::{Forking, Mode, Policy};
use sip::{Flow, Message, Method, Name};

use crate::common::{Bench, flow, register, request, response, sip};

const LISTENER: &str = "udp:192.0.2.1:5060";

/// Longer than any timer of a transaction runs.
const LONG: Duration = Duration::from_secs(64);

fn victim() -> Flow {
    flow(LISTENER, "192.0.2.66:5060")
}

fn phone() -> Flow {
    flow(LISTENER, "192.0.2.9:5060")
}

/// A server at the edge: its users have passwords.
fn empty(change: impl FnOnce(&mut Policy)) -> Bench {
    Bench::with(&[LISTENER], &["example.com"], |config| {
        let mut policy = Policy::default();
        policy.authentication.calls = true;
        change(&mut policy);
        config.policy = Arc::new(policy);
    })
}

/// The same with a user.
fn bench_with(change: impl FnOnce(&mut Policy)) -> Bench {
    let mut bench = empty(change);
    bench.register(phone(), "bob", "<sip:bob@192.0.2.9:5060>");
    bench
}

fn bench() -> Bench {
    bench_with(|_| {})
}

/// The shortest request that is one.
fn short(method: &str, uri: &str, from: &str) -> Message {
    sip(&format!(
        "{method} {uri} SIP/2.0
        Via: SIP/2.0/UDP 192.0.2.66;branch=z9hG4bK1
        Max-Forwards: 9
        From: <{from}>;tag=1
        To: <{uri}>
        Call-ID: 1
        CSeq: 1 {method}"
    ))
}

/// What goes to the victim from now on, with all repetitions: how many messages, and octets.
fn drawn(bench: &mut Bench) -> (usize, usize) {
    bench.pass(LONG);
    let sent = bench.sent();
    let sent = sent
        .iter()
        .filter(|sent| sent.target.remote() == victim().remote);
    let lengths: Vec<usize> = sent.map(|sent| sent.message.wire_length()).collect();
    (lengths.len(), lengths.iter().sum())
}

/// A kind of request: its name, and what is received.
struct Kind {
    name: &'static str,
    bench: Bench,
    octets: Vec<u8>,
}

fn kinds() -> Vec<Kind> {
    let stranger = "sip:x@a.example";
    let user = "sip:alice@example.com";
    let kind = |name, bench, message: Message| Kind {
        name,
        bench,
        octets: message.to_bytes().to_vec(),
    };
    let mut many = bench_with(|policy| {
        policy.forwarding.mode = Mode::Redirect;
        policy.authentication.calls = false;
    });
    let contacts: Vec<String> = (1..=10)
        .map(|number| {
            format!("<sip:carol{number}@192.0.2.{number}:5060;x=a-parameter-of-some-length>")
        })
        .collect();
    let contacts: Vec<&str> = contacts.iter().map(String::as_str).collect();
    many.receive(phone(), register("carol", 1, &contacts));
    many.one().answers(200);
    vec![
        kind(
            "INVITE in the name of a user: 407",
            bench(),
            short("INVITE", "sip:bob@example.com", user),
        ),
        kind(
            "INVITE for a user who does not exist: 404",
            bench(),
            short("INVITE", "sip:nobody@example.com", stranger),
        ),
        kind(
            "INVITE for somebody elsewhere: 403",
            bench(),
            short("INVITE", "sip:x@b.example", stranger),
        ),
        kind(
            "INVITE for a user who is redirected: 302",
            many,
            short("INVITE", "sip:carol@example.com", stranger),
        ),
        kind(
            "INVITE that may go no further: 483",
            bench(),
            {
                let mut last = short("INVITE", "sip:bob@example.com", stranger);
                last.replace(Name::MaxForwards, "0");
                last
            },
        ),
        kind(
            "MESSAGE in the name of a user: 407",
            bench(),
            short("MESSAGE", "sip:bob@example.com", user),
        ),
        kind(
            "OPTIONS for the server: 200",
            bench(),
            short("OPTIONS", "sip:example.com", stranger),
        ),
        kind(
            "REGISTER: 401",
            empty(|policy| policy.authentication.register = true),
            short("REGISTER", "sip:example.com", user),
        ),
        kind(
            "CANCEL of nothing: 481",
            bench(),
            short("CANCEL", "sip:example.com", stranger),
        ),
        Kind {
            name: "what breaks a rule: 400",
            bench: bench(),
            octets: b"INVITE sip:bob@example.com SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.66;branch=z9hG4bK1\r\n\
                From: <sip:x@a.example>;tag=1\r\nTo: <sip:bob@example.com>\r\nCall-ID: 1\r\nCSeq: 1 OPTIONS\r\n\r\n"
                .to_vec(),
        },
    ]
}

fn table() -> String {
    let mut table = String::new();
    for mut kind in kinds() {
        kind.bench.sent();
        let message = Message::read(kind.octets.clone().into()).expect("it can be read");
        kind.bench.receive(victim(), message);
        let (answers, octets) = drawn(&mut kind.bench);
        let came = kind.octets.len();
        table += &format!(
            "| {} | {came} | {answers} | {octets} | {:.1} |\n",
            kind.name,
            octets as f64 / came as f64
        );
        assert!(octets <= 3 * came, "{}: {octets} for {came}", kind.name);
    }
    table
}

#[test]
fn what_is_answered_is_as_documented() {
    let table = table();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/proxy.md");
    let page = fs::read_to_string(page).expect("the page");
    assert!(page.contains(&table), "docs/proxy.md is to have:\n{table}");
}

/// RFC 3261 sections 16.11 and 26.3.2.4.
#[test]
fn a_refused_invite_gets_its_answer_again_when_it_comes_again_and_leaves_nothing() {
    for (uri, from, status) in [
        ("sip:bob@example.com", "sip:alice@example.com", 407),
        ("sip:x@b.example", "sip:x@a.example", 403),
    ] {
        let mut bench = empty(|_| {});
        let invite = short("INVITE", uri, from);
        bench.receive(victim(), invite.clone());
        let first = bench.one();
        first.answers(status);
        assert_eq!(bench.proxy.transactions(), 0, "no transaction is left");
        bench.receive(victim(), invite.clone());
        let second = bench.one();
        second.answers(status);
        // Both are one answer (section 8.2.7), so that the ACK to either ends here.
        assert_eq!(first.message.to_tag(), second.message.to_tag());
        let mut ack = short("ACK", uri, from);
        ack.set_to_tag(first.message.to_tag().expect("a tag"));
        bench.receive(victim(), ack);
        bench.silence();
        bench.pass(LONG);
        bench.silence();
        bench.assert_idle();
    }
}

/// A response that somebody else has given is for a client that has had a 100: it is repeated, but what that draws on the
/// source is no more than three times what came.
#[test]
fn a_refusal_of_a_callee_is_repeated_within_what_has_come() {
    let repeated = |length: usize| {
        let mut bench = bench();
        let mut invite = short("INVITE", "sip:bob@example.com", "sip:x@a.example");
        invite.push_back(Name::Other("X"), "x".repeat(length));
        let came = invite.wire_length();
        bench.receive(victim(), invite);
        let [trying, forwarded] = bench.two();
        trying.answers(100);
        let busy = response(&forwarded.message, 486, "b1");
        bench.receive(phone(), busy);
        let first = bench
            .sent()
            .iter()
            .filter(|sent| sent.message.status() == Some(486))
            .count();
        assert_eq!(first, 1);
        let (answers, octets) = drawn(&mut bench);
        assert!(octets <= 3 * came);
        answers
    };
    assert_eq!(repeated(0), 0);
    // Timer G as always.
    assert_eq!(repeated(5_000), 10);
}

#[test]
fn refusals_of_unproved_requests_have_a_rate() {
    let mut bench = bench_with(|policy| {
        policy.overload.unauthenticated_per_second_per_source = Some(5);
        policy.overload.burst = Duration::from_secs(1);
    });
    let flood = |bench: &mut Bench, from: Flow, number: usize| {
        let mut invite = request(
            Method::Invite,
            "sip:nobody@example.com",
            &format!("c{number}"),
        );
        invite.replace(Name::From, "<sip:x@a.example>;tag=1");
        bench.receive(from, invite);
        let sent = bench.sent();
        let refusals = sent
            .iter()
            .filter(|sent| sent.message.status() == Some(404));
        refusals.count()
    };
    let answered: usize = (0..50)
        .map(|number| flood(&mut bench, victim(), number))
        .sum();
    assert_eq!(answered, 5);
    assert_eq!(bench.proxy.statistics().overload.scans_ignored, 45);
    // Others are answered, and the same after a while.
    assert_eq!(flood(&mut bench, phone(), 100), 1);
    bench.pass(Duration::from_secs(1));
    bench.sent();
    assert_eq!(flood(&mut bench, victim(), 101), 1);
    // Who has proved by a connection where he is has no such rate.
    let tcp = flow("tcp:192.0.2.1:5060", "192.0.2.66:40000");
    let mut bench = Bench::with(
        &[LISTENER, "tcp:192.0.2.1:5060"],
        &["example.com"],
        |config| {
            let mut policy = Policy::default();
            policy.overload.unauthenticated_per_second_per_source = Some(5);
            config.policy = Arc::new(policy);
        },
    );
    let answered: usize = (0..50).map(|number| flood(&mut bench, tcp, number)).sum();
    assert_eq!(answered, 50);
}

/// Of several challenges as many are there as there is room for: one always.
#[test]
fn a_challenge_is_no_longer_than_three_times_the_request() {
    let mut bench = Bench::with(
        &[LISTENER],
        &[
            "example.com",
            "one.example.com",
            "two.example.com",
            "three.example.com",
        ],
        |config| {
            let mut policy = Policy::default();
            policy.authentication.calls = true;
            config.policy = Arc::new(policy);
        },
    );
    let mut anonymous = short(
        "INVITE",
        "sip:x@b.example",
        "sip:anonymous@anonymous.invalid",
    );
    let came = anonymous.wire_length();
    bench.receive(victim(), anonymous.clone());
    let challenge = bench.one();
    challenge.answers(407);
    let few = challenge.values(Name::ProxyAuthenticate).len();
    assert!(few >= 1 && challenge.message.wire_length() <= 3 * came);
    anonymous.push_back(Name::Other("X"), "x".repeat(2_000));
    bench.receive(victim(), anonymous);
    let challenge = bench.one();
    assert!(challenge.values(Name::ProxyAuthenticate).len() > few);
}

proptest! {
    /// Whatever a datagram asks for, what it draws is bounded.
    #[test]
    fn no_request_draws_more_than_three_times_its_length(
        method in prop::sample::select(vec!["INVITE", "MESSAGE", "OPTIONS", "SUBSCRIBE", "CANCEL", "X"]),
        uri in prop::sample::select(vec![
            "sip:nobody@example.com", "sip:example.com", "sip:x@b.example", "sip:192.0.2.1", "tel:+1", "http://a",
            "sip:x@192.0.2.1", "sips:nobody@example.com",
        ]),
        from in prop::sample::select(vec![
            "sip:alice@example.com", "sip:x@a.example", "sip:anonymous@anonymous.invalid",
        ]),
        field in prop::sample::select(vec![
            ("Require", "foo"), ("Proxy-Require", "foo, bar"), ("Max-Breadth", "0"), ("Route", "<sip:c.example;lr>"),
            ("Max-Forwards", "0"), ("X", ""),
        ]),
        forking in prop::sample::select(vec![Forking::Parallel, Forking::Sequential]),
    ) {
        let mut bench = bench_with(|policy| policy.forwarding.forking = forking);
        let mut message = short(method, uri, from);
        message.replace(Name::parse(field.0), field.1);
        let came = message.wire_length();
        bench.receive(victim(), message);
        let (_, octets) = drawn(&mut bench);
        prop_assert!(octets <= 3 * came, "{} for {}", octets, came);
    }
}
