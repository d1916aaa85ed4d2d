//! The half of a connection that hands what comes to the user.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Instant;

use bytes::{Buf, Bytes, BytesMut};
use sip::{Flow, Frame, FramingError, FramingLimits, Message, StreamReader, Transport};
use tokio::time::sleep_until;

use super::link::Link;
use super::octets::{with_room_to_read, would_block};
use super::partial::PartialMessage;
use super::received::Received;
use super::sender::StreamSender;
use super::transport::StreamTransport;
use super::unanswered::Unanswered;
use crate::connections::{Connection, OpenedBy};
use crate::inbound::{ReceiverGone, WorkerQueues};
use crate::incoming::{CloseReason, MalformedReason};
use crate::keep_alive::whole_frame;

/// Cuts what comes into messages and hands them to the user.
pub(super) struct Reader<'a> {
    transport: &'a StreamTransport,
    connection: &'a Connection,
    flow: Flow,
    link: &'a Link,
    unanswered: &'a Unanswered,
    framing: StreamReader,
    /// What has come of a message that is not whole.
    partial: BytesMut,
    /// How much that is, as far as it counts.
    held: PartialMessage,
    /// Of a WebSocket: how many octets had come when the last message was whole.
    whole_at: u64,
    /// Since when a message has been there in part.
    partial_since: Option<Instant>,
    /// When the first message has to be there; none once it is, and where none has to come.
    first_message_by: Option<Instant>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        transport: &'a StreamTransport,
        connection: &'a Connection,
        sender: &'a StreamSender,
    ) -> Reader<'a> {
        let limits = &transport.limits;
        let framing = StreamReader::new(FramingLimits {
            header_bytes: limits.max_header_bytes,
            body_bytes: limits.max_body_bytes,
        });
        Reader {
            transport,
            connection,
            flow: sender.flow,
            link: &sender.link,
            unanswered: &sender.unanswered,
            framing,
            partial: BytesMut::new(),
            held: transport
                .partial_messages
                .part(connection.id, connection.remote),
            whole_at: 0,
            partial_since: None,
            first_message_by: (connection.opened_by == OpenedBy::Peer)
                .then(|| Instant::now() + limits.first_message_timeout),
        }
    }

    /// Reads until the connection is to end, and tells why.
    pub(super) async fn run(&mut self) -> CloseReason {
        let mut timer = pin!(sleep_until(self.deadline().0.into()));
        loop {
            // A socket with octets in it is always ready: others get their turn here.
            tokio::task::coop::consume_budget().await;
            let (deadline, overdue) = self.deadline();
            if timer.deadline() > deadline.into() {
                timer.as_mut().reset(deadline.into());
            }
            tokio::select! {
                biased;
                () = self.held.given_up() => return CloseReason::PartialMessages,
                ready = self.link.socket().readable() => {
                    let taken = match ready {
                        Ok(()) => self.take().await,
                        Err(error) => Err(CloseReason::Failed(error.to_string())),
                    };
                    if let Err(reason) = taken {
                        return reason;
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
        let limits = &self.transport.limits;
        let due = match self.partial_since {
            Some(since) => (
                since + limits.partial_message_timeout,
                CloseReason::PartialMessage,
            ),
            None => (
                self.connection.activity.last() + limits.idle_timeout,
                CloseReason::Idle,
            ),
        };
        match self.first_message_by {
            Some(by) if by < due.0 => (by, CloseReason::Silent),
            _ => due,
        }
    }

    /// Reads once and takes what has come.
    async fn take(&mut self) -> Result<(), CloseReason> {
        // For as long as this takes the queues do not end.
        let queues = self.transport.inbound.queues()?;
        let mut frames = Vec::new();
        let (received, framed) = with_room_to_read(|room| {
            let received = self.link.read(room);
            let framed = match received {
                Ok(Received::Octets(length)) => {
                    let octets = room.get(..length).unwrap_or_default();
                    self.take_frames(octets, &mut frames)
                }
                _ => Ok(()),
            };
            (received, framed)
        });
        // What TLS or the WebSocket answers goes out with the next message otherwise.
        if self.link.wants_write() {
            self.connection.queue.wake();
        }
        let now = Instant::now();
        match received {
            Ok(Received::End) => Err(CloseReason::Peer),
            Ok(Received::Octets(_)) => {
                self.connection.activity.touch(now);
                let mut framed = framed;
                loop {
                    let is_more = frames.len() == MAX_FRAMES;
                    for frame in frames.drain(..) {
                        if let Frame::Message(_) = frame {
                            self.partial_since = None;
                        }
                        // What has no start line has no Content-Length to be trusted either.
                        if let Some(reason) = self.take_frame(&queues, frame, now).await? {
                            return Err(CloseReason::Framing(reason));
                        }
                    }
                    if !is_more {
                        break;
                    }
                    framed = self.take_frames(&[], &mut frames);
                }
                match framed {
                    Ok(()) => self.hold_partial(),
                    Err((error, octets)) => {
                        let reason = MalformedReason::Framing(error);
                        framing_lost(self.transport, self.connection);
                        let inbound = &self.transport.inbound;
                        inbound
                            .malformed(&queues, self.flow, octets, reason)
                            .await?;
                        Err(CloseReason::Framing(reason))
                    }
                }
            }
            Ok(Received::Message(octets)) => {
                self.connection.activity.touch(now);
                self.partial_since = None;
                self.whole_at = self.link.received();
                // After octets that are no message the next one is one of its own: the connection stays.
                self.take_frame(&queues, whole_frame(octets), now).await?;
                Ok(())
            }
            Ok(Received::Ping) => {
                self.connection.activity.touch(now);
                self.transport.log.keep_alive(self.flow.transport);
                self.note_partial(now)
            }
            Err(error) if would_block(&error) => {
                self.note_partial(now)?;
                if self.link.is_turn_over() {
                    tokio::task::yield_now().await;
                }
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let counters = self.transport.log.counters(self.flow.transport);
                counters.malformed.increment();
                Err(broken_rules(error))
            }
            Err(error) => Err(CloseReason::Failed(error.to_string())),
        }
    }

    /// Cuts what has come into messages, and keeps what is not whole, or beyond [`MAX_FRAMES`]. They are cut from where they
    /// were read; only what is kept is gone on with.
    fn take_frames(
        &mut self,
        mut octets: &[u8],
        frames: &mut Vec<Frame>,
    ) -> Result<(), (FramingError, Bytes)> {
        if self.partial.is_empty() {
            self.cut(&mut octets, frames)?;
            self.partial.extend_from_slice(octets);
            return Ok(());
        }
        self.partial.extend_from_slice(octets);
        let mut partial = std::mem::take(&mut self.partial);
        let held = partial.capacity();
        self.cut(&mut partial, frames)?;
        // An idle connection holds no buffer, and no other one much more than what is left.
        self.partial = match partial.len() < held / LARGE_FOR {
            true => BytesMut::from(&partial[..]),
            false => partial,
        };
        Ok(())
    }

    /// Takes whole messages off the front, [`MAX_FRAMES`] at most. An error comes with the octets in which no message begins.
    fn cut<B>(
        &mut self,
        octets: &mut B,
        frames: &mut Vec<Frame>,
    ) -> Result<(), (FramingError, Bytes)>
    where
        B: Buf + AsRef<[u8]>,
    {
        while frames.len() < MAX_FRAMES {
            match self.framing.next(octets) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => return Ok(()),
                Err(error) => {
                    let octets = octets.as_ref();
                    let limit = self.transport.limits.max_header_bytes.min(octets.len());
                    return Err((error, Bytes::copy_from_slice(&octets[..limit])));
                }
            }
        }
        Ok(())
    }

    /// Hands a message to its worker, or answers a ping. Tells where it is no message.
    async fn take_frame(
        &mut self,
        queues: &WorkerQueues,
        frame: Frame,
        now: Instant,
    ) -> Result<Option<MalformedReason>, ReceiverGone> {
        let Reader {
            transport,
            connection,
            link,
            unanswered,
            flow,
            ..
        } = *self;
        let note = |message: Option<&Message>| {
            let Some(message) = message else {
                // The next message of a WebSocket is one of its own.
                if link.is_stream() {
                    framing_lost(transport, connection);
                }
                return;
            };
            self.first_message_by = None;
            unanswered.received(message);
            if let Some(address) = alias(connection, message) {
                transport.connections.add_alias(connection, address);
            }
        };
        let inbound = &transport.inbound;
        inbound
            .frame(queues, connection, flow, frame, now, note)
            .await
    }

    /// What is left is a part of a message.
    fn hold_partial(&mut self) -> Result<(), CloseReason> {
        if self.partial.is_empty() {
            self.partial_since = None;
        } else {
            // Now, because handing over what was whole may have taken long.
            self.partial_since.get_or_insert_with(Instant::now);
        }
        self.hold(self.partial.capacity())
    }

    /// So many octets of a message that is not whole are held.
    fn hold(&mut self, octets: usize) -> Result<(), CloseReason> {
        match self.held.holds(octets) {
            true => Ok(()),
            false => Err(CloseReason::PartialMessages),
        }
    }

    /// Notes since when a message of a WebSocket has been there in part. The pings that may come between
    /// its parts are no excuse, however many.
    fn note_partial(&mut self, now: Instant) -> Result<(), CloseReason> {
        if self.link.is_stream() {
            return Ok(());
        }
        let received = self.link.received();
        if !self.link.is_partial() {
            self.partial_since = None;
            self.whole_at = received;
            return self.hold(0);
        }
        self.hold(usize::try_from(received - self.whole_at).unwrap_or(usize::MAX))?;
        let since = *self.partial_since.get_or_insert(now);
        let limit = self.transport.limits.partial_message_timeout;
        match now.saturating_duration_since(since) > limit {
            true => Err(CloseReason::PartialMessage),
            false => Ok(()),
        }
    }
}

/// It is not known any more where messages begin: whatever is sent to this address from now on takes another connection. The
/// worker is told after that.
fn framing_lost(transport: &StreamTransport, connection: &Connection) {
    transport.connections.retire(connection);
}

/// The address at which the sender of a request wants to be found by the connection that it has opened, where it has
/// proved who it is (RFC 5923 section 8.2): that from which it came, with the port on which it listens.
fn alias(connection: &Connection, message: &Message) -> Option<SocketAddr> {
    if connection.transport != Transport::Tls || connection.names().is_empty() {
        return None;
    }
    message.method()?;
    let via = message.top_via()?;
    let port = via.port().unwrap_or(Transport::Tls.default_port());
    let is_wanted = via.parameters().contains("alias");
    is_wanted.then(|| SocketAddr::new(connection.remote.ip(), port))
}

/// Whether the peer broke the rules of TLS or those of WebSocket.
fn broken_rules(error: io::Error) -> CloseReason {
    let is_of_tls = error
        .get_ref()
        .is_some_and(|inner| inner.is::<rustls::Error>());
    if is_of_tls {
        CloseReason::Tls(error.to_string())
    } else {
        CloseReason::WebSocket(error.to_string())
    }
}

/// How many messages and keep-alives are cut at a time: while the queue of a worker is full, they take more memory than the
/// octets.
const MAX_FRAMES: usize = 256;

/// How many times what is left a buffer has to hold for it to be exchanged for a smaller one.
const LARGE_FOR: usize = 4;
