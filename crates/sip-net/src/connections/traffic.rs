//! What has gone over the TCP connections of a transport.

use std::net::SocketAddr;

use super::connection::Connection;
use crate::tcp_counts::TcpCounts;

/// What TCP connections carried, by the size of their IP header.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) ipv4: TcpCounts,
    pub(crate) ipv6: TcpCounts,
}

impl Traffic {
    pub(super) fn add(&mut self, connection: &Connection) {
        let counts = connection.tcp_counts();
        match connection.remote {
            SocketAddr::V4(_) => self.ipv4 += counts,
            SocketAddr::V6(_) => self.ipv6 += counts,
        }
    }
}
