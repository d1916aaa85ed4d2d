//! SIP over UDP: a datagram is a message (RFC 3261 section 18.3).

mod serve;
mod socket;
mod table;

pub(crate) use serve::UdpTransport;
pub(crate) use socket::{Binding, SipSocket};
pub(crate) use table::UdpSockets;
