//! A simulated host whose user plays ping-pong.

use bytes::Bytes;
use sctp::{AssociationId, Endpoint, Event, PathAddress, SendInfo, Transmit};
use sim::{Datagram, Host};
use std::net::IpAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Bytes of an IPv4 header: what a packet takes on the wire beside itself.
const IP_HEADER: usize = 20;

/// Bytes of a message: an ordinary one of SIP.
const MESSAGE: usize = 600;

/// An engine with one association, and its user: on each of its own streams it sends a message as
/// soon as the one before came back; on the others it sends back what comes.
pub(crate) struct PingPong {
    address: IpAddr,
    endpoint: Endpoint,
    own_streams: Range<u16>,
    association: Option<AssociationId>,
    exchanges: u64,
}

impl PingPong {
    pub(crate) fn new(address: IpAddr, endpoint: Endpoint, own_streams: Range<u16>) -> PingPong {
        PingPong {
            address,
            endpoint,
            own_streams,
            association: None,
            exchanges: 0,
        }
    }

    pub(crate) fn connect(&mut self, now: Instant, remote: IpAddr, remote_port: u16) {
        let path = PathAddress {
            local: Some(self.address),
            remote,
            encapsulation_port: None,
        };
        self.endpoint
            .connect(now, path, remote_port)
            .expect("nothing speaks against connecting");
    }

    /// How often a message of its own came back.
    pub(crate) fn exchanges(&self) -> u64 {
        self.exchanges
    }

    /// The retransmission timeout of the association, which is there.
    pub(crate) fn rto(&self) -> Duration {
        let status = self.association.and_then(|id| self.endpoint.status(id));
        status.expect("it is up").paths[0].rto
    }

    fn act(&mut self, now: Instant) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::CommunicationUp { id, .. } => {
                    self.association = Some(id);
                    for stream in self.own_streams.clone() {
                        self.send(now, id, stream);
                    }
                }
                Event::Readable { .. } | Event::PathStateChanged { .. } => {}
                event => panic!("{event:?}"),
            }
        }
        let Some(id) = self.association else {
            return;
        };
        while let Some(message) = self.endpoint.receive(now, id) {
            if self.own_streams.contains(&message.stream) {
                self.exchanges += 1;
            }
            self.send(now, id, message.stream);
        }
    }

    fn send(&mut self, now: Instant, id: AssociationId, stream: u16) {
        let info = SendInfo {
            stream,
            ..SendInfo::default()
        };
        self.endpoint
            .send(now, id, info, Bytes::from_static(&[b'x'; MESSAGE]))
            .expect("there is always room for one message a stream");
    }
}

impl Host for PingPong {
    type Payload = Bytes;

    fn handle_datagram(&mut self, now: Instant, datagram: Datagram<Bytes>) {
        let from = PathAddress {
            local: Some(datagram.destination),
            remote: datagram.source,
            encapsulation_port: None,
        };
        self.endpoint.handle_packet(now, from, datagram.payload);
        self.act(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.endpoint.handle_timeout(now);
        self.act(now);
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.endpoint.next_timeout()
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram<Bytes>> {
        let Transmit {
            path,
            packet,
            may_fragment,
        } = self.endpoint.poll_transmit(now)?;
        Some(Datagram {
            source: path.local.unwrap_or(self.address),
            destination: path.remote,
            bytes: IP_HEADER + packet.len(),
            may_fragment,
            payload: packet,
        })
    }
}
