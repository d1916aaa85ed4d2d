//! The common header (RFC 9260, section 3.1).

use bytes::Buf;

/// The first twelve bytes of every SCTP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommonHeader {
    /// The sender's SCTP port; 0 must not be used.
    pub source_port: u16,
    /// The receiver's SCTP port; 0 must not be used.
    pub destination_port: u16,
    /// The Initiate Tag that the receiver chose at set-up, 0 in a packet that carries an INIT.
    pub verification_tag: u32,
    /// The CRC32c as the four bytes of the field read in network byte order.
    pub checksum: u32,
}

impl CommonHeader {
    /// Bytes that the common header takes.
    pub const LENGTH: usize = 12;

    /// The header and what follows it, or `None` when there are too few bytes.
    pub(super) fn read(mut bytes: &[u8]) -> Option<(CommonHeader, &[u8])> {
        let header = CommonHeader {
            source_port: bytes.try_get_u16().ok()?,
            destination_port: bytes.try_get_u16().ok()?,
            verification_tag: bytes.try_get_u32().ok()?,
            checksum: bytes.try_get_u32().ok()?,
        };
        Some((header, bytes))
    }
}
