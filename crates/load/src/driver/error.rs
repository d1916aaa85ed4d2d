//! Why a run could not be started or went no further.

use std::io;
use std::net::SocketAddr;

use sip::Transport;
use sip_net::{SendError, StartError};

use crate::arrivals::PatternError;

/// Why a run could not be started or went no further.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The transports did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A socket could not be opened.
    #[error("cannot open a socket: {0}")]
    Socket(#[from] io::Error),
    /// Another generator cannot be told a command.
    #[error("{0}")]
    Commands(io::Error),
    /// The target cannot be connected to, and trying again would not help.
    #[error("cannot connect to {transport}:{target}: {source}")]
    Connect {
        /// The transport.
        transport: Transport,
        /// What was to be connected to.
        target: SocketAddr,
        /// Why.
        source: ConnectError,
    },
    /// The workers stopped while they were needed: a listener has failed.
    #[error("the transports of the users stopped")]
    Stopped,
    /// The arrivals of a plan cannot be followed.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The settings contradict each other: what to do.
    #[error("{0}")]
    Settings(&'static str),
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The system says so.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The transport says so.
    #[error(transparent)]
    Send(#[from] SendError),
}

impl ConnectError {
    /// Whether a later attempt may succeed: packets were lost, or the peer was too busy to take a connection.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            ConnectError::Io(error) => {
                matches!(
                    error.kind(),
                    io::ErrorKind::TimedOut | io::ErrorKind::AddrNotAvailable
                )
            }
            ConnectError::Send(error) => {
                matches!(error, SendError::ConnectTimeout | SendError::Sctp(_))
            }
        }
    }
}
