//! The kernel's notifications (RFC 6458 section 6.1), read from their bytes.

use std::net::IpAddr;

use bytes::{BufMut, Bytes, BytesMut};
use sctp::{PathChange, PathState, SendInfo};

use super::layout::{Fields, STORAGE};

// Types.
pub(super) const SCTP_ASSOC_CHANGE: u16 = 0x8001;
pub(super) const SCTP_PEER_ADDR_CHANGE: u16 = 0x8002;
pub(super) const SCTP_REMOTE_ERROR: u16 = 0x8004;
pub(super) const SCTP_SHUTDOWN_EVENT: u16 = 0x8005;
pub(super) const SCTP_PARTIAL_DELIVERY_EVENT: u16 = 0x8006;
pub(super) const SCTP_SENDER_DRY_EVENT: u16 = 0x8009;
pub(super) const SCTP_SEND_FAILED_EVENT: u16 = 0x800d;

/// A notification, and the kernel's name of the association that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KernelNotification {
    pub(super) association: i32,
    pub(super) content: Content,
}

/// The content of a notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    CommunicationUp {
        outbound_streams: u16,
    },
    CommunicationLost(Reason),
    Restart {
        outbound_streams: u16,
        inbound_streams: u16,
    },
    ShutdownComplete,
    CannotStart(Reason),
    PathChanged {
        remote: IpAddr,
        change: PathChange,
        /// `None`: what it was.
        state: Option<PathState>,
    },
    RemoteError {
        causes: Bytes,
    },
    SendFailed {
        info: SendInfo,
        payload: Bytes,
        was_sent: bool,
    },
    PeerShutdown,
    PartialDeliveryAborted {
        stream: u16,
        ssn: u16,
    },
    SenderDry,
}

/// Why an association ended, as far as the kernel reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reason {
    /// The code of an error cause; 0 is none.
    pub(super) code: u16,
    /// The error causes of the peer's ABORT.
    pub(super) causes: Bytes,
}

/// Reads a notification; `None` for one that is not whole, or was not subscribed to.
pub(super) fn read(bytes: &[u8]) -> Option<KernelNotification> {
    let fields = Fields(bytes);
    if fields.u32(4)? as usize != bytes.len() {
        return None;
    }
    let (association, content) = match fields.u16(0)? {
        SCTP_ASSOC_CHANGE => (fields.i32(16)?, association_change(fields)?),
        SCTP_PEER_ADDR_CHANGE => {
            let (remote, _) = fields.address(8)?;
            let (change, state) = path_change(fields.i32(8 + STORAGE)?)?;
            let content = Content::PathChanged {
                remote: remote.ip(),
                change,
                state,
            };
            (fields.i32(16 + STORAGE)?, content)
        }
        SCTP_REMOTE_ERROR => (
            fields.i32(12)?,
            Content::RemoteError {
                causes: one_cause(fields.bytes(8)?, fields.rest(16)?),
            },
        ),
        SCTP_SEND_FAILED_EVENT => (fields.i32(28)?, send_failed(fields)?),
        SCTP_SHUTDOWN_EVENT => (fields.i32(8)?, Content::PeerShutdown),
        SCTP_PARTIAL_DELIVERY_EVENT => (
            fields.i32(12)?,
            Content::PartialDeliveryAborted {
                // Both are numbers of 16 bits in fields of 32.
                stream: fields.u32(16)? as u16,
                ssn: fields.u32(20)? as u16,
            },
        ),
        SCTP_SENDER_DRY_EVENT => (fields.i32(8)?, Content::SenderDry),
        _ => return None,
    };
    Some(KernelNotification {
        association,
        content,
    })
}

fn association_change(fields: Fields<'_>) -> Option<Content> {
    let outbound_streams = fields.u16(12)?;
    let reason = Reason {
        // In network byte order, other than the rest.
        code: u16::from_be_bytes(fields.bytes(10)?),
        causes: Bytes::copy_from_slice(fields.rest(20)?),
    };
    Some(match fields.u16(8)? {
        0 => Content::CommunicationUp { outbound_streams },
        1 => Content::CommunicationLost(reason),
        2 => Content::Restart {
            outbound_streams,
            inbound_streams: fields.u16(14)?,
        },
        3 => Content::ShutdownComplete,
        4 => Content::CannotStart(reason),
        _ => return None,
    })
}

fn path_change(state: i32) -> Option<(PathChange, Option<PathState>)> {
    Some(match state {
        0 => (PathChange::Available, Some(PathState::Active)),
        1 => (PathChange::Unreachable, Some(PathState::Inactive)),
        2 => (PathChange::Removed, Some(PathState::Inactive)),
        3 => (PathChange::Added, Some(PathState::Unconfirmed)),
        4 => (PathChange::MadePrimary, None),
        5 => (PathChange::Confirmed, Some(PathState::Active)),
        6 => (
            PathChange::PotentiallyFailed,
            Some(PathState::PotentiallyFailed),
        ),
        _ => return None,
    })
}

fn send_failed(fields: Fields<'_>) -> Option<Content> {
    // The flags of the DATA chunk (RFC 9260 section 3.3.1), not those of the call that sent it.
    const UNORDERED: u16 = 1 << 2;
    let info = SendInfo {
        stream: fields.u16(12)?,
        unordered: fields.u16(14)? & UNORDERED != 0,
        ppid: u32::from_be_bytes(fields.bytes(16)?),
        context: fields.u32(20)?,
        ..SendInfo::default()
    };
    Some(Content::SendFailed {
        info,
        payload: Bytes::copy_from_slice(fields.rest(32)?),
        was_sent: fields.u16(2)? == 1,
    })
}

/// An error cause as it is on the wire (RFC 9260 section 3.3.10), of which the kernel gives code and
/// value.
pub(super) fn one_cause(code: [u8; 2], value: &[u8]) -> Bytes {
    const HEADER: usize = 4;
    let length = u16::try_from(HEADER + value.len()).unwrap_or(u16::MAX);
    let mut cause = BytesMut::with_capacity(HEADER + value.len());
    cause.put_slice(&code);
    cause.put_u16(length);
    cause.put_slice(value);
    cause.freeze()
}

#[cfg(test)]
mod tests {
    use super::super::layout::{Structure, socket_address};
    use super::*;

    fn start(kind: u16, bytes: usize) -> Structure {
        Structure::new(bytes)
            .with(0, kind.to_ne_bytes())
            .with(4, (bytes as u32).to_ne_bytes())
    }

    #[test]
    fn an_association_that_is_lost_tells_why() {
        let lost = start(SCTP_ASSOC_CHANGE, 24)
            .with(8, 1u16.to_ne_bytes())
            .with(10, 12u16.to_be_bytes())
            .with(16, 77i32.to_ne_bytes())
            .with(20, [0, 12, 0, 4]);
        let read = read(lost.as_bytes()).unwrap();
        assert_eq!(read.association, 77);
        let reason = Reason {
            code: 12,
            causes: Bytes::from_static(&[0, 12, 0, 4]),
        };
        assert_eq!(read.content, Content::CommunicationLost(reason));
    }

    #[test]
    fn a_path_is_told_by_its_address() {
        let address = "[2001:db8::7]:9".parse().unwrap();
        let changed = start(SCTP_PEER_ADDR_CHANGE, 20 + STORAGE)
            .with_bytes(8, &socket_address(address))
            .with(8 + STORAGE, 6i32.to_ne_bytes())
            .with(16 + STORAGE, 5i32.to_ne_bytes());
        let read = read(changed.as_bytes()).unwrap();
        assert_eq!(read.association, 5);
        let content = Content::PathChanged {
            remote: address.ip(),
            change: PathChange::PotentiallyFailed,
            state: Some(PathState::PotentiallyFailed),
        };
        assert_eq!(read.content, content);
    }

    #[test]
    fn whatever_is_cut_short_is_not_read() {
        for kind in 0x7ff0..0x8020 {
            for bytes in 8..200 {
                let whole = start(kind, 200).with(4, (bytes as u32).to_ne_bytes());
                // Neither panics nor reads beyond the end.
                read(&whole.as_bytes()[..bytes]);
                assert_eq!(read(&whole.as_bytes()[..bytes / 2]), None);
            }
        }
    }
}
