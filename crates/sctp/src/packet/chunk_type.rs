//! The types of chunks (RFC 9260, section 3.2, and the extensions).

use super::tlv::UnrecognizedAction;
use std::fmt;

/// The type of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChunkType(pub u8);

/// A list of chunk types, as they lie in the packet.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct ChunkTypeList<'a>(&'a [u8]);

impl ChunkType {
    /// Payload Data.
    pub const DATA: ChunkType = ChunkType(0);
    /// Initiation.
    pub const INIT: ChunkType = ChunkType(1);
    /// Initiation Acknowledgement.
    pub const INIT_ACK: ChunkType = ChunkType(2);
    /// Selective Acknowledgement.
    pub const SACK: ChunkType = ChunkType(3);
    /// Heartbeat Request.
    pub const HEARTBEAT: ChunkType = ChunkType(4);
    /// Heartbeat Acknowledgement.
    pub const HEARTBEAT_ACK: ChunkType = ChunkType(5);
    /// Abort.
    pub const ABORT: ChunkType = ChunkType(6);
    /// Shutdown.
    pub const SHUTDOWN: ChunkType = ChunkType(7);
    /// Shutdown Acknowledgement.
    pub const SHUTDOWN_ACK: ChunkType = ChunkType(8);
    /// Operation Error.
    pub const ERROR: ChunkType = ChunkType(9);
    /// State Cookie.
    pub const COOKIE_ECHO: ChunkType = ChunkType(10);
    /// Cookie Acknowledgement.
    pub const COOKIE_ACK: ChunkType = ChunkType(11);
    /// Shutdown Complete.
    pub const SHUTDOWN_COMPLETE: ChunkType = ChunkType(14);
    /// Authentication (RFC 4895).
    pub const AUTH: ChunkType = ChunkType(15);
    /// Non-Renegable Selective Acknowledgement (draft-natarajan-tsvwg-sctp-nrsack).
    pub const NR_SACK: ChunkType = ChunkType(16);
    /// Payload Data of interleaved messages (RFC 8260).
    pub const I_DATA: ChunkType = ChunkType(64);
    /// Address Configuration Acknowledgement (RFC 5061).
    pub const ASCONF_ACK: ChunkType = ChunkType(0x80);
    /// Re-configuration (RFC 6525).
    pub const RE_CONFIG: ChunkType = ChunkType(130);
    /// Padding (RFC 4820).
    pub const PAD: ChunkType = ChunkType(0x84);
    /// Forward Cumulative TSN (RFC 3758).
    pub const FORWARD_TSN: ChunkType = ChunkType(192);
    /// Address Configuration Change (RFC 5061).
    pub const ASCONF: ChunkType = ChunkType(0xc1);
    /// Forward Cumulative TSN for interleaved messages (RFC 8260).
    pub const I_FORWARD_TSN: ChunkType = ChunkType(194);

    /// What to do with a chunk of this type by someone who does not recognize it.
    pub fn unrecognized_action(self) -> UnrecognizedAction {
        UnrecognizedAction::of_highest_bits(self.0)
    }

    /// Whether the chunk must not share its packet with another one (section 3).
    pub fn travels_alone(self) -> bool {
        matches!(
            self,
            ChunkType::INIT | ChunkType::INIT_ACK | ChunkType::SHUTDOWN_COMPLETE
        )
    }
}

impl fmt::Display for ChunkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            ChunkType::DATA => "DATA",
            ChunkType::INIT => "INIT",
            ChunkType::INIT_ACK => "INIT ACK",
            ChunkType::SACK => "SACK",
            ChunkType::HEARTBEAT => "HEARTBEAT",
            ChunkType::HEARTBEAT_ACK => "HEARTBEAT ACK",
            ChunkType::ABORT => "ABORT",
            ChunkType::SHUTDOWN => "SHUTDOWN",
            ChunkType::SHUTDOWN_ACK => "SHUTDOWN ACK",
            ChunkType::ERROR => "ERROR",
            ChunkType::COOKIE_ECHO => "COOKIE ECHO",
            ChunkType::COOKIE_ACK => "COOKIE ACK",
            ChunkType::SHUTDOWN_COMPLETE => "SHUTDOWN COMPLETE",
            ChunkType::AUTH => "AUTH",
            ChunkType::NR_SACK => "NR-SACK",
            ChunkType::I_DATA => "I-DATA",
            ChunkType::ASCONF_ACK => "ASCONF-ACK",
            ChunkType::RE_CONFIG => "RE-CONFIG",
            ChunkType::PAD => "PAD",
            ChunkType::FORWARD_TSN => "FORWARD-TSN",
            ChunkType::ASCONF => "ASCONF",
            ChunkType::I_FORWARD_TSN => "I-FORWARD-TSN",
            ChunkType(other) => return write!(f, "chunk type {other}"),
        })
    }
}

impl fmt::Debug for ChunkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChunkType({})", self.0)
    }
}

impl<'a> ChunkTypeList<'a> {
    /// A list of types.
    pub fn new(types: &'a [u8]) -> ChunkTypeList<'a> {
        ChunkTypeList(types)
    }

    /// The types in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = ChunkType> + Clone + use<'a> {
        self.0.iter().map(|&chunk_type| ChunkType(chunk_type))
    }

    /// Whether a type is there.
    pub fn contains(&self, chunk_type: ChunkType) -> bool {
        self.0.contains(&chunk_type.0)
    }

    /// How many types there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no type.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn as_bytes(&self) -> &'a [u8] {
        self.0
    }
}

impl fmt::Debug for ChunkTypeList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
