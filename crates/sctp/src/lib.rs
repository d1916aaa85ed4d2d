//! Core: the SCTP protocol engine (RFC 9260), carried raw or in UDP (RFC 6951).
//!
//! An [`Endpoint`] is one local SCTP port with all its associations. It does no I/O: it is fed with
//! packets, user calls and the time, and polled for packets to send, events and its next deadline.
#![forbid(unsafe_code)]

mod config;
mod endpoint;
mod event;
mod status;

pub use config::EndpointConfig;
pub use endpoint::{
    AbortError, AssociationId, ConnectError, Endpoint, PathAddress, ReceivedMessage, SendError,
    SendInfo, ShutdownError, Transmit,
};
pub use event::{CannotStartCause, Event, LostCause, PathState};
pub use status::{
    AssociationState, AssociationStatistics, AssociationStatus, EndpointStatistics, PathStatus,
};

pub mod packet;
