//! SIP over SCTP (RFC 4168).
//!
//! An association is a [`Connection`](crate::connections::Connection) like one of TCP, with a task
//! that serves it. `stacks` has the SCTP ports and the stacks below them, `open` accepts and begins associations,
//! `serve` is the task: `messages` are plain SIP, `records` those of TLS (RFC 3436), with the sessions in `secure`.
//! `sender` flushes the connection's queue, `streams` chooses streams, `paths` follows the peer's addresses, `own_addresses`
//! changes ours.

mod association;
mod messages;
mod open;
mod own_addresses;
mod paths;
mod records;
mod secure;
mod sender;
mod serve;
mod snapshot;
mod stack_opener;
mod stacks;
mod streams;
mod transport;

pub(crate) use snapshot::Associations;
pub use snapshot::SctpAssociation;
pub(crate) use stacks::{SctpListener, SctpStacks};
pub(crate) use transport::SctpTransport;
