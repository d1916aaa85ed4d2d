//! SIP on a simulated host, to and from any number of hosts: over UDP, over TCP, or over one association with each of
//! them.

pub(crate) mod contents;
pub(crate) mod packet;
mod sctp;
mod tcp;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use ::sctp::EndpointConfig;
use bytes::Bytes;
use rand::{Rng, RngExt};
use rand_chacha::ChaCha12Rng;
use sim::Datagram;
use sip::{ConnectionId, Flow, Transport};

use packet::{Packet, udp_datagram};
use sctp::Sctp;
use tcp::Tcp;

/// Where hosts send from and listen.
pub(crate) const SIP_PORT: u16 = 5060;

/// Sockets of a host, for one transport.
pub(crate) struct SipCarrier {
    transport: Transport,
    local: SocketAddr,
    /// The addresses of each peer, the first being the one that it is known by.
    peers: Vec<Vec<IpAddr>>,
    layer: Layer,
    /// Messages that have come.
    messages: VecDeque<(Flow, Bytes)>,
}

enum Layer {
    Udp(VecDeque<Datagram<Packet>>),
    Sctp(Box<Sctp>),
    Tcp(Box<Tcp>),
}

impl SipCarrier {
    /// Sockets at these addresses, for what goes between them and these peers. Address `n` of a peer is on the network of
    /// our address `n`; only SCTP uses others than the first.
    pub(crate) fn new(
        start: Instant,
        transport: Transport,
        sctp: &EndpointConfig,
        addresses: &[IpAddr],
        peers: &[&[IpAddr]],
        mut rng: ChaCha12Rng,
    ) -> SipCarrier {
        let layer = match transport {
            Transport::Sctp => Layer::Sctp(Box::new(Sctp::new(
                sctp.clone(),
                addresses,
                peers,
                rng.random(),
            ))),
            Transport::Tcp => {
                Layer::Tcp(Box::new(Tcp::new(start, addresses, peers, rng.next_u64())))
            }
            _ => Layer::Udp(VecDeque::new()),
        };
        let own = addresses.first().copied();
        SipCarrier {
            transport,
            local: SocketAddr::new(own.unwrap_or(UNSPECIFIED), SIP_PORT),
            peers: peers.iter().map(|peer| peer.to_vec()).collect(),
            layer,
            messages: VecDeque::new(),
        }
    }

    /// Our address.
    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    /// The next message that has come.
    pub(crate) fn next_message(&mut self) -> Option<(Flow, Bytes)> {
        self.messages.pop_front()
    }

    /// Sends a message to a peer, on a stream if there are some. An association or connection that is not there is
    /// opened.
    pub(crate) fn send(&mut self, now: Instant, to: IpAddr, stream: u16, payload: Bytes) {
        let Some(peer) = self.peer_at(to) else {
            return;
        };
        match &mut self.layer {
            Layer::Udp(waiting) => {
                let remote = SocketAddr::new(to, SIP_PORT);
                waiting.push_back(udp_datagram(self.local, remote, payload));
            }
            Layer::Sctp(sctp) => sctp.send(now, peer, stream, payload),
            Layer::Tcp(tcp) => tcp.send(peer, &payload),
        }
        self.take(now);
    }

    pub(crate) fn handle_datagram(&mut self, now: Instant, datagram: Datagram<Packet>) {
        match (&mut self.layer, datagram.payload) {
            (Layer::Udp(_), Packet::Udp { payload, .. }) => {
                if let Some(flow) = self.flow(datagram.source, 0) {
                    self.messages.push_back((flow, payload));
                }
            }
            (Layer::Sctp(sctp), Packet::Sctp(packet)) => {
                sctp.handle_packet(now, datagram.source, datagram.destination, packet);
            }
            (Layer::Tcp(tcp), Packet::Tcp(packet)) => tcp.handle_packet(now, packet),
            _ => {}
        }
        self.take(now);
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.next_timeout().is_none_or(|due| due > now) {
            return;
        }
        match &mut self.layer {
            Layer::Udp(_) => {}
            Layer::Sctp(sctp) => sctp.handle_timeout(now),
            Layer::Tcp(tcp) => tcp.handle_timeout(now),
        }
        self.take(now);
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        match &self.layer {
            Layer::Udp(_) => None,
            Layer::Sctp(sctp) => sctp.next_timeout(),
            Layer::Tcp(tcp) => tcp.next_timeout(),
        }
    }

    pub(crate) fn poll_transmit(&mut self, now: Instant) -> Option<Datagram<Packet>> {
        match &mut self.layer {
            Layer::Udp(waiting) => waiting.pop_front(),
            Layer::Sctp(sctp) => sctp.poll_transmit(now),
            Layer::Tcp(tcp) => tcp.poll_transmit(now),
        }
    }

    /// Takes what has come out of the transport.
    fn take(&mut self, now: Instant) {
        let came = match &mut self.layer {
            Layer::Udp(_) => Vec::new(),
            Layer::Sctp(sctp) => sctp.take(now),
            Layer::Tcp(tcp) => tcp.take(),
        };
        for Received {
            peer,
            stream,
            payload,
        } in came
        {
            let first = self.peers.get(peer).and_then(|peer| peer.first());
            if let Some(flow) = first.and_then(|address| self.flow(*address, stream)) {
                self.messages.push_back((flow, payload));
            }
        }
    }

    /// The way by which something came from this address.
    fn flow(&self, remote: IpAddr, stream: u16) -> Option<Flow> {
        let peer = self.peer_at(remote)?;
        let first = self.peers.get(peer)?.first()?;
        Some(Flow {
            transport: self.transport,
            local: self.local,
            remote: SocketAddr::new(*first, SIP_PORT),
            connection: match self.transport {
                Transport::Udp => ConnectionId(0),
                _ => ConnectionId(peer as u64 + 1),
            },
            stream,
        })
    }

    fn peer_at(&self, address: IpAddr) -> Option<usize> {
        peer_at(&self.peers, address)
    }
}

/// A message that a peer has sent.
struct Received {
    peer: usize,
    stream: u16,
    payload: Bytes,
}

/// The peer that has this address.
fn peer_at(peers: &[Vec<IpAddr>], address: IpAddr) -> Option<usize> {
    peers.iter().position(|peer| peer.contains(&address))
}

/// What a host without addresses has.
const UNSPECIFIED: IpAddr = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
