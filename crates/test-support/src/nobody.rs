//! An address where nobody listens.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use socket2::{Domain, Socket, Type};

/// A port on loopback where nobody listens, over TCP or UDP, and where nobody else will as long as this lives: whoever
/// comes is refused. A listener that was closed is no such thing: its port may be another test's by then, or be
/// held open by a program that another test is about to start.
#[derive(Debug)]
pub struct Nobody {
    /// Bound, and not listening.
    _tcp: Socket,
    /// Connected, so nobody but its peer reaches it.
    _udp: UdpSocket,
    address: SocketAddr,
}

impl Nobody {
    /// Takes such a port.
    ///
    /// # Panics
    ///
    /// When none is to be had.
    #[expect(clippy::new_without_default, reason = "it takes something")]
    pub fn new() -> Nobody {
        (0..100)
            .find_map(|_| Nobody::try_new().ok())
            .expect("a port that is free for UDP and TCP")
    }

    /// Where nobody is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn try_new() -> std::io::Result<Nobody> {
        /// Of a service that sends nothing (RFC 863).
        const DISCARD: u16 = 9;

        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        udp.connect((Ipv4Addr::LOCALHOST, DISCARD))?;
        let address = udp.local_addr()?;
        let tcp = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        tcp.bind(&address.into())?;
        Ok(Nobody {
            _tcp: tcp,
            _udp: udp,
            address,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn whoever_comes_is_refused_and_nobody_else_can_listen() {
        let nobody = Nobody::new();
        let error = TcpStream::connect(nobody.address()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        udp.connect(nobody.address()).unwrap();
        udp.send(b"anybody?").unwrap();
        let error = udp.recv(&mut [0; 10]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        let error = UdpSocket::bind(nobody.address()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
    }
}
