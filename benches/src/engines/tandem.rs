//! Our engine.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use bytes::Bytes;
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sctp::packet::ChunkType;
use sctp::{
    AssociationId, Endpoint, EndpointConfig, Event, Extensions, PathAddress, SendError, SendInfo,
};

use super::{BUFFER_BYTES, Extension, SEND_BUFFER_BYTES, STREAMS, Transfer};

const PORT: u16 = 5000;
const ENCAPSULATION_PORT: u16 = 9899;

/// An endpoint with one association.
pub(crate) struct Engine {
    endpoint: Endpoint,
    id: Option<AssociationId>,
    is_up: bool,
    peer: PathAddress,
}

/// The settings of a comparison: the defaults, with the buffers that both sides have.
pub(crate) fn config() -> EndpointConfig {
    EndpointConfig::default()
        .a_rwnd(BUFFER_BYTES as u32)
        .send_buffer(SEND_BUFFER_BYTES)
        .outbound_streams(STREAMS)
        .max_inbound_streams(STREAMS)
        .nodelay(true)
}

/// The address of host `number`; a path MTU of 1500 leaves 1472 bytes for SCTP there.
pub(crate) fn address(number: u32) -> PathAddress {
    PathAddress {
        local: None,
        remote: IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number)),
        encapsulation_port: Some(ENCAPSULATION_PORT),
    }
}

impl Engine {
    fn new(seed: u64, peer: PathAddress, config: EndpointConfig) -> Engine {
        Engine {
            endpoint: Endpoint::new(PORT, config, ChaCha12Rng::seed_from_u64(seed).get_seed()),
            id: None,
            is_up: false,
            peer,
        }
    }

    fn handle_events(&mut self) {
        while let Some(event) = self.endpoint.poll_event() {
            if let Event::CommunicationUp { id, .. } = event {
                self.id = Some(id);
                self.is_up = true;
            }
        }
    }
}

impl super::Engine for Engine {
    type Packet = Bytes;

    const EXTENSIONS: &'static [Extension] = &[Extension::Interleaving, Extension::Authentication];

    fn pair(now: Instant, transfer: &Transfer) -> anyhow::Result<(Self, Self)> {
        let mut extensions = Extensions::NONE;
        extensions.interleaving = transfer.extension == Some(Extension::Interleaving);
        extensions.authentication = transfer.extension == Some(Extension::Authentication);
        let config = config()
            .extensions(extensions)
            .auth_chunks(vec![ChunkType::DATA]);
        let mut client = Engine::new(1, address(2), config.clone());
        let server = Engine::new(2, address(1), config);
        client.id = Some(client.endpoint.connect(now, client.peer, PORT)?);
        Ok((client, server))
    }

    fn is_up(&self) -> bool {
        self.is_up
    }

    fn send(
        &mut self,
        now: Instant,
        payload: &[u8],
        unordered: bool,
        streams: impl Iterator<Item = u16>,
    ) -> anyhow::Result<u64> {
        let Some(id) = self.id else { return Ok(0) };
        let mut taken = 0;
        for stream in streams {
            let info = SendInfo {
                stream,
                unordered,
                ..SendInfo::default()
            };
            match self
                .endpoint
                .send(now, id, info, Bytes::copy_from_slice(payload))
            {
                Ok(()) => taken += 1,
                Err(SendError::BufferFull) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(taken)
    }

    fn handle_packet(&mut self, now: Instant, packet: Bytes) {
        self.endpoint.handle_packet(now, self.peer, packet);
        self.handle_events();
    }

    fn transmit(&mut self, now: Instant) -> Option<Bytes> {
        self.endpoint
            .poll_transmit(now)
            .map(|transmit| transmit.packet)
    }

    fn receive(&mut self, now: Instant) -> (u64, u64) {
        let (mut messages, mut bytes) = (0, 0);
        let Some(id) = self.id else {
            return (0, 0);
        };
        while let Some(message) = self.endpoint.receive(now, id) {
            messages += 1;
            bytes += message.payload.len() as u64;
        }
        (messages, bytes)
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.endpoint.next_timeout()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.endpoint.handle_timeout(now);
        self.handle_events();
    }
}
