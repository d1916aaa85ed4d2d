//! What carries SIP between the proxies where UDP does not: an SCTP association, which is opened when there is something to
//! send, and ends when either of them is restarted.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Instant;

use sctp::{AssociationId, Connect, Endpoint, EndpointConfig, Event, PathAddress, SendInfo};
use sim::Datagram;
use sip::transaction::TransactionKey;
use sip::{ConnectionId, Flow, Message, Target, Transmit, Transport};

use crate::world::host::Packet;

/// Streams of the association: calls are spread over them.
const STREAMS: u16 = 8;

/// Bytes of an IPv4 header.
const HEADER: usize = 20;

/// One proxy's end.
pub(crate) struct Trunk {
    local: SocketAddr,
    remote: SocketAddr,
    endpoint: Endpoint,
    current: Option<Current>,
    /// The number of the next connection, as the core sees it.
    next_connection: u64,
    /// What waits for the association to come up.
    waiting: VecDeque<Transmit>,
    news: VecDeque<News>,
}

#[derive(Clone, Copy, Debug)]
struct Current {
    id: AssociationId,
    connection: ConnectionId,
    is_up: bool,
}

/// What the core is to know.
#[derive(Debug)]
pub(crate) enum News {
    Message(Flow, Message),
    Closed(ConnectionId),
    SendFailed(TransactionKey),
}

impl Trunk {
    /// `first_connection`: a number that no connection has had before.
    pub(crate) fn new(
        local: SocketAddr,
        remote: SocketAddr,
        first_connection: u64,
        seed: [u8; 32],
    ) -> Trunk {
        let config = EndpointConfig::default()
            .path_mtu_discovery(false)
            .outbound_streams(STREAMS)
            // A story ends when nothing happens any more.
            .heartbeats(false);
        let mut endpoint = Endpoint::new(local.port(), config, seed);
        endpoint.set_local_addresses(vec![local.ip()]);
        Trunk {
            local,
            remote,
            endpoint,
            current: None,
            next_connection: first_connection,
            waiting: VecDeque::new(),
            news: VecDeque::new(),
        }
    }

    pub(crate) fn next_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    pub(crate) fn next_connection(&self) -> u64 {
        self.next_connection
    }

    pub(crate) fn assert_idle(&self) {
        assert!(self.waiting.is_empty(), "{:?}", self.waiting);
        assert!(self.news.is_empty(), "{:?}", self.news);
    }

    pub(crate) fn send(&mut self, now: Instant, transmit: Transmit) {
        assert_eq!(transmit.target.remote().ip(), self.remote.ip());
        let connection = self.current.map(|current| current.connection);
        let has_way = match transmit.target {
            Target::Flow(flow) => connection == Some(flow.connection),
            Target::FlowOrAddress(..) | Target::Address(..) => true,
        };
        if !has_way {
            self.fail(&transmit);
            return;
        }
        self.waiting.push_back(transmit);
        if self.current.is_none() {
            let path = PathAddress {
                local: None,
                remote: self.remote.ip(),
                encapsulation_port: None,
            };
            let connect = Connect {
                peer: vec![path],
                port: self.remote.port(),
                config: None,
            };
            let id = self.endpoint.connect_with(now, connect);
            self.begin(id.expect("there is room"), false);
        }
        self.take(now);
    }

    pub(crate) fn handle_datagram(&mut self, now: Instant, datagram: Datagram<Packet>) {
        let from = PathAddress {
            local: Some(datagram.destination),
            remote: datagram.source,
            encapsulation_port: None,
        };
        if let Packet::Sctp(packet) = datagram.payload {
            self.endpoint.handle_packet(now, from, packet);
        }
        self.take(now);
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.next_timeout().is_some_and(|due| due <= now) {
            self.endpoint.handle_timeout(now);
        }
        self.take(now);
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.endpoint.next_timeout()
    }

    pub(crate) fn poll_transmit(&mut self, now: Instant) -> Option<Datagram<Packet>> {
        let transmit = self.endpoint.poll_transmit(now)?;
        Some(Datagram {
            source: self.local.ip(),
            destination: transmit.path.remote,
            bytes: HEADER + transmit.packet.len(),
            may_fragment: transmit.may_fragment,
            payload: Packet::Sctp(transmit.packet),
        })
    }

    fn begin(&mut self, id: AssociationId, is_up: bool) {
        let connection = ConnectionId(self.next_connection);
        self.next_connection += 1;
        self.current = Some(Current {
            id,
            connection,
            is_up,
        });
    }

    /// The association is gone, and with it what waits for it.
    fn close(&mut self) {
        if let Some(current) = self.current.take() {
            self.news.push_back(News::Closed(current.connection));
        }
        while let Some(transmit) = self.waiting.pop_front() {
            self.fail(&transmit);
        }
    }

    fn fail(&mut self, transmit: &Transmit) {
        let failed = transmit.transaction.map(News::SendFailed);
        self.news.extend(failed);
    }

    /// Takes what has come out of the endpoint, and sends what can be sent.
    fn take(&mut self, now: Instant) {
        while let Some(event) = self.endpoint.poll_event() {
            let is_current = |id| self.current.is_some_and(|current| current.id == id);
            match event {
                Event::CommunicationUp { id, .. } if is_current(id) => {
                    if let Some(current) = &mut self.current {
                        current.is_up = true;
                    }
                }
                Event::CommunicationUp { id, .. } => {
                    // Theirs has come up before ours.
                    let before = self.current.take();
                    let closed = before.map(|before| News::Closed(before.connection));
                    self.news.extend(closed);
                    self.begin(id, true);
                }
                // The streams begin anew: another connection.
                Event::Restart { id, .. } if is_current(id) => {
                    let before = self.current.take();
                    let closed = before.map(|before| News::Closed(before.connection));
                    self.news.extend(closed);
                    self.begin(id, true);
                }
                Event::CommunicationLost { id, .. }
                | Event::CannotStart { id, .. }
                | Event::ShutdownComplete { id }
                    if is_current(id) =>
                {
                    self.receive(now);
                    self.close();
                }
                _ => {}
            }
        }
        self.receive(now);
        let Some(current) = self.current.filter(|current| current.is_up) else {
            return;
        };
        while let Some(transmit) = self.waiting.front() {
            let info = SendInfo {
                stream: (transmit.call % u32::from(STREAMS)) as u16,
                ..SendInfo::default()
            };
            let payload = transmit.payload.clone();
            if self.endpoint.send(now, current.id, info, payload).is_err() {
                return;
            }
            self.waiting.pop_front();
        }
    }

    fn receive(&mut self, now: Instant) {
        let Some(current) = self.current else {
            return;
        };
        while let Some(received) = self.endpoint.receive(now, current.id) {
            let flow = Flow {
                transport: Transport::Sctp,
                local: self.local,
                remote: self.remote,
                connection: current.connection,
                stream: received.stream,
            };
            let message = Message::read(received.payload).expect("what is sent can be read");
            self.news.push_back(News::Message(flow, message));
        }
    }
}
