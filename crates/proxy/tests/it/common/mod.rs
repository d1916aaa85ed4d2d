//! A proxy core on a bench: messages go in as text and come out parsed, time is moved by hand, and a
//! location store and a name service answer at once or when they are told to.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use proxy::core::{
    AddressOfRecord, Answer, Bindings, Config, Domain, Event, Listener, NextHop, Page, Place,
    Policy, Proxy, Query, QueryId, Relay,
};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sip::digest::Credentials;
use sip::transaction::TransactionKey;
use sip::{ConnectionId, Flow, Message, Method, Name, Peer, Target, Transport};

/// A proxy with its surroundings.
pub(crate) struct Bench {
    pub(crate) proxy: Proxy,
    pub(crate) now: Instant,
    pub(crate) events: Vec<Event>,
    /// Questions are left for the test to answer.
    pub(crate) holds_questions: bool,
    pub(crate) questions: VecDeque<(QueryId, Query)>,
    /// The passwords of users, the same in every realm.
    pub(crate) passwords: BTreeMap<String, String>,
    /// What names resolve to.
    pub(crate) names: BTreeMap<String, Vec<(Transport, SocketAddr)>>,
    /// Our own address toward a peer where it has to be asked for.
    pub(crate) local: SocketAddr,
    last_client: Option<TransactionKey>,
    store: BTreeMap<AddressOfRecord, Bindings>,
    sent: VecDeque<Sent>,
}

/// A message that the proxy has sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) target: Target,
    pub(crate) peer: Option<Arc<Peer>>,
    pub(crate) message: Message,
}

impl Bench {
    /// A proxy that listens on these (`transport:address`) and is responsible for these domains.
    pub(crate) fn new(listeners: &[&str], domains: &[&str]) -> Bench {
        Bench::with(listeners, domains, |_| {})
    }

    /// One that brings requests of strangers to strangers.
    pub(crate) fn open_relay(listeners: &[&str], domains: &[&str]) -> Bench {
        Bench::with(listeners, domains, |config| {
            let mut policy = Policy::default();
            policy.forwarding.relay = Relay::Anybody;
            config.policy = Arc::new(policy);
        })
    }

    pub(crate) fn with(
        listeners: &[&str],
        domains: &[&str],
        change: impl FnOnce(&mut Config),
    ) -> Bench {
        let mut config = Config {
            listeners: listeners.iter().map(|text| listener(text)).collect(),
            domains: domains
                .iter()
                .map(|name| Domain {
                    name: name.parse().expect("a host"),
                    aliases: Vec::new(),
                })
                .collect(),
            ..Config::default()
        };
        change(&mut config);
        Bench {
            proxy: Proxy::new(config, ChaCha12Rng::seed_from_u64(7)),
            now: Instant::now(),
            events: Vec::new(),
            holds_questions: false,
            questions: VecDeque::new(),
            passwords: BTreeMap::new(),
            names: BTreeMap::new(),
            local: "192.0.2.1:5060".parse().expect("an address"),
            last_client: None,
            store: BTreeMap::new(),
            sent: VecDeque::new(),
        }
    }

    /// Hands in a message that came along a flow.
    pub(crate) fn receive(&mut self, flow: Flow, message: Message) {
        self.proxy.handle_message(self.now, flow, reread(&message));
        self.settle();
    }

    /// Hands in messages that have come together.
    pub(crate) fn receive_together(&mut self, messages: Vec<(Flow, Message)>) {
        for (flow, message) in messages {
            let message = reread(&message);
            self.proxy
                .accept_message(self.now, Duration::ZERO, flow, message);
        }
        self.proxy.process_accepted(self.now);
        self.settle();
    }

    /// Hands in octets that were found to be no whole message.
    pub(crate) fn receive_malformed(&mut self, flow: Flow, octets: &[u8]) {
        self.proxy
            .handle_malformed(self.now, flow, Bytes::copy_from_slice(octets));
        self.settle();
    }

    /// Registers a contact and takes the 200.
    pub(crate) fn register(&mut self, flow: Flow, user: &str, contact: &str) {
        self.receive(flow, register(user, 1, &[contact]));
        assert_eq!(self.one().status(), 200);
    }

    /// Lets time pass; what is due happens when it is due.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.proxy.next_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.proxy.handle_timeout(self.now);
            self.settle();
        }
        self.now = end;
    }

    /// The transport could not send the last request.
    pub(crate) fn fail_last_request(&mut self) {
        if let Some(client) = self.last_client {
            self.proxy.handle_send_failure(self.now, client);
            self.settle();
        }
    }

    /// The connection for the last request was refused.
    pub(crate) fn refuse_last_request(&mut self) {
        if let Some(client) = self.last_client {
            self.proxy.handle_connection_refused(self.now, client);
            self.settle();
        }
    }

    /// Answers a question that was held.
    pub(crate) fn answer(&mut self, id: QueryId, answer: Answer) {
        self.proxy.handle_answer(self.now, id, answer);
        self.settle();
    }

    /// The answer of the bench's own store or name service.
    pub(crate) fn own_answer(&mut self, query: Query) -> Answer {
        match query {
            Query::Lookup(address) => self
                .store
                .get(&address)
                .map_or(Answer::Unknown, |bindings| {
                    Answer::Bindings(bindings.clone())
                }),
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
            Query::Credentials { realm, username } => {
                let password = self.passwords.get(&*username);
                Answer::Credentials(password.map(|password| {
                    Arc::new(Credentials::new(&username, &realm, password.as_bytes()))
                }))
            }
            Query::Page { from, limit } => {
                // Whoever comes or goes meanwhile may shift the others: nobody does.
                let start = from.0 as usize;
                let all = self.store.iter().skip(start).take(limit);
                let users: Vec<_> = all
                    .map(|(user, bindings)| (user.clone(), bindings.clone()))
                    .collect();
                let end = start + users.len();
                let next = (end < self.store.len()).then_some(Place(end as u64));
                Answer::Page(Page { users, next })
            }
            Query::Http(_) | Query::Redis(_) => Answer::Failed,
            Query::Resolve(destination) => {
                let transport = destination.transport_or_default();
                let port = destination.port_or_default();
                let hops = match destination.host.parse::<IpAddr>() {
                    Ok(address) => vec![(transport, SocketAddr::new(address, port))],
                    Err(_) => {
                        let hops = self.names.get(&destination.host);
                        hops.cloned().unwrap_or_default()
                    }
                };
                let hop = |(transport, remote)| NextHop {
                    transport,
                    remote,
                    local: self.local,
                    peer: None,
                };
                Answer::NextHops(hops.into_iter().map(hop).collect())
            }
        }
    }

    /// Everything sent since the last time.
    pub(crate) fn sent(&mut self) -> Vec<Sent> {
        self.sent.drain(..).collect()
    }

    /// The one message sent since the last time.
    pub(crate) fn one(&mut self) -> Sent {
        let mut sent = self.sent();
        assert_eq!(sent.len(), 1, "one message expected: {sent:#?}");
        sent.remove(0)
    }

    /// The two messages sent since the last time.
    pub(crate) fn two(&mut self) -> [Sent; 2] {
        let sent = self.sent();
        sent.try_into()
            .unwrap_or_else(|sent| panic!("two messages expected: {sent:#?}"))
    }

    /// Nothing was sent since the last time.
    pub(crate) fn silence(&mut self) {
        let sent = self.sent();
        assert!(sent.is_empty(), "nothing expected: {sent:#?}");
    }

    /// No state is left but what the location store keeps.
    pub(crate) fn assert_idle(&self) {
        let statistics = self.proxy.statistics();
        assert_eq!(statistics.response_contexts, 0);
        assert_eq!(statistics.branches, 0);
        assert_eq!(statistics.questions, 0);
        assert_eq!(statistics.held_octets, 0);
        assert_eq!(self.proxy.next_timeout(), None);
    }

    /// Answers what is asked, and takes what is sent and told.
    pub(crate) fn settle(&mut self) {
        while let Some((id, query)) = self.proxy.poll_query() {
            if self.holds_questions {
                self.questions.push_back((id, query));
            } else {
                let answer = self.own_answer(query);
                self.proxy.handle_answer(self.now, id, answer);
            }
        }
        while let Some(transmit) = self.proxy.poll_transmit() {
            let message = Message::read(transmit.payload).expect("what is sent can be read");
            if message.is_request() {
                // The answer to a request that breaks a rule may break it too.
                message.validate().expect("what is sent keeps the rules");
                self.last_client = transmit.transaction;
            }
            self.sent.push_back(Sent {
                target: transmit.target,
                peer: transmit.peer,
                message,
            });
        }
        while let Some(event) = self.proxy.poll_event() {
            self.events.push(event);
        }
    }
}

impl Sent {
    /// All addresses that a new association is to have; none where only the target's is known.
    pub(crate) fn addresses(&self) -> Vec<String> {
        let addresses = self.peer.as_ref().map_or(&[][..], |peer| &peer.addresses);
        addresses.iter().map(ToString::to_string).collect()
    }

    pub(crate) fn status(&self) -> u16 {
        self.message
            .status()
            .unwrap_or_else(|| panic!("a response expected: {:#?}", self.message))
    }

    /// The values of a header field, as text.
    pub(crate) fn values(&self, name: Name<'_>) -> Vec<String> {
        values(&self.message, name)
    }

    pub(crate) fn value(&self, name: Name<'_>) -> String {
        self.values(name)
            .first()
            .cloned()
            .unwrap_or_else(|| panic!("{name} expected: {:#?}", self.message))
    }

    pub(crate) fn branch(&self) -> String {
        let via = self.message.top_via().expect("a Via");
        via.branch().expect("a branch").to_owned()
    }

    /// Fails unless it is this request.
    #[track_caller]
    pub(crate) fn is(&self, method: Method, uri: &str) -> &Sent {
        assert_eq!(self.message.method(), Some(&method), "{:#?}", self.message);
        assert_eq!(self.message.request_uri(), Some(uri));
        self
    }

    /// Fails unless it is a response with this status.
    #[track_caller]
    pub(crate) fn answers(&self, status: u16) -> &Sent {
        assert_eq!(self.message.status(), Some(status), "{:#?}", self.message);
        self
    }

    /// Fails unless it goes to this address over this transport (`udp:192.0.2.1:5060`), along a flow
    /// or not.
    #[track_caller]
    pub(crate) fn goes_to(&self, expected: &str) -> &Sent {
        let (transport, address) = match self.target {
            Target::Flow(flow) | Target::FlowOrAddress(flow, _) => (flow.transport, flow.remote),
            Target::Address(transport, address) => (transport, address),
        };
        assert_eq!(
            format!("{transport}:{address}"),
            expected,
            "{:#?}",
            self.target
        );
        self
    }

    /// Fails unless it goes along this flow.
    #[track_caller]
    pub(crate) fn goes_along(&self, expected: Flow) -> &Sent {
        match self.target {
            Target::Flow(flow) | Target::FlowOrAddress(flow, _) => assert_eq!(flow, expected),
            Target::Address(..) => panic!("along a flow expected: {:?}", self.target),
        }
        self
    }
}

/// The values of a header field, as text.
pub(crate) fn values(message: &Message, name: Name<'_>) -> Vec<String> {
    message
        .values(name)
        .map(|value| String::from_utf8_lossy(value).into_owned())
        .collect()
}

/// The flow between a listener (`udp:192.0.2.1:5060`) and a peer.
pub(crate) fn flow(local: &str, remote: &str) -> Flow {
    let listener = listener(local);
    let remote: SocketAddr = remote.parse().expect("an address");
    let connection = match listener.transport {
        Transport::Udp => 0,
        // A connection a peer.
        _ => {
            u64::from(remote.port())
                + remote.ip().to_string().bytes().map(u64::from).sum::<u64>() * 65_536
        }
    };
    Flow {
        transport: listener.transport,
        local: listener.address,
        remote,
        connection: ConnectionId(connection),
        stream: 0,
    }
}

pub(crate) fn listener(text: &str) -> Listener {
    let (transport, address) = text.split_once(':').expect("a transport and an address");
    Listener {
        transport: transport.parse().expect("a transport"),
        address: address.parse().expect("an address"),
    }
}

/// A message from text: lines without their indentation; what follows an empty line is the body.
pub(crate) fn sip(text: &str) -> Message {
    let lines: Vec<&str> = text.trim().lines().map(str::trim).collect();
    let mut whole = lines.join("\r\n");
    whole.push_str(if lines.contains(&"") {
        "\r\n"
    } else {
        "\r\n\r\n"
    });
    Message::read(whole.into()).expect("a message")
}

/// As the far end reads it.
pub(crate) fn reread(message: &Message) -> Message {
    Message::read(message.to_bytes()).expect("what was written can be read")
}

/// A REGISTER for a user at example.com over UDP.
pub(crate) fn register(user: &str, cseq: u32, contacts: &[&str]) -> Message {
    let mut request = sip(&format!(
        "REGISTER sip:example.com SIP/2.0
        Via: SIP/2.0/UDP 192.0.2.9:5060;branch=z9hG4bKr{user}{cseq}
        Max-Forwards: 70
        From: <sip:{user}@example.com>;tag=f{cseq}
        To: <sip:{user}@example.com>
        Call-ID: register-{user}
        CSeq: {cseq} REGISTER
        Content-Length: 0"
    ));
    for contact in contacts {
        request.push_back(Name::Contact, contact);
    }
    request
}

/// A request from alice at 192.0.2.9 outside of a dialog.
pub(crate) fn request(method: Method, uri: &str, call: &str) -> Message {
    sip(&format!(
        "{method} {uri} SIP/2.0
        Via: SIP/2.0/UDP 192.0.2.9:5060;branch=z9hG4bK{call}
        Max-Forwards: 70
        From: <sip:alice@example.com>;tag=a1
        To: <{uri}>
        Call-ID: {call}
        CSeq: 1 {method}
        Contact: <sip:alice@192.0.2.9:5060>
        Content-Length: 0"
    ))
}

/// The response of a user agent, with its tag.
pub(crate) fn response(request: &Message, status: u16, tag: &str) -> Message {
    let mut response = Message::response_to(&reread(request), status, "Some Reason");
    for route in values(request, Name::RecordRoute) {
        response.push_back(Name::RecordRoute, route);
    }
    if status != 100 {
        response.set_to_tag(tag);
    }
    response
}
