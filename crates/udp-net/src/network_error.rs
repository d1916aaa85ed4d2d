//! What the network reports about packets sent earlier: ICMP errors, read from a socket's error
//! queue.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};

use bytes::Bytes;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt,
};

/// An error that came back for a packet sent earlier (RFC 792, RFC 4443). Whoever wants to believe
/// it looks at what it quotes first: anybody can forge one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkError {
    /// Where the packet went.
    pub destination: SocketAddr,
    /// The local address that the error came to, from which the packet was sent.
    pub source_ip: Option<IpAddr>,
    /// What it says.
    pub report: Report,
    /// The beginning of the packet's payload, as much as was quoted: from the transport header on
    /// for a raw socket, from behind the UDP header on for a UDP socket.
    pub quoted: Bytes,
}

/// What a [`NetworkError`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// The packet is larger than a link on its way carries.
    TooBig {
        /// The largest IP packet that the link carries, headers included; 0 where that is unknown.
        mtu: u32,
    },
    /// An ICMP message for IPv4.
    Icmp {
        /// Its type.
        icmp_type: u8,
        /// Its code.
        code: u8,
    },
    /// An ICMPv6 message.
    Icmpv6 {
        /// Its type.
        icmp_type: u8,
        /// Its code.
        code: u8,
    },
    /// An error of this host's own.
    Local {
        /// The number of the error.
        errno: u32,
    },
}

/// Asks the kernel to keep errors for [`next_network_error`]. From then on it also tells each of them
/// once as the result of another call on the socket, which then does nothing else.
///
/// # Errors
///
/// The kernel's.
pub fn hear_network_errors(socket: BorrowedFd<'_>, ipv6: bool) -> io::Result<()> {
    if ipv6 {
        setsockopt(&socket, sockopt::Ipv6RecvErr, &true)?;
    } else {
        setsockopt(&socket, sockopt::Ipv4RecvErr, &true)?;
    }
    Ok(())
}

/// Takes an error from a socket's queue; one that cannot be told is `None`.
///
/// # Errors
///
/// `WouldBlock` when the queue is empty; others of the kernel.
pub fn next_network_error(socket: BorrowedFd<'_>) -> io::Result<Option<NetworkError>> {
    let mut quoted = [0; MAX_QUOTED_BYTES];
    let mut buffers = [IoSliceMut::new(&mut quoted)];
    let mut control = nix::cmsg_space!(
        libc::sock_extended_err,
        libc::sockaddr_in6,
        libc::in6_pktinfo,
        [libc::timespec; 3],
        libc::c_int,
        libc::c_int
    );
    let message = recvmsg::<SockaddrStorage>(
        socket.as_raw_fd(),
        &mut buffers,
        Some(&mut control),
        MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT,
    )?;
    let mut source_ip = None;
    let mut report = None;
    for message in message.cmsgs()? {
        match message {
            ControlMessageOwned::Ipv4RecvErr(error, _)
            | ControlMessageOwned::Ipv6RecvErr(error, _) => report = Some(read_report(&error)),
            ControlMessageOwned::Ipv4PacketInfo(info) => {
                source_ip = Some(IpAddr::from(info.ipi_addr.s_addr.to_ne_bytes()));
            }
            ControlMessageOwned::Ipv6PacketInfo(info) => {
                source_ip = Some(IpAddr::from(info.ipi6_addr.s6_addr));
            }
            _ => {}
        }
    }
    let destination = message.address.as_ref().and_then(socket_address);
    let length = message.bytes;
    let (Some(destination), Some(report)) = (destination, report) else {
        return Ok(None);
    };
    Ok(Some(NetworkError {
        destination,
        source_ip,
        report,
        quoted: Bytes::copy_from_slice(quoted.get(..length).unwrap_or_default()),
    }))
}

/// What ICMPv6 quotes at most (RFC 4443 section 2.4), and more than ICMP does.
const MAX_QUOTED_BYTES: usize = 1280;

fn read_report(error: &libc::sock_extended_err) -> Report {
    let (icmp_type, code) = (error.ee_type, error.ee_code);
    if error.ee_errno == libc::EMSGSIZE as u32 {
        return Report::TooBig { mtu: error.ee_info };
    }
    match error.ee_origin {
        libc::SO_EE_ORIGIN_ICMP => Report::Icmp { icmp_type, code },
        libc::SO_EE_ORIGIN_ICMP6 => Report::Icmpv6 { icmp_type, code },
        _ => Report::Local {
            errno: error.ee_errno,
        },
    }
}

fn socket_address(address: &SockaddrStorage) -> Option<SocketAddr> {
    match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
        (Some(v4), _) => Some(SocketAddr::new(v4.ip().into(), v4.port())),
        (_, Some(v6)) => Some(SocketAddr::new(v6.ip().into(), v6.port())),
        _ => None,
    }
}
