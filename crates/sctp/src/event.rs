//! What an endpoint tells its user (RFC 9260 section 11.2), named as RFC 6458 names it.

use std::fmt;

use bytes::Bytes;

use crate::packet::Causes;
use crate::{
    AddressChange, AddressChangeRefusal, AssociationId, AuthenticationIndication, PathAddress,
    ReConfigurationOutcome, SendInfo, StreamDirection,
};

/// Something that happened to an association.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The association can carry messages (RFC 6458 `SCTP_COMM_UP`).
    CommunicationUp {
        /// The association.
        id: AssociationId,
        /// Streams that we may send on.
        outbound_streams: u16,
        /// Streams that the peer may send on.
        inbound_streams: u16,
        /// Where the peer is: its first path.
        peer: PathAddress,
        /// The peer's SCTP port.
        peer_port: u16,
        /// Whether the peer asked for it (its COOKIE ECHO made it), not our `connect`.
        incoming: bool,
    },
    /// Messages can be received. Said once, and again when more come after all were pulled.
    Readable {
        /// The association.
        id: AssociationId,
    },
    /// The send buffer fell below half after a `send` was refused with `BufferFull`.
    Writable {
        /// The association.
        id: AssociationId,
    },
    /// The peer restarted (RFC 6458 `SCTP_RESTART`): messages in either direction that were not
    /// delivered yet are gone, streams begin anew.
    Restart {
        /// The association.
        id: AssociationId,
        /// Streams that we may send on from now on.
        outbound_streams: u16,
        /// Streams that the peer may send on from now on.
        inbound_streams: u16,
    },
    /// The peer began to shut down: it sends no new messages, and takes none
    /// (RFC 6458 `SCTP_SHUTDOWN_EVENT`).
    PeerShutdown {
        /// The association.
        id: AssociationId,
    },
    /// The association ended in good order; everything sent was acknowledged. Messages that were
    /// received but not pulled yet can still be pulled with `receive` until it returns `None`.
    ShutdownComplete {
        /// The association.
        id: AssociationId,
    },
    /// The association is lost (RFC 6458 `SCTP_COMM_LOST`). Messages received before can still be
    /// pulled with `receive` until it returns `None`.
    CommunicationLost {
        /// The association.
        id: AssociationId,
        /// Why.
        cause: LostCause,
        /// User messages that were not sent at all, or not completely.
        unsent: usize,
        /// DATA chunks that were sent and not acknowledged.
        unacknowledged: usize,
    },
    /// `connect` did not lead to an association (RFC 6458 `SCTP_CANT_STR_ASSOC`).
    CannotStart {
        /// The association that was to be.
        id: AssociationId,
        /// Why.
        cause: CannotStartCause,
    },
    /// A message was not delivered, as far as we know (sections 11.1.14, 11.1.15 and 11.2.2;
    /// RFC 6458 `SCTP_SEND_FAILED_EVENT`): the peer allows fewer streams, it was given up by its
    /// life time or its PR-SCTP policy, or the association ended. Those of an association that ends come before the event
    /// that tells of the end.
    SendFailed {
        /// The association.
        id: AssociationId,
        /// How it was to be sent.
        info: SendInfo,
        /// The message, as far as it was not acknowledged for good.
        payload: Bytes,
        /// Whether some of it was sent: then the peer may have it, too.
        was_sent: bool,
    },
    /// Everything that was sent is acknowledged (RFC 6458 `SCTP_SENDER_DRY_EVENT`). Only when
    /// [`AssociationConfig::sender_dry_events`](field@crate::AssociationConfig::sender_dry_events) asks for it.
    SenderDry {
        /// The association.
        id: AssociationId,
    },
    /// The rest of a message of which a part was received will not come (RFC 6458
    /// `SCTP_PARTIAL_DELIVERY_EVENT`). Parts that were delivered before, and not received yet, still can
    /// be; what is received after them begins another message.
    PartialDeliveryAborted {
        /// The association.
        id: AssociationId,
        /// The message's stream.
        stream: u16,
        /// Whether it was sent without regard to order.
        unordered: bool,
        /// Its stream sequence number; without meaning when `unordered`.
        ssn: u16,
    },
    /// Something happened to a path (section 11.2.3; RFC 6458 `SCTP_PEER_ADDR_CHANGE`).
    PathStateChanged {
        /// The association.
        id: AssociationId,
        /// The path.
        path: PathAddress,
        /// What happened.
        change: PathChange,
        /// What its state is now.
        state: PathState,
    },
    /// Streams were reset at the peer's request or ours, or the peer refused that (RFC 6525 section 6.1.1,
    /// `SCTP_STREAM_RESET_EVENT`).
    StreamReset {
        /// The association.
        id: AssociationId,
        /// Which way they lead.
        direction: StreamDirection,
        /// The streams; all of that direction when there is none.
        streams: Vec<u16>,
        /// What came of it.
        outcome: ReConfigurationOutcome,
    },
    /// All SSNs and TSNs begin anew at the peer's request or ours, or the peer refused that (RFC 6525
    /// section 6.1.2, `SCTP_ASSOC_RESET_EVENT`).
    AssociationReset {
        /// The association.
        id: AssociationId,
        /// The TSN of our next DATA chunk.
        local_tsn: u32,
        /// The TSN of the peer's next DATA chunk.
        remote_tsn: u32,
        /// What came of it.
        outcome: ReConfigurationOutcome,
    },
    /// Streams were added at the peer's request or ours, or the peer refused that (RFC 6525 section 6.1.3,
    /// `SCTP_STREAM_CHANGE_EVENT`).
    StreamChange {
        /// The association.
        id: AssociationId,
        /// Streams that we may send on from now on.
        outbound_streams: u16,
        /// Streams that the peer may send on from now on.
        inbound_streams: u16,
        /// What came of it.
        outcome: ReConfigurationOutcome,
    },
    /// Something happened to the authentication of the association, or to a shared key (RFC 6458
    /// `SCTP_AUTHENTICATION_EVENT`).
    Authentication {
        /// The association.
        id: AssociationId,
        /// What happened.
        indication: AuthenticationIndication,
    },
    /// The peer reported an error that does not end the association (section 3.3.10;
    /// RFC 6458 `SCTP_REMOTE_ERROR`).
    RemoteError {
        /// The association.
        id: AssociationId,
        /// The error causes as they came: code, length and value of each.
        causes: Bytes,
    },
    /// The peer has an adaptation layer above SCTP, and says which (RFC 5061 section 4.2.6; RFC 6458
    /// `SCTP_ADAPTATION_INDICATION`). It comes after `CommunicationUp` or `Restart`.
    AdaptationLayer {
        /// The association.
        id: AssociationId,
        /// Adaptation Code Point.
        code_point: u32,
    },
    /// The peer has answered a change of our addresses that it was asked for (RFC 5061).
    AddressChangeAnswered {
        /// The association.
        id: AssociationId,
        /// The change.
        change: AddressChange,
        /// Whether it has come about.
        outcome: Result<(), AddressChangeRefusal>,
    },
}

/// Why an association was lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LostCause {
    /// The peer sent ABORT; its error causes as they came.
    #[error("aborted by the peer{}", Named(causes))]
    AbortedByPeer {
        /// Code, length and value of each cause.
        causes: Bytes,
    },
    /// We were told to by `abort`.
    #[error("aborted")]
    AbortedLocally,
    /// The peer did not answer: Association.Max.Retrans was exceeded (section 8.1).
    #[error("the peer does not answer any more")]
    TimedOut,
    /// The shutdown did not end in time: T5-shutdown-guard (section 9.2), or the peer acknowledged nothing
    /// of what was to be delivered first.
    #[error("the shutdown did not end in time")]
    ShutdownTimedOut,
    /// The peer's host does not know SCTP any more, or nobody has its encapsulation port: an ICMP
    /// message said so (section 10, ICMP8).
    #[error("the peer's host does not know SCTP")]
    ProtocolUnreachable,
    /// There was no room for the rest of a message that had begun to arrive, and we sent ABORT (Out of
    /// Resource): messages that are not whole took all the room of the endpoint, and this association
    /// held most of it; or it held as much as a single one may.
    #[error("no room for the rest of its messages")]
    OutOfResource,
    /// The peer broke the protocol, and we sent ABORT.
    #[error("the peer broke the protocol: {reason}")]
    ProtocolViolation {
        /// What it did.
        reason: &'static str,
    },
}

/// Why a `connect` failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CannotStartCause {
    /// The peer refused with ABORT; its error causes as they came.
    #[error("refused by the peer{}", Named(causes))]
    Refused {
        /// Code, length and value of each cause.
        causes: Bytes,
    },
    /// The peer did not answer: Max.Init.Retransmits was exceeded.
    #[error("the peer does not answer")]
    TimedOut,
    /// The user aborted it before it was up.
    #[error("aborted")]
    AbortedLocally,
    /// The peer's host does not know SCTP, or nobody has its encapsulation port: an ICMP message
    /// said so (section 10, ICMP8).
    #[error("the peer's host does not know SCTP")]
    ProtocolUnreachable,
    /// The peer's answer broke the protocol, and we sent ABORT.
    #[error("the peer's answer broke the protocol: {reason}")]
    ProtocolViolation {
        /// What it did.
        reason: &'static str,
    },
}

/// Whether a path is usable (sections 5.4 and 8.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathState {
    /// The address is not proved to be the peer's yet: it carries HEARTBEATs, no data.
    Unconfirmed,
    /// Usable.
    Active,
    /// It failed more than PotentiallyFailed.Max.Retrans times in a row (RFC 7829): used when
    /// nothing better is there.
    PotentiallyFailed,
    /// It failed more than Path.Max.Retrans times in a row.
    Inactive,
}

/// What may happen to a path, with the names of RFC 6458 section 6.1.2 and RFC 7829 section 7.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathChange {
    /// It can be used (again): `SCTP_ADDR_AVAILABLE`.
    Available,
    /// It became inactive: `SCTP_ADDR_UNREACHABLE`.
    Unreachable,
    /// It may have failed: `SCTP_ADDR_POTENTIALLY_FAILED`.
    PotentiallyFailed,
    /// The address is proved to be the peer's: `SCTP_ADDR_CONFIRMED`.
    Confirmed,
    /// It is the primary path from now on: `SCTP_ADDR_MADE_PRIM`.
    MadePrimary,
    /// The peer has this address, too: `SCTP_ADDR_ADDED`.
    Added,
    /// The address is not the peer's any more: `SCTP_ADDR_REMOVED`.
    Removed,
}

/// The names of error causes, to go on after "aborted".
struct Named<'a>(&'a Bytes);

impl fmt::Display for Named<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let causes = Causes::new(self.0).iter().filter_map(Result::ok);
        for (index, cause) in causes.enumerate() {
            formatter.write_str(if index == 0 { ": " } else { ", " })?;
            cause.code().fmt(formatter)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Cause, CauseBuffer};

    #[test]
    fn causes_are_told_by_name() {
        let mut causes = CauseBuffer::new();
        causes.push(&Cause::OutOfResource).unwrap();
        causes.push(&Cause::UserInitiatedAbort(b"bye")).unwrap();
        let causes = Bytes::copy_from_slice(causes.causes().as_bytes());
        assert_eq!(
            LostCause::AbortedByPeer { causes }.to_string(),
            "aborted by the peer: Out of Resource, User-Initiated Abort"
        );
        let refused = CannotStartCause::Refused {
            causes: Bytes::new(),
        };
        assert_eq!(refused.to_string(), "refused by the peer");
    }
}
