//! Core: SIP messages, transactions and dialogs (RFC 3261).
//!
//! Nothing here touches a socket, a clock or a random source: messages are read from and written to
//! [`bytes::Bytes`], and a [`Transmit`] says where the driver is to send them.
//!
//! A [`Message`] is one buffer with an index of its header fields. Values are parsed when they are
//! asked for ([`NameAddr`], [`Via`], [`Uri`]), and an edit leaves every octet alone that it is not
//! about.
//!
//! # Parts
//!
//! The scanner goes over a message once; the index of [`Message`] and the few values of a [`Peek`] come from it. A header field of
//! RFC 3261 is a file (`via`, `contact`, `cseq`), which reads, checks and writes its value. [`transaction`] has the four state
//! machines of section 17 with the corrections of RFC 6026, a file each, and the layer that finds the machine of a message.
//! [`dialog`] is section 12, [`digest`] authentication without a store (RFC 7616), and [`sdp`] session descriptions, read and
//! written without loss.
//!
//! A [`Flow`] is the way by which a message came (transport, addresses, connection, stream), a [`Target`] is where one goes.
#![forbid(unsafe_code)]

mod contact;
mod content_length;
mod cseq;
pub mod dialog;
pub mod digest;
mod flow;
mod framing;
mod hop_by_hop;
mod lexer;
mod line_ends;
mod list;
mod message;
mod method;
mod name;
mod name_addr;
mod parameters;
mod scanner;
pub mod sdp;
mod simd;
mod start_line;
pub mod stun;
mod syntax;
mod token;
pub mod transaction;
mod uri;
pub mod user_agent;
mod via;
mod violation;
mod weighted_order;

pub use contact::Contact;
pub use cseq::CSeq;
pub use flow::{ConnectionId, Flow, Peer, Target, Transmit, Transport, UnknownTransport};
pub use framing::{Frame, FramingError, FramingLimits, StreamReader};
pub use list::list_values;
pub use message::{Message, Peek, Values};
pub use method::Method;
pub use name::Name;
pub use name_addr::{NameAddr, NameAddrError, tag_of};
pub use parameters::{Parameter, Parameters};
pub use scanner::{
    HeaderField, MAXIMUM_FIELDS, ReadError, Scanner, begins_with_start_line, peek_call_id,
};
pub use start_line::StartLine;
pub use uri::{Host, Scheme, SipUri, TelUri, Uri, UriError, UriParameters};
pub use via::{MAGIC_COOKIE, Via, ViaError};
pub use violation::Violation;
pub use weighted_order::by_weight;
