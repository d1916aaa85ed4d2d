//! What can be wrong with the bytes of a packet, at every level of nesting.

use super::Tlv;
use std::fmt;

/// Bytes that do not have the layout they should have, and why.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FormatError<'a> {
    kind: FormatErrorKind,
    bytes: &'a [u8],
}

/// Why bytes could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FormatErrorKind {
    /// Too few bytes are left for a header.
    HeaderTruncated,
    /// The length field is smaller than the header that it counts in.
    LengthTooShort {
        /// What the length field says, 0 to 3.
        length: u16,
    },
    /// The length field reaches past the end of what contains the item.
    LengthPastEnd {
        /// What the length field says.
        length: u16,
    },
    /// The framing is sound, but the value does not hold the fields that its type prescribes.
    MalformedValue,
}

impl<'a> FormatError<'a> {
    pub(super) fn new(kind: FormatErrorKind, bytes: &'a [u8]) -> FormatError<'a> {
        FormatError { kind, bytes }
    }

    /// Why the bytes could not be read.
    pub fn kind(&self) -> FormatErrorKind {
        self.kind
    }

    /// The bytes that could not be read: of a malformed value that item alone, else everything from
    /// the start of the broken item to the end of what contains it.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The item as far as it is there, for those who want to look into a packet that was cut short
    /// on its way into a capture file. `None` when not even its header makes sense.
    pub fn partial(&self) -> Option<Tlv<'a>> {
        match self.kind {
            FormatErrorKind::LengthPastEnd { .. } | FormatErrorKind::MalformedValue => {
                Tlv::partial(self.bytes)
            }
            FormatErrorKind::HeaderTruncated | FormatErrorKind::LengthTooShort { .. } => None,
        }
    }
}

impl fmt::Display for FormatErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FormatErrorKind::HeaderTruncated => f.write_str("header truncated"),
            FormatErrorKind::LengthTooShort { length } => {
                write!(f, "length {length} is shorter than the header")
            }
            FormatErrorKind::LengthPastEnd { length } => {
                write!(f, "length {length} reaches past the end")
            }
            FormatErrorKind::MalformedValue => f.write_str("value does not fit its type"),
        }
    }
}

impl fmt::Display for FormatError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.kind, self.bytes.len())
    }
}

impl fmt::Debug for FormatError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FormatError({self})")
    }
}

impl std::error::Error for FormatError<'_> {}
