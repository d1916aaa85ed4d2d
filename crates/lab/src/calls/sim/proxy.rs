//! A proxy's core, with UDP towards its users and a trunk to the other proxy.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use proxy::core::{Answer, Config, Listener, NextHop, Page, Policy, Proxy, Query, Relay};
use rand_chacha::ChaCha12Rng;
use sim::Datagram;
use sip::{Message, Transport};

use super::SiteAddresses;
use crate::calls::{Scenario, sctp_config};
use crate::pair::MTU;
use crate::sip_carrier::SipCarrier;
use crate::sip_carrier::packet::{Packet, remote, udp_datagram, udp_message};

/// Streams of the association: calls are spread over them.
const STREAMS: u16 = 64;

pub(super) struct ProxyHost {
    own: SiteAddresses,
    proxy: Proxy,
    /// To the other proxy.
    trunk: SipCarrier,
}

impl ProxyHost {
    pub(super) fn new(
        start: Instant,
        own: &SiteAddresses,
        other: &SiteAddresses,
        scenario: &Scenario,
        rng: ChaCha12Rng,
        trunk_rng: ChaCha12Rng,
    ) -> ProxyHost {
        let transport = scenario.trunk;
        let mut policy = Policy::default();
        // The callers are no users of the far proxy.
        policy.forwarding.relay = Relay::Anybody;
        let listener = |transport, address| Listener { transport, address };
        let config = Config {
            listeners: vec![
                listener(Transport::Udp, own.proxy),
                listener(transport, own.trunk_listener()),
            ],
            policy: Arc::new(policy),
            ..Config::default()
        };
        ProxyHost {
            own: *own,
            proxy: Proxy::new(config, rng),
            trunk: SipCarrier::new(
                start,
                transport,
                &sctp_config(scenario.profile)
                    .mtu(MTU)
                    .path_mtu_discovery(false)
                    .outbound_streams(STREAMS),
                &own.trunk,
                &[&other.trunk],
                trunk_rng,
            ),
        }
    }

    /// Requests that are being forwarded.
    pub(super) fn under_way(&self) -> usize {
        self.proxy.statistics().response_contexts as usize
    }

    pub(super) fn handle_datagram(&mut self, now: Instant, datagram: Datagram<Packet>) {
        match datagram.payload {
            Packet::Udp { .. } => {
                if let Some((flow, message)) = udp_message(&datagram) {
                    self.proxy.handle_message(now, flow, message);
                }
            }
            Packet::Sctp(_) | Packet::Tcp(_) => self.trunk.handle_datagram(now, datagram),
        }
        self.settle(now);
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.trunk.handle_timeout(now);
        if self.proxy.next_timeout().is_some_and(|due| due <= now) {
            self.proxy.handle_timeout(now);
        }
        self.settle(now);
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.proxy
            .next_timeout()
            .into_iter()
            .chain(self.trunk.next_timeout())
            .min()
    }

    pub(super) fn poll_transmit(&mut self, now: Instant) -> Option<Datagram<Packet>> {
        while let Some(transmit) = self.proxy.poll_transmit() {
            if transmit.target.transport() == Transport::Udp {
                let to = remote(&transmit.target);
                return Some(udp_datagram(self.local(to.ip()), to, transmit.payload));
            }
            let stream = (transmit.call % u32::from(STREAMS)) as u16;
            let to = remote(&transmit.target).ip();
            self.trunk.send(now, to, stream, transmit.payload);
        }
        self.trunk.poll_transmit(now)
    }

    fn settle(&mut self, now: Instant) {
        while let Some((flow, payload)) = self.trunk.next_message() {
            if let Ok(message) = Message::read(payload) {
                self.proxy.handle_message(now, flow, message);
            }
        }
        while let Some((id, query)) = self.proxy.poll_query() {
            let answer = self.answer(query);
            self.proxy.handle_answer(now, id, answer);
        }
        while self.proxy.poll_event().is_some() {}
    }

    fn answer(&self, query: Query) -> Answer {
        match query {
            Query::Resolve(destination) => {
                let Ok(address) = destination.host.parse::<IpAddr>() else {
                    return Answer::NextHops(Vec::new());
                };
                Answer::NextHops(vec![NextHop {
                    transport: destination.transport_or_default(),
                    remote: SocketAddr::new(address, destination.port_or_default()),
                    local: self.local(address),
                    peer: None,
                }])
            }
            // Nobody is registered.
            Query::Lookup(_) | Query::Update(..) => Answer::Unknown,
            Query::Credentials { .. } => Answer::Credentials(None),
            Query::Page { .. } => Answer::Page(Page::default()),
            Query::Http(_) | Query::Redis(_) => Answer::Failed,
        }
    }

    /// Our address towards another.
    fn local(&self, remote: IpAddr) -> SocketAddr {
        if remote == self.own.user.ip() {
            self.own.proxy
        } else {
            self.own.trunk_listener()
        }
    }
}
