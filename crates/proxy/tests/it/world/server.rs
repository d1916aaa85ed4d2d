//! A proxy and registrar of one domain. What its location store has stays when it is restarted, and so do the keys that
//! tokens are signed with.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use proxy::core::{Answer, Config, Destination, Domain, Keys, Listener, NextHop, Proxy, Query};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sim::Datagram;
use sip::{Flow, Message, Transport};

use crate::world::host::{Packet, udp_datagram};
use crate::world::store::Store;
use crate::world::trunk::{News, Trunk};

/// A server and its surroundings.
pub(crate) struct Server {
    address: SocketAddr,
    config: Config,
    proxy: Proxy,
    /// How often it has been restarted.
    incarnation: u64,
    store: Store,
    /// Where the proxies of domains are.
    names: BTreeMap<String, SocketAddr>,
    /// The way to the other proxy, where that is not UDP, and where it ends.
    trunk: Option<(SocketAddr, Trunk)>,
    /// Messages that have come over it.
    carried: u64,
}

impl Server {
    /// One in whose surroundings chance decides by `rng`. `peer`: the other proxy, where it is reached over SCTP.
    pub(crate) fn new(
        address: SocketAddr,
        domain: &str,
        names: BTreeMap<String, SocketAddr>,
        (peer, is_late): (Option<SocketAddr>, bool),
        rng: &mut ChaCha12Rng,
    ) -> Server {
        let transports = [Some(Transport::Udp), peer.map(|_| Transport::Sctp)];
        let listener = |transport| Listener { transport, address };
        let config = Config {
            listeners: transports.into_iter().flatten().map(listener).collect(),
            domains: vec![Domain {
                name: domain.parse().expect("a host"),
                aliases: Vec::new(),
            }],
            keys: Some(Keys::draw(rng)),
            incarnation: rng.next_u32(),
            ..Config::default()
        };
        let lateness = is_late.then(|| ChaCha12Rng::from_rng(rng));
        let trunk = peer.map(|peer| {
            (
                peer,
                Trunk::new(address, peer, 1, ChaCha12Rng::from_rng(rng).get_seed()),
            )
        });
        Server {
            address,
            proxy: Proxy::new(config.clone(), ChaCha12Rng::from_rng(rng)),
            config,
            incarnation: 0,
            store: Store::new(lateness),
            names,
            trunk,
            carried: 0,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Messages that have come over SCTP.
    pub(crate) fn carried(&self) -> u64 {
        self.carried
    }

    /// Questions that were not answered in time, since it was started last.
    pub(crate) fn given_up(&self) -> u64 {
        self.proxy.statistics().questions_timed_out
    }

    /// Forgets all but the bindings. Associations end without a word.
    pub(crate) fn restart(&mut self, seed: u64) {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        self.incarnation += 1;
        self.config.incarnation = rng.next_u32();
        if let Some((peer, trunk)) = &mut self.trunk {
            let first = trunk.next_connection();
            *trunk = Trunk::new(
                self.address,
                *peer,
                first,
                ChaCha12Rng::from_rng(&mut rng).get_seed(),
            );
        }
        self.proxy = Proxy::new(self.config.clone(), rng);
    }

    /// Fails when anything is held that nobody waits for any more.
    pub(crate) fn assert_idle(&self, now: Instant) {
        let statistics = self.proxy.statistics();
        assert_eq!(statistics.response_contexts, 0, "{statistics:?}");
        assert_eq!(statistics.branches, 0, "{statistics:?}");
        assert_eq!(statistics.questions, 0, "{statistics:?}");
        assert_eq!(statistics.held_octets, 0, "{statistics:?}");
        assert_eq!(self.proxy.transactions(), 0, "{statistics:?}");
        assert_eq!(self.proxy.next_timeout(), None, "a timer is left");
        self.store.assert_idle(now);
        if let Some((_, trunk)) = &self.trunk {
            trunk.assert_idle();
        }
    }

    pub(crate) fn handle_message(&mut self, now: Instant, flow: Flow, message: Message) {
        self.proxy.handle_message(now, flow, message);
        self.settle(now);
    }

    /// Takes a packet of an association. On a host without SCTP nobody does.
    pub(crate) fn handle_packet(&mut self, now: Instant, datagram: Datagram<Packet>) {
        if let Some((_, trunk)) = &mut self.trunk {
            trunk.handle_datagram(now, datagram);
        }
        self.settle(now);
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if let Some((_, trunk)) = &mut self.trunk {
            trunk.handle_timeout(now);
        }
        if self.proxy.next_timeout().is_some_and(|due| due <= now) {
            self.proxy.handle_timeout(now);
        }
        self.settle(now);
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let trunk = self.trunk.as_ref();
        [
            self.proxy.next_timeout(),
            self.store.next_timeout(),
            trunk.and_then(|(_, trunk)| trunk.next_timeout()),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    pub(crate) fn poll_transmit(&mut self, now: Instant) -> Option<Datagram<Packet>> {
        while let Some(transmit) = self.proxy.poll_transmit() {
            if transmit.target.transport() == Transport::Udp {
                return Some(udp_datagram(self.address, transmit));
            }
            let (_, trunk) = self.trunk.as_mut().expect("SCTP is spoken here");
            trunk.send(now, transmit);
            // It may have failed.
            self.settle(now);
        }
        self.trunk.as_mut()?.1.poll_transmit(now)
    }

    fn settle(&mut self, now: Instant) {
        while let Some(news) = self.next_news() {
            match news {
                News::Message(flow, message) => {
                    self.carried += 1;
                    self.proxy.handle_message(now, flow, message);
                }
                News::Closed(connection) => self.proxy.handle_connection_closed(connection),
                News::SendFailed(transaction) => self.proxy.handle_send_failure(now, transaction),
            }
        }
        loop {
            if let Some((id, query)) = self.proxy.poll_query() {
                let answer = match query {
                    Query::Resolve(destination) => Some(self.resolve(&destination)),
                    query => self.store.ask(now, self.incarnation, id, query),
                };
                if let Some(answer) = answer {
                    self.proxy.handle_answer(now, id, answer);
                }
            } else if let Some((id, answer)) = self.store.next_answer(now, self.incarnation) {
                self.proxy.handle_answer(now, id, answer);
            } else {
                break;
            }
        }
        while self.proxy.poll_event().is_some() {}
    }

    fn next_news(&mut self) -> Option<News> {
        self.trunk.as_mut()?.1.next_news()
    }

    fn resolve(&self, destination: &Destination) -> Answer {
        let hop = match destination.host.parse::<IpAddr>() {
            Ok(address) => Some((
                destination.transport_or_default(),
                SocketAddr::new(address, destination.port_or_default()),
            )),
            Err(_) => self.names.get(&destination.host).map(|address| {
                let is_trunk = |(peer, _): &(SocketAddr, Trunk)| peer == address;
                match self.trunk.as_ref().is_some_and(is_trunk) {
                    true => (Transport::Sctp, *address),
                    false => (Transport::Udp, *address),
                }
            }),
        };
        let hop = hop.map(|(transport, remote)| NextHop {
            transport,
            remote,
            local: self.address,
            peer: None,
        });
        Answer::NextHops(hop.into_iter().collect())
    }
}
