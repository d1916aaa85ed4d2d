//! Packets on their way out: one buffer for all of them.

use std::net::SocketAddr;

/// Packets that wait to be sent, one behind the other in a buffer.
#[derive(Debug, Default)]
pub struct PacketBatch {
    octets: Vec<u8>,
    media: Vec<OutgoingPacket>,
    control: Vec<OutgoingPacket>,
}

/// A part of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutgoingPacket {
    /// Where it begins in the buffer.
    pub start: usize,
    /// How many octets it has.
    pub length: usize,
    /// Where it goes.
    pub destination: SocketAddr,
}

impl PacketBatch {
    /// The buffer.
    pub fn octets(&self) -> &[u8] {
        &self.octets
    }

    /// Packets that leave by the port of RTP.
    pub fn media(&self) -> &[OutgoingPacket] {
        &self.media
    }

    /// Packets that leave by the port of RTCP.
    pub fn control(&self) -> &[OutgoingPacket] {
        &self.control
    }

    /// The octets of a packet.
    pub fn packet(&self, packet: &OutgoingPacket) -> &[u8] {
        let end = packet.start.saturating_add(packet.length);
        self.octets.get(packet.start..end).unwrap_or_default()
    }

    /// Forgets the packets, and keeps the room.
    pub fn clear(&mut self) {
        self.octets.clear();
        self.media.clear();
        self.control.clear();
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.octets.is_empty()
    }

    /// Appends a packet, which `write` writes, for the port of RTP. Where it writes nothing there is none.
    pub(super) fn push<T>(
        &mut self,
        destination: SocketAddr,
        write: impl FnOnce(&mut Vec<u8>) -> T,
    ) -> T {
        let start = self.octets.len();
        let written = write(&mut self.octets);
        self.media.extend(self.last(start, destination));
        written
    }

    /// The same for the port of RTCP.
    pub(super) fn push_control(
        &mut self,
        destination: SocketAddr,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let start = self.octets.len();
        write(&mut self.octets);
        self.control.extend(self.last(start, destination));
    }

    fn last(&self, start: usize, destination: SocketAddr) -> Option<OutgoingPacket> {
        let length = self.octets.len() - start;
        (length > 0).then_some(OutgoingPacket {
            start,
            length,
            destination,
        })
    }
}
