//! Writes packets: chunk after chunk into one buffer, never beyond a given size.

use super::chunk::Chunk;
use super::protection::Protection;
use super::tlv::{HEADER_LENGTH, MAXIMUM_VALUE_LENGTH, padding_of};
use super::{ChunkType, CommonHeader, checksum};
use bytes::{BufMut, Bytes, BytesMut};
use std::fmt;

/// A packet being written.
///
/// A chunk that does not fit leaves the packet as it was, so that a sender can try what comes next
/// or finish. Give every packet the same buffer: memory is then allocated once for many packets.
#[derive(Debug)]
pub struct PacketWriter<'b> {
    buffer: &'b mut BytesMut,
    maximum_size: usize,
    protection: Protection,
    /// Where the AUTH chunk is, if there is one.
    auth_at: Option<usize>,
    /// The shared key that the packet is to be authenticated with.
    key: Option<u16>,
    /// A chunk is in it with which the checksum must not be left out.
    needs_checksum: bool,
}

/// The chunk does not fit into what is left of the packet, or is longer than a length field can
/// tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DoesNotFit;

/// More than an Ethernet carries.
const USUAL_SIZE: usize = 2048;

impl<'b> PacketWriter<'b> {
    /// Starts a packet of at most `maximum_size` bytes, common header and padding included.
    /// What `buffer` held is discarded.
    ///
    /// # Panics
    ///
    /// When `maximum_size` has no room for the common header.
    pub fn new(
        buffer: &'b mut BytesMut,
        source_port: u16,
        destination_port: u16,
        verification_tag: u32,
        maximum_size: usize,
    ) -> PacketWriter<'b> {
        assert!(
            maximum_size >= CommonHeader::LENGTH,
            "no room for a common header"
        );
        buffer.clear();
        // Most packets are small, however large they may be. The buffer grows for those that are not.
        buffer.reserve(maximum_size.min(USUAL_SIZE));
        let [a, b] = source_port.to_be_bytes();
        let [c, d] = destination_port.to_be_bytes();
        let [e, f, g, h] = verification_tag.to_be_bytes();
        buffer.put_slice(&[a, b, c, d, e, f, g, h, 0, 0, 0, 0]);
        PacketWriter {
            buffer,
            maximum_size,
            protection: Protection::default(),
            auth_at: None,
            key: None,
            needs_checksum: false,
        }
    }

    /// Has the packet protected like this. No chunk may have been written yet.
    #[must_use]
    #[inline]
    pub(crate) fn protected_by(mut self, protection: Protection) -> PacketWriter<'b> {
        self.protection = protection;
        self
    }

    /// Has what is to be authenticated authenticated with a shared key; else the active one is
    /// taken.
    ///
    /// # Errors
    ///
    /// When another key was asked for before (RFC 6458, section 8.1.18).
    pub(crate) fn authenticate_with(&mut self, key: u16) -> Result<(), DoesNotFit> {
        if *self.key.get_or_insert(key) == key {
            Ok(())
        } else {
            Err(DoesNotFit)
        }
    }

    /// Bytes of the packet so far.
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Whether no chunk has been written.
    pub fn is_empty(&self) -> bool {
        self.buffer.len() == CommonHeader::LENGTH
    }

    /// Bytes that are left for further chunks, each with its header and padding.
    pub fn remaining(&self) -> usize {
        // A maximum that is no multiple of four cannot be reached, as chunks are padded.
        (self.maximum_size - self.buffer.len()) & !3
    }

    /// The same for chunks of a type that may need an AUTH chunk in front of them.
    pub(crate) fn remaining_for(&self, chunk_type: ChunkType) -> usize {
        self.remaining()
            .saturating_sub(self.auth_length_before(chunk_type))
    }

    /// Lowers the size that the packet may have, to no less than it has already.
    pub fn limit(&mut self, maximum_size: usize) {
        self.maximum_size = self.maximum_size.min(maximum_size.max(self.buffer.len()));
    }

    /// Appends a chunk. The engine's frequent chunks have methods of their own beside their type.
    ///
    /// # Errors
    ///
    /// When the chunk does not fit.
    pub fn chunk(&mut self, chunk: &Chunk<'_>) -> Result<(), DoesNotFit> {
        chunk.write(self)
    }

    /// Fills in HMAC and checksum and hands over the packet.
    pub fn finish(self) -> Bytes {
        let buffer = self.complete();
        buffer.split().freeze()
    }

    /// Fills in HMAC and checksum, and leaves the packet in the buffer; tells its size.
    pub(crate) fn seal(self) -> usize {
        self.complete().len()
    }

    fn complete(self) -> &'b mut BytesMut {
        if let Some(signer) = &self.protection.signer
            && let Some(authenticated) = self.auth_at.and_then(|at| self.buffer.get_mut(at..))
        {
            signer.sign(self.key, authenticated);
        }
        if self.needs_checksum || !self.protection.zero_checksum {
            checksum::fill(self.buffer);
        }
        self.buffer
    }

    /// Appends a chunk whose value of exactly `value_length` bytes is written by `value`.
    pub(super) fn append(
        &mut self,
        chunk_type: ChunkType,
        flags: u8,
        value_length: usize,
        value: impl FnOnce(&mut BytesMut),
    ) -> Result<(), DoesNotFit> {
        if value_length > MAXIMUM_VALUE_LENGTH {
            return Err(DoesNotFit);
        }
        let length = HEADER_LENGTH + value_length;
        let padding = padding_of(length);
        let auth_length = self.auth_length_before(chunk_type);
        if auth_length + length + padding > self.remaining() {
            return Err(DoesNotFit);
        }
        if auth_length > 0 {
            self.write_auth();
        }
        self.needs_checksum |= !chunk_type.may_go_without_checksum();
        let start = self.buffer.len();
        let [a, b] = (length as u16).to_be_bytes();
        self.buffer.put_slice(&[chunk_type.0, flags, a, b]);
        value(self.buffer);
        debug_assert_eq!(self.buffer.len(), start + length);
        if padding > 0 {
            self.buffer.put_bytes(0, padding);
        }
        Ok(())
    }

    /// Bytes of the AUTH chunk that a chunk of this type needs in front of it.
    pub(super) fn auth_length_before(&self, chunk_type: ChunkType) -> usize {
        match self.auth_at {
            None => self.protection.overhead(chunk_type),
            Some(_) => 0,
        }
    }

    /// Puts in the AUTH chunk, for which there is room.
    fn write_auth(&mut self) {
        if let Some(signer) = self.protection.signer.clone() {
            self.auth_at = Some(self.buffer.len());
            // The AUTH chunk is no type that needs one in front of it, and the room is there.
            let _ = Chunk::Auth(signer.unsigned()).write(self);
        }
    }
}

impl fmt::Display for DoesNotFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the chunk does not fit into the packet")
    }
}

impl std::error::Error for DoesNotFit {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_packets_share_memory_however_large_they_may_be() {
        const MAXIMUM: usize = 30_000;
        let mut buffer = BytesMut::with_capacity(1 << 15);
        let mut write = || PacketWriter::new(&mut buffer, 1, 2, 3, MAXIMUM).finish();
        let packets: Vec<Bytes> = (0..1000).map(|_| write()).collect();
        let ends = packets.iter().map(|packet| packet.as_ptr_range().end);
        let begins = packets.iter().skip(1).map(|packet| packet.as_ptr());
        let side_by_side = ends.zip(begins).filter(|(end, begin)| end == begin).count();
        assert_eq!(side_by_side, packets.len() - 1);
    }

    #[test]
    fn some_chunks_are_never_without_a_checksum() {
        for (chunk_type, needs_checksum) in [
            (ChunkType::INIT, true),
            (ChunkType::COOKIE_ECHO, true),
            (ChunkType::ASCONF, true),
            (ChunkType::SHUTDOWN_ACK, true),
            (ChunkType::ASCONF_ACK, false),
            (ChunkType::DATA, false),
        ] {
            let mut buffer = BytesMut::new();
            let mut writer =
                PacketWriter::new(&mut buffer, 1, 2, 3, 100).protected_by(Protection {
                    signer: None,
                    zero_checksum: true,
                });
            assert_eq!(writer.append(chunk_type, 0, 0, |_| {}), Ok(()));
            let packet = writer.finish();
            assert_eq!(packet[8..12] != [0; 4], needs_checksum, "{chunk_type}");
        }
    }

    #[test]
    fn a_packet_becomes_as_large_as_it_may() {
        let mut buffer = BytesMut::new();
        let mut packet = PacketWriter::new(&mut buffer, 1, 2, 3, 30_000);
        let length = packet.remaining() - HEADER_LENGTH;
        let value = vec![7; length];
        let added = packet.append(ChunkType::DATA, 0, length, |buffer| {
            buffer.put_slice(&value)
        });
        assert_eq!(added, Ok(()));
        assert_eq!(packet.remaining(), 0);
        let packet = packet.finish();
        assert_eq!(packet.len(), 30_000);
        assert!(packet.ends_with(&value));
    }
}
