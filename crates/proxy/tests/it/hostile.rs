//! Whatever arrives, in whatever order: the core does not panic, sends only messages that keep the
//! rules, and holds nothing any more when silence has lasted long enough.

use std::time::Duration;

use crate::common::{Bench, flow, listener, register, response};
use proptest::prelude::*;
use proxy::core::{Answer, NextHop};
use sip::{ConnectionId, Flow, Message, Method, Name, Transport};

const LISTENERS: [&str; 3] = [
    "udp:192.0.2.1:5060",
    "tcp:192.0.2.1:5060",
    "sctp:192.0.2.1:5060",
];

const URIS: [&str; 16] = [
    "sip:alice@example.com",
    "sip:bob@example.com",
    "sip:nobody@example.com",
    "sip:example.com",
    "sips:bob@example.com",
    "sip:bob@192.0.2.1:5060",
    "sip:192.0.2.1;lr",
    "sip:bob@192.0.2.20:5060",
    "sip:bob@192.0.2.20;transport=tcp",
    "sip:bob@10.0.0.1;maddr=192.0.2.1",
    "sip:bob@unknown.example;transport=sctp",
    "sip:%00%ff@example.com",
    "tel:+15551234",
    "http://example.com/",
    "sip:",
    "nonsense",
];

const METHODS: [Method; 9] = [
    Method::Invite,
    Method::Ack,
    Method::Bye,
    Method::Cancel,
    Method::Register,
    Method::Options,
    Method::Message,
    Method::Subscribe,
    Method::Prack,
];

/// Something that happens to the proxy.
#[derive(Clone, Debug)]
enum Happening {
    Request(Flow, Request),
    /// The request with this number of those that were sent is answered, or answered with another
    /// one's Via.
    Response {
        request: usize,
        status: u16,
        tag: u8,
        with_via_of: Option<usize>,
    },
    /// A message that was sent comes back as it is.
    Echo(Flow, usize),
    /// Octets of a message that was sent, with some of them changed.
    Mangled {
        flow: Flow,
        sent: usize,
        changes: Vec<(usize, u8)>,
        is_malformed: bool,
    },
    Octets(Flow, Vec<u8>),
    SendFailure,
    ConnectionClosed(u64),
    Answer {
        question: usize,
        kind: u8,
    },
    Time(u64),
}

/// A request from parts that are each sound or odd.
#[derive(Clone, Debug)]
struct Request {
    method: usize,
    uri: usize,
    call: u8,
    branch: u8,
    cseq: u32,
    tag: Option<u8>,
    routes: Vec<usize>,
    contacts: Vec<(usize, u32)>,
    extra: Vec<(usize, usize)>,
    body: usize,
}

impl Request {
    fn message(&self) -> Message {
        let method = METHODS[self.method % METHODS.len()].clone();
        let uri = URIS[self.uri % URIS.len()];
        let cseq = format!("{} {method}", self.cseq);
        let tag = self
            .tag
            .map(|tag| format!(";tag={tag}"))
            .unwrap_or_default();
        let mut message = Message::request(method, uri)
            .with(
                Name::Via,
                format!("SIP/2.0/UDP 192.0.2.9;branch=z9hG4bK{}", self.branch),
            )
            .with(Name::From, "<sip:alice@example.com>;tag=1")
            .with(Name::To, format!("<{uri}>{tag}"))
            .with(Name::CallId, format!("call{}", self.call))
            .with(Name::CSeq, cseq);
        for route in &self.routes {
            message.push_back(Name::Route, format!("<{}>", URIS[route % URIS.len()]));
        }
        for (contact, expires) in &self.contacts {
            let contact = match contact % (URIS.len() + 1) {
                place if place < URIS.len() => {
                    format!("<{}>;expires={expires};q=0.{expires}", URIS[place])
                }
                _ => "*".to_owned(),
            };
            message.push_back(Name::Contact, contact);
        }
        for (name, value) in &self.extra {
            let names = [
                Name::MaxForwards,
                Name::MaxBreadth,
                Name::Expires,
                Name::ProxyRequire,
                Name::Require,
                Name::RecordRoute,
                Name::Via,
                Name::Other("X-Odd"),
            ];
            let values = [
                "0",
                "1",
                "70",
                "-1",
                "4294967296",
                "foo, bar",
                "<sip:192.0.2.1;lr>",
                "\u{7f}\u{e9}",
            ];
            message.push_back(names[name % names.len()], values[value % values.len()]);
        }
        message.set_body(None, vec![b'x'; self.body].into());
        message
    }
}

fn any_flow() -> impl Strategy<Value = Flow> {
    (0..LISTENERS.len(), 0..4u16).prop_map(|(listener, peer)| {
        flow(
            LISTENERS[listener],
            &format!("192.0.2.{}:{}", 20 + peer, 5060 + peer),
        )
    })
}

/// Mostly sound requests to users that are registered, so that much happens; odd ones among them.
fn any_request() -> impl Strategy<Value = Request> {
    let uri = || prop_oneof![4 => 0..2usize, 1 => 0..URIS.len()];
    let method = prop_oneof![4 => Just(0usize), 2 => Just(3), 1 => Just(1), 1 => Just(4), 2 => 0..METHODS.len()];
    let expires = prop_oneof![Just(0u32), Just(10), Just(100), any::<u32>()];
    let rarely = |strategy: BoxedStrategy<Vec<(usize, usize)>>| prop_oneof![5 => Just(Vec::new()), 1 => strategy];
    (
        (
            method,
            uri(),
            0..4u8,
            prop::option::weighted(0.1, 0..6u8),
            1..4u32,
        ),
        (
            prop::option::weighted(0.1, 0..3u8),
            prop_oneof![5 => Just(Vec::new()), 1 => prop::collection::vec(0..URIS.len(), 1..3)],
        ),
        prop::collection::vec(
            (prop_oneof![2 => 7..9usize, 1 => 0..URIS.len() + 1], expires),
            0..3,
        ),
        rarely(prop::collection::vec((any::<usize>(), any::<usize>()), 1..3).boxed()),
        0..3usize,
    )
        .prop_map(
            |((method, uri, call, branch, cseq), (tag, routes), contacts, extra, body)| Request {
                method,
                uri,
                call,
                branch: branch.unwrap_or(call),
                cseq,
                tag,
                routes,
                contacts,
                extra,
                body,
            },
        )
}

fn any_happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => (any_flow(), any_request()).prop_map(|(flow, request)| Happening::Request(flow, request)),
        6 => (any::<usize>(), prop_oneof![2 => 100..700u16, 2 => Just(180), 1 => Just(200), 1 => Just(503)], 0..3u8, prop::option::weighted(0.1, any::<usize>()))
            .prop_map(|(request, status, tag, with_via_of)| Happening::Response { request, status, tag, with_via_of }),
        1 => (any_flow(), any::<usize>()).prop_map(|(flow, sent)| Happening::Echo(flow, sent)),
        1 => (any_flow(), any::<usize>(), prop::collection::vec(any::<(usize, u8)>(), 0..8), any::<bool>())
            .prop_map(|(flow, sent, changes, is_malformed)| Happening::Mangled { flow, sent, changes, is_malformed }),
        1 => (any_flow(), prop::collection::vec(any::<u8>(), 0..64)).prop_map(|(flow, octets)| Happening::Octets(flow, octets)),
        1 => Just(Happening::SendFailure),
        1 => any::<u64>().prop_map(Happening::ConnectionClosed),
        2 => (any::<usize>(), 0..7u8).prop_map(|(question, kind)| Happening::Answer { question, kind }),
        2 => prop_oneof![0..1000u64, 0..40_000u64, 0..300_000u64].prop_map(Happening::Time),
    ]
}

/// The happenings one after the other, on a bench.
fn play(happenings: Vec<Happening>, holds_questions: bool) -> Bench {
    let mut bench = Bench::with(&LISTENERS, &["example.com"], |config| {
        config.queries.maximum_parked = 8;
        config.registrar.minimum_expires = Duration::from_secs(1);
        config.transactions.max_transactions = 20;
    });
    bench.holds_questions = holds_questions;
    for (user, contacts) in [("alice", 1), ("bob", 3)] {
        for (phone, listener) in (0u32..).zip(&LISTENERS[..contacts]) {
            let from = flow(listener, &format!("192.0.2.{}:5060", 20 + phone));
            let contact = format!("<sip:{user}@192.0.2.{}>;q=0.{}", 20 + phone, phone / 2);
            bench.receive(from, register(user, 1 + phone, &[&contact]));
        }
    }
    bench.sent();
    let mut requests: Vec<Message> = Vec::new();
    let mut others: Vec<Message> = Vec::new();
    for happening in happenings {
        match happening {
            Happening::Request(flow, request) => bench.receive(flow, request.message()),
            Happening::Response {
                request,
                status,
                tag,
                with_via_of,
            } => {
                // Rather one of the last: older ones have their answers.
                let recent = requests
                    .get(requests.len().saturating_sub(8)..)
                    .unwrap_or_default();
                let Some(request) = pick(recent, request) else {
                    continue;
                };
                let mut response = response(request, status, &format!("t{tag}"));
                if let Some(via) = with_via_of
                    .and_then(|other| pick(&requests, other))
                    .and_then(|other| other.values(Name::Via).next())
                {
                    response.push_front(Name::Via, via);
                }
                bench.receive(flow(LISTENERS[0], "192.0.2.77:5060"), response);
            }
            Happening::Echo(flow, sent) => {
                let Some(message) = pick(&others, sent).or(pick(&requests, sent)) else {
                    continue;
                };
                bench.receive(flow, message.clone());
            }
            Happening::Mangled {
                flow,
                sent,
                changes,
                is_malformed,
            } => {
                let Some(message) = pick(&requests, sent) else {
                    continue;
                };
                let mut octets = message.to_bytes().to_vec();
                for (place, value) in changes {
                    let place = place % octets.len();
                    octets[place] = value;
                }
                match Message::read(octets.clone().into()) {
                    Ok(message) if !is_malformed => bench.receive(flow, message),
                    _ => bench.receive_malformed(flow, &octets),
                }
            }
            Happening::Octets(flow, octets) => bench.receive_malformed(flow, &octets),
            Happening::SendFailure => bench.fail_last_request(),
            Happening::ConnectionClosed(connection) => {
                bench
                    .proxy
                    .handle_connection_closed(ConnectionId(connection));
            }
            Happening::Answer { question, kind } => answer(&mut bench, question, kind),
            Happening::Time(milliseconds) => bench.pass(Duration::from_millis(milliseconds)),
        }
        for sent in bench.sent() {
            let kept = if sent.message.is_request() {
                &mut requests
            } else {
                &mut others
            };
            kept.push(sent.message);
        }
    }
    bench
}

/// Answers a question that is held, fittingly or not.
fn answer(bench: &mut Bench, question: usize, kind: u8) {
    if bench.questions.is_empty() {
        return;
    }
    let place = question % bench.questions.len();
    let Some((id, query)) = bench.questions.remove(place) else {
        return;
    };
    let hop = |port| NextHop {
        transport: Transport::Udp,
        remote: ([192, 0, 2, 77], port).into(),
        local: listener(LISTENERS[0]).address,
        peer: None,
    };
    let answer = match kind {
        0 => Answer::Failed,
        1 => Answer::Unknown,
        2 => Answer::Full,
        3 => Answer::NextHops((5060..5080).map(hop).collect()),
        4 => Answer::NextHops(Vec::new()),
        _ => bench.own_answer(query),
    };
    bench.answer(id, answer);
}

fn pick(messages: &[Message], place: usize) -> Option<&Message> {
    messages.get(place.checked_rem(messages.len())?)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_breaks_it_and_nothing_stays(
        happenings in prop::collection::vec(any_happening(), 0..100),
        holds_questions in any::<bool>(),
    ) {
        let mut bench = play(happenings, holds_questions);
        // The longest that anything takes: each of a user's contacts in turn, by both of its ways, to
        // the end of Timer C and of the CANCEL after it.
        bench.pass(Duration::from_secs(10_000));
        bench.sent();
        bench.assert_idle();
    }

    #[test]
    fn the_same_happenings_have_the_same_outcome(
        happenings in prop::collection::vec(any_happening(), 0..30),
    ) {
        let one = play(happenings.clone(), false);
        let other = play(happenings, false);
        prop_assert_eq!(one.proxy.statistics(), other.proxy.statistics());
        prop_assert_eq!(one.events, other.events);
    }
}
