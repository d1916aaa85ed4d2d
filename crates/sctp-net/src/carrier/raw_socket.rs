//! A raw socket for SCTP, read and written in batches.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use bytes::Bytes;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg,
    sendmmsg, setsockopt, sockopt,
};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::Interest;
use udp_net::{
    NetworkError, allow_fragmentation, forbid_fragmentation, hear_network_errors,
    next_network_error,
};

/// SCTP's number among the protocols over IP (RFC 9260 section 3).
const SCTP: i32 = 132;

/// Bytes of the kernel's buffers to ask for. The kernel may grant less.
const SOCKET_BUFFER: usize = 4 << 20;

/// How many packets go in or out by one call.
const BATCH: usize = 32;

/// The largest packet: IP reassembles fragments before we see them.
const LARGEST_PACKET: usize = 65_536;

/// One raw socket, for all packets of one IP version.
#[derive(Debug)]
pub(crate) struct RawSocket {
    /// Tokio has no type for raw sockets. This one waits for any socket that has datagrams, and its
    /// own calls, which are UDP's, are not used.
    io: tokio::net::UdpSocket,
    ipv6: bool,
}

/// A packet to send.
#[derive(Debug)]
pub(super) struct OutgoingMessage {
    pub(super) source: Option<IpAddr>,
    pub(super) destination: IpAddr,
    pub(super) packet: Bytes,
    pub(super) may_fragment: bool,
}

/// Room for what one call receives: 2 MiB, of which the system provides what has been written to.
pub(super) struct ReceiveBuffer {
    bytes: Vec<u8>,
}

impl ReceiveBuffer {
    pub(super) fn new() -> Self {
        Self {
            bytes: vec![0; BATCH * LARGEST_PACKET],
        }
    }
}

impl RawSocket {
    /// Opens a socket that hears all SCTP packets to this host.
    pub(super) fn open(ipv6: bool) -> io::Result<Self> {
        let domain = if ipv6 { Domain::IPV6 } else { Domain::IPV4 };
        let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(SCTP)))?;
        socket.set_nonblocking(true)?;
        // Who may go beyond the system's limit does, for others the kernel caps silently.
        if setsockopt(&socket, sockopt::RcvBufForce, &SOCKET_BUFFER).is_err() {
            socket.set_recv_buffer_size(SOCKET_BUFFER).ok();
        }
        if setsockopt(&socket, sockopt::SndBufForce, &SOCKET_BUFFER).is_err() {
            socket.set_send_buffer_size(SOCKET_BUFFER).ok();
        }
        if ipv6 {
            setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?;
        }
        forbid_fragmentation(socket.as_fd(), ipv6)?;
        hear_network_errors(socket.as_fd(), ipv6)?;
        Ok(Self {
            io: tokio::net::UdpSocket::from_std(socket.into())?,
            ipv6,
        })
    }

    pub(super) fn is_ipv6(&self) -> bool {
        self.ipv6
    }

    /// Waits for packets or errors; true when there are errors.
    pub(super) async fn readable(&self) -> io::Result<bool> {
        let interest = Interest::READABLE | Interest::ERROR;
        Ok(self.io.ready(interest).await?.is_error())
    }

    /// Waits for room to send.
    pub(super) async fn writable(&self) -> io::Result<()> {
        self.io.writable().await
    }

    /// Takes an error from the socket's queue.
    pub(super) fn next_error(&self) -> io::Result<Option<NetworkError>> {
        let take = || next_network_error(self.io.as_fd());
        self.io.try_io(Interest::ERROR, take)
    }

    /// One receive call. Each packet goes to `deliver`, with the address that it comes from, the
    /// one that it was sent to, and its content behind the IP header.
    pub(super) fn receive(
        &self,
        buffer: &mut ReceiveBuffer,
        mut deliver: impl FnMut(IpAddr, IpAddr, &[u8]),
    ) -> io::Result<()> {
        self.io.try_io(Interest::READABLE, || {
            let control = nix::cmsg_space!(libc::in6_pktinfo);
            let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(BATCH, Some(control));
            let mut slices: Vec<[IoSliceMut<'_>; 1]> = buffer
                .bytes
                .chunks_exact_mut(LARGEST_PACKET)
                .map(|slot| [IoSliceMut::new(slot)])
                .collect();
            let flags = MsgFlags::MSG_DONTWAIT;
            let fd = self.io.as_raw_fd();
            let messages = recvmmsg(fd, &mut headers, &mut slices, flags, None)?;
            for message in messages {
                let packet = message.iovs().next().unwrap_or_default();
                let Some(source) = message.address.as_ref().and_then(ip_address) else {
                    continue;
                };
                let parts = if self.ipv6 {
                    let local = message
                        .cmsgs()
                        .ok()
                        .and_then(|mut all| all.find_map(packet_info));
                    local.map(|local| (local, packet))
                } else {
                    without_header(packet)
                };
                if let Some((local, packet)) = parts {
                    deliver(source, local, packet);
                }
            }
            Ok(())
        })
    }

    /// Sends as many of the packets as one call can; at least the first.
    pub(super) fn send(&self, packets: &[OutgoingMessage]) -> io::Result<usize> {
        let Some(first) = packets.first() else {
            return Ok(0);
        };
        if first.may_fragment {
            allow_fragmentation(self.io.as_fd(), self.ipv6)?;
            let sent = self.send_alike(std::slice::from_ref(first), first.source);
            forbid_fragmentation(self.io.as_fd(), self.ipv6)?;
            return sent;
        }
        // The source is told once for all packets of a call.
        let alike = packets
            .iter()
            .take(BATCH)
            .take_while(|packet| packet.source == first.source && !packet.may_fragment)
            .count();
        self.send_alike(packets.get(..alike).unwrap_or_default(), first.source)
    }

    fn send_alike(&self, packets: &[OutgoingMessage], source: Option<IpAddr>) -> io::Result<usize> {
        let send = || send_from(self.io.as_fd(), packets, source);
        match send() {
            // Once more through tokio, which then knows to wait for room.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.io.try_io(Interest::WRITABLE, send)
            }
            // It may be the error of an earlier packet, which is told only once.
            Err(_) => send(),
            sent => sent,
        }
    }
}

/// One send call.
fn send_from(
    socket: BorrowedFd<'_>,
    packets: &[OutgoingMessage],
    source: Option<IpAddr>,
) -> io::Result<usize> {
    let slices: Vec<[IoSlice<'_>; 1]> = packets
        .iter()
        .map(|packet| [IoSlice::new(&packet.packet)])
        .collect();
    let addresses: Vec<Option<SockaddrStorage>> = packets
        .iter()
        .map(|packet| {
            Some(SockaddrStorage::from(SocketAddr::new(
                packet.destination,
                0,
            )))
        })
        .collect();
    let send = |control: Option<Vec<u8>>, messages: &[ControlMessage<'_>]| {
        let mut headers = MultiHeaders::preallocate(packets.len(), control);
        let flags = MsgFlags::MSG_DONTWAIT;
        let fd = socket.as_raw_fd();
        let sent = sendmmsg(fd, &mut headers, &slices, &addresses, messages, flags)?;
        Ok(sent.count())
    };
    match source {
        None => send(None, &[]),
        Some(IpAddr::V4(source)) => {
            let info = libc::in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: libc::in_addr {
                    s_addr: u32::from_ne_bytes(source.octets()),
                },
                ipi_addr: libc::in_addr { s_addr: 0 },
            };
            let control = nix::cmsg_space!(libc::in_pktinfo);
            send(Some(control), &[ControlMessage::Ipv4PacketInfo(&info)])
        }
        Some(IpAddr::V6(source)) => {
            let info = libc::in6_pktinfo {
                ipi6_addr: libc::in6_addr {
                    s6_addr: source.octets(),
                },
                ipi6_ifindex: 0,
            };
            let control = nix::cmsg_space!(libc::in6_pktinfo);
            send(Some(control), &[ControlMessage::Ipv6PacketInfo(&info)])
        }
    }
}

/// Where an IPv4 packet was sent to, and what is behind its header (RFC 791 section 3.1).
fn without_header(packet: &[u8]) -> Option<(IpAddr, &[u8])> {
    let header_bytes = usize::from(packet.first()? & 0x0f) * 4;
    let destination: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
    Some((
        Ipv4Addr::from(destination).into(),
        packet.get(header_bytes..)?,
    ))
}

fn packet_info(message: ControlMessageOwned) -> Option<IpAddr> {
    match message {
        ControlMessageOwned::Ipv6PacketInfo(info) => Some(IpAddr::from(info.ipi6_addr.s6_addr)),
        _ => None,
    }
}

/// The IP address in a socket address.
pub(super) fn ip_address(address: &SockaddrStorage) -> Option<IpAddr> {
    match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
        (Some(v4), _) => Some(v4.ip().into()),
        (_, Some(v6)) => Some(v6.ip().into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ipv4_header_is_taken_off_with_its_options() {
        let mut packet = vec![0; 24];
        packet[0] = 0x46;
        packet[16..20].copy_from_slice(&[192, 0, 2, 7]);
        packet.extend(b"sctp");
        let (destination, rest) = without_header(&packet).unwrap();
        assert_eq!(destination, IpAddr::from([192, 0, 2, 7]));
        assert_eq!(rest, b"sctp");
        assert_eq!(without_header(&packet[..22]), None);
        assert_eq!(without_header(&[]), None);
    }
}
