//! Socket addresses as the kernel has them.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// A socket address as the kernel has it (ip(7), ipv6(7)): `sockaddr_in` and `sockaddr_in6` begin with the
/// family, in the machine's order, and the port.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(4))]
pub(crate) struct Name(pub(crate) [u8; NAME_BYTES]);

/// `sizeof(struct sockaddr_in6)`, the larger of the two.
pub(crate) const NAME_BYTES: usize = 28;

impl Name {
    /// An address with the length of its name.
    pub(crate) fn of(address: SocketAddr) -> (Name, libc::socklen_t) {
        let mut name = [0; NAME_BYTES];
        name[2..4].copy_from_slice(&address.port().to_be_bytes());
        let (family, length) = match address {
            SocketAddr::V4(address) => {
                name[4..8].copy_from_slice(&address.ip().octets());
                (libc::AF_INET, size_of::<libc::sockaddr_in>())
            }
            SocketAddr::V6(address) => {
                name[4..8].copy_from_slice(&address.flowinfo().to_be_bytes());
                name[8..24].copy_from_slice(&address.ip().octets());
                name[24..28].copy_from_slice(&address.scope_id().to_ne_bytes());
                (libc::AF_INET6, NAME_BYTES)
            }
        };
        name[..2].copy_from_slice(&(family as libc::sa_family_t).to_ne_bytes());
        (Name(name), length as libc::socklen_t)
    }

    /// The address; none where its family is not known.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        let name = &self.0;
        let family = libc::sa_family_t::from_ne_bytes([name[0], name[1]]);
        let port = u16::from_be_bytes([name[2], name[3]]);
        match libc::c_int::from(family) {
            libc::AF_INET => {
                let ip = Ipv4Addr::new(name[4], name[5], name[6], name[7]);
                Some((ip, port).into())
            }
            libc::AF_INET6 => {
                let octets = |from: usize| {
                    let mut octets = [0; 4];
                    octets.copy_from_slice(&name[from..from + 4]);
                    octets
                };
                let mut ip = [0; 16];
                ip.copy_from_slice(&name[8..24]);
                let flow = u32::from_be_bytes(octets(4));
                let scope = u32::from_ne_bytes(octets(24));
                Some(SocketAddrV6::new(Ipv6Addr::from(ip), port, flow, scope).into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for address in ["192.0.2.7:5060", "[2001:db8::7]:5061", "[fe80::1%3]:9"] {
            let address: SocketAddr = address.parse().unwrap();
            assert_eq!(Name::of(address).0.address(), Some(address));
        }
        assert_eq!(Name([0; NAME_BYTES]).address(), None);
    }
}
