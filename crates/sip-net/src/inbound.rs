//! The way in: hands received messages to their workers.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use bytes::Bytes;
use sip::{Flow, Frame, Message, Transport};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use udp_net::NetworkError;

use crate::connections::Connection;
use crate::icmp::{ReportLimit, is_failure, quoted_message};
use crate::incoming::{CloseReason, Incoming, MalformedReason, SendError};
use crate::keep_alive::PONG;
use crate::message_log::MessageLog;
use crate::outbound_message::OwnedTransaction;
use crate::tasks::Tasks;
use crate::unread::Unread;

/// Hands received messages, and events of connections, to the workers.
#[derive(Debug)]
pub(crate) struct Inbound {
    /// The queues of the workers. A handle of the transports must not keep them open: their end tells the users that
    /// everything has stopped.
    queues: Vec<mpsc::WeakSender<Incoming>>,
    /// Whether workers want to have datagrams unread.
    unread: Unread,
    /// Whether workers want to hear of answers to keep-alives.
    tells_keep_alives: AtomicBool,
    /// The key of the hash that gives every call its worker.
    workers: RandomState,
    /// Of reports of the network that quote no Call-ID.
    report_limit: ReportLimit,
    log: Arc<MessageLog>,
    tasks: Arc<Tasks>,
}

/// The queues of all workers, open for as long as this lives.
#[derive(Debug)]
pub(crate) struct WorkerQueues(Vec<mpsc::Sender<Incoming>>);

/// The receiver of a worker's [`Incoming`] was dropped: the transports are about to stop.
#[derive(Debug)]
pub(crate) struct ReceiverGone;

impl From<ReceiverGone> for CloseReason {
    /// Everything is about to stop.
    fn from(_: ReceiverGone) -> CloseReason {
        CloseReason::Local
    }
}

impl Inbound {
    /// The way to the queues of the workers, which others keep open.
    pub(crate) fn new(
        queues: Vec<mpsc::WeakSender<Incoming>>,
        log: Arc<MessageLog>,
        tasks: Arc<Tasks>,
    ) -> Arc<Inbound> {
        Arc::new(Inbound {
            queues,
            unread: Unread::default(),
            tells_keep_alives: AtomicBool::new(false),
            workers: RandomState::new(),
            report_limit: ReportLimit::default(),
            log,
            tasks,
        })
    }

    /// From now on datagrams are handed over unread, as far as their worker can be told so.
    pub(crate) fn leave_datagrams_unread(&self) {
        self.unread.set();
    }

    /// From now on answers to keep-alives are told.
    pub(crate) fn tell_keep_alives(&self) {
        self.tells_keep_alives.store(true, Relaxed);
    }

    /// A pong has come, or what may be a STUN response; it is told where there is room: it comes again.
    pub(crate) fn keep_alive(&self, queues: &WorkerQueues, flow: Flow, payload: Bytes) {
        if self.tells_keep_alives.load(Relaxed) {
            let worker = self.worker_of_connection(&flow);
            queues.try_put(worker, Incoming::KeepAlive { flow, payload });
        }
    }

    /// The queues of the workers, for a task that receives. It must drop them when it is told to stop.
    pub(crate) fn queues(&self) -> Result<WorkerQueues, ReceiverGone> {
        let queues = self.queues.iter();
        let open: Option<_> = queues.map(mpsc::WeakSender::upgrade).collect();
        open.map(WorkerQueues).ok_or(ReceiverGone)
    }

    /// Takes what has come over a connection: hands a message to its worker, or answers a ping. Waits while the queue is full,
    /// so that the connection is not read meanwhile. Octets that are no message are handed over as that, and the reason comes
    /// back. `note` is told of both before, without a message where there is none.
    pub(crate) async fn frame(
        &self,
        queues: &WorkerQueues,
        connection: &Connection,
        flow: Flow,
        frame: Frame,
        received: Instant,
        note: impl FnOnce(Option<&Message>),
    ) -> Result<Option<MalformedReason>, ReceiverGone> {
        let octets = match frame {
            Frame::Message(octets) => octets,
            Frame::Ping => {
                self.log.keep_alive(flow.transport);
                connection.send_pong(flow.stream);
                return Ok(None);
            }
            Frame::Pong => {
                self.log.keep_alive(flow.transport);
                self.keep_alive(queues, flow, Bytes::from_static(PONG));
                return Ok(None);
            }
        };
        let (worker, event) = self.parse(flow, octets, received);
        let reason = match &event {
            Incoming::Message { message, .. } => {
                note(Some(message));
                None
            }
            Incoming::Malformed { reason, .. } => {
                note(None);
                Some(*reason)
            }
            _ => None,
        };
        queues.put(worker, event).await?;
        Ok(reason)
    }

    /// Hands octets from a connection that are no message to a worker; waits while the queue is full.
    pub(crate) async fn malformed(
        &self,
        queues: &WorkerQueues,
        flow: Flow,
        bytes: Bytes,
        reason: MalformedReason,
    ) -> Result<(), ReceiverGone> {
        let (worker, event) = self.malformed_event(flow, bytes, reason);
        queues.put(worker, event).await
    }

    /// Hands a datagram to its worker; drops it where the queue is full. SIP repeats
    /// it, and by then the queue is shorter.
    pub(crate) fn datagram(
        &self,
        queues: &WorkerQueues,
        flow: Flow,
        bytes: Bytes,
        received: Instant,
    ) {
        let worker_of_call = |call_id: &str| self.worker_of_call(Some(call_id));
        let workers = self.queues.len();
        let (worker, event) = match self.unread.worker_of(&bytes, workers, worker_of_call) {
            Some(worker) => {
                self.log.received(&flow, self.log.shown(&bytes).as_ref());
                let event = Incoming::Unread {
                    flow,
                    bytes,
                    received,
                };
                (worker, event)
            }
            None => self.parse(flow, bytes, received),
        };
        if !queues.try_put(worker, event) {
            let counters = self.log.counters(Transport::Udp);
            counters.incoming_dropped.increment();
        }
    }

    /// Reports a datagram that did not arrive to the worker of its call. Where the Call-ID is not quoted, a request is
    /// reported to every worker, within a limit; a response is sent again anyway, until it is acknowledged or the request is.
    /// ICMP is forged easily: the worker checks that it has sent the quoted message.
    pub(crate) fn undelivered(&self, error: &NetworkError) {
        if !is_failure(error.report) {
            return;
        }
        let counters = self.log.counters(Transport::Udp);
        counters.undelivered.increment();
        let remote = error.destination;
        tracing::debug!(%remote, report = ?error.report, "not delivered");
        // Keep-alives are no messages.
        let Some(beginning) = quoted_message(&error.quoted) else {
            return;
        };
        let workers = match beginning.call_id() {
            None if self.queues.len() > 1 => {
                if !beginning.is_request() || !self.report_limit.allows(Instant::now()) {
                    counters.reports_dropped.increment();
                    return;
                }
                0..self.queues.len()
            }
            call_id => {
                let worker = self.worker_of_call(call_id);
                worker..worker + 1
            }
        };
        for worker in workers {
            self.undelivered_to(worker, remote, beginning.clone());
        }
    }

    fn undelivered_to(&self, worker: usize, remote: SocketAddr, beginning: Message) {
        let event = Incoming::Undelivered { remote, beginning };
        if !self.try_report(worker, event) {
            let counters = self.log.counters(Transport::Udp);
            counters.reports_dropped.increment();
        }
    }

    /// Tells a transaction that its message was not sent. This is called by the user's own task, which cannot be waited
    /// for here: where the queue is full the transaction learns of the failure by its timer.
    pub(crate) fn send_failed(
        &self,
        transport: Transport,
        OwnedTransaction { worker, key }: OwnedTransaction,
        error: SendError,
    ) {
        let event = Incoming::SendFailed {
            transaction: key,
            error,
        };
        if !self.try_report(worker, event) {
            let counters = self.log.counters(transport);
            counters.reports_dropped.increment();
        }
    }

    /// Puts an event into a worker's queue; waits for room, but not once everything is to stop. Returns whether it is there.
    pub(crate) async fn report(&self, worker: usize, event: Incoming) -> bool {
        if self.tasks.is_stopping() {
            return self.try_report(worker, event);
        }
        let Ok(queues) = self.queues() else {
            return false;
        };
        tokio::select! {
            put = queues.put(worker, event) => put.is_ok(),
            () = self.tasks.stopped() => false,
        }
    }

    /// How many workers there are.
    pub(crate) fn workers(&self) -> usize {
        self.queues.len()
    }

    /// The worker that messages with this Call-ID belong to.
    pub(crate) fn worker_of_call(&self, call_id: Option<&str>) -> usize {
        match self.queues.len() {
            1 => 0,
            workers => {
                let call = self.workers.hash_one(call_id);
                // The remainder is less than a usize.
                (call % workers as u64) as usize
            }
        }
    }

    /// Parses a message, or what should be one, and finds its worker.
    fn parse(&self, flow: Flow, octets: Bytes, received: Instant) -> (usize, Incoming) {
        let shown = self.log.shown(&octets);
        match Message::read_or_return(octets) {
            Ok(message) => {
                self.log.received(&flow, shown.as_ref());
                // All messages of a call have one Call-ID, and with it one worker.
                let worker = self.worker_of_call(message.call_id());
                let event = Incoming::Message {
                    flow,
                    message,
                    received,
                };
                (worker, event)
            }
            Err((error, octets)) => self.malformed_event(flow, octets, error.into()),
        }
    }

    /// What names no call goes where others of its connection go.
    fn worker_of_connection(&self, flow: &Flow) -> usize {
        // The remainder is less than a usize.
        (flow.connection.0 % self.queues.len() as u64) as usize
    }

    fn malformed_event(
        &self,
        flow: Flow,
        bytes: Bytes,
        reason: MalformedReason,
    ) -> (usize, Incoming) {
        self.log.malformed(&flow, &bytes, reason);
        let worker = self.worker_of_connection(&flow);
        let event = Incoming::Malformed {
            flow,
            bytes,
            reason,
        };
        (worker, event)
    }

    /// Puts an event into a worker's queue where there is room.
    fn try_report(&self, worker: usize, event: Incoming) -> bool {
        self.queues()
            .is_ok_and(|queues| queues.try_put(worker, event))
    }
}

impl WorkerQueues {
    /// Waits while the worker's queue is full.
    async fn put(&self, worker: usize, event: Incoming) -> Result<(), ReceiverGone> {
        let queue = self.0.get(worker).ok_or(ReceiverGone)?;
        match queue.try_send(event) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(event)) => queue.send(event).await.map_err(|_| ReceiverGone),
            Err(TrySendError::Closed(_)) => Err(ReceiverGone),
        }
    }

    /// Returns whether there was room.
    fn try_put(&self, worker: usize, event: Incoming) -> bool {
        let queue = self.0.get(worker);
        queue.is_some_and(|queue| queue.try_send(event).is_ok())
    }
}
