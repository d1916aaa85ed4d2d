//! Driver: simulated hosts that speak SCTP and TCP side by side.
//!
//! A [`TransportHost`] is a host of [`sim`] with any number of SCTP endpoints and a TCP, behind the
//! same addresses, so that associations and connections meet in the same queues. Its users send
//! what a [`Load`] says, over either transport in the same way, and note when each message came
//! out at the other end ([`Delivery`]).
//!
//! TCP is smoltcp's with the congestion control of RFC 5681 (Reno), carried as whole IP packets: an
//! independent, plain TCP without SACK-based recovery (RFC 6675) and without window growth of its
//! own. What is measured against it on the virtual clock tells how protocols differ in kind, not
//! how any operating system's TCP would do. [`TcpStack`] is the adapter alone, for hosts of other
//! kinds.
#![forbid(unsafe_code)]

mod carry;
mod delivery;
mod host;
mod load;
mod message;
mod packet;
mod tcp;

pub use carry::{path_of, sctp_datagram};
pub use delivery::{Delivery, binned, goodput, percentile};
pub use host::{FlowId, FlowState, TransportHost};
pub use load::{Load, Message};
pub use message::HEADER as MESSAGE_HEADER;
pub use packet::Packet;
pub use tcp::{Congestion, TcpConfig, TcpEvent, TcpId, TcpStack};
