//! Driver: what goes over the wire, written as pcapng that Wireshark opens.
//!
//! A carrier of SCTP never sees the IP and UDP headers of its packets, so they are made up: the
//! addresses and ports are the real ones, lengths and checksums are right, and what nobody told
//! (hop limit, identification) has an ordinary value.
//!
//! Two writers of the same file: a [`Tap`] beside live traffic, which it never keeps waiting, and
//! a [`CaptureWriter`] that writes to anything and loses nothing, for simulations. Time is told by
//! the caller. A simulation counts it from any moment it likes, [`std::time::UNIX_EPOCH`] for one.
//!
//! A [`MessageTap`] writes messages of SIP and M3UA instead of packets, in the clear whatever they go through.
//!
//! Wireshark knows SCTP in UDP by port 9899; where neither end uses that, it wants to be told:
//! `-d udp.port==PORT,sctp`.
#![forbid(unsafe_code)]

mod blocks;
mod capture_writer;
mod headers;
mod live;
mod message;
mod record;
mod tap;

pub use capture_writer::CaptureWriter;
pub use message::{MessageProtocol, MessageRecord, MessageTap, PortKind};
pub use record::{Direction, Record, UdpPorts};
pub use tap::{Tap, TapStatistics};
