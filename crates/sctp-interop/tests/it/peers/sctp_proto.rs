//! sctp-proto, an engine of WebRTC's data channels without I/O.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sctp::{Extensions, PrPolicy};
use sctp_proto::{
    Association, AssociationHandle, ClientConfig, DatagramEvent, Endpoint, EndpointConfig, Event,
    Payload, PayloadProtocolIdentifier, ReliabilityType, ServerConfig, Stream, StreamEvent,
    TransportConfig,
};

use crate::engine::{Client, How, Message, PORT, Peer, PeerEvent, Route};

/// An endpoint with one association.
pub(crate) struct SctpProto {
    endpoint: Endpoint,
    transport: Arc<TransportConfig>,
    association: Option<(AssociationHandle, Association)>,
    is_up: bool,
    started: Instant,
    readable: VecDeque<u16>,
    packets: VecDeque<Bytes>,
    events: VecDeque<PeerEvent>,
}

/// Where we are.
fn remote() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(10, 0, 0, 1), 9899))
}

impl SctpProto {
    fn take(&mut self) {
        let Some((handle, association)) = &mut self.association else {
            return;
        };
        while let Some(event) = association.poll() {
            match event {
                Event::Connected => self.is_up = true,
                Event::Stream(StreamEvent::Readable { id }) => self.readable.push_back(id),
                Event::Stream(StreamEvent::Finished { id }) => {
                    self.events.push_back(PeerEvent::IncomingReset(vec![id]));
                }
                Event::Stream(StreamEvent::ResetComplete { id }) => {
                    self.events.push_back(PeerEvent::OutgoingReset(vec![id]));
                }
                other => self
                    .events
                    .push_back(PeerEvent::Other(format!("{other:?}"))),
            }
        }
        while let Some(event) = association.poll_endpoint_event() {
            self.endpoint.handle_event(*handle, event);
        }
        while association.accept_stream().is_some() {}
    }

    fn stream(&mut self, id: u16) -> Stream<'_> {
        let (_, association) = self.association.as_mut().expect("it is up");
        if association.stream(id).is_err() {
            let opened = association.open_stream(id, PayloadProtocolIdentifier::Binary);
            opened.unwrap();
        }
        association.stream(id).unwrap()
    }
}

impl Peer for SctpProto {
    const EXTENSIONS: Extensions = {
        let mut extensions = Extensions::NONE;
        extensions.partial_reliability = true;
        extensions.re_configuration = true;
        extensions
    };

    /// It offers all of its extensions always.
    fn start(_: Extensions, streams: u16) -> Option<SctpProto> {
        let transport = TransportConfig::default()
            .with_max_num_inbound_streams(100)
            .with_max_num_outbound_streams(streams)
            .with_max_send_message_size(1 << 18)
            .with_max_receive_message_size(1 << 18)
            .with_max_data_retransmits(None)
            .with_rto_max_ms(1000)
            .with_local_port(PORT)
            .with_remote_port(PORT);
        let transport = Arc::new(transport);
        let mut server = ServerConfig::new();
        server.transport = Arc::clone(&transport);
        let config = Arc::new(EndpointConfig::new());
        Some(SctpProto {
            endpoint: Endpoint::new(config, Some(Arc::new(server))),
            transport,
            association: None,
            is_up: false,
            started: Instant::now(),
            readable: VecDeque::new(),
            packets: VecDeque::new(),
            events: VecDeque::new(),
        })
    }

    fn open(&mut self, client: Client) {
        if client == Client::Peer {
            let mut config = ClientConfig::new();
            config.transport = Arc::clone(&self.transport);
            self.association = Some(self.endpoint.connect(config, remote()).unwrap());
        }
    }

    fn handle_packet(&mut self, now: Duration, _: Route, packet: &[u8]) {
        let (now, packet) = (self.started + now, Bytes::copy_from_slice(packet));
        match self.endpoint.handle(now, remote(), None, None, packet) {
            Some((handle, DatagramEvent::NewAssociation(association))) => {
                self.association = Some((handle, association));
            }
            Some((_, DatagramEvent::AssociationEvent(event))) => {
                if let Some((_, association)) = &mut self.association {
                    association.handle_event(event);
                }
            }
            None => {}
        }
        self.take();
    }

    fn poll_transmit(&mut self, now: Duration) -> Option<(Route, Vec<u8>)> {
        let now = self.started + now;
        if self.packets.is_empty() {
            let from_endpoint = self.endpoint.poll_transmit();
            let association = self.association.as_mut();
            let transmit = from_endpoint.or_else(|| {
                association.and_then(|(_, association)| association.poll_transmit(now))
            })?;
            if let Payload::RawEncode(packets) = transmit.payload {
                self.packets.extend(packets);
            }
        }
        Some((None, self.packets.pop_front()?.to_vec()))
    }

    fn next_timeout(&self) -> Option<Duration> {
        let (_, association) = self.association.as_ref()?;
        let timeout = association.poll_timeout()?;
        Some(timeout.saturating_duration_since(self.started))
    }

    fn handle_timeout(&mut self, now: Duration) {
        if let Some((_, association)) = &mut self.association {
            association.handle_timeout(self.started + now);
        }
        self.take();
    }

    fn is_up(&self) -> bool {
        self.is_up
    }

    fn has_agreed_on(&mut self, _: Extensions) -> bool {
        true
    }

    fn send(&mut self, message: &Message, how: How) {
        let (reliability, value) = match how.policy {
            PrPolicy::Reliable => (ReliabilityType::Reliable, 0),
            PrPolicy::Timed(time) => {
                let milliseconds = u32::try_from(time.as_millis()).unwrap();
                (ReliabilityType::Timed, milliseconds)
            }
            PrPolicy::LimitedRetransmissions(count) => (ReliabilityType::Rexmit, count),
            other => panic!("{other:?} is none of its policies"),
        };
        let mut stream = self.stream(message.stream);
        let set = stream.set_reliability_params(how.unordered, reliability, value);
        set.unwrap();
        let written = stream.write_with_ppi(&message.payload, PayloadProtocolIdentifier::Binary);
        assert_eq!(written, Ok(message.payload.len()));
    }

    fn receive(&mut self) -> Option<Message> {
        while let Some(id) = self.readable.front().copied() {
            let (_, association) = self.association.as_mut()?;
            let chunks = association
                .stream(id)
                .ok()
                .and_then(|mut it| it.read().ok()?);
            let Some(chunks) = chunks else {
                self.readable.pop_front();
                continue;
            };
            let mut payload = vec![0; chunks.len()];
            chunks.read(&mut payload).unwrap();
            return Some(Message {
                stream: id,
                payload,
            });
        }
        None
    }

    fn reset_outgoing(&mut self, streams: &[u16]) {
        for id in streams {
            self.stream(*id).close().unwrap();
        }
    }

    fn poll_event(&mut self) -> Option<PeerEvent> {
        self.take();
        self.events.pop_front()
    }
}
