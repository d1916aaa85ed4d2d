//! How things end.

use std::fmt;
use std::net::SocketAddr;

use sctp::packet::{Cause, Causes};
use sctp::{CannotStartCause, LostCause};

/// How an association ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseCause {
    /// In good order, begun by either side: all that was sent was acknowledged. What still waited to be
    /// sent when the peer began it came back as [`Notification::SendFailed`](crate::Notification::SendFailed).
    Shutdown,
    /// It was aborted or lost.
    Lost(LostCause),
    /// The stack ended, or its socket failed.
    StackClosed,
}

/// Why `connect` made no association.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The endpoint cannot begin it.
    #[error("SCTP to {remote}: {error}")]
    Refused {
        /// The peer's address and SCTP port.
        remote: SocketAddr,
        /// Why not.
        error: sctp::ConnectError,
    },
    /// The address is of another family than the stack's own.
    #[error("SCTP to {remote}: the stack on {local} has no address of that family")]
    OtherFamily {
        /// The peer's address and SCTP port.
        remote: SocketAddr,
        /// One of the stack's addresses, and its UDP port, if it has one.
        local: SocketAddr,
    },
    /// A link-local address, and no local address that says by which interface it is reached.
    #[error(
        "SCTP to {remote}: a link-local address needs its interface, as the scope of a local address"
    )]
    NoZone {
        /// The peer's address and SCTP port.
        remote: SocketAddr,
    },
    /// The peer refused, or it did not answer.
    #[error(
        "SCTP to {remote}{}: {}",
        describe_port(*encapsulation_port),
        describe_start(cause, *encapsulation_port)
    )]
    CannotStart {
        /// The peer's address and SCTP port.
        remote: SocketAddr,
        /// The peer's UDP encapsulation port, where there is encapsulation.
        encapsulation_port: Option<u16>,
        /// What happened.
        cause: CannotStartCause,
    },
    /// The SCTP of the kernel refuses.
    #[error("SCTP to {remote}: {reason}")]
    Kernel {
        /// The peer's address and SCTP port.
        remote: SocketAddr,
        /// In the words of the system.
        reason: String,
    },
    /// No address to connect to was given.
    #[error("SCTP to nowhere: no address was given")]
    NoAddress,
    /// The endpoint or the stack is closed.
    #[error("the SCTP endpoint is closed")]
    Closed,
}

impl fmt::Display for CloseCause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloseCause::Shutdown => formatter.write_str("shut down"),
            CloseCause::Lost(cause) => formatter.write_str(&describe_loss(cause)),
            CloseCause::StackClosed => formatter.write_str("the SCTP stack is closed"),
        }
    }
}

fn describe_loss(cause: &LostCause) -> String {
    match cause {
        LostCause::AbortedByPeer { causes } => format!("aborted by the peer{}", list(causes)),
        LostCause::AbortedLocally => "aborted".into(),
        LostCause::TimedOut => "the peer no longer answers".into(),
        LostCause::ShutdownTimedOut => "the peer did not end the shutdown in time".into(),
        LostCause::ProtocolUnreachable => "the peer's host says that SCTP is unreachable".into(),
        LostCause::OutOfResource => {
            "no room for the rest of its messages (max_received_bytes)".into()
        }
        LostCause::ProtocolViolation { reason } => format!("the peer broke the protocol: {reason}"),
    }
}

fn describe_port(encapsulation_port: Option<u16>) -> String {
    encapsulation_port.map_or_else(String::new, |port| format!(" over UDP port {port}"))
}

fn describe_start(cause: &CannotStartCause, encapsulation_port: Option<u16>) -> String {
    match cause {
        CannotStartCause::Refused { causes } => format!("refused by the peer{}", list(causes)),
        CannotStartCause::TimedOut => "no answer".into(),
        CannotStartCause::AbortedLocally => "aborted before it was up".into(),
        CannotStartCause::ProtocolUnreachable => match encapsulation_port {
            Some(_) => "nobody has that port there".into(),
            None => "the host does not know SCTP".into(),
        },
        CannotStartCause::ProtocolViolation { reason } => {
            format!("the peer broke the protocol: {reason}")
        }
    }
}

/// How many error causes are named, and how much of a peer's own words is repeated.
const MAX_CAUSES: usize = 4;
const MAX_WORDS: usize = 100;

/// The error causes of an ABORT in words, with what leads up to them; nothing when there are none.
fn list(causes: &[u8]) -> String {
    let named: Vec<String> = Causes::new(causes)
        .iter()
        .flatten()
        .take(MAX_CAUSES)
        .map(|cause| describe_cause(&cause))
        .collect();
    if named.is_empty() {
        String::new()
    } else {
        format!(": {}", named.join(", "))
    }
}

fn describe_cause(cause: &Cause<'_>) -> String {
    let code = cause.code();
    match cause {
        Cause::UserInitiatedAbort(words) | Cause::ProtocolViolation(words) if !words.is_empty() => {
            let words = String::from_utf8_lossy(words);
            let words: String = words.chars().take(MAX_WORDS).collect();
            format!("{code} \"{}\"", words.escape_default())
        }
        _ => code.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sctp::packet::CauseBuffer;

    fn lost(causes: &[u8]) -> String {
        let causes = causes.to_vec().into();
        CloseCause::Lost(LostCause::AbortedByPeer { causes }).to_string()
    }

    #[test]
    fn an_abort_is_told_in_words() {
        let mut causes = CauseBuffer::new();
        causes.push(&Cause::OutOfResource).unwrap();
        causes
            .push(&Cause::UserInitiatedAbort(b"go\x1b[2J away"))
            .unwrap();
        assert_eq!(
            lost(causes.causes().as_bytes()),
            "aborted by the peer: Out of Resource, User-Initiated Abort \"go\\u{1b}[2J away\""
        );
        assert_eq!(lost(&[]), "aborted by the peer");
        assert_eq!(lost(&[1, 2, 3]), "aborted by the peer");
    }

    #[test]
    fn a_failed_connect_names_the_peer() {
        let error = ConnectError::CannotStart {
            remote: "[::1]:5060".parse().unwrap(),
            encapsulation_port: Some(9899),
            cause: CannotStartCause::TimedOut,
        };
        assert_eq!(
            error.to_string(),
            "SCTP to [::1]:5060 over UDP port 9899: no answer"
        );
        // What an ICMP error says depends on what it is about.
        let unreachable = |encapsulation_port| ConnectError::CannotStart {
            remote: "[::1]:5060".parse().unwrap(),
            encapsulation_port,
            cause: CannotStartCause::ProtocolUnreachable,
        };
        assert_eq!(
            unreachable(Some(9899)).to_string(),
            "SCTP to [::1]:5060 over UDP port 9899: nobody has that port there"
        );
        assert_eq!(
            unreachable(None).to_string(),
            "SCTP to [::1]:5060: the host does not know SCTP"
        );
    }
}
