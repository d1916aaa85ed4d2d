//! The wire format of SCTP packets (RFC 9260, section 3, and the extensions): against the RFCs' drawings, against
//! hostile lengths, and against itself.

mod check;
mod extensions;
mod hostile;
mod layout;
mod lengths;
mod round_trip;

use bytes::{Bytes, BytesMut};
use sctp::packet::{CommonHeader, PacketWriter};

/// A packet with the chunks that `write` appends, in the largest size that IP can carry.
fn packet_with(write: impl FnOnce(&mut PacketWriter<'_>)) -> Bytes {
    let mut buffer = BytesMut::new();
    let mut writer = PacketWriter::new(&mut buffer, 5060, 36412, 0x0102_0304, 65_535);
    write(&mut writer);
    writer.finish()
}

/// A packet with these bytes after the common header, and the right checksum.
fn packet_of_raw_chunks(chunks: &[u8]) -> Vec<u8> {
    let mut packet = packet_with(|_| {}).to_vec();
    packet.extend_from_slice(chunks);
    sctp::packet::checksum::fill(&mut packet);
    packet
}

/// What follows the common header.
fn chunks_of(packet: &[u8]) -> &[u8] {
    &packet[CommonHeader::LENGTH..]
}
