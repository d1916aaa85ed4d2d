//! One datagram to send.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;

/// A datagram to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Where it goes.
    pub destination: SocketAddr,
    /// The local address that it shall come from; the kernel chooses when `None`.
    pub source_ip: Option<IpAddr>,
    /// Its content.
    pub payload: Bytes,
}
