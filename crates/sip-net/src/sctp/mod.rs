//! SIP over SCTP (RFC 4168).
//!
//! An association is a [`Connection`](crate::connections::Connection) like one of TCP, with a task
//! that serves it. `stacks` has the SCTP ports and what carries them, `open` brings associations up,
//! `association` is the task, for which `messages` has what is plain and `secure` TLS (RFC 3436),
//! `outbox` is for those who send, `streams` chooses streams, `paths` knows the peer's addresses.

mod association;
mod messages;
mod open;
mod outbox;
mod over;
mod paths;
mod secure;
mod snapshot;
mod stacks;
mod streams;

pub(crate) use open::{accept, open};
pub(crate) use outbox::Outbox;
pub use over::{SctpOver, UnknownSctpOver};
pub use snapshot::SctpAssociation;
pub(crate) use stacks::{SctpListener, SctpStacks};
pub use streams::{StreamPolicy, UnknownStreamPolicy};
