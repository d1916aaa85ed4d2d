//! One TCP connection.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use sip_net::WireStatistics;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::super::frames::Framer;
use super::super::poller::{Poller, Watch};
use super::Planned;
use crate::engine::ConnectionId;

/// Octets that may wait for a peer who does not read; what comes beyond is not sent.
const MAX_BACKLOG: usize = 16 << 20;

/// A backlog that has been sent keeps so much of its room.
const KEPT_BACKLOG: usize = 64 * 1024;

/// What the kernel holds of connections that nobody has accepted yet.
const LISTEN_BACKLOG: i32 = 4096;

/// IP and TCP headers of a segment, with time stamps, as `sip_net` assumes them.
const IPV4_HEADERS: u64 = 20 + 32;
const IPV6_HEADERS: u64 = 40 + 32;

/// A connection, or one that is being opened.
#[derive(Debug)]
pub(super) struct Stream {
    socket: TcpStream,
    id: ConnectionId,
    /// How it is opened again, where it is ours.
    planned: Option<Planned>,
    is_opening: bool,
    pub(super) framer: Framer,
    /// What has come of a message that is not complete.
    partial: Vec<u8>,
    /// What could not be sent yet, and how much of it has been sent since.
    backlog: Vec<u8>,
    written: usize,
}

/// What was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// The room holds so many octets, what was left of the last read in front; more may wait.
    Octets { filled: usize, is_full: bool },
    /// Nothing has come.
    Nothing,
    /// The peer has closed it, or it has failed.
    End,
}

/// Listens, without waiting.
pub(super) fn listen(local: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(local),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if local.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&local.into())?;
    socket.listen(LISTEN_BACKLOG)?;
    Ok(socket.into())
}

impl Stream {
    /// Begins to open a connection.
    pub(super) fn connect(planned: Planned) -> io::Result<Stream> {
        let remote = SockAddr::from(planned.remote);
        let domain = Domain::for_address(planned.remote);
        let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        if let Some(local) = planned.local {
            socket.bind(&SocketAddr::new(local, 0).into())?;
        }
        match socket.connect(&remote) {
            Err(error) if error.raw_os_error() != Some(EINPROGRESS) => return Err(error),
            _ => {}
        }
        Ok(Stream {
            planned: Some(planned),
            is_opening: true,
            ..Stream::of(socket.into(), planned.id)
        })
    }

    /// One that a peer has opened.
    pub(super) fn accepted(socket: TcpStream, id: ConnectionId) -> io::Result<Stream> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        Ok(Stream::of(socket, id))
    }

    fn of(socket: TcpStream, id: ConnectionId) -> Stream {
        Stream {
            socket,
            id,
            planned: None,
            is_opening: false,
            framer: Framer::default(),
            partial: Vec::new(),
            backlog: Vec::new(),
            written: 0,
        }
    }

    pub(super) fn id(&self) -> ConnectionId {
        self.id
    }

    pub(super) fn planned(&self) -> Option<Planned> {
        self.planned
    }

    pub(super) fn is_opening(&self) -> bool {
        self.is_opening
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// The end of opening, by success or by an error: our address and the peer's.
    pub(super) fn opened(&mut self) -> io::Result<(SocketAddr, SocketAddr)> {
        if let Some(error) = self.socket.take_error()? {
            return Err(error);
        }
        let ends = (self.socket.local_addr()?, self.socket.peer_addr()?);
        // What is to be sent at once is put together by us.
        self.socket.set_nodelay(true)?;
        self.is_opening = false;
        Ok(ends)
    }

    /// Reads `most` octets at most behind what was left of the last read.
    pub(super) fn read(&mut self, room: &mut [u8], most: usize) -> Read {
        let held = self.partial.len();
        let Some(free) = room.get_mut(held..held + most) else {
            return Read::End;
        };
        match self.socket.read(free) {
            Ok(0) => Read::End,
            Ok(count) => {
                room[..held].copy_from_slice(&self.partial);
                self.partial.clear();
                Read::Octets {
                    filled: held + count,
                    is_full: count == most,
                }
            }
            Err(error) if is_passing(&error) => Read::Nothing,
            Err(_) => Read::End,
        }
    }

    /// Keeps what is left of a read.
    pub(super) fn keep(&mut self, rest: &[u8]) {
        self.partial.extend_from_slice(rest);
    }

    /// Sends octets, now or when there is room; false where too much waits already, or the connection is
    /// not to be used any more.
    pub(super) fn write(&mut self, octets: &[u8], poller: &Poller, token: u32) -> bool {
        let waiting = self.backlog.len() - self.written;
        let sent = match waiting == 0 && !self.is_opening {
            true => match self.socket.write(octets) {
                Ok(sent) => sent,
                Err(error) if is_passing(&error) => 0,
                // The end of the connection is read, too.
                Err(_) => return false,
            },
            false => 0,
        };
        let rest = &octets[sent..];
        if rest.is_empty() {
            return true;
        }
        if waiting + rest.len() > MAX_BACKLOG {
            return false;
        }
        self.backlog.extend_from_slice(rest);
        if waiting == 0 && !self.is_opening {
            poller.change(self.as_fd(), token, Watch::ReadAndWrite).ok();
        }
        true
    }

    /// Goes on with what waits.
    pub(super) fn write_on(&mut self, poller: &Poller, token: u32) -> io::Result<()> {
        while self.written < self.backlog.len() {
            match self.socket.write(&self.backlog[self.written..]) {
                Ok(sent) => self.written += sent,
                Err(error) if is_passing(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.backlog.clear();
        self.backlog.shrink_to(KEPT_BACKLOG);
        self.written = 0;
        poller.change(self.as_fd(), token, Watch::Read)
    }

    /// What the kernel has counted.
    pub(super) fn traffic(&self) -> WireStatistics {
        let Some(info) = tcp_info::tcp_info(self.as_fd()) else {
            return WireStatistics::default();
        };
        let headers = match self.socket.local_addr() {
            Ok(SocketAddr::V6(_)) => IPV6_HEADERS,
            _ => IPV4_HEADERS,
        };
        WireStatistics {
            packets_sent: info.segments_sent,
            packets_received: info.segments_received,
            bytes_sent: info.payload_bytes_sent + info.segments_sent * headers,
            bytes_received: info.payload_bytes_received + info.segments_received * headers,
            transport_retransmissions: info.retransmissions,
            ..WireStatistics::default()
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// "Operation now in progress": a connection is being opened.
const EINPROGRESS: i32 = rustix::io::Errno::INPROGRESS.raw_os_error();

/// Whether to try again later.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}
