//! The TLS sessions of one association, and which of them a message goes through.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustls::pki_types::ServerName;
use rustls::{CipherSuite, ClientConfig, ClientConnection, ServerConfig, ServerConnection};
use sip::{Frame, FramingError, FramingLimits};

use crate::keep_alive::is_keep_alive;
use crate::outbound_message::OutboundMessage;

use super::super::streams::TransactionStreams;
use super::session::{Record, Session};

/// Which end of every TLS connection we are: who begins the association begins them all, as with
/// TCP. RFC 3436 leaves it open, and both beginning on one pair would be the end of it.
#[derive(Clone, Debug)]
pub(crate) enum Role {
    /// We began the association.
    Client(Arc<ClientConfig>, ServerName<'static>),
    /// The peer did.
    Server(Arc<ServerConfig>),
}

/// The sessions by stream. They send and receive nothing themselves.
#[derive(Debug)]
pub(crate) struct Sessions {
    role: Role,
    settings: Settings,
    by_stream: BTreeMap<u16, Session>,
    /// The streams that new transactions take in turns: as client all pairs there are, whose
    /// sessions begin when they are needed; as server those whose handshake is over, in that order.
    usable: Vec<u16>,
    transactions: TransactionStreams,
    /// Messages that wait for the first session.
    held: VecDeque<OutboundMessage>,
    /// The names that the certificates of all sessions have shown, and whether that is new.
    names: Option<Vec<Box<str>>>,
    are_names_new: bool,
    /// The streams of records that wait, one for each, in the order in which they came to be.
    ready: VecDeque<u16>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Pairs of streams: both sides have a stream of that number (RFC 3436 section 3.1).
    pub(crate) pairs: u16,
    pub(crate) framing: FramingLimits,
    pub(crate) handshake: Duration,
    pub(crate) partial_message: Duration,
}

/// Why the association cannot go on.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    #[error("stream {0} has no counterpart")]
    NoPair(u16),
    #[error("a record was sent without order")]
    Unordered,
    #[error("the peer has closed all sessions")]
    AllClosed,
}

impl Sessions {
    /// No session yet.
    pub(crate) fn new(role: Role, settings: Settings) -> Sessions {
        let usable = match role {
            Role::Client(..) => (0..settings.pairs).collect(),
            Role::Server(_) => Vec::new(),
        };
        Sessions {
            role,
            settings,
            by_stream: BTreeMap::new(),
            usable,
            transactions: TransactionStreams::default(),
            held: VecDeque::new(),
            names: None,
            are_names_new: false,
            ready: VecDeque::new(),
        }
    }

    /// As client: begins the first session, so that the peer is known and may send as well.
    pub(crate) fn begin_first(&mut self, now: Instant) -> Result<(), Failure> {
        match self.role {
            Role::Client(..) => self.session(0, now).map(|_| ()),
            Role::Server(_) => Ok(()),
        }
    }

    /// Whether a handshake is over.
    pub(crate) fn any_is_established(&self) -> bool {
        self.by_stream.values().any(Session::is_established)
    }

    /// How many messages wait for a handshake to end.
    pub(crate) fn waiting(&self) -> usize {
        let of_sessions: usize = self.by_stream.values().map(Session::waiting).sum();
        self.held.len() + of_sessions
    }

    /// Takes a user message in.
    pub(crate) fn receive(
        &mut self,
        stream: u16,
        unordered: bool,
        octets: &[u8],
        now: Instant,
    ) -> Result<(), Failure> {
        if unordered {
            // RFC 3436 section 6.2.
            return Err(Failure::Unordered);
        }
        self.follow_former(stream, now)?;
        let session = self.session(stream, now)?;
        let was_established = session.is_established();
        let result = session.receive(octets);
        let (established, closed) = (session.is_established(), session.peer_has_closed());
        let names = (established && !was_established).then(|| session.peer_names());
        self.note_records(stream);
        result?;
        if let Some(names) = names {
            self.note_names(names);
        }
        if established && !was_established && matches!(self.role, Role::Server(_)) {
            self.usable.push(stream);
            for message in std::mem::take(&mut self.held) {
                self.send(message, now)?;
            }
        }
        if closed {
            self.peer_closed(stream)?;
        }
        Ok(())
    }

    /// The cipher suite that one of the sessions has agreed on with a server.
    pub(crate) fn cipher_suite(&self) -> Option<CipherSuite> {
        let is_client = !matches!(self.role, Role::Server(_));
        let mut suites = self.by_stream.values().filter_map(Session::cipher_suite);
        suites.next().filter(|_| is_client)
    }

    /// The names that the certificates of all sessions have shown, where that has changed. A message may
    /// go through any session: what one of them does not prove holds for none.
    pub(crate) fn take_names(&mut self) -> Option<Vec<Box<str>>> {
        let are_new = std::mem::take(&mut self.are_names_new);
        self.names.clone().filter(|_| are_new)
    }

    fn note_names(&mut self, shown: Vec<Box<str>>) {
        match &mut self.names {
            None => {
                self.are_names_new = !shown.is_empty();
                self.names = Some(shown);
            }
            Some(names) => {
                let before = names.len();
                names.retain(|name| shown.contains(name));
                self.are_names_new |= names.len() != before;
            }
        }
    }

    /// The next message that has come on a stream.
    pub(crate) fn next_frame(&mut self, stream: u16) -> Result<Option<Frame>, FramingError> {
        match self.by_stream.get_mut(&stream) {
            Some(session) => session.next_frame(),
            None => Ok(None),
        }
    }

    /// What could not be cut into messages.
    pub(crate) fn unframed(&self, stream: u16) -> Bytes {
        let at_most = self.settings.framing.header_bytes;
        let session = self.by_stream.get(&stream);
        session.map_or_else(Bytes::new, |session| session.unframed(at_most))
    }

    /// Takes a message to be sent: a response and a keep-alive on the stream that it names, where
    /// that has a session, a request on that of its transaction (RFC 4168 section 5.1).
    pub(crate) fn send(&mut self, message: OutboundMessage, now: Instant) -> Result<(), Failure> {
        let stays = message.is_response() || is_keep_alive(&message.payload);
        let named = message.stream;
        let stream = if stays && self.by_stream.get(&named).is_some_and(Session::is_open) {
            named
        } else {
            let chosen = self
                .transactions
                .stream_among(&message.payload, &self.usable);
            match chosen {
                Some(stream) => stream,
                None => {
                    self.held.push_back(message);
                    return Ok(());
                }
            }
        };
        let result = self.session(stream, now)?.send(message);
        self.note_records(stream);
        Ok(result?)
    }

    /// Says on every session that nothing more will come.
    pub(crate) fn close(&mut self) {
        let streams: Vec<u16> = self.by_stream.keys().copied().collect();
        for stream in streams {
            if let Some(session) = self.by_stream.get_mut(&stream) {
                session.close();
                self.note_records(stream);
            }
        }
    }

    /// The next record and its stream; it stays until it is [taken](Sessions::pop_record).
    pub(crate) fn first_record(&self) -> Option<(u16, Bytes)> {
        let stream = *self.ready.front()?;
        let record = self.by_stream.get(&stream)?.first_record()?;
        Some((stream, record.octets.clone()))
    }

    pub(crate) fn pop_record(&mut self) -> Option<Record> {
        let stream = self.ready.pop_front()?;
        self.by_stream.get_mut(&stream)?.pop_record()
    }

    /// When the next thing has to have happened, and whether that is the end of a handshake.
    pub(crate) fn deadline(&self) -> Option<(Instant, bool)> {
        self.by_stream
            .values()
            .filter_map(|session| session.deadline(self.settings.partial_message))
            .min()
    }

    /// Gives up the handshakes that should be over by now, where there is another session to go on with:
    /// what waited for them goes there. Returns whether there were any.
    pub(crate) fn give_up_overdue(&mut self, now: Instant) -> Result<bool, Failure> {
        let overdue = |(_, session): &(&u16, &Session)| session.is_overdue(now);
        let streams = self.by_stream.iter().filter(overdue);
        let streams: Vec<u16> = streams.map(|(stream, _)| *stream).collect();
        if streams.is_empty() || !self.by_stream.values().any(Session::is_open) {
            return Ok(false);
        }
        self.usable.retain(|usable| !streams.contains(usable));
        for stream in streams {
            let session = self.by_stream.get_mut(&stream);
            let waiting = session.map(Session::give_up).unwrap_or_default();
            self.note_records(stream);
            for message in waiting {
                self.send(message, now)?;
            }
        }
        Ok(true)
    }

    /// All messages that have not been sent whole.
    pub(crate) fn into_unsent(self) -> impl Iterator<Item = OutboundMessage> {
        let sessions = self.by_stream.into_values();
        sessions.flat_map(Session::into_unsent).chain(self.held)
    }

    /// The session of a stream, begun where there is none.
    fn session(&mut self, stream: u16, now: Instant) -> Result<&mut Session, Failure> {
        if stream >= self.settings.pairs {
            // RFC 3436 section 7.
            return Err(Failure::NoPair(stream));
        }
        if !self.by_stream.contains_key(&stream) {
            let session = self.begin(now)?;
            self.by_stream.insert(stream, session);
            self.note_records(stream);
        }
        self.by_stream
            .get_mut(&stream)
            .ok_or(Failure::NoPair(stream))
    }

    /// As server: what comes after the end of a session is the beginning of the next one.
    fn follow_former(&mut self, stream: u16, now: Instant) -> Result<(), Failure> {
        let is_over = self.by_stream.get(&stream).is_some_and(Session::is_over);
        if is_over && matches!(self.role, Role::Server(_)) {
            let mut session = self.begin(now)?;
            if let Some(former) = self.by_stream.remove(&stream) {
                session.follow(former);
            }
            self.by_stream.insert(stream, session);
        }
        Ok(())
    }

    fn begin(&self, now: Instant) -> Result<Session, Failure> {
        let tls = match &self.role {
            Role::Client(config, name) => {
                ClientConnection::new(config.clone(), name.clone())?.into()
            }
            Role::Server(config) => ServerConnection::new(config.clone())?.into(),
        };
        let handshake_by = now + self.settings.handshake;
        Ok(Session::new(tls, self.settings.framing, handshake_by))
    }

    /// The peer sends no more on a stream: nothing new goes there, and when that holds for all, the
    /// association has no use any more.
    fn peer_closed(&mut self, stream: u16) -> Result<(), Failure> {
        self.usable.retain(|usable| *usable != stream);
        if let Some(session) = self.by_stream.get_mut(&stream) {
            session.close();
        }
        self.note_records(stream);
        let all = self.by_stream.values().all(Session::peer_has_closed);
        if all { Err(Failure::AllClosed) } else { Ok(()) }
    }

    /// Lists the records of a stream that are not listed yet.
    fn note_records(&mut self, stream: u16) {
        let records = self.by_stream.get(&stream).map_or(0, Session::records);
        let listed = self.ready.iter().filter(|ready| **ready == stream).count();
        for _ in listed..records {
            self.ready.push_back(stream);
        }
    }
}

#[cfg(test)]
mod tests;
