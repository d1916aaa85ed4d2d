//! A SIP user agent as a core without I/O: it registers accounts, makes and takes calls, transfers them, sends text (RFC
//! 3261, 3262, 3311, 3428, 3515, 3608, 3842, 3891, 4028, 5626, 5627).
//!
//! [`Ua`] is fed with messages, the user's wishes and the time. It is polled for messages to send, for events, and for
//! [queries](Query): by which way a URI is reached is for the driver to find out. Sound is nothing that it knows: session
//! descriptions go through it as octets.
//!
//! # Parts
//!
//! `ua/` has a file for each thing that a user agent does: `registering`, `calling` (INVITEs of ours), `called` (those that
//! come), `in_dialog` (all that happens in a call), `transferring`, `text`. `call` is what is known of a call, `account` what is
//! known of an account.

#![forbid(unsafe_code)]

mod account;
mod call;
mod config;
mod description;
mod event;
mod keep_alive;
mod proofs;
mod route;
mod session_timer;
mod ua;

pub use config::{AccountConfig, Credentials, UaConfig};
pub use description::Description;
pub use event::{
    AccountId, CallNumber, EndReason, RegistrationState, TextNumber, UaEvent, UnknownCall,
};
pub use route::{Query, QueryId, Route};
pub use ua::{FirstHop, Ua};
