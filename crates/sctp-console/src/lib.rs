//! Driver: SCTP associations by hand: typed messages, printed notifications, small services.
//!
//! [`run`] opens an endpoint, waits for peers or associates with one, and does what its input says, a
//! line at a time: a text is a message, `/paths`, `/shutdown` and the like are commands. Each thing that
//! happens is one line of output whose first character says what kind of line it is:
//!
//! - `*` a notification, with its name of RFC 6458 without the `SCTP_`, and the peer;
//! - `<` a message that arrived;
//! - `=` what the program tells of itself or in answer to a command;
//! - `!` what was asked for and not done, to standard error.
//!
//! What follows is `key=value`, the value in quotes where it is not one word, with the escapes of a
//! Rust string, so that no peer can end a line or speak to the terminal. People get shorter lines
//! ([`Terminal::for_people`]).
//!
//! Every association is served by a task of its own (receive, serve, tell), so that a peer that takes
//! nothing holds up nobody else. Nothing grows: input and output are threads behind short queues, and
//! what a slow reader does not take fills the window that the peer sees.
#![forbid(unsafe_code)]

mod address;
mod carrier;
mod command;
mod input;
mod notification;
mod output;
mod parameters;
mod program;
mod record;
mod report;
mod service;
mod session;
mod target;
mod terminal;

pub use address::{Address, AddressParseError};
pub use carrier::{Carrier, Over};
pub use command::commands_help;
pub use parameters::{PARAMETERS, Parameter, SettingError};
pub use program::{Error, Options, Outcome, run};
pub use service::{Service, UnknownService};
pub use target::{ResolveError, Target};
pub use terminal::Terminal;
