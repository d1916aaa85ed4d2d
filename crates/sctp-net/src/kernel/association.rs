//! An association of the kernel's that is or was up.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use sctp::{
    AssociationConfig, AssociationStatistics, CannotStartCause, LostCause, PathAddress, PathChange,
    PathState, ReceivedMessage,
};

use super::notification::{Content, Reason, one_cause};
use super::options::time_to_give_up;
use super::socket::Part;
use super::watch::Watched;
use crate::association_shared::AssociationShared;
use crate::error::{CloseCause, ConnectError};
use crate::notifications::Notification;
use crate::style::ConnectReply;

/// An association, until its last message is delivered.
pub(super) struct PortAssociation {
    pub(super) shared: Arc<AssociationShared>,
    /// `sctp_assoc_t` (RFC 6458).
    pub(super) assoc_id: i32,
    /// The socket that it has to itself.
    pub(super) own: Option<Watched>,
    /// Its inbox is full: nothing is read until there is room.
    pub(super) paused: bool,
    /// Bytes that were delivered though the inbox was full.
    pub(super) beyond: usize,
    /// The kernel has been told to shut down.
    pub(super) shutting_down: bool,
    /// The kernel has been told to abort.
    pub(super) aborted: bool,
    pub(super) ended: Option<CloseCause>,
    /// What has arrived of a message.
    partial: BytesMut,
    /// The paths of which something was told.
    paths: BTreeMap<IpAddr, PathState>,
    /// What was counted here or asked of the kernel the last time.
    pub(super) counted: AssociationStatistics,
}

/// A message was larger than it may be.
#[derive(Debug)]
pub(super) struct TooLarge;

impl PortAssociation {
    pub(super) fn new(shared: Arc<AssociationShared>, assoc_id: i32, own: Option<Watched>) -> Self {
        Self {
            shared,
            assoc_id,
            own,
            paused: false,
            beyond: 0,
            shutting_down: false,
            aborted: false,
            ended: None,
            partial: BytesMut::new(),
            paths: BTreeMap::new(),
            counted: AssociationStatistics::default(),
        }
    }

    /// Takes the counters of the kernel in.
    pub(super) fn count(&mut self, counters: AssociationStatistics) {
        self.counted = AssociationStatistics {
            messages_sent: self.counted.messages_sent,
            messages_received: self.counted.messages_received,
            ..counters
        };
    }

    /// Adds a part to a message; the message, when it is to be delivered.
    pub(super) fn assemble(
        &mut self,
        part: &Part<'_>,
        config: &AssociationConfig,
    ) -> Result<Option<ReceivedMessage>, TooLarge> {
        let in_parts = config.partial_delivery_point <= config.a_rwnd as usize;
        let payload = if in_parts || (part.ends && self.partial.is_empty()) {
            Bytes::copy_from_slice(part.bytes)
        } else {
            if self.partial.len() + part.bytes.len() > config.max_message_size {
                return Err(TooLarge);
            }
            self.partial.extend_from_slice(part.bytes);
            if !part.ends {
                return Ok(None);
            }
            self.partial.split().freeze()
        };
        if payload.len() > config.max_message_size {
            return Err(TooLarge);
        }
        if part.ends {
            self.counted.messages_received += 1;
        }
        Ok(Some(ReceivedMessage {
            stream: part.stream,
            ppid: part.ppid,
            unordered: part.unordered,
            ssn: part.ssn,
            payload,
            end_of_record: part.ends,
        }))
    }

    /// Passes a notification of the kernel on to the handles.
    pub(super) fn notify(&mut self, content: Content) {
        let notification = match content {
            Content::PathChanged {
                remote,
                change,
                state,
            } => self.path_changed(remote, change, state),
            Content::RemoteError { causes } => Notification::RemoteError { causes },
            Content::SendFailed {
                info,
                payload,
                was_sent,
            } => Notification::SendFailed {
                info,
                payload,
                was_sent,
            },
            Content::PeerShutdown => Notification::PeerShutdown,
            Content::Restart {
                outbound_streams,
                inbound_streams,
            } => {
                self.partial.clear();
                self.shutting_down = false;
                self.shared.set_outbound_streams(outbound_streams);
                Notification::Restarted {
                    outbound_streams,
                    inbound_streams,
                }
            }
            Content::PartialDeliveryAborted { stream, ssn } => {
                self.partial.clear();
                Notification::PartialDeliveryAborted {
                    stream,
                    // The kernel does not report it; ordered messages are the usual ones.
                    unordered: false,
                    ssn,
                }
            }
            Content::SenderDry => Notification::SenderDry,
            Content::CommunicationUp { .. }
            | Content::CommunicationLost(_)
            | Content::ShutdownComplete
            | Content::CannotStart(_) => return,
        };
        self.shared.notifications.push(notification);
    }

    fn path_changed(
        &mut self,
        remote: IpAddr,
        change: PathChange,
        state: Option<PathState>,
    ) -> Notification {
        let was = self.paths.get(&remote).copied();
        let state = state.or(was).unwrap_or(PathState::Active);
        if change == PathChange::Removed {
            self.paths.remove(&remote);
        } else {
            self.paths.insert(remote, state);
        }
        let path = PathAddress {
            local: None,
            remote,
            encapsulation_port: None,
        };
        Notification::PathChanged {
            path,
            change,
            state,
        }
    }

    /// How it was lost. The kernel tells an ABORT without words from a peer that is silent only by what it told of
    /// the paths before.
    pub(super) fn lost(&self, reason: Reason) -> LostCause {
        if self.aborted {
            return LostCause::AbortedLocally;
        }
        if !reason.causes.is_empty() {
            return LostCause::AbortedByPeer {
                causes: reason.causes,
            };
        }
        let fails =
            |state: &PathState| matches!(state, PathState::Inactive | PathState::PotentiallyFailed);
        match reason.code {
            PROTOCOL_VIOLATION => LostCause::ProtocolViolation {
                reason: "the kernel does not tell how",
            },
            0 if self.paths.values().any(fails) => LostCause::TimedOut,
            0 if self.shutting_down => LostCause::ShutdownTimedOut,
            code => LostCause::AbortedByPeer {
                causes: cause_of(code),
            },
        }
    }
}

/// An association that `connect` has begun.
pub(super) struct Connecting {
    pub(super) remote: SocketAddr,
    pub(super) since: Instant,
    /// What holds for it.
    pub(super) config: AssociationConfig,
    pub(super) reply: ConnectReply,
}

impl Connecting {
    /// Reports the failure to the caller of `connect`, who may have given up meanwhile.
    pub(super) fn fail(self, reason: Reason) {
        // An ABORT without words and silence look the same but for the time that they take.
        let silent = self.since.elapsed() >= time_to_give_up(&self.config) / 2;
        let cause = if reason.code == 0 && silent {
            CannotStartCause::TimedOut
        } else {
            CannotStartCause::Refused {
                causes: cause_of(reason.code),
            }
        };
        let error = ConnectError::CannotStart {
            remote: self.remote,
            encapsulation_port: None,
            cause,
        };
        self.reply.send(Err(error)).ok();
    }
}

/// RFC 9260 section 3.3.10.13.
const PROTOCOL_VIOLATION: u16 = 13;

/// An error cause of which nothing but the code is known.
fn cause_of(code: u16) -> Bytes {
    match code {
        0 => Bytes::new(),
        code => one_cause(code.to_be_bytes(), &[]),
    }
}
