//! One connection with each peer at a time, which any of both opens.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use sim::Datagram;
use sim_transport::{TcpConfig, TcpEvent, TcpId, TcpStack};
use sip::{Frame, StreamReader};

use super::packet::Packet;
use super::{Received, SIP_PORT, UNSPECIFIED};
use crate::pair::MTU;

pub(super) struct Tcp {
    stack: TcpStack,
    local: IpAddr,
    peers: Vec<Peer>,
    connections: BTreeMap<TcpId, Connection>,
}

struct Peer {
    address: IpAddr,
    /// The connection that messages go over: ours, or the peer's.
    current: Option<TcpId>,
}

struct Connection {
    peer: usize,
    is_up: bool,
    reader: StreamReader,
    received: BytesMut,
    to_send: VecDeque<u8>,
}

impl Tcp {
    pub(super) fn new(start: Instant, addresses: &[IpAddr], peers: &[&[IpAddr]], seed: u64) -> Tcp {
        let own = addresses.get(..1).unwrap_or_default();
        let mut stack = TcpStack::new(start, own, MTU, seed);
        stack.listen(SIP_PORT, config());
        let peer = |address: &IpAddr| Peer {
            address: *address,
            current: None,
        };
        Tcp {
            stack,
            local: own.first().copied().unwrap_or(UNSPECIFIED),
            peers: peers
                .iter()
                .filter_map(|addresses| addresses.first().map(peer))
                .collect(),
            connections: BTreeMap::new(),
        }
    }

    pub(super) fn send(&mut self, peer: usize, payload: &[u8]) {
        let Some(to) = self.peers.get_mut(peer) else {
            return;
        };
        let id = *to.current.get_or_insert_with(|| {
            let remote = SocketAddr::new(to.address, SIP_PORT);
            self.stack.connect(self.local, remote, config())
        });
        let connection = self
            .connections
            .entry(id)
            .or_insert_with(|| Connection::with(peer));
        connection.to_send.extend(payload);
        connection.push(id, &mut self.stack);
    }

    pub(super) fn handle_packet(&mut self, now: Instant, packet: Bytes) {
        self.stack.handle_packet(now, packet);
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.stack.handle_timeout(now);
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.stack.next_timeout()
    }

    pub(super) fn poll_transmit(&mut self, now: Instant) -> Option<Datagram<Packet>> {
        let packet = self.stack.poll_transmit(now)?;
        Some(Datagram {
            source: self.local,
            destination: destination(&packet)?,
            bytes: packet.len(),
            may_fragment: false,
            payload: Packet::Tcp(packet),
        })
    }

    /// Takes what has come, from one connection after the other.
    pub(super) fn take(&mut self) -> Vec<Received> {
        while let Some(event) = self.stack.poll_event() {
            match event {
                TcpEvent::Accepted { id, remote, .. } => {
                    let mut peers = self.peers.iter();
                    let peer = peers.position(|peer| peer.address == remote.ip());
                    if let Some(peer) = peer {
                        self.connections.insert(id, Connection::with(peer));
                        self.use_from_now_on(id);
                    }
                }
                TcpEvent::Connected(id) => self.use_from_now_on(id),
                TcpEvent::Closed(id) => {
                    self.connections.remove(&id);
                    for peer in &mut self.peers {
                        peer.current.take_if(|current| *current == id);
                    }
                }
            }
        }
        let mut came = Vec::new();
        for (id, connection) in &mut self.connections {
            let received = self.stack.receive(*id);
            connection.received.extend_from_slice(&received);
            while let Ok(Some(frame)) = connection.reader.next(&mut connection.received) {
                if let Frame::Message(payload) = frame {
                    came.push(Received {
                        peer: connection.peer,
                        stream: 0,
                        payload,
                    });
                }
            }
            connection.push(*id, &mut self.stack);
        }
        came
    }

    /// The connection is up. The peer has none that is older, or it would not have opened this one.
    fn use_from_now_on(&mut self, id: TcpId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.is_up = true;
            if let Some(peer) = self.peers.get_mut(connection.peer) {
                peer.current = Some(id);
            }
        }
    }
}

impl Connection {
    fn with(peer: usize) -> Connection {
        Connection {
            peer,
            is_up: false,
            reader: StreamReader::default(),
            received: BytesMut::new(),
            to_send: VecDeque::new(),
        }
    }

    fn push(&mut self, id: TcpId, stack: &mut TcpStack) {
        if self.is_up {
            let sent = stack.send(id, self.to_send.make_contiguous());
            self.to_send.drain(..sent);
        }
    }
}

/// Where an IPv4 packet goes.
fn destination(packet: &[u8]) -> Option<IpAddr> {
    let address: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
    Some(address.into())
}

fn config() -> TcpConfig {
    TcpConfig {
        receive_window: 1 << 18,
        send_buffer: 1 << 18,
        ..TcpConfig::default()
    }
}
