//! What the core takes, without sockets: for calls as SIPp makes them, for registrations and for
//! refusals, message by message from octets to octets, on a virtual clock and the same in every run.
//!
//! `cargo bench -p proxy --bench messages -- [CASE [COUNT]]` prints the nanoseconds of each.
//! Instructions are told by
//! `valgrind --tool=callgrind --toggle-collect='messages::Core::feed' PROGRAM call 3000`.
#![allow(missing_docs)]

use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use proxy::core::{
    Answer, Bindings, Config, Domain, Listener, OverloadPolicy, Policy, Proxy, Query, Update,
};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sip::{ConnectionId, Flow, Message, Method, Name, Transport};

/// The allocator of the `tandem` program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CASES: [&str; 4] = ["call", "tcp-call", "registration", "refusal"];

/// How many users are registered and called in turns.
const USERS: usize = 1_000;

/// What passes between two messages: transactions that have ended go after 1,300 calls.
const STEP: Duration = Duration::from_millis(4);

const PROXY: &str = "127.0.0.1:5060";
const CALLER: &str = "127.0.0.1:5061";
const CALLEE: &str = "127.0.0.1:5062";
const BODY: &str = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
    m=audio 6000 RTP/AVP 0 8 101\r\na=rtpmap:0 PCMU/8000\r\na=rtpmap:8 PCMA/8000\r\n\
    a=rtpmap:101 telephone-event/8000\r\n";

fn main() {
    // What `cargo bench` adds is not ours.
    let mut words = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'));
    let case = words.next();
    let count = words
        .next()
        .map_or(20_000, |word| word.parse().expect("a count"));
    for name in CASES {
        if case.as_deref().is_none_or(|case| case == name) {
            println!("{name:13} {:7} ns", run(name, count) / count as u128);
        }
    }
}

/// Does something so often. Returns the nanoseconds that the core took.
fn run(case: &str, count: usize) -> u128 {
    let transport = match case {
        "tcp-call" => Transport::Tcp,
        _ => Transport::Udp,
    };
    let mut core = Core::new(transport);
    for user in 0..USERS {
        core.register(user, 0);
    }
    if case == "refusal" {
        core.refuse_calls();
    }
    core.took = Duration::ZERO;
    for number in 0..count {
        match case {
            "registration" => core.register(number % USERS, number / USERS + 1),
            "refusal" => core.refused_call(number),
            _ => core.call(number),
        }
    }
    core.took.as_nanos()
}

/// A core with a location store, and the time that it takes.
struct Core {
    proxy: Proxy,
    transport: Transport,
    users: Vec<Bindings>,
    now: Instant,
    step: Duration,
    took: Duration,
    sent: Vec<Bytes>,
}

impl Core {
    fn new(transport: Transport) -> Core {
        let config = Config {
            listeners: vec![Listener {
                transport,
                address: address(PROXY),
            }],
            domains: vec![Domain {
                name: "127.0.0.1".parse().expect("a host"),
                aliases: Vec::new(),
            }],
            ..Config::default()
        };
        Core {
            proxy: Proxy::new(config, ChaCha12Rng::seed_from_u64(1)),
            transport,
            users: vec![[].into(); USERS],
            now: Instant::now(),
            step: STEP,
            took: Duration::ZERO,
            sent: Vec::new(),
        }
    }

    /// From now on more comes than is taken: all at one time.
    fn refuse_calls(&mut self) {
        let policy = Policy {
            overload: OverloadPolicy {
                requests_per_second: Some(1),
                ..OverloadPolicy::default()
            },
            ..Policy::default()
        };
        self.step = Duration::ZERO;
        self.proxy.set_policy(self.now, Arc::new(policy));
    }

    /// Hands a message in, and gives what comes out.
    fn pass(&mut self, from: &str, octets: Bytes) -> Vec<Message> {
        let flow = Flow {
            transport: self.transport,
            local: address(PROXY),
            remote: address(from),
            connection: ConnectionId(address(from).port().into()),
            stream: 0,
        };
        let begun = Instant::now();
        self.feed(flow, octets);
        self.took += begun.elapsed();
        self.now += self.step;
        let sent = self.sent.drain(..);
        sent.map(|octets| Message::read(octets).expect("a message"))
            .collect()
    }

    /// All that is measured.
    #[inline(never)]
    fn feed(&mut self, flow: Flow, octets: Bytes) {
        let message = Message::read(octets).expect("a message");
        self.proxy.handle_message(self.now, flow, message);
        while let Some((id, query)) = self.proxy.poll_query() {
            let answer = self.store(query);
            self.proxy.handle_answer(self.now, id, answer);
        }
        while let Some(transmit) = self.proxy.poll_transmit() {
            self.sent.push(transmit.payload);
        }
        while let Some(event) = self.proxy.poll_event() {
            black_box(event);
        }
        if self.proxy.next_timeout().is_some_and(|due| due <= self.now) {
            self.proxy.handle_timeout(self.now);
        }
    }

    /// Answers as a store in memory would.
    fn store(&mut self, query: Query) -> Answer {
        match query {
            Query::Lookup(address) => match self.users.get(number_of(address.user())) {
                Some(bindings) => Answer::Bindings(bindings.clone()),
                None => Answer::Unknown,
            },
            Query::Update(address, update) => self.update(number_of(address.user()), &update),
            other => panic!("{other:?}"),
        }
    }

    fn update(&mut self, user: usize, update: &Update) -> Answer {
        let changed = update.apply(&self.users[user]).expect("a change");
        self.users[user] = changed.into();
        Answer::Bindings(self.users[user].clone())
    }

    fn register(&mut self, user: usize, time: usize) {
        let register = self
            .request(
                Method::Register,
                "sip:127.0.0.1:5060",
                user,
                &format!("r{user}-{time}"),
            )
            .with(
                Name::Contact,
                format!("<sip:user{user}@{CALLEE}{}>", self.parameter()),
            )
            .with(Name::Expires, "3600")
            .with(Name::UserAgent, "SIPp");
        let sent = self.pass(CALLEE, register.to_bytes());
        assert_eq!(sent.first().and_then(Message::status), Some(200));
    }

    fn refused_call(&mut self, number: usize) {
        let invite = self.invite(number);
        let sent = self.pass(CALLER, invite.to_bytes());
        let status = sent.first().and_then(Message::status);
        assert!(number < 4 || status == Some(503), "{status:?}");
    }

    fn call(&mut self, number: usize) {
        let user = number % USERS;
        let call = number.to_string();
        let invite = self.invite(number);
        let forwarded = self
            .pass(CALLER, invite.to_bytes())
            .pop()
            .expect("an INVITE");
        let contact = format!("sip:{CALLEE}{}", self.parameter());
        let answer = |status, reason| {
            let mut answer = Message::response_to(&forwarded, status, reason);
            answer.copy_fields(&forwarded, Name::RecordRoute);
            answer.set_to_tag("4711-1");
            answer.with(Name::Contact, format!("<{contact}>"))
        };
        self.pass(CALLEE, answer(180, "Ringing").to_bytes());
        let ok = answer(200, "OK")
            .with(Name::Allow, "INVITE, ACK, CANCEL, BYE, OPTIONS")
            .with_body("application/sdp", BODY);
        let ok = self.pass(CALLEE, ok.to_bytes()).pop().expect("a 200");
        let route = ok.header(Name::RecordRoute).expect("a route");
        for method in [Method::Ack, Method::Bye] {
            let mut request = self
                .request(method, &contact, user, &call)
                .with(Name::Route, route);
            request.set_to_tag("4711-1");
            let sent = self.pass(CALLER, request.to_bytes());
            let forwarded = sent.first().expect("a request");
            if forwarded.method() == Some(&Method::Bye) {
                let ok = Message::response_to(forwarded, 200, "OK");
                assert_eq!(self.pass(CALLEE, ok.to_bytes()).len(), 1);
            }
        }
    }

    fn invite(&self, number: usize) -> Message {
        let user = number % USERS;
        let uri = format!("sip:user{user}@{PROXY}{}", self.parameter());
        self.request(Method::Invite, &uri, user, &number.to_string())
            .with(
                Name::Contact,
                format!("<sip:caller@{CALLER}{}>", self.parameter()),
            )
            .with(Name::UserAgent, "SIPp")
            .with(Name::Allow, "INVITE, ACK, CANCEL, BYE, OPTIONS")
            .with(Name::Supported, "replaces")
            .with_body("application/sdp", BODY)
    }

    fn request(&self, method: Method, uri: &str, user: usize, call: &str) -> Message {
        let cseq = match method {
            Method::Bye => 2,
            _ => 1,
        };
        let (transport, own) = match method {
            Method::Register => (self.transport.via_name(), CALLEE),
            _ => (self.transport.via_name(), CALLER),
        };
        let from = match method {
            Method::Register => format!("<sip:user{user}@{PROXY}>;tag=4711-{call}"),
            _ => format!("<sip:caller@{PROXY}>;tag=4711-{call}"),
        };
        Message::request(method.clone(), uri)
            .with(
                Name::Via,
                format!("SIP/2.0/{transport} {own};branch=z9hG4bK-{call}-{method}"),
            )
            .with(Name::MaxForwards, "70")
            .with(Name::From, from)
            .with(Name::To, format!("<sip:user{user}@{PROXY}>"))
            .with(Name::CallId, format!("{call}-4711@127.0.0.1"))
            .with(Name::CSeq, format!("{cseq} {method}"))
    }

    fn parameter(&self) -> String {
        format!(";transport={}", self.transport.via_name())
    }
}

fn number_of(user: &str) -> usize {
    let digits = user
        .strip_prefix("user")
        .and_then(|digits| digits.parse().ok());
    digits.expect("a user")
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}
