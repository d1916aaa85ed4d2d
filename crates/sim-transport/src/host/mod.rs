//! A simulated host: SCTP endpoints and a TCP behind the same addresses, and their users.

mod flow;

use crate::carry::{path_of, sctp_datagram};
use crate::delivery::Delivery;
use crate::message;
use crate::packet::tcp_datagram;
use crate::{Load, Message, Packet, TcpConfig, TcpEvent, TcpStack};
use bytes::Bytes;
use flow::{Carrier, Flow};
use rand::Rng;
use rand_chacha::ChaCha12Rng;
use sctp::{
    AssociationId, AssociationStatus, Connect, ConnectError, Endpoint, EndpointConfig, Event,
    IcmpError, IcmpKind, PathAddress, SendError, SendInfo,
};
use sim::{Datagram, Host};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

/// Names an association or connection of one host, in the order in which they were begun.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct FlowId(usize);

/// How a flow is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowState {
    /// Whether it can carry messages.
    pub is_up: bool,
    /// Whether it has ended, in whatever way.
    pub is_over: bool,
    /// When it came up.
    pub up_at: Option<Instant>,
    /// Whether the peer has begun it.
    pub is_incoming: bool,
    /// Messages that the transport has taken.
    pub sent: u64,
    /// Messages that wait for the transport to take them.
    pub waiting: usize,
    /// Whether the load has come to its end and the transport has taken all of it.
    pub is_idle: bool,
    /// Messages received.
    pub received: u64,
}

/// A host with users who send what their [`Load`] says and read at once whatever comes.
pub struct TransportHost {
    start: Instant,
    addresses: Vec<IpAddr>,
    rng: ChaCha12Rng,
    endpoints: BTreeMap<u16, Endpoint>,
    tcp: TcpStack,
    flows: Vec<Flow>,
    by_carrier: BTreeMap<Carrier, FlowId>,
    deliveries: Vec<Delivery>,
    events: Vec<(Instant, u16, Event)>,
    arrivals: Option<Vec<(Instant, Packet)>>,
}

impl TransportHost {
    /// A host with these addresses, one at least, on links of this MTU in bytes. `start` is where
    /// the clock of the simulation began.
    pub fn new(
        start: Instant,
        addresses: Vec<IpAddr>,
        mtu: usize,
        mut rng: ChaCha12Rng,
    ) -> TransportHost {
        TransportHost {
            start,
            tcp: TcpStack::new(start, &addresses, mtu, rng.next_u64()),
            addresses,
            rng,
            endpoints: BTreeMap::new(),
            flows: Vec::new(),
            by_carrier: BTreeMap::new(),
            deliveries: Vec::new(),
            events: Vec::new(),
            arrivals: None,
        }
    }

    /// Keeps all packets that come from now on for [`TransportHost::arrivals`].
    pub fn record_arrivals(&mut self) {
        self.arrivals.get_or_insert_default();
    }

    /// The packets that have come since [`TransportHost::record_arrivals`], in order.
    pub fn arrivals(&self) -> &[(Instant, Packet)] {
        self.arrivals.as_deref().unwrap_or_default()
    }

    /// Adds an SCTP endpoint on a port. It accepts whoever comes.
    pub fn add_sctp(&mut self, port: u16, config: EndpointConfig) {
        let mut seed = [0; 32];
        self.rng.fill_bytes(&mut seed);
        let mut endpoint = Endpoint::new(port, config, seed);
        endpoint.set_local_addresses(self.addresses.clone());
        self.endpoints.insert(port, endpoint);
    }

    /// Accepts TCP connections to a port.
    pub fn listen_tcp(&mut self, port: u16, config: TcpConfig) {
        self.tcp.listen(port, config);
    }

    /// Opens an association from the endpoint on a port of ours, which is there, to addresses of a
    /// peer, of which the first is primary.
    ///
    /// # Errors
    ///
    /// Those of [`Endpoint::connect_with`]; [`ConnectError::InvalidPort`] when there is no such
    /// endpoint.
    pub fn open_sctp(
        &mut self,
        now: Instant,
        port: u16,
        peer: &[IpAddr],
        peer_port: u16,
    ) -> Result<FlowId, ConnectError> {
        let endpoint = self.endpoints.get_mut(&port);
        let endpoint = endpoint.ok_or(ConnectError::InvalidPort)?;
        let path = |&remote| PathAddress {
            local: None,
            remote,
            encapsulation_port: None,
        };
        let connect = Connect {
            peer: peer.iter().map(path).collect(),
            port: peer_port,
            config: None,
        };
        let id = endpoint.connect_with(now, connect)?;
        Ok(self.add_flow(Carrier::Sctp(port, id), false))
    }

    /// Opens a TCP connection from our first address of the peer's kind.
    pub fn open_tcp(&mut self, remote: SocketAddr, config: TcpConfig) -> FlowId {
        let local = self.source(remote.ip());
        let id = self.tcp.connect(local, remote, config);
        self.add_flow(Carrier::Tcp(id), false)
    }

    /// Gives the user of a flow something else to send from now on. What waits goes before it.
    pub fn set_load(&mut self, now: Instant, flow: FlowId, load: Load) {
        if let Some(flow) = self.flows.get_mut(flow.0) {
            flow.set_load(now, load);
        }
        self.act(now);
    }

    /// The user of a flow sends one message, as soon as the flow is up and has room.
    pub fn send(&mut self, now: Instant, flow: FlowId, message: Message) {
        if let Some(flow) = self.flows.get_mut(flow.0) {
            flow.push(self.start, now, message);
        }
        self.act(now);
    }

    /// Ends a flow in good order: what the transport has taken is delivered first.
    pub fn close(&mut self, now: Instant, flow: FlowId) {
        match self.flows.get(flow.0).map(|flow| flow.carrier) {
            Some(Carrier::Sctp(port, id)) => {
                if let Some(endpoint) = self.endpoints.get_mut(&port) {
                    // It may have ended already.
                    let _ = endpoint.shutdown(now, id);
                }
            }
            Some(Carrier::Tcp(id)) => self.tcp.close(id),
            None => {}
        }
        self.act(now);
    }

    /// All messages that have come, in order.
    pub fn deliveries(&self) -> &[Delivery] {
        &self.deliveries
    }

    /// All flows, opened here or by a peer.
    pub fn flows(&self) -> impl Iterator<Item = FlowId> + use<> {
        (0..self.flows.len()).map(FlowId)
    }

    /// How a flow is.
    pub fn flow_state(&self, flow: FlowId) -> Option<FlowState> {
        let flow = self.flows.get(flow.0)?;
        Some(FlowState {
            is_up: flow.is_up,
            is_over: flow.is_over,
            up_at: flow.up_at,
            is_incoming: flow.is_incoming,
            sent: flow.sent(),
            waiting: flow.waiting(),
            is_idle: flow.is_idle(),
            received: flow.received,
        })
    }

    /// The state of the association of a flow; `None` when it has none (any more).
    pub fn sctp_status(&self, flow: FlowId) -> Option<AssociationStatus> {
        match self.flows.get(flow.0)?.carrier {
            Carrier::Sctp(port, id) => self.endpoints.get(&port)?.status(id),
            Carrier::Tcp(_) => None,
        }
    }

    /// The SCTP endpoint on a port.
    pub fn endpoint(&self, port: u16) -> Option<&Endpoint> {
        self.endpoints.get(&port)
    }

    /// The SCTP endpoint on a port, to be acted upon. What it wants to send goes out when the
    /// simulation runs on.
    pub fn endpoint_mut(&mut self, port: u16) -> Option<&mut Endpoint> {
        self.endpoints.get_mut(&port)
    }

    /// The association of a flow: its port and name.
    pub fn association(&self, flow: FlowId) -> Option<(u16, AssociationId)> {
        match self.flows.get(flow.0)?.carrier {
            Carrier::Sctp(port, id) => Some((port, id)),
            Carrier::Tcp(_) => None,
        }
    }

    /// The events of SCTP, with the time and the port, but for when it is ready to send or to
    /// receive.
    pub fn events(&self) -> &[(Instant, u16, Event)] {
        &self.events
    }

    fn add_flow(&mut self, carrier: Carrier, is_incoming: bool) -> FlowId {
        let id = FlowId(self.flows.len());
        self.flows.push(Flow::new(carrier, is_incoming));
        self.by_carrier.insert(carrier, id);
        id
    }

    /// What users do whenever something has happened.
    fn act(&mut self, now: Instant) {
        self.take_sctp_events(now);
        self.take_tcp_events(now);
        for index in 0..self.flows.len() {
            self.receive(now, index);
            self.flows[index].make_due(self.start, now);
            self.send_waiting(now, index);
        }
        // Reading and writing may have made room, or ended something.
        self.take_sctp_events(now);
    }

    fn take_sctp_events(&mut self, now: Instant) {
        let mut events = Vec::new();
        for (&port, endpoint) in &mut self.endpoints {
            events.extend(std::iter::from_fn(|| endpoint.poll_event()).map(|event| (port, event)));
        }
        for (port, event) in events {
            match event {
                Event::Readable { .. } => {}
                Event::Writable { id } => {
                    if let Some(flow) = self.flow_mut(Carrier::Sctp(port, id)) {
                        flow.is_blocked = false;
                    }
                }
                event => {
                    self.note_state(now, port, &event);
                    self.events.push((now, port, event));
                }
            }
        }
    }

    fn note_state(&mut self, now: Instant, port: u16, event: &Event) {
        match *event {
            Event::CommunicationUp { id, .. } => self.up(now, Carrier::Sctp(port, id)),
            Event::ShutdownComplete { id }
            | Event::CommunicationLost { id, .. }
            | Event::CannotStart { id, .. } => self.over(Carrier::Sctp(port, id)),
            _ => {}
        }
    }

    fn take_tcp_events(&mut self, now: Instant) {
        while let Some(event) = self.tcp.poll_event() {
            match event {
                TcpEvent::Accepted { id, .. } | TcpEvent::Connected(id) => {
                    self.up(now, Carrier::Tcp(id));
                }
                TcpEvent::Closed(id) => self.over(Carrier::Tcp(id)),
            }
        }
    }

    fn up(&mut self, now: Instant, carrier: Carrier) {
        let id = match self.by_carrier.get(&carrier) {
            Some(&id) => id,
            None => self.add_flow(carrier, true),
        };
        let flow = &mut self.flows[id.0];
        flow.is_up = true;
        flow.is_blocked = false;
        flow.up_at.get_or_insert(now);
    }

    fn over(&mut self, carrier: Carrier) {
        if let Some(flow) = self.flow_mut(carrier) {
            flow.is_up = false;
            flow.is_over = true;
        }
    }

    fn flow_mut(&mut self, carrier: Carrier) -> Option<&mut Flow> {
        let id = self.by_carrier.get(&carrier)?;
        self.flows.get_mut(id.0)
    }

    fn receive(&mut self, now: Instant, index: usize) {
        let flow = &mut self.flows[index];
        let mut note = |bytes, stream, stamp: message::Stamp| {
            self.deliveries.push(Delivery {
                at: now,
                sent: self.start + stamp.sent,
                flow: FlowId(index),
                stream,
                number: stamp.number,
                bytes,
            });
        };
        match flow.carrier {
            Carrier::Sctp(port, id) => {
                let Some(endpoint) = self.endpoints.get_mut(&port) else {
                    return;
                };
                while let Some(received) = endpoint.receive(now, id) {
                    flow.received += 1;
                    if let Some(stamp) = message::read(&received.payload) {
                        note(received.payload.len(), received.stream, stamp);
                    }
                }
            }
            Carrier::Tcp(id) => {
                flow.framing.push(&self.tcp.receive(id));
                while let Some((bytes, stamp)) = flow.framing.next() {
                    flow.received += 1;
                    note(bytes, 0, stamp);
                }
            }
        }
    }

    fn send_waiting(&mut self, now: Instant, index: usize) {
        let flow = &mut self.flows[index];
        if flow.is_over {
            return;
        }
        match flow.carrier {
            // An association takes messages before it is up, so that DATA goes with the COOKIE ECHO
            // (RFC 9260 section 5.1); a TCP takes none.
            Carrier::Sctp(port, id) => {
                if let Some(endpoint) = self.endpoints.get_mut(&port) {
                    send_over_sctp(endpoint, id, flow, self.start, now);
                }
            }
            Carrier::Tcp(id) => {
                while self.tcp.can_send(id) {
                    if flow.rest.is_empty() {
                        let Some(message) = flow.next(self.start, now) else {
                            return;
                        };
                        let framed = message::framed(&message.payload);
                        flow.rest.extend(framed);
                        flow.taken();
                    }
                    let sent = self.tcp.send(id, flow.rest.make_contiguous());
                    flow.rest.drain(..sent);
                    if sent == 0 {
                        return;
                    }
                }
            }
        }
    }

    /// Our address that routing chooses for a peer: the one that shares most leading bits with it.
    fn source(&self, remote: IpAddr) -> IpAddr {
        let same_kind = |address: &&IpAddr| address.is_ipv4() == remote.is_ipv4();
        let candidates = self.addresses.iter().filter(same_kind);
        // Of equal ones the first.
        let best = candidates
            .rev()
            .max_by_key(|&&address| common_bits(address, remote));
        best.or(self.addresses.first()).copied().unwrap_or(remote)
    }
}

impl Host for TransportHost {
    type Payload = Packet;

    fn handle_datagram(&mut self, now: Instant, datagram: Datagram<Packet>) {
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.push((now, datagram.payload.clone()));
        }
        let from = path_of(&datagram);
        match datagram.payload {
            Packet::Tcp(packet) => self.tcp.handle_packet(now, packet),
            Packet::Sctp(packet) => {
                if let Some(endpoint) = self.endpoints.get_mut(&destination_port(&packet)) {
                    endpoint.handle_packet(now, from, packet);
                }
            }
        }
        self.act(now);
    }

    fn handle_too_big(&mut self, now: Instant, datagram: Datagram<Packet>, mtu: usize) {
        // The TCP of these hosts never sends more than the MTU that it was given.
        let Packet::Sctp(packet) = datagram.payload else {
            return;
        };
        let error = IcmpError {
            path: PathAddress {
                local: Some(datagram.source),
                remote: datagram.destination,
                encapsulation_port: None,
            },
            kind: IcmpKind::PacketTooBig { mtu },
            // As much as an old router quotes: eight bytes behind the IP header.
            quoted: packet.slice(..packet.len().min(8)),
        };
        if let Some(endpoint) = self.endpoints.get_mut(&source_port(&packet)) {
            endpoint.handle_icmp(now, error);
        }
        self.act(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        for endpoint in self.endpoints.values_mut() {
            if endpoint.next_timeout().is_some_and(|at| at <= now) {
                endpoint.handle_timeout(now);
            }
        }
        if self.tcp.next_timeout().is_some_and(|at| at <= now) {
            self.tcp.handle_timeout(now);
        }
        self.act(now);
    }

    fn next_timeout(&self) -> Option<Instant> {
        let endpoints = self.endpoints.values().filter_map(Endpoint::next_timeout);
        let loads = self.flows.iter().filter_map(Flow::next_due);
        endpoints.chain(self.tcp.next_timeout()).chain(loads).min()
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram<Packet>> {
        let mut endpoints = self.endpoints.values_mut();
        if let Some(transmit) = endpoints.find_map(|endpoint| endpoint.poll_transmit(now)) {
            let source = |remote| self.source(remote);
            return Some(sctp_datagram(transmit, source, Packet::Sctp));
        }
        loop {
            if let Some(datagram) = tcp_datagram(self.tcp.poll_transmit(now)?) {
                return Some(datagram);
            }
        }
    }
}

fn send_over_sctp(
    endpoint: &mut Endpoint,
    id: AssociationId,
    flow: &mut Flow,
    start: Instant,
    now: Instant,
) {
    while !flow.is_blocked
        && let Some(message) = flow.next(start, now)
    {
        let info = SendInfo {
            stream: message.stream,
            unordered: message.unordered,
            ..SendInfo::default()
        };
        match endpoint.send(now, id, info, message.payload.clone()) {
            Err(SendError::BufferFull) => flow.is_blocked = true,
            // A message that can never be sent is as good as taken.
            Ok(()) | Err(_) => flow.taken(),
        }
    }
}

/// How many leading bits two addresses of one kind have in common.
fn common_bits(one: IpAddr, other: IpAddr) -> u32 {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        _ => 0,
    }
}

/// The ports of the common header (RFC 9260 section 3.1); 0 where there is none.
fn source_port(packet: &Bytes) -> u16 {
    packet
        .first_chunk()
        .map_or(0, |port| u16::from_be_bytes(*port))
}

fn destination_port(packet: &Bytes) -> u16 {
    let ports = packet.first_chunk::<4>();
    ports.map_or(0, |&[_, _, high, low]| u16::from_be_bytes([high, low]))
}
