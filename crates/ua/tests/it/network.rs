//! Hosts with a user agent each, joined by links that delay and lose.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sip::{ConnectionId, Flow, Message, Method, Name, Target, Transport, Uri};
use ua::{AccountConfig, AccountId, CallNumber, EndReason, Route, Ua, UaConfig, UaEvent};

/// From one host to another.
pub(crate) const DELAY: Duration = Duration::from_millis(10);

/// What answers in place of a user agent: a registrar, or somebody who breaks the rules.
pub(crate) type Script = Box<dyn FnMut(&Message) -> Vec<Message>>;

enum Host {
    Ua(Box<Ua>),
    Script(Script),
}

/// The hosts and what is on its way between them.
pub(crate) struct Network {
    pub(crate) now: Instant,
    begin: Instant,
    hosts: BTreeMap<SocketAddr, Host>,
    on_the_way: Vec<(Instant, u64, SocketAddr, SocketAddr, Bytes)>,
    counter: u64,
    rng: ChaCha12Rng,
    /// The part of the messages that are lost, from 0 to 1.
    pub(crate) loss: f64,
    pub(crate) transport: Transport,
    /// Hosts that are reached by UDP, whatever the transport of the others is.
    pub(crate) in_clear: Vec<SocketAddr>,
    /// Hosts to which user agents find no way.
    pub(crate) unreachable: Vec<SocketAddr>,
    /// Hosts that have got another address.
    pub(crate) moved: BTreeMap<SocketAddr, SocketAddr>,
    /// Everything that happened: on which host, when, and what.
    pub(crate) events: Vec<(SocketAddr, Duration, UaEvent)>,
    /// Everything that was sent and was not lost.
    pub(crate) messages: Vec<Message>,
    /// Keep-alives that were sent: to whom, and what.
    pub(crate) keep_alives: Vec<(SocketAddr, Bytes)>,
}

/// A host with a user agent of one account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phone {
    pub(crate) address: SocketAddr,
    pub(crate) account: AccountId,
}

impl Network {
    pub(crate) fn new(seed: u64) -> Network {
        let now = Instant::now();
        Network {
            now,
            begin: now,
            hosts: BTreeMap::new(),
            on_the_way: Vec::new(),
            counter: 0,
            rng: ChaCha12Rng::seed_from_u64(seed),
            loss: 0.0,
            transport: Transport::Udp,
            in_clear: Vec::new(),
            unreachable: Vec::new(),
            moved: BTreeMap::new(),
            events: Vec::new(),
            messages: Vec::new(),
            keep_alives: Vec::new(),
        }
    }

    /// Adds a host with a user agent.
    pub(crate) fn phone(&mut self, user: &str, config: UaConfig) -> Phone {
        let number = self.hosts.len() as u8 + 1;
        let address = SocketAddr::from(([10, 0, 0, number], 5060));
        let mut ua = Ua::new(config, [number; 32]);
        let account = ua.add_account(AccountConfig::new(format!("sip:{user}@{address}")));
        self.hosts.insert(address, Host::Ua(Box::new(ua)));
        Phone { address, account }
    }

    /// Adds a host that answers as it is told.
    pub(crate) fn script(&mut self, script: Script) -> SocketAddr {
        let number = self.hosts.len() as u8 + 1;
        let address = SocketAddr::from(([10, 0, 0, number], 5060));
        self.hosts.insert(address, Host::Script(script));
        address
    }

    /// The user agent of a host.
    pub(crate) fn ua(&mut self, phone: Phone) -> &mut Ua {
        match self.hosts.get_mut(&phone.address) {
            Some(Host::Ua(ua)) => ua,
            _ => panic!("{} has no user agent", phone.address),
        }
    }

    /// Does something with the user agent of a host, now.
    pub(crate) fn with<T>(&mut self, phone: Phone, act: impl FnOnce(&mut Ua, Instant) -> T) -> T {
        let now = self.now;
        act(self.ua(phone), now)
    }

    /// A host sends what it likes to another.
    pub(crate) fn inject(&mut self, from: SocketAddr, to: SocketAddr, octets: Bytes) {
        self.post(from, to, octets);
    }

    /// Lets time go by.
    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.carry();
            let timeouts = self.hosts.values().filter_map(|host| match host {
                Host::Ua(ua) => ua.next_timeout(),
                Host::Script(_) => None,
            });
            let arrivals = self.on_the_way.iter().map(|one| one.0);
            let Some(next) = timeouts.chain(arrivals).min().filter(|next| *next <= end) else {
                break;
            };
            self.now = self.now.max(next);
            self.arrive();
            let now = self.now;
            for host in self.hosts.values_mut() {
                if let Host::Ua(ua) = host
                    && ua.next_timeout().is_some_and(|due| due <= now)
                {
                    ua.handle_timeout(now);
                }
            }
        }
        self.now = end;
    }

    /// What happened on a host, in order.
    pub(crate) fn of(&self, phone: Phone) -> Vec<&UaEvent> {
        let its = self.events.iter().filter(|one| one.0 == phone.address);
        its.map(|one| &one.2).collect()
    }

    /// The call that came to a host last.
    pub(crate) fn incoming(&self, phone: Phone) -> CallNumber {
        let found = self
            .of(phone)
            .into_iter()
            .rev()
            .find_map(|event| match event {
                UaEvent::Incoming { call, .. } => Some(*call),
                _ => None,
            });
        found.expect("a call came")
    }

    /// How a call ended, if it has.
    pub(crate) fn end_of(&self, phone: Phone, wanted: CallNumber) -> Option<&EndReason> {
        self.of(phone).into_iter().find_map(|event| match event {
            UaEvent::Ended { call, reason } if *call == wanted => Some(reason),
            _ => None,
        })
    }

    /// When the first such event happened on a host.
    pub(crate) fn when(&self, phone: Phone, is_it: impl Fn(&UaEvent) -> bool) -> Option<Duration> {
        let mut its = self.events.iter().filter(|one| one.0 == phone.address);
        its.find(|one| is_it(&one.2)).map(|one| one.1)
    }

    /// The requests of a method that were sent and arrived.
    pub(crate) fn requests(&self, method: Method) -> Vec<&Message> {
        let is_it = |message: &&Message| message.method() == Some(&method);
        self.messages.iter().filter(is_it).collect()
    }

    /// One calls the other, who answers; the numbers of the call on both sides.
    pub(crate) fn connect(&mut self, caller: Phone, callee: Phone) -> (CallNumber, CallNumber) {
        let to = uri_of(callee);
        let outgoing = self.with(caller, |ua, now| {
            ua.dial(now, caller.account, &to, offer("caller"))
        });
        self.run(Duration::from_millis(100));
        let incoming = self.incoming(callee);
        self.with(callee, |ua, now| ua.answer(now, incoming, offer("callee")))
            .unwrap();
        self.run(Duration::from_millis(500));
        (outgoing, incoming)
    }

    fn carry(&mut self) {
        let addresses: Vec<SocketAddr> = self.hosts.keys().copied().collect();
        loop {
            let mut is_quiet = true;
            for address in &addresses {
                let transport = self.transport;
                let now = self.now;
                let Some(Host::Ua(ua)) = self.hosts.get_mut(address) else {
                    continue;
                };
                let local = self.moved.get(address).unwrap_or(address);
                while let Some(query) = ua.poll_query() {
                    is_quiet = false;
                    let hop = next_hop(&query.uri);
                    let hop = hop.filter(|remote| !self.unreachable.contains(remote));
                    let route = hop.map(|remote| {
                        let transport = match self.in_clear.contains(&remote) {
                            true => Transport::Udp,
                            false => transport,
                        };
                        Route {
                            target: Target::Address(transport, remote),
                            local: *local,
                            peer: None,
                        }
                    });
                    ua.handle_route(now, query.id, route);
                }
                let mut transmits = Vec::new();
                while let Some(transmit) = ua.poll_transmit() {
                    transmits.push(transmit);
                }
                while let Some(event) = ua.poll_event() {
                    self.events.push((*address, now - self.begin, event));
                }
                for transmit in transmits {
                    is_quiet = false;
                    self.post(*address, transmit.target.remote(), transmit.payload);
                }
            }
            if is_quiet {
                break;
            }
        }
    }

    fn post(&mut self, from: SocketAddr, to: SocketAddr, octets: Bytes) {
        if self.loss > 0.0 && self.rng.random_bool(self.loss) {
            return;
        }
        self.counter += 1;
        self.on_the_way
            .push((self.now + DELAY, self.counter, from, to, octets));
    }

    fn arrive(&mut self) {
        let now = self.now;
        let (mut due, later): (Vec<_>, Vec<_>) =
            self.on_the_way.drain(..).partition(|one| one.0 <= now);
        self.on_the_way = later;
        due.sort_by_key(|one| (one.0, one.1));
        for (_, _, from, to, octets) in due {
            let Ok(message) = Message::read(octets.clone()) else {
                self.keep_alives.push((to, octets));
                continue;
            };
            self.messages.push(message.clone());
            let flow = Flow {
                transport: self.transport,
                local: to,
                remote: from,
                connection: ConnectionId(1),
                stream: 0,
            };
            let mut moved = self.moved.iter();
            let host = moved
                .find(|(_, new)| **new == to)
                .map_or(to, |(old, _)| *old);
            match self.hosts.get_mut(&host) {
                Some(Host::Ua(ua)) => ua.handle_message(now, flow, message),
                Some(Host::Script(script)) => {
                    for answer in script(&message) {
                        self.post(to, from, answer.to_bytes());
                    }
                }
                None => {}
            }
        }
    }
}

/// The address that a URI names.
fn next_hop(uri: &str) -> Option<SocketAddr> {
    let uri = Uri::parse(uri).ok()?;
    let uri = uri.as_sip()?;
    let host = uri.without_headers();
    let host = host
        .rsplit_once('@')
        .map_or(host.strip_prefix("sip:")?, |(_, host)| host);
    host.split(';').next()?.parse().ok()
}

/// The URI of a host's user.
pub(crate) fn uri_of(phone: Phone) -> String {
    format!("sip:user@{}", phone.address)
}

/// Something that stands for a session description.
pub(crate) fn offer(words: &str) -> Bytes {
    Bytes::from(format!("v=0\r\ns={words}\r\n"))
}

/// Two phones.
pub(crate) fn two(seed: u64) -> (Network, Phone, Phone) {
    let mut network = Network::new(seed);
    let alice = network.phone("user", UaConfig::default());
    let bob = network.phone("user", UaConfig::default());
    (network, alice, bob)
}

/// A response as somebody without a transaction layer writes it.
pub(crate) fn response(request: &Message, status: u16, reason: &str) -> Message {
    let mut response = Message::response_to(request, status, reason);
    if status > 100 {
        response.set_to_tag("scripted");
    }
    if request.method() == Some(&Method::Register) && status == 200 {
        response.copy_fields(request, Name::Contact);
    }
    response
}
