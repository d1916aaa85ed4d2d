//! SIP over UDP: a datagram is a message (RFC 3261 section 18.3).

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use sip::stun::{answer_binding, is_stun};
use sip::{ConnectionId, Flow, Transport};
use tap::Direction;
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};
use udp_net::{Batch, Datagram, Received, SendOutcome, UdpConfig, UdpSocket, UdpStatistics};

use crate::config::SipNetConfig;
use crate::connections::{Outgoing, Refused};
use crate::impairments::Impairments;
use crate::incoming::{CloseReason, SendError};
use crate::keep_alive::is_keep_alive;
use crate::listen::Listen;
use crate::shared::{Shared, WaysIn};
use crate::undelivered;

/// All UDP sockets of SIP: those that listen, which stay, and those that were opened to send from.
#[derive(Debug)]
pub(crate) struct UdpPorts {
    /// For each listener a socket of each worker.
    listeners: Vec<Vec<Arc<UdpPort>>>,
    clients: RwLock<Clients>,
    impairments: Arc<Impairments>,
    max_clients: usize,
    queue_messages: usize,
}

#[derive(Debug, Default)]
struct Clients {
    by_id: HashMap<ConnectionId, Arc<UdpPort>>,
    /// Where no socket listens, one of each address family serves all who send to a bare address.
    common: [Option<Arc<UdpPort>>; 2],
    /// What was counted by sockets that are closed.
    closed: UdpStatistics,
}

/// One UDP socket.
#[derive(Debug)]
pub(crate) struct UdpPort {
    pub(crate) id: ConnectionId,
    pub(crate) local: SocketAddr,
    socket: UdpSocket,
    /// What waits for room in the kernel's send buffer.
    queue: mpsc::Sender<Waiting>,
    /// How many of them there are, with the one that is being sent: what comes later must not overtake them.
    waiting: AtomicUsize,
    close: Notify,
}

#[derive(Debug)]
struct Waiting {
    datagram: Datagram,
    outgoing: Outgoing,
}

/// A socket and the end of its queue that its task takes from.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) port: Arc<UdpPort>,
    queue: mpsc::Receiver<Waiting>,
}

/// Binds a listener's sockets, one for each worker on its runtime, all to one address. `id` names
/// them from now on.
pub(crate) fn bind_listener(
    address: SocketAddr,
    id: ConnectionId,
    impairments: &Impairments,
    queue_messages: usize,
    workers: &[Handle],
) -> io::Result<Vec<Bound>> {
    let mut sockets: Vec<Bound> = Vec::with_capacity(workers.len());
    for worker in workers {
        let _runtime = worker.enter();
        let address = sockets.first().map_or(address, |first| first.port.local);
        let bound = bind(
            address,
            id,
            impairments,
            queue_messages,
            !sockets.is_empty(),
        )?;
        // The first is bound alone, so that a port of somebody else is not taken for ours.
        if sockets.is_empty() && workers.len() > 1 {
            bound.port.socket.share_address()?;
        }
        sockets.push(bound);
    }
    Ok(sockets)
}

/// Binds one socket, be it to an address that another one of ours shares. `id` names it from now on.
pub(crate) fn bind(
    address: SocketAddr,
    id: ConnectionId,
    impairments: &Impairments,
    queue_messages: usize,
    shares: bool,
) -> io::Result<Bound> {
    let config = UdpConfig {
        impairment: impairments.next(),
        // SIP messages are as large as they are.
        allow_fragmentation: true,
        // Over a network signalling seldom has several messages of one size for one peer, and captures stay true.
        segmentation_offload: false,
        reuse_port: shares,
        // What waits in the kernel waits for the server, too.
        arrival_times: true,
        network_errors: true,
        ..UdpConfig::default()
    };
    let socket = UdpSocket::bind(address, config)?;
    let (sender, queue) = mpsc::channel(queue_messages);
    let local = socket.local_addr();
    let port = Arc::new(UdpPort {
        id,
        local,
        socket,
        queue: sender,
        waiting: AtomicUsize::new(0),
        close: Notify::new(),
    });
    Ok(Bound { port, queue })
}

impl UdpPorts {
    /// The sockets that listen, those of a listener by worker; the listeners are named 0, 1, 2, ...:
    /// they are found without a lock.
    pub(crate) fn new(
        listeners: Vec<Vec<Arc<UdpPort>>>,
        impairments: Arc<Impairments>,
        config: &SipNetConfig,
    ) -> UdpPorts {
        UdpPorts {
            listeners,
            clients: RwLock::default(),
            impairments,
            max_clients: config.limits.max_connections,
            queue_messages: config.limits.write_queue_messages.max(1),
        }
    }

    /// The socket of this name; where it listens, the worker's.
    pub(crate) fn get(&self, id: ConnectionId, worker: usize) -> Option<Arc<UdpPort>> {
        let listener = usize::try_from(id.0)
            .ok()
            .and_then(|index| self.listeners.get(index));
        match listener {
            Some(sockets) => of_worker(sockets, worker).cloned(),
            None => {
                let clients = self.clients.read().unwrap_or_else(PoisonError::into_inner);
                clients.by_id.get(&id).cloned()
            }
        }
    }

    /// The socket of a flow. One that an earlier process has written down names a socket of that one:
    /// what counts is the address that the peer has seen.
    pub(crate) fn along(&self, flow: &Flow, worker: usize) -> Option<Arc<UdpPort>> {
        let is_at = |port: &UdpPort| {
            let ip = port.local.ip();
            ip == flow.local.ip() || ip.is_unspecified() && ip.is_ipv4() == flow.local.is_ipv4()
        };
        let has_port = |port: &UdpPort| port.local.port() == flow.local.port();
        self.get(flow.connection, worker)
            .filter(|port| has_port(port))
            .or_else(|| {
                self.listeners
                    .iter()
                    .filter_map(|sockets| of_worker(sockets, worker))
                    .find(|port| has_port(port) && is_at(port))
                    .cloned()
            })
    }

    /// A worker's socket for sending to an address: the listener that suits it best, or one that was
    /// opened for such addresses.
    pub(crate) fn toward(
        &self,
        shared: &Arc<Shared>,
        remote: SocketAddr,
        worker: usize,
    ) -> Result<Arc<UdpPort>, SendError> {
        let listeners = self
            .listeners
            .iter()
            .filter_map(|sockets| of_worker(sockets, worker))
            .map(|port| (port.local, port));
        if let Some((_, port)) = shared.routes.choose(remote, listeners) {
            return Ok(port.clone());
        }
        let family = usize::from(remote.is_ipv6());
        {
            let clients = self.clients.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(port) = &clients.common[family] {
                return Ok(port.clone());
            }
        }
        let any: IpAddr = match remote {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        self.open(shared, any, Some(family))
    }

    /// A socket of one's own for talking to an address.
    pub(crate) fn private(
        &self,
        shared: &Arc<Shared>,
        remote: SocketAddr,
    ) -> Result<Arc<UdpPort>, SendError> {
        let source = shared.routes.source(remote.ip())?;
        self.open(shared, source, None)
    }

    /// How many client sockets are open, and what all sockets have counted.
    pub(crate) fn statistics(&self) -> (usize, UdpStatistics) {
        let clients = self.clients.read().unwrap_or_else(PoisonError::into_inner);
        let mut sum = clients.closed;
        for port in self
            .listeners
            .iter()
            .flatten()
            .chain(clients.by_id.values())
        {
            sum.add(&port.socket.statistics());
        }
        (clients.by_id.len(), sum)
    }

    fn open(
        &self,
        shared: &Arc<Shared>,
        ip: IpAddr,
        common: Option<usize>,
    ) -> Result<Arc<UdpPort>, SendError> {
        if shared.tasks.is_stopping() {
            return Err(SendError::ShutDown);
        }
        let mut clients = self.clients.write().unwrap_or_else(PoisonError::into_inner);
        // Another may have opened the common one meanwhile.
        if let Some(port) = common.and_then(|family| clients.common[family].as_ref()) {
            return Ok(port.clone());
        }
        if clients.by_id.len() >= self.max_clients {
            return Err(SendError::TooManyConnections);
        }
        let id = shared.connections.new_id();
        let _runtime = shared.tasks.enter();
        let bound = bind(
            SocketAddr::new(ip, 0),
            id,
            &self.impairments,
            self.queue_messages,
            false,
        )?;
        let port = bound.port.clone();
        clients.by_id.insert(id, port.clone());
        if let Some(family) = common {
            clients.common[family] = Some(port.clone());
        }
        shared
            .counters(Transport::Udp)
            .connections_opened
            .increment();
        shared.tasks.spawn(run_client(shared.clone(), bound));
        Ok(port)
    }

    fn remove(&self, port: &UdpPort) {
        let mut clients = self.clients.write().unwrap_or_else(PoisonError::into_inner);
        if clients.by_id.remove(&port.id).is_some() {
            clients.closed.add(&port.socket.statistics());
        }
        for common in &mut clients.common {
            common.take_if(|other| other.id == port.id);
        }
    }
}

/// The worker's socket among those of a listener.
fn of_worker(sockets: &[Arc<UdpPort>], worker: usize) -> Option<&Arc<UdpPort>> {
    sockets.get(worker).or(sockets.first())
}

impl UdpPort {
    /// The flow between this socket and a remote address.
    pub(crate) fn flow(&self, local: SocketAddr, remote: SocketAddr) -> Flow {
        Flow {
            transport: Transport::Udp,
            local,
            remote,
            connection: self.id,
            stream: 0,
        }
    }

    /// Puts what waits for room in the kernel's send buffer behind what waits already.
    fn queue(
        &self,
        shared: &Shared,
        datagram: Datagram,
        mut outgoing: Outgoing,
    ) -> Result<(), Refused> {
        if !outgoing.reserve(&shared.budget) {
            return Err(outgoing.refused(SendError::QueueFull));
        }
        self.waiting.fetch_add(1, Relaxed);
        self.queue
            .try_send(Waiting { datagram, outgoing })
            .map_err(|error| {
                self.waiting.fetch_sub(1, Relaxed);
                match error {
                    mpsc::error::TrySendError::Full(waiting) => {
                        waiting.outgoing.refused(SendError::QueueFull)
                    }
                    mpsc::error::TrySendError::Closed(waiting) => {
                        waiting.outgoing.refused(SendError::Gone)
                    }
                }
            })
    }

    /// Sends without waiting, as many as the kernel has room for; none where others wait for room already.
    fn try_send_all(&self, datagrams: &[Datagram]) -> (usize, SendOutcome) {
        match self.waiting.load(Relaxed) {
            0 => self.socket.try_send_all(datagrams),
            _ => (0, SendOutcome::Blocked),
        }
    }

    /// Records what was sent where a capture of SIP is taken.
    fn capture(&self, shared: &Shared, sent: &[Datagram]) {
        if shared.config.sip_tap.is_none() {
            return;
        }
        for datagram in sent {
            let remote = datagram.destination;
            let local = shared.routes.specific(self.local, remote);
            let ip = datagram.source_ip.unwrap_or(local.ip());
            let flow = self.flow(SocketAddr::new(ip, local.port()), remote);
            shared.capture(&flow, Direction::Outbound, &datagram.payload);
        }
    }

    /// Asks the socket's task to close it. Listening sockets do not heed it.
    pub(crate) fn close(&self) {
        self.close.notify_one();
    }
}

/// Datagrams that leave together: consecutive ones by one socket share a call to the kernel.
#[derive(Debug, Default)]
pub(crate) struct Datagrams {
    port: Option<Arc<UdpPort>>,
    datagrams: Vec<Datagram>,
    outgoing: Vec<Outgoing>,
}

impl Datagrams {
    /// Adds a datagram by a socket. An unspecified `source_ip` leaves the choice to the kernel.
    pub(crate) fn push(
        &mut self,
        shared: &Arc<Shared>,
        port: Arc<UdpPort>,
        remote: SocketAddr,
        source_ip: Option<IpAddr>,
        mut outgoing: Outgoing,
    ) -> Result<(), Refused> {
        if outgoing.payload.len() > max_payload(remote) {
            return Err(outgoing.refused(SendError::TooLarge));
        }
        if self.port.as_ref().is_some_and(|last| last.id != port.id) {
            self.send(shared);
        }
        // Where the socket is bound to one address, the kernel needs no telling.
        let is_wildcard = port.local.ip().is_unspecified();
        self.datagrams.push(Datagram {
            destination: remote,
            source_ip: source_ip.filter(|ip| is_wildcard && !ip.is_unspecified()),
            // It comes back where the datagram does not go.
            payload: std::mem::take(&mut outgoing.payload),
        });
        self.outgoing.push(outgoing);
        self.port = Some(port);
        Ok(())
    }

    /// Sends all at once; what the kernel has no room for is queued behind what waits already.
    pub(crate) fn send(&mut self, shared: &Arc<Shared>) {
        let Some(port) = self.port.take() else {
            return;
        };
        let mut outgoing = self.outgoing.drain(..);
        let mut datagrams = &self.datagrams[..];
        while !datagrams.is_empty() {
            let (sent, outcome) = port.try_send_all(datagrams);
            let counters = shared.counters(Transport::Udp);
            counters.messages_sent.add(sent as u64);
            port.capture(shared, &datagrams[..sent]);
            datagrams = &datagrams[sent..];
            let mut outgoing = outgoing.by_ref().skip(sent);
            match outcome {
                SendOutcome::Sent => {}
                SendOutcome::Failed(error) => {
                    let refused = datagrams.first();
                    datagrams = &datagrams[datagrams.len().min(1)..];
                    if let (Some(mut outgoing), Some(refused)) = (outgoing.next(), refused) {
                        outgoing.payload = refused.payload.clone();
                        shared.not_sent(Transport::Udp, outgoing, send_error(error));
                    }
                }
                SendOutcome::Blocked => {
                    for (datagram, mut outgoing) in datagrams.iter().zip(outgoing) {
                        outgoing.payload = datagram.payload.clone();
                        if let Err(refused) = port.queue(shared, datagram.clone(), outgoing) {
                            let (outgoing, error) = *refused;
                            shared.not_sent(Transport::Udp, outgoing, error);
                        }
                    }
                    break;
                }
            }
        }
        drop(outgoing);
        self.datagrams.clear();
    }
}

/// Serves a socket that listens until everything stops.
pub(crate) async fn run_listener(shared: Arc<Shared>, bound: Bound) {
    let Bound { port, mut queue } = bound;
    let reason = tokio::select! {
        reason = serve(&shared, &port, &mut queue) => reason,
        () = shared.tasks.stopped() => CloseReason::Local,
    };
    if reason != CloseReason::Local {
        let listen = Listen {
            transport: Transport::Udp,
            address: port.local,
        };
        shared.listener_failed(listen, &reason);
    }
}

/// Serves a client socket until it is closed.
async fn run_client(shared: Arc<Shared>, bound: Bound) {
    let Bound { port, mut queue } = bound;
    let reason = tokio::select! {
        reason = serve(&shared, &port, &mut queue) => reason,
        () = shared.tasks.stopped() => CloseReason::Local,
        () = port.close.notified() => CloseReason::Local,
    };
    shared.udp.remove(&port);
    queue.close();
    while let Some(waiting) = queue.recv().await {
        shared.not_sent(Transport::Udp, waiting.outgoing, SendError::Gone);
    }
    tracing::debug!(local = %port.local, %reason, "UDP socket closed");
}

async fn serve(
    shared: &Arc<Shared>,
    port: &UdpPort,
    queue: &mut mpsc::Receiver<Waiting>,
) -> CloseReason {
    tokio::select! {
        reason = receive(shared, port) => reason,
        reason = send_waiting(shared, port, queue) => reason,
    }
}

async fn receive(shared: &Shared, port: &UdpPort) -> CloseReason {
    let mut batch = Batch::new();
    let Some(ways_in) = shared.ways_in() else {
        // A worker that is gone takes its calls with it: nobody is to think that all is well.
        return match shared.tasks.is_stopping() {
            true => CloseReason::Local,
            false => CloseReason::Failed("nobody takes what comes".to_owned()),
        };
    };
    loop {
        if let Err(error) = port.socket.recv(&mut batch).await {
            return CloseReason::Failed(error.to_string());
        }
        for datagram in batch.drain() {
            take(shared, port, &ways_in, datagram);
        }
        while let Some(error) = batch.pop_error() {
            undelivered::report(shared, &error);
        }
        // A socket with datagrams in it is always ready: others get their turn here.
        tokio::task::coop::consume_budget().await;
    }
}

fn take(shared: &Shared, port: &UdpPort, ways_in: &WaysIn, datagram: Received) {
    let Received {
        source,
        destination_ip,
        payload,
        received,
    } = datagram;
    if is_keep_alive(&payload) {
        // No answer: RFC 5626 section 4.4.1 keeps this technique off UDP.
        shared.counters(Transport::Udp).keep_alives.increment();
        return;
    }
    if is_stun(&payload) {
        shared.counters(Transport::Udp).keep_alives.increment();
        if let Some(answer) = answer_binding(&payload, source) {
            let datagram = Datagram {
                destination: source,
                source_ip: destination_ip.filter(|_| port.local.ip().is_unspecified()),
                payload: answer.into(),
            };
            // What finds no room is asked for again (RFC 8489 section 6.2.1).
            port.socket.try_send(&datagram);
        }
        return;
    }
    let ip = destination_ip.unwrap_or(port.local.ip());
    let flow = port.flow(SocketAddr::new(ip, port.local.port()), source);
    shared.deliver_datagram(ways_in, flow, payload, received);
}

/// Sends what found no room in the kernel's buffer, in its order.
async fn send_waiting(
    shared: &Arc<Shared>,
    port: &UdpPort,
    queue: &mut mpsc::Receiver<Waiting>,
) -> CloseReason {
    while let Some(Waiting { datagram, outgoing }) = queue.recv().await {
        let error = loop {
            match port.socket.try_send(&datagram) {
                SendOutcome::Sent => break None,
                SendOutcome::Failed(error) => break Some(error),
                SendOutcome::Blocked => port.socket.writable().await,
            }
        };
        port.waiting.fetch_sub(1, Relaxed);
        match error {
            None => {
                shared.counters(Transport::Udp).messages_sent.increment();
                port.capture(shared, std::slice::from_ref(&datagram));
            }
            Some(error) => shared.not_sent(Transport::Udp, outgoing, send_error(error)),
        }
    }
    CloseReason::Local
}

/// The largest UDP payload: 65,535 bytes less the headers that count among them (RFC 768, RFC 791,
/// RFC 8200 section 3).
fn max_payload(remote: SocketAddr) -> usize {
    match remote {
        SocketAddr::V4(_) => 65_535 - 20 - 8,
        SocketAddr::V6(_) => 65_535 - 8,
    }
}

fn send_error(error: io::Error) -> SendError {
    if error.raw_os_error() == Some(libc::EMSGSIZE) {
        SendError::TooLarge
    } else {
        SendError::from(error)
    }
}
