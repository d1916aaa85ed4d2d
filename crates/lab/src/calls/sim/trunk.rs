//! What carries SIP between the proxies when it is not UDP: one multi-homed association with many
//! streams, or a TCP connection.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use rand::{Rng, RngExt};
use rand_chacha::ChaCha12Rng;
use sctp::{
    AssociationId, Connect, Endpoint, EndpointConfig, Event, PathAddress, SendInfo,
    Transmit as SctpTransmit,
};
use sim::Datagram;
use sim_transport::{TcpConfig, TcpEvent, TcpId, TcpStack};
use sip::{ConnectionId, Flow, Frame, Message, StreamReader, Transmit, Transport};

use super::SiteAddresses;
use super::packet::Packet;
use crate::calls::SIP_PORT;
use crate::pair::MTU;

/// Streams of the association: calls are spread over them.
const STREAMS: u16 = 64;

pub(super) struct Trunk {
    local: SocketAddr,
    remote: SocketAddr,
    carrier: Carrier,
    /// Messages that have come.
    messages: VecDeque<(Flow, Message)>,
}

enum Carrier {
    Udp,
    Sctp(Box<Sctp>),
    Tcp(Box<Tcp>),
}

struct Sctp {
    endpoint: Endpoint,
    peer: [IpAddr; 2],
    association: Option<AssociationId>,
    is_up: bool,
    waiting: VecDeque<Transmit>,
}

struct Tcp {
    stack: TcpStack,
    /// The connection that messages go over when they name none: ours, or the peer's.
    current: Option<TcpId>,
    connections: BTreeMap<TcpId, Connection>,
}

#[derive(Default)]
struct Connection {
    is_up: bool,
    reader: StreamReader,
    received: BytesMut,
    to_send: VecDeque<u8>,
}

impl Trunk {
    pub(super) fn new(
        start: Instant,
        own: &SiteAddresses,
        other: &SiteAddresses,
        transport: Transport,
        mut rng: ChaCha12Rng,
    ) -> Trunk {
        let carrier = match transport {
            Transport::Sctp => {
                let config = EndpointConfig::default()
                    .mtu(MTU)
                    .path_mtu_discovery(false)
                    .outbound_streams(STREAMS);
                let mut endpoint = Endpoint::new(SIP_PORT, config, rng.random());
                endpoint.set_local_addresses(own.trunk.to_vec());
                Carrier::Sctp(Box::new(Sctp {
                    endpoint,
                    peer: other.trunk,
                    association: None,
                    is_up: false,
                    waiting: VecDeque::new(),
                }))
            }
            Transport::Tcp => {
                let mut stack = TcpStack::new(start, &own.trunk[..1], MTU, rng.next_u64());
                stack.listen(SIP_PORT, tcp_config());
                Carrier::Tcp(Box::new(Tcp {
                    stack,
                    current: None,
                    connections: BTreeMap::new(),
                }))
            }
            _ => Carrier::Udp,
        };
        Trunk {
            local: own.trunk_listener(),
            remote: other.trunk_listener(),
            carrier,
            messages: VecDeque::new(),
        }
    }

    /// The next message that has come.
    pub(super) fn next_message(&mut self) -> Option<(Flow, Message)> {
        self.messages.pop_front()
    }

    pub(super) fn send(&mut self, now: Instant, transmit: Transmit) {
        match &mut self.carrier {
            Carrier::Udp => {}
            Carrier::Sctp(sctp) => {
                sctp.waiting.push_back(transmit);
                sctp.open(now);
                sctp.send_waiting(now);
            }
            Carrier::Tcp(tcp) => tcp.send(self.local.ip(), self.remote, &transmit.payload),
        }
        self.take(now);
    }

    pub(super) fn handle_datagram(&mut self, now: Instant, datagram: Datagram<Packet>) {
        match (&mut self.carrier, datagram.payload) {
            (Carrier::Sctp(sctp), Packet::Sctp(packet)) => {
                let from = PathAddress {
                    local: Some(datagram.destination),
                    remote: datagram.source,
                    encapsulation_port: None,
                };
                sctp.endpoint.handle_packet(now, from, packet);
            }
            (Carrier::Tcp(tcp), Packet::Tcp(packet)) => tcp.stack.handle_packet(now, packet),
            _ => {}
        }
        self.take(now);
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.next_timeout().is_none_or(|due| due > now) {
            return;
        }
        match &mut self.carrier {
            Carrier::Udp => {}
            Carrier::Sctp(sctp) => sctp.endpoint.handle_timeout(now),
            Carrier::Tcp(tcp) => tcp.stack.handle_timeout(now),
        }
        self.take(now);
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        match &self.carrier {
            Carrier::Udp => None,
            Carrier::Sctp(sctp) => sctp.endpoint.next_timeout(),
            Carrier::Tcp(tcp) => tcp.stack.next_timeout(),
        }
    }

    pub(super) fn poll_transmit(&mut self, now: Instant) -> Option<Datagram<Packet>> {
        match &mut self.carrier {
            Carrier::Udp => None,
            Carrier::Sctp(sctp) => {
                let SctpTransmit {
                    path,
                    packet,
                    may_fragment,
                } = sctp.endpoint.poll_transmit(now)?;
                // The address on the network of the peer's.
                let own = path.local.unwrap_or(match path.remote == sctp.peer[1] {
                    false => self.local.ip(),
                    true => second(self.local.ip()),
                });
                Some(Datagram {
                    source: own,
                    destination: path.remote,
                    bytes: 20 + packet.len(),
                    may_fragment,
                    payload: Packet::Sctp(packet),
                })
            }
            Carrier::Tcp(tcp) => {
                let packet = tcp.stack.poll_transmit(now)?;
                // Both ends have one address each for TCP.
                Some(Datagram {
                    source: self.local.ip(),
                    destination: self.remote.ip(),
                    bytes: packet.len(),
                    may_fragment: false,
                    payload: Packet::Tcp(packet),
                })
            }
        }
    }

    /// Takes what has come out of the transport.
    fn take(&mut self, now: Instant) {
        let flow = |transport, connection, stream| Flow {
            transport,
            local: self.local,
            remote: self.remote,
            connection: ConnectionId(connection),
            stream,
        };
        match &mut self.carrier {
            Carrier::Udp => {}
            Carrier::Sctp(sctp) => {
                for (stream, payload) in sctp.take(now) {
                    if let Ok(message) = Message::read(payload) {
                        self.messages
                            .push_back((flow(Transport::Sctp, 1, stream), message));
                    }
                }
            }
            Carrier::Tcp(tcp) => {
                for payload in tcp.take() {
                    if let Ok(message) = Message::read(payload) {
                        self.messages
                            .push_back((flow(Transport::Tcp, 1, 0), message));
                    }
                }
            }
        }
    }
}

/// The address of the same host on the second network.
fn second(first: IpAddr) -> IpAddr {
    match first {
        IpAddr::V4(address) => {
            let [a, _, c, d] = address.octets();
            IpAddr::from([a, 2, c, d])
        }
        IpAddr::V6(_) => first,
    }
}

impl Sctp {
    fn open(&mut self, now: Instant) {
        if self.association.is_some() {
            return;
        }
        let path = |remote| PathAddress {
            local: None,
            remote,
            encapsulation_port: None,
        };
        let connect = Connect {
            peer: self.peer.map(path).to_vec(),
            port: SIP_PORT,
            config: None,
        };
        self.association = self.endpoint.connect_with(now, connect).ok();
    }

    fn send_waiting(&mut self, now: Instant) {
        let Some(id) = self.association.filter(|_| self.is_up) else {
            return;
        };
        while let Some(transmit) = self.waiting.front() {
            let info = SendInfo {
                stream: (transmit.call % u32::from(STREAMS)) as u16,
                ..SendInfo::default()
            };
            if self
                .endpoint
                .send(now, id, info, transmit.payload.clone())
                .is_err()
            {
                return;
            }
            self.waiting.pop_front();
        }
    }

    fn take(&mut self, now: Instant) -> Vec<(u16, Bytes)> {
        let mut came = Vec::new();
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::CommunicationUp { id, .. } => {
                    self.association = Some(id);
                    self.is_up = true;
                }
                Event::CommunicationLost { .. } | Event::CannotStart { .. } => {
                    self.association = None;
                    self.is_up = false;
                }
                _ => {}
            }
        }
        if let Some(id) = self.association {
            while let Some(message) = self.endpoint.receive(now, id) {
                came.push((message.stream, message.payload));
            }
        }
        self.send_waiting(now);
        came
    }
}

impl Tcp {
    fn send(&mut self, local: IpAddr, remote: SocketAddr, payload: &[u8]) {
        let id = match self.current {
            Some(id) => id,
            None => {
                let id = self.stack.connect(local, remote, tcp_config());
                self.connections.insert(id, Connection::default());
                self.current = Some(id);
                id
            }
        };
        let connection = self.connections.entry(id).or_default();
        connection.to_send.extend(payload);
        self.push(id);
    }

    fn push(&mut self, id: TcpId) {
        if let Some(connection) = self
            .connections
            .get_mut(&id)
            .filter(|connection| connection.is_up)
        {
            let sent = self.stack.send(id, connection.to_send.make_contiguous());
            connection.to_send.drain(..sent);
        }
    }

    fn take(&mut self) -> Vec<Bytes> {
        while let Some(event) = self.stack.poll_event() {
            match event {
                TcpEvent::Accepted { id, .. } | TcpEvent::Connected(id) => {
                    self.connections.entry(id).or_default().is_up = true;
                    // The peer has none that is older, or it would not have opened this one.
                    self.current = Some(id);
                }
                TcpEvent::Closed(id) => {
                    self.connections.remove(&id);
                    if self.current == Some(id) {
                        self.current = None;
                    }
                }
            }
        }
        let mut came = Vec::new();
        for (id, connection) in &mut self.connections {
            connection
                .received
                .extend_from_slice(&self.stack.receive(*id));
            while let Ok(Some(frame)) = connection.reader.next(&mut connection.received) {
                if let Frame::Message(message) = frame {
                    came.push(message);
                }
            }
        }
        let ids: Vec<TcpId> = self.connections.keys().copied().collect();
        for id in ids {
            self.push(id);
        }
        came
    }
}

fn tcp_config() -> TcpConfig {
    TcpConfig {
        receive_window: 1 << 18,
        send_buffer: 1 << 18,
        ..TcpConfig::default()
    }
}
