//! What a signalling process gives to its driver, its user and its management.

use std::fmt;

use bytes::Bytes;

use super::config::{AsId, NetworkId, PeerId};
use crate::MaskedPointCode;
use crate::message::{
    DeregistrationStatus, ErrorCode, ProtocolData, RegistrationStatus, ServiceIndicator, Status,
    UnavailabilityCause,
};

/// What a process wants done or has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A message for the association with a peer, ordered, with payload protocol identifier 3.
    Send {
        /// Whose association.
        peer: PeerId,
        /// The stream.
        stream: u16,
        /// The message.
        message: Bytes,
    },
    /// The association with a peer is dead, though SCTP does not know it (section 4.3.4.6): it is to be aborted.
    Abort(PeerId),
    /// An MTP primitive for the user.
    Mtp(MtpIndication),
    /// An indication or confirmation for the management.
    Management(ManagementIndication),
}

/// An MTP primitive (section 1.6.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MtpIndication {
    /// MTP-TRANSFER indication: a message has arrived.
    Transfer {
        /// From which peer.
        peer: PeerId,
        /// In which network.
        network: NetworkId,
        /// The message.
        message: ProtocolData,
        /// The id that the sender has given it (section 3.3.1).
        correlation_id: Option<u32>,
    },
    /// MTP-PAUSE: nothing can be sent there.
    Pause {
        /// In which network.
        network: NetworkId,
        /// The destinations.
        affected: Vec<MaskedPointCode>,
    },
    /// MTP-RESUME: messages can be sent there again.
    Resume {
        /// In which network.
        network: NetworkId,
        /// The destinations.
        affected: Vec<MaskedPointCode>,
    },
    /// MTP-STATUS.
    Status {
        /// In which network.
        network: NetworkId,
        /// The destinations.
        affected: Vec<MaskedPointCode>,
        /// What about them.
        status: MtpStatus,
    },
}

/// What an MTP-STATUS says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MtpStatus {
    /// Congestion; 0: none any more; none: the network has no levels.
    Congestion(Option<u8>),
    /// An MTP3 user does not answer.
    UserPartUnavailable {
        /// The user.
        user: ServiceIndicator,
        /// Why.
        cause: UnavailabilityCause,
    },
}

/// The state of an ASP in an AS (section 4.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AspState {
    /// ASP-DOWN.
    #[default]
    Down,
    /// ASP-INACTIVE.
    Inactive,
    /// ASP-ACTIVE.
    Active,
}

/// The state of an AS (section 4.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AsState {
    /// AS-DOWN.
    #[default]
    Down,
    /// AS-INACTIVE.
    Inactive,
    /// AS-ACTIVE.
    Active,
    /// AS-PENDING.
    Pending,
}

impl fmt::Display for AspState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            AspState::Down => "ASP-DOWN",
            AspState::Inactive => "ASP-INACTIVE",
            AspState::Active => "ASP-ACTIVE",
        })
    }
}

impl fmt::Display for AsState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            AsState::Down => "AS-DOWN",
            AsState::Inactive => "AS-INACTIVE",
            AsState::Active => "AS-ACTIVE",
            AsState::Pending => "AS-PENDING",
        })
    }
}

/// Indications and confirmations for the layer management (section 1.6.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManagementIndication {
    /// M-ASP_UP, M-ASP_DOWN, M-ASP_ACTIVE and M-ASP_INACTIVE indication: a peer is in another state in an AS. Without AS:
    /// it came up or went down.
    Asp {
        /// The peer.
        peer: PeerId,
        /// The AS.
        application_server: Option<AsId>,
        /// The new state.
        state: AspState,
    },
    /// The same, confirmed by a peer, about ourselves.
    Confirm {
        /// The peer that says so.
        peer: PeerId,
        /// The AS.
        application_server: Option<AsId>,
        /// Our new state.
        state: AspState,
    },
    /// M-AS_ACTIVE, M-AS_INACTIVE and M-AS_DOWN indication; also of AS-PENDING.
    As {
        /// The AS.
        application_server: AsId,
        /// The new state.
        state: AsState,
    },
    /// M-NOTIFY indication.
    Notify {
        /// The peer that says so.
        peer: PeerId,
        /// What it says.
        status: Status,
        /// Of which AS.
        application_servers: Vec<AsId>,
        /// Of which ASP.
        asp_identifier: Option<u32>,
    },
    /// M-ERROR indication: a peer has sent an Error message.
    PeerError {
        /// The peer.
        peer: PeerId,
        /// What it complains of.
        code: ErrorCode,
    },
    /// M-ERROR indication: we have sent an Error message.
    Refused {
        /// The peer.
        peer: PeerId,
        /// What we complain of.
        code: ErrorCode,
    },
    /// M-RK_REG confirm.
    Registered {
        /// The peer that answers.
        peer: PeerId,
        /// The AS of the key.
        application_server: AsId,
        /// What became of it.
        status: RegistrationStatus,
    },
    /// M-RK_DEREG confirm.
    Deregistered {
        /// The peer that answers.
        peer: PeerId,
        /// The AS of the key.
        application_server: AsId,
        /// What became of it.
        status: DeregistrationStatus,
    },
    /// M-RK_REG indication: a peer has registered a key.
    PeerRegistered {
        /// The peer.
        peer: PeerId,
        /// The AS of the key.
        application_server: AsId,
    },
    /// M-RK_DEREG indication.
    PeerDeregistered {
        /// The peer.
        peer: PeerId,
        /// The AS of the key.
        application_server: AsId,
    },
    /// T(r) has expired: messages that waited are discarded.
    Discarded {
        /// The AS that nobody served.
        application_server: AsId,
        /// How many.
        messages: usize,
    },
    /// M-SCTP_RESTART indication.
    Restarted(PeerId),
    /// The association has no stream for DATA: it needs two in our direction (section 1.4.7).
    NoDataStream(PeerId),
}
