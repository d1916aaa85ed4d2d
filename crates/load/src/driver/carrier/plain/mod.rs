//! UDP and TCP without layers between: epoll, whole batches of datagrams, all that waits for a connection
//! in one write.

mod routes;
mod send_batch;
mod stream;

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use ahash::RandomState;
use sip::Transport;
use sip_net::WireStatistics;
use udp_net::{DatagramSlice, PLAIN_BATCH, PlainBatch, PlainDatagram, PlainSocket};

use super::Traffic;
use super::frames::{Frame, MAX_MESSAGE};
use super::poller::{Poller, PollerWaker, Ready, Watch, wait_for_room};
use crate::engine::{Connection, ConnectionId};
use routes::{Route, Routes};
use send_batch::SendBatch;
use stream::{Read, Stream};

/// Octets of the kernel's buffers to ask for at a UDP socket: what comes while a batch is worked on.
const UDP_BUFFER: usize = 8 << 20;

/// How many batches are read from a socket before others have their turn, and of datagrams how many.
const BATCHES_AT_ONCE: usize = 4;
const DATAGRAMS_AT_ONCE: usize = 256;

/// Octets read from a connection at a time.
const READ: usize = 64 * 1024;

/// Connections that are being opened at a time: a listener's backlog has room for them.
const OPENING_AT_ONCE: usize = 128;

/// From the end of a connection, or of an attempt to open one, to the next attempt.
const PAUSE_BEFORE_CONNECTING: Duration = Duration::from_millis(500);

/// UDP or TCP, outside of any runtime.
#[derive(Debug)]
pub(crate) struct PlainCarrier {
    poller: Poller,
    ready: Vec<Ready>,
    /// By token.
    sockets: Vec<Socket>,
    /// Tokens of connections of peers that have ended.
    free: Vec<u32>,
    routes: Routes,
    send_batch: SendBatch,
    /// Room for datagrams.
    batch: PlainBatch,
    /// Room for what is read from a connection, behind what was left of the last read.
    room: Vec<u8>,
    opening: Opening,
    counts: WireStatistics,
    /// Whether it sends datagrams, and no streams.
    is_udp: bool,
}

#[derive(Debug)]
enum Socket {
    Udp {
        socket: PlainSocket,
        /// Where the last datagram came from: the next one does too, as a rule.
        last: Option<(SocketAddr, ConnectionId)>,
    },
    Stream(Box<Stream>),
    Listener(TcpListener),
    /// A connection that is to be opened (again), or one of a peer that has ended.
    Closed,
}

/// Connections that are to be opened.
#[derive(Debug, Default)]
struct Opening {
    /// When, and which: in the order of time.
    waiting: VecDeque<(Instant, Planned)>,
    /// How many are being opened.
    under_way: usize,
    /// Why the last one was not, and where to.
    error: Option<(SocketAddr, io::Error)>,
}

/// A connection of ours, which is opened again when it is lost.
#[derive(Clone, Copy, Debug)]
struct Planned {
    token: u32,
    id: ConnectionId,
    local: Option<IpAddr>,
    remote: SocketAddr,
}

impl PlainCarrier {
    pub(crate) fn new(hasher: RandomState) -> io::Result<PlainCarrier> {
        Ok(PlainCarrier {
            poller: Poller::new()?,
            ready: Vec::new(),
            sockets: Vec::new(),
            free: Vec::new(),
            routes: Routes::new(hasher),
            send_batch: SendBatch::new(),
            batch: PlainBatch::new(),
            room: vec![0; MAX_MESSAGE + READ],
            opening: Opening::default(),
            counts: WireStatistics::default(),
            is_udp: false,
        })
    }

    /// Ends a wait from another thread.
    pub(crate) fn waker(&self) -> PollerWaker {
        self.poller.waker()
    }

    // Opening.

    /// Binds a UDP socket with a way to a peer. Gives its address, too.
    pub(crate) fn bind_udp(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> io::Result<(ConnectionId, SocketAddr)> {
        let (token, local) = self.add_udp(local, false)?;
        self.counts.connections_opened += 1;
        Ok((self.routes.add(token, remote), local))
    }

    /// Adds a way to another peer by a UDP socket of ours.
    pub(crate) fn add_way(
        &mut self,
        id: ConnectionId,
        remote: SocketAddr,
    ) -> io::Result<ConnectionId> {
        let route = self.routes.get(id).ok_or(io::ErrorKind::NotFound)?;
        Ok(self.routes.add(route.token, remote))
    }

    /// Waits for datagrams from anybody. Where `shared`, other workers do so at the same address.
    pub(crate) fn listen_udp(&mut self, local: SocketAddr, shared: bool) -> io::Result<SocketAddr> {
        Ok(self.add_udp(local, shared)?.1)
    }

    fn add_udp(&mut self, local: SocketAddr, shared: bool) -> io::Result<(u32, SocketAddr)> {
        let socket = PlainSocket::bind(local, shared, UDP_BUFFER)?;
        let local = socket.local_addr();
        let token = self.next_token()?;
        self.poller.add(&socket, token, Watch::Read)?;
        self.sockets.push(Socket::Udp { socket, last: None });
        self.is_udp = true;
        Ok((token, local))
    }

    /// Listens for TCP connections.
    pub(crate) fn listen(&mut self, local: SocketAddr, shared: bool) -> io::Result<SocketAddr> {
        let listener = stream::listen(local, shared)
            .map_err(|error| io::Error::new(error.kind(), format!("TCP {local}: {error}")))?;
        let local = listener.local_addr()?;
        let token = self.next_token()?;
        self.poller.add(&listener, token, Watch::Read)?;
        self.sockets.push(Socket::Listener(listener));
        Ok(local)
    }

    /// Plans a TCP connection, which is opened by and by, and again when it is lost.
    pub(crate) fn connect(
        &mut self,
        local: Option<IpAddr>,
        remote: SocketAddr,
    ) -> io::Result<ConnectionId> {
        let token = self.next_token()?;
        self.sockets.push(Socket::Closed);
        let id = self.routes.add(token, remote);
        let planned = Planned {
            token,
            id,
            local,
            remote,
        };
        self.opening.waiting.push_back((Instant::now(), planned));
        Ok(id)
    }

    /// Why the last attempt to open a connection failed, if it did, and where to.
    pub(crate) fn take_error(&mut self) -> Option<(SocketAddr, io::Error)> {
        self.opening.error.take()
    }

    // Working.

    /// Waits until something has come or the time is up, hands over what has come, and sends what there is
    /// to send after each batch of it.
    pub(crate) fn turn(&mut self, until: Option<Instant>, traffic: &mut impl Traffic) {
        self.flush(traffic);
        let now = Instant::now();
        let next = self.open_planned(now);
        let until = match (until, next) {
            (Some(until), Some(next)) => Some(until.min(next)),
            (until, next) => until.or(next),
        };
        let mut ready = std::mem::take(&mut self.ready);
        self.poller.wait(until, &mut ready);
        for ready in &ready {
            self.serve(*ready, traffic);
        }
        self.ready = ready;
    }

    /// Sends what there is to send.
    pub(crate) fn flush(&mut self, traffic: &mut impl Traffic) {
        loop {
            self.send_batch.clear();
            while !self.send_batch.is_full()
                && let Some(transmit) = self.send_batch.write(traffic)
            {
                match self.routes.get(transmit.connection) {
                    Some(Route { token, remote }) => {
                        self.send_batch.address(transmit, token, remote);
                    }
                    None => {
                        self.send_batch.discard(transmit.length);
                        self.counts.sends_failed += 1;
                    }
                }
            }
            if self.send_batch.is_empty() {
                return;
            }
            self.send_written();
        }
    }

    /// Whether the kernel tells when messages have come.
    pub(crate) fn is_stamped(&self) -> bool {
        self.is_udp
            && self.sockets.iter().all(|socket| match socket {
                Socket::Udp { socket, .. } => socket.is_stamped(),
                _ => true,
            })
    }

    /// What went over the wire.
    pub(crate) fn statistics(&self) -> WireStatistics {
        let mut counts = self.counts;
        for socket in &self.sockets {
            match socket {
                Socket::Udp { socket, .. } => {
                    counts.incoming_dropped += u64::from(socket.dropped().unwrap_or(0));
                    counts.connections += 1;
                }
                Socket::Stream(stream) => {
                    counts += stream.traffic();
                    counts.connections += 1;
                }
                Socket::Listener(_) | Socket::Closed => {}
            }
        }
        counts
    }

    fn serve(&mut self, ready: Ready, traffic: &mut impl Traffic) {
        match self.sockets.get(ready.token as usize) {
            Some(Socket::Udp { .. }) => self.receive_datagrams(ready.token, traffic),
            Some(Socket::Stream(_)) => {
                if ready.writable {
                    self.write_on(ready.token, traffic);
                }
                if ready.readable {
                    self.read_stream(ready.token, traffic);
                }
            }
            Some(Socket::Listener(_)) => self.accept(ready.token, traffic),
            Some(Socket::Closed) | None => {}
        }
    }

    fn next_token(&self) -> io::Result<u32> {
        u32::try_from(self.sockets.len()).map_err(|_| io::ErrorKind::OutOfMemory.into())
    }

    // UDP.

    fn receive_datagrams(&mut self, token: u32, traffic: &mut impl Traffic) {
        let mut read = 0;
        while read < DATAGRAMS_AT_ONCE {
            let Some(Socket::Udp { socket, last }) = self.sockets.get_mut(token as usize) else {
                return;
            };
            let count = match socket.receive(&mut self.batch) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The kernel tells of an ICMP error; there is nothing else to it.
                Err(_) => {
                    read += 1;
                    continue;
                }
            };
            let now = Instant::now();
            let local = socket.local_addr();
            for datagram in self.batch.arrivals() {
                let PlainDatagram {
                    source,
                    octets,
                    received,
                } = datagram;
                read += 1;
                self.counts.packets_received += 1;
                self.counts.bytes_received += (octets.len() + headers(source)) as u64;
                if is_keep_alive(octets) {
                    self.counts.keep_alives += 1;
                    continue;
                }
                self.counts.messages_received += 1;
                let id = match *last {
                    Some((address, id)) if address == source => id,
                    _ => {
                        let (id, is_new) = match self.routes.find(token, source) {
                            Some(id) => (id, false),
                            None => match self.routes.add_stranger(token, source) {
                                Some(id) => (id, true),
                                None => {
                                    self.counts.connections_refused += 1;
                                    continue;
                                }
                            },
                        };
                        if is_new {
                            let connection = Connection {
                                transport: Transport::Udp,
                                local,
                                remote: source,
                            };
                            traffic.opened(id, connection);
                        }
                        *last = Some((source, id));
                        id
                    }
                };
                traffic.message(now, received, id, octets);
            }
            self.flush(traffic);
            if count < PLAIN_BATCH {
                return;
            }
        }
    }

    // TCP.

    /// Begins to open what is due. Gives when the next is.
    fn open_planned(&mut self, now: Instant) -> Option<Instant> {
        while let Some((due, planned)) = self.opening.waiting.front().copied() {
            if due > now || self.opening.under_way >= OPENING_AT_ONCE {
                return (due > now).then_some(due);
            }
            self.opening.waiting.pop_front();
            let opening = Stream::connect(planned).and_then(|stream| {
                let watch = Watch::ReadAndWrite;
                self.poller.add(stream.as_fd(), planned.token, watch)?;
                Ok(stream)
            });
            match opening {
                Ok(stream) => {
                    self.opening.under_way += 1;
                    self.sockets[planned.token as usize] = Socket::Stream(Box::new(stream));
                }
                Err(error) => self.not_opened(planned, error),
            }
        }
        None
    }

    fn not_opened(&mut self, planned: Planned, error: io::Error) {
        self.counts.connects_failed += 1;
        self.opening.error = Some((planned.remote, error));
        self.try_again(planned);
    }

    fn try_again(&mut self, planned: Planned) {
        let due = Instant::now() + PAUSE_BEFORE_CONNECTING;
        self.opening.waiting.push_back((due, planned));
    }

    fn accept(&mut self, token: u32, traffic: &mut impl Traffic) {
        loop {
            let Some(Socket::Listener(listener)) = self.sockets.get(token as usize) else {
                return;
            };
            let (accepted, remote) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.counts.accept_errors += 1;
                    return;
                }
            };
            let token = match self.free.pop() {
                Some(token) => token,
                None => {
                    let Ok(token) = self.next_token() else { return };
                    self.sockets.push(Socket::Closed);
                    token
                }
            };
            let Some(id) = self.routes.add_stranger(token, remote) else {
                self.counts.connections_refused += 1;
                self.free.push(token);
                continue;
            };
            let stream = Stream::accepted(accepted, id).and_then(|stream| {
                self.poller.add(stream.as_fd(), token, Watch::Read)?;
                Ok((stream.local_addr()?, stream))
            });
            match stream {
                Ok((local, stream)) => {
                    self.counts.connections_accepted += 1;
                    self.sockets[token as usize] = Socket::Stream(Box::new(stream));
                    let connection = Connection {
                        transport: Transport::Tcp,
                        local,
                        remote,
                    };
                    traffic.opened(id, connection);
                }
                Err(_) => {
                    self.counts.accept_errors += 1;
                    self.routes.remove(id);
                    self.free.push(token);
                }
            }
        }
    }

    fn read_stream(&mut self, token: u32, traffic: &mut impl Traffic) {
        for _ in 0..BATCHES_AT_ONCE {
            let Some(Socket::Stream(stream)) = self.sockets.get_mut(token as usize) else {
                return;
            };
            let (filled, is_full) = match stream.read(&mut self.room, READ) {
                Read::Octets { filled, is_full } => (filled, is_full),
                Read::Nothing => return,
                Read::End => return self.close(token, traffic),
            };
            let received = Instant::now();
            let id = stream.id();
            let mut octets = &self.room[..filled];
            let broken = loop {
                match stream.framer.next(octets) {
                    Ok(Some(Frame::Message(length))) => {
                        self.counts.messages_received += 1;
                        let (message, rest) = octets.split_at(length);
                        traffic.message(received, received, id, message);
                        octets = rest;
                    }
                    Ok(Some(Frame::KeepAlive(length))) => {
                        self.counts.keep_alives += 1;
                        octets = &octets[length..];
                    }
                    Ok(None) => break false,
                    Err(_) => break true,
                }
            };
            stream.keep(octets);
            self.flush(traffic);
            if broken {
                self.counts.malformed += 1;
                return self.close(token, traffic);
            }
            if !is_full {
                return;
            }
        }
    }

    /// A connection has room again, or has been opened.
    fn write_on(&mut self, token: u32, traffic: &mut impl Traffic) {
        let Some(Socket::Stream(stream)) = self.sockets.get_mut(token as usize) else {
            return;
        };
        if stream.is_opening() {
            self.opening.under_way -= 1;
            match stream.opened() {
                Ok((local, remote)) => {
                    self.counts.connections_opened += 1;
                    let connection = Connection {
                        transport: Transport::Tcp,
                        local,
                        remote,
                    };
                    traffic.opened(stream.id(), connection);
                }
                Err(error) => {
                    let planned = stream.planned();
                    self.sockets[token as usize] = Socket::Closed;
                    if let Some(planned) = planned {
                        self.not_opened(planned, error);
                    }
                    return;
                }
            }
        }
        if stream.write_on(&self.poller, token).is_err() {
            self.close(token, traffic);
        }
    }

    /// A connection has ended: the engine is told, and where it is one of ours it is opened again.
    fn close(&mut self, token: u32, traffic: &mut impl Traffic) {
        let Some(Socket::Stream(stream)) = self.sockets.get_mut(token as usize) else {
            return;
        };
        self.counts += stream.traffic();
        let (id, planned) = (stream.id(), stream.planned());
        // Closed with the stream, the socket is watched no more.
        self.sockets[token as usize] = Socket::Closed;
        traffic.lost(Instant::now(), id);
        match planned {
            Some(planned) => self.try_again(planned),
            None => {
                self.routes.remove(id);
                self.free.push(token);
            }
        }
    }
}

impl PlainCarrier {
    /// Sends what has been put into the batch: datagrams of a socket in one call, octets of a connection
    /// in one write.
    fn send_written(&mut self) {
        let mut next = 0;
        while let Some(range) = self.send_batch.socket_range(next) {
            next = range.end;
            let Some(socket) = self.sockets.get_mut(range.token as usize) else {
                self.counts.sends_failed += range.len();
                continue;
            };
            match socket {
                Socket::Udp { socket, .. } => {
                    let (octets, slices) = self.send_batch.datagrams(range);
                    let mut counted = Counted::default();
                    send_datagrams(socket, octets, slices, &mut counted);
                    self.counts.messages_sent += counted.sent;
                    self.counts.packets_sent += counted.sent;
                    self.counts.bytes_sent += counted.bytes;
                    self.counts.sends_failed += counted.failed;
                }
                Socket::Stream(stream) => {
                    let octets = self.send_batch.octets(range);
                    match stream.write(octets, &self.poller, range.token) {
                        true => self.counts.messages_sent += range.len(),
                        false => self.counts.sends_failed += range.len(),
                    }
                }
                Socket::Listener(_) | Socket::Closed => self.counts.sends_failed += range.len(),
            }
        }
    }
}

/// What became of datagrams.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    sent: u64,
    bytes: u64,
    failed: u64,
}

/// How long the kernel's send buffer may have no room; a link at its limit has some again soon.
const SEND_TIMEOUT: Duration = Duration::from_millis(20);

fn send_datagrams(
    socket: &PlainSocket,
    octets: &[u8],
    mut slices: &[DatagramSlice],
    counted: &mut Counted,
) {
    let mut waited = false;
    while !slices.is_empty() {
        match socket.send(octets, slices) {
            Ok(sent) => {
                let (gone, rest) = slices.split_at(sent);
                slices = rest;
                let bytes = gone
                    .iter()
                    .map(|slice| slice.length + headers(slice.destination));
                counted.bytes += bytes.sum::<usize>() as u64;
                counted.sent += sent as u64;
                waited = false;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !waited => {
                wait_for_room(socket, SEND_TIMEOUT);
                waited = true;
            }
            // Lost, as a network loses.
            Err(_) => {
                slices = &slices[1..];
                counted.failed += 1;
            }
        }
    }
}

/// Octets of the IP and UDP headers of a datagram to or from an address.
fn headers(address: SocketAddr) -> usize {
    match address {
        SocketAddr::V4(_) => 20 + 8,
        SocketAddr::V6(_) => 40 + 8,
    }
}

/// A datagram of nothing but line ends (RFC 5626 section 3.5.1), or of nothing.
fn is_keep_alive(octets: &[u8]) -> bool {
    octets.len() <= 4 && octets.iter().all(|octet| matches!(octet, b'\r' | b'\n'))
}
