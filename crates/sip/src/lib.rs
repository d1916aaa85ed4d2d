//! Core: SIP messages, transactions and dialogs (RFC 3261).
//!
//! Nothing here touches a socket, a clock or a random source: messages are read from and written to
//! [`bytes::Bytes`], and a [`Transmit`] says where the driver is to send them.
//!
//! A [`Message`] is one buffer with an index of its header fields. Values are parsed when they are
//! asked for ([`NameAddr`], [`Via`], [`Uri`]), and an edit leaves every octet alone that it is not
//! about.
#![forbid(unsafe_code)]

mod blocks;
mod content_length;
mod cseq;
pub mod dialog;
pub mod digest;
mod flow;
mod framing;
mod hop_by_hop;
mod line;
mod line_ends;
mod list;
mod message;
mod method;
mod name;
mod name_addr;
mod parameters;
mod runs;
mod scanner;
pub mod sdp;
mod start_line;
pub mod stun;
mod syntax;
mod token;
pub mod transaction;
mod uri;
pub mod user_agent;
mod via;
mod weighted;

pub use cseq::CSeq;
pub use flow::{ConnectionId, Flow, Peer, Target, Transmit, Transport, UnknownTransport};
pub use framing::{Frame, FramingError, FramingLimits, StreamReader};
pub use list::list_values;
pub use message::{Glance, Message, Onward, Values, Violation};
pub use method::Method;
pub use name::Name;
pub use name_addr::{Contact, Contacts, NameAddr, NameAddrError};
pub use parameters::{Parameter, Parameters};
pub use scanner::{
    HeaderField, MAXIMUM_FIELDS, ReadError, Scanner, begins_with_start_line, peek_call_id,
};
pub use start_line::StartLine;
pub use uri::{Host, Scheme, SipUri, TelUri, Uri, UriError, UriParameters};
pub use via::{Via, ViaError};
pub use weighted::by_weight;
