//! Which way packets would go.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// The local address from which packets to this address leave, where nobody says another one.
///
/// # Errors
/// When there is no route to it.
pub fn local_address_towards(remote: IpAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match remote {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    // Nothing is sent: a connected socket has the address that its packets would have, whatever the port.
    const DISCARD: u16 = 9;
    socket.connect(SocketAddr::new(remote, DISCARD))?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_reached_from_loopback() {
        for loopback in [
            IpAddr::from(Ipv4Addr::LOCALHOST),
            Ipv6Addr::LOCALHOST.into(),
        ] {
            match local_address_towards(loopback) {
                Ok(local) => assert_eq!(local, loopback),
                // A host without IPv6.
                Err(_) => assert!(loopback.is_ipv6()),
            }
        }
    }
}
