//! The CRC32c of a packet (RFC 9260, section 6.8 and appendix A).

use crc_fast::{CrcAlgorithm, Digest};

use super::CommonHeader;

/// Where the checksum field lies in a packet.
const FIELD: std::ops::Range<usize> = 8..CommonHeader::LENGTH;

/// What the checksum field of this packet should hold, in the form of
/// [`CommonHeader::checksum`]. `None` when there is no whole common header.
pub fn of(packet: &[u8]) -> Option<u32> {
    let mut header = *packet.first_chunk::<{ CommonHeader::LENGTH }>()?;
    header.get_mut(FIELD)?.fill(0);
    let mut digest = Digest::new(CRC32C);
    digest.update(&header);
    digest.update(packet.get(CommonHeader::LENGTH..)?);
    Some(in_field(digest.finalize()))
}

/// Fills in the checksum field. A packet too short for a common header stays as it is.
pub fn fill(packet: &mut [u8]) {
    if packet.len() < CommonHeader::LENGTH {
        return;
    }
    if let Some(field) = packet.get_mut(FIELD) {
        field.fill(0);
    }
    let checksum = in_field(crc_fast::checksum(CRC32C, packet));
    if let Some(field) = packet.get_mut(FIELD) {
        field.copy_from_slice(&checksum.to_be_bytes());
    }
}

/// The CRC32c goes by the name of iSCSI, which uses it too.
const CRC32C: CrcAlgorithm = CrcAlgorithm::Crc32Iscsi;

/// A CRC as the field holds it. Appendix A maps the coefficient of x^31 to the first byte's highest
/// bit in an order that is, after the bit reversal built into CRC32c, least significant byte first.
fn in_field(crc: u64) -> u32 {
    (crc as u32).swap_bytes()
}
