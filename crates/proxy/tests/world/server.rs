//! A proxy and registrar of one domain. What its location store has stays when it is restarted.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use proxy::core::{
    AddressOfRecord, Answer, Bindings, Config, Domain, Listener, NextHop, Proxy, Query,
};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sip::{Flow, Message, Transmit, Transport};

/// A server and its surroundings.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    config: Config,
    proxy: Proxy,
    store: BTreeMap<AddressOfRecord, Bindings>,
    /// Where the proxies of domains are.
    names: BTreeMap<String, SocketAddr>,
}

impl Server {
    pub(crate) fn new(
        address: SocketAddr,
        domain: &str,
        names: BTreeMap<String, SocketAddr>,
        seed: u64,
    ) -> Server {
        let config = Config {
            listeners: vec![Listener {
                transport: Transport::Udp,
                address,
            }],
            domains: vec![Domain {
                name: domain.parse().expect("a host"),
                aliases: Vec::new(),
            }],
            ..Config::default()
        };
        Server {
            address,
            proxy: Proxy::new(config.clone(), ChaCha12Rng::seed_from_u64(seed)),
            config,
            store: BTreeMap::new(),
            names,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Forgets all but the bindings.
    pub(crate) fn restart(&mut self, seed: u64) {
        self.proxy = Proxy::new(self.config.clone(), ChaCha12Rng::seed_from_u64(seed));
    }

    /// Fails when anything is held that nobody waits for any more.
    pub(crate) fn assert_idle(&self, now: Instant) {
        let statistics = self.proxy.statistics();
        assert_eq!(statistics.response_contexts, 0, "{statistics:?}");
        assert_eq!(statistics.branches, 0, "{statistics:?}");
        assert_eq!(statistics.questions, 0, "{statistics:?}");
        assert_eq!(statistics.held_octets, 0, "{statistics:?}");
        assert_eq!(self.proxy.next_timeout(), None, "a timer is left");
        for (address, bindings) in &self.store {
            assert!(
                bindings.iter().all(|binding| binding.expires() <= now),
                "{address:?} is still bound"
            );
        }
    }

    pub(crate) fn handle_message(&mut self, now: Instant, flow: Flow, message: Message) {
        self.proxy.handle_message(now, flow, message);
        self.settle(now);
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.proxy.handle_timeout(now);
        self.settle(now);
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.proxy.next_timeout()
    }

    pub(crate) fn poll_transmit(&mut self) -> Option<Transmit> {
        self.proxy.poll_transmit()
    }

    fn settle(&mut self, now: Instant) {
        while let Some((id, query)) = self.proxy.poll_query() {
            let answer = self.answer(query);
            self.proxy.handle_answer(now, id, answer);
        }
        while self.proxy.poll_event().is_some() {}
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
            Query::Credentials { .. } => Answer::Credentials(None),
            // Nobody wants keep-alives here.
            Query::Page { .. } => Answer::Failed,
            Query::Resolve(destination) => {
                let remote = match destination.host.parse::<IpAddr>() {
                    Ok(address) => Some(SocketAddr::new(address, destination.port_or_default())),
                    Err(_) => self.names.get(&destination.host).copied(),
                };
                let hop = remote.map(|remote| NextHop {
                    transport: Transport::Udp,
                    remote,
                    local: self.address,
                    peer: None,
                });
                Answer::NextHops(hop.into_iter().collect())
            }
        }
    }
}
