//! What runs on a host of the simulation: a proxy or a phone.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use bytes::Bytes;
use sim::Datagram;
use sip::{ConnectionId, Flow, Message, Transmit, Transport};

use crate::world::phone::Phone;
use crate::world::server::Server;

/// Bytes of the headers of IPv4 and UDP.
const HEADERS: usize = 28;

/// The contents of an IP packet.
#[derive(Clone, Debug)]
pub(crate) enum Packet {
    Udp {
        source_port: u16,
        destination_port: u16,
        payload: Bytes,
    },
    /// From the common header on.
    Sctp(Bytes),
}

/// A host.
pub(crate) enum Host {
    Phone(Box<Phone>),
    Server(Box<Server>),
}

impl Host {
    pub(crate) fn phone(&self) -> Option<&Phone> {
        match self {
            Host::Phone(phone) => Some(phone),
            Host::Server(_) => None,
        }
    }

    pub(crate) fn server(&self) -> Option<&Server> {
        match self {
            Host::Server(server) => Some(server),
            Host::Phone(_) => None,
        }
    }

    fn address(&self) -> SocketAddr {
        match self {
            Host::Phone(phone) => phone.address(),
            Host::Server(server) => server.address(),
        }
    }
}

impl sim::Host for Host {
    type Payload = Packet;

    fn handle_datagram(&mut self, now: Instant, datagram: Datagram<Packet>) {
        let local = self.address();
        let Packet::Udp {
            source_port,
            destination_port,
            payload,
        } = &datagram.payload
        else {
            if let Host::Server(server) = self {
                server.handle_packet(now, datagram);
            }
            return;
        };
        assert_eq!(*destination_port, local.port());
        let flow = Flow {
            transport: Transport::Udp,
            local,
            remote: SocketAddr::new(datagram.source, *source_port),
            connection: ConnectionId(0),
            stream: 0,
        };
        let message = Message::read(payload.clone()).expect("what is sent can be read");
        match self {
            Host::Phone(phone) => phone.handle_message(now, flow, message),
            Host::Server(server) => server.handle_message(now, flow, message),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        match self {
            Host::Phone(phone) => phone.handle_timeout(now),
            Host::Server(server) => server.handle_timeout(now),
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        match self {
            Host::Phone(phone) => phone.next_timeout(),
            Host::Server(server) => server.next_timeout(),
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram<Packet>> {
        match self {
            Host::Phone(phone) => Some(udp_datagram(phone.address(), phone.poll_transmit()?)),
            Host::Server(server) => server.poll_transmit(now),
        }
    }
}

/// The datagram that carries a message over UDP.
pub(crate) fn udp_datagram(local: SocketAddr, transmit: Transmit) -> Datagram<Packet> {
    assert_eq!(transmit.target.transport(), Transport::Udp);
    let remote = transmit.target.remote();
    Datagram {
        source: local.ip(),
        destination: remote.ip(),
        bytes: HEADERS + transmit.payload.len(),
        may_fragment: true,
        payload: Packet::Udp {
            source_port: local.port(),
            destination_port: remote.port(),
            payload: transmit.payload,
        },
    }
}

/// An address of a documentation network (RFC 5737).
pub(crate) fn ip(network: u8, host: u8) -> IpAddr {
    match network {
        0 => [192, 0, 2, host].into(),
        1 => [198, 51, 100, host].into(),
        _ => [203, 0, 113, host].into(),
    }
}
