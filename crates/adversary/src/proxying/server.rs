//! The core with its surroundings: a store, a name service, and somebody who looks at all that it sends.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use proxy::core::{
    AddressOfRecord, Answer, Bindings, Config, Domain, Listener, NextHop, Page, Place, Policy,
    Proxy, Query, QueryId, Statistics,
};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sip::digest::Credentials;
use sip::transaction::TransactionKey;
use sip::{ConnectionId, Flow, Message, Name, Transport};

use super::requests::{Peer, TRANSPORTS, local};
use super::settings::MAXIMUM_KEPT_FLOWS;

/// A core that is watched.
pub(super) struct Server {
    proxy: Proxy,
    policy: Policy,
    now: Instant,
    pub(super) holds_questions: bool,
    questions: VecDeque<(QueryId, Query)>,
    store: BTreeMap<AddressOfRecord, Bindings>,
    sent: Vec<Message>,
    transactions: Vec<TransactionKey>,
}

/// Bounds that the game reaches.
const MAXIMUM_TRANSACTIONS: usize = 24;
const MAXIMUM_PARKED: usize = 8;
const MAXIMUM_OCTETS: usize = 64 << 10;

/// The Call-ID of all probes.
const PROBES: &str = "probes";

/// The most messages that one thing may bring about at one time: a fork to all targets, a CANCEL to
/// each, the answers, and as many timers.
const MAXIMUM_BURST: usize = 300;

impl Server {
    pub(super) fn new(policy: Policy) -> Server {
        let listener = |transport| Listener {
            transport,
            address: local(transport),
        };
        let mut config = Config {
            listeners: TRANSPORTS.into_iter().map(listener).collect(),
            domains: vec![Domain {
                name: "example.com".parse().expect("a host"),
                aliases: Vec::new(),
            }],
            maximum_held_octets: MAXIMUM_OCTETS,
            ..Config::default()
        };
        config.queries.maximum_parked = MAXIMUM_PARKED;
        config.queries.maximum_resolving = MAXIMUM_PARKED;
        config.registrar.minimum_expires = Duration::from_secs(1);
        config.transactions.max_transactions = MAXIMUM_TRANSACTIONS;
        config.transactions.max_octets = MAXIMUM_OCTETS;
        let mut server = Server {
            proxy: Proxy::new(config, ChaCha12Rng::seed_from_u64(7)),
            policy: Policy::default(),
            now: Instant::now(),
            holds_questions: false,
            questions: VecDeque::new(),
            store: BTreeMap::new(),
            sent: Vec::new(),
            transactions: Vec::new(),
        };
        let users: [(&str, &[u8]); 3] = [("alice", &[0]), ("bob", &[0, 1, 2]), ("carol", &[4])];
        for (user, phones) in users {
            for &phone in phones {
                let flow = Peer::new(phone, phone).flow();
                let uri = "sip:example.com";
                // Over UDP they are behind NATs.
                let contact = match flow.transport {
                    Transport::Udp => format!("<sip:{user}@10.0.0.1>;q=0.{}", phone / 2),
                    _ => format!("<sip:{user}@{}>;q=0.{}", flow.remote, phone / 2),
                };
                let register = Message::request(sip::Method::Register, uri)
                    .with(
                        Name::Via,
                        format!("SIP/2.0/UDP {};branch=z9hG4bKr{user}{phone}", flow.remote),
                    )
                    .with(Name::From, format!("<sip:{user}@example.com>;tag=1"))
                    .with(Name::To, format!("<sip:{user}@example.com>"))
                    .with(Name::CallId, format!("register-{user}"))
                    .with(Name::CSeq, format!("{} REGISTER", phone + 1))
                    .with(Name::Contact, contact);
                server.receive(flow, register);
            }
        }
        server.proxy.start_probing(server.now, PROBES);
        server.proxy.start_keep_alives(server.now, 0, 1);
        server.set_policy(policy);
        server
    }

    pub(super) fn set_policy(&mut self, policy: Policy) {
        self.policy = policy.clone();
        self.proxy.set_policy(self.now, Arc::new(policy));
        self.drain();
    }

    /// Changes the settings so that no server is asked any more whether it is there.
    pub(super) fn stop_probes(&mut self) {
        let mut policy = self.policy.clone();
        for group in policy.routing.groups.values_mut() {
            group.probing = None;
        }
        self.set_policy(policy);
    }

    pub(super) fn receive(&mut self, flow: Flow, message: Message) {
        self.receive_octets(flow, message.to_bytes(), false);
    }

    pub(super) fn receive_octets(&mut self, flow: Flow, octets: Bytes, is_malformed: bool) {
        // As transports do it with datagrams.
        let is_unread = octets.starts_with(b"INVITE ") || octets.starts_with(b"ACK ");
        if flow.transport == Transport::Udp && is_unread && self.proxy.is_refusing(self.now) {
            self.proxy
                .accept_octets(self.now, Duration::ZERO, flow, octets);
            self.proxy.process_accepted(self.now);
            self.drain();
            return;
        }
        match Message::read(octets.clone()) {
            Ok(message) if !is_malformed => self.proxy.handle_message(self.now, flow, message),
            _ => self.proxy.handle_malformed(self.now, flow, octets),
        }
        self.drain();
    }

    /// One of the requests that were sent last.
    pub(super) fn recent_request(&self, which: u8) -> Option<&Message> {
        // Of probes there are many, and they are all alike; most of a proxy's work are INVITEs.
        let is_wanted = |sent: &&Message| match which % 4 {
            0 => sent.is_request(),
            1 => sent.is_request() && sent.call_id() != Some(PROBES),
            _ => sent.method() == Some(&sip::Method::Invite),
        };
        let mut requests = self.sent.iter().rev().filter(is_wanted);
        requests.nth(usize::from(which / 4) % 8)
    }

    /// One of the messages that were sent last.
    pub(super) fn recent_message(&self, which: u8) -> Option<&Message> {
        self.sent.iter().rev().nth(usize::from(which) % 32)
    }

    pub(super) fn fail(&mut self, which: u8) {
        if let Some(transaction) = self.recent_transaction(which) {
            self.proxy.handle_send_failure(self.now, transaction);
            self.drain();
        }
    }

    pub(super) fn refuse(&mut self, which: u8) {
        if let Some(transaction) = self.recent_transaction(which) {
            self.proxy.handle_connection_refused(self.now, transaction);
            self.drain();
        }
    }

    pub(super) fn close(&mut self, connection: ConnectionId) {
        self.proxy.handle_connection_closed(connection);
        self.drain();
    }

    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.proxy.next_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.proxy.handle_timeout(self.now);
            self.drain();
        }
        self.now = end;
    }

    /// Answers a question that is held, fittingly or not.
    pub(super) fn answer(&mut self, which: u8, kind: u8) {
        let place = usize::from(which).checked_rem(self.questions.len());
        let Some((id, query)) = place.and_then(|place| self.questions.remove(place)) else {
            return;
        };
        let answer = match kind % 8 {
            0 => Answer::Failed,
            1 => Answer::Unknown,
            2 => Answer::Full,
            3 => Answer::NextHops((5060..5080).map(next_hop).collect()),
            4 => Answer::NextHops(Vec::new()),
            5 => Answer::Credentials(None),
            _ => self.own_answer(query),
        };
        self.proxy.handle_answer(self.now, id, answer);
        self.drain();
    }

    /// Nothing is beyond its bound.
    pub(super) fn check_bounds(&self) {
        let statistics = self.proxy.statistics();
        // To the store, and to the DNS.
        assert!(statistics.questions <= 2 * MAXIMUM_PARKED as u64);
        assert!(statistics.response_contexts <= 2 * MAXIMUM_TRANSACTIONS as u64);
        assert!(statistics.branches <= MAXIMUM_TRANSACTIONS as u64);
        // A response may come that is longer than the room that is left.
        assert!(statistics.held_octets <= 2 * MAXIMUM_OCTETS as u64);
        assert!(statistics.keep_alives <= MAXIMUM_KEPT_FLOWS as u64);
    }

    /// Nothing is left.
    pub(super) fn check_idle(&self) {
        let statistics = self.proxy.statistics();
        assert_eq!(statistics.questions, 0);
        assert_eq!(statistics.response_contexts, 0);
        assert_eq!(statistics.branches, 0);
        assert_eq!(statistics.held_octets, 0);
        assert_eq!(statistics.keep_alives, 0);
        assert_eq!(self.proxy.transactions(), 0);
        assert_eq!(self.proxy.next_timeout(), None);
    }

    pub(super) fn statistics(&self) -> Statistics {
        self.proxy.statistics()
    }

    fn recent_transaction(&self, which: u8) -> Option<TransactionKey> {
        let mut recent = self.transactions.iter().rev();
        recent.nth(usize::from(which) % 8).copied()
    }

    /// Answers what is asked, and looks at what is sent.
    fn drain(&mut self) {
        while let Some((id, query)) = self.proxy.poll_query() {
            if self.holds_questions {
                self.questions.push_back((id, query));
            } else {
                let answer = self.own_answer(query);
                self.proxy.handle_answer(self.now, id, answer);
            }
        }
        let mut burst = 0;
        while let Some(transmit) = self.proxy.poll_transmit() {
            burst += 1;
            if &transmit.payload[..] == b"\r\n\r\n" {
                continue;
            }
            let message = Message::read(transmit.payload).expect("what is sent can be read");
            if message.is_request() {
                // The answer to a request that breaks a rule may break it too.
                message.validate().expect("what is sent keeps the rules");
            }
            self.transactions.extend(transmit.transaction);
            self.sent.push(message);
        }
        assert!(burst <= MAXIMUM_BURST, "a flood of {burst}");
        while self.proxy.poll_event().is_some() {}
    }

    fn own_answer(&mut self, query: Query) -> Answer {
        match query {
            Query::Lookup(address) => {
                let bindings = self.store.get(&address).cloned();
                bindings.map_or(Answer::Unknown, Answer::Bindings)
            }
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
                let credentials = Credentials::new(&username, &realm, b"secret");
                Answer::Credentials(Some(Arc::new(credentials)))
            }
            Query::Page { from, limit } => {
                // Who comes or goes meanwhile shifts the others: some may be left out or come twice.
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
            Query::Resolve(destination) => match destination.host.parse::<IpAddr>() {
                Ok(address) => {
                    let hop = NextHop {
                        transport: destination.transport_or_default(),
                        remote: SocketAddr::new(address, destination.port_or_default()),
                        ..next_hop(0)
                    };
                    Answer::NextHops(vec![hop])
                }
                Err(_) => Answer::NextHops(vec![next_hop(5060), next_hop(5070)]),
            },
        }
    }
}

fn next_hop(port: u16) -> NextHop {
    NextHop {
        transport: sip::Transport::Udp,
        remote: ([192, 0, 2, 77], port).into(),
        local: local(sip::Transport::Udp),
        peer: None,
    }
}
