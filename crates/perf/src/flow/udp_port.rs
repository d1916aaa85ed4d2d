//! A UDP socket that is read and written in trains of datagrams.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::set_type_of_service;

/// Kernel buffers where nothing else is asked for: of a burst that the program is too slow for, more is
/// kept. The kernel caps it.
const BUFFER_BYTES: usize = 4 << 20;

/// The largest that the kernel writes into one buffer: a datagram, or a train of them.
const SLOT_BYTES: usize = 65_536;

/// A UDP socket that is read and written in trains where the kernel can do that (GSO, GRO).
#[derive(Debug)]
pub(crate) struct UdpPort {
    io: UdpSocket,
    state: UdpSocketState,
}

/// Where datagrams go, and from which of our addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) local: Option<IpAddr>,
}

impl UdpPort {
    /// Sets the type of service of what is sent to `peer`.
    pub(crate) fn set_type_of_service(&self, tos: u8, peer: IpAddr) -> io::Result<()> {
        set_type_of_service(SockRef::from(&self.io), tos, peer)
    }

    /// Binds a socket with buffers of `window` bytes.
    pub(crate) fn bind(address: SocketAddr, window: Option<usize>) -> io::Result<UdpPort> {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::DGRAM,
            Some(Protocol::UDP),
        )?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        let buffer = window.unwrap_or(BUFFER_BYTES);
        socket.set_recv_buffer_size(buffer)?;
        socket.set_send_buffer_size(buffer)?;
        socket.bind(&address.into())?;
        socket.set_nonblocking(true)?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        // Large datagrams are to be fragmented, as everywhere; quinn-udp has forbidden it.
        udp_net::allow_fragmentation(socket.as_fd(), address.is_ipv6())?;
        Ok(UdpPort {
            io: UdpSocket::from_std(socket.into())?,
            state,
        })
    }

    #[cfg(test)]
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// How many datagrams the kernel takes at once.
    pub(crate) fn max_datagrams_a_train(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Sends one datagram as soon as the socket takes it.
    pub(crate) async fn send(&self, peer: Peer, datagram: &[u8]) -> io::Result<()> {
        self.send_train(peer, datagram, datagram.len()).await
    }

    /// Sends datagrams of `size` bytes each that lie one behind the other.
    pub(crate) async fn send_train(&self, peer: Peer, train: &[u8], size: usize) -> io::Result<()> {
        let transmit = Transmit {
            destination: peer.address,
            ecn: None,
            contents: train,
            segment_size: (size < train.len()).then_some(size),
            src_ip: peer.local,
        };
        let send = || self.state.try_send(UdpSockRef::from(&self.io), &transmit);
        loop {
            match self.io.try_io(Interest::WRITABLE, send) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.io.writable().await?;
                }
                result => return result,
            }
        }
    }

    /// Waits for datagrams and hands each to `take`, with where it came from and to which address.
    pub(crate) async fn receive(
        &self,
        buffers: &mut Buffers,
        mut take: impl FnMut(Peer, &[u8]),
    ) -> io::Result<()> {
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        loop {
            let mut slots = buffers.0.chunks_exact_mut(SLOT_BYTES);
            let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
                std::array::from_fn(|_| IoSliceMut::new(slots.next().unwrap_or_default()));
            let received = self.io.try_io(Interest::READABLE, || {
                self.state
                    .recv(UdpSockRef::from(&self.io), &mut slices, &mut metas)
            });
            match received {
                Ok(filled) => {
                    for (slot, meta) in slices.iter().zip(&metas).take(filled) {
                        let peer = Peer {
                            address: meta.addr,
                            local: meta.dst_ip,
                        };
                        let train = slot.get(..meta.len).unwrap_or_default();
                        for datagram in train.chunks(meta.stride.max(1)) {
                            take(peer, datagram);
                        }
                    }
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.io.readable().await?;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Room for what one call receives: 2 MiB, of which the system provides what is used.
#[derive(Debug)]
pub(crate) struct Buffers(Vec<u8>);

impl Buffers {
    pub(crate) fn new() -> Buffers {
        Buffers(vec![0; BATCH_SIZE * SLOT_BYTES])
    }
}
