//! One TCP on one host: smoltcp between queues of IP packets, on the virtual clock.

mod config;
mod device;

pub use config::{Congestion, TcpConfig};

use bytes::Bytes;
use device::Device;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::{Duration as TcpDuration, Instant as TcpInstant};
use smoltcp::wire::{HardwareAddress, IpCidr, IpEndpoint};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// Names a connection of one [`TcpStack`]; never used again for another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TcpId(u64);

/// Something that happened to a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpEvent {
    /// A peer has opened a connection to a listener.
    Accepted {
        /// The connection.
        id: TcpId,
        /// The listener's port.
        port: u16,
        /// Where the peer is.
        remote: SocketAddr,
    },
    /// A connection that was opened is up.
    Connected(TcpId),
    /// A connection is over, in whatever way. What was received before can still be read.
    Closed(TcpId),
}

/// The TCP of one host. It is fed with IP packets and the time, and polled for packets and events.
///
/// Times are told to it in whole microseconds since `start`; its timers count milliseconds.
pub struct TcpStack {
    start: Instant,
    interface: Interface,
    device: Device,
    sockets: SocketSet<'static>,
    connections: BTreeMap<TcpId, Connection>,
    listeners: Vec<Listener>,
    events: VecDeque<TcpEvent>,
    next_id: u64,
    next_port: u16,
    /// Users have done something since the last poll.
    is_dirty: bool,
    next_timeout: Option<Instant>,
}

#[derive(Debug)]
struct Connection {
    socket: SocketHandle,
    /// The listener's port, of one that was not opened here.
    accepted_at: Option<u16>,
    state: ConnectionState,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ConnectionState {
    Opening,
    Up,
    Over,
}

/// A port on which one socket waits at any time for the next connection.
#[derive(Debug)]
struct Listener {
    port: u16,
    config: TcpConfig,
    waiting: SocketHandle,
}

impl TcpStack {
    /// A TCP behind these addresses, of which the first eight count. Its clock began at `start`; its
    /// links have this MTU, in bytes. The seed makes its initial sequence numbers.
    pub fn new(start: Instant, addresses: &[IpAddr], mtu: usize, seed: u64) -> TcpStack {
        let mut device = Device::new(mtu);
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut device, TcpInstant::ZERO);
        interface.update_ip_addrs(|list| {
            for &address in addresses {
                // Everybody is on the link: routes are the simulation's business. More than the
                // list holds are left out.
                let _ = list.push(IpCidr::new(address.into(), 0));
            }
        });
        TcpStack {
            start,
            interface,
            device,
            sockets: SocketSet::new(Vec::new()),
            connections: BTreeMap::new(),
            listeners: Vec::new(),
            events: VecDeque::new(),
            next_id: 0,
            next_port: FIRST_EPHEMERAL_PORT,
            is_dirty: false,
            next_timeout: None,
        }
    }

    /// Accepts connections to a port, with these settings, from now on. On port 0 nothing can be
    /// accepted.
    pub fn listen(&mut self, port: u16, config: TcpConfig) {
        let waiting = self.sockets.add(listening_socket(port, config));
        self.listeners.push(Listener {
            port,
            config,
            waiting,
        });
    }

    /// Opens a connection from one of our addresses. One that cannot be opened, to port 0 or
    /// between versions of IP, is closed at once.
    pub fn connect(&mut self, local: IpAddr, remote: SocketAddr, config: TcpConfig) -> TcpId {
        let mut socket = new_socket(config);
        let port = self.ephemeral_port();
        let opened = socket.connect(
            self.interface.context(),
            IpEndpoint::from(remote),
            (local, port),
        );
        let socket = self.sockets.add(socket);
        let id = self.add(socket, None);
        if opened.is_err() {
            self.look_at(id);
        }
        self.is_dirty = true;
        id
    }

    /// Takes as many of these bytes as there is room for, and says how many that are; 0 on a
    /// connection that is not up.
    pub fn send(&mut self, id: TcpId, bytes: &[u8]) -> usize {
        let Some(socket) = self.socket_mut(id) else {
            return 0;
        };
        let sent = socket.send_slice(bytes).unwrap_or(0);
        self.is_dirty |= sent > 0;
        sent
    }

    /// Whether there is room for a byte, on a connection that is up.
    pub fn can_send(&self, id: TcpId) -> bool {
        self.socket(id).is_some_and(Socket::can_send)
    }

    /// Bytes that are not acknowledged or wait to be sent.
    pub fn send_queue(&self, id: TcpId) -> usize {
        self.socket(id).map_or(0, Socket::send_queue)
    }

    /// All bytes that have come in order and were not read yet.
    pub fn receive(&mut self, id: TcpId) -> Vec<u8> {
        let mut bytes = Vec::new();
        let Some(socket) = self.socket_mut(id) else {
            return bytes;
        };
        while socket.can_recv() {
            let part = socket.recv(|part| {
                bytes.extend_from_slice(part);
                (part.len(), part.len())
            });
            if part.is_err() {
                break;
            }
        }
        self.is_dirty |= !bytes.is_empty();
        bytes
    }

    /// Ends the connection in good order, after what was sent.
    pub fn close(&mut self, id: TcpId) {
        if let Some(socket) = self.socket_mut(id) {
            socket.close();
            self.is_dirty = true;
        }
    }

    /// Ends the connection at once.
    pub fn abort(&mut self, id: TcpId) {
        if let Some(socket) = self.socket_mut(id) {
            socket.abort();
            self.is_dirty = true;
        }
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<TcpEvent> {
        self.events.pop_front()
    }

    /// Takes an IP packet that has come. What is none, or not for us, is dropped.
    pub fn handle_packet(&mut self, now: Instant, packet: Bytes) {
        self.device.received.push_back(packet);
        self.poll(now);
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.poll(now);
    }

    /// When [`TcpStack::handle_timeout`] is to be called.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.next_timeout
    }

    /// The next IP packet to be sent. To be asked after each of the calls above until there is
    /// none.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Bytes> {
        if self.is_dirty {
            self.poll(now);
        }
        self.device.to_send.pop_front()
    }

    fn poll(&mut self, now: Instant) {
        let time = TcpInstant::from_micros((now - self.start).as_micros() as i64);
        self.is_dirty = false;
        self.interface
            .poll(time, &mut self.device, &mut self.sockets);
        self.renew_listeners();
        let ids: Vec<TcpId> = self.connections.keys().copied().collect();
        for id in ids {
            self.look_at(id);
        }
        let next = self.interface.poll_at(time, &self.sockets);
        self.next_timeout = next.map(|at| {
            let at = self.start + Duration::from_micros(at.total_micros().max(0) as u64);
            // It has just been polled: what it cannot do now it can do when the clock has moved.
            at.max(now + TICK)
        });
    }

    /// Puts a new socket where one has taken up a connection.
    fn renew_listeners(&mut self) {
        for index in 0..self.listeners.len() {
            let Listener {
                port,
                config,
                waiting,
            } = self.listeners[index];
            let state = self.sockets.get::<Socket<'_>>(waiting).state();
            // Closed is one that could not begin to listen.
            if matches!(state, State::Listen | State::Closed) {
                continue;
            }
            self.add(waiting, Some(port));
            self.listeners[index].waiting = self.sockets.add(listening_socket(port, config));
        }
    }

    fn add(&mut self, socket: SocketHandle, accepted_at: Option<u16>) -> TcpId {
        let id = TcpId(self.next_id);
        self.next_id += 1;
        let connection = Connection {
            socket,
            accepted_at,
            state: ConnectionState::Opening,
        };
        self.connections.insert(id, connection);
        id
    }

    /// Tells what has become of a connection.
    fn look_at(&mut self, id: TcpId) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let socket = self.sockets.get::<Socket<'_>>(connection.socket);
        let state = match socket.state() {
            // A listening socket whose SYN was taken back listens again.
            State::Closed | State::TimeWait | State::Listen => ConnectionState::Over,
            State::SynSent | State::SynReceived => ConnectionState::Opening,
            _ => ConnectionState::Up,
        };
        let before = std::mem::replace(&mut connection.state, state);
        if state == before {
            return;
        }
        let up = match (connection.accepted_at, socket.remote_endpoint()) {
            (Some(port), Some(remote)) => Some(TcpEvent::Accepted {
                id,
                port,
                remote: SocketAddr::new(remote.addr.into(), remote.port),
            }),
            (Some(_), None) => None,
            (None, _) => Some(TcpEvent::Connected(id)),
        };
        match (before, state) {
            (ConnectionState::Opening, ConnectionState::Up) => self.events.extend(up),
            (ConnectionState::Opening, ConnectionState::Over)
                if connection.accepted_at.is_some() =>
            {
                // Nobody has heard of it.
                let socket = connection.socket;
                self.connections.remove(&id);
                self.sockets.remove(socket);
            }
            (_, ConnectionState::Over) => self.events.push_back(TcpEvent::Closed(id)),
            _ => {}
        }
    }

    fn socket(&self, id: TcpId) -> Option<&Socket<'static>> {
        let connection = self.connections.get(&id)?;
        Some(self.sockets.get(connection.socket))
    }

    fn socket_mut(&mut self, id: TcpId) -> Option<&mut Socket<'static>> {
        let connection = self.connections.get(&id)?;
        Some(self.sockets.get_mut(connection.socket))
    }

    fn ephemeral_port(&mut self) -> u16 {
        let port = self.next_port;
        self.next_port = port.checked_add(1).unwrap_or(FIRST_EPHEMERAL_PORT);
        port
    }
}

impl fmt::Debug for TcpStack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TcpStack")
            .field("connections", &self.connections)
            .field("listeners", &self.listeners)
            .finish_non_exhaustive()
    }
}

fn new_socket(config: TcpConfig) -> Socket<'static> {
    let buffer = |bytes: usize| SocketBuffer::new(vec![0; bytes.max(LEAST_BUFFER)]);
    let mut socket = Socket::new(buffer(config.receive_window), buffer(config.send_buffer));
    socket.set_congestion_control(match config.congestion {
        Congestion::Reno => CongestionControl::Reno,
        Congestion::None => CongestionControl::None,
    });
    let delay = |delay: Duration| TcpDuration::from_micros(delay.as_micros() as u64);
    socket.set_ack_delay(config.ack_delay.map(delay));
    socket.set_nagle_enabled(config.nagle);
    socket
}

fn listening_socket(port: u16, config: TcpConfig) -> Socket<'static> {
    let mut socket = new_socket(config);
    // Fails for port 0 alone; then it hears nothing.
    let _ = socket.listen(port);
    socket
}

/// The resolution of its clock, in which it is not polled again for the same thing.
const TICK: Duration = Duration::from_micros(1);

/// The dynamic ports of RFC 6335 section 6.
const FIRST_EPHEMERAL_PORT: u16 = 49_152;

/// Room for a segment.
const LEAST_BUFFER: usize = 1460;
