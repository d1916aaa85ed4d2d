//! The half of a connection that hands what comes to the user.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Buf, Bytes, BytesMut};
use sip::{Flow, Frame, FramingLimits, Message, StreamReader, Transport};
use tokio::time::sleep_until;

use super::link::Link;
use super::octets::{with_room_to_read, would_block};
use super::outbox::Outbox;
use super::partial::PartialMessage;
use super::received::Received;
use crate::activity::Activity;
use crate::connections::{Connection, OpenedBy, Outgoing};
use crate::incoming::{CloseReason, MalformedReason};
use crate::keep_alive::{PONG, is_keep_alive, is_ping};
use crate::shared::{Delivery, NobodyListens, Shared, WaysIn};
use crate::statistics::Counters;
use crate::trace;
use crate::unanswered::Unanswered;

/// Cuts what comes into messages and hands them to the user.
pub(super) struct Reader<'a> {
    shared: &'a Arc<Shared>,
    connection: &'a Connection,
    flow: Flow,
    link: &'a Link,
    activity: &'a Activity,
    unanswered: &'a Unanswered,
    framing: StreamReader,
    /// What has come and could not be handed over: a message that is not whole, or while a queue is full some that are.
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
        shared: &'a Arc<Shared>,
        connection: &'a Connection,
        outbox: &'a Outbox,
    ) -> Reader<'a> {
        let limits = &shared.config.limits;
        let framing = StreamReader::new(FramingLimits {
            header_bytes: limits.max_header_bytes,
            body_bytes: limits.max_body_bytes,
        });
        Reader {
            shared,
            connection,
            flow: outbox.flow,
            link: &outbox.link,
            activity: &outbox.activity,
            unanswered: &outbox.unanswered,
            framing,
            partial: BytesMut::new(),
            held: shared
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

    /// Reads once and takes what has come.
    async fn take(&mut self) -> Result<(), CloseReason> {
        // For as long as this takes the queues do not end.
        let ways_in = self.shared.ways_in().ok_or(CloseReason::Local)?;
        let (received, now, handed) = with_room_to_read(|room| {
            let received = self.link.read(room);
            let now = Instant::now();
            let handed = match received {
                Ok(Received::Octets(length)) => {
                    let octets = room.get(..length).unwrap_or_default();
                    self.hand_over_new(&ways_in, octets, now)
                }
                _ => Handed::All,
            };
            (received, now, handed)
        });
        match received {
            Ok(Received::End) => Err(CloseReason::Peer),
            Ok(Received::Octets(_)) => self.go_on(&ways_in, handed, now).await,
            Ok(Received::Message(octets)) => self.take_whole(octets, now).await,
            Ok(Received::Ping) => {
                self.activity.touch(now);
                self.counters().keep_alives.increment();
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
                self.counters().malformed.increment();
                Err(broken_rules(error))
            }
            Err(error) => Err(CloseReason::Failed(error.to_string())),
        }
    }

    /// Hands over what has come, and keeps what is not whole or finds no room.
    fn hand_over_new(&mut self, ways_in: &WaysIn, mut octets: &[u8], now: Instant) -> Handed {
        self.activity.touch(now);
        if !self.partial.is_empty() {
            self.partial.extend_from_slice(octets);
            return self.hand_over_partial(ways_in, now);
        }
        let handed = self.hand_over(ways_in, &mut octets, now);
        if !matches!(handed, Handed::UpTo(..)) {
            self.partial.extend_from_slice(octets);
        }
        handed
    }

    /// Hands over what is whole of what was kept.
    fn hand_over_partial(&mut self, ways_in: &WaysIn, now: Instant) -> Handed {
        let mut partial = std::mem::take(&mut self.partial);
        let held = partial.capacity();
        let handed = self.hand_over(ways_in, &mut partial, now);
        if matches!(handed, Handed::UpTo(..)) {
            return handed;
        }
        // An idle connection holds no buffer, and no other one much more than what is left.
        self.partial = match partial.len() < held / LARGE_FOR {
            true => BytesMut::from(&partial[..]),
            false => partial,
        };
        handed
    }

    /// Takes all whole messages off the front, as far as there is room for them.
    fn hand_over<B>(&mut self, ways_in: &WaysIn, received: &mut B, now: Instant) -> Handed
    where
        B: Buf + AsRef<[u8]>,
    {
        loop {
            match self.framing.next(received) {
                Ok(Some(Frame::Message(octets))) => {
                    let shown = trace::is_on().then(|| octets.clone());
                    let message = match Message::read_or_return(octets) {
                        Ok(message) => message,
                        // What has no start line has no Content-Length to be trusted either.
                        Err((error, octets)) => {
                            return Handed::UpTo(octets, MalformedReason::Read(error));
                        }
                    };
                    self.partial_since = None;
                    self.note(&message, shown.as_deref());
                    let delivery = self.shared.delivery(self.flow, message, now);
                    match self.shared.offer(ways_in, delivery) {
                        Ok(None) => {}
                        Ok(Some(delivery)) => return Handed::Full(delivery),
                        Err(NobodyListens) => return Handed::ToNobody,
                    }
                }
                Ok(Some(Frame::Ping)) => {
                    self.counters().keep_alives.increment();
                    self.pong();
                }
                Ok(Some(Frame::Pong)) => self.counters().keep_alives.increment(),
                Ok(None) => return Handed::All,
                Err(error) => {
                    let limit = self.shared.config.limits.max_header_bytes;
                    let octets = received.as_ref();
                    let octets = Bytes::copy_from_slice(&octets[..octets.len().min(limit)]);
                    return Handed::UpTo(octets, MalformedReason::Framing(error));
                }
            }
        }
    }

    /// Waits for room until all that is whole has been handed over.
    async fn go_on(
        &mut self,
        ways_in: &WaysIn,
        mut handed: Handed,
        now: Instant,
    ) -> Result<(), CloseReason> {
        loop {
            match handed {
                Handed::All => break,
                Handed::Full(delivery) => {
                    let put = self.shared.put_by(ways_in, delivery).await;
                    put.map_err(|NobodyListens| CloseReason::Local)?;
                    handed = self.hand_over_partial(ways_in, now);
                }
                Handed::UpTo(octets, reason) => return self.malformed(octets, reason).await,
                Handed::ToNobody => return Err(CloseReason::Local),
            }
        }
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

    /// Takes a message that came whole, in a message of the transport's own.
    async fn take_whole(&mut self, octets: Bytes, now: Instant) -> Result<(), CloseReason> {
        self.activity.touch(now);
        self.partial_since = None;
        self.whole_at = self.link.received();
        if is_keep_alive(&octets) {
            self.counters().keep_alives.increment();
            if is_ping(&octets) {
                self.pong();
            }
            return Ok(());
        }
        match Message::read(octets.clone()) {
            Ok(message) => {
                self.note(&message, trace::is_on().then_some(&*octets));
                let delivered = self.shared.deliver(self.flow, message, now).await;
                delivered.map_err(|NobodyListens| CloseReason::Local)
            }
            // The next message is one of its own: the connection stays.
            Err(error) => {
                let reason = MalformedReason::Read(error);
                let delivered = self.shared.deliver_malformed(self.flow, octets, reason);
                let delivered = delivered.await;
                delivered.map_err(|NobodyListens| CloseReason::Local)
            }
        }
    }

    /// Takes notice of a message that is handed over. `shown` is there where it is to be shown.
    fn note(&mut self, message: &Message, shown: Option<&[u8]>) {
        self.first_message_by = None;
        self.unanswered.received(message);
        if let Some(address) = alias(self.connection, message) {
            self.shared.connections.add_alias(self.connection, address);
        }
        if let Some(octets) = shown {
            trace::received(&self.flow, octets);
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
        let limit = self.shared.config.limits.partial_message_timeout;
        match now.saturating_duration_since(since) > limit {
            true => Err(CloseReason::PartialMessage),
            false => Ok(()),
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
            is_last_resort: false,
        });
    }

    fn counters(&self) -> &'a Counters {
        self.shared.counters(self.flow.transport)
    }
}

/// How far what has come was handed over.
enum Handed {
    /// As far as it is whole.
    All,
    /// Up to a message for which there is no room.
    Full(Delivery),
    /// Up to what is no message, with which the stream ends for us.
    UpTo(Bytes, MalformedReason),
    ToNobody,
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

/// Whose rules the peer did not keep.
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

/// How many times what is left a buffer has to hold for it to be exchanged for a smaller one.
const LARGE_FOR: usize = 4;
