//! All UDP sockets of SIP.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use sip::{ConnectionId, Flow};
use udp_net::UdpStatistics;

use super::socket::{Binding, SipSocket};
use crate::config::Limits;
use crate::incoming::SendError;
use crate::routes::Routes;

/// All UDP sockets of SIP: those that listen, which stay, and those that were opened to send from.
#[derive(Debug)]
pub(crate) struct UdpSockets {
    /// For each listener a socket of each worker.
    listeners: Vec<Vec<Arc<SipSocket>>>,
    clients: RwLock<Clients>,
    binding: Binding,
    max_clients: usize,
}

#[derive(Debug, Default)]
struct Clients {
    by_id: HashMap<ConnectionId, Arc<SipSocket>>,
    /// Where no socket listens, one of each address family serves all who send to a bare address.
    common: [Option<Arc<SipSocket>>; 2],
    /// What was counted by sockets that are closed.
    closed: UdpStatistics,
}

impl UdpSockets {
    /// The sockets that listen, those of a listener by worker; the listeners are named 0, 1, 2, ...:
    /// they are found without a lock.
    pub(crate) fn new(
        listeners: Vec<Vec<Arc<SipSocket>>>,
        binding: Binding,
        limits: &Limits,
    ) -> UdpSockets {
        UdpSockets {
            listeners,
            clients: RwLock::default(),
            binding,
            max_clients: limits.max_connections,
        }
    }

    /// The socket of this name; where it listens, the worker's.
    pub(crate) fn get(&self, id: ConnectionId, worker: usize) -> Option<Arc<SipSocket>> {
        let listener = usize::try_from(id.0)
            .ok()
            .and_then(|index| self.listeners.get(index));
        match listener {
            Some(sockets) => of_worker(sockets, worker).cloned(),
            None => self.read().by_id.get(&id).cloned(),
        }
    }

    /// The socket of a flow. One that an earlier process has written down names a socket of that one:
    /// what counts is the address that the peer has seen.
    pub(crate) fn of_flow(&self, flow: &Flow, worker: usize) -> Option<Arc<SipSocket>> {
        let is_at = |socket: &SipSocket| {
            let ip = socket.local.ip();
            ip == flow.local.ip() || ip.is_unspecified() && ip.is_ipv4() == flow.local.is_ipv4()
        };
        let has_port = |socket: &SipSocket| socket.local.port() == flow.local.port();
        self.get(flow.connection, worker)
            .filter(|socket| has_port(socket))
            .or_else(|| {
                self.listeners
                    .iter()
                    .filter_map(|sockets| of_worker(sockets, worker))
                    .find(|socket| has_port(socket) && is_at(socket))
                    .cloned()
            })
    }

    /// A worker's socket for sending to an address, where there is one: the listener that suits it best, or one that was
    /// opened for such addresses.
    pub(crate) fn toward(&self, remote: SocketAddr, worker: usize) -> Option<Arc<SipSocket>> {
        let listeners = self
            .listeners
            .iter()
            .filter_map(|sockets| of_worker(sockets, worker))
            .map(|socket| (socket.local, socket));
        match self.routes().choose(remote, listeners) {
            Some((_, socket)) => Some(socket.clone()),
            None => self.read().common[family(remote)].clone(),
        }
    }

    /// Opens a socket for sending to all addresses of this one's family, unless another thread has meanwhile. Returns
    /// whether it is new.
    pub(crate) fn open_common(
        &self,
        remote: SocketAddr,
        id: ConnectionId,
    ) -> Result<(Arc<SipSocket>, bool), SendError> {
        let any: IpAddr = match remote {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let mut clients = self.write();
        if let Some(socket) = &clients.common[family(remote)] {
            return Ok((socket.clone(), false));
        }
        let socket = self.open(&mut clients, any, id)?;
        clients.common[family(remote)] = Some(socket.clone());
        Ok((socket, true))
    }

    /// Opens a socket of one's own for talking to an address.
    pub(crate) fn open_private(
        &self,
        remote: SocketAddr,
        id: ConnectionId,
    ) -> Result<Arc<SipSocket>, SendError> {
        let source = self.routes().source(remote.ip())?;
        self.open(&mut self.write(), source, id)
    }

    /// Takes a client socket out of the table.
    pub(crate) fn remove(&self, socket: &SipSocket) {
        let mut clients = self.write();
        if clients.by_id.remove(&socket.id).is_some() {
            clients.closed += socket.socket.statistics();
        }
        for common in &mut clients.common {
            common.take_if(|other| other.id == socket.id);
        }
    }

    /// How many client sockets are open, and what all sockets have counted.
    pub(crate) fn statistics(&self) -> (usize, UdpStatistics) {
        let clients = self.read();
        let listeners = self.listeners.iter().flatten();
        let mut sum = clients.closed;
        for socket in listeners.chain(clients.by_id.values()) {
            sum += socket.socket.statistics();
        }
        (clients.by_id.len(), sum)
    }

    fn open(
        &self,
        clients: &mut Clients,
        ip: IpAddr,
        id: ConnectionId,
    ) -> Result<Arc<SipSocket>, SendError> {
        if clients.by_id.len() >= self.max_clients {
            return Err(SendError::TooManyConnections);
        }
        let socket = self.binding.bind(SocketAddr::new(ip, 0), id, false)?;
        clients.by_id.insert(id, socket.clone());
        Ok(socket)
    }

    fn routes(&self) -> &Routes {
        &self.binding.routes
    }

    fn read(&self) -> RwLockReadGuard<'_, Clients> {
        self.clients.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Clients> {
        self.clients.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The worker's socket among those of a listener.
fn of_worker(sockets: &[Arc<SipSocket>], worker: usize) -> Option<&Arc<SipSocket>> {
    sockets.get(worker).or(sockets.first())
}

fn family(remote: SocketAddr) -> usize {
    usize::from(remote.is_ipv6())
}
