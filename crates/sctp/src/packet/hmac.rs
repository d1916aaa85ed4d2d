//! The identifiers of HMAC algorithms (RFC 4895, section 3.3).

use super::list::U16List;
use std::fmt;

/// An HMAC algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct HmacIdentifier(pub u16);

/// A list of HMAC algorithms.
pub type HmacList<'a> = U16List<'a, HmacIdentifier>;

impl HmacIdentifier {
    /// HMAC based on SHA-1.
    pub const SHA_1: HmacIdentifier = HmacIdentifier(1);
    /// HMAC based on SHA-256.
    pub const SHA_256: HmacIdentifier = HmacIdentifier(3);

    /// The identifier in network byte order, as an [`HmacList`] holds it.
    pub const fn to_be_bytes(self) -> [u8; 2] {
        self.0.to_be_bytes()
    }
}

impl From<u16> for HmacIdentifier {
    fn from(identifier: u16) -> HmacIdentifier {
        HmacIdentifier(identifier)
    }
}

impl fmt::Display for HmacIdentifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            HmacIdentifier::SHA_1 => "SHA-1",
            HmacIdentifier::SHA_256 => "SHA-256",
            HmacIdentifier(other) => return write!(f, "HMAC identifier {other}"),
        })
    }
}

impl fmt::Debug for HmacIdentifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HmacIdentifier({})", self.0)
    }
}
