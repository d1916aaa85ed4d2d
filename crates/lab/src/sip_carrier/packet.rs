//! What goes between hosts.

use std::net::SocketAddr;

use bytes::Bytes;
use sim::Datagram;
use sip::{ConnectionId, Flow, Message, Target, Transport};

/// The contents of a datagram of the simulation.
#[derive(Clone, Debug)]
pub(crate) enum Packet {
    Udp {
        source: u16,
        destination: u16,
        payload: Bytes,
    },
    /// From the common header on.
    Sctp(Bytes),
    /// The whole IP packet.
    Tcp(Bytes),
}

/// A SIP message in UDP, and the way that it came.
pub(crate) fn udp_message(datagram: &Datagram<Packet>) -> Option<(Flow, Message)> {
    let Packet::Udp {
        source,
        destination,
        payload,
    } = &datagram.payload
    else {
        return None;
    };
    let flow = Flow {
        transport: Transport::Udp,
        local: SocketAddr::new(datagram.destination, *destination),
        remote: SocketAddr::new(datagram.source, *source),
        connection: ConnectionId(0),
        stream: 0,
    };
    Some((flow, Message::read(payload.clone()).ok()?))
}

/// A SIP message to be sent in UDP.
pub(crate) fn udp_datagram(
    local: SocketAddr,
    remote: SocketAddr,
    payload: Bytes,
) -> Datagram<Packet> {
    Datagram {
        source: local.ip(),
        destination: remote.ip(),
        // IPv4 and UDP.
        bytes: 28 + payload.len(),
        may_fragment: true,
        payload: Packet::Udp {
            source: local.port(),
            destination: remote.port(),
            payload,
        },
    }
}

/// Where a message goes.
pub(crate) fn remote(target: &Target) -> SocketAddr {
    match target {
        Target::Flow(flow) | Target::FlowOrAddress(flow, _) => flow.remote,
        Target::Address(_, remote) => *remote,
    }
}
