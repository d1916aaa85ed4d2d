//! sctp-proto, an engine for WebRTC's data channels without I/O.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use anyhow::anyhow;
use bytes::Bytes;
use sctp_proto::{
    Association, AssociationHandle, ClientConfig, DatagramEvent, Endpoint, EndpointConfig, Event,
    Payload, PayloadProtocolIdentifier, ReliabilityType, ServerConfig, StreamEvent,
    TransportConfig,
};

use super::{BUFFER_BYTES, Extension, PACKET_BYTES, STREAMS, Transfer};

/// Bytes of a packet with one DATA chunk beside the user data.
const HEADERS: usize = 12 + 16;

/// An endpoint with one association.
pub(crate) struct Engine {
    endpoint: Endpoint,
    association: Option<(AssociationHandle, Association)>,
    is_up: bool,
    peer: SocketAddr,
    readable: Vec<u16>,
    packets: VecDeque<Bytes>,
}

fn transport() -> Arc<TransportConfig> {
    let transport = TransportConfig::default()
        .with_max_receive_buffer_size(BUFFER_BYTES as u32)
        .with_max_num_inbound_streams(STREAMS)
        .with_max_num_outbound_streams(STREAMS);
    Arc::new(transport)
}

impl Engine {
    fn new(server: bool, peer: SocketAddr) -> Engine {
        let mut config = EndpointConfig::new();
        config.max_payload_size((PACKET_BYTES - HEADERS) as u32);
        let server = server.then(|| {
            let mut server = ServerConfig::new();
            server.transport = transport();
            Arc::new(server)
        });
        Engine {
            endpoint: Endpoint::new(Arc::new(config), server),
            association: None,
            is_up: false,
            peer,
            readable: Vec::new(),
            packets: VecDeque::new(),
        }
    }

    fn handle_events(&mut self) {
        let Some((handle, association)) = &mut self.association else {
            return;
        };
        while let Some(event) = association.poll() {
            match event {
                Event::Connected => self.is_up = true,
                Event::Stream(StreamEvent::Readable { id }) => self.readable.push(id),
                _ => {}
            }
        }
        while let Some(event) = association.poll_endpoint_event() {
            self.endpoint.handle_event(*handle, event);
        }
        while association.accept_stream().is_some() {}
    }
}

impl super::Engine for Engine {
    type Packet = Bytes;

    const EXTENSIONS: &'static [Extension] = &[];

    fn pair(_: Instant, transfer: &Transfer) -> anyhow::Result<(Self, Self)> {
        let address = |number| SocketAddr::from((Ipv4Addr::new(10, 0, 0, number), 9899));
        let mut client = Engine::new(false, address(2));
        let server = Engine::new(true, address(1));
        let mut config = ClientConfig::new();
        config.transport = transport();
        let (handle, mut association) = client.endpoint.connect(config, client.peer)?;
        for stream in 0..transfer.streams {
            association
                .open_stream(stream, PayloadProtocolIdentifier::Binary)?
                .set_reliability_params(transfer.unordered, ReliabilityType::Reliable, 0)?;
        }
        client.association = Some((handle, association));
        Ok((client, server))
    }

    fn is_up(&self) -> bool {
        self.is_up
    }

    fn send(
        &mut self,
        _: Instant,
        payload: &[u8],
        _: bool,
        streams: impl Iterator<Item = u16>,
    ) -> anyhow::Result<u64> {
        let Some((_, association)) = &mut self.association else {
            return Ok(0);
        };
        let mut taken = 0;
        for stream in streams {
            association
                .stream(stream)?
                .write_with_ppi(payload, PayloadProtocolIdentifier::Binary)
                .map_err(|error| anyhow!("sctp-proto takes no message: {error}"))?;
            taken += 1;
        }
        Ok(taken)
    }

    fn handle_packet(&mut self, now: Instant, packet: Bytes) {
        match self.endpoint.handle(now, self.peer, None, None, packet) {
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
        self.handle_events();
    }

    fn transmit(&mut self, now: Instant) -> Option<Bytes> {
        if let Some(packet) = self.packets.pop_front() {
            return Some(packet);
        }
        let from_endpoint = self.endpoint.poll_transmit();
        let association = self.association.as_mut();
        let transmit =
            from_endpoint.or_else(|| association.and_then(|(_, it)| it.poll_transmit(now)))?;
        if let Payload::RawEncode(packets) = transmit.payload {
            self.packets.extend(packets);
        }
        self.packets.pop_front()
    }

    fn receive(&mut self, _: Instant) -> (u64, u64) {
        let (mut messages, mut bytes) = (0, 0);
        let Some((_, association)) = &mut self.association else {
            return (0, 0);
        };
        for id in self.readable.drain(..) {
            let Ok(mut stream) = association.stream(id) else {
                continue;
            };
            // Its messages are in pieces, which a user would still have to put together.
            while let Ok(Some(message)) = stream.read() {
                messages += 1;
                bytes += message.len() as u64;
            }
        }
        (messages, bytes)
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.association
            .as_ref()
            .and_then(|(_, association)| association.poll_timeout())
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some((_, association)) = &mut self.association {
            association.handle_timeout(now);
        }
        self.handle_events();
    }
}
