//! The wire format of SCTP packets (RFC 9260, section 3, and the extensions), for reading and for
//! writing.
//!
//! Reading borrows from the packet and copies nothing. It is lenient and loses nothing: an unknown
//! chunk, a field cut short, or a wrong checksum is a value that can be looked at, so that a capture
//! analyser can use it as well as the engine. What a receiver must refuse is said by separate checks
//! ([`Packet::check`], [`Init::check`]).
//!
//! Chunks, the parameters inside of INIT chunks, and the causes inside of ERROR and ABORT chunks all
//! share one layout (type, length, value, padding), and one iterator ([`Tlvs`]) walks all three.
//!
//! Writing goes through [`PacketWriter`], which bounds the size of the packet, pads, and fills in the
//! checksum.

mod association_key;
mod authenticated_part;
mod cause;
mod check;
pub mod checksum;
mod chunk;
mod chunk_type;
mod chunk_types;
mod common_header;
mod error;
mod hmac;
mod list;
mod parameter;
mod protection;
mod serial;
mod tlv;
mod writer;

pub(crate) use association_key::AssociationKey;
pub(crate) use authenticated_part::AuthenticatedPart;
pub use cause::{Cause, CauseBuffer, CauseCode, CauseIterator, Causes};
pub use check::{InitFault, PacketFault};
pub use chunk::{
    Abort, Asconf, AsconfAck, Auth, Chunk, ChunkIterator, CookieEcho, Data, ForwardTsn, Fragment,
    GapAckBlock, GapAckBlocks, Heartbeat, IData, IForwardTsn, Init, NrSack, OperationError, Pad,
    RawChunk, ReConfig, Sack, Shutdown, ShutdownComplete, SkippedMid, SkippedMids, SkippedSsn,
    SkippedSsns, TsnList,
};
pub use chunk_type::{ChunkType, ChunkTypeList};
pub(crate) use chunk_types::ChunkTypes;
pub use common_header::CommonHeader;
pub use error::{FormatError, FormatErrorKind};
pub use hmac::{HmacIdentifier, HmacList};
pub use list::U16List;
pub use parameter::{
    AddStreamsRequest, AddressRequest, ErrorCauseIndication, IncomingSsnResetRequest, NextTsns,
    OutgoingSsnResetRequest, Parameter, ParameterBuffer, ParameterIterator, ParameterType,
    Parameters, ReConfigResponse, ReConfigResult, StreamList, TypeList,
};
pub(crate) use protection::{PacketSigner, Protection};
pub use serial::{Mid, SequenceNumber, Ssn, Tsn};
pub use tlv::{Tlv, Tlvs, UnrecognizedAction};
pub use writer::{DoesNotFit, PacketWriter};

/// One SCTP packet as it lies in a buffer, from the common header on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet<'a> {
    header: CommonHeader,
    bytes: &'a [u8],
    body: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads the common header and leaves the chunks to [`Packet::chunks`].
    ///
    /// # Errors
    ///
    /// When there are fewer than [`CommonHeader::LENGTH`] bytes. Nothing else is an error here.
    pub fn read(bytes: &'a [u8]) -> Result<Packet<'a>, FormatError<'a>> {
        match CommonHeader::read(bytes) {
            Some((header, body)) => Ok(Packet {
                header,
                bytes,
                body,
            }),
            None => Err(FormatError::new(FormatErrorKind::HeaderTruncated, bytes)),
        }
    }

    /// The ports, verification tag, and checksum.
    pub fn header(&self) -> CommonHeader {
        self.header
    }

    /// The whole packet.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The chunks in order, each read. After an item whose framing is broken there are no more;
    /// after one whose fields do not fit its type the walk goes on.
    pub fn chunks(&self) -> ChunkIterator<'a> {
        ChunkIterator::new(self.body)
    }

    /// Whether the checksum field holds the CRC32c of the packet (section 6.8).
    pub fn has_valid_checksum(&self) -> bool {
        checksum::of(self.bytes) == Some(self.header.checksum)
    }
}
