//! What the user says and hears of the re-configuration of streams (RFC 6525 section 6).

/// Which requests of the peer are granted; the others are denied (RFC 6525 section 6.3.1,
/// `SCTP_ENABLE_STREAM_RESET`). By default none is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReConfigurationPolicy {
    /// Streams of either direction are reset (`SCTP_ENABLE_RESET_STREAM_REQ`).
    pub reset_streams: bool,
    /// All SSNs and TSNs begin anew (`SCTP_ENABLE_RESET_ASSOC_REQ`). Messages of ours that are not
    /// acknowledged then end with `Event::SendFailed`.
    pub reset_association: bool,
    /// Streams are added in either direction (`SCTP_ENABLE_CHANGE_ASSOC_REQ`), up to
    /// [`AssociationConfig::max_inbound_streams`](field@crate::AssociationConfig::max_inbound_streams) and
    /// [`AssociationConfig::max_outbound_streams`](field@crate::AssociationConfig::max_outbound_streams).
    pub add_streams: bool,
}

impl ReConfigurationPolicy {
    /// All requests are granted.
    pub const GRANT_ALL: ReConfigurationPolicy = ReConfigurationPolicy {
        reset_streams: true,
        reset_association: true,
        add_streams: true,
    };
}

/// Streams that are to be reset (RFC 6525 section 6.3.2, `SCTP_RESET_STREAMS`). An empty list stands for
/// all streams of the direction; `None` leaves the direction alone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamReset {
    /// Streams that we send on.
    pub outgoing: Option<Vec<u16>>,
    /// Streams that the peer sends on.
    pub incoming: Option<Vec<u16>>,
}

/// Which way streams lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamDirection {
    /// The peer sends on them.
    Incoming,
    /// We send on them.
    Outgoing,
}

/// What came of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReConfigurationOutcome {
    /// It was done.
    Performed,
    /// The peer denied it.
    Denied,
    /// The peer could not do it.
    Failed,
}

/// Why a re-configuration cannot be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReConfigurationError {
    /// There is no such association (any more).
    #[error("there is no such association")]
    UnknownAssociation,
    /// The association is not up yet, or ends.
    #[error("the association is not up")]
    NotEstablished,
    /// The peer does not know RE-CONFIG, or we did not offer it.
    #[error("the peer does not support the re-configuration of streams")]
    NotSupported,
    /// Another request is not answered yet.
    #[error("a re-configuration is in progress")]
    AlreadyInProgress,
    /// The last SSN/TSN reset was less than 30 seconds ago (RFC 6525 section 5.1.4).
    #[error("the last reset of the association was less than 30 seconds ago")]
    TooSoon,
    /// There is no stream with that number.
    #[error("there is no such stream")]
    InvalidStream,
    /// There would be more than 65,535 streams, or more incoming ones than are allowed.
    #[error("too many streams")]
    TooManyStreams,
}
