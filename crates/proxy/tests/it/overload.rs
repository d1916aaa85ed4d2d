//! The defence against overload on a virtual clock: emulated users call through a proxy that takes time for
//! each message. At twice the calls that it can serve, it still completes nearly as many as it can.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use load::arrivals::{Arrivals, Pattern, Plan, Share, Spacing};
use load::engine::{self, Connection, Engine, EngineConfig, NewSession, UserRange};
use load::record::Record;
use load::script::builtin::{self, AnswerPlan, CallPlan};
use load::script::{Pause, ScriptId};
use proptest::prelude::*;
use proxy::core::{
    AddressOfRecord, Answer, Bindings, Config, Domain, DropList, Listener, NextHop, OverloadPolicy,
    Policy, Proxy, Query, Routing,
};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sip::{ConnectionId, Flow, Message, Method, Name, Target, Transport};

/// From one host to the other.
const DELAY: Duration = Duration::from_millis(2);

/// What a message costs that is taken in, or sent; and a transaction that is begun, on either side. With
/// these a call costs 1160 microseconds, a refused one 120.
const MESSAGE_COST: Duration = Duration::from_micros(40);
const TRANSACTION_COST: Duration = Duration::from_micros(160);

/// How many messages wait for the proxy; the next one is lost.
const QUEUE: usize = 4_096;

const USERS: u32 = 100;

const PROXY: &str = "192.0.2.1:5060";
const CALLERS: &str = "192.0.2.2:5060";
const CALLEES: &str = "192.0.2.3:5060";

/// When callers begin their calls.
#[derive(Clone, Copy)]
enum Pace {
    /// Each when its last one has ended.
    Closed,
    /// So many a second.
    Open(f64),
}

/// The users of one side.
struct Users {
    engine: Engine,
    call: ScriptId,
    arrivals: Option<Arrivals>,
    begun: u32,
    completed: u64,
    failed: u64,
}

impl Users {
    fn new(now: Instant, first: u32, own: &str, seed: u64) -> Users {
        let config = EngineConfig {
            users: vec![UserRange::new(first, USERS)],
            domain: PROXY.to_owned(),
            ..EngineConfig::default()
        };
        let mut engine = Engine::new(config, ChaCha12Rng::seed_from_u64(seed), now);
        let plan = CallPlan {
            hold: Pause::Fixed(Duration::from_millis(20)),
            ..CallPlan::default()
        };
        let call = engine.add_script(Arc::new(builtin::call(&plan).expect("a script")));
        let answer = builtin::answer(&AnswerPlan::default()).expect("a script");
        engine.add_script(Arc::new(answer));
        engine.add_script(Arc::new(builtin::register().expect("a script")));
        let connection = Connection {
            transport: Transport::Udp,
            local: address(own),
            remote: address(PROXY),
        };
        engine.set_connection(WAY, connection);
        for user in first..first + USERS {
            assert!(engine.assign(user, WAY));
            engine.register(now, now, user).expect("a user");
        }
        Users {
            engine,
            call,
            arrivals: None,
            begun: 0,
            completed: 0,
            failed: 0,
        }
    }

    fn start_calls(&mut self, now: Instant, pace: Pace) {
        match pace {
            Pace::Closed => {
                for user in 1..=USERS {
                    let work = self.new_session(user);
                    self.engine.call_repeatedly(now, work).expect("a user");
                }
            }
            Pace::Open(per_second) => {
                let plan = Plan {
                    pattern: Pattern::Constant { per_second },
                    spacing: Spacing::Even,
                    count: None,
                    time: None,
                };
                let rng = ChaCha12Rng::seed_from_u64(4);
                self.arrivals = Arrivals::new(plan, Share::ALL, now, rng).ok();
            }
        }
    }

    /// Begins nothing more, and ends what is under way.
    fn stop_calls(&mut self, now: Instant) {
        self.arrivals = None;
        self.engine.stop_repeating();
        self.engine.end_all(now);
        self.take_records();
    }

    fn new_session(&self, user: u32) -> NewSession {
        NewSession {
            script: self.call,
            user,
            peer: user + USERS,
        }
    }

    fn handle_message(&mut self, now: Instant, message: &Message) {
        self.engine
            .handle_message(now, now, WAY, &message.to_bytes());
        self.take_records();
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.engine.handle_timeout(now);
        while let Some(due) = self
            .arrivals
            .as_mut()
            .and_then(|arrivals| arrivals.take_due(now))
        {
            let work = self.new_session(1 + self.begun % USERS);
            self.engine.begin(now, due, work).expect("a user");
            self.begun += 1;
        }
        self.take_records();
    }

    fn next_timeout(&self) -> Option<Instant> {
        let arrival = self.arrivals.as_ref().and_then(Arrivals::next_due);
        [self.engine.next_timeout(), arrival]
            .into_iter()
            .flatten()
            .min()
    }

    fn poll_transmit(&mut self) -> Option<Message> {
        let mut octets = Vec::new();
        self.engine.poll_transmit(&mut octets)?;
        Some(Message::read(octets.into()).expect("a message"))
    }

    fn take_records(&mut self) {
        while let Some(record) = self.engine.poll_record() {
            if let Record::Call(call) = record {
                match call.attempt.is_completed() {
                    true => self.completed += 1,
                    false => self.failed += 1,
                }
            }
        }
    }
}

/// The way of all users of a side to the proxy.
const WAY: engine::ConnectionId = engine::ConnectionId(0);

/// Callers, a proxy that has one processor, and callees.
struct World {
    now: Instant,
    callers: Users,
    callees: Users,
    proxy: Proxy,
    store: HashMap<AddressOfRecord, Bindings>,
    /// What waits for the proxy, with the time at which it came.
    queue: VecDeque<(Instant, Flow, Message)>,
    /// Until when the proxy is at work.
    busy_until: Instant,
    /// Messages on their way, by the time of their arrival and the order of their sending.
    on_the_way: BTreeMap<(Instant, u64), (SocketAddr, SocketAddr, Message)>,
    sent: u64,
    longest_wait: Duration,
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn flow(local: SocketAddr, remote: SocketAddr) -> Flow {
    Flow {
        transport: Transport::Udp,
        local,
        remote,
        connection: ConnectionId(0),
        stream: 0,
    }
}

impl World {
    /// All users registered.
    fn new(overload: OverloadPolicy) -> World {
        let config = Config {
            listeners: vec![Listener {
                transport: Transport::Udp,
                address: address(PROXY),
            }],
            domains: vec![Domain {
                name: PROXY.parse().expect("a host"),
                aliases: Vec::new(),
            }],
            policy: Arc::new(Policy {
                overload,
                ..Policy::default()
            }),
            ..Config::default()
        };
        let now = Instant::now();
        let mut world = World {
            now,
            callers: Users::new(now, 1, CALLERS, 1),
            callees: Users::new(now, USERS + 1, CALLEES, 2),
            proxy: Proxy::new(config, ChaCha12Rng::seed_from_u64(3)),
            store: HashMap::new(),
            queue: VecDeque::new(),
            busy_until: now,
            on_the_way: BTreeMap::new(),
            sent: 0,
            longest_wait: Duration::ZERO,
        };
        world.run(Duration::from_secs(2));
        for users in [&world.callers, &world.callees] {
            assert_eq!(users.engine.registered_users(), USERS);
        }
        world
    }

    /// Lets the callers call, and gives the calls completed a second once things are as they stay.
    fn completed_per_second(&mut self, pace: Pace) -> f64 {
        const MEASURED: Duration = Duration::from_secs(5);
        self.callers.start_calls(self.now, pace);
        self.run(Duration::from_secs(2));
        let before = self.callers.completed;
        self.longest_wait = Duration::ZERO;
        self.run(MEASURED);
        (self.callers.completed - before) as f64 / MEASURED.as_secs_f64()
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.send_of_users();
            self.serve();
            let proxy_is_due = match self.queue.is_empty() {
                true => self
                    .proxy
                    .next_timeout()
                    .map(|due| due.max(self.busy_until)),
                false => Some(self.busy_until),
            };
            let next = self
                .on_the_way
                .first_key_value()
                .map(|((at, _), _)| *at)
                .into_iter()
                .chain(self.callers.next_timeout())
                .chain(self.callees.next_timeout())
                .chain(proxy_is_due)
                .min()
                .filter(|next| *next <= end);
            let Some(next) = next else { break };
            self.now = self.now.max(next);
            self.deliver();
            self.callers.handle_timeout(self.now);
            self.callees.handle_timeout(self.now);
        }
        self.now = end;
    }

    /// Lets the proxy do one thing, if it has time.
    fn serve(&mut self) {
        if self.busy_until > self.now {
            return;
        }
        let before = self.proxy.transactions();
        let mut messages = 0;
        if let Some((came, flow, message)) = self.queue.pop_front() {
            let waited = self.now - came;
            self.longest_wait = self.longest_wait.max(waited);
            messages += 1;
            receive(&mut self.proxy, self.now, waited, flow, message);
        } else if self.proxy.next_timeout().is_some_and(|due| due <= self.now) {
            self.proxy.handle_timeout(self.now);
        } else {
            return;
        }
        while let Some((id, query)) = self.proxy.poll_query() {
            let answer = self.answer(query);
            self.proxy.handle_answer(self.now, id, answer);
        }
        while self.proxy.poll_event().is_some() {}
        let mut outgoing = Vec::new();
        while let Some(transmit) = self.proxy.poll_transmit() {
            let to = match transmit.target {
                Target::Flow(flow) | Target::FlowOrAddress(flow, _) => flow.remote,
                Target::Address(_, address) => address,
            };
            outgoing.push((to, Message::read(transmit.payload).expect("a message")));
        }
        messages += outgoing.len();
        let begun = self.proxy.transactions().saturating_sub(before);
        self.busy_until = self.now
            + MESSAGE_COST * u32::try_from(messages).expect("few")
            + TRANSACTION_COST * u32::try_from(begun).expect("few");
        for (to, message) in outgoing {
            self.send(self.busy_until, address(PROXY), to, message);
        }
    }

    fn answer(&mut self, query: Query) -> Answer {
        match query {
            Query::Lookup(address) => match self.store.get(&address) {
                Some(bindings) => Answer::Bindings(bindings.clone()),
                None => Answer::Unknown,
            },
            Query::Update(address, update) => {
                let current = self.store.get(&address).cloned().unwrap_or_default();
                match update.apply(&current) {
                    Ok(bindings) => {
                        let bindings: Bindings = bindings.into();
                        self.store.insert(address, bindings.clone());
                        Answer::Bindings(bindings)
                    }
                    Err(error) => Answer::Refused(error),
                }
            }
            Query::Resolve(destination) => {
                let ip = destination.host.parse().expect("users have addresses");
                let remote = SocketAddr::new(ip, destination.port_or_default());
                Answer::NextHops(vec![NextHop {
                    transport: Transport::Udp,
                    remote,
                    local: address(PROXY),
                    peer: None,
                }])
            }
            Query::Credentials { .. } | Query::Page { .. } | Query::Http(_) | Query::Redis(_) => {
                Answer::Failed
            }
        }
    }

    fn send_of_users(&mut self) {
        while let Some(message) = self.callers.poll_transmit() {
            self.send(self.now, address(CALLERS), address(PROXY), message);
        }
        while let Some(message) = self.callees.poll_transmit() {
            self.send(self.now, address(CALLEES), address(PROXY), message);
        }
    }

    fn send(&mut self, at: Instant, from: SocketAddr, to: SocketAddr, message: Message) {
        self.sent += 1;
        self.on_the_way
            .insert((at + DELAY, self.sent), (from, to, message));
    }

    fn deliver(&mut self) {
        while let Some(entry) = self.on_the_way.first_entry()
            && entry.key().0 <= self.now
        {
            let (from, to, message) = entry.remove();
            let flow = flow(to, from);
            if to == address(PROXY) {
                if self.queue.len() < QUEUE {
                    self.queue.push_back((self.now, flow, message));
                }
            } else if to == address(CALLERS) {
                self.callers.handle_message(self.now, &message);
            } else {
                self.callees.handle_message(self.now, &message);
            }
        }
    }
}

/// Hands a message over as a worker does: unread where it is likely to be refused.
fn receive(proxy: &mut Proxy, now: Instant, waited: Duration, flow: Flow, message: Message) {
    let is_meant = matches!(message.method(), Some(Method::Invite | Method::Ack));
    if is_meant && proxy.is_refusing(now) {
        proxy.accept_octets(now, waited, flow, message.to_bytes());
        proxy.process_accepted(now);
    } else {
        proxy.handle_message_after(now, waited, flow, message);
    }
}

fn off() -> OverloadPolicy {
    OverloadPolicy {
        queue_delay_target: Duration::from_secs(3600),
        ..OverloadPolicy::default()
    }
}

#[test]
fn at_twice_its_capacity_it_completes_four_fifths_of_it() {
    // Callers that wait for their calls to end ask for no more than it can.
    let mut world = World::new(off());
    let capacity = world.completed_per_second(Pace::Closed);
    assert_eq!(world.callers.failed, 0);

    let twice = Pace::Open(2.0 * capacity);
    let mut world = World::new(OverloadPolicy::default());
    let completed = world.completed_per_second(twice);
    let overload = world.proxy.statistics().overload;
    println!(
        "capacity {capacity:.0} calls/s; at twice that {completed:.0} completed ({:.0} %), \
         longest wait {:?}, {} refused",
        100.0 * completed / capacity,
        world.longest_wait,
        overload.over_queue_delay,
    );
    assert!(completed >= 0.8 * capacity, "{completed} of {capacity}");
    assert!(overload.over_queue_delay > 0);
    // Nobody waits for longer than it takes until callers send their INVITEs again (T1).
    assert!(
        world.longest_wait < Duration::from_millis(500),
        "{:?}",
        world.longest_wait
    );

    let mut world = World::new(off());
    let completed = world.completed_per_second(twice);
    println!(
        "without the defence {completed:.0} ({:.0} %), longest wait {:?}",
        100.0 * completed / capacity,
        world.longest_wait
    );
    assert!(
        completed < 0.8 * capacity,
        "there was nothing to defend against"
    );
}

#[test]
fn what_was_refused_may_come_back_when_the_load_is_gone() {
    let mut world = World::new(OverloadPolicy::default());
    world.completed_per_second(Pace::Open(2_000.0));
    assert!(world.proxy.statistics().overload.over_queue_delay > 0);
    world.callers.stop_calls(world.now);
    world.run(Duration::from_secs(70));
    let statistics = world.proxy.statistics();
    assert!(!statistics.overload.is_overloaded.0);
    assert_eq!(statistics.response_contexts, 0);
    assert_eq!(world.proxy.transactions(), 0);
}

#[test]
fn the_ack_to_a_refusal_is_for_nobody_even_when_the_queue_is_gone() {
    let mut world = World::new(OverloadPolicy::default());
    let from = flow(address(PROXY), address(CALLERS));
    let long = OverloadPolicy::default().queue_delay_target;
    let mut receive = |after: Duration, waited: Duration, message: Message| {
        world.now += after;
        receive(&mut world.proxy, world.now, waited, from, message);
        let asks = world.proxy.poll_query().is_some();
        let sent = world.proxy.poll_transmit();
        (
            asks,
            sent.map(|sent| Message::read(sent.payload).expect("a message")),
        )
    };
    let (asks, trying) = receive(Duration::ZERO, long, request(Method::Invite, "1", ""));
    assert!(asks, "one that waited is no queue yet");
    assert_eq!(trying.and_then(|trying| trying.status()), Some(100));
    let second = Duration::from_secs(1);
    // Nor are some: it takes 64, of whatever kind.
    for _ in 0..62 {
        let again = request(Method::Invite, "1", "");
        let (asks, trying) = receive(Duration::ZERO, long, again);
        let status = trying.and_then(|trying| trying.status());
        assert_eq!((asks, status), (false, Some(100)));
    }
    let (asks, refusal) = receive(second, long, request(Method::Invite, "2", ""));
    let refusal = refusal.expect("an answer");
    assert_eq!((asks, refusal.status()), (false, Some(503)));

    let to = refusal.to().expect("To");
    let tag = format!(";tag={}", to.tag().expect("a tag"));
    let ack = request(Method::Ack, "2", &tag);
    let (asks, sent) = receive(second, Duration::ZERO, ack);
    assert!(!asks && sent.is_none(), "{sent:?}");
    // Another's is taken to the callee.
    let ack = request(Method::Ack, "2", ";tag=2");
    let (asks, _) = receive(second, Duration::ZERO, ack);
    assert!(asks);
}

/// A proxy that has refused something, and so looks at what comes.
fn refusing(now: Instant, overload: OverloadPolicy) -> Proxy {
    let drop = DropList {
        addresses: vec!["192.0.2.66".parse().expect("a network")],
        ..DropList::default()
    };
    let config = Config {
        listeners: vec![Listener {
            transport: Transport::Udp,
            address: address(PROXY),
        }],
        policy: Arc::new(Policy {
            overload,
            routing: Routing {
                drop,
                ..Routing::default()
            },
            ..Policy::default()
        }),
        ..Config::default()
    };
    let mut proxy = Proxy::new(config, ChaCha12Rng::seed_from_u64(3));
    let from = flow(address(PROXY), address(CALLERS));
    for call in ["a", "b"] {
        proxy.handle_message(now, from, request(Method::Invite, call, ""));
    }
    while proxy.poll_transmit().is_some() {}
    assert!(proxy.is_refusing(now));
    proxy
}

fn request(method: Method, call: &str, to_tag: &str) -> Message {
    let uri = format!("sip:user{}@{PROXY}", USERS + 1);
    Message::request(method.clone(), &uri)
        .with(
            Name::Via,
            format!("SIP/2.0/UDP {CALLERS};rport;branch=z9hG4bK{call}"),
        )
        .with(Name::MaxForwards, "70")
        .with(Name::From, format!("<sip:user1@{PROXY}>;tag=1"))
        .with(Name::To, format!("<{uri}>{to_tag}"))
        .with(Name::CallId, call)
        .with(Name::CSeq, format!("1 {method}"))
}

proptest! {
    /// Whatever comes to a proxy that refuses requests, what it does about it is the same whether it sees it at a glance
    /// or reads it.
    #[test]
    fn a_glance_decides_as_reading_does(
        messages in prop::collection::vec((0..6_u8, 0..4_u8, 0..4_u8, 0..200_u64), 1..40),
        rates in any::<(bool, bool)>(),
    ) {
        let begun = Instant::now();
        let overload = OverloadPolicy {
            requests_per_second: Some(if rates.0 { 1 } else { 3 }),
            requests_per_second_per_source: rates.1.then_some(4),
            burst: Duration::from_millis(500),
            ..OverloadPolicy::default()
        };
        let mut proxies = [refusing(begun, overload.clone()), refusing(begun, overload)];
        let mut now = begun;
        let mut tags: Vec<String> = Vec::new();
        for (kind, call, from, after) in messages {
            now += Duration::from_millis(after);
            let call_id = ["a", "c", "d", "e"][usize::from(call)];
            let message = match kind {
                0 | 1 => request(Method::Invite, call_id, ""),
                2 => request(Method::Invite, call_id, ";tag=7"),
                3 => request(Method::Ack, call_id, ";tag=7"),
                4 => match tags.pop() {
                    Some(tag) => request(Method::Ack, call_id, &format!(";tag={tag}")),
                    None => request(Method::Ack, call_id, ""),
                },
                _ => request(Method::Invite, call_id, "").with(Name::Via, "SIP/2.0/UDP h\r\n ;x"),
            };
            let from = ["192.0.2.2:5060", "192.0.2.2:7", "192.0.2.66:5060", "[2001:db8::1]:5060"][usize::from(from)];
            let flow = flow(address(PROXY), address(from));
            let octets = message.to_bytes();
            let [one, other] = &mut proxies;
            one.accept_octets(now, Duration::ZERO, flow, octets.clone());
            one.process_accepted(now);
            other.handle_message_after(now, Duration::ZERO, flow, Message::read(octets).expect("a message"));
            let sent = [one, other].map(|proxy| {
                let sent = std::iter::from_fn(|| proxy.poll_transmit());
                sent.map(|sent| (sent.target, sent.payload)).collect::<Vec<_>>()
            });
            for (_, payload) in &sent[0] {
                let answer = Message::read(payload.clone()).expect("a message");
                tags.extend(answer.to_tag().map(str::to_owned));
            }
            let [one, other] = sent;
            prop_assert_eq!(one, other);
        }
        let [one, other] = proxies;
        prop_assert_eq!(one.statistics(), other.statistics());
    }
}
