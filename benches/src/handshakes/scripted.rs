//! Peers that are not engines: they keep nothing but the verification tag that they were told, and
//! answer with packets written by hand.

use anyhow::{Context, bail};
use bytes::{Bytes, BytesMut};
use sctp::packet::{
    Chunk, CookieEcho, Heartbeat, Init, Packet, PacketWriter, Parameter, Parameters, Tsn,
};

use crate::engines::PACKET_BYTES;

pub(crate) const PORT: u16 = 5000;

/// Writes packets of peers.
pub(crate) struct Script {
    buffer: BytesMut,
}

impl Script {
    pub(crate) fn new() -> Script {
        Script {
            buffer: BytesMut::new(),
        }
    }

    /// The INIT of a peer.
    pub(crate) fn init(&mut self, initiate_tag: u32) -> anyhow::Result<Bytes> {
        let init = Chunk::Init(Init {
            initiate_tag,
            a_rwnd: 1 << 17,
            outbound_streams: 10,
            inbound_streams: 10,
            initial_tsn: Tsn(initiate_tag),
            parameters: Parameters::new(&[]),
        });
        self.packet(0, &init)
    }

    /// The COOKIE ECHO that answers an INIT ACK, and the verification tag that it told.
    pub(crate) fn cookie_echo(&mut self, init_ack: &Bytes) -> anyhow::Result<(u32, Bytes)> {
        let packet = Packet::read(init_ack).ok().context("no packet")?;
        let Some(Ok(Chunk::InitAck(init))) = packet.chunks().next() else {
            bail!("no INIT ACK");
        };
        let cookie = init
            .parameters
            .iter()
            .find_map(|parameter| match parameter {
                Ok(Parameter::StateCookie(cookie)) => Some(cookie),
                _ => None,
            });
        let cookie = cookie.context("no State Cookie")?;
        let echo = Chunk::CookieEcho(CookieEcho { cookie });
        Ok((init.initiate_tag, self.packet(init.initiate_tag, &echo)?))
    }

    /// The answer to the HEARTBEAT in a packet, if there is one.
    pub(crate) fn heartbeat_ack(
        &mut self,
        verification_tag: u32,
        packet: &Bytes,
    ) -> anyhow::Result<Option<Bytes>> {
        let packet = Packet::read(packet).ok().context("no packet")?;
        let parameters = packet.chunks().find_map(|chunk| match chunk {
            Ok(Chunk::Heartbeat(heartbeat)) => Some(heartbeat.parameters),
            _ => None,
        });
        let Some(parameters) = parameters else {
            return Ok(None);
        };
        let ack = Chunk::HeartbeatAck(Heartbeat { parameters });
        self.packet(verification_tag, &ack).map(Some)
    }

    fn packet(&mut self, verification_tag: u32, chunk: &Chunk<'_>) -> anyhow::Result<Bytes> {
        let mut writer =
            PacketWriter::new(&mut self.buffer, PORT, PORT, verification_tag, PACKET_BYTES);
        writer.chunk(chunk)?;
        Ok(writer.finish())
    }
}
