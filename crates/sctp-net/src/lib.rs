//! Driver: carries SCTP packets over IP or in UDP (RFC 6951), with an async API on tokio.
//!
//! A [`Stack`] carries SCTP packets in UDP ([`Stack::udp`]) or right on IP ([`Stack::raw`]), for any
//! number of SCTP ports, over one local address or several; or it leaves SCTP to the kernel
//! ([`Stack::kernel`]), behind the same handles. A port is opened in one of the two
//! styles of RFC 6458: as an [`Endpoint`], whose [`Association`]s are accepted, connected and
//! received from one by one, or as a [`OneToMany`] endpoint, which receives from all its
//! associations in one place.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use sctp_net::{EndpointConfig, SendInfo, Stack, UdpCarrierConfig};
//!
//! let stack = Stack::udp(UdpCarrierConfig::new("127.0.0.1:9899".parse()?))?;
//! let endpoint = stack.endpoint(5060, EndpointConfig::default())?;
//! while let Some(association) = endpoint.accept().await {
//!     while let Some(message) = association.receive().await {
//!         let info = SendInfo { stream: message.stream, ..SendInfo::default() };
//!         association.send(info, message.payload).await?;
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//!
//! One task, or as many as there are to be workers, owns the carrier and the protocol engines
//! (`sctp::Endpoint`). It reads packets in batches, feeds them to the engines by destination port,
//! and sends what the engines answer in batches. ([`Stack::kernel`] has no engine: its task
//! serves the kernel's sockets.) Handles leave what they want to it:
//!
//! - What is sent goes to a small send queue of the association, from which the task feeds the engine as
//!   long as its send buffer has room. When the send queue is full, senders wait.
//! - What is received stays in the engine, where it fills the window that the peer sees, but for
//!   one inbox's worth that waits for the application. When nobody receives, the peer stops.
//!
//! A handle that has several messages at once ([`Association::try_send_all`]) does the task's work by itself where
//! nobody else is at it, so that they leave without a change of threads.
//!
//! So nothing between two applications grows without bound, and a slow receiver slows its sender.
//!
//! With several workers, each association has one owner, which its verification tag names. The kernel steers UDP datagrams by
//! the tag, a packet that arrives elsewhere is handed over once, and a directory finds the owner for INITs and for other
//! paths (`worker_group`). A port on raw IP is claimed by an abstract Unix socket, so that programs on one host know whose a
//! packet is (`claims`).
#![deny(unsafe_code)]

mod association;
mod association_shared;
mod carrier;
mod claims;
mod config;
mod directory;
mod driver;
mod endpoint;
mod engine_call;
mod error;
mod extension;
mod inbox;
mod kernel;
mod keys;
mod mailbox;
mod notifications;
mod ports;
mod send_queue;
mod service_queue;
mod stack;
mod stack_handle;
mod statistics;
mod style;
mod unix_sockets;
mod worker_group;

pub use association::{Association, AssociationId, FlushGuard};
pub use carrier::{interface_mtu, kernel_has_sctp};
pub use config::{
    DEFAULT_ENCAPSULATION_PORT, KernelCarrierConfig, RawCarrierConfig, UdpCarrierConfig,
};
pub use endpoint::{ConnectTo, Endpoint, EndpointEvent, OneToMany};
pub use error::{CloseCause, ConnectError};
pub use extension::ExtensionError;
pub use notifications::{Notification, Notifications};
pub use sctp::{
    AbandonedCount, AbandonedMessages, AddressChange, AddressChangeError, AddressChangeRefusal,
    AuthenticationIndication, BufferSplitting, CongestionControl, ErrorDetectionMethod, Extensions,
    KeyError, LocalAddressState, LossDetection, PathScheduler, PrPolicy, Profile,
    ReConfigurationError, ReConfigurationOutcome, ReConfigurationPolicy, StreamDirection,
    StreamError, StreamReset, StreamScheduler, UnknownBufferSplitting, UnknownLossDetection,
    UnknownPathScheduler, UnknownProfile,
};
pub use sctp::{
    AssociationConfig, AssociationState, AssociationStatistics, AssociationStatus,
    CannotStartCause, ConfigError, ConfigureError, EndpointConfig, EndpointStatistics, LostCause,
    PathAddress, PathChange, PathConfig, PathError, PathState, PathStatus, ReceivedMessage,
    RecoveryConfig, SendError, SendInfo,
};
pub use stack::Stack;
pub use statistics::{CarrierStatistics, StackStatistics};
pub use tap::Tap;
pub use udp_net::{Impairment, Jitter, LinkConfig};
