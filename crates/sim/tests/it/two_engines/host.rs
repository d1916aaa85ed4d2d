//! A simulated host: an engine and a user of it.

use bytes::{Bytes, BytesMut};
use link::Alteration;
use sctp::{AssociationId, Endpoint, Event, PathAddress, ReceivedMessage, SendError, SendInfo};
use sim::{Datagram, Host};
use sim_transport::{path_of, sctp_datagram};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// One message that a user sends.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) info: SendInfo,
    pub(crate) payload: Bytes,
}

/// When a user ends the association.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Close {
    /// Never: the peer does it.
    Never,
    /// As soon as the association is up and it has handed all of its messages to the engine.
    WhenSent,
    /// When it has also received all messages of the peer.
    WhenReceived,
}

/// What a user does.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) messages: Vec<Message>,
    /// How many messages the peer sends.
    pub(crate) expected: usize,
    pub(crate) close: Close,
    /// A slow reader takes one message at each interval while the association lasts; otherwise all
    /// are taken at once.
    pub(crate) reading_interval: Option<Duration>,
}

/// An engine with one association, and its user.
pub(crate) struct EngineHost {
    address: IpAddr,
    endpoint: Endpoint,
    plan: Plan,
    association: Option<AssociationId>,
    to_send: VecDeque<Message>,
    blocked: bool,
    received: Vec<ReceivedMessage>,
    next_reading: Option<Instant>,
    is_up: bool,
    has_ended: bool,
    shutdown_called: bool,
    events: Vec<Event>,
}

impl EngineHost {
    pub(crate) fn new(address: IpAddr, endpoint: Endpoint, plan: Plan) -> EngineHost {
        EngineHost {
            address,
            endpoint,
            to_send: plan.messages.iter().cloned().collect(),
            plan,
            association: None,
            blocked: false,
            received: Vec::new(),
            next_reading: None,
            is_up: false,
            has_ended: false,
            shutdown_called: false,
            events: Vec::new(),
        }
    }

    pub(crate) fn connect(&mut self, now: Instant, remote: IpAddr, remote_port: u16) {
        let path = PathAddress {
            local: Some(self.address),
            remote,
            encapsulation_port: None,
        };
        let id = self.endpoint.connect(now, path, remote_port);
        self.association = Some(id.expect("nothing speaks against connecting"));
        self.act(now);
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(crate) fn association(&self) -> Option<AssociationId> {
        self.association
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(crate) fn received(&self) -> &[ReceivedMessage] {
        &self.received
    }

    /// All events but those that tell a user to go on.
    pub(crate) fn events(&self) -> &[Event] {
        &self.events
    }

    /// Gives the user something more to send.
    pub(crate) fn send(&mut self, now: Instant, message: Message) {
        self.to_send.push_back(message);
        self.act(now);
    }

    /// What the user does whenever something has happened.
    fn act(&mut self, now: Instant) {
        self.take_events(now);
        self.send_messages(now);
        if self.plan.reading_interval.is_none() || self.has_ended {
            while self.read(now) {}
        }
        self.close(now);
    }

    fn take_events(&mut self, now: Instant) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Readable { .. } => {}
                Event::Writable { .. } => self.blocked = false,
                event => {
                    match event {
                        Event::CommunicationUp { id, .. } => {
                            self.association = Some(id);
                            self.is_up = true;
                            self.next_reading = self.next_reading_after(now);
                        }
                        Event::ShutdownComplete { .. } | Event::CommunicationLost { .. } => {
                            self.has_ended = true;
                            self.next_reading = None;
                        }
                        _ => {}
                    }
                    self.events.push(event);
                }
            }
        }
    }

    fn send_messages(&mut self, now: Instant) {
        let Some(id) = self.association else {
            return;
        };
        while !self.blocked
            && let Some(message) = self.to_send.front()
        {
            let payload = message.payload.clone();
            match self.endpoint.send(now, id, message.info, payload) {
                Ok(()) => {
                    self.to_send.pop_front();
                }
                Err(SendError::BufferFull) => self.blocked = true,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn next_reading_after(&self, now: Instant) -> Option<Instant> {
        self.plan.reading_interval.map(|interval| now + interval)
    }

    /// Takes one message, if there is one.
    fn read(&mut self, now: Instant) -> bool {
        let message = self
            .association
            .and_then(|id| self.endpoint.receive(now, id));
        let read = message.is_some();
        self.received.extend(message);
        read
    }

    fn close(&mut self, now: Instant) {
        let received = self.received.len() >= self.plan.expected;
        let due = match self.plan.close {
            Close::Never => false,
            Close::WhenSent => true,
            Close::WhenReceived => received,
        };
        if let Some(id) = self.association
            && due
            && self.is_up
            && self.to_send.is_empty()
            && !self.shutdown_called
        {
            self.shutdown_called = true;
            // The peer may have been faster; the events tell how it ended.
            let _ = self.endpoint.shutdown(now, id);
        }
    }
}

impl Host for EngineHost {
    type Payload = Bytes;

    fn handle_datagram(&mut self, now: Instant, datagram: Datagram<Bytes>) {
        let from = path_of(&datagram);
        self.endpoint.handle_packet(now, from, datagram.payload);
        self.act(now);
    }

    fn alter(payload: &mut Bytes, alteration: &Alteration) -> bool {
        let mut altered = BytesMut::from(&payload[..]);
        alteration.apply(&mut altered);
        *payload = altered.freeze();
        true
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.endpoint.next_timeout().is_some_and(|time| time <= now) {
            self.endpoint.handle_timeout(now);
        }
        if self.next_reading.is_some_and(|time| time <= now) {
            self.read(now);
            self.next_reading = self.next_reading_after(now);
        }
        self.act(now);
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.endpoint
            .next_timeout()
            .into_iter()
            .chain(self.next_reading)
            .min()
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram<Bytes>> {
        let transmit = self.endpoint.poll_transmit(now)?;
        Some(sctp_datagram(transmit, |_| self.address, |packet| packet))
    }
}
