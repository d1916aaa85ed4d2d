//! SIP over SCTP (RFC 4168).
//!
//! An association is a [`Connection`](crate::connections::Connection) like one of TCP, with a task
//! that serves it. `stacks` has the SCTP ports and what carries them, `open` brings associations up,
//! `serve` is the task, for which `messages` has what is plain and `records` TLS (RFC 3436), whose sessions are in `secure`;
//! `sender` is for those who send, `streams` chooses streams, `paths` knows the peer's addresses.

mod association;
mod messages;
mod open;
mod opener;
mod paths;
mod records;
mod secure;
mod sender;
mod serve;
mod snapshot;
mod stacks;
mod streams;
mod transport;

pub(crate) use snapshot::Associations;
pub use snapshot::SctpAssociation;
pub(crate) use stacks::{SctpListener, SctpStacks};
pub(crate) use transport::SctpTransport;
