//! The kernel's SCTP behind the same handles as our own (RFC 6458).
//!
//! An endpoint is a socket in one-to-many style. One task serves all endpoints of a stack: it does for them what
//! `driver` does with our own engine, between the same boxes.

mod association;
mod calls;
mod driver;
mod establish;
mod layout;
mod notification;
mod opener;
mod options;
mod port;
mod receive;
mod received;
mod register;
mod socket;
mod status;
mod watch;

pub(crate) use driver::start;
pub(crate) use opener::Opener;
pub(crate) use socket::Socket;
