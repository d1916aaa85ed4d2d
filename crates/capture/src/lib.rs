//! Capture files to SIP messages and SCTP packets, and from there to calls, delays and losses.
//!
//! A [`Reader`] goes through one file, packet by packet, and hands over what it sees.
#![forbid(unsafe_code)]

mod event;
mod reader;

pub use event::{
    Carrier, Endpoint, SctpPacket, Seen, SipSummary, SummaryStart, Time, Trouble, UserMessage, What,
};
pub use reader::{Counts, OpenError, Reader};
