//! One connection or association, as all but its own task know it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use sip::{ConnectionId, Flow, Peer, Transport};
use tcp_info::tcp_info;
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};

use crate::activity::Activity;
use crate::awaiting_response::AwaitingResponse;
use crate::budget::QueueBudget;
use crate::incoming::{CloseReason, SendError};
use crate::keep_alive::PONG;
use crate::outbound_message::{OutboundMessage, OwnedTransaction, SendFailure};
use crate::send_queue::{Flushed, SendQueue, Sink};

use super::traffic::TcpCounts;

/// One connection or association.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) id: ConnectionId,
    pub(crate) transport: Transport,
    pub(crate) remote: SocketAddr,
    /// The expected peer, where we opened it and one was given.
    pub(crate) peer: Option<Arc<Peer>>,
    pub(crate) opened_by: OpenedBy,
    /// Messages to the bare address do not use it.
    pub(crate) is_private: bool,
    /// The messages that wait to be sent.
    pub(crate) queue: SendQueue,
    pub(crate) activity: Activity,
    awaiting_response: Mutex<AwaitingResponse>,
    /// Sends the messages in the queue, once the connection is open; where there is none, its task does.
    flush: OnceLock<Arc<dyn Flush>>,
    state: watch::Sender<State>,
    close: Notify,
    /// It gives way to others.
    is_displaced: AtomicBool,
    is_half_closed: AtomicBool,
    socket: OnceLock<Arc<TcpStream>>,
    /// The names that a peer which has opened it has proved.
    names: OnceLock<Arc<[Box<str>]>>,
    /// It can be found under its alias, of which no other connection has taken a part since.
    pub(super) has_alias: AtomicBool,
}

/// Sends the messages in a connection's queue, in the thread that has pushed them.
pub(crate) trait Flush: fmt::Debug + Send + Sync {
    /// Sends what there is room for, without waiting.
    fn flush(&self, connection: &Connection, flushed: &mut Flushed);
}

/// Which side opened a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenedBy {
    Us,
    Peer,
}

#[derive(Clone, Debug)]
enum State {
    Opening,
    Open(Flow),
    Failed(SendError),
}

impl Sink for Connection {
    fn id(&self) -> ConnectionId {
        self.id
    }

    fn transport(&self) -> Transport {
        self.transport
    }

    fn push(&self, message: OutboundMessage) -> Result<(), SendFailure> {
        // The peer would not answer a request any more.
        if self.is_half_closed() && !message.is_response() {
            return Err(message.failed(SendError::Gone));
        }
        self.queue.push(message)
    }

    /// Where the connection is not open yet, or its task alone can send, that is left to the task.
    fn flush(&self, flushed: &mut Flushed) {
        match self.flush.get() {
            Some(flush) => flush.flush(self, flushed),
            None => self.queue.wake(),
        }
    }
}

impl Connection {
    pub(super) fn new(
        id: ConnectionId,
        transport: Transport,
        remote: SocketAddr,
        peer: Option<Arc<Peer>>,
        opened_by: OpenedBy,
        is_private: bool,
        budget: Arc<QueueBudget>,
    ) -> Connection {
        Connection {
            id,
            transport,
            remote,
            peer,
            opened_by,
            is_private,
            queue: SendQueue::new(budget),
            activity: Activity::new(),
            awaiting_response: Mutex::default(),
            flush: OnceLock::new(),
            state: watch::Sender::new(State::Opening),
            close: Notify::new(),
            is_displaced: AtomicBool::new(false),
            is_half_closed: AtomicBool::new(false),
            socket: OnceLock::new(),
            names: OnceLock::new(),
            has_alias: AtomicBool::new(false),
        }
    }

    /// All addresses of the peer that were known when we opened it.
    pub(crate) fn peer_addresses(&self) -> &[SocketAddr] {
        self.peer.as_deref().map_or(&[], |peer| &peer.addresses)
    }

    /// From now on the thread that pushes messages sends them.
    pub(crate) fn flushed_by(&self, flush: Arc<dyn Flush>) {
        // It is opened once.
        let _ = self.flush.set(flush);
        self.queue.open();
    }

    /// Answers a ping, on the stream of an association by which it came (RFC 5626 section 3.5.1). A peer whose queue is full
    /// gets something anyway.
    pub(crate) fn send_pong(&self, stream: u16) {
        let pong = OutboundMessage {
            stream,
            ..OutboundMessage::new(Bytes::from_static(PONG), self.remote)
        };
        let _ = self.queue.push_for_task(pong);
    }

    /// Messages have been sent together.
    pub(crate) fn sent<'a>(
        &self,
        now: Instant,
        messages: impl Iterator<Item = &'a OutboundMessage>,
    ) {
        self.activity.touch(now);
        let mut awaiting_response = self.awaiting_response();
        for message in messages {
            awaiting_response.sent(now, message.transaction);
        }
    }

    /// Takes the transactions whose requests went over the connection and which may have no response yet.
    pub(crate) fn take_awaiting_response(&self) -> impl Iterator<Item = OwnedTransaction> + use<> {
        self.awaiting_response().take(Instant::now())
    }

    /// It is open: this is its flow.
    pub(crate) fn opened(&self, flow: Flow) {
        self.state.send_replace(State::Open(flow));
    }

    /// The peer sends no more: a request could not be answered, so only responses still go.
    pub(crate) fn half_closed(&self) {
        self.is_half_closed.store(true, Relaxed);
    }

    /// Whether the peer has closed its half.
    pub(crate) fn is_half_closed(&self) -> bool {
        self.is_half_closed.load(Relaxed)
    }

    /// It is gone, or was never opened.
    pub(crate) fn failed(&self, error: SendError) {
        self.state.send_replace(State::Failed(error));
    }

    /// Waits until it is open.
    pub(crate) async fn flow(&self) -> Result<Flow, SendError> {
        let mut state = self.state.subscribe();
        match state
            .wait_for(|state| !matches!(state, State::Opening))
            .await
            .as_deref()
        {
            Ok(State::Open(flow)) => Ok(*flow),
            Ok(State::Failed(error)) => Err(error.clone()),
            Ok(State::Opening) | Err(_) => Err(SendError::Gone),
        }
    }

    /// Our address, once it is open.
    pub(super) fn local(&self) -> Option<IpAddr> {
        match &*self.state.borrow() {
            State::Open(flow) => Some(flow.local.ip()),
            State::Opening | State::Failed(_) => None,
        }
    }

    /// Lets the kernel be asked about this TCP connection for as long as it is in the table.
    pub(crate) fn counted_by(&self, socket: Arc<TcpStream>) {
        // Each connection has one socket in its life, so the cell is empty.
        let _ = self.socket.set(socket);
    }

    pub(super) fn tcp_counts(&self) -> TcpCounts {
        self.socket
            .get()
            .and_then(|socket| tcp_info(socket.as_fd()))
            .map_or_else(TcpCounts::default, TcpCounts::from)
    }

    /// Asks the connection's task to end it.
    pub(crate) fn close(&self) {
        self.close.notify_one();
    }

    /// Asks the connection's task to end it because it gives way to others.
    pub(super) fn displace(&self) {
        self.is_displaced.store(true, Relaxed);
        self.close();
    }

    pub(super) fn is_displaced(&self) -> bool {
        self.is_displaced.load(Relaxed)
    }

    /// Ends when the connection is to be [closed](Connection::close), or gives way to others. Tells why.
    pub(crate) async fn close_requested(&self) -> CloseReason {
        self.close.notified().await;
        match self.is_displaced() {
            true => CloseReason::Displaced,
            false => CloseReason::Local,
        }
    }

    /// The peer, which has opened it, has proved these names.
    pub(crate) fn set_names(&self, names: Arc<[Box<str>]>) {
        if self.opened_by == OpenedBy::Peer {
            // It has shown one certificate.
            let _ = self.names.set(names);
        }
    }

    /// The names that it can be used for in our direction, if there are any.
    pub(crate) fn names(&self) -> &[Box<str>] {
        self.names.get().map_or(&[], |names| names)
    }

    fn awaiting_response(&self) -> MutexGuard<'_, AwaitingResponse> {
        let awaiting = self.awaiting_response.lock();
        awaiting.unwrap_or_else(PoisonError::into_inner)
    }
}
