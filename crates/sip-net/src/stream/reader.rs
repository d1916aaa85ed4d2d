//! The half of a connection that hands what comes to the user.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use sip::{Flow, Frame, FramingLimits, Message, StreamReader, Transport};
use tokio::time::sleep_until;

use super::link::{Link, Received};
use super::octets::would_block;
use super::outbox::Outbox;
use crate::activity::Activity;
use crate::connections::{Connection, OpenedBy, Outgoing};
use crate::incoming::{CloseReason, MalformedReason};
use crate::keep_alive::{PONG, is_keep_alive, is_ping};
use crate::shared::{NobodyListens, Shared, WaysIn};
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
    buffer: BytesMut,
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
            buffer: BytesMut::new(),
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
        let received = self.link.read(&mut self.buffer);
        let now = Instant::now();
        match received {
            Ok(Received::End) => Err(CloseReason::Peer),
            Ok(Received::Octets) => self.take_messages(now).await,
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

    /// Takes all whole messages from the buffer.
    async fn take_messages(&mut self, now: Instant) -> Result<(), CloseReason> {
        self.activity.touch(now);
        // For as long as this takes the queues do not end.
        let ways_in = self.shared.ways_in().ok_or(CloseReason::Local)?;
        loop {
            match self.framing.next(&mut self.buffer) {
                Ok(Some(Frame::Message(octets))) => {
                    self.partial_since = None;
                    self.deliver(&ways_in, octets, now).await?;
                }
                Ok(Some(Frame::Ping)) => {
                    self.counters().keep_alives.increment();
                    self.pong();
                }
                Ok(Some(Frame::Pong)) => self.counters().keep_alives.increment(),
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

    /// Takes a message that came whole, in a message of the transport's own.
    async fn take_whole(&mut self, octets: Bytes, now: Instant) -> Result<(), CloseReason> {
        self.activity.touch(now);
        self.partial_since = None;
        if is_keep_alive(&octets) {
            self.counters().keep_alives.increment();
            if is_ping(&octets) {
                self.pong();
            }
            return Ok(());
        }
        match Message::read(octets.clone()) {
            Ok(message) => {
                self.note(&message, &octets);
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

    async fn deliver(
        &mut self,
        ways_in: &WaysIn,
        octets: Bytes,
        now: Instant,
    ) -> Result<(), CloseReason> {
        let shown = trace::is_on().then(|| octets.clone());
        match Message::read_or_return(octets) {
            Ok(message) => {
                self.note(&message, shown.as_deref().unwrap_or_default());
                let delivered = self.shared.deliver_by(ways_in, self.flow, message, now);
                delivered.await.map_err(|NobodyListens| CloseReason::Local)
            }
            // What has no start line has no Content-Length to be trusted either.
            Err((error, octets)) => self.malformed(octets, MalformedReason::Read(error)).await,
        }
    }

    /// Takes notice of a message that is handed over. `octets` are what is shown of it.
    fn note(&mut self, message: &Message, octets: &[u8]) {
        self.first_message_by = None;
        self.unanswered.received(message);
        if let Some(address) = alias(self.connection, message) {
            self.shared.connections.add_alias(self.connection, address);
        }
        if trace::is_on() {
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
        if !self.link.is_partial() {
            self.partial_since = None;
            return Ok(());
        }
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
