//! A flow in few octets: in a flow token and in a binding.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::Buf;
use sip::{ConnectionId, Flow, Transport};

use crate::octets::{number_length, push_number, take_number};

/// Appends a flow.
pub(crate) fn write(octets: &mut Vec<u8>, flow: &Flow) {
    octets.push(transport_code(flow.transport));
    push_number(octets, flow.connection.0);
    push_number(octets, flow.stream.into());
    for address in [flow.local, flow.remote] {
        match address.ip() {
            IpAddr::V4(ip) => {
                octets.push(4);
                octets.extend_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                octets.push(6);
                octets.extend_from_slice(&ip.octets());
            }
        }
        octets.extend_from_slice(&address.port().to_be_bytes());
    }
}

/// How many octets [`write`] appends.
pub(crate) fn length(flow: &Flow) -> usize {
    let address = |address: SocketAddr| match address {
        SocketAddr::V4(_) => 1 + 4 + 2,
        SocketAddr::V6(_) => 1 + 16 + 2,
    };
    let numbers = number_length(flow.connection.0) + number_length(flow.stream.into());
    1 + numbers + address(flow.local) + address(flow.remote)
}

/// Reads what was written; `None` where it is anything else, or there is more.
pub(crate) fn read(mut octets: &[u8]) -> Option<Flow> {
    let transport = transport_of(octets.try_get_u8().ok()?)?;
    let connection = ConnectionId(take_number(&mut octets)?);
    let stream = u16::try_from(take_number(&mut octets)?).ok()?;
    let local = address(&mut octets)?;
    let remote = address(&mut octets)?;
    octets.is_empty().then_some(Flow {
        transport,
        local,
        remote,
        connection,
        stream,
    })
}

/// The place of a transport in [`Transport::ALL`].
fn transport_code(transport: Transport) -> u8 {
    Transport::ALL
        .iter()
        .zip(0..)
        .find(|(other, _)| **other == transport)
        .map_or(u8::MAX, |(_, code)| code)
}

fn transport_of(code: u8) -> Option<Transport> {
    Transport::ALL.get(usize::from(code)).copied()
}

fn address(octets: &mut &[u8]) -> Option<SocketAddr> {
    let ip: IpAddr = match octets.try_get_u8().ok()? {
        4 => Ipv4Addr::from_bits(octets.try_get_u32().ok()?).into(),
        6 => Ipv6Addr::from_bits(octets.try_get_u128().ok()?).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, octets.try_get_u16().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_read_back_and_nothing_else_is() {
        for transport in Transport::ALL {
            for (local, remote) in [
                ("192.0.2.1:5060", "198.51.100.9:1"),
                ("[2001:db8::1]:5060", "[2001:db8::2]:65535"),
            ] {
                let flow = Flow {
                    transport,
                    local: local.parse().expect("an address"),
                    remote: remote.parse().expect("an address"),
                    connection: ConnectionId(u64::MAX - 5),
                    stream: 40_000,
                };
                let mut octets = Vec::new();
                write(&mut octets, &flow);
                assert_eq!(octets.len(), length(&flow));
                assert_eq!(read(&octets), Some(flow));
                for length in 0..octets.len() {
                    assert_eq!(read(&octets[..length]), None);
                }
                octets.push(0);
                assert_eq!(read(&octets), None);
            }
        }
    }
}
