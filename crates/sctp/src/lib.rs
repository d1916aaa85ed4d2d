//! Core: the SCTP protocol engine (RFC 9260), carried raw or in UDP (RFC 6951).
//!
//! An [`Endpoint`] is one local SCTP port with all its associations. It does no I/O: it is fed with
//! packets, user calls and the time, and polled for packets to send, events and its next deadline.
//!
//! # Parts
//!
//! [`packet`] is the wire format. It represents everything that arrives, so that the capture analyser uses it too; the checks
//! of the RFC are separate. `endpoint` finds the association of a packet by its verification tag, or by any address of the
//! peer. It answers an INIT without keeping state (the state is in the signed cookie). `association` is one association, put
//! together from parts that know nothing of each other, and `congestion` has a file for each controller. Deadlines are in a
//! timer wheel, so that an idle association takes no time.
//!
//! `docs/rfc9260.md` names code and test of every requirement of the RFC.
#![forbid(unsafe_code)]

mod address_change;
mod association;
mod config;
mod congestion;
mod endpoint;
mod event;
mod extensions;
mod multipath;
pub mod packet;
mod protection;
mod re_configuration;
mod reliability;
mod replies;
mod status;
mod stream_scheduler;
mod types;

pub use address_change::{
    AddressChange, AddressChangeError, AddressChangeRefusal, LocalAddressState,
};
pub use config::{
    AssociationConfig, ConfigError, EndpointConfig, LossDetection, PathConfig, Profile,
    RecoveryConfig, UnknownLossDetection, UnknownProfile,
};
pub use congestion::{CongestionControl, UnknownCongestionControl};
pub use endpoint::{Endpoint, IcmpError, IcmpKind, answer_out_of_the_blue};
pub use event::{CannotStartCause, Event, LostCause, PathChange, PathState};
pub use extensions::{Extensions, UnknownExtension};
pub use multipath::{BufferSplitting, PathScheduler, UnknownBufferSplitting, UnknownPathScheduler};
pub use protection::{AuthenticationIndication, ErrorDetectionMethod, KeyError};
pub use re_configuration::{
    ReConfigurationError, ReConfigurationOutcome, ReConfigurationPolicy, StreamDirection,
    StreamReset,
};
pub use reliability::{AbandonedCount, AbandonedMessages, PrPolicy};
pub use status::{
    AssociationState, AssociationStatistics, AssociationStatus, DropStatistics, EndpointStatistics,
    PathStatus,
};
pub use stream_scheduler::UnknownStreamScheduler;
pub use types::{
    AbortError, AssociationId, ConfigureError, Connect, ConnectError, PathAddress, PathError,
    ReceivedMessage, SendError, SendInfo, ShutdownError, StreamError, StreamScheduler, TagOwner,
    Transmit,
};
