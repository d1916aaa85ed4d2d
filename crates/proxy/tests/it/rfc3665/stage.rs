//! The stage: servers of ours, who hear what goes between them and user agents, and compare it with the
//! RFC's messages.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proxy::core::{AuthenticationPolicy, Policy};
use sip::digest::{Algorithm, Challenge};
use sip::{Message, Method, Name, NameAddr, Target, Transport, Uri};

use super::user::User;
use crate::common::{self, Bench, flow, reread, values};

/// Who takes part, and where.
pub(crate) const PLACES: [(&str, &str); 8] = [
    ("alice", "192.0.2.101:5060"),
    ("bob", "192.0.2.201:5060"),
    // Where Bob is when he is in Chicago.
    ("bob abroad", "192.0.2.100:5060"),
    ("ss1", "192.0.2.111:5060"),
    ("ss2", "192.0.2.222:5060"),
    ("ss3", "192.0.2.233:5060"),
    ("alg1", "192.0.2.128:5060"),
    ("bob over tls", "192.0.2.201:5061"),
];

/// The passwords that our servers know.
pub(crate) const PASSWORDS: [(&str, &str); 2] =
    [("alice", "secret of alice"), ("bob", "secret of bob")];

/// A message of the RFC, by its place in the file.
pub(crate) fn original(place: usize) -> Message {
    let file = include_str!("../../../../sip/tests/examples/rfc3665.txt");
    let text = file.split_terminator("=====\r\n").nth(place);
    let mut text = text.expect("a message").to_owned();
    for (host, address) in [
        ("client.atlanta.example.com", "192.0.2.101"),
        ("client.biloxi.example.com", "192.0.2.201"),
        ("client.chicago.example.com", "192.0.2.100"),
    ] {
        text = text.replace(host, address);
    }
    let message = Message::read(text.into()).expect("a message");
    let missing = message.content_length().unwrap_or(0) - message.body().len();
    let octets = [message.to_bytes().as_ref(), &vec![b'x'; missing]].concat();
    Message::read(octets.into()).expect("a message")
}

/// The stage on which a flow is played.
pub(crate) struct Stage {
    pub(crate) transport: &'static str,
    pub(crate) servers: BTreeMap<&'static str, Bench>,
    pub(crate) users: BTreeMap<&'static str, User>,
    /// What servers have sent and nobody has looked at: from whom, to whom, what.
    pub(crate) on_the_way: Vec<(&'static str, &'static str, Message)>,
}

impl Stage {
    pub(crate) fn new(transport: &'static str) -> Stage {
        Stage {
            transport,
            servers: BTreeMap::new(),
            users: BTreeMap::new(),
            on_the_way: Vec::new(),
        }
    }

    /// Puts a server on the stage.
    pub(crate) fn with(mut self, name: &'static str, domains: &[&str], policy: Policy) -> Stage {
        let listener = format!("{}:{}", self.transport, address(name));
        let host = format!("{name}.{}", domains[0]);
        let mut all: Vec<&str> = domains.to_vec();
        all.push(&host);
        let mut bench = Bench::with(&[&listener], &all, |config| {
            config.advertise = Some(host.parse().expect("a host"));
            config.policy = Arc::new(policy);
        });
        let transport: Transport = self.transport.parse().expect("a transport");
        for (domain, server) in [
            ("ss1.atlanta.example.com", "ss1"),
            ("ss2.biloxi.example.com", "ss2"),
            ("ss3.chicago.example.com", "ss3"),
            ("alg1.atlanta.example.com", "alg1"),
            ("biloxi.example.com", "ss2"),
        ] {
            let address = address(server).parse().expect("an address");
            bench
                .names
                .insert(domain.to_owned(), vec![(transport, address)]);
        }
        for (user, password) in PASSWORDS {
            bench.passwords.insert(user.to_owned(), password.to_owned());
        }
        self.servers.insert(name, bench);
        self
    }

    /// Bob registers at a server, without the RFC's help.
    pub(crate) fn with_bob(mut self, server: &'static str, domain: &str, contact: &str) -> Stage {
        let mut register = common::register("bob", 1, &[contact]);
        register.set_request_uri(&format!("sip:{domain}"));
        for (name, tag) in [(Name::From, ";tag=1"), (Name::To, "")] {
            register.replace(name, format!("<sip:bob@{domain}>{tag}"));
        }
        let user = if contact.contains("192.0.2.100") {
            "bob abroad"
        } else {
            "bob"
        };
        register.remove_all(Name::Via);
        let via = format!(
            "SIP/2.0/{} {};branch=z9hG4bKr",
            self.transport.to_uppercase(),
            address(user)
        );
        register.push_front(Name::Via, via);
        let from = flow(&self.listener(server), address(user));
        let bench = self.servers.get_mut(server).expect("a server");
        bench.receive(from, register);
        bench.one().answers(200);
        self
    }

    pub(crate) fn listener(&self, server: &str) -> String {
        format!("{}:{}", self.transport, address(server))
    }

    /// A message goes from one to the other: a user agent says it, or a server has sent it already.
    #[track_caller]
    pub(crate) fn goes(&mut self, from: &'static str, to: &'static str, place: usize) {
        self.passes(from, to, original(place), place);
    }

    /// The same with another status than the one in the RFC.
    #[track_caller]
    pub(crate) fn goes_as(
        &mut self,
        from: &'static str,
        to: &'static str,
        place: usize,
        status: u16,
    ) {
        let mut message = original(place);
        let mut other = Message::response_to(&message, status, "Some Reason");
        for name in [Name::Via, Name::To] {
            other.remove_all(name);
            for value in values(&message, name) {
                other.push_back(name, value);
            }
        }
        message = other;
        self.passes(from, to, message, place);
    }

    #[track_caller]
    pub(crate) fn passes(
        &mut self,
        from: &'static str,
        to: &'static str,
        expected: Message,
        place: usize,
    ) {
        let message = if self.servers.contains_key(from) {
            let found = self.on_the_way.iter().position(|(sender, receiver, sent)| {
                *sender == from && *receiver == to && is_same_kind(sent, &expected)
            });
            let Some(found) = found else {
                panic!(
                    "{place}: {from} has not sent it to {to}: {:#?}",
                    self.on_the_way
                );
            };
            let (_, _, message) = self.on_the_way.remove(found);
            self.compare(&message, &expected, place);
            message
        } else {
            self.says(from, expected)
        };
        match self.servers.get_mut(to) {
            Some(bench) => {
                let way = flow(
                    &format!("{}:{}", self.transport, address(to)),
                    address(from),
                );
                bench.receive(way, message);
                self.collect(to);
            }
            None => self.users.entry(to).or_default().hears(message),
        }
    }

    /// Takes what a server has sent.
    pub(crate) fn collect(&mut self, server: &'static str) {
        for sent in self.servers.get_mut(server).expect("a server").sent() {
            let remote = match sent.target {
                Target::Flow(flow) | Target::FlowOrAddress(flow, _) => flow.remote,
                Target::Address(_, address) => address,
            };
            let receiver = PLACES
                .iter()
                .find(|(_, address)| *address == remote.to_string())
                .unwrap_or_else(|| panic!("nobody is at {remote}: {sent:#?}"));
            self.on_the_way.push((server, receiver.0, sent.message));
        }
    }

    /// Lets time pass for a server.
    pub(crate) fn passes_at(&mut self, server: &'static str, time: Duration) {
        self.servers.get_mut(server).expect("a server").pass(time);
        self.collect(server);
    }

    /// What a user agent makes of the RFC's message.
    pub(crate) fn says(&mut self, name: &'static str, message: Message) -> Message {
        let user = self.users.entry(name).or_default();
        let message = if message.is_request() {
            user.asks(message)
        } else {
            user.replies(&message)
        };
        user.said.push(message.clone());
        reread(&message)
    }

    /// What a server has sent is what the RFC has, but for what every server makes by itself: branches,
    /// tags, nonces, and the details of Record-Route.
    #[track_caller]
    pub(crate) fn compare(&self, sent: &Message, expected: &Message, place: usize) {
        let context = || format!("{place}: {sent:#?}\n{expected:#?}");
        for name in [Name::CallId, Name::CSeq] {
            if expected.method() != Some(&Method::Register) && !is_registration(expected) {
                assert_eq!(values(sent, name), values(expected, name), "{}", context());
            }
        }
        for name in [Name::From, Name::To] {
            assert_eq!(
                address_of(sent, name),
                address_of(expected, name),
                "{}",
                context()
            );
        }
        assert_eq!(sent.body(), expected.body(), "{}", context());
        assert_eq!(
            hosts(sent, Name::Contact),
            hosts(expected, Name::Contact),
            "{}",
            context()
        );
        let senders = |message: &Message| -> Vec<String> {
            let vias = message.vias().map(|via| via.expect("a Via"));
            vias.map(|via| via.host().to_string()).collect()
        };
        assert_eq!(senders(sent), senders(expected), "{}", context());
        if expected.is_request() {
            let uri = |message: &Message| {
                let uri = message.request_uri().expect("a URI");
                uri.split(';').next().unwrap_or_default().to_owned()
            };
            // The RFC's own CANCEL between its proxies (F11 of section 3.8) has the wrong one.
            if place != 137 {
                assert_eq!(uri(sent), uri(expected), "{}", context());
            }
            // CANCEL and ACK to a failure begin anew at each hop.
            assert_eq!(
                sent.max_forwards(),
                expected.max_forwards(),
                "{}",
                context()
            );
        }
        assert_eq!(
            hosts(sent, Name::RecordRoute),
            hosts(expected, Name::RecordRoute),
            "{}",
            context()
        );
        for name in [Name::ProxyAuthenticate, Name::WwwAuthenticate] {
            assert_eq!(
                realms(sent, name).len(),
                realms(expected, name).len(),
                "{}",
                context()
            );
        }
    }

    /// Nothing has been sent but what the flow has, and a 100 to each INVITE; nothing is left anywhere.
    pub(crate) fn ends(mut self) {
        self.on_the_way
            .retain(|(_, _, message)| message.status() != Some(100));
        assert!(self.on_the_way.is_empty(), "{:#?}", self.on_the_way);
        for (_, mut bench) in self.servers {
            bench.pass(Duration::from_secs(400));
            bench.assert_idle();
        }
    }
}

impl Stage {
    /// A hop that the RFC's flow has not got: the message goes on as its kind, with its body.
    #[track_caller]
    pub(crate) fn hop(&mut self, from: &'static str, to: &'static str, place: usize) {
        let expected = original(place);
        let found = self.on_the_way.iter().position(|(sender, receiver, sent)| {
            *sender == from && *receiver == to && is_same_kind(sent, &expected)
        });
        let Some(found) = found else {
            panic!(
                "{place}: {from} has not sent it to {to}: {:#?}",
                self.on_the_way
            );
        };
        let (_, _, message) = self.on_the_way.remove(found);
        for name in [Name::CallId, Name::CSeq, Name::Contact] {
            assert_eq!(values(&message, name), values(&expected, name));
        }
        assert_eq!(message.body(), expected.body());
        match self.servers.get_mut(to) {
            Some(bench) => {
                let way = flow(
                    &format!("{}:{}", self.transport, address(to)),
                    address(from),
                );
                bench.receive(way, message);
                self.collect(to);
            }
            None => self.users.entry(to).or_default().hears(message),
        }
    }
}

pub(crate) fn address(name: &str) -> &'static str {
    let place = PLACES.iter().find(|(who, _)| *who == name);
    place.expect("somebody who takes part").1
}

pub(crate) fn is_same_kind(one: &Message, other: &Message) -> bool {
    match (one.status(), other.status()) {
        (None, None) => one.method() == other.method(),
        (one_status, other_status) => {
            one_status == other_status
                && one.cseq().map(|(_, method)| method) == other.cseq().map(|(_, method)| method)
        }
    }
}

pub(crate) fn is_registration(message: &Message) -> bool {
    matches!(message.cseq(), Some((_, Method::Register)))
}

/// The URI of From or To.
pub(crate) fn address_of(message: &Message, name: Name<'_>) -> String {
    let value = values(message, name).remove(0);
    let address = NameAddr::parse(value.as_bytes()).expect("an address");
    address.uri().to_owned()
}

/// The hosts of addresses, or whole URIs where they have none.
pub(crate) fn hosts(message: &Message, name: Name<'_>) -> Vec<String> {
    let host = |value: String| {
        let address = NameAddr::parse(value.as_bytes()).expect("an address");
        match address.parse_uri() {
            Ok(Uri::Sip(uri)) => format!("{}@{}", uri.user().unwrap_or_default(), uri.host()),
            _ => address.uri().to_owned(),
        }
    };
    values(message, name).into_iter().map(host).collect()
}

pub(crate) fn realms(message: &Message, name: Name<'_>) -> Vec<String> {
    message
        .headers(name)
        .map(|value| {
            Challenge::parse(value)
                .expect("a challenge")
                .realm
                .to_string()
        })
        .collect()
}

/// A server that asks callers who say that they are of these domains for their passwords in a realm.
pub(crate) fn asking(realm: &str) -> Policy {
    Policy {
        authentication: AuthenticationPolicy {
            calls: true,
            realm: Some(realm.to_owned()),
            algorithms: vec![Algorithm::Md5],
            ..AuthenticationPolicy::default()
        },
        ..Policy::default()
    }
}

pub(crate) const ATLANTA: &str = "atlanta.example.com";
pub(crate) const BILOXI: &str = "biloxi.example.com";
pub(crate) const CHICAGO: &str = "chicago.example.com";
