//! SIP over TCP: messages in a stream, found by Content-Length (RFC 3261 section 18.3).

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use sip::{Flow, Frame, FramingLimits, Message, StreamReader, Transport};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{sleep, sleep_until, timeout};

use crate::activity::Activity;
use crate::connections::{Connection, OpenedBy, Outgoing};
use crate::incoming::{CloseReason, MalformedReason, SendError};
use crate::keep_alive::PONG;
use crate::shared::{NobodyListens, Shared};
use crate::trace;
use crate::unanswered::Unanswered;

/// Opens listening sockets, one for each worker on its runtime, all with one address.
pub(crate) fn bind_workers(
    address: SocketAddr,
    workers: &[Handle],
) -> io::Result<(Vec<TcpListener>, SocketAddr)> {
    let mut bound = address;
    let mut sockets: Vec<TcpListener> = Vec::with_capacity(workers.len());
    for worker in workers {
        let _runtime = worker.enter();
        let socket = bind(bound, !sockets.is_empty())?;
        // The first is bound alone, so that a port of somebody else is not taken for ours.
        if sockets.is_empty() {
            bound = socket.local_addr()?;
            SockRef::from(&socket).set_reuse_port(workers.len() > 1)?;
        }
        sockets.push(socket);
    }
    Ok((sockets, bound))
}

/// Opens a listening socket, be it with an address that another one of ours shares.
fn bind(address: SocketAddr, shares: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        // So that [::] and 0.0.0.0 can be listened on side by side, and no peer appears under an
        // IPv4-mapped address.
        socket.set_only_v6(true)?;
    }
    // Connections of an earlier run that linger (TIME-WAIT) do not keep the port from us.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shares)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Accepts connections until everything stops.
pub(crate) async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    let mut stopped = pin!(shared.tasks.stopped());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stopped => return,
        };
        let counters = shared.counters(Transport::Tcp);
        match accepted {
            Ok((stream, remote)) => match shared.connections.accepted(Transport::Tcp, remote) {
                Ok((connection, queue)) => {
                    counters.connections_accepted.increment();
                    shared
                        .tasks
                        .spawn(serve(shared.clone(), connection, queue, stream));
                }
                Err(error) => {
                    counters.connections_refused.increment();
                    tracing::debug!(%remote, %error, "connection refused");
                }
            },
            Err(error) => {
                counters.accept_errors.increment();
                tracing::warn!(%error, "cannot accept connections");
                // Out of descriptors, say: the connection stays in the backlog, and trying again
                // at once would spin.
                sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

/// Opens a connection and serves it until it ends.
pub(crate) async fn open(
    shared: Arc<Shared>,
    connection: Arc<Connection>,
    queue: mpsc::Receiver<Outgoing>,
) {
    let connected = tokio::select! {
        connected = timeout(
            shared.config.limits.connect_timeout,
            TcpStream::connect(connection.remote),
        ) => connected.map_err(|_| SendError::ConnectTimeout).and_then(|io| io.map_err(SendError::from)),
        () = shared.tasks.stopped() => Err(SendError::ShutDown),
        () = connection.close_requested() => Err(SendError::Gone),
    };
    match connected {
        Ok(stream) => {
            shared
                .counters(Transport::Tcp)
                .connections_opened
                .increment();
            serve(shared, connection, queue, stream).await;
        }
        Err(error) => shared.connect_failed(&connection, queue, error).await,
    }
}

/// How many connections the kernel completes for us in advance.
const BACKLOG: i32 = 1024;

/// How long accepting rests after an error.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// How long a connection that is to end is kept for what is still on its way: the answer to a
/// message that broke the framing, queued messages, the peer's FIN.
const FAREWELL: Duration = Duration::from_secs(1);

/// How many messages one call to the kernel writes.
const WRITE_BATCH: usize = 64;

/// The most that one call to the kernel reads.
const READ_BYTES: usize = 64 * 1024;

thread_local! {
    /// What the kernel writes into; the octets are copied from here at once, so that neither idle
    /// connections nor messages that are kept hold more memory than what was received.
    static READ_BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into());
}

async fn serve(
    shared: Arc<Shared>,
    connection: Arc<Connection>,
    queue: mpsc::Receiver<Outgoing>,
    stream: TcpStream,
) {
    // Both fail only on a connection that has ended already, which reading will tell.
    let local = stream.local_addr().unwrap_or(connection.remote);
    let _ = stream.set_nodelay(true);
    let flow = Flow {
        transport: Transport::Tcp,
        local,
        remote: connection.remote,
        connection: connection.id,
        stream: 0,
    };
    let stream = Arc::new(stream);
    connection.counted_by(stream.clone());
    connection.opened(flow);

    let activity = Activity::new();
    let unanswered = Unanswered::default();
    let mut reader = Reader::new(&shared, &connection, flow, &stream, &activity, &unanswered);
    let mut writer = Writer::new(&shared, &connection, queue, &stream, &activity, &unanswered);
    let mut reason = tokio::select! {
        reason = reader.run() => reason,
        reason = writer.run() => reason,
        () = shared.tasks.stopped() => CloseReason::Local,
        () = connection.close_requested() => CloseReason::Local,
    };
    shared.connections.retire(&connection);
    if reason == CloseReason::Peer {
        reason = answer(&mut writer).await;
    }
    farewell(&stream, &mut writer, &reason).await;
    let Writer { queue, pending, .. } = writer;
    shared
        .connection_ended(&connection, queue, pending.into_iter(), reason)
        .await;
}

/// Goes on writing to a peer that has closed its half, and may wait for responses, until they have
/// been written; tells why the connection ends.
async fn answer(writer: &mut Writer<'_>) -> CloseReason {
    let Writer {
        shared,
        connection,
        stream,
        unanswered,
        ..
    } = *writer;
    connection.half_closed();
    tokio::select! {
        biased;
        () = unanswered.none() => CloseReason::Peer,
        reason = writer.run() => reason,
        // It had closed the other half too, and what was written was refused (RST): the rest takes
        // another connection (RFC 3261 section 18.2.2).
        _ = stream.ready(Interest::ERROR) => CloseReason::Peer,
        () = sleep(shared.config.limits.half_closed_timeout) => CloseReason::Peer,
        () = shared.tasks.stopped() => CloseReason::Local,
        () = connection.close_requested() => CloseReason::Local,
    }
}

/// Ends a connection so that what was sent arrives.
async fn farewell(stream: &TcpStream, writer: &mut Writer<'_>, reason: &CloseReason) {
    match reason {
        CloseReason::Failed(_) | CloseReason::Tls(_) | CloseReason::Stalled => return,
        CloseReason::Framing(_) => {
            // The user may answer what it could read (400, RFC 3261 section 18.3).
            let _ = timeout(FAREWELL, async {
                tokio::select! {
                    _ = writer.run() => {}
                    () = discard(stream) => {}
                }
            })
            .await;
        }
        CloseReason::Peer
        | CloseReason::Local
        | CloseReason::Idle
        | CloseReason::PartialMessage
        | CloseReason::Silent => {
            writer.queue.close();
            let _ = timeout(FAREWELL, writer.run()).await;
        }
    }
    // Closing with octets unread would reset the connection and with it what the peer has not read
    // yet: first our FIN, then what still comes is thrown away until the peer's.
    if SockRef::from(stream).shutdown(Shutdown::Write).is_ok() {
        let _ = timeout(FAREWELL, discard(stream)).await;
    }
}

/// Reads and throws away until the peer closes the connection.
async fn discard(stream: &TcpStream) {
    while stream.readable().await.is_ok() {
        match read(stream, &mut BytesMut::new()) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

/// One read, appended to `buffer`.
fn read(stream: &TcpStream, buffer: &mut BytesMut) -> io::Result<usize> {
    READ_BUFFER.with_borrow_mut(|octets| {
        let length = stream.try_read(octets)?;
        buffer.extend_from_slice(octets.get(..length).unwrap_or_default());
        Ok(length)
    })
}

/// Cuts what comes into messages and hands them to the user.
struct Reader<'a> {
    shared: &'a Shared,
    connection: &'a Connection,
    flow: Flow,
    stream: &'a TcpStream,
    activity: &'a Activity,
    unanswered: &'a Unanswered,
    framing: StreamReader,
    buffer: BytesMut,
    /// Since when a message has been there in part.
    partial_since: Option<Instant>,
    /// When the first message has to be there; none once it is, and where none has to come.
    first_message_by: Option<Instant>,
}

impl<'a> Reader<'a> {
    fn new(
        shared: &'a Shared,
        connection: &'a Connection,
        flow: Flow,
        stream: &'a TcpStream,
        activity: &'a Activity,
        unanswered: &'a Unanswered,
    ) -> Reader<'a> {
        let limits = &shared.config.limits;
        let framing = StreamReader::new(FramingLimits {
            header_bytes: limits.max_header_bytes,
            body_bytes: limits.max_body_bytes,
        });
        Reader {
            shared,
            connection,
            flow,
            stream,
            activity,
            unanswered,
            framing,
            buffer: BytesMut::new(),
            partial_since: None,
            first_message_by: (connection.opened_by == OpenedBy::Peer)
                .then(|| Instant::now() + limits.first_message_timeout),
        }
    }

    /// Reads until the connection is to end, and tells why.
    async fn run(&mut self) -> CloseReason {
        let mut timer = pin!(sleep_until(self.deadline().0.into()));
        loop {
            let (deadline, overdue) = self.deadline();
            if timer.deadline() > deadline.into() {
                timer.as_mut().reset(deadline.into());
            }
            tokio::select! {
                biased;
                ready = self.stream.readable() => {
                    let result = match ready {
                        Ok(()) => read(self.stream, &mut self.buffer),
                        Err(error) => Err(error),
                    };
                    match result {
                        Ok(0) => return CloseReason::Peer,
                        Ok(_) => {
                            if let Err(reason) = self.take_messages(Instant::now()).await {
                                return reason;
                            }
                        }
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        Err(error) => return CloseReason::Failed(error.to_string()),
                    }
                }
                // The timer is only ever moved to an earlier time; a deadline that has moved on
                // since is found when it fires.
                () = timer.as_mut() => {
                    if Instant::now() >= deadline {
                        return overdue;
                    }
                    timer.as_mut().reset(deadline.into());
                }
            }
        }
    }

    /// When the peer must have sent something, and what becomes of the connection otherwise.
    fn deadline(&self) -> (Instant, CloseReason) {
        let limits = &self.shared.config.limits;
        let due = match self.partial_since {
            Some(since) => (
                since + limits.partial_message_timeout,
                CloseReason::PartialMessage,
            ),
            None => (
                self.activity.last() + limits.idle_timeout,
                CloseReason::Idle,
            ),
        };
        match self.first_message_by {
            Some(by) if by < due.0 => (by, CloseReason::Silent),
            _ => due,
        }
    }

    /// Takes all whole messages from the buffer.
    async fn take_messages(&mut self, now: Instant) -> Result<(), CloseReason> {
        self.activity.touch(now);
        let counters = self.shared.counters(Transport::Tcp);
        loop {
            match self.framing.next(&mut self.buffer) {
                Ok(Some(Frame::Message(octets))) => {
                    self.partial_since = None;
                    self.deliver(octets, now).await?;
                }
                Ok(Some(Frame::Ping)) => {
                    counters.keep_alives.increment();
                    self.pong();
                }
                Ok(Some(Frame::Pong)) => counters.keep_alives.increment(),
                Ok(None) => break,
                Err(error) => {
                    let limit = self.shared.config.limits.max_header_bytes;
                    let octets =
                        Bytes::copy_from_slice(&self.buffer[..self.buffer.len().min(limit)]);
                    return self
                        .malformed(octets, MalformedReason::Framing(error))
                        .await;
                }
            }
        }
        if self.buffer.is_empty() {
            self.partial_since = None;
            // An idle connection holds no buffer.
            self.buffer = BytesMut::new();
        } else {
            // Now, because handing over what was whole may have taken long.
            self.partial_since.get_or_insert_with(Instant::now);
        }
        Ok(())
    }

    async fn deliver(&mut self, octets: Bytes, now: Instant) -> Result<(), CloseReason> {
        match Message::read(octets.clone()) {
            Ok(message) => {
                self.first_message_by = None;
                self.unanswered.received(&message);
                trace::received(&self.flow, &octets);
                let delivered = self.shared.deliver(self.flow, message, now).await;
                delivered.map_err(|NobodyListens| CloseReason::Local)
            }
            // What has no start line has no Content-Length to be trusted either.
            Err(error) => self.malformed(octets, MalformedReason::Read(error)).await,
        }
    }

    async fn malformed(
        &mut self,
        octets: Bytes,
        reason: MalformedReason,
    ) -> Result<(), CloseReason> {
        // Whatever is sent to this address from now on takes another connection.
        self.shared.connections.retire(self.connection);
        match self
            .shared
            .deliver_malformed(self.flow, octets, reason)
            .await
        {
            Ok(()) => Err(CloseReason::Framing(reason)),
            Err(NobodyListens) => Err(CloseReason::Local),
        }
    }

    /// Answers a ping between two messages. A peer whose queue is full gets something anyway.
    fn pong(&self) {
        let _ = self.connection.push(Outgoing {
            payload: Bytes::from_static(PONG),
            stream: 0,
            call: 0,
            transaction: None,
            fallback: None,
            reserved: None,
        });
    }
}

/// Writes what is queued.
struct Writer<'a> {
    shared: &'a Shared,
    connection: &'a Connection,
    queue: mpsc::Receiver<Outgoing>,
    stream: &'a TcpStream,
    activity: &'a Activity,
    unanswered: &'a Unanswered,
    /// Taken from the queue and not wholly written; of the first one `written` bytes are.
    pending: VecDeque<Outgoing>,
    written: usize,
    batch: Vec<Outgoing>,
}

impl<'a> Writer<'a> {
    fn new(
        shared: &'a Shared,
        connection: &'a Connection,
        queue: mpsc::Receiver<Outgoing>,
        stream: &'a TcpStream,
        activity: &'a Activity,
        unanswered: &'a Unanswered,
    ) -> Writer<'a> {
        Writer {
            shared,
            connection,
            queue,
            stream,
            activity,
            unanswered,
            pending: VecDeque::new(),
            written: 0,
            batch: Vec::new(),
        }
    }

    /// Writes until the queue is closed and empty, or the connection is to end, and tells why.
    /// Dropping the future loses nothing.
    async fn run(&mut self) -> CloseReason {
        let stalled = self.shared.config.limits.stalled_write_timeout;
        loop {
            if self.pending.is_empty() {
                if self.queue.recv_many(&mut self.batch, WRITE_BATCH).await == 0 {
                    return CloseReason::Local;
                }
                self.pending.extend(self.batch.drain(..));
            }
            match self.write() {
                Ok(()) => self.activity.touch(Instant::now()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    match timeout(stalled, self.stream.writable()).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => return CloseReason::Failed(error.to_string()),
                        Err(_) => return CloseReason::Stalled,
                    }
                }
                Err(error) => return CloseReason::Failed(error.to_string()),
            }
        }
    }

    /// One call to the kernel with as much of what is pending as it takes.
    fn write(&mut self) -> io::Result<()> {
        let mut slices = [IoSlice::new(&[]); WRITE_BATCH];
        let mut skip = self.written;
        for (slice, outgoing) in slices.iter_mut().zip(&self.pending) {
            let mut payload = &outgoing.payload[..];
            payload.advance(skip);
            skip = 0;
            *slice = IoSlice::new(payload);
        }
        let count = self.pending.len().min(WRITE_BATCH);
        let length = self.stream.try_write_vectored(&slices[..count])?;
        self.written += length;
        while let Some(first) = self.pending.front() {
            let bytes = first.payload.len();
            if self.written < bytes {
                break;
            }
            self.written -= bytes;
            self.unanswered.sent(&first.payload);
            self.pending.pop_front();
            self.connection.popped(bytes);
            self.shared
                .counters(Transport::Tcp)
                .messages_sent
                .increment();
        }
        Ok(())
    }
}
