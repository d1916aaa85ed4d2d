//! Capture files to SIP messages and SCTP packets, and from there to calls, delays and losses.
//!
//! A [`Reader`] goes through one file, packet by packet, and hands over what it sees.
#![forbid(unsafe_code)]

mod channel;
mod event;
mod file;
mod input;
mod ip;
mod layers;
mod link;
mod pdu;
mod reader;
mod sctp;
mod settings;
mod start_line;
mod tcp;
mod teller;
mod websocket;

pub use event::{
    Carrier, Endpoint, SctpPacket, Seen, SipSummary, SummaryStart, Time, Trouble, UserMessage, What,
};
pub use reader::{Counts, OpenError, Reader};
pub use settings::{Limits, Settings};
