//! UDP outside of any runtime: a socket for a thread that waits by itself, and rooms by which many
//! datagrams are read or written in one call without an allocation for any of them.

mod send;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Instant;

use socket2::{Domain, Protocol, Socket, Type};

use crate::name::{NAME_BYTES, Name};
use crate::options::{allow_fragmentation, receive_drops, set_receive_buffer};
use crate::receive_many::{Arrival, receive_many};
use crate::stamps::Stamps;
use send::send_slices;

/// How many datagrams one call reads or writes at most.
pub const PLAIN_BATCH: usize = 64;

/// The largest that a datagram can be.
const MAX_DATAGRAM: usize = 65_535;

/// From the beginning of one datagram's room to the next. It is no multiple of a page, so that the first
/// octets of all of them do not meet in the same few lines of the processor's caches.
const STRIDE: usize = 65_536 + 576;

/// A UDP socket that never waits.
///
/// Nothing is counted here, nothing is impaired: what reads and writes millions of datagrams does its own
/// bookkeeping, a batch at a time.
#[derive(Debug)]
pub struct PlainSocket {
    socket: Socket,
    local: SocketAddr,
    stamps: Stamps,
}

/// A datagram to send: a part of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramSlice {
    /// Where it begins in the buffer.
    pub start: usize,
    /// How many octets it has.
    pub length: usize,
    /// Where it goes.
    pub destination: SocketAddr,
}

/// Room for the datagrams of one call; about 4 MiB of addresses, of which the system provides what has
/// been written to.
#[derive(Debug)]
pub struct PlainBatch {
    octets: Vec<u8>,
    names: Vec<Name>,
    filled: usize,
    rooms: [Room; PLAIN_BATCH],
}

/// What the kernel tells of one room.
#[derive(Clone, Copy, Debug)]
struct Room {
    length: usize,
    received: Instant,
}

/// A datagram that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainDatagram<'a> {
    /// Who sent it.
    pub source: SocketAddr,
    /// Its content.
    pub octets: &'a [u8],
    /// When the kernel got it (`SO_TIMESTAMPNS`); when it was read, where the kernel does not tell.
    pub received: Instant,
}

impl PlainSocket {
    /// Binds a socket; port 0 lets the kernel choose one. With `shared` several sockets may have the
    /// address if all of them ask for it (`SO_REUSEPORT`): the kernel keeps what comes from one address
    /// and port at one of them. IP may fragment what is sent.
    ///
    /// # Errors
    /// The kernel's, with the address in its text.
    pub fn bind(address: SocketAddr, shared: bool, buffer: usize) -> io::Result<PlainSocket> {
        Self::open(address, shared, buffer)
            .map_err(|error| io::Error::new(error.kind(), format!("UDP {address}: {error}")))
    }

    fn open(address: SocketAddr, shared: bool, buffer: usize) -> io::Result<PlainSocket> {
        let domain = Domain::for_address(address);
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        // What the kernel grants is enough to work.
        set_receive_buffer(socket.as_fd(), buffer).ok();
        socket.set_send_buffer_size(buffer).ok();
        let stamps = Stamps::ask(socket.as_fd());
        socket.set_reuse_port(shared)?;
        allow_fragmentation(socket.as_fd(), address.is_ipv6())?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        let local = socket.local_addr()?.as_socket();
        Ok(PlainSocket {
            local: local.ok_or(io::ErrorKind::AddrNotAvailable)?,
            socket,
            stamps,
        })
    }

    /// The address that the socket is bound to, with its real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Whether the kernel tells when datagrams come.
    pub fn is_stamped(&self) -> bool {
        self.stamps.is_stamped()
    }

    /// Reads what has arrived, and tells how many rooms of the batch it has filled: fewer than [`PLAIN_BATCH`] where
    /// nothing more had arrived.
    ///
    /// # Errors
    /// The kernel's; `WouldBlock` where nothing has arrived.
    pub fn receive(&self, batch: &mut PlainBatch) -> io::Result<usize> {
        batch.filled = 0;
        let mut arrivals = [Arrival::default(); PLAIN_BATCH];
        let slots = batch.octets.chunks_exact_mut(STRIDE);
        let slots = slots.map(|slot| slot.get_mut(..MAX_DATAGRAM).unwrap_or_default());
        let reading = self.stamps.begin();
        let received = receive_many(self.as_fd(), slots, &mut batch.names, &mut arrivals);
        let is_empty = match &received {
            Ok(received) => *received < PLAIN_BATCH,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        };
        if is_empty {
            self.stamps.note_empty(&reading);
        }
        let received = received?;
        let clocks = reading.clocks();
        for (room, arrival) in batch.rooms.iter_mut().zip(&arrivals).take(received) {
            let Arrival { length, ancillary } = *arrival;
            *room = Room {
                length,
                received: clocks.instant(ancillary.stamp),
            };
        }
        batch.filled = received;
        Ok(received)
    }

    /// Sends slices of a buffer, the first ones if there are too many for one call, and tells how many are on their way.
    ///
    /// # Errors
    /// What the kernel says to the first of them; `WouldBlock` where it has no room.
    ///
    /// # Panics
    /// When a slice reaches beyond the buffer.
    pub fn send(&self, octets: &[u8], slices: &[DatagramSlice]) -> io::Result<usize> {
        send_slices(self.socket.as_raw_fd(), octets, slices)
    }

    /// How many datagrams found no room in this socket since it was opened: the reader was too slow, not
    /// the network (`SO_MEMINFO`).
    ///
    /// # Errors
    /// The kernel's.
    pub fn dropped(&self) -> io::Result<u32> {
        receive_drops(self.socket.as_fd())
    }
}

impl AsFd for PlainSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl PlainBatch {
    /// Room for [`PLAIN_BATCH`] datagrams.
    pub fn new() -> PlainBatch {
        let room = Room {
            length: 0,
            received: Instant::now(),
        };
        PlainBatch {
            octets: vec![0; PLAIN_BATCH * STRIDE],
            names: vec![Name([0; NAME_BYTES]); PLAIN_BATCH],
            filled: 0,
            rooms: [room; PLAIN_BATCH],
        }
    }

    /// What the last call read, in the order of arrival. What came from an address of no family that is known is left
    /// out.
    pub fn arrivals(&self) -> impl Iterator<Item = PlainDatagram<'_>> {
        let slots = self.octets.chunks_exact(STRIDE);
        let all = slots.zip(&self.names).zip(&self.rooms);
        all.take(self.filled).filter_map(|((slot, name), room)| {
            Some(PlainDatagram {
                source: name.address()?,
                octets: slot.get(..room.length)?,
                received: room.received,
            })
        })
    }

    /// As [`arrivals`](PlainBatch::arrivals): who sent it, and its content.
    pub fn datagrams(&self) -> impl Iterator<Item = (SocketAddr, &[u8])> {
        self.arrivals()
            .map(|datagram| (datagram.source, datagram.octets))
    }
}

impl Default for PlainBatch {
    fn default() -> PlainBatch {
        PlainBatch::new()
    }
}

#[cfg(test)]
mod tests;
