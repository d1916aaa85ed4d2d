//! The attack of RFC 5393 section 3 on two proxies of ours: users whose contacts are each other. It
//! stays bounded by loop detection, and by Max-Breadth where that is not enough.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Bench, flow, register, request};
use proxy::core::Policy;
use sip::{Message, Method, Name, Target, Transport};

const ADDRESSES: [&str; 2] = ["192.0.2.1:5060", "192.0.2.2:5060"];
const DOMAINS: [&str; 2] = ["p1.example", "p2.example"];
const ATTACKER: &str = "192.0.2.66:5060";

/// Two proxies that send to each other.
struct Network {
    proxies: [Bench; 2],
    /// Messages between them: from which, to which, and what.
    on_the_way: Vec<(usize, usize, Message)>,
    requests: usize,
    most_branches: u64,
    answers: Vec<u16>,
}

impl Network {
    /// The proxies with users whose contacts are these.
    fn new(users: &[(usize, &str, Vec<String>)]) -> Network {
        let proxies = [0, 1].map(|number| {
            let listener = format!("udp:{}", ADDRESSES[number]);
            let mut bench = Bench::with(&[&listener], &[DOMAINS[number]], |config| {
                config.registrar.maximum_bindings = 16;
                // What is refused is counted here, and not repeated because it was not answered.
                let mut policy = Policy::default();
                policy.overload.unauthenticated_per_second_per_source = None;
                config.policy = Arc::new(policy);
            });
            for (domain, address) in DOMAINS.into_iter().zip(ADDRESSES) {
                let address = address.parse().expect("an address");
                bench
                    .names
                    .insert(domain.to_owned(), vec![(Transport::Udp, address)]);
            }
            bench
        });
        let mut network = Network {
            proxies,
            on_the_way: Vec::new(),
            requests: 0,
            most_branches: 0,
            answers: Vec::new(),
        };
        for (number, user, contacts) in users {
            let contacts: Vec<&str> = contacts.iter().map(String::as_str).collect();
            let mut register = register(user, 1, &contacts);
            // It has come through another proxy, so that its contacts are used as they are.
            register.push_back(Name::Via, "SIP/2.0/UDP 192.0.2.66:5060;branch=z9hG4bKx");
            let domain = DOMAINS[*number];
            register.set_request_uri(&format!("sip:{domain}"));
            for (name, tag) in [(Name::From, ";tag=1"), (Name::To, "")] {
                register.replace(name, format!("<sip:{user}@{domain}>{tag}"));
            }
            let from = flow(&format!("udp:{}", ADDRESSES[*number]), ATTACKER);
            network.proxies[*number].receive(from, register);
            network.proxies[*number].one().answers(200);
        }
        network
    }

    fn attack(&mut self, uri: &str) {
        let from = flow(&format!("udp:{}", ADDRESSES[0]), ATTACKER);
        self.proxies[0].receive(from, request(Method::Invite, uri, "attack"));
        self.collect(0);
        self.run(100_000);
        // What is retransmitted, cancelled or given up.
        for _ in 0..400 {
            for number in [0, 1] {
                self.proxies[number].pass(Duration::from_secs(1));
                self.collect(number);
            }
            self.run(100_000);
        }
    }

    /// Carries messages until there are none, or as many have been carried as may be.
    fn run(&mut self, maximum: usize) {
        let mut carried = 0;
        while let Some((from, to, message)) = self.on_the_way.pop() {
            carried += 1;
            assert!(carried <= maximum, "a storm");
            let way = flow(&format!("udp:{}", ADDRESSES[to]), ADDRESSES[from]);
            self.proxies[to].receive(way, message);
            self.collect(to);
            let branches = self.proxies.iter();
            let branches = branches.map(|proxy| proxy.proxy.statistics().branches);
            self.most_branches = self.most_branches.max(branches.sum());
        }
    }

    fn collect(&mut self, from: usize) {
        for sent in self.proxies[from].sent() {
            let remote = match sent.target {
                Target::Flow(flow) | Target::FlowOrAddress(flow, _) => flow.remote,
                Target::Address(_, address) => address,
            };
            self.requests += usize::from(sent.message.method() == Some(&Method::Invite));
            match ADDRESSES
                .iter()
                .position(|address| *address == remote.to_string())
            {
                Some(to) => self.on_the_way.push((from, to, sent.message)),
                None => self.answers.extend(sent.message.status()),
            }
        }
    }

    fn ends(self) {
        for proxy in &self.proxies {
            proxy.assert_idle();
        }
    }
}

fn contacts(users: &[&str], domain: &str) -> Vec<String> {
    let contact = |user: &&str| format!("<sip:{user}@{domain}>");
    users.iter().map(contact).collect()
}

/// Figure 1: without loop detection 2^71 requests. The RFC counts 14 with it.
#[test]
fn two_accounts_on_each_of_two_servers() {
    let mut network = Network::new(&[
        (0, "a", contacts(&["a", "b"], DOMAINS[1])),
        (0, "b", contacts(&["a", "b"], DOMAINS[1])),
        (1, "a", contacts(&["a", "b"], DOMAINS[0])),
        (1, "b", contacts(&["a", "b"], DOMAINS[0])),
    ]);
    network.attack("sip:a@p1.example");
    assert_eq!(network.requests, 14);
    assert!(network.answers.contains(&482), "{:?}", network.answers);
    network.ends();
}

/// The variant with one account and contacts that differ in a parameter.
#[test]
fn one_account_on_one_server() {
    let mut network = Network::new(&[(
        0,
        "a",
        ["whack", "thud"]
            .map(|value| format!("<sip:a@p1.example;unknown-param={value}>"))
            .to_vec(),
    )]);
    network.attack("sip:a@p1.example");
    assert_eq!(network.requests, 10);
    network.ends();
}

/// The variant that loop detection alone does not stop: each of six accounts forks to all. The RFC's
/// table has 1,956 requests for it; Max-Breadth lets no more than 60 run at the end of any path at one
/// time, and the tree is no deeper than there are accounts.
#[test]
fn many_accounts_that_fork_to_all() {
    let users = ["a", "b", "c", "d", "e", "f"];
    let all = |domain| contacts(&users, domain);
    let accounts: Vec<(usize, &str, Vec<String>)> = users
        .iter()
        .map(|user| (0, *user, all(DOMAINS[0])))
        .collect();
    let mut network = Network::new(&accounts);
    network.attack("sip:a@p1.example");
    assert!(network.requests <= 1956, "{}", network.requests);
    let bound = 60 * (users.len() as u64 + 1);
    assert!(network.most_branches <= bound, "{}", network.most_branches);
    assert!(network.answers.contains(&482), "{:?}", network.answers);
    network.ends();
}
