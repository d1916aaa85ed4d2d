//! One association with each peer, which any of both opens.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Instant;

use bytes::Bytes;
use sctp::{
    AssociationId, Connect, Endpoint, EndpointConfig, Event, PathAddress, SendInfo, Transmit,
};
use sim::Datagram;

use super::packet::Packet;
use super::{Received, SIP_PORT};

pub(super) struct Sctp {
    endpoint: Endpoint,
    addresses: Vec<IpAddr>,
    peers: Vec<Peer>,
}

struct Peer {
    addresses: Vec<IpAddr>,
    association: Option<AssociationId>,
    /// Messages for which there is no association yet, or no room.
    waiting: VecDeque<(u16, Bytes)>,
}

impl Sctp {
    pub(super) fn new(
        config: EndpointConfig,
        addresses: &[IpAddr],
        peers: &[&[IpAddr]],
        seed: [u8; 32],
    ) -> Sctp {
        let mut endpoint = Endpoint::new(SIP_PORT, config, seed);
        endpoint.set_local_addresses(addresses.to_vec());
        let peer = |addresses: &&[IpAddr]| Peer {
            addresses: addresses.to_vec(),
            association: None,
            waiting: VecDeque::new(),
        };
        Sctp {
            endpoint,
            addresses: addresses.to_vec(),
            peers: peers.iter().map(peer).collect(),
        }
    }

    pub(super) fn send(&mut self, now: Instant, peer: usize, stream: u16, payload: Bytes) {
        let Some(peer) = self.peers.get_mut(peer) else {
            return;
        };
        peer.waiting.push_back((stream, payload));
        if peer.association.is_none() {
            let path = |remote: &IpAddr| PathAddress {
                local: None,
                remote: *remote,
                encapsulation_port: None,
            };
            let connect = Connect {
                peer: peer.addresses.iter().map(path).collect(),
                port: SIP_PORT,
                config: None,
            };
            peer.association = self.endpoint.connect_with(now, connect).ok();
        }
        peer.send_waiting(now, &mut self.endpoint);
    }

    pub(super) fn handle_packet(
        &mut self,
        now: Instant,
        source: IpAddr,
        destination: IpAddr,
        packet: Bytes,
    ) {
        let from = PathAddress {
            local: Some(destination),
            remote: source,
            encapsulation_port: None,
        };
        self.endpoint.handle_packet(now, from, packet);
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.endpoint.handle_timeout(now);
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.endpoint.next_timeout()
    }

    pub(super) fn poll_transmit(&mut self, now: Instant) -> Option<Datagram<Packet>> {
        let Transmit {
            path,
            packet,
            may_fragment,
        } = self.endpoint.poll_transmit(now)?;
        Some(Datagram {
            source: path.local.or_else(|| self.own_towards(path.remote))?,
            destination: path.remote,
            bytes: 20 + packet.len(),
            may_fragment,
            payload: Packet::Sctp(packet),
        })
    }

    /// Takes what has come, from each peer in turn.
    pub(super) fn take(&mut self, now: Instant) -> Vec<Received> {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::CommunicationUp { id, peer, .. } => {
                    let mut peers = self.peers.iter_mut();
                    let peer = peers.find(|one| one.addresses.contains(&peer.remote));
                    if let Some(peer) = peer {
                        peer.association = Some(id);
                    }
                }
                Event::CommunicationLost { id, .. } | Event::CannotStart { id, .. } => {
                    let mut peers = self.peers.iter_mut();
                    if let Some(peer) = peers.find(|peer| peer.association == Some(id)) {
                        peer.association = None;
                    }
                }
                _ => {}
            }
        }
        let mut came = Vec::new();
        for (number, peer) in self.peers.iter_mut().enumerate() {
            let Some(id) = peer.association else {
                continue;
            };
            while let Some(message) = self.endpoint.receive(now, id) {
                came.push(Received {
                    peer: number,
                    stream: message.stream,
                    payload: message.payload,
                });
            }
            peer.send_waiting(now, &mut self.endpoint);
        }
        came
    }

    /// Our address on the network of a peer's.
    fn own_towards(&self, remote: IpAddr) -> Option<IpAddr> {
        let networks = self.peers.iter().filter_map(|peer| {
            let mut addresses = peer.addresses.iter();
            addresses.position(|address| *address == remote)
        });
        networks
            .filter_map(|network| self.addresses.get(network))
            .next()
            .copied()
    }
}

impl Peer {
    /// Messages may go with the COOKIE ECHO (RFC 9260 section 5.1): the engine takes them before the association is up.
    fn send_waiting(&mut self, now: Instant, endpoint: &mut Endpoint) {
        let Some(id) = self.association else {
            return;
        };
        while let Some((stream, payload)) = self.waiting.front() {
            let info = SendInfo {
                stream: *stream,
                ..SendInfo::default()
            };
            if endpoint.send(now, id, info, payload.clone()).is_err() {
                return;
            }
            self.waiting.pop_front();
        }
    }
}
