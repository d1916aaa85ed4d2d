//! Packets of SCTP endpoints as datagrams of a simulation, right over IP.

use std::net::IpAddr;

use bytes::Bytes;
use sctp::{PathAddress, Transmit};
use sim::Datagram;

use crate::packet::ip_header;

/// The path that a datagram came by, as an endpoint is told of it.
pub fn path_of<P>(datagram: &Datagram<P>) -> PathAddress {
    PathAddress {
        local: Some(datagram.destination),
        remote: datagram.source,
        encapsulation_port: None,
    }
}

/// The datagram that carries a packet of an endpoint. `source` says from which address it goes to which
/// where the endpoint leaves that open, and `payload` what it is among the contents of the simulation.
pub fn sctp_datagram<P>(
    transmit: Transmit,
    source: impl FnOnce(IpAddr) -> IpAddr,
    payload: impl FnOnce(Bytes) -> P,
) -> Datagram<P> {
    let Transmit {
        path,
        packet,
        may_fragment,
    } = transmit;
    Datagram {
        source: path.local.unwrap_or_else(|| source(path.remote)),
        destination: path.remote,
        bytes: ip_header(path.remote) + packet.len(),
        may_fragment,
        payload: payload(packet),
    }
}
