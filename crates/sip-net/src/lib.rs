//! Driver: SIP transports UDP, TCP, TLS, SCTP, TLS over SCTP and WebSocket.
//!
//! [`Transports`] joins the SIP cores to the network (RFC 3261 section 18). What arrives comes out
//! of one bounded queue as [`Incoming`], each message with the [`Flow`](sip::Flow) that it came
//! along; what is to go out is handed to [`Transports::send`], which finds the connection or opens
//! one and never waits. TCP and TLS are cut into messages by Content-Length, SCTP carries one message
//! a user message (RFC 4168), WebSocket one a message of its own (RFC 7118), UDP one a datagram.
//! [`TlsConfig`] says what is shown and who is believed wherever TLS is used, [`MessageTap`] writes all
//! messages in the clear.
//!
//! Every queue, table and wait has a bound in [`Limits`]; what goes beyond it is refused and
//! counted in [`WireStatistics`].
//!
//! # Parts
//!
//! `inbound` hands a received message to the worker of its call. `outbound` chooses the socket or connection of a message, and
//! another one where sending fails; [`resolve`] finds the next hop of a URI (RFC 3263). `connections` is the table of all
//! connections and associations with its limits. Each transport is a folder: `udp`, `stream` (TCP, TLS, WebSocket) and
//! `sctp`, where a connection or association has a task of its own; `running` puts them together.
//!
//! Every message goes through the `send_queue` of its connection or socket. The thread that has pushed messages flushes the
//! queue, all of them in one system call, so that no other thread is woken. What the kernel does not take waits for the task:
//! a slow reader delays no other peer.
#![forbid(unsafe_code)]

mod activity;
mod address_scope;
mod awaiting_response;
mod budget;
mod config;
mod connection_end;
mod connections;
mod icmp;
mod impairments;
mod inbound;
mod incoming;
mod keep_alive;
mod listen;
mod listeners;
mod message_log;
mod outbound;
mod outbound_message;
pub mod resolve;
mod response_fallback;
mod routes;
mod running;
mod sctp;
mod send_queue;
mod start_error;
mod statistics;
mod stream;
mod tasks;
mod tls;
mod trace;
mod transports;
mod udp;
mod unread;

pub use ::tap::MessageTap;
pub use config::{
    Limits, SctpOver, SipNetConfig, StreamPolicy, UnknownSctpOver, UnknownStreamPolicy,
    WebSocketConfig,
};
pub use incoming::{CloseReason, Incoming, MalformedReason, SendError};
pub use listen::{Listen, ListenParseError};
pub use sctp::SctpAssociation;
pub use sctp_net::{
    AssociationState, AssociationStatistics, AssociationStatus, PathState, PathStatus, Profile, Tap,
};
pub use start_error::{StartError, StartProblem};
pub use statistics::WireStatistics;
pub use tls::{
    Authorities, CertificateFiles, ClientCertificates, TlsClientConfig, TlsConfig, TlsError,
    TlsServerConfig, UnknownClientCertificates,
};
pub use transports::Transports;
pub use udp_net::Impairment;
