//! A simulated host: an engine behind several addresses, raw or in UDP, and a user who sends what
//! he is given and notes all that comes.

use crate::engines::request::Request;
use crate::engines::world::SctpPacket;
use bytes::Bytes;
use rand::RngExt;
use rand_chacha::ChaCha12Rng;
use sctp::{
    AssociationId, AssociationState, AssociationStatus, Connect, Endpoint, EndpointConfig, Event,
    IcmpError, IcmpKind, LocalAddressState, PathAddress, ReceivedMessage, SendError, SendInfo,
    Transmit,
};
use sim::{Datagram, Host};
use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Instant;
use tap::UdpPorts;

/// One message that a user sends.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) info: SendInfo,
    pub(crate) payload: Bytes,
}

/// What the user of a host has seen and done, in order.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Entry {
    /// What the engine told, but for when it is ready to send or to receive.
    Event(Event),
    /// The engine took a message, known by its PPID.
    Sent(AssociationId, u32),
    /// The engine handed out a message.
    Received(AssociationId, ReceivedMessage),
    /// The user asked for something, and it was taken or refused.
    Asked(Request, Result<(), String>),
    /// The host died, and lives again without memory of anything.
    Restarted,
}

/// Where a host is.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// One address on each of its networks, those of which its engine knows at first.
    pub(crate) addresses: Vec<IpAddr>,
    /// The UDP port of its SCTP packets; `None` sends them right over IP.
    pub(crate) udp_port: Option<u16>,
    pub(crate) sctp_port: u16,
}

pub(crate) struct EngineHost {
    place: Place,
    config: EndpointConfig,
    endpoint: Endpoint,
    /// What the user speaks over: the last association that it opened, or that came up.
    association: Option<AssociationId>,
    /// All of this life, for what was not read yet when they ended.
    associations: BTreeSet<AssociationId>,
    outbox: VecDeque<Message>,
    is_blocked: bool,
    is_reading: bool,
    log: Vec<(Instant, Entry)>,
}

impl EngineHost {
    pub(crate) fn new(place: Place, config: EndpointConfig, rng: ChaCha12Rng) -> EngineHost {
        EngineHost {
            endpoint: engine(&place, &config, rng),
            place,
            config,
            association: None,
            associations: BTreeSet::new(),
            outbox: VecDeque::new(),
            is_blocked: false,
            is_reading: true,
            log: Vec::new(),
        }
    }

    /// Opens an association with the first `addresses` addresses of a place.
    pub(crate) fn connect(&mut self, now: Instant, to: &Place, addresses: usize) {
        let peer = to.addresses.iter().take(addresses);
        let connect = Connect {
            peer: peer
                .map(|&remote| PathAddress {
                    local: None,
                    remote,
                    encapsulation_port: to.udp_port,
                })
                .collect(),
            port: to.sctp_port,
            config: None,
        };
        // An association that the peer opened a moment ago does as well.
        if let Ok(id) = self.endpoint.connect_with(now, connect) {
            self.association = Some(id);
            self.associations.insert(id);
        }
        self.act(now);
    }

    /// Gives the user a message to send, as soon as there is an association and room.
    pub(crate) fn send(&mut self, now: Instant, message: Message) {
        self.outbox.push_back(message);
        self.act(now);
    }

    pub(crate) fn shutdown(&mut self, now: Instant) {
        if let Some(id) = self.association {
            // It may have ended already; the log tells how.
            let _ = self.endpoint.shutdown(now, id);
            self.act(now);
        }
    }

    pub(crate) fn abort(&mut self, now: Instant) {
        // What came on one that has ended is still to be read.
        let is_up = |status: AssociationStatus| status.state != AssociationState::Closed;
        if let Some(id) = self.association
            && self.status().is_some_and(is_up)
        {
            // An abort throws away what the user has not read.
            let _ = self.endpoint.abort(now, id, b"enough");
            self.act(now);
        }
    }

    /// The user asks for something, of the association if there is one.
    pub(crate) fn ask(&mut self, now: Instant, request: Request) {
        let answer = request.make(&mut self.endpoint, now, self.association);
        self.log.push((now, Entry::Asked(request, answer)));
        self.act(now);
    }

    /// The user stops taking messages, or takes them again.
    pub(crate) fn set_reading(&mut self, now: Instant, reading: bool) {
        self.is_reading = reading;
        self.act(now);
    }

    /// The host dies, and lives again: nothing is left of the engine and of what was to be sent.
    pub(crate) fn restart(&mut self, now: Instant, rng: ChaCha12Rng) {
        self.endpoint = engine(&self.place, &self.config, rng);
        self.association = None;
        self.associations.clear();
        self.outbox.clear();
        self.is_blocked = false;
        self.log.push((now, Entry::Restarted));
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The state of the association, while the engine knows of it.
    pub(crate) fn status(&self) -> Option<AssociationStatus> {
        self.endpoint.status(self.association?)
    }

    /// Our addresses in the association, and where each stands.
    pub(crate) fn local_addresses(&self) -> Vec<(IpAddr, LocalAddressState)> {
        let addresses = self
            .association
            .and_then(|id| self.endpoint.local_addresses(id));
        addresses.unwrap_or_default()
    }

    pub(crate) fn log(&self) -> &[(Instant, Entry)] {
        &self.log
    }

    pub(crate) fn events(&self) -> impl Iterator<Item = (Instant, &Event)> {
        self.log.iter().filter_map(|(time, entry)| match entry {
            Entry::Event(event) => Some((*time, event)),
            _ => None,
        })
    }

    pub(crate) fn received(&self) -> impl Iterator<Item = (Instant, &ReceivedMessage)> {
        self.log.iter().filter_map(|(time, entry)| match entry {
            Entry::Received(_, message) => Some((*time, message)),
            _ => None,
        })
    }

    /// What the user does whenever something has happened.
    pub(crate) fn act(&mut self, now: Instant) {
        loop {
            let entries = self.log.len();
            self.take_events(now);
            self.send_messages(now);
            if self.is_reading {
                self.receive(now);
            }
            if self.log.len() == entries {
                return;
            }
        }
    }

    fn take_events(&mut self, now: Instant) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Readable { .. } => {}
                Event::Writable { .. } => self.is_blocked = false,
                event => {
                    if let Event::CommunicationUp { id, .. } = event {
                        self.association = Some(id);
                        self.associations.insert(id);
                        self.is_blocked = false;
                    }
                    self.log.push((now, Entry::Event(event)));
                }
            }
        }
    }

    fn send_messages(&mut self, now: Instant) {
        let Some(id) = self.association else {
            return;
        };
        while !self.is_blocked
            && let Some(message) = self.outbox.front()
        {
            let Message { info, payload } = message.clone();
            match self.endpoint.send(now, id, info, payload) {
                Ok(()) => self.log.push((now, Entry::Sent(id, info.ppid))),
                Err(SendError::BufferFull) => {
                    self.is_blocked = true;
                    return;
                }
                // The association ends, or has no such stream.
                Err(_) => {}
            }
            self.outbox.pop_front();
        }
    }

    fn receive(&mut self, now: Instant) {
        for &id in &self.associations {
            while let Some(message) = self.endpoint.receive(now, id) {
                self.log.push((now, Entry::Received(id, message)));
            }
        }
    }

    /// The address that the host's routing chooses for what the engine leaves open: the one on the
    /// network of the peer's.
    fn source(&self, remote: IpAddr) -> IpAddr {
        let mut addresses = self.place.addresses.iter().copied();
        let on_network = addresses.find(|&address| network(address) == network(remote));
        on_network.unwrap_or(self.place.addresses[0])
    }
}

impl Host for EngineHost {
    type Payload = SctpPacket;

    fn handle_datagram(&mut self, now: Instant, datagram: Datagram<SctpPacket>) {
        let SctpPacket { udp, packet } = datagram.payload;
        if udp.map(|ports| ports.destination) != self.place.udp_port {
            return;
        }
        let from = PathAddress {
            local: Some(datagram.destination),
            remote: datagram.source,
            encapsulation_port: udp.map(|ports| ports.source),
        };
        self.endpoint.handle_packet(now, from, packet);
        self.act(now);
    }

    fn handle_too_big(&mut self, now: Instant, datagram: Datagram<SctpPacket>, mtu: usize) {
        let SctpPacket { udp, packet } = datagram.payload;
        let error = IcmpError {
            path: PathAddress {
                local: Some(datagram.source),
                remote: datagram.destination,
                encapsulation_port: udp.map(|ports| ports.destination),
            },
            kind: IcmpKind::PacketTooBig { mtu },
            // As much as an old router quotes: eight bytes behind the IP header.
            quoted: packet.slice(..packet.len().min(8)),
        };
        self.endpoint.handle_icmp(now, error);
        self.act(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.endpoint.handle_timeout(now);
        self.act(now);
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.endpoint.next_timeout()
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram<SctpPacket>> {
        let Transmit {
            path,
            packet,
            may_fragment,
        } = self.endpoint.poll_transmit(now)?;
        let udp = self.place.udp_port.zip(path.encapsulation_port);
        let udp = udp.map(|(source, destination)| UdpPorts {
            source,
            destination,
        });
        let headers = if path.remote.is_ipv4() { 20 } else { 40 } + udp.map_or(0, |_| 8);
        Some(Datagram {
            source: path.local.unwrap_or_else(|| self.source(path.remote)),
            destination: path.remote,
            bytes: headers + packet.len(),
            may_fragment,
            payload: SctpPacket { udp, packet },
        })
    }
}

fn engine(place: &Place, config: &EndpointConfig, mut rng: ChaCha12Rng) -> Endpoint {
    let mut endpoint = Endpoint::new(place.sctp_port, config.clone(), rng.random());
    endpoint.set_local_addresses(place.addresses.clone());
    endpoint
}

/// The part of an address that all addresses of a network have in common.
fn network(address: IpAddr) -> [u8; 4] {
    match address {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            [4, first, second, 0]
        }
        IpAddr::V6(address) => {
            let [.., third, fourth] = address
                .octets()
                .first_chunk::<4>()
                .copied()
                .unwrap_or_default();
            [6, third, fourth, 0]
        }
    }
}
