//! The CRC32c of a packet (RFC 9260, section 6.8 and appendix A).

use crc_fast::{CrcAlgorithm, Digest};

use super::CommonHeader;

/// Where the checksum field lies in a packet.
const FIELD: std::ops::Range<usize> = 8..CommonHeader::LENGTH;

/// What the checksum field of this packet should hold, in the form of
/// [`CommonHeader::checksum`]. `None` when there is no whole common header.
pub fn of(packet: &[u8]) -> Option<u32> {
    let header = packet.first_chunk::<{ CommonHeader::LENGTH }>()?;
    let mut header = *header;
    for byte in header.get_mut(FIELD)? {
        *byte = 0;
    }
    // The CRC32c goes by the name of iSCSI, which uses it too.
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(&header);
    digest.update(packet.get(CommonHeader::LENGTH..)?);
    let crc = digest.finalize() as u32;
    // Appendix A maps the coefficient of x^31 to the first byte's highest bit in an order that
    // is, after the bit reversal built into CRC32c, least significant byte first.
    Some(crc.swap_bytes())
}

/// Fills in the checksum field. A packet too short for a common header stays as it is.
pub fn fill(packet: &mut [u8]) {
    if let Some(checksum) = of(packet)
        && let Some(field) = packet.get_mut(FIELD)
    {
        field.copy_from_slice(&checksum.to_be_bytes());
    }
}
