//! A control chunk that is kept until it is sent, byte for byte.

use bytes::{Bytes, BytesMut};

use crate::packet::{Chunk, CommonHeader, DoesNotFit, PacketWriter, RawChunk, Tlvs};

/// A chunk as it lies in a packet, with its padding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EncodedChunk(Bytes);

impl EncodedChunk {
    /// Encodes `chunk`.
    pub(crate) fn new(chunk: &Chunk<'_>) -> Result<EncodedChunk, DoesNotFit> {
        const LARGEST: usize = CommonHeader::LENGTH + u16::MAX as usize;
        let mut buffer = BytesMut::new();
        let mut writer = PacketWriter::new(&mut buffer, 0, 0, 0, LARGEST);
        writer.chunk(chunk)?;
        let mut packet = writer.finish();
        Ok(EncodedChunk(packet.split_off(CommonHeader::LENGTH)))
    }

    /// Bytes that it takes up in a packet.
    pub(crate) fn size(&self) -> usize {
        self.0.len()
    }

    /// Writes it into a packet.
    pub(crate) fn write(&self, writer: &mut PacketWriter<'_>) -> Result<(), DoesNotFit> {
        match Tlvs::new(&self.0).next() {
            Some(Ok(tlv)) => writer.chunk(&Chunk::Other(RawChunk::new(tlv))),
            _ => Err(DoesNotFit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{CookieEcho, Packet};

    #[test]
    fn the_chunk_is_written_as_it_was() {
        let chunk = Chunk::CookieEcho(CookieEcho { cookie: b"12345" });
        let encoded = EncodedChunk::new(&chunk).unwrap();
        assert_eq!(encoded.size(), 12);
        let mut buffer = BytesMut::new();
        let mut writer = PacketWriter::new(&mut buffer, 1, 2, 3, 100);
        encoded.write(&mut writer).unwrap();
        writer.limit(CommonHeader::LENGTH + 16);
        assert_eq!(encoded.write(&mut writer), Err(DoesNotFit));
        let packet = writer.finish();
        let chunks: Vec<_> = Packet::read(&packet).unwrap().chunks().collect();
        assert_eq!(chunks, [Ok(chunk)]);
    }
}
