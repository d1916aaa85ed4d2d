//! What a receiver must refuse although it can be read (RFC 9260): rules about a packet by itself,
//! without any association in mind.

use super::{ChunkType, FormatErrorKind, Init, Packet};
use std::fmt;

/// Why a packet must be dropped as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PacketFault {
    /// The checksum is wrong (section 6.8).
    Checksum,
    /// A port is 0 (section 3.1).
    ZeroPort,
    /// There is no chunk.
    NoChunk,
    /// The framing of a chunk is broken (section 3.2).
    Framing(FormatErrorKind),
    /// INIT, INIT ACK, or SHUTDOWN COMPLETE shares the packet with another chunk (section 3).
    Bundled(ChunkType),
    /// INIT comes with a verification tag other than 0 (section 8.5.1 (A)).
    InitWithTag,
}

/// Which of the fixed fields of an INIT or INIT ACK has a value that it must not have
/// (section 3.3.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum InitFault {
    /// The Initiate Tag is 0.
    ZeroInitiateTag,
    /// The advertised receiver window credit is smaller than 1500 bytes.
    SmallWindow,
    /// The number of outbound streams is 0.
    NoOutboundStreams,
    /// The number of inbound streams is 0.
    NoInboundStreams,
}

impl Packet<'_> {
    /// Checks the rules that concern the packet as a whole. It walks the chunks once, so that what
    /// it lets pass has sound framing to its end and a receiver never stops halfway.
    ///
    /// # Errors
    ///
    /// The first fault found.
    pub fn check(&self) -> Result<(), PacketFault> {
        if !self.has_valid_checksum() {
            return Err(PacketFault::Checksum);
        }
        self.check_without_checksum()
    }

    /// The same without the checksum: for packets that are protected in another way (RFC 9653).
    ///
    /// # Errors
    ///
    /// The first fault found.
    pub fn check_without_checksum(&self) -> Result<(), PacketFault> {
        let header = self.header();
        if header.source_port == 0 || header.destination_port == 0 {
            return Err(PacketFault::ZeroPort);
        }
        let mut count = 0;
        let mut alone = None;
        for chunk in self.chunks().raw() {
            let chunk_type = match chunk {
                Ok(chunk) => chunk.chunk_type(),
                Err(error) => return Err(PacketFault::Framing(error.kind())),
            };
            count += 1;
            if chunk_type.travels_alone() {
                alone = Some(chunk_type);
            }
        }
        match alone {
            _ if count == 0 => Err(PacketFault::NoChunk),
            Some(chunk_type) if count > 1 => Err(PacketFault::Bundled(chunk_type)),
            Some(ChunkType::INIT) if header.verification_tag != 0 => Err(PacketFault::InitWithTag),
            _ => Ok(()),
        }
    }
}

impl Init<'_> {
    /// Checks the fixed fields.
    ///
    /// # Errors
    ///
    /// The first fault found. What the receiver does about it depends on the chunk and its state:
    /// see sections 3.3.2 and 3.3.3.
    pub fn check(&self) -> Result<(), InitFault> {
        if self.initiate_tag == 0 {
            Err(InitFault::ZeroInitiateTag)
        } else if self.a_rwnd < 1500 {
            Err(InitFault::SmallWindow)
        } else if self.outbound_streams == 0 {
            Err(InitFault::NoOutboundStreams)
        } else if self.inbound_streams == 0 {
            Err(InitFault::NoInboundStreams)
        } else {
            Ok(())
        }
    }
}

impl fmt::Display for PacketFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PacketFault::Checksum => f.write_str("wrong checksum"),
            PacketFault::ZeroPort => f.write_str("port 0"),
            PacketFault::NoChunk => f.write_str("no chunk"),
            PacketFault::Framing(kind) => write!(f, "broken chunk: {kind}"),
            PacketFault::Bundled(chunk_type) => write!(f, "{chunk_type} bundled"),
            PacketFault::InitWithTag => f.write_str("INIT with a verification tag"),
        }
    }
}

impl std::error::Error for PacketFault {}

impl fmt::Display for InitFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InitFault::ZeroInitiateTag => "Initiate Tag 0",
            InitFault::SmallWindow => "a_rwnd smaller than 1500",
            InitFault::NoOutboundStreams => "no outbound streams",
            InitFault::NoInboundStreams => "no inbound streams",
        })
    }
}

impl std::error::Error for InitFault {}
