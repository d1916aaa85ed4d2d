//! Session descriptions as they go through the user agent.

use bytes::Bytes;

/// A session description of ours. The user agent does not read it, but has to know where it may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    pub(crate) octets: Bytes,
    pub(crate) is_secret: bool,
}

impl Description {
    /// One with keys (RFC 4568 section 5.1.1): requests with it leave over TLS alone, and those with later descriptions of the
    /// call, too.
    pub fn secret(octets: Bytes) -> Description {
        Description {
            octets,
            is_secret: true,
        }
    }
}

impl From<Bytes> for Description {
    fn from(octets: Bytes) -> Description {
        Description {
            octets,
            is_secret: false,
        }
    }
}
