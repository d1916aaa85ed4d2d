//! SIP over SCTP (RFC 4168): a user message is a SIP message, in UDP encapsulation (RFC 6951).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use sctp_net::{
    Association, CloseCause, ConnectError, Endpoint, SendInfo, Stack, Tap, UdpCarrierConfig,
};
use sip::{Flow, Message, Transport};
use tokio::sync::mpsc;
use tokio::time::{sleep_until, timeout};

use crate::activity::Activity;
use crate::config::{SipNetConfig, StreamPolicy};
use crate::connections::{Connection, OpenedBy, Outgoing};
use crate::impairments::Impairments;
use crate::incoming::{CloseReason, MalformedReason, SendError};
use crate::keep_alive::{PONG, is_keep_alive, is_ping};
use crate::listen::{Listen, StartProblem};
use crate::shared::{NobodyListens, Shared};
use crate::statistics::WireStatistics;
use crate::trace;

/// The UDP sockets under our SCTP and the SCTP ports on them.
#[derive(Debug)]
pub(crate) struct SctpStacks {
    config: StackConfig,
    listeners: Vec<SctpListener>,
    stacks: Mutex<Stacks>,
}

#[derive(Debug)]
struct StackConfig {
    encapsulation_port: u16,
    peer_encapsulation_port: u16,
    endpoint: sctp::EndpointConfig,
    close_timeout: Duration,
    impairments: Arc<Impairments>,
    tap: Option<Tap>,
}

/// An SCTP port that listens.
#[derive(Clone, Debug)]
pub(crate) struct SctpListener {
    /// The local IP address and SCTP port.
    pub(crate) address: SocketAddr,
    pub(crate) endpoint: Endpoint,
}

#[derive(Debug, Default)]
struct Stacks {
    /// One for each local IP address, the wildcards among them.
    by_ip: Vec<(IpAddr, Stack)>,
    /// Where no SCTP port listens: the ports that associations for all are begun from.
    clients: Vec<(IpAddr, Endpoint)>,
}

impl SctpStacks {
    pub(crate) fn new(config: &SipNetConfig, impairments: Arc<Impairments>) -> SctpStacks {
        SctpStacks {
            config: StackConfig {
                encapsulation_port: config.encapsulation_port,
                peer_encapsulation_port: config.peer_encapsulation_port,
                endpoint: config.sctp.clone(),
                close_timeout: config.limits.shutdown_timeout,
                impairments,
                tap: config.tap.clone(),
            },
            listeners: Vec::new(),
            stacks: Mutex::default(),
        }
    }

    /// Opens an SCTP port to listen on, and the UDP socket under it where there is none yet.
    pub(crate) fn listen(&mut self, address: SocketAddr) -> Result<SctpListener, StartProblem> {
        let stack = self
            .lock()
            .on(address.ip(), &self.config)
            .map_err(|error| {
                if error.kind() == io::ErrorKind::AddrInUse {
                    StartProblem::EncapsulationPortInUse(self.config.encapsulation_port)
                } else {
                    StartProblem::from_io(error)
                }
            })?;
        let endpoint = stack
            .endpoint(address.port(), self.config.endpoint.clone())
            .map_err(StartProblem::from_io)?;
        let address = SocketAddr::new(address.ip(), endpoint.port());
        let listener = SctpListener { address, endpoint };
        self.listeners.push(listener.clone());
        Ok(listener)
    }

    /// The listeners' addresses and SCTP ports.
    pub(crate) fn listeners(&self) -> impl Iterator<Item = (SocketAddr, &SctpListener)> {
        self.listeners
            .iter()
            .map(|listener| (listener.address, listener))
    }

    /// The UDP addresses under all SCTP ports.
    pub(crate) fn encapsulation_addresses(&self) -> Vec<SocketAddr> {
        self.lock()
            .by_ip
            .iter()
            .map(|(_, stack)| stack.local_addr())
            .collect()
    }

    /// What went over the wire.
    pub(crate) async fn statistics(&self) -> WireStatistics {
        let mut sum = WireStatistics::default();
        for stack in self.all() {
            let statistics = stack.statistics().await;
            let (carrier, sctp) = (statistics.carrier, statistics.sctp);
            sum.packets_sent += carrier.packets_sent;
            sum.packets_received += carrier.packets_received;
            sum.bytes_sent += carrier.bytes_sent;
            sum.bytes_received += carrier.bytes_received;
            sum.transport_retransmissions +=
                sctp.retransmitted_by_timeout + sctp.retransmitted_fast;
        }
        sum
    }

    /// Shuts down what is left and closes the UDP sockets.
    pub(crate) async fn close(&self) {
        for stack in self.all() {
            stack.close().await;
        }
    }

    fn all(&self) -> Vec<Stack> {
        self.lock()
            .by_ip
            .iter()
            .map(|(_, stack)| stack.clone())
            .collect()
    }

    /// The SCTP port from which to begin an association: that of the listener that suits the peer
    /// best, else one for all, else, for a private one, a new one.
    fn endpoint_toward(
        &self,
        shared: &Arc<Shared>,
        remote: SocketAddr,
        private: bool,
    ) -> io::Result<Endpoint> {
        let listener = shared.routes.choose(remote, self.listeners());
        if let Some((_, listener)) = listener
            && !private
        {
            return Ok(listener.endpoint.clone());
        }
        let ip = match listener {
            Some((address, _)) => address.ip(),
            None => shared.routes.source(remote.ip())?,
        };
        let mut stacks = self.lock();
        let stack = stacks.on(ip, &self.config)?;
        let config = self.config.endpoint.clone();
        if private {
            // The one that is about to be begun: no peer can begin others.
            return stack.endpoint(
                0,
                sctp::EndpointConfig {
                    max_associations: 1,
                    ..config
                },
            );
        }
        if let Some((_, endpoint)) = stacks.clients.iter().find(|(other, _)| *other == ip) {
            return Ok(endpoint.clone());
        }
        let endpoint = stack.endpoint(0, config)?;
        stacks.clients.push((ip, endpoint.clone()));
        // The peer may open an association of its own for a response (RFC 3261 section 18.1.1).
        let address = SocketAddr::new(ip, endpoint.port());
        let listener = SctpListener {
            address,
            endpoint: endpoint.clone(),
        };
        shared.tasks.spawn(accept(shared.clone(), listener));
        Ok(endpoint)
    }

    fn lock(&self) -> MutexGuard<'_, Stacks> {
        self.stacks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stacks {
    /// The stack on a local IP address, opened where there is none.
    fn on(&mut self, ip: IpAddr, config: &StackConfig) -> io::Result<Stack> {
        if let Some((_, stack)) = self.by_ip.iter().find(|(other, _)| *other == ip) {
            return Ok(stack.clone());
        }
        let stack = Stack::udp(UdpCarrierConfig {
            peer_encapsulation_port: config.peer_encapsulation_port,
            impairment: config.impairments.next(),
            tap: config.tap.clone(),
            close_timeout: config.close_timeout,
            // Signalling seldom has two packets of one size to send at once, and captures stay true.
            segmentation_offload: false,
            ..UdpCarrierConfig::new(SocketAddr::new(ip, config.encapsulation_port))
        })?;
        self.by_ip.push((ip, stack.clone()));
        Ok(stack)
    }
}

/// Accepts associations until everything stops.
pub(crate) async fn accept(shared: Arc<Shared>, listener: SctpListener) {
    let mut stopped = pin!(shared.tasks.stopped());
    loop {
        let accepted = tokio::select! {
            accepted = listener.endpoint.accept() => accepted,
            () = &mut stopped => return,
        };
        let Some(association) = accepted else {
            if !shared.tasks.is_stopping() {
                let listen = Listen {
                    transport: Transport::Sctp,
                    address: listener.address,
                };
                let reason = CloseReason::Failed("the SCTP port is closed".to_owned());
                shared.listener_failed(listen, &reason);
            }
            return;
        };
        let remote = association.peer();
        let counters = shared.counters(Transport::Sctp);
        match shared.connections.accepted(Transport::Sctp, remote) {
            Ok((connection, queue)) => {
                counters.connections_accepted.increment();
                let task = serve(shared.clone(), connection, queue, association);
                shared.tasks.spawn(task);
            }
            Err(error) => {
                counters.connections_refused.increment();
                tracing::debug!(%remote, %error, "association refused");
                association.abort(b"too many associations");
            }
        }
    }
}

/// Begins an association and serves it until it ends.
pub(crate) async fn open(
    shared: Arc<Shared>,
    connection: Arc<Connection>,
    queue: mpsc::Receiver<Outgoing>,
    private: bool,
) {
    let remote = connection.remote;
    let endpoint = match shared.sctp.endpoint_toward(&shared, remote, private) {
        Ok(endpoint) => endpoint,
        Err(error) => {
            return shared
                .connect_failed(&connection, queue, error.into())
                .await;
        }
    };
    let connected = tokio::select! {
        connected = timeout(
            shared.config.limits.connect_timeout,
            endpoint.connect(remote.ip(), remote.port(), None),
        ) => connected.map_err(|_| SendError::ConnectTimeout).and_then(|up| up.map_err(connect_error)),
        () = shared.tasks.stopped() => Err(SendError::ShutDown),
        () = connection.close_requested() => Err(SendError::Gone),
    };
    match connected {
        Ok(association) => {
            shared
                .counters(Transport::Sctp)
                .connections_opened
                .increment();
            serve(shared, connection, queue, association).await;
        }
        Err(error) => shared.connect_failed(&connection, queue, error).await,
    }
    if private {
        endpoint.close().await;
    }
}

/// How long an association that is to end may take to send what is queued.
const FAREWELL: Duration = Duration::from_secs(1);

async fn serve(
    shared: Arc<Shared>,
    connection: Arc<Connection>,
    mut queue: mpsc::Receiver<Outgoing>,
    association: Association,
) {
    let carrier = Carrier {
        shared: &shared,
        connection: &connection,
        flow: Flow {
            transport: Transport::Sctp,
            local: shared
                .routes
                .specific(association.local(), connection.remote),
            remote: connection.remote,
            connection: connection.id,
            stream: 0,
        },
        association: &association,
        activity: Activity::new(),
        awaits_first_message: AtomicBool::new(connection.opened_by == OpenedBy::Peer),
        first_message_by: Instant::now() + shared.config.limits.first_message_timeout,
    };
    connection.opened(carrier.flow);

    let mut sending = None;
    let reason = tokio::select! {
        reason = carrier.receive() => reason,
        reason = carrier.send(&mut queue, &mut sending) => reason,
        reason = carrier.idle() => reason,
        () = shared.tasks.stopped() => CloseReason::Local,
        () = connection.close_requested() => CloseReason::Local,
    };
    shared.connections.retire(&connection);
    match reason {
        CloseReason::Local | CloseReason::Idle | CloseReason::Silent => {
            queue.close();
            let _ = timeout(FAREWELL, carrier.send(&mut queue, &mut sending)).await;
            let limit = shared.config.limits.shutdown_timeout;
            if timeout(limit, association.shutdown()).await.is_err() {
                association.abort(b"shutdown took too long");
            }
        }
        CloseReason::Stalled => association.abort(b"the peer does not read"),
        _ => {}
    }
    shared
        .connection_ended(&connection, queue, sending.into_iter(), reason)
        .await;
}

/// One association with what its task needs.
struct Carrier<'a> {
    shared: &'a Arc<Shared>,
    connection: &'a Connection,
    flow: Flow,
    association: &'a Association,
    activity: Activity,
    /// Whether the peer has yet to send its first message, by that time.
    awaits_first_message: AtomicBool,
    first_message_by: Instant,
}

impl Carrier<'_> {
    /// Hands what comes to the user until the association ends, and tells why.
    async fn receive(&self) -> CloseReason {
        while let Some(received) = self.association.receive().await {
            let now = Instant::now();
            self.activity.touch(now);
            let flow = Flow {
                stream: received.stream,
                ..self.flow
            };
            if self.take(flow, received.payload, now).await.is_err() {
                return CloseReason::Local;
            }
        }
        match self.association.closed().await {
            CloseCause::Shutdown => CloseReason::Peer,
            CloseCause::Lost(cause) => CloseReason::Failed(format!("{cause:?}")),
            CloseCause::StackClosed => CloseReason::Local,
        }
    }

    async fn take(&self, flow: Flow, payload: Bytes, now: Instant) -> Result<(), NobodyListens> {
        if is_keep_alive(&payload) {
            self.shared
                .counters(Transport::Sctp)
                .keep_alives
                .increment();
            if is_ping(&payload) {
                self.pong(flow.stream);
            }
            return Ok(());
        }
        match Message::read(payload.clone()) {
            Ok(message) => {
                self.awaits_first_message.store(false, Relaxed);
                trace::received(&flow, &payload);
                self.shared.deliver(flow, message, now).await
            }
            // The next user message is one of its own: the association stays.
            Err(error) => {
                let reason = MalformedReason::Read(error);
                self.shared.deliver_malformed(flow, payload, reason).await
            }
        }
    }

    /// Answers a ping (RFC 5626 section 3.5.1). A peer whose queue is full gets something anyway.
    fn pong(&self, stream: u16) {
        let _ = self.connection.push(Outgoing {
            payload: Bytes::from_static(PONG),
            stream,
            call: 0,
            transaction: None,
            fallback: None,
            reserved: None,
        });
    }

    /// Sends what is queued until the queue is closed and empty or the association ends. What is
    /// taken from the queue is in `sending` until the association has it.
    async fn send(
        &self,
        queue: &mut mpsc::Receiver<Outgoing>,
        sending: &mut Option<Outgoing>,
    ) -> CloseReason {
        loop {
            if sending.is_none() {
                *sending = queue.recv().await;
            }
            let Some(outgoing) = sending.as_ref() else {
                return CloseReason::Local;
            };
            let info = self.send_info(outgoing);
            let stalled = self.shared.config.limits.stalled_write_timeout;
            let sent = timeout(
                stalled,
                self.association.send(info, outgoing.payload.clone()),
            )
            .await;
            let error = match sent {
                Ok(Ok(())) => None,
                Ok(Err(sctp_net::SendError::TooLarge)) => Some(SendError::TooLarge),
                // An association that ends is found by `receive`, which knows why.
                Ok(Err(
                    sctp_net::SendError::UnknownAssociation | sctp_net::SendError::ShuttingDown,
                )) => return std::future::pending().await,
                Ok(Err(error)) => Some(SendError::Sctp(error.to_string())),
                Err(_) => return CloseReason::Stalled,
            };
            let Some(outgoing) = sending.take() else {
                continue;
            };
            self.connection.popped(outgoing.payload.len());
            match error {
                None => {
                    self.activity.touch(Instant::now());
                    self.shared
                        .counters(Transport::Sctp)
                        .messages_sent
                        .increment();
                }
                Some(error) => self.shared.not_sent(Transport::Sctp, outgoing, error),
            }
        }
    }

    /// How a message is sent: RFC 4168 section 5 has the payload protocol identifier 0, and section
    /// 5.1 the streams.
    fn send_info(&self, outgoing: &Outgoing) -> SendInfo {
        let streams = self.association.outbound_streams().max(1);
        let ordered = |stream| SendInfo {
            stream,
            ppid: 0,
            unordered: false,
            ..SendInfo::default()
        };
        match self.shared.config.stream_policy {
            StreamPolicy::Unordered => SendInfo {
                unordered: true,
                ..ordered(0)
            },
            // The remainder is less than a u16.
            StreamPolicy::PerCall => ordered((outgoing.call % u32::from(streams)) as u16),
            StreamPolicy::PerFlow => ordered(outgoing.stream % streams),
        }
    }

    /// Ends when nothing has gone over the association for long, or the first message is overdue.
    async fn idle(&self) -> CloseReason {
        loop {
            let (deadline, overdue) = self.deadline();
            sleep_until(deadline.into()).await;
            if self.deadline().0 <= deadline {
                return overdue;
            }
        }
    }

    /// When the peer must have sent something, and what becomes of the association otherwise.
    fn deadline(&self) -> (Instant, CloseReason) {
        let idle = self.activity.last() + self.shared.config.limits.idle_timeout;
        if self.awaits_first_message.load(Relaxed) && self.first_message_by < idle {
            (self.first_message_by, CloseReason::Silent)
        } else {
            (idle, CloseReason::Idle)
        }
    }
}

fn connect_error(error: ConnectError) -> SendError {
    SendError::Sctp(error.to_string())
}
