//! UDP outside of any runtime: a socket for a thread that waits by itself, and rooms by which many
//! datagrams are read or written in one call without an allocation for any of them.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use socket2::{Domain, Protocol, Socket, Type};

use crate::options::{allow_fragmentation, receive_drops, set_receive_buffer};

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
}

/// A datagram to send: a part of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
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
    lengths: [usize; PLAIN_BATCH],
    filled: usize,
}

/// A socket address as the kernel has it (ip(7), ipv6(7)): `sockaddr_in` and `sockaddr_in6` begin with the
/// family, in the machine's order, and the port.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(4))]
struct Name([u8; NAME_BYTES]);

/// `sizeof(struct sockaddr_in6)`, the larger of the two.
const NAME_BYTES: usize = 28;

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
        socket.set_reuse_port(shared)?;
        allow_fragmentation(socket.as_fd(), address.is_ipv6())?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        let local = socket.local_addr()?.as_socket();
        Ok(PlainSocket {
            local: local.ok_or(io::ErrorKind::AddrNotAvailable)?,
            socket,
        })
    }

    /// The address that the socket is bound to, with its real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Reads what has arrived, [`PLAIN_BATCH`] datagrams at most, and tells how many.
    ///
    /// # Errors
    /// The kernel's; `WouldBlock` where nothing has arrived.
    pub fn receive(&self, batch: &mut PlainBatch) -> io::Result<usize> {
        batch.filled = 0;
        let mut vectors = [const { MaybeUninit::<libc::iovec>::uninit() }; PLAIN_BATCH];
        let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; PLAIN_BATCH];
        let slots = batch.octets.chunks_exact_mut(STRIDE);
        for (index, (slot, name)) in slots.zip(&mut batch.names).enumerate() {
            let vector = vectors[index].write(libc::iovec {
                iov_base: slot.as_mut_ptr().cast(),
                iov_len: MAX_DATAGRAM,
            });
            headers[index].write(header(&raw mut *name, vector));
        }
        // SAFETY: the descriptor is open as long as the socket lives. All headers have been written:
        // there are as many rooms and names as there are headers. Each points to a name of NAME_BYTES,
        // to one vector and by that to MAX_DATAGRAM octets of its own room, all of which outlive the
        // call and are touched by nobody else during it.
        let received = unsafe {
            libc::recvmmsg(
                self.socket.as_raw_fd(),
                headers.as_mut_ptr().cast(),
                PLAIN_BATCH as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        for (length, header) in batch.lengths.iter_mut().zip(&headers).take(received) {
            // SAFETY: all headers have been written above.
            *length = unsafe { header.assume_init_ref() }.msg_len as usize;
        }
        batch.filled = received;
        Ok(received)
    }

    /// Sends pieces of a buffer, [`PLAIN_BATCH`] of them at most, and tells how many are on their way.
    ///
    /// # Errors
    /// What the kernel says to the first of them; `WouldBlock` where it has no room.
    ///
    /// # Panics
    /// When a piece reaches beyond the buffer.
    pub fn send(&self, octets: &[u8], pieces: &[Piece]) -> io::Result<usize> {
        let pieces = &pieces[..pieces.len().min(PLAIN_BATCH)];
        let mut names = [const { MaybeUninit::<Name>::uninit() }; PLAIN_BATCH];
        let mut vectors = [const { MaybeUninit::<libc::iovec>::uninit() }; PLAIN_BATCH];
        let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; PLAIN_BATCH];
        for (index, piece) in pieces.iter().enumerate() {
            let payload = &octets[piece.start..piece.start + piece.length];
            let (name, length) = Name::of(piece.destination);
            let name = names[index].write(name);
            let vector = vectors[index].write(libc::iovec {
                iov_base: payload.as_ptr().cast_mut().cast(),
                iov_len: payload.len(),
            });
            let header = headers[index].write(header(&raw mut *name, vector));
            header.msg_hdr.msg_namelen = length;
        }
        // SAFETY: the descriptor is open as long as the socket lives. As many headers have been written as
        // there are pieces. Each points to a name of the length it gives, to one vector and by that to
        // octets of the buffer, all of which live until the call returns; the kernel only reads them, and
        // writes the lengths sent into the headers, which are ours.
        let sent = unsafe {
            libc::sendmmsg(
                self.socket.as_raw_fd(),
                headers.as_mut_ptr().cast(),
                pieces.len() as libc::c_uint,
                libc::MSG_DONTWAIT,
            )
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
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
        PlainBatch {
            octets: vec![0; PLAIN_BATCH * STRIDE],
            names: vec![Name([0; NAME_BYTES]); PLAIN_BATCH],
            lengths: [0; PLAIN_BATCH],
            filled: 0,
        }
    }

    /// What the last call read, in the order of arrival: who sent it, and its content. What came from an
    /// address of no family that is known is left out.
    pub fn datagrams(&self) -> impl Iterator<Item = (SocketAddr, &[u8])> {
        let slots = self.octets.chunks_exact(STRIDE);
        let all = slots.zip(&self.names).zip(&self.lengths);
        all.take(self.filled)
            .filter_map(|((slot, name), length)| Some((name.address()?, slot.get(..*length)?)))
    }
}

impl Default for PlainBatch {
    fn default() -> PlainBatch {
        PlainBatch::new()
    }
}

impl Name {
    /// An address with the length of its name.
    fn of(address: SocketAddr) -> (Name, libc::socklen_t) {
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

    fn address(&self) -> Option<SocketAddr> {
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

/// A header for one datagram with the longest name.
fn header(name: *mut Name, vector: *mut libc::iovec) -> libc::mmsghdr {
    // SAFETY: all fields of an mmsghdr are integers and pointers, for which zero is a value.
    let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
    header.msg_hdr.msg_name = name.cast();
    header.msg_hdr.msg_namelen = NAME_BYTES as libc::socklen_t;
    header.msg_hdr.msg_iov = vector;
    header.msg_hdr.msg_iovlen = 1;
    header
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    fn received(socket: &PlainSocket, count: usize) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut batch = PlainBatch::new();
        let mut all = Vec::new();
        let deadline = Instant::now() + Duration::from_secs(20);
        while all.len() < count && Instant::now() < deadline {
            match socket.receive(&mut batch) {
                Ok(_) => {
                    let datagrams = batch.datagrams();
                    all.extend(datagrams.map(|(from, octets)| (from, octets.to_vec())));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    thread::sleep(Duration::from_millis(1));
                }
                Err(error) => panic!("{error}"),
            }
        }
        all
    }

    #[test]
    fn pieces_arrive_as_they_were_sent_with_their_senders_address() {
        for here in ["127.0.0.1:0", "[::1]:0"] {
            let here: SocketAddr = here.parse().unwrap();
            let (Ok(one), Ok(other)) = (
                PlainSocket::bind(here, false, 1 << 20),
                PlainSocket::bind(here, false, 1 << 20),
            ) else {
                println!("skipped: no {here} on this host");
                continue;
            };
            let buffer: Vec<u8> = (0..=255)
                .cycle()
                .take(9000)
                .map(|octet: u8| octet)
                .collect();
            let pieces: Vec<Piece> = [(0, 5), (5, 0), (17, 8983), (0, 9000)]
                .into_iter()
                .cycle()
                .take(100)
                .map(|(start, length)| Piece {
                    start,
                    length,
                    destination: other.local_addr(),
                })
                .collect();
            let mut sent = 0;
            while sent < pieces.len() {
                let now = one.send(&buffer, &pieces[sent..]).unwrap();
                assert!((1..=PLAIN_BATCH).contains(&now), "{now}");
                sent += now;
            }
            let expected: Vec<_> = pieces
                .iter()
                .map(|piece| &buffer[piece.start..piece.start + piece.length])
                .map(|octets| (one.local_addr(), octets.to_vec()))
                .collect();
            assert_eq!(received(&other, expected.len()), expected);
            assert_eq!(other.dropped().unwrap(), 0);
        }
    }

    #[test]
    fn what_found_no_room_is_counted() {
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        let sender = PlainSocket::bind(here, false, 1 << 20).unwrap();
        let receiver = PlainSocket::bind(here, false, 1).unwrap();
        let piece = Piece {
            start: 0,
            length: 1000,
            destination: receiver.local_addr(),
        };
        for _ in 0..50 {
            sender.send(&[7; 1000], &[piece; PLAIN_BATCH]).unwrap();
        }
        let dropped = receiver.dropped().unwrap() as usize;
        assert!((1..=50 * PLAIN_BATCH).contains(&dropped), "{dropped}");
    }

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for address in ["192.0.2.7:5060", "[2001:db8::7]:5061", "[fe80::1%3]:9"] {
            let address: SocketAddr = address.parse().unwrap();
            assert_eq!(Name::of(address).0.address(), Some(address));
        }
        assert_eq!(Name([0; NAME_BYTES]).address(), None);
    }
}
