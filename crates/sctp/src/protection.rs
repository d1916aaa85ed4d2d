//! What a user says and is told about how packets are protected: by authentication (RFC 4895), and
//! by something else than the checksum (RFC 9653).

/// What happened to the authentication of an association (RFC 6458 section 6.1.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthenticationIndication {
    /// The peer has begun to use this key (`SCTP_AUTH_NEW_KEY`).
    NewKey {
        /// The shared key identifier.
        key: u16,
    },
    /// The peer does not support authentication (`SCTP_AUTH_NO_AUTH`): no chunk of it is
    /// authenticated, whatever was asked for, and none of ours is.
    NoAuthentication,
    /// Nothing is sent any more with a key that was deactivated (`SCTP_AUTH_FREE_KEY`): it can be
    /// deleted once the peer does without it, too.
    FreeKey {
        /// The shared key identifier.
        key: u16,
    },
}

/// Why something could not be done with a shared key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// There is no such association, or it has ended.
    #[error("no such association")]
    UnknownAssociation,
    /// The association does not authenticate: it was not offered, or the peer does not support it.
    #[error("the association does not authenticate")]
    NotAuthenticated,
    /// There is no such key, or it was deactivated.
    #[error("no such key")]
    UnknownKey,
    /// The active key can be neither deactivated nor deleted.
    #[error("the key is the active one")]
    KeyIsActive,
    /// It was not deactivated before, or messages that are not acknowledged need it.
    #[error("the key is in use")]
    KeyInUse,
    /// Longer than 65,535 bytes.
    #[error("the key is too long")]
    TooLong,
}

/// What protects packets against errors in place of the checksum (RFC 9653 section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorDetectionMethod {
    /// Packets are carried in DTLS (RFC 9653 section 6, RFC 8261).
    Dtls,
    /// Nothing, for tests on a carrier that makes no errors. The identifier is not registered: a
    /// peer that is not ours takes it for a method that it does not know.
    Tests,
}

impl ErrorDetectionMethod {
    /// The Error Detection Method Identifier.
    pub fn identifier(self) -> u32 {
        match self {
            ErrorDetectionMethod::Dtls => 1,
            ErrorDetectionMethod::Tests => u32::MAX,
        }
    }
}
