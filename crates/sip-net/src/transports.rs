//! The handle: start, send, connect, shut down.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::select_all;
use sip::{ConnectionId, Flow, Peer, Transmit, Transport};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::config::SipNetConfig;
use crate::impairments::Impairments;
use crate::incoming::{Incoming, SendError};
use crate::listen::Listen;
use crate::resolve::Resolver;
use crate::sctp::{self, SctpAssociation, SctpListener, SctpStacks};
use crate::shared::Shared;
use crate::start_error::{StartError, StartProblem};
use crate::statistics::WireStatistics;
use crate::stream::{self, StreamListener};
use crate::tcp_counts::TcpCounts;
use crate::tls::{self, Tls, TlsConfig, TlsError};
use crate::udp;

/// The SIP transports of a program; a handle that is cheap to clone.
///
/// Everything stops when [`shutdown`](Transports::shutdown) is called, when the last handle is
/// dropped, when the receiver of [`Incoming`] is dropped, or when a listener fails.
#[derive(Clone, Debug)]
pub struct Transports {
    handle: Arc<Everything>,
    /// Whose messages this handle sends.
    worker: usize,
}

/// Dropped with the last clone of [`Transports`]: then everything stops.
#[derive(Debug)]
struct Everything {
    shared: Arc<Shared>,
    listening: Vec<Listen>,
}

impl Drop for Everything {
    fn drop(&mut self) {
        self.shared.tasks.stop();
    }
}

impl Transports {
    /// Opens all listeners. What arrives comes out of the receiver; several events can be taken at
    /// a time with [`mpsc::Receiver::recv_many`]. It ends when everything has stopped, be it that
    /// nobody asked for it: a listener has failed, which
    /// [`listeners_failed`](WireStatistics::listeners_failed) tells.
    ///
    /// # Errors
    /// The first listener that cannot be opened; those opened before it are closed.
    ///
    /// # Panics
    /// Outside of a tokio runtime: everything runs on the one that this is called on.
    pub fn start(
        config: SipNetConfig,
    ) -> Result<(Transports, mpsc::Receiver<Incoming>), StartError> {
        let (transports, mut receivers) =
            Transports::start_workers(config, vec![Handle::current()])?;
        // One runtime was given.
        Ok((transports, receivers.remove(0)))
    }

    /// As [`start`](Transports::start), with a runtime for each of several workers, of which there
    /// is one at least, and a receiver for each.
    ///
    /// Every worker has a UDP socket of its own for each UDP listener and accepts TCP connections of
    /// its own; the kernel spreads datagrams and connections among them. What arrives is handed to
    /// the worker that the Call-ID says by a keyed hash: to the same one for all messages of a call.
    /// The end of a connection is told to all. Each worker sends by [its handle](Transports::of_worker).
    ///
    /// # Errors
    /// The first listener that cannot be opened; those opened before it are closed.
    pub fn start_workers(
        config: SipNetConfig,
        runtimes: Vec<Handle>,
    ) -> Result<(Transports, Vec<mpsc::Receiver<Incoming>>), StartError> {
        let impairments = Arc::new(Impairments::new(config.impairment.clone()));
        let tls = Tls::new(config.tls.clone(), &config.listeners)?;
        let listeners = Listeners::open(&config, &impairments, &runtimes)?;
        let queue = config.limits.incoming_queue.max(1);
        let (incoming, receivers): (Vec<_>, Vec<_>) =
            runtimes.iter().map(|_| mpsc::channel(queue)).unzip();
        let udp = listeners.udp.iter();
        let udp = udp.map(|sockets| sockets.iter().map(|bound| bound.port.clone()).collect());
        let shared = Arc::new(Shared::new(
            config,
            runtimes,
            incoming.iter().map(mpsc::Sender::downgrade).collect(),
            udp.collect(),
            listeners.stacks,
            tls,
            impairments,
        ));
        for (worker, bound) in listeners.udp.into_iter().flat_map(by_worker) {
            let task = udp::run_listener(shared.clone(), bound);
            shared.tasks.spawn_on(worker, task);
        }
        for (worker, listener) in listeners.streams.into_iter().flat_map(by_worker) {
            let task = stream::accept(shared.clone(), listener);
            shared.tasks.spawn_on(worker, task);
        }
        shared.tasks.spawn_on(0, tls::watch(shared.clone()));
        for (worker, listener) in listeners.sctp.into_iter().enumerate() {
            let task = sctp::accept(shared.clone(), listener);
            shared.tasks.spawn_on(worker, task);
        }
        shared
            .tasks
            .spawn_on(0, keep_open(shared.clone(), incoming));
        let handle = Arc::new(Everything {
            shared,
            listening: listeners.addresses,
        });
        Ok((Transports { handle, worker: 0 }, receivers))
    }

    /// The handle of a worker: what it sends leaves by the worker's sockets, and what fails is told
    /// to the worker.
    #[must_use]
    pub fn of_worker(&self, worker: usize) -> Transports {
        Transports {
            handle: self.handle.clone(),
            worker,
        }
    }

    /// Sends a message without waiting: it is handed to the kernel or put into the bounded queue of
    /// its connection. Where the transmit names a transaction, a failure, now or later, comes back as
    /// [`Incoming::SendFailed`].
    pub fn send(&self, transmit: Transmit) {
        self.send_all([transmit]);
    }

    /// [Sends](Transports::send) several messages; datagrams share calls to the kernel.
    pub fn send_all(&self, transmits: impl IntoIterator<Item = Transmit>) {
        self.shared().send_all(self.worker, transmits);
    }

    /// From now on all workers get what comes as datagrams as [`Incoming::Unread`]; where there are several workers, as far
    /// as whose it is can be told without reading it.
    pub fn leave_datagrams_unread(&self) {
        self.shared().unread.set();
    }

    /// Gives a flow to an address, over the connection that is there or a new one. With `new` the
    /// connection (UDP: the socket; SCTP: the association, from an SCTP port of its own) is opened
    /// in any case and serves this flow alone: messages to the bare address do not use it.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn connect(
        &self,
        transport: Transport,
        remote: SocketAddr,
        new: bool,
    ) -> Result<Flow, SendError> {
        self.connect_to(transport, remote, None, new).await
    }

    /// [`connect`](Transports::connect) to somebody of whom more than the address is known: what a
    /// TLS certificate has to show, further addresses.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn connect_to(
        &self,
        transport: Transport,
        remote: SocketAddr,
        peer: Option<Arc<Peer>>,
        new: bool,
    ) -> Result<Flow, SendError> {
        let shared = self.shared();
        match transport {
            Transport::Udp => {
                let port = if new {
                    shared.udp.private(shared, remote)?
                } else {
                    shared.udp.toward(shared, remote, self.worker)?
                };
                Ok(port.flow(shared.routes.specific(port.local, remote), remote))
            }
            _ => {
                let connection = if new {
                    shared.private_connection_to(transport, remote, peer)?
                } else {
                    shared.connection_to(transport, remote, peer)?
                };
                connection.flow().await
            }
        }
    }

    /// The peer of a connection or association is one that is known: somebody has registered or authenticated by it, or it
    /// is trusted. When there are too many that peers have opened, it does not give way to others.
    pub fn known(&self, connection: ConnectionId) {
        self.shared().connections.known(connection);
    }

    /// Closes a connection, association or client UDP socket; what is queued on it is sent first,
    /// as far as the peer takes it within a second. Listening UDP sockets stay as they are, as does
    /// what is gone already.
    pub fn close(&self, connection: ConnectionId) {
        let shared = self.shared();
        if let Some(connection) = shared.connections.get(connection) {
            connection.close();
        } else if let Some(port) = shared.udp.get(connection, self.worker) {
            port.close();
        }
    }

    /// Reads certificates, keys and authorities again, whether or not the files have changed.
    /// Connections keep what they began with. The files are read before this returns.
    ///
    /// # Errors
    /// What is wrong with them; then what was read before stays in use.
    pub fn reload_certificates(&self) -> Result<(), TlsError> {
        self.shared().tls.reload()
    }

    /// Goes over to other settings of TLS: what listeners show and ask for, named as in
    /// [`SipNetConfig::listeners`](crate::SipNetConfig::listeners), and what we do where we open the connection. A
    /// listener for which they have no certificate keeps what it has; the key log, the interval, and whether servers are
    /// believed unseen (`insecure`) stay as they were at the start. Connections keep what they began with. The files are read before this returns.
    ///
    /// # Errors
    /// What is wrong with them; then everything stays as it was.
    pub fn set_tls(&self, tls: TlsConfig) -> Result<(), TlsError> {
        self.shared().tls.set(tls)
    }

    /// The listeners, in the order of the settings, with the ports that the system chose.
    pub fn listening(&self) -> Vec<Listen> {
        self.handle.listening.clone()
    }

    /// The local UDP addresses under our SCTP (RFC 6951): those of the listeners, and those opened
    /// since to begin associations from.
    pub fn encapsulation_addresses(&self) -> Vec<SocketAddr> {
        self.shared().sctp.encapsulation_addresses()
    }

    /// Lets responses whose connection is gone follow the name in their Via (RFC 3263 section 5). Without that they
    /// go to the address that the request came from, or nowhere. The Via leads to loopback, private and link-local
    /// addresses only where the request came from such a one. The first resolver stays.
    pub fn locate_responses_by(&self, names: Resolver) {
        self.shared().last_resort.resolve_by(names);
    }

    /// The cipher suite that TLS agreed on last with a server that we connected to, by its IANA name.
    pub fn tls_cipher_suite(&self) -> Option<String> {
        self.shared().tls.cipher_suite()
    }

    /// How many SCTP associations are up.
    pub fn sctp_association_count(&self) -> usize {
        self.shared().sctp.associations.count()
    }

    /// Snapshots of SCTP associations that are up, `at_most` so many: what their paths are doing, and their counters. First
    /// those that we have opened, then those of several paths, then all others; of each the oldest first.
    pub async fn sctp_associations(&self, at_most: usize) -> Vec<SctpAssociation> {
        self.shared().sctp.associations.snapshot(at_most).await
    }

    /// The number of the worker that all messages with this Call-ID come to.
    pub fn worker_of(&self, call_id: &str) -> usize {
        self.shared().owner_of_call(Some(call_id))
    }

    /// The address that a peer should send to so that it reaches one of our listeners: what belongs
    /// into Via and Record-Route (RFC 3261 section 18.1.1). On a wildcard listener it is the local
    /// address of the route to the peer. `None` where no listener of this transport and address
    /// family exists.
    pub fn local_address_for(
        &self,
        transport: Transport,
        remote: SocketAddr,
    ) -> Option<SocketAddr> {
        let listeners = self.handle.listening.iter();
        let same = listeners.filter(|listen| listen.transport == transport);
        let routes = &self.shared().routes;
        let (local, _) = routes.choose(remote, same.map(|listen| (listen.address, listen)))?;
        Some(routes.specific(local, remote))
    }

    /// What went over the wire and what was refused, all transports together.
    pub async fn statistics(&self) -> WireStatistics {
        let mut sum = WireStatistics::default();
        for transport in Transport::ALL {
            sum += self.statistics_of(transport).await;
        }
        sum
    }

    /// What went over the wire and what was refused, of one transport.
    pub async fn statistics_of(&self, transport: Transport) -> WireStatistics {
        let shared = self.shared();
        let mut statistics = shared.counters(transport).snapshot();
        match transport {
            Transport::Udp => {
                let (clients, udp) = shared.udp.statistics();
                statistics.connections = clients as u64;
                statistics.packets_sent = udp.packets_sent;
                statistics.packets_received = udp.packets_received;
                statistics.bytes_sent = udp.bytes_sent;
                statistics.bytes_received = udp.bytes_received;
            }
            Transport::Tcp | Transport::Tls | Transport::Ws | Transport::Wss => {
                statistics.connections = shared.connections.count(transport) as u64;
                let traffic = shared.connections.tcp_traffic(transport);
                add_tcp(&mut statistics, traffic.ipv4, IPV4_HEADER);
                add_tcp(&mut statistics, traffic.ipv6, IPV6_HEADER);
            }
            Transport::Sctp => {
                statistics.connections = shared.connections.count(transport) as u64;
                // What carries TLS over SCTP carries SCTP: packets are counted once, here.
                statistics += shared.sctp.statistics().await;
            }
            Transport::TlsSctp => {
                statistics.connections = shared.connections.count(transport) as u64;
            }
        }
        statistics
    }

    /// Stops accepting, sends what is queued, ends connections (FIN) and associations (SHUTDOWN,
    /// RFC 9260 section 9.2), and returns when all is closed or the time limit is reached.
    pub async fn shutdown(&self) {
        let shared = self.shared();
        let limit = shared.config.limits.shutdown_timeout;
        let began = Instant::now();
        shared.tasks.stop();
        if !shared.tasks.ended(limit).await {
            tracing::warn!("some connections did not close in time");
        }
        let left = limit.saturating_sub(began.elapsed());
        if tokio::time::timeout(left, shared.sctp.close())
            .await
            .is_err()
        {
            tracing::warn!("some associations did not shut down in time");
        }
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }
}

/// What belongs to the workers, with their numbers.
fn by_worker<T>(all: Vec<T>) -> impl Iterator<Item = (usize, T)> {
    all.into_iter().enumerate()
}

/// Keeps the queues of events open until everything has stopped.
async fn keep_open(shared: Arc<Shared>, incoming: Vec<mpsc::Sender<Incoming>>) {
    let deaf = incoming.iter().map(|incoming| Box::pin(incoming.closed()));
    tokio::select! {
        // Without a receiver nothing that comes can be delivered.
        _ = select_all(deaf) => shared.tasks.stop(),
        () = shared.tasks.stopped() => {}
    }
    // Connections report their end. Those that do not end in time are not waited for.
    let limit = shared.config.limits.shutdown_timeout;
    let _ = shared.tasks.others_ended(limit).await;
}

/// The listening sockets, before anything runs on them; of UDP and TCP one for each worker.
struct Listeners {
    udp: Vec<Vec<udp::Bound>>,
    streams: Vec<Vec<StreamListener>>,
    sctp: Vec<SctpListener>,
    stacks: SctpStacks,
    addresses: Vec<Listen>,
}

impl Listeners {
    fn open(
        config: &SipNetConfig,
        impairments: &Arc<Impairments>,
        runtimes: &[Handle],
    ) -> Result<Self, StartError> {
        let mut listeners = Listeners {
            udp: Vec::new(),
            streams: Vec::new(),
            sctp: Vec::new(),
            stacks: SctpStacks::new(config, impairments.clone()),
            addresses: Vec::new(),
        };
        let queue_messages = config.limits.write_queue_messages.max(1);
        for &listen in &config.listeners {
            let address = listeners
                .open_one(listen, impairments, queue_messages, runtimes)
                .map_err(|problem| StartError::Listen { listen, problem })?;
            listeners.addresses.push(Listen { address, ..listen });
        }
        Ok(listeners)
    }

    /// Opens one; gives its address with the real port.
    fn open_one(
        &mut self,
        listen: Listen,
        impairments: &Impairments,
        queue_messages: usize,
        runtimes: &[Handle],
    ) -> Result<SocketAddr, StartProblem> {
        match listen.transport {
            Transport::Udp => {
                let id = ConnectionId(self.udp.len() as u64);
                let sockets =
                    udp::bind_listener(listen.address, id, impairments, queue_messages, runtimes)
                        .map_err(StartProblem::from_io)?;
                let address = sockets
                    .first()
                    .map_or(listen.address, |bound| bound.port.local);
                self.udp.push(sockets);
                Ok(address)
            }
            Transport::Tcp | Transport::Tls | Transport::Ws | Transport::Wss => {
                let (sockets, address) =
                    stream::bind_workers(listen, runtimes).map_err(StartProblem::from_io)?;
                self.streams.push(sockets);
                Ok(address)
            }
            Transport::Sctp | Transport::TlsSctp => {
                // The stacks take turns in being served by the workers.
                let worker = self.sctp.len() % runtimes.len();
                let _runtime = runtimes[worker].enter();
                let listener = self.stacks.listen(listen)?;
                let address = listener.address;
                self.sctp.push(listener);
                Ok(address)
            }
        }
    }
}

/// Bytes of an IPv4 header without options.
const IPV4_HEADER: u64 = 20;
/// Bytes of an IPv6 header without extension headers.
const IPV6_HEADER: u64 = 40;
/// Bytes of a TCP header with the time stamp option, which Linux has on by default.
const TCP_HEADER: u64 = 32;

fn add_tcp(statistics: &mut WireStatistics, counts: TcpCounts, ip_header: u64) {
    let header = ip_header + TCP_HEADER;
    statistics.packets_sent += counts.segments_sent;
    statistics.packets_received += counts.segments_received;
    statistics.bytes_sent += counts.payload_bytes_sent + header * counts.segments_sent;
    statistics.bytes_received += counts.payload_bytes_received + header * counts.segments_received;
    statistics.transport_retransmissions += counts.retransmissions;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn everything_stops_when_a_listener_fails() {
        // A socket whose runtime has ended fails when it is asked for datagrams.
        let elsewhere = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let failing = {
            let _elsewhere = elsewhere.enter();
            let address = SocketAddr::from(([127, 0, 0, 1], 0));
            let impairments = Impairments::new(None);
            udp::bind(address, ConnectionId(0), &impairments, 1, false).expect("a port")
        };
        elsewhere.shutdown_background();

        let config = SipNetConfig {
            listeners: vec!["tcp:127.0.0.1:0".parse().expect("a listener")],
            ..SipNetConfig::default()
        };
        let (transports, mut incoming) = Transports::start(config).expect("it starts");
        let shared = transports.shared();
        shared
            .tasks
            .spawn(udp::run_listener(shared.clone(), failing));
        // The handle is still there, and the receiver ends all the same.
        let event = tokio::time::timeout(Duration::from_secs(5), incoming.recv()).await;
        assert!(event.expect("in time").is_none());
        let statistics = transports.statistics_of(Transport::Udp).await;
        assert_eq!(statistics.listeners_failed, 1);
        let address = transports.listening()[0].address;
        assert!(tokio::net::TcpStream::connect(address).await.is_err());
    }

    #[tokio::test]
    async fn a_stop_that_was_asked_for_is_no_failure() {
        let config = SipNetConfig {
            listeners: ["udp:127.0.0.1:0", "tcp:127.0.0.1:0", "sctp:127.0.0.1:5060"]
                .iter()
                .map(|text| text.parse().expect("a listener"))
                .collect(),
            encapsulation_port: 0,
            ..SipNetConfig::default()
        };
        let (transports, mut incoming) = Transports::start(config).expect("it starts");
        transports.shutdown().await;
        assert!(incoming.recv().await.is_none());
        assert_eq!(transports.statistics().await.listeners_failed, 0);
    }
}
