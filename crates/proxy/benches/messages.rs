//! What the core takes, without sockets: for calls as SIPp makes them, for registrations and for
//! refusals, message by message from octets to octets, on a virtual clock and the same in every run.
//!
//! `cargo bench -p proxy --bench messages -- [CASE [COUNT]]` prints the nanoseconds of each.
//! Instructions are told by
//! `valgrind --tool=callgrind --toggle-collect='messages::Core::feed' PROGRAM call 3000`.
//!
//! The cold cases are as a process meets its messages: some at a time, tens of thousands of transactions remembered,
//! and what it needs put out of the nearer caches by others in between. Their time is of use, not their instructions.
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

const CASES: [&str; 8] = [
    "call",
    "calls",
    "tcp-call",
    "tcp-calls",
    "cold-calls",
    "tcp-cold-calls",
    "registration",
    "refusal",
];

/// How many users are registered and called in turns.
const USERS: usize = 1_000;

/// What passes between two messages: transactions that have ended go after 1,300 calls.
const STEP: Duration = Duration::from_millis(4);

/// How many calls begin at a time where messages come together as they do for a worker that has much to do, each turn
/// with one of each call that is under way.
const TOGETHER: usize = 5;

/// In the cases that are cold: how many calls have ended and are remembered by their transactions, as those of half a
/// minute are at 2,500 a second, and how many begin at a time.
const REMEMBERED: usize = 80_000;
const COLD_TOGETHER: usize = 8;

/// How much others read between two turns of a cold case: more than the second-level cache holds.
const OTHERS_OCTETS: usize = 4 << 20;

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
        "tcp-call" | "tcp-calls" | "tcp-cold-calls" => Transport::Tcp,
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
    match case {
        "registration" => {
            (0..count).for_each(|number| core.register(number % USERS, number / USERS + 1));
        }
        "refusal" => (0..count).for_each(|number| core.refused_call(number)),
        "calls" | "tcp-calls" => core.calls(0, count, TOGETHER),
        "cold-calls" | "tcp-cold-calls" => core.cold_calls(count),
        _ => (0..count).for_each(|number| core.call(number)),
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
    /// What others read between two turns.
    others: Vec<u64>,
}

/// A call under way.
struct Call {
    number: usize,
    /// How many of its messages have come.
    step: usize,
    /// The INVITE as it was forwarded, and the BYE.
    requests: Vec<Message>,
    route: Option<String>,
}

/// How many messages come for a call.
const STEPS: usize = 6;

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
        let mut proxy = Proxy::new(config, ChaCha12Rng::seed_from_u64(1));
        // As where no log is read.
        proxy.tell_of_users(false);
        Core {
            proxy,
            transport,
            users: vec![[].into(); USERS],
            now: Instant::now(),
            step: STEP,
            took: Duration::ZERO,
            sent: Vec::new(),
            others: Vec::new(),
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
        self.pass_all(vec![(from, octets)])
    }

    /// Hands messages in that have come together, and gives what comes out.
    fn pass_all(&mut self, messages: Vec<(&str, Bytes)>) -> Vec<Message> {
        let mut came = Vec::with_capacity(messages.len());
        for (from, octets) in messages {
            let flow = Flow {
                transport: self.transport,
                local: address(PROXY),
                remote: address(from),
                connection: ConnectionId(address(from).port().into()),
                stream: 0,
            };
            came.push((flow, octets));
        }
        let number = came.len();
        black_box(self.others.iter().step_by(8).sum::<u64>());
        let begun = Instant::now();
        self.feed(came);
        self.took += begun.elapsed();
        self.now += self.step * u32::try_from(number).expect("a few");
        let sent = self.sent.drain(..);
        sent.map(|octets| Message::read(octets).expect("a message"))
            .collect()
    }

    /// All that is measured: what a worker does in a turn.
    #[inline(never)]
    fn feed(&mut self, came: Vec<(Flow, Bytes)>) {
        let mut read = Vec::with_capacity(came.len());
        let is_refusing = self.proxy.is_refusing(self.now);
        for (flow, octets) in came {
            let is_unread = octets.starts_with(b"INVITE ") || octets.starts_with(b"ACK ");
            if is_refusing && is_unread {
                self.proxy
                    .accept_octets(self.now, Duration::ZERO, flow, octets);
                continue;
            }
            read.push((flow, Message::read(octets).expect("a message")));
        }
        for (flow, message) in read {
            self.proxy
                .accept_message(self.now, Duration::ZERO, flow, message);
        }
        self.proxy.process_accepted(self.now);
        let mut answers = Vec::new();
        while let Some((id, query)) = self.proxy.poll_query() {
            answers.push((id, self.store(query)));
        }
        for (id, answer) in answers {
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
        let refusal = sent.first().expect("an answer");
        assert!(number < 4 || refusal.status() == Some(503), "{refusal}");
        let mut ack = self.request(
            Method::Ack,
            invite.request_uri().expect("a URI"),
            number % USERS,
            &number.to_string(),
        );
        ack.set_to_tag(refusal.to_tag().unwrap_or_default());
        let via = invite.header(Name::Via).expect("a Via");
        ack.replace(Name::Via, via);
        assert!(number < 4 || self.pass(CALLER, ack.to_bytes()).is_empty());
    }

    fn call(&mut self, number: usize) {
        let mut call = Call::new(number);
        for _ in 0..STEPS {
            let (from, message) = self.next_of(&call);
            let sent = self.pass(from, message.to_bytes());
            sent.into_iter().for_each(|message| call.take(message));
            call.step += 1;
        }
        call.assert_complete();
    }

    /// Calls side by side, as many as are remembered having ended before.
    fn cold_calls(&mut self, count: usize) {
        self.step = Duration::from_secs(32) / REMEMBERED as u32 / STEPS as u32;
        self.calls(0, REMEMBERED, COLD_TOGETHER);
        self.others = vec![1; OTHERS_OCTETS / size_of::<u64>()];
        self.took = Duration::ZERO;
        self.calls(REMEMBERED, REMEMBERED + count, COLD_TOGETHER);
    }

    /// Calls side by side.
    fn calls(&mut self, first: usize, end: usize, together: usize) {
        let mut begun = first;
        let mut under_way: Vec<Call> = Vec::new();
        while begun < end || !under_way.is_empty() {
            let next = (begun + together).min(end);
            under_way.extend((begun..next).map(Call::new));
            begun = next;
            let came = under_way.iter().map(|call| {
                let (from, message) = self.next_of(call);
                (from, message.to_bytes())
            });
            let came = came.collect();
            for message in self.pass_all(came) {
                let call_id = message.call_id().expect("a Call-ID");
                let is_of = |call: &&mut Call| call_id == call_id_of(&call.number.to_string());
                let mut calls = under_way.iter_mut();
                calls.find(is_of).expect("its call").take(message);
            }
            for call in &mut under_way {
                call.step += 1;
            }
            for call in under_way.extract_if(.., |call| call.step == STEPS) {
                call.assert_complete();
            }
        }
    }

    /// The next message of a call, and where it comes from.
    fn next_of(&self, call: &Call) -> (&'static str, Message) {
        let contact = format!("sip:{CALLEE}{}", self.parameter());
        let answer = |status, reason| {
            let invite = call.requests.first().expect("an INVITE");
            let answer = Message::response_to(invite, status, reason);
            let mut answer = in_one_field(answer, Name::Via);
            answer.copy_fields(invite, Name::RecordRoute);
            answer.set_to_tag("4711-1");
            in_one_field(answer, Name::RecordRoute).with(Name::Contact, format!("<{contact}>"))
        };
        let follow = |method| {
            let number = call.number;
            let request = self.request(method, &contact, number % USERS, &number.to_string());
            let route = call.route.as_ref().expect("a route");
            let mut request = request.with(Name::Route, route);
            request.set_to_tag("4711-1");
            request
        };
        match call.step {
            0 => (CALLER, self.invite(call.number)),
            1 => (CALLEE, answer(180, "Ringing")),
            2 => {
                let ok = answer(200, "OK").with(Name::Allow, "INVITE, ACK, CANCEL, BYE, OPTIONS");
                (CALLEE, ok.with_body("application/sdp", BODY))
            }
            3 => (CALLER, follow(Method::Ack)),
            4 => (CALLER, follow(Method::Bye)),
            _ => {
                let bye = call.requests.last().expect("a BYE");
                let ok = Message::response_to(bye, 200, "OK");
                (CALLEE, in_one_field(ok, Name::Via))
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
            .with(Name::CallId, call_id_of(call))
            .with(Name::CSeq, format!("{cseq} {method}"))
    }

    fn parameter(&self) -> String {
        format!(";transport={}", self.transport.via_name())
    }
}

impl Call {
    fn new(number: usize) -> Call {
        Call {
            number,
            step: 0,
            requests: Vec::new(),
            route: None,
        }
    }

    /// Takes notice of what has come out.
    fn take(&mut self, message: Message) {
        match message.method() {
            Some(Method::Invite | Method::Bye) => self.requests.push(message),
            None if message.status() == Some(200) => {
                let mut route: Vec<_> = message.text_values(Name::RecordRoute).collect();
                route.reverse();
                if !route.is_empty() {
                    self.route = Some(route.join(", "));
                }
            }
            _ => {}
        }
    }

    fn assert_complete(&self) {
        assert!(self.requests.len() == 2 && self.route.is_some());
    }
}

/// A message whose values of a name are all in the first field, as SIPp sends back what it got.
fn in_one_field(mut message: Message, name: Name<'_>) -> Message {
    let values: Vec<_> = message.text_values(name).collect();
    if !values.is_empty() {
        let all = values.join(", ");
        message.replace(name, &all);
    }
    message
}

fn call_id_of(call: &str) -> String {
    format!("{call}-4711@127.0.0.1")
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
