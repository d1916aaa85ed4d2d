//! The core of the proxy and registrar, with a location store in memory.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use proxy::HostPort;
use proxy::core::{
    AddressOfRecord, Answer, Bindings, Config, Domain, Listener, NextHop, Page, Proxy, Query,
};
use rand_chacha::ChaCha12Rng;
use sim::Datagram;
use sip::{Message, Target, Transport};

use crate::sip_carrier::SipCarrier;
use crate::sip_carrier::packet::Packet;

pub(super) struct RegistrarHost {
    proxy: Proxy,
    carrier: SipCarrier,
    bindings: BTreeMap<String, Bindings>,
}

impl RegistrarHost {
    pub(super) fn new(
        transport: Transport,
        carrier: SipCarrier,
        rng: ChaCha12Rng,
    ) -> RegistrarHost {
        let local = carrier.local();
        let config = Config {
            listeners: vec![Listener {
                transport,
                address: local,
            }],
            domains: vec![Domain {
                name: HostPort {
                    host: local.ip().to_string(),
                    port: Some(local.port()),
                },
                aliases: Vec::new(),
            }],
            ..Config::default()
        };
        RegistrarHost {
            proxy: Proxy::new(config, rng),
            carrier,
            bindings: BTreeMap::new(),
        }
    }

    pub(super) fn handle_datagram(&mut self, now: Instant, datagram: Datagram<Packet>) {
        self.carrier.handle_datagram(now, datagram);
        self.settle(now);
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.carrier.handle_timeout(now);
        if self.proxy.next_timeout().is_some_and(|due| due <= now) {
            self.proxy.handle_timeout(now);
        }
        self.settle(now);
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let timeouts = [self.proxy.next_timeout(), self.carrier.next_timeout()];
        timeouts.into_iter().flatten().min()
    }

    pub(super) fn poll_transmit(&mut self, now: Instant) -> Option<Datagram<Packet>> {
        self.carrier.poll_transmit(now)
    }

    fn settle(&mut self, now: Instant) {
        while let Some((flow, payload)) = self.carrier.next_message() {
            if let Ok(message) = Message::read(payload) {
                self.proxy.handle_message(now, flow, message);
            }
        }
        while let Some((id, query)) = self.proxy.poll_query() {
            let answer = self.answer(query);
            self.proxy.handle_answer(now, id, answer);
        }
        while let Some(transmit) = self.proxy.poll_transmit() {
            let stream = match transmit.target {
                Target::Flow(flow) | Target::FlowOrAddress(flow, _) => flow.stream,
                Target::Address(..) => 0,
            };
            let to = transmit.target.remote().ip();
            self.carrier.send(now, to, stream, transmit.payload);
        }
        while self.proxy.poll_event().is_some() {}
    }

    fn answer(&mut self, query: Query) -> Answer {
        match query {
            Query::Lookup(user) => match self.bindings.get(user.as_str()) {
                Some(bindings) => Answer::Bindings(bindings.clone()),
                None => Answer::Unknown,
            },
            Query::Update(user, update) => {
                let current = self.bindings_of(&user);
                match update.apply(&current) {
                    Ok(bindings) => {
                        let bindings: Bindings = bindings.into();
                        self.bindings
                            .insert(user.as_str().to_owned(), bindings.clone());
                        Answer::Bindings(bindings)
                    }
                    Err(error) => Answer::Refused(error),
                }
            }
            Query::Resolve(destination) => {
                let Ok(address) = destination.host.parse::<IpAddr>() else {
                    return Answer::NextHops(Vec::new());
                };
                Answer::NextHops(vec![NextHop {
                    transport: destination.transport_or_default(),
                    remote: SocketAddr::new(address, destination.port_or_default()),
                    local: self.carrier.local(),
                    peer: None,
                }])
            }
            Query::Credentials { .. } => Answer::Credentials(None),
            Query::Page { .. } => Answer::Page(Page::default()),
            Query::Http(_) | Query::Redis(_) => Answer::Failed,
        }
    }

    fn bindings_of(&self, user: &AddressOfRecord) -> Bindings {
        let bindings = self.bindings.get(user.as_str());
        bindings.cloned().unwrap_or_default()
    }
}
